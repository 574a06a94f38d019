#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# leaf-spine:leaves=2,spines=2,hosts=1, as testbed golden
set -e

# host h0
ip netns add weft-golden-h0
ip netns exec weft-golden-h0 sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.accept_ra=0 net.ipv6.conf.default.router_solicitations=0 net.ipv6.conf.default.addr_gen_mode=1 net.ipv4.tcp_congestion_control=dctcp 'net.ipv4.tcp_rmem=4096 65536 131072'

# host h1
ip netns add weft-golden-h1
ip netns exec weft-golden-h1 sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.accept_ra=0 net.ipv6.conf.default.router_solicitations=0 net.ipv6.conf.default.addr_gen_mode=1 net.ipv4.tcp_congestion_control=dctcp 'net.ipv4.tcp_rmem=4096 65536 131072'

# leaf leaf0
ip netns add weft-golden-leaf0
ip netns exec weft-golden-leaf0 sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.accept_ra=0 net.ipv6.conf.default.router_solicitations=0 net.ipv6.conf.default.addr_gen_mode=1 net.ipv4.fib_multipath_hash_policy=3 net.ipv6.fib_multipath_hash_policy=3 net.ipv4.fib_multipath_hash_fields=0x37 net.ipv6.fib_multipath_hash_fields=0x37 net.ipv4.ip_forward=1 net.ipv4.ip_forward_update_priority=0 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.default.forwarding=0
ip netns exec weft-golden-leaf0 sysctl -q -e -w net.ipv4.fib_multipath_hash_seed=3

# leaf leaf1
ip netns add weft-golden-leaf1
ip netns exec weft-golden-leaf1 sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.accept_ra=0 net.ipv6.conf.default.router_solicitations=0 net.ipv6.conf.default.addr_gen_mode=1 net.ipv4.fib_multipath_hash_policy=3 net.ipv6.fib_multipath_hash_policy=3 net.ipv4.fib_multipath_hash_fields=0x37 net.ipv6.fib_multipath_hash_fields=0x37 net.ipv4.ip_forward=1 net.ipv4.ip_forward_update_priority=0 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.default.forwarding=0
ip netns exec weft-golden-leaf1 sysctl -q -e -w net.ipv4.fib_multipath_hash_seed=4

# spine spine0
ip netns add weft-golden-spine0
ip netns exec weft-golden-spine0 sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.accept_ra=0 net.ipv6.conf.default.router_solicitations=0 net.ipv6.conf.default.addr_gen_mode=1 net.ipv4.ip_forward=1 net.ipv4.ip_forward_update_priority=0 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.default.forwarding=0

# spine spine1
ip netns add weft-golden-spine1
ip netns exec weft-golden-spine1 sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.accept_ra=0 net.ipv6.conf.default.router_solicitations=0 net.ipv6.conf.default.addr_gen_mode=1 net.ipv4.ip_forward=1 net.ipv4.ip_forward_update_priority=0 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.default.forwarding=0

# links
ip -n weft-golden-leaf0 link add name h0 index 3 address 02:77:00:02:00:00 mtu 1500 txqueuelen 1000 gso_max_segs 1 numtxqueues 1 numrxqueues 1 type veth peer name leaf0 index 2 address 02:77:00:00:00:00 mtu 1500 txqueuelen 1000 gso_max_segs 1 numtxqueues 1 numrxqueues 1 netns weft-golden-h0
ip -n weft-golden-leaf0 link add name spine0 index 6 address 02:77:00:02:00:01 mtu 1500 txqueuelen 1000 gso_max_segs 1 numtxqueues 1 numrxqueues 1 type veth peer name leaf0 index 7 address 02:77:00:04:00:00 mtu 1500 txqueuelen 1000 gso_max_segs 1 numtxqueues 1 numrxqueues 1 netns weft-golden-spine0
ip -n weft-golden-leaf0 link add name spine1 index 8 address 02:77:00:02:00:02 mtu 1500 txqueuelen 1000 gso_max_segs 1 numtxqueues 1 numrxqueues 1 type veth peer name leaf0 index 9 address 02:77:00:05:00:00 mtu 1500 txqueuelen 1000 gso_max_segs 1 numtxqueues 1 numrxqueues 1 netns weft-golden-spine1
ip -n weft-golden-leaf1 link add name h1 index 5 address 02:77:00:03:00:00 mtu 1500 txqueuelen 1000 gso_max_segs 1 numtxqueues 1 numrxqueues 1 type veth peer name leaf1 index 4 address 02:77:00:01:00:00 mtu 1500 txqueuelen 1000 gso_max_segs 1 numtxqueues 1 numrxqueues 1 netns weft-golden-h1
ip -n weft-golden-leaf1 link add name spine0 index 10 address 02:77:00:03:00:01 mtu 1500 txqueuelen 1000 gso_max_segs 1 numtxqueues 1 numrxqueues 1 type veth peer name leaf1 index 11 address 02:77:00:04:00:01 mtu 1500 txqueuelen 1000 gso_max_segs 1 numtxqueues 1 numrxqueues 1 netns weft-golden-spine0
ip -n weft-golden-leaf1 link add name spine1 index 12 address 02:77:00:03:00:02 mtu 1500 txqueuelen 1000 gso_max_segs 1 numtxqueues 1 numrxqueues 1 type veth peer name leaf1 index 13 address 02:77:00:05:00:01 mtu 1500 txqueuelen 1000 gso_max_segs 1 numtxqueues 1 numrxqueues 1 netns weft-golden-spine1

