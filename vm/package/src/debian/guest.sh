# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs in a guest that has of weft what the packages installed, and nothing else: what a person tries first.

set -eux
depmod
modprobe sch_pfabric
ip link add eth9 numtxqueues 1 type veth peer name peer
ip link set eth9 up
tc qdisc add dev eth9 root pfabric limit 30
tc -s qdisc show dev eth9 | tee /tmp/shown
grep -q 'qdisc pfabric .* root refcnt 2 limit 30p' /tmp/shown
ip link del eth9
modules=$(sed -n 's|^updates/.*/\([^/]*\)\.ko.*:.*|\1|p' "/lib/modules/$(uname -r)/modules.dep")
for name in $modules; do modprobe "$name"; done
grep -q '^sch_wire ' /proc/modules
grep -q '^tcp_pfabric ' /proc/modules
weft doctor || :
weft run rack:hosts=3 --dilation 1000 --scheme pfabric,droptail --workload web-search --load 0.4 --flows 10 --out /tmp/results
weft compare /tmp/results/*.jsonl
