// SPDX-License-Identifier: MIT OR Apache-2.0

//! The graph: nodes with ports, links between ports.

use crate::address::{Address, Mac};
use crate::units::{Delay, Rate};

/// Maximum length of a Linux network interface's name, in bytes.
pub const MAX_NAME: usize = 15;
/// Maximum number of nodes in a fabric.
pub const MAX_NODES: usize = 10_000;

/// A node, as an index into [`Topology::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u16);

impl NodeId {
    /// Its index in [`Topology::nodes`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Sends and receives; never forwards.
    Host,
    /// Forwards.
    Switch,
}

/// One direction of a link: the two parameters of a `wire` qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wire {
    /// The rate of serialization.
    pub rate: Rate,
    /// The propagation delay.
    pub delay: Delay,
}

/// A host or a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique; at most [`MAX_NAME`] bytes.
    pub name: String,
    /// Host or switch.
    pub kind: Kind,
    /// The layer: `host`, or the topology's name for such switches (`edge`, `agg`, `core`, …).
    pub layer: String,
    /// Its address, in both families.
    pub address: Address,
    /// Its ports, in the order of the links.
    pub ports: Vec<Port>,
}

/// A node's end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The interface's name: the peer's name, followed by a dash and a number if there is more than
    /// one link to that peer. Unique in its node; at most [`MAX_NAME`] bytes.
    pub name: String,
    /// Unique in the fabric.
    pub mac: Mac,
    /// The link's index in [`Topology::links`].
    pub link: usize,
    /// The node at the other end.
    pub peer: NodeId,
    /// The index of the other end in that node's [`Node::ports`].
    pub peer_port: usize,
}

/// A full-duplex link with the same rate and delay in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its two ends, the lower layer first: a node and an index into its [`Node::ports`].
    pub ends: [(NodeId, usize); 2],
    /// The name of such links in options: `host`, or `edge`, `core`, `fabric`, `bottleneck`.
    pub layer: String,
    /// Rate and delay of each direction.
    pub wire: Wire,
}

/// A group of hosts, for workloads that use groups (within a rack, from left to right, …).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Unique in the topology, for example `rack0`, `pod3`, `left`, `sender1`.
    pub name: String,
    /// Its hosts, in order; never empty.
    pub hosts: Vec<NodeId>,
}

/// The capacity of the cut that halves the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bisection {
    /// The rate at which the hosts of one half can send, in bit/s; if the halves differ, the
    /// smaller.
    pub offered: u64,
    /// The rate of the links across the cut in one direction, in bit/s.
    pub carried: u64,
}

impl Bisection {
    /// `offered / carried`: 1 is full bisection bandwidth. With 4, hosts that all send across the
    /// cut get a quarter of their links' rate. Below 1 the fabric is faster than the hosts.
    pub fn oversubscription(self) -> f64 {
        self.offered as f64 / self.carried as f64
    }
}

/// A fabric: nodes, links and their addresses. The specification determines every order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    pub(crate) title: String,
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
    pub(crate) groups: Vec<Group>,
    pub(crate) bisection: Option<Bisection>,
}

impl Topology {
    /// The specification as text; for a file, its title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Hosts first, from `h0`, then switches from the lowest layer up; for a file, the file's
    /// order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One of this topology's nodes.
    ///
    /// # Panics
    ///
    /// If `id` is from another topology and out of range.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The identifiers of all nodes, in order.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(|i| NodeId(i as u16))
    }

    /// The node with this name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.ids().find(|&id| self.node(id).name == name)
    }

    /// The hosts, in order.
    pub fn hosts(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.ids().filter(|&id| self.node(id).kind == Kind::Host)
    }

    /// The switches, in order.
    pub fn switches(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.ids().filter(|&id| self.node(id).kind == Kind::Switch)
    }

    /// The links, host links first; for a file, the file's order.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Groups of hosts. Every host is in a group, except a file's hosts without a link to a switch;
    /// a fat-tree's hosts are in a rack and in a pod.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The bisection, for regular topologies: not for a file's, nor for the BFC testbed, whose
    /// hosts are either senders or receivers.
    pub fn bisection(&self) -> Option<Bisection> {
        self.bisection
    }
}

/// Builds a topology. Callers have checked names, numbers and connectedness.
pub(crate) struct Builder {
    topology: Topology,
}

impl Builder {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        let title = title.into();
        let topology = Topology {
            title,
            nodes: Vec::new(),
            links: Vec::new(),
            groups: Vec::new(),
            bisection: None,
        };
        Self { topology }
    }

    fn node(&mut self, name: String, kind: Kind, layer: &str, address: Address) -> NodeId {
        let id = NodeId(self.topology.nodes.len() as u16);
        let layer = layer.to_owned();
        self.topology.nodes.push(Node {
            name,
            kind,
            layer,
            address,
            ports: Vec::new(),
        });
        id
    }

    /// The next host, `h0` first.
    pub(crate) fn host(&mut self, address: Address) -> NodeId {
        let name = format!("h{}", self.topology.nodes.len());
        self.named_host(name, address)
    }

    pub(crate) fn named_host(&mut self, name: String, address: Address) -> NodeId {
        self.node(name, Kind::Host, "host", address)
    }

    /// Switch `index` of `layer`, named by both.
    pub(crate) fn switch(&mut self, layer: &str, index: u32, address: Address) -> NodeId {
        self.named_switch(format!("{layer}{index}"), layer, address)
    }

    pub(crate) fn named_switch(&mut self, name: String, layer: &str, address: Address) -> NodeId {
        self.node(name, Kind::Switch, layer, address)
    }

    pub(crate) fn link(&mut self, layer: &str, lower: NodeId, upper: NodeId, wire: Wire) {
        let link = self.topology.links.len();
        let place = |id: NodeId| self.topology.nodes[id.index()].ports.len();
        let (at_lower, at_upper) = (place(lower), place(upper));
        for (id, port, peer, peer_port) in [
            (lower, at_lower, upper, at_upper),
            (upper, at_upper, lower, at_lower),
        ] {
            let name = self.topology.nodes[peer.index()].name.clone();
            let mac = Mac::of_port(id.0, port as u16);
            let port = Port {
                name,
                mac,
                link,
                peer,
                peer_port,
            };
            self.topology.nodes[id.index()].ports.push(port);
        }
        self.topology.links.push(Link {
            ends: [(lower, at_lower), (upper, at_upper)],
            layer: layer.to_owned(),
            wire,
        });
    }

    pub(crate) fn group(&mut self, name: impl Into<String>, hosts: &[NodeId]) {
        let group = Group {
            name: name.into(),
            hosts: hosts.to_vec(),
        };
        self.topology.groups.push(group);
    }

    pub(crate) fn build(mut self, bisection: Option<Bisection>) -> Topology {
        self.topology.bisection = bisection;
        for node in &mut self.topology.nodes {
            number_parallel_ports(&mut node.ports);
        }
        self.topology
    }
}

fn number_parallel_ports(ports: &mut [Port]) {
    let mut links_to = std::collections::BTreeMap::<NodeId, u32>::new();
    for port in ports.iter() {
        *links_to.entry(port.peer).or_default() += 1;
    }
    links_to.retain(|_, links| *links > 1);
    let mut seen = std::collections::BTreeMap::<NodeId, u32>::new();
    for port in ports {
        if links_to.contains_key(&port.peer) {
            let number = seen.entry(port.peer).or_default();
            port.name = format!("{}-{number}", port.name);
            *number += 1;
        }
    }
}