# host h0
tc -n weft-golden-h0 qdisc add dev leaf0 root handle 1: wire rate 10gbit delay 2700ns
tc -n weft-golden-h0 qdisc add dev leaf0 parent 1: handle 10: pfifo limit 1000
ip -n weft-golden-h0 link set dev leaf0 up
ip -n weft-golden-h0 link set dev lo up
ip -n weft-golden-h0 address add 10.0.0.2/32 dev lo
ip -n weft-golden-h0 address add fd77:6566:7400::2/128 dev lo nodad
ip -n weft-golden-h0 neighbour add 10.0.0.1 lladdr 02:77:00:02:00:00 dev leaf0 nud permanent
ip -n weft-golden-h0 neighbour add fe80::77:ff:fe02:0 lladdr 02:77:00:02:00:00 dev leaf0 nud permanent
ip -n weft-golden-h0 route add 0.0.0.0/0 proto static initcwnd 12 quickack 1 rto_min 45ms via 10.0.0.1 dev leaf0 onlink
ip -n weft-golden-h0 route add ::/0 proto static initcwnd 12 quickack 1 rto_min 45ms via fe80::77:ff:fe02:0 dev leaf0 onlink

# host h1
tc -n weft-golden-h1 qdisc add dev leaf1 root handle 1: wire rate 10gbit delay 2700ns
tc -n weft-golden-h1 qdisc add dev leaf1 parent 1: handle 10: pfifo limit 1000
ip -n weft-golden-h1 link set dev leaf1 up
ip -n weft-golden-h1 link set dev lo up
ip -n weft-golden-h1 address add 10.0.1.2/32 dev lo
ip -n weft-golden-h1 address add fd77:6566:7400:1::2/128 dev lo nodad
ip -n weft-golden-h1 neighbour add 10.0.1.1 lladdr 02:77:00:03:00:00 dev leaf1 nud permanent
ip -n weft-golden-h1 neighbour add fe80::77:ff:fe03:0 lladdr 02:77:00:03:00:00 dev leaf1 nud permanent
ip -n weft-golden-h1 route add 0.0.0.0/0 proto static initcwnd 12 quickack 1 rto_min 45ms via 10.0.1.1 dev leaf1 onlink
ip -n weft-golden-h1 route add ::/0 proto static initcwnd 12 quickack 1 rto_min 45ms via fe80::77:ff:fe03:0 dev leaf1 onlink

