// SPDX-License-Identifier: MIT OR Apache-2.0

//! Routes to every host over all shortest paths, in few prefixes.
//!
//! Paths with the fewest links are shortest; hosts do not forward. A node's next hops to a host are
//! all ports on a shortest path (equal-cost multipath). Hosts with the same next hops share a route
//! if their addresses share a prefix of whole bytes; if several blocks below a shorter prefix
//! agree, the route has that prefix. The result is the tables of Al-Fares et al. §3.3. An edge
//! switch, for example, has its hosts, and all aggregation switches for the rest of `10.0.0.0/8`.
//!
//! If a switch's shorter prefix covers a block whose nodes all have longer routes, the block has an
//! unreachable route: the switch refuses packets to unused addresses in it. Without this route such
//! a packet would go up and down until its time to live ends.
//!
//! Routes lead to hosts only. A switch's address is a gateway for its neighbours and the source of
//! its own packets (in a traceroute), but not a destination.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::address::Address;
use crate::topology::{Kind, Node, NodeId, Port, Topology};

/// A block of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix<A> {
    /// The first address.
    pub address: A,
    /// Length in bits.
    pub length: u8,
}

impl<A: fmt::Display> fmt::Display for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// A next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NextHop<A> {
    /// The port, as an index into [`crate::Node::ports`].
    pub port: usize,
    /// The peer at that port. For IPv4, the peer's address, which is on no subnet of the port
    /// (`onlink`); for IPv6, the link-local address of the peer's port.
    pub gateway: A,
}

/// A line of a routing table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route<A> {
    /// The destination; the longest matching prefix wins.
    pub prefix: Prefix<A>,
    /// Equal-cost next hops, by port; if there is none, the prefix is unreachable.
    pub next_hops: Vec<NextHop<A>>,
}

/// A node's routing tables. Both have the same routes, line by line, shorter prefixes before the
/// longer ones that they contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// For IPv4.
    pub v4: Vec<Route<Ipv4Addr>>,
    /// For IPv6.
    pub v6: Vec<Route<Ipv6Addr>>,
}

/// Number of links to a node; [`UNREACHED`] if there is no path.
pub(crate) type Distances = Vec<u32>;
pub(crate) const UNREACHED: u32 = u32::MAX;

impl Topology {
    /// The number of links from `root` to each node, by index.
    pub(crate) fn distances(&self, root: NodeId) -> Distances {
        let mut distances = vec![UNREACHED; self.nodes.len()];
        distances[root.index()] = 0;
        let mut queue = VecDeque::from([root]);
        while let Some(id) = queue.pop_front() {
            let node = self.node(id);
            if node.kind == Kind::Host && id != root {
                continue;
            }
            let next = distances[id.index()] + 1;
            for port in &node.ports {
                let distance = &mut distances[port.peer.index()];
                if *distance == UNREACHED {
                    *distance = next;
                    queue.push_back(port.peer);
                }
            }
        }
        distances
    }

