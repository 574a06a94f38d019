#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""A routed fat-tree in Mininet 2.3, for `cargo xtask bench weave`.

    mininet_fat_tree.py K MBIT

builds it, says `up`, a line for each node (name, process, address) and an empty one, waits for a
line on standard input, and removes it. It is what a user of Mininet writes: a Topo, the
LinuxRouter of Mininet's examples, TCLink. Where Mininet leaves a choice, it is the faster one: no
controller, no switch, no wait, tbf (one command a port) instead of htb (two), all routes of a node
in one `ip -batch`.
"""

import sys

from mininet.link import TCLink
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import Node
from mininet.topo import Topo


class Router(Node):
    """A node that forwards, as in Mininet's examples/linuxrouter.py."""

    def config(self, **params):
        super().config(**params)
        self.cmd('sysctl net.ipv4.ip_forward=1')


class FatTree(Topo):
    """Of switches with k ports (Al-Fares et al., SIGCOMM 2008, section 3.1).

    Host I of edge switch E in pod P has 10.P.E.(4I+2)/30, its switch 4I+1. Links between switches
    have 172.16.0.0/30 and up.
    """

    def build(self, k, mbit):  # pylint: disable=arguments-differ
        half = k // 2
        self.shaper = {'bw': mbit, 'use_tbf': True}
        self.routes = {}
        self.between = 0
        cores = [self.router('core', n) for n in range(half * half)]
        for pod in range(k):
            aggs = [self.router('agg', pod * half + n) for n in range(half)]
            for n, agg in enumerate(aggs):
                up = []
                for core in cores[n * half:(n + 1) * half]:
                    below, above = self.trunk(agg, core)
                    self.routes[core].append(f'10.{pod}.0.0/16 via {below}')
                    up.append(above)
                self.routes[agg].append(multipath(up))
            for n in range(half):
                edge = self.router('edge', pod * half + n)
                up = []
                for agg in aggs:
                    below, above = self.trunk(edge, agg)
                    self.routes[agg].append(f'10.{pod}.{n}.0/24 via {below}')
                    up.append(above)
                self.routes[edge].append(multipath(up))
                for i in range(half):
                    net = f'10.{pod}.{n}'
                    host = self.addHost(f'h{(pod * half + n) * half + i}', ip=f'{net}.{4 * i + 2}/30',
                                        defaultRoute=f'via {net}.{4 * i + 1}')
                    self.addLink(host, edge, params2={'ip': f'{net}.{4 * i + 1}/30'}, **self.shaper)

    def router(self, layer, number):
        """Adds a switch, which routes."""
        # Without an address of its own: its ports have them.
        name = self.addHost(f'{layer}{number}', cls=Router, ip=None)
        self.routes[name] = []
        return name

    def trunk(self, lower, upper):
        """Adds a link between switches; gives its two addresses."""
        base = 4 * self.between
        self.between += 1
        below, above = (f'172.{16 + n // 65536}.{n // 256 % 256}.{n % 256}'
                        for n in (base + 1, base + 2))
        self.addLink(lower, upper, params1={'ip': below + '/30'}, params2={'ip': above + '/30'},
                     **self.shaper)
        return below, above


def multipath(gateways):
    """The default route over all of them."""
    return 'default' + ''.join(f' nexthop via {gateway}' for gateway in gateways)


def main():
    """Builds it, waits, removes it."""
    k, mbit = int(sys.argv[1]), float(sys.argv[2])
    setLogLevel('error')
    topo = FatTree(k=k, mbit=mbit)
    net = Mininet(topo=topo, link=TCLink, controller=None)
    net.start()
    for name, routes in topo.routes.items():
        lines = ' '.join(f"'route add {route}'" for route in routes)
        said = net[name].cmd(f"printf '%s\\n' {lines} | ip -batch -")
        if said.strip():
            sys.exit(f'{name}: {said}')
    print('up')
    sys.stdout.flush()
    for node in net.hosts:
        print(node.name, node.pid, node.IP())
    print(flush=True)
    sys.stdin.readline()
    net.stop()


if __name__ == '__main__':
    main()
