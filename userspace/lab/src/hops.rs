// SPDX-License-Identifier: MIT OR Apache-2.0

//! How many packets of a flow arrived at its receiver, and how many took more hops than necessary:
//! each switch subtracts one from the remaining hops of a packet. (Ports count detours; a packet
//! that goes back and forth has many.)

use std::collections::BTreeMap;

use weft_load::engine::FlowResult;
use weft_load::record::Hops;
use weft_topo::{NodeId, Topology};

use crate::listen::{Heard, Listener};

/// The possible numbers of hops with which a packet begins: Linux's default, and the maximum. A
/// packet whose remaining hops a switch reduces on purpose also took a detour at that switch.
const AT_FIRST: [u8; 2] = [64, 255];

/// The sender, its port, and the receiver: the port distinguishes flows.
type Flow = (NodeId, u16, NodeId);

/// The packets that arrived at each host.
pub(crate) struct Counted<'a> {
    topology: &'a Topology,
    /// The number of switches between two hosts, cached.
    between: BTreeMap<(NodeId, NodeId), u8>,
    flows: BTreeMap<Flow, Hops>,
}

impl<'a> Counted<'a> {
    pub(crate) fn new(topology: &'a Topology) -> Self {
        Self {
            topology,
            between: BTreeMap::new(),
            flows: BTreeMap::new(),
        }
    }

    /// The counts of the flows, in their order. `None` for a flow that used another's connection,
    /// or whose port another flow also used.
    pub(crate) fn of(&self, flows: &[FlowResult]) -> Vec<Option<Hops>> {
        let hosts: Vec<NodeId> = self.topology.hosts().collect();
        let key = |result: &FlowResult| -> Option<Flow> {
            let host = |number: u32| hosts.get(number as usize).copied();
            Some((host(result.flow.src)?, result.port?, host(result.flow.dst)?))
        };
        let keys: Vec<Option<Flow>> = flows.iter().map(key).collect();
        let mut owners: BTreeMap<Flow, usize> = BTreeMap::new();
        for key in keys.iter().flatten() {
            *owners.entry(*key).or_default() += 1;
        }
        let counted = |key: Option<Flow>| {
            let key = key.filter(|key| owners.get(key) == Some(&1))?;
            Some(self.flows.get(&key).copied().unwrap_or_default())
        };
        keys.into_iter().map(counted).collect()
    }
}

impl Listener for Counted<'_> {
    fn places(&self) -> Vec<(NodeId, NodeId)> {
        self.topology.hosts().map(|id| (id, id)).collect()
    }

    fn hear(&mut self, heard: &Heard) {
        let (from, to) = (heard.from, heard.at);
        let between = *self.between.entry((from, to)).or_insert_with(|| {
            let hops = self.topology.hops(from, to).unwrap_or(1);
            u8::try_from(hops.saturating_sub(1)).unwrap_or(u8::MAX)
        });
        let all = AT_FIRST.into_iter().find(|all| *all >= heard.hops_left);
        let taken = all.unwrap_or(u8::MAX) - heard.hops_left;
        let hops = self
            .flows
            .entry((from, heard.packet.port(), to))
            .or_default();
        hops.packets += 1;
        hops.detoured += u64::from(taken > between);
    }
}

#[cfg(test)]
mod tests {
    use weft_load::engine::Outcome;
    use weft_load::generate::{Class, Flow};
    use weft_net::Identity;

    use super::*;

    fn heard(counted: &mut Counted<'_>, from: &str, (to, port): (&str, u16), left: &[u8]) {
        let [from, at] = [from, to].map(|name| counted.topology.find(name).unwrap());
        let source = counted.topology.node(from).address.of_family(false);
        for &hops_left in left {
            let packet = Identity::of(source, port);
            counted.hear(&Heard {
                time_ns: 0,
                from,
                at,
                packet,
                hops_left,
            });
        }
    }

    fn result(src: u32, dst: u32, port: Option<u16>) -> FlowResult {
        let flow = Flow {
            id: 0,
            src,
            dst,
            size: 1,
            start_ns: 0,
            after: None,
            class: Class::Background,
            warm_up: false,
            deadline_ns: None,
            priority: None,
        };
        FlowResult {
            port,
            outcome: Outcome::Unfinished,
            ..FlowResult::new(flow)
        }
    }

    #[test]
    fn a_packet_with_more_hops_than_switches_on_its_path_was_detoured() {
        let topology = "fat-tree:k=4"
            .parse::<weft_topo::Spec>()
            .unwrap()
            .topology();
        let mut counted = Counted::new(&topology);
        // Five switches are between them, and the result is the same for both initial values;
        // neighbours have one between them.
        heard(
            &mut counted,
            "h0",
            ("h15", 1024),
            &[59, 59, 57, 250, 248, 12],
        );
        heard(&mut counted, "h1", ("h0", 1024), &[63, 61]);
        // Acknowledgements do not belong to the flow.
        heard(&mut counted, "h15", ("h0", 5000), &[59]);
        let flows = [
            result(0, 15, Some(1024)),
            result(1, 0, Some(1024)),
            result(2, 0, Some(1024)),
            result(0, 15, None),
        ];
        let hops = |packets, detoured| Some(Hops { packets, detoured });
        assert_eq!(
            counted.of(&flows),
            [hops(6, 3), hops(2, 1), hops(0, 0), None]
        );
        // For two flows with one port, the packets cannot be assigned.
        assert_eq!(counted.of(&[flows[0], flows[0]]), [None, None]);
    }
}
