// SPDX-License-Identifier: MIT OR Apache-2.0

//! A fabric over several machines: each builds its part of the nodes. A link to a node of another
//! part is a VXLAN device (RFC 7348), with its own network identifier, in place of a veth pair's
//! end.
//!
//! Racks stay whole and are divided evenly, in their order. A switch without hosts is in the part
//! of most of the switches below it. If several parts have equally many, as for a spine, each part
//! gets such switches in turn.

use std::net::IpAddr;

use weft_topo::{Kind, NodeId, Topology};

use crate::error::{Result, invalid};
use crate::plan::{Division, Plan};
use crate::qdisc::Command;

/// VXLAN's identifiers have 24 bits, and 16 are enough for links.
const LINK_BITS: u32 = 16;

impl Plan {
    /// Leaves all but one part of the nodes, with their processes, to others: `machines` has the
    /// address of each part's machine, and `own`, from 0, is the index of this one. All machines
    /// plan the same topology, with the same names.
    ///
    /// # Errors
    ///
    /// If there is no such part, an address is given twice, some part would have no rack, a link
    /// would need an identifier beyond VXLAN's range, or a qdisc, or a setting of a congestion
    /// control, needs one clock for all hosts.
    pub fn set_part(&mut self, machines: &[IpAddr], own: usize) -> Result<()> {
        if own >= machines.len() {
            return invalid(format!(
                "there is no part {} of {}",
                own + 1,
                machines.len()
            ));
        }
        let twice = |(place, address): (usize, &IpAddr)| machines[..place].contains(address);
        if let Some((_, address)) = machines.iter().enumerate().find(|it| twice(*it)) {
            return invalid(format!("two parts cannot both be at {address}"));
        }
        if machines.iter().any(IpAddr::is_ipv4) && machines.iter().any(IpAddr::is_ipv6) {
            return invalid("machines of one fabric have addresses of one family");
        }
        if self.topology.links().len() >= 1 << LINK_BITS {
            return invalid("a fabric of more than 65,535 links cannot be divided");
        }
        let commands = self
            .nodes
            .iter()
            .flat_map(|node| node.qdiscs.iter().flatten());
        let mut kinds = commands.filter_map(Command::qdisc);
        let one_clock = |kind: &&str| weft_mechanisms::qdisc(kind).is_some_and(|it| it.one_clock);
        if let Some(kind) = kinds.find(one_clock) {
            return invalid(format!(
                "{kind} has one clock for all hosts, so its fabric is on one machine"
            ));
        }
        self.check_clocks()?;
        let of = divided(&self.topology, machines.len())?;
        let topology = &self.topology;
        self.processes.retain(|process| {
            let node = topology.find(&process.node);
            node.is_some_and(|node| of[node.index()] == own)
        });
        self.division = Some(Division {
            machines: machines.to_vec(),
            of,
            own,
        });
        Ok(())
    }

    /// Whether a node is built here, and not by another machine.
    ///
    /// # Panics
    ///
    /// If it is not in the topology.
    pub fn is_here(&self, node: NodeId) -> bool {
        self.elsewhere(node).is_none()
    }

    /// The number of links between nodes of this part, and of links from it to others.
    pub fn links_here_and_out(&self) -> (usize, usize) {
        let ends = self.topology.links().iter().map(|link| {
            let here = link.ends.iter().filter(|(node, _)| self.is_here(*node));
            here.count()
        });
        ends.fold((0, 0), |(inside, out), ends| {
            (
                inside + usize::from(ends == 2),
                out + usize::from(ends == 1),
            )
        })
    }

    /// The address of the machine that builds a node; `None`: this one.
    pub(crate) fn elsewhere(&self, node: NodeId) -> Option<IpAddr> {
        let division = self.division.as_ref()?;
        let part = division.of[node.index()];
        (part != division.own).then(|| division.machines[part])
    }

