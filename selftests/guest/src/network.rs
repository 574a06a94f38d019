// SPDX-License-Identifier: MIT OR Apache-2.0

//! Several namespaces, links between them, and routes: hosts and switches.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result};
use weft_ktap::Namespace;
use weft_mechanisms::bfc;
use weft_mechanisms::bfc::options::Options as BfcOptions;
use weft_mechanisms::bfc::stats::Stats;
use weft_mechanisms::wire::options as wire;

use crate::netlink::{Handle, Nest, Netlink, Qdisc, QdiscRequest, Verb, Veth};
use crate::packets::{Destination, Receiver, Sender};

/// Where a port's `wire` is, and its `bfc`.
pub(crate) const WIRE: Handle = Handle::new(1, 0);
pub(crate) const BFC: Handle = Handle::new(2, 0);
const LEAF: Handle = Handle::new(1, 1);

/// A link; the same number at both ends is the device's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    ends: [usize; 2],
}

impl Link {
    /// The hardware address of a node's end.
    pub(crate) fn address(&self, node: usize) -> [u8; 6] {
        let side = u8::from(self.ends[1] == node);
        let [_, _, high, low] = self.index.to_be_bytes();
        [2, 0, high, low, 0, side]
    }

    /// The node at the other end.
    fn other(&self, node: usize) -> usize {
        self.ends[usize::from(self.ends[0] == node)]
    }

    /// The device's name at both ends.
    pub(crate) fn name(&self) -> String {
        format!("p{}", self.index)
    }

    /// How to send to an address from a node's end.
    pub(crate) fn destination(&self, node: usize, ip: [u8; 4]) -> Destination {
        Destination {
            mac: self.address(self.other(node)),
            ip,
        }
    }
}

struct Node {
    // Before the namespace: a socket must not outlive it.
    netlink: Netlink,
    namespace: Namespace,
}

/// The address of a node.
pub(crate) fn ip(node: usize) -> [u8; 4] {
    [10, 9, 0, node as u8]
}

/// Namespaces by their numbers.
pub(crate) struct Network {
    nodes: Vec<Option<Node>>,
    links: u32,
}

impl Network {
    /// This many nodes, without links.
    pub(crate) fn new(nodes: usize) -> Result<Self> {
        let node = |_| {
            let namespace = Namespace::without_ipv6()?;
            let netlink = Netlink::open(&namespace)?;
            Ok(Some(Node { netlink, namespace }))
        };
        let nodes: Result<_> = (0..nodes).map(node).collect();
        Ok(Self {
            nodes: nodes?,
            links: 0,
        })
    }

    fn node(&mut self, node: usize) -> Result<&mut Node> {
        let there = self.nodes.get_mut(node).and_then(Option::as_mut);
        there.with_context(|| format!("there is no node {node}"))
    }

    /// Hosts at one switch, the node after them, without qdiscs; and the hosts' links.
    ///
    /// Each node has an address at its loopback device, and each host a route to each other one. A
    /// TCP segment is one packet. Each host has these settings below `net/ipv4`.
    pub(crate) fn star(hosts: usize, sysctls: &[(&str, &str)]) -> Result<(Self, Vec<Link>)> {
        let mut network = Self::new(hosts + 1)?;
        let switch = hosts;
        network.forward(switch)?;
        let mut links = Vec::new();
        for host in 0..hosts {
            let link = network.link(host, switch)?;
            let command = format!("link set dev {} gso_max_segs 1", link.name());
            for end in [host, switch] {
                network.namespace(end)?.ip(&command)?;
            }
            network.route(switch, &link, ip(host))?;
            links.push(link);
        }
        for node in 0..=hosts {
            let command = format!("addr add {}/32 dev lo", Ipv4Addr::from(ip(node)));
            let namespace = network.namespace(node)?;
            namespace.ip("link set dev lo up")?;
            namespace.ip(&command)?;
        }
        for (host, link) in links.iter().enumerate() {
            for other in (0..hosts).filter(|other| *other != host) {
                network.route(host, link, ip(other))?;
            }
            let namespace = network.namespace(host)?;
            for (name, value) in sysctls {
                namespace.write_sysctl(&format!("net/ipv4/{name}"), value)?;
            }
        }
        Ok((network, links))
    }

    /// A node's namespace.
    pub(crate) fn namespace(&self, node: usize) -> Result<&Namespace> {
        let there = self.nodes.get(node).and_then(Option::as_ref);
        let there = there.with_context(|| format!("there is no node {node}"))?;
        Ok(&there.namespace)
    }

    /// A node's routing socket.
    pub(crate) fn netlink(&mut self, node: usize) -> Result<&mut Netlink> {
        Ok(&mut self.node(node)?.netlink)
    }

    /// Deletes a node, with its ends of links and so their other ends.
    pub(crate) fn delete(&mut self, node: usize) {
        self.nodes[node] = None;
    }

    /// Makes a node a switch: it forwards packets.
    pub(crate) fn forward(&mut self, node: usize) -> Result<()> {
        let namespace = self.namespace(node)?;
        namespace.write_sysctl("net/ipv4/ip_forward", "1")?;
        // The rank stays with a packet that is forwarded.
        namespace.write_sysctl("net/ipv4/ip_forward_update_priority", "0")
    }

