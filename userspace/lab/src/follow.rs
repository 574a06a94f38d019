// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets to a host, followed from node to node: the path of the one that took the most hops, as
//! K. Zarifis et al., DIBS, EuroSys 2014, Figure 1, has one.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use anyhow::Result;
use weft_load::record::{PacketPath, PathHop};
use weft_net::Identity;
use weft_topo::{NodeId, Topology};

use crate::error::usage;
use crate::listen::{Heard, Listener};

/// The maximum number of packets that are remembered before they arrive: most of them were dropped.
const OPEN: usize = 100_000;

/// The times at which a packet came to nodes, in ns of CLOCK_REALTIME.
type Visits = Vec<(u64, NodeId)>;

/// The known packets to a host.
pub(crate) struct Paths<'a> {
    topology: &'a Topology,
    to: NodeId,
    /// Each node's distance from the host in hops.
    away: BTreeMap<NodeId, usize>,
    open: BTreeMap<Identity, (NodeId, Visits)>,
    /// Those of them that came to the host, with the time.
    arrived: Vec<(u64, Identity)>,
    /// The sender of the longest path, and the path.
    longest: Option<(NodeId, Visits)>,
    packets: u64,
    detoured: u64,
}

impl<'a> Paths<'a> {
    pub(crate) fn new(topology: &'a Topology, to: NodeId) -> Self {
        let away = |id| topology.hops(id, to).unwrap_or(0) as usize;
        Self {
            topology,
            to,
            away: topology.ids().map(|id| (id, away(id))).collect(),
            open: BTreeMap::new(),
            arrived: Vec::new(),
            longest: None,
            packets: 0,
            detoured: 0,
        }
    }

    fn count(&mut self, from: NodeId, visits: Visits) {
        self.packets += 1;
        self.detoured += u64::from(visits.len() > self.away[&from]);
        let most = self.longest.as_ref().map_or(0, |(_, visits)| visits.len());
        if visits.len() > most {
            self.longest = Some((from, visits));
        }
    }

    /// The result; `None` if no packet arrived.
    pub(crate) fn end(mut self, missed: u64, dilation: NonZeroU32) -> Option<PacketPath> {
        self.settle();
        let (from, visits) = self.longest?;
        let name = |id: NodeId| self.topology.node(id).name.clone();
        let begun_ns = visits.first()?.0;
        let mut at = from;
        let hops = visits.iter().map(|&(time_ns, to)| {
            let hop = PathHop {
                after_ns: (time_ns - begun_ns) / u64::from(dilation.get()),
                from: name(at),
                to: name(to),
                detour: self.away[&to] >= self.away[&at],
            };
            at = to;
            hop
        });
        let hops = hops.collect();
        let came_by = |id: &NodeId| *id == from || visits.iter().any(|(_, node)| node == id);
        let layers = self.topology.layers().into_iter().map(|(_, nodes)| {
            let nodes = nodes.into_iter().filter(came_by);
            nodes.map(name).collect::<Vec<_>>()
        });
        Some(PacketPath {
            to: name(self.to),
            packets: self.packets,
            detoured: self.detoured,
            missed,
            layers: layers.filter(|layer| !layer.is_empty()).collect(),
            hops,
        })
    }
}

impl Listener for Paths<'_> {
    fn places(&self) -> Vec<(NodeId, NodeId)> {
        let nodes = self.topology.switches().chain([self.to]);
        nodes.map(|id| (id, self.to)).collect()
    }

    fn hear(&mut self, heard: &Heard) {
        let open = self.open.entry(heard.packet);
        let (_, visits) = open.or_insert_with(|| (heard.from, Visits::new()));
        visits.push((heard.time_ns, heard.at));
        if heard.at == self.to {
            self.arrived.push((heard.time_ns, heard.packet));
        }
    }

    /// A packet that has arrived at the host has passed all of its other nodes already.
    fn settle(&mut self) {
        self.arrived.sort_unstable();
        for (_, packet) in std::mem::take(&mut self.arrived) {
            if let Some((from, mut visits)) = self.open.remove(&packet) {
                visits.sort_unstable();
                self.count(from, visits);
            }
        }
        if self.open.len() > OPEN {
            let mut last: Vec<u64> = self
                .open
                .values()
                .filter_map(|(_, visits)| Some(visits.last()?.0))
                .collect();
            let (_, half, _) = last.select_nth_unstable(OPEN / 2);
            let half = *half;
            self.open
                .retain(|_, (_, visits)| visits.last().is_some_and(|(time, _)| *time > half));
        }
    }
}