# leaf leaf0
tc -n weft-golden-leaf0 qdisc add dev h0 root handle 1: wire rate 10gbit delay 2700ns
tc -n weft-golden-leaf0 qdisc add dev h0 parent 1: handle 10: red limit 300k min 30000 max 30001 avpkt 1500 burst 21 ecn bandwidth 10gbit
ip -n weft-golden-leaf0 link set dev h0 up
tc -n weft-golden-leaf0 qdisc add dev spine0 root handle 1: wire rate 40gbit delay 200ns
tc -n weft-golden-leaf0 qdisc add dev spine0 parent 1: handle 10: red limit 300k min 30000 max 30001 avpkt 1500 burst 21 ecn bandwidth 10gbit
ip -n weft-golden-leaf0 link set dev spine0 up
tc -n weft-golden-leaf0 qdisc add dev spine1 root handle 1: wire rate 40gbit delay 200ns
tc -n weft-golden-leaf0 qdisc add dev spine1 parent 1: handle 10: red limit 300k min 30000 max 30001 avpkt 1500 burst 21 ecn bandwidth 10gbit
ip -n weft-golden-leaf0 link set dev spine1 up
ip -n weft-golden-leaf0 link set dev lo up
ip -n weft-golden-leaf0 address add 10.0.0.1/32 dev lo
ip -n weft-golden-leaf0 address add fd77:6566:7400::1/128 dev lo nodad
ip -n weft-golden-leaf0 neighbour add 10.0.0.2 lladdr 02:77:00:00:00:00 dev h0 nud permanent
ip -n weft-golden-leaf0 neighbour add fe80::77:ff:fe00:0 lladdr 02:77:00:00:00:00 dev h0 nud permanent
ip -n weft-golden-leaf0 neighbour add 10.1.0.1 lladdr 02:77:00:04:00:00 dev spine0 nud permanent
ip -n weft-golden-leaf0 neighbour add fe80::77:ff:fe04:0 lladdr 02:77:00:04:00:00 dev spine0 nud permanent
ip -n weft-golden-leaf0 neighbour add 10.1.1.1 lladdr 02:77:00:05:00:00 dev spine1 nud permanent
ip -n weft-golden-leaf0 neighbour add fe80::77:ff:fe05:0 lladdr 02:77:00:05:00:00 dev spine1 nud permanent
ip -n weft-golden-leaf0 route add 10.0.0.2/32 proto static via 10.0.0.2 dev h0 onlink
ip -n weft-golden-leaf0 route add 10.0.1.0/24 proto static nexthop via 10.1.0.1 dev spine0 onlink nexthop via 10.1.1.1 dev spine1 onlink
ip -n weft-golden-leaf0 route add fd77:6566:7400::2/128 proto static via fe80::77:ff:fe00:0 dev h0 onlink
ip -n weft-golden-leaf0 route add fd77:6566:7400:1::/64 proto static nexthop via fe80::77:ff:fe04:0 dev spine0 onlink nexthop via fe80::77:ff:fe05:0 dev spine1 onlink

# leaf leaf1
tc -n weft-golden-leaf1 qdisc add dev h1 root handle 1: wire rate 10gbit delay 2700ns
tc -n weft-golden-leaf1 qdisc add dev h1 parent 1: handle 10: red limit 300k min 30000 max 30001 avpkt 1500 burst 21 ecn bandwidth 10gbit
ip -n weft-golden-leaf1 link set dev h1 up
tc -n weft-golden-leaf1 qdisc add dev spine0 root handle 1: wire rate 40gbit delay 200ns
tc -n weft-golden-leaf1 qdisc add dev spine0 parent 1: handle 10: red limit 300k min 30000 max 30001 avpkt 1500 burst 21 ecn bandwidth 10gbit
ip -n weft-golden-leaf1 link set dev spine0 up
tc -n weft-golden-leaf1 qdisc add dev spine1 root handle 1: wire rate 40gbit delay 200ns
tc -n weft-golden-leaf1 qdisc add dev spine1 parent 1: handle 10: red limit 300k min 30000 max 30001 avpkt 1500 burst 21 ecn bandwidth 10gbit
ip -n weft-golden-leaf1 link set dev spine1 up
ip -n weft-golden-leaf1 link set dev lo up
ip -n weft-golden-leaf1 address add 10.0.1.1/32 dev lo
ip -n weft-golden-leaf1 address add fd77:6566:7400:1::1/128 dev lo nodad
ip -n weft-golden-leaf1 neighbour add 10.0.1.2 lladdr 02:77:00:01:00:00 dev h1 nud permanent
ip -n weft-golden-leaf1 neighbour add fe80::77:ff:fe01:0 lladdr 02:77:00:01:00:00 dev h1 nud permanent
ip -n weft-golden-leaf1 neighbour add 10.1.0.1 lladdr 02:77:00:04:00:01 dev spine0 nud permanent
ip -n weft-golden-leaf1 neighbour add fe80::77:ff:fe04:1 lladdr 02:77:00:04:00:01 dev spine0 nud permanent
ip -n weft-golden-leaf1 neighbour add 10.1.1.1 lladdr 02:77:00:05:00:01 dev spine1 nud permanent
ip -n weft-golden-leaf1 neighbour add fe80::77:ff:fe05:1 lladdr 02:77:00:05:00:01 dev spine1 nud permanent
ip -n weft-golden-leaf1 route add 10.0.0.0/24 proto static nexthop via 10.1.0.1 dev spine0 onlink nexthop via 10.1.1.1 dev spine1 onlink
ip -n weft-golden-leaf1 route add 10.0.1.2/32 proto static via 10.0.1.2 dev h1 onlink
ip -n weft-golden-leaf1 route add fd77:6566:7400::/64 proto static nexthop via fe80::77:ff:fe04:1 dev spine0 onlink nexthop via fe80::77:ff:fe05:1 dev spine1 onlink
ip -n weft-golden-leaf1 route add fd77:6566:7400:1::2/128 proto static via fe80::77:ff:fe01:0 dev h1 onlink