    /// The ports of `from` that are on a shortest path to `root`.
    pub(crate) fn ways<'a>(
        &'a self,
        from: NodeId,
        root: NodeId,
        distances: &'a Distances,
    ) -> impl Iterator<Item = usize> + 'a {
        let here = distances[from.index()];
        let ports = self.node(from).ports.iter().enumerate();
        ports.filter_map(move |(i, port)| {
            let forwards = port.peer == root || self.node(port.peer).kind == Kind::Switch;
            let nearer = distances[port.peer.index()].checked_add(1) == Some(here);
            (here != UNREACHED && forwards && nearer).then_some(i)
        })
    }

    /// The routing tables of every node, in the order of [`Topology::nodes`]. Hosts have a default
    /// route, so a packet to an address outside the fabric goes to a switch, which refuses it.
    pub fn routes(&self) -> Vec<Routes> {
        let mut tables: Vec<Table> = self.ids().map(|_| Table::default()).collect();
        for (root, hosts) in self.destinations() {
            let distances = self.distances(root);
            for (id, table) in self.ids().zip(&mut tables) {
                // A host with one port has a single path, so one destination is enough.
                let known = self.node(id).kind == Kind::Host
                    && self.node(id).ports.len() == 1
                    && !table.entries.is_empty();
                if id == root || known {
                    continue;
                }
                let set = table.intern(self.ways(id, root, &distances).collect());
                let entries = hosts.iter().filter(|&&host| host != id);
                table
                    .entries
                    .extend(entries.map(|&host| (self.node(host).address, set)));
            }
            if self.node(root).kind == Kind::Switch {
                for &host in &hosts {
                    let table = &mut tables[root.index()];
                    let port = self.node(host).ports[0].peer_port;
                    let set = table.intern(vec![port]);
                    table.entries.push((self.node(host).address, set));
                }
            }
        }
        self.ids()
            .zip(tables)
            .map(|(id, table)| self.finish(id, table))
            .collect()
    }

    /// Groups of hosts that share a search: hosts with a single link are searched through their
    /// switch, once for all of them.
    fn destinations(&self) -> Vec<(NodeId, Vec<NodeId>)> {
        let mut at_switch = vec![Vec::new(); self.nodes.len()];
        let mut destinations = Vec::new();
        for host in self.hosts() {
            match self.node(host).ports.as_slice() {
                [port] if self.node(port.peer).kind == Kind::Switch => {
                    at_switch[port.peer.index()].push(host);
                }
                _ => destinations.push((host, vec![host])),
            }
        }
        let of_switches = self
            .ids()
            .zip(at_switch)
            .filter(|(_, hosts)| !hosts.is_empty());
        destinations.extend(of_switches);
        destinations
    }

    /// Whether some of these ports lead to a host; hosts do not forward.
    fn leads_to_host(&self, node: &Node, ports: &[usize]) -> bool {
        let mut peers = ports.iter().map(|&port| self.node(node.ports[port].peer));
        peers.any(|peer| peer.kind == Kind::Host)
    }

    fn finish(&self, id: NodeId, mut table: Table) -> Routes {
        let node = self.node(id);
        // Removes hosts without a path: the switch is in another part of the graph.
        table
            .entries
            .retain(|&(_, set)| !table.sets[usize::from(set)].is_empty());
        table.entries.sort_unstable();
        let to_host = table
            .sets
            .iter()
            .map(|set| self.leads_to_host(node, set))
            .collect();
        let aggregation = Aggregation {
            to_host,
            default: node.kind == Kind::Host,
        };
        let mut routes = Routes::default();
        for line in aggregation.lines(&table.entries) {
            let ports = line
                .set
                .map_or(&[][..], |set| &table.sets[usize::from(set)]);
            let default = aggregation.default && line.depth == 0;
            let prefix = if default {
                Prefix {
                    address: Ipv4Addr::UNSPECIFIED,
                    length: 0,
                }
            } else {
                Prefix {
                    address: line.block.v4(),
                    length: 8 + 8 * line.depth,
                }
            };
            let next_hops = ports.iter().map(|&port| {
                let gateway = self.node(node.ports[port].peer).address.v4();
                NextHop { port, gateway }
            });
            routes.v4.push(Route {
                prefix,
                next_hops: next_hops.collect(),
            });
            let prefix = if default {
                Prefix {
                    address: Ipv6Addr::UNSPECIFIED,
                    length: 0,
                }
            } else {
                let length = if line.depth == NODE {
                    128
                } else {
                    48 + 8 * line.depth
                };
                Prefix {
                    address: line.block.v6(),
                    length,
                }
            };
            let next_hops = ports.iter().map(|&port| {
                let Port {
                    peer, peer_port, ..
                } = &node.ports[port];
                let gateway = self.node(*peer).ports[*peer_port].mac.link_local();
                NextHop { port, gateway }
            });
            routes.v6.push(Route {
                prefix,
                next_hops: next_hops.collect(),
            });
        }
        routes
    }
}

/// A set of ports, as an index into [`Table::sets`].
type SetId = u16;

/// The next hops of a node to each host.
#[derive(Default)]
struct Table {
    sets: Vec<Vec<usize>>,
    entries: Vec<(Address, SetId)>,
}

impl Table {
    fn intern(&mut self, set: Vec<usize>) -> SetId {
        let place = self
            .sets
            .iter()
            .position(|known| *known == set)
            .unwrap_or_else(|| {
                self.sets.push(set);
                self.sets.len() - 1
            });
        place as SetId
    }
}

/// The depth at which a block is a single node.
const NODE: u8 = 3;

/// A future route: `depth` 0 is the fabric, 1 a pod, 2 a switch's hosts, [`NODE`] a node.
struct Line {
    block: Address,
    depth: u8,
    /// `None`: unreachable.
    set: Option<SetId>,
}