/// Finds a host, so that packets to it can be followed.
///
/// # Errors
///
/// If there is no such host: one sentence.
pub(crate) fn host(topology: &Topology, name: &str) -> Result<NodeId> {
    let mut hosts = topology.hosts();
    match hosts.find(|&id| topology.node(id).name == name) {
        Some(id) => Ok(id),
        None => usage(format!(
            "--follow: there is no host `{name}`; hosts are h0, h1, …"
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn fabric() -> Topology {
        "fat-tree:k=4"
            .parse::<weft_topo::Spec>()
            .unwrap()
            .topology()
    }

    /// Lets packets from h15 appear at nodes at these times; the first field is the packet's
    /// number.
    fn seen(paths: &mut Paths<'_>, all: &[(u16, u64, &str)]) {
        for &(number, time_ns, node) in all {
            let from = host(paths.topology, "h15").unwrap();
            let source = paths.topology.node(from).address.of_family(false);
            let packet = Identity::of(source, number);
            paths.hear(&Heard {
                time_ns,
                from,
                at: paths.topology.find(node).unwrap(),
                packet,
                hops_left: 60,
            });
        }
    }

    #[test]
    fn the_packet_with_the_most_hops_is_kept_with_its_detours() {
        let topology = fabric();
        let mut paths = Paths::new(&topology, host(&topology, "h0").unwrap());
        // The readings are node by node, not in the order of time.
        seen(
            &mut paths,
            &[(1, 5_000, "h0"), (1, 1_000, "edge7"), (1, 4_000, "edge0")],
        );
        seen(
            &mut paths,
            &[(1, 2_000, "agg6"), (1, 2_500, "core0"), (1, 3_000, "agg0")],
        );
        paths.settle();
        assert_eq!((paths.packets, paths.detoured, paths.open.len()), (1, 0, 0));
        let detoured = [
            "edge7", "agg6", "core0", "agg0", "edge0", "agg1", "edge0", "agg0", "core1", "agg0",
            "edge0", "h0",
        ];
        for (place, node) in detoured.iter().enumerate() {
            seen(&mut paths, &[(2, 10_000 + 1_000 * place as u64, node)]);
        }
        // A path of the same length, but later; and a packet that never arrives.
        for (place, node) in detoured.iter().enumerate() {
            seen(&mut paths, &[(3, 90_000 + 1_000 * place as u64, node)]);
        }
        seen(&mut paths, &[(4, 1, "edge7")]);
        let path = paths.end(7, NonZeroU32::new(100).unwrap()).unwrap();
        assert_eq!((path.packets, path.detoured, path.missed), (3, 2, 7));
        let hops: Vec<String> = path
            .hops
            .iter()
            .map(|hop| format!("{} {}-{} {}", hop.after_ns, hop.from, hop.to, hop.detour))
            .collect();
        assert_eq!(hops[0], "0 h15-edge7 false");
        assert_eq!(hops[4], "40 agg0-edge0 false");
        assert_eq!(hops[5], "50 edge0-agg1 true");
        assert_eq!(hops[6], "60 agg1-edge0 false");
        assert_eq!(hops[8], "80 agg0-core1 true");
        assert_eq!(hops[11], "110 edge0-h0 false");
        let layers: Vec<String> = path.layers.iter().map(|layer| layer.join(" ")).collect();
        assert_eq!(
            layers,
            ["h0 h15", "edge0 edge7", "agg0 agg1 agg6", "core0 core1"]
        );
    }

    #[test]
    fn packets_that_never_arrive_do_not_fill_the_memory() {
        let topology = fabric();
        let mut paths = Paths::new(&topology, host(&topology, "h0").unwrap());
        for time in 0..3 * OPEN as u64 {
            let source = IpAddr::from((time as u128).to_be_bytes());
            let packet = Identity::of(source, 0);
            paths.hear(&Heard {
                time_ns: time,
                from: host(&topology, "h15").unwrap(),
                at: topology.find("edge7").unwrap(),
                packet,
                hops_left: 60,
            });
            if time % 1_000 == 0 {
                paths.settle();
            }
        }
        paths.settle();
        assert!(paths.open.len() <= OPEN, "{}", paths.open.len());
        // The latest packets may still arrive.
        assert!(
            paths
                .open
                .values()
                .all(|(_, visits)| visits[0].0 > OPEN as u64)
        );
        assert_eq!(paths.end(0, NonZeroU32::MIN), None);
    }

    #[test]
    fn packets_of_addresses_without_a_host_are_not_followed() {
        let error = host(&fabric(), "edge0").unwrap_err();
        assert!(crate::error::is_usage(&error));
        assert!(error.to_string().contains("no host `edge0`"), "{error}");
    }
}
