#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# What a shortcut of the model clock's kernel (vm/um/README.md) could change: counters of routers with two paths and odd
# packets, taps, and flows of schemes with tags, sprays, detours, pauses and arbiters.
# `cargo xtask test` runs this with all shortcuts, with none, and without each, and compares all that leaves the guest.
set -eu

# a - r = s - b: r and s choose one of two links for each flow.
for node in a r s b; do
	ip netns add $node
	ip -n $node link set lo up
	ip netns exec $node sysctl -qw net.ipv4.fib_multipath_hash_policy=3 net.ipv4.fib_multipath_hash_fields=0x37 \
		net.ipv4.fib_multipath_hash_seed=7 net.ipv6.conf.default.disable_ipv6=1
done
for node in r s; do
	ip netns exec $node sysctl -qw net.ipv4.ip_forward=1
done
next=1
# A link: two devices with addresses and wires, each a permanent neighbour of the other.
link() {
	ip link add "$2" netns "$1" address "02:00:00:00:00:0$next" type veth \
		peer name "$4" netns "$3" address "02:00:00:00:01:0$next"
	for port in "$1 $2 $((2 * next)) 01" "$3 $4 $((2 * next + 1)) 00"; do
		# shellcheck disable=SC2086
		set -- $port
		ip -n "$1" addr add "10.0.0.$3/31" dev "$2"
		ip -n "$1" link set "$2" mtu "$mtu" up
		ip netns exec "$1" ethtool -K "$2" tso off gso off gro off >/dev/null
		tc -n "$1" qdisc add dev "$2" root handle 1: wire rate 10mbit delay 200us
		tc -n "$1" qdisc add dev "$2" parent 1: handle 2: pfifo limit 20
		ip -n "$1" neigh add "10.0.0.$(($3 ^ 1))" lladdr "02:00:00:00:$4:0$next" dev "$2" nud permanent
	done
	next=$((next + 1))
}
mtu=1500
link a right r left
link r high s high
# The router refuses or divides longer packets.
mtu=1400
link r low s low
mtu=1500
link s right b left
# A device that takes neither fragments nor packets without a checksum.
ip netns exec s ethtool -K low tx off sg off >/dev/null
ip -n a route add default via 10.0.0.3 dev right
ip -n b route add default via 10.0.0.8 dev left
ip -n r route add 10.0.0.8/31 nexthop via 10.0.0.5 dev high nexthop via 10.0.0.7 dev low
ip -n s route add 10.0.0.2/31 nexthop via 10.0.0.4 dev high nexthop via 10.0.0.6 dev low

a() {
	ip netns exec a "$@"
}
# Without an answer ping ends with 1.
say() {
	echo "\$ $*"
	"$@" 2>&1 | sed 's/ time=.*//; s/, time .*//; /^rtt/d' || true
}
say a ping -c 4 -i 0.01 10.0.0.9
say a ping -c 2 -i 0.01 -t 1 10.0.0.9
say a ping -c 2 -i 0.01 -t 2 10.0.0.9
say a ping -c 3 -i 0.01 -s 1450 -M probe 10.0.0.9
say a ping -c 3 -i 0.01 -s 3000 -M dont 10.0.0.9
say a ping -c 2 -i 0.01 -R 10.0.0.9
say a ping -c 2 -i 0.01 -T tsandaddr 10.0.0.9
say a ping -c 2 -i 0.01 -Q 0x28 10.0.0.9
say a ping -c 2 -i 0.01 10.9.9.9
# A source that is the router's own address.
ip -n a addr add 10.0.0.3/32 dev lo
say a ping -c 2 -i 0.01 -I 10.0.0.3 10.0.0.9
ip -n a addr del 10.0.0.3/32 dev lo
ip netns exec b iperf3 --server --daemon --port 5001
ip netns exec b iperf3 --server --daemon --port 5002
a iperf3 --client 10.0.0.9 --port 5001 --udp --bitrate 12M --time 1 --parallel 3 >"$OUT/udp" &
a iperf3 --client 10.0.0.9 --port 5002 --time 3 --parallel 4 --json >"$OUT/tcp" &
# Routes, neighbours, links and settings change while packets pass.
sleep 0.5
ip -n r route replace 10.0.0.8/31 nexthop via 10.0.0.5 dev high weight 3 nexthop via 10.0.0.7 dev low
sleep 0.5
ip -n r neigh replace 10.0.0.7 lladdr 02:00:00:00:01:09 dev low nud permanent
sleep 0.2
ip -n r neigh replace 10.0.0.7 lladdr 02:00:00:00:01:03 dev low nud permanent
sleep 0.2
ip -n s link set low down
sleep 0.2
ip -n s link set low up
ip -n s neigh replace 10.0.0.6 lladdr 02:00:00:00:00:03 dev low nud permanent
ip -n s route replace 10.0.0.2/31 nexthop via 10.0.0.4 dev high nexthop via 10.0.0.6 dev low
sleep 0.2
ip netns exec r sysctl -qw net.ipv4.ip_forward=0
sleep 0.1
ip netns exec r sysctl -qw net.ipv4.ip_forward=1
sleep 0.2
ip netns exec r sysctl -qw net.ipv4.conf.left.rp_filter=1
wait
for node in a r s b; do
	ip netns exec $node nstat -az >"$OUT/nstat-$node"
	ip -n $node -s -s link show >"$OUT/links-$node"
	tc -n $node -s qdisc show >"$OUT/qdiscs-$node"
	ip -n $node neigh show nud permanent | sort >"$OUT/neighbours-$node"
done

# Each scheme; of one, packets are followed from hop to hop.
run() {
	fabric=$1 scheme=$2
	shift 2
	# So few flows are not to be believed (1), but they are to be the same.
	weft run "$fabric" --dilation 1000 --scheme "$scheme" --workload uniform:1kB-200kB --load 0.8 --quiet \
		--out "$OUT" "$@" || [ $? -eq 1 ]
}
for scheme in droptail dctcp pfabric bfc; do
	run fat-tree:k=4 $scheme --flows 30
done
run fat-tree:k=4 dibs --flows 30 --hops --follow h0
# Their daemons cost more than their packets.
for scheme in pase fastpass; do
	run leaf-spine:leaves=2,spines=2,hosts=2 $scheme --flows 10
done