/// The routes of one node.
///
/// These are the three steps of R. Draves et al., "Constructing optimal IP routing tables", INFOCOM
/// 1999, on a tree of bytes instead of bits. Next hops that the blocks below agree on move up; a
/// block whose parent has the same next hops gets no route. A block whose parts have no next hops
/// in common moves nothing up, so that unused addresses do not inherit the next hops of some part.
/// Next hops that lead to a host never move up, because a host accepts only its own address.
struct Aggregation {
    /// For each set, whether it leads to a host.
    to_host: Vec<bool>,
    /// Whether the node is a host, whose most common next hops are its default route.
    default: bool,
}

impl Aggregation {
    /// The routes that give each of `entries`, which are sorted, its next hops.
    fn lines(&self, entries: &[(Address, SetId)]) -> Vec<Line> {
        let mut lines = Vec::new();
        let default = if self.default {
            self.default_way(entries)
        } else {
            None
        };
        if default.is_some() {
            lines.push(Line {
                block: Address::new(0, 0, 0),
                depth: 0,
                set: default,
            });
        }
        self.descend(entries, 0, default, &mut lines);
        lines
    }

    /// The most common next hops; those over switches if there are any.
    fn default_way(&self, entries: &[(Address, SetId)]) -> Option<SetId> {
        let sets = entries.iter().map(|&(_, set)| set);
        let over_switches = sets.clone().filter(|&set| !self.to_host[usize::from(set)]);
        let most = most_common(over_switches, 1).first().copied();
        most.or_else(|| most_common(sets, 1).first().copied())
    }

    fn descend(
        &self,
        entries: &[(Address, SetId)],
        depth: u8,
        mut inherited: Option<SetId>,
        lines: &mut Vec<Line>,
    ) {
        let Some(&(first, _)) = entries.first() else {
            return;
        };
        let common = self.common(entries, depth);
        let said = inherited.is_some_and(|set| common.contains(&set));
        // A host's default route replaces the route of the whole fabric.
        let at_default = self.default && depth == 0;
        if !said && !at_default {
            let block = block(first, depth);
            if let Some(&set) = common.first() {
                inherited = Some(set);
                lines.push(Line {
                    block,
                    depth,
                    set: inherited,
                });
            } else if !self.default
                && inherited.is_some_and(|up| entries.iter().all(|&(_, set)| set != up))
            {
                inherited = None;
                lines.push(Line {
                    block,
                    depth,
                    set: None,
                });
            }
        }
        if depth < NODE {
            for part in parts(entries, depth) {
                self.descend(part, depth + 1, inherited, lines);
            }
        }
    }

    /// The next hops that suit the most parts of a block; lowest first.
    fn common(&self, entries: &[(Address, SetId)], depth: u8) -> Vec<SetId> {
        let forwards = |set: &SetId| !self.to_host[usize::from(*set)];
        match entries {
            [] => Vec::new(),
            [(_, set), ..] if depth == NODE => vec![*set],
            // The whole block agrees.
            [(_, first), rest @ ..] if rest.iter().all(|(_, set)| set == first) => {
                Some(*first).filter(forwards).into_iter().collect()
            }
            _ => {
                let below: Vec<_> = parts(entries, depth)
                    .map(|part| self.common(part, depth + 1))
                    .collect();
                let least = below.len().min(2);
                most_common(below.into_iter().flatten().filter(forwards), least)
            }
        }
    }
}

/// The most frequent members of `sets`, if they occur at least `least` times; lowest first.
fn most_common(sets: impl Iterator<Item = SetId>, least: usize) -> Vec<SetId> {
    let mut counts = BTreeMap::<SetId, usize>::new();
    for set in sets {
        *counts.entry(set).or_default() += 1;
    }
    let most = counts.values().copied().max().unwrap_or(0).max(least);
    counts
        .into_iter()
        .filter(|&(_, count)| count == most)
        .map(|(set, _)| set)
        .collect()
}

fn parts(entries: &[(Address, SetId)], depth: u8) -> impl Iterator<Item = &[(Address, SetId)]> {
    entries.chunk_by(move |(a, _), (b, _)| block(*a, depth + 1) == block(*b, depth + 1))
}

fn block(address: Address, depth: u8) -> Address {
    match depth {
        0 => Address::new(0, 0, 0),
        1 => Address::new(address.pod, 0, 0),
        2 => Address::new(address.pod, address.switch, 0),
        _ => address,
    }
}