# spine spine0
tc -n weft-golden-spine0 qdisc add dev leaf0 root handle 1: wire rate 40gbit delay 200ns
tc -n weft-golden-spine0 qdisc add dev leaf0 parent 1: handle 10: red limit 300k min 30000 max 30001 avpkt 1500 burst 21 ecn bandwidth 10gbit
ip -n weft-golden-spine0 link set dev leaf0 up
tc -n weft-golden-spine0 qdisc add dev leaf1 root handle 1: wire rate 40gbit delay 200ns
tc -n weft-golden-spine0 qdisc add dev leaf1 parent 1: handle 10: red limit 300k min 30000 max 30001 avpkt 1500 burst 21 ecn bandwidth 10gbit
ip -n weft-golden-spine0 link set dev leaf1 up
ip -n weft-golden-spine0 link set dev lo up
ip -n weft-golden-spine0 address add 10.1.0.1/32 dev lo
ip -n weft-golden-spine0 address add fd77:6566:7400:100::1/128 dev lo nodad
ip -n weft-golden-spine0 neighbour add 10.0.0.1 lladdr 02:77:00:02:00:01 dev leaf0 nud permanent
ip -n weft-golden-spine0 neighbour add fe80::77:ff:fe02:1 lladdr 02:77:00:02:00:01 dev leaf0 nud permanent
ip -n weft-golden-spine0 neighbour add 10.0.1.1 lladdr 02:77:00:03:00:01 dev leaf1 nud permanent
ip -n weft-golden-spine0 neighbour add fe80::77:ff:fe03:1 lladdr 02:77:00:03:00:01 dev leaf1 nud permanent
ip -n weft-golden-spine0 route add 10.0.0.0/24 proto static via 10.0.0.1 dev leaf0 onlink
ip -n weft-golden-spine0 route add 10.0.1.0/24 proto static via 10.0.1.1 dev leaf1 onlink
ip -n weft-golden-spine0 route add fd77:6566:7400::/64 proto static via fe80::77:ff:fe02:1 dev leaf0 onlink
ip -n weft-golden-spine0 route add fd77:6566:7400:1::/64 proto static via fe80::77:ff:fe03:1 dev leaf1 onlink

# spine spine1
tc -n weft-golden-spine1 qdisc add dev leaf0 root handle 1: wire rate 40gbit delay 200ns
tc -n weft-golden-spine1 qdisc add dev leaf0 parent 1: handle 10: red limit 300k min 30000 max 30001 avpkt 1500 burst 21 ecn bandwidth 10gbit
ip -n weft-golden-spine1 link set dev leaf0 up
tc -n weft-golden-spine1 qdisc add dev leaf1 root handle 1: wire rate 40gbit delay 200ns
tc -n weft-golden-spine1 qdisc add dev leaf1 parent 1: handle 10: red limit 300k min 30000 max 30001 avpkt 1500 burst 21 ecn bandwidth 10gbit
ip -n weft-golden-spine1 link set dev leaf1 up
ip -n weft-golden-spine1 link set dev lo up
ip -n weft-golden-spine1 address add 10.1.1.1/32 dev lo
ip -n weft-golden-spine1 address add fd77:6566:7400:101::1/128 dev lo nodad
ip -n weft-golden-spine1 neighbour add 10.0.0.1 lladdr 02:77:00:02:00:02 dev leaf0 nud permanent
ip -n weft-golden-spine1 neighbour add fe80::77:ff:fe02:2 lladdr 02:77:00:02:00:02 dev leaf0 nud permanent
ip -n weft-golden-spine1 neighbour add 10.0.1.1 lladdr 02:77:00:03:00:02 dev leaf1 nud permanent
ip -n weft-golden-spine1 neighbour add fe80::77:ff:fe03:2 lladdr 02:77:00:03:00:02 dev leaf1 nud permanent
ip -n weft-golden-spine1 route add 10.0.0.0/24 proto static via 10.0.0.1 dev leaf0 onlink
ip -n weft-golden-spine1 route add 10.0.1.0/24 proto static via 10.0.1.1 dev leaf1 onlink
ip -n weft-golden-spine1 route add fd77:6566:7400::/64 proto static via fe80::77:ff:fe02:2 dev leaf0 onlink
ip -n weft-golden-spine1 route add fd77:6566:7400:1::/64 proto static via fe80::77:ff:fe03:2 dev leaf1 onlink