    /// Connects two nodes.
    pub(crate) fn link(&mut self, a: usize, b: usize) -> Result<Link> {
        self.links += 1;
        let link = Link {
            index: 100 + self.links,
            ends: [a, b],
        };
        let end = |node| Veth {
            name: link.name(),
            index: link.index,
            mac: link.address(node),
            tx_queues: 1,
        };
        let there = self.nodes[b].take().context("there is no such node")?;
        let here = self.node(a)?;
        let result = here.netlink.add_veth(&end(a), &end(b), &there.namespace);
        self.nodes[b] = Some(there);
        result?;
        for node in [a, b] {
            self.netlink(node)?.set_up(link.index, true)?;
        }
        Ok(link)
    }

    /// Routes an address by a link.
    pub(crate) fn route(&mut self, node: usize, link: &Link, ip: [u8; 4]) -> Result<()> {
        let Destination { mac, .. } = link.destination(node, ip);
        let address = Ipv4Addr::from(ip);
        let there = self.node(node)?;
        let command = format!("route add {address}/32 dev {}", link.name());
        there.namespace.ip(&command)?;
        there.netlink.add_neighbour(link.index, ip, mac)
    }

    /// Sends a request for a qdisc of a node's end of a link.
    pub(crate) fn qdisc(
        &mut self,
        verb: Verb,
        (node, link): (usize, &Link),
        (parent, handle): (Handle, Handle),
        kind: &str,
        options: Vec<u8>,
    ) -> Result<()> {
        let request = QdiscRequest {
            index: link.index,
            parent,
            handle,
            kind,
            options: Some(options),
        };
        self.netlink(node)?.qdisc(verb, &request)
    }

    /// Puts `wire` and `bfc` at a node's end of a link.
    pub(crate) fn port(
        &mut self,
        node: usize,
        link: &Link,
        wire: &wire::Options,
        bfc: &BfcOptions,
    ) -> Result<()> {
        let options = Nest::of(|nest| wire.put(nest));
        let place = (Handle::ROOT, WIRE);
        self.qdisc(Verb::Add, (node, link), place, wire::KIND, options)?;
        self.add_bfc(node, link, bfc)
    }

    /// Puts `bfc` behind the `wire` at a node's end of a link.
    pub(crate) fn add_bfc(&mut self, node: usize, link: &Link, bfc: &BfcOptions) -> Result<()> {
        let options = Nest::of(|nest| bfc.put(nest));
        self.qdisc(Verb::Add, (node, link), (LEAF, BFC), bfc::KIND, options)
            .context("adding bfc")
    }

    /// Changes `bfc`.
    pub(crate) fn change_bfc(&mut self, node: usize, link: &Link, bfc: &BfcOptions) -> Result<()> {
        let options = Nest::of(|nest| bfc.put(nest));
        let place = (LEAF, BFC);
        self.qdisc(Verb::Change, (node, link), place, bfc::KIND, options)
            .context("changing bfc")
    }

    /// Takes `bfc` away again.
    pub(crate) fn delete_bfc(&mut self, node: usize, link: &Link) -> Result<()> {
        self.netlink(node)?.delete_qdisc(link.index, LEAF)
    }

    /// The qdisc with this handle at a node's end of a link.
    pub(crate) fn qdisc_at(&mut self, node: usize, link: &Link, handle: Handle) -> Result<Qdisc> {
        let found = self.netlink(node)?.find_qdisc(link.index, handle)?;
        found.with_context(|| format!("there is no qdisc {handle:?} at {node}, {link:?}"))
    }

    /// The `bfc` at a node's end of a link.
    pub(crate) fn find(&mut self, node: usize, link: &Link) -> Result<Qdisc> {
        let qdiscs = self.netlink(node)?.qdiscs(link.index)?;
        let found = qdiscs.into_iter().find(|qdisc| qdisc.kind == bfc::KIND);
        found.with_context(|| format!("there is no bfc at {node}, {link:?}"))
    }

    /// Its statistics.
    pub(crate) fn bfc(&mut self, node: usize, link: &Link) -> Result<Stats> {
        let qdisc = self.find(node, link)?;
        Stats::from_bytes(&qdisc.app).context("short statistics")
    }

    /// A sender of crafted packets at a node's end of a link.
    pub(crate) fn sender(&mut self, node: usize, link: &Link) -> Result<Sender> {
        Sender::open(self.namespace(node)?, link.index)
    }

    /// A receiver of crafted packets at a node.
    pub(crate) fn receiver(&mut self, node: usize) -> Result<Receiver> {
        Receiver::open(self.namespace(node)?)
    }

    /// Takes a node's end of a link up or down.
    pub(crate) fn set_up(&mut self, node: usize, link: &Link, up: bool) -> Result<()> {
        self.netlink(node)?.set_up(link.index, up)
    }

    /// Runs `tc` at a node.
    pub(crate) fn tc(&mut self, node: usize, words: &str) -> Result<String> {
        self.namespace(node)?.command("tc", words)
    }
}
