#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Two hosts and one wire each way, TCP and UDP at the same time over a pFabric queue, then every counter;
# a rack of hosts that weft weaves, and the times of its flows.
# `cargo xtask test` runs this many times with one seed and compares all that leaves the guest.
# With an argument, the last run draws its bar, on a terminal that nobody compares, and random numbers are drawn
# before it. Its flows are the same.
set -eu

ip netns add a
ip netns add b
ip link add eth0 netns a address 02:00:00:00:00:01 type veth peer name eth0 netns b address 02:00:00:00:00:02
ip -n a addr add 10.0.0.1/24 dev eth0
ip -n b addr add 10.0.0.2/24 dev eth0
for host in a b; do
	ip -n $host link set lo up
	ip -n $host link set eth0 up
	ip netns exec $host ethtool -K eth0 tso off gso off gro off >/dev/null
	tc -n $host qdisc add dev eth0 root handle 1: wire rate 10mbit delay 200us
	tc -n $host qdisc add dev eth0 parent 1: handle 2: pfabric limit 24
done

# What the seed decides.
cat /proc/sys/kernel/random/uuid
od -An -tx4 -N16 /dev/urandom

ip netns exec a ping -c 5 -i 0.05 10.0.0.2
ip netns exec b iperf3 --server --daemon --port 5001
ip netns exec b iperf3 --server --daemon --port 5002
ip netns exec a iperf3 --client 10.0.0.2 --port 5001 --udp --bitrate 6M --time 1 >"$OUT/udp" &
ip netns exec a iperf3 --client 10.0.0.2 --port 5002 --time 1 --json >"$OUT/tcp"
wait $!
tc -n a -s qdisc show
tc -n b -s -j qdisc show
ip netns exec a nstat -az >"$OUT/nstat"
cp /proc/slabinfo /proc/interrupts /proc/uptime "$OUT"
# When each packet of a random scenario arrives, in ns.
weft-selftests scenario >"$OUT/packets"
weft run rack:hosts=4 --dilation 100 --scheme droptail --workload uniform:1kB-50kB \
	--load 0.6 --flows 30 --quiet --out "$OUT"
# pFabric's switches take one of several paths by the kernel's random numbers.
if [ "${WEFT_CLOCK:-}" = model ]; then
	watched=--quiet
	if [ $# -gt 0 ]; then
		watched=
		head -c 100000 /dev/urandom >/dev/null
	fi
	weft run leaf-spine:leaves=2,spines=2,hosts=2 --dilation 100 --scheme pfabric --workload uniform:1kB-50kB \
		--load 0.6 --flows 30 $watched --out /tmp/last 2>/dev/tty1
	grep '"record":"flow"' /tmp/last/pfabric-seed1.jsonl >"$OUT/sprayed"
	grep -q . "$OUT/sprayed"
	# Sockets come and go, and the stock fq knows a socket by its address, which depends on the guest's files.
	for scheme in bbr ideal-fq-linux; do
		weft run leaf-spine:leaves=2,spines=2,hosts=2 --dilation 1000 --scheme $scheme --workload uniform:1kB-1MB \
			--load 0.9 --flows 200 --sample 0ns --quiet --out "$OUT"
	done
	# A fault starts processes during the run, and an arbiter that looks for faults acts at times that count from its start.
	# How long a start takes must not depend on the processor.
	weft run fat-tree:k=4 --dilation 1000 --scheme bfc-cc --workload uniform:1kB-1MB --load 0.4 --flows 200 \
		--fault '1ms agg0 down core0 1ms' --quiet --out "$OUT"
	weft run fat-tree:k=4 --dilation 1000 --scheme fastpass --set counted=4 --workload uniform:1kB-1MB --load 0.4 --flows 200 \
		--quiet --out "$OUT"
fi