    /// The identifier of a link between machines: different for each link of a testbed, and for the
    /// links of most testbeds.
    pub(crate) fn network(&self, link: usize) -> u32 {
        // FNV-1a (G. Fowler, L. Noll, P. Vo), folded to the rest of 24 bits.
        let name = self.testbed.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        let folded = ((name >> 24) ^ (name >> 16) ^ (name >> 8) ^ name) & 0xff;
        (folded << LINK_BITS) | (link as u32 + 1)
    }
}

/// The part of each node.
fn divided(topology: &Topology, parts: usize) -> Result<Vec<usize>> {
    let nodes = topology.nodes();
    let has_hosts = |id: NodeId| {
        let ports = topology.node(id).ports.iter();
        ports
            .map(|port| topology.node(port.peer))
            .any(|it| it.kind == Kind::Host)
    };
    let racks: Vec<NodeId> = topology.switches().filter(|&id| has_hosts(id)).collect();
    if racks.len() < parts {
        return invalid(format!(
            "{} cannot be divided into {parts}: racks stay whole, and it has {}",
            topology.title(),
            racks.len()
        ));
    }
    let mut found: Vec<Option<usize>> = vec![None; nodes.len()];
    for (place, rack) in racks.iter().enumerate() {
        found[rack.index()] = Some(place * parts / racks.len());
    }
    for host in topology.hosts() {
        let switch = topology.node(host).ports.first();
        found[host.index()] = Some(
            switch
                .and_then(|port| found[port.peer.index()])
                .unwrap_or(0),
        );
    }
    // From the lowest layer up, which is their order.
    let mut turns = 0;
    for id in topology.ids() {
        if found[id.index()].is_some() {
            continue;
        }
        let mut below = vec![0; parts];
        for port in &topology.node(id).ports {
            if let Some(part) = found[port.peer.index()] {
                below[part] += 1;
            }
        }
        let most = below.iter().max().copied().unwrap_or(0);
        let places: Vec<usize> = (0..parts).filter(|&part| below[part] == most).collect();
        found[id.index()] = Some(places[turns % places.len()]);
        turns += usize::from(places.len() > 1);
    }
    Ok(found.into_iter().map(|part| part.unwrap_or(0)).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::Settings;
    use crate::qdisc;
    use crate::sysctl::Sysctl;

    fn topology(spec: &str) -> Topology {
        spec.parse::<weft_topo::Spec>().unwrap().topology()
    }

    fn machines(count: u8) -> Vec<IpAddr> {
        (1..=count).map(|n| [192, 0, 2, n].into()).collect()
    }

    #[test]
    fn pods_stay_together_and_the_core_is_shared() {
        let topology = topology("fat-tree:k=4");
        let of = divided(&topology, 2).unwrap();
        let part = |name: &str| of[topology.find(name).unwrap().index()];
        for (names, expected) in [
            (["h0", "h7", "edge3", "agg0", "agg3"], 0),
            (["h8", "h15", "edge4", "agg4", "agg7"], 1),
        ] {
            assert_eq!(names.map(part), [expected; 5], "{names:?}");
        }
        assert_eq!(["core0", "core1", "core2", "core3"].map(part), [0, 1, 0, 1]);
    }

    #[test]
    fn every_node_is_in_one_part_and_every_part_has_a_rack() {
        for spec in [
            "leaf-spine:leaves=5,spines=3,hosts=2",
            "fat-tree:k=6",
            "dumbbell",
        ] {
            let topology = topology(spec);
            for parts in 1..=2 {
                let of = divided(&topology, parts).unwrap();
                let used: BTreeSet<usize> = of.iter().copied().collect();
                assert_eq!(used, (0..parts).collect(), "{spec}");
                for host in topology.hosts() {
                    let rack = topology.node(host).ports[0].peer;
                    assert_eq!(of[host.index()], of[rack.index()], "{spec}");
                }
            }
        }
    }

    #[test]
    fn both_ends_of_a_link_have_one_identifier_and_no_other_link_has_it() {
        let topology = topology("fat-tree:k=4");
        let plan = |own| {
            let mut plan = Plan::new("two", &topology, Settings::default()).unwrap();
            plan.set_part(&machines(2), own).unwrap();
            plan
        };
        let (one, other) = (plan(0), plan(1));
        let all = 0..topology.links().len();
        // Each of the 8 aggregation switches has one of its 2 links to the core there.
        let links = [&one, &other].map(Plan::links_here_and_out);
        assert_eq!(links, [(20, 8), (20, 8)]);
        let networks: BTreeSet<u32> = all.clone().map(|link| one.network(link)).collect();
        assert_eq!(networks.len(), all.len());
        assert!(
            all.clone()
                .all(|link| one.network(link) == other.network(link))
        );
        assert!(
            networks
                .iter()
                .all(|network| (1..1 << 24).contains(network))
        );
        for id in topology.ids() {
            assert_ne!(one.is_here(id), other.is_here(id));
            assert_eq!(one.elsewhere(id).is_none(), one.is_here(id));
        }
    }

    #[test]
    fn an_indivisible_fabric_is_refused_with_one_sentence() {
        let refused = |spec: &str, machines: &[IpAddr], own| {
            let mut plan = Plan::new("x", &topology(spec), Settings::default()).unwrap();
            plan.set_part(machines, own).unwrap_err().to_string()
        };
        assert_eq!(
            refused("rack:hosts=4", &machines(2), 0),
            "rack:hosts=4 cannot be divided into 2: racks stay whole, and it has 1"
        );
        assert_eq!(
            refused("fat-tree:k=4", &machines(2), 2),
            "there is no part 3 of 2"
        );
        let twice = [machines(1), machines(1)].concat();
        assert_eq!(
            refused("fat-tree:k=4", &twice, 0),
            "two parts cannot both be at 192.0.2.1"
        );
        let mixed = [machines(1)[0], "2001:db8::1".parse().unwrap()];
        assert!(refused("fat-tree:k=4", &mixed, 0).contains("one family"));
    }

    #[test]
    fn nodes_that_need_one_clock_are_on_one_machine() {
        let topology = topology("fat-tree:k=4");
        let mut plan = Plan::new("x", &topology, Settings::default()).unwrap();
        let line = "qdisc add dev edge0 root fastpass address 10.0.0.1 first 10.0.0.1 hosts 2 arbiter 10.0.0.1 rate 10gbit";
        plan.set_qdiscs(|node, _, _| match node.name.as_str() {
            "h0" => qdisc::parse("lines", line),
            _ => Ok(Vec::new()),
        })
        .unwrap();
        let error = plan.set_part(&machines(2), 0).unwrap_err();
        assert!(error.to_string().contains("fastpass has one clock"));
        let pase = |settings: &[(&str, &str)]| {
            let sysctl = |(name, value): &(&str, &str)| {
                Sysctl::new(&format!("net.ipv4.tcp_pase.{name}"), value).unwrap()
            };
            let settings = Settings {
                host_sysctls: settings.iter().map(sysctl).collect(),
                ..Settings::default()
            };
            let mut plan = Plan::new("x", &topology, settings).unwrap();
            plan.set_part(&machines(2), 0).map_err(|it| it.to_string())
        };
        let error = pase(&[("criterion", "1"), ("ask_queues", "8")]).unwrap_err();
        assert!(
            error.contains("criterion=0") && error.contains("ask_queues=0"),
            "{error}"
        );
        for settings in [
            [("criterion", "0"), ("ask_queues", "8")],
            [("criterion", "2"), ("ask_queues", "8")],
            [("criterion", "1"), ("ask_queues", "0")],
            // By default, no arbitrator is asked.
            [("criterion", "1"), ("queues", "8")],
        ] {
            pase(&settings).unwrap_or_else(|error| panic!("{settings:?}: {error}"));
        }
        // The last one counts.
        pase(&[("criterion", "1"), ("ask_queues", "8"), ("criterion", "0")]).unwrap();
    }
}
