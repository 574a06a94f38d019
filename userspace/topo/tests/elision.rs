// SPDX-License-Identifier: MIT OR Apache-2.0

//! Turns without backpressure: they interrupt every cycle, and paths that go up and then down keep
//! backpressure on every turn.

use proptest::prelude::*;
use weft_topo::{Kind, NodeId, Spec, Topology};

fn fabric(text: &str) -> Topology {
    text.parse::<Spec>().unwrap().topology()
}

/// `switches` in a ring, each with a host.
fn ring(switches: usize) -> Topology {
    let chord = [];
    graph(
        switches,
        (0..switches).map(|i| (i, (i + 1) % switches)),
        &chord,
    )
}

/// Switches with a host each, linked according to `links` and `more`.
fn graph(
    switches: usize,
    links: impl Iterator<Item = (usize, usize)>,
    more: &[(usize, usize)],
) -> Topology {
    let names = |letter| (0..switches).map(move |i| format!("\"{letter}{i}\""));
    let list = |letter| names(letter).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "rate = \"10gbit\"\nhosts = [{}]\nswitches = [{}]\n",
        list('h'),
        list('s')
    );
    let mut link = |a: String, b: String| {
        text += &format!("[[link]]\nends = [\"{a}\", \"{b}\"]\n");
    };
    (0..switches).for_each(|i| link(format!("h{i}"), format!("s{i}")));
    for (a, b) in links.chain(more.iter().copied()) {
        link(format!("s{a}"), format!("s{b}"));
    }
    Spec::from_toml(&text).unwrap().topology()
}

/// A port of a switch, where packets wait.
type Egress = (NodeId, usize);

/// The edges of the backpressure graph from a port: the ports to which its packets go on, and which
/// push it back.
fn onward(fabric: &Topology, (node, port): Egress, elide: bool) -> Vec<Egress> {
    let port = &fabric.node(node).ports[port];
    let (next, ingress) = (port.peer, port.peer_port);
    if fabric.node(next).kind == Kind::Host {
        return Vec::new();
    }
    let elision = fabric.elision();
    let all = 0..fabric.node(next).ports.len();
    let pushes_back =
        |egress: &usize| !elide || !elision.ingresses(next, *egress).contains(&ingress);
    all.filter(pushes_back)
        .map(|egress| (next, egress))
        .collect()
}

/// Whether the backpressure graph has a cycle: whether ports remain after repeatedly removing all
/// ports without a successor.
fn has_circle(fabric: &Topology, elide: bool) -> bool {
    let ports = |id| (0..fabric.node(id).ports.len()).map(move |port| (id, port));
    let mut left: Vec<(Egress, Vec<Egress>)> = fabric
        .switches()
        .flat_map(ports)
        .map(|port| (port, onward(fabric, port, elide)))
        .collect();
    loop {
        let before = left.len();
        let here: Vec<Egress> = left.iter().map(|(port, _)| *port).collect();
        for (_, onward) in &mut left {
            onward.retain(|port| here.contains(port));
        }
        left.retain(|(_, onward)| !onward.is_empty());
        if left.len() == before {
            return !left.is_empty();
        }
    }
}

/// The number of pairs of ports on a shortest path whose backpressure is elided.
fn elided_on_shortest_paths(fabric: &Topology) -> usize {
    let elision = fabric.elision();
    let mut count = 0;
    for id in fabric.switches() {
        let ports = &fabric.node(id).ports;
        for egress in 0..ports.len() {
            for ingress in elision.ingresses(id, egress) {
                let (from, to) = (ports[ingress].peer, ports[egress].peer);
                let is_on = |to_host: NodeId| {
                    let hops = |from| fabric.hops(from, to_host).unwrap();
                    hops(from) == hops(id) + 1 && hops(id) == hops(to) + 1
                };
                count += usize::from(fabric.hosts().any(is_on));
            }
        }
    }
    count
}

#[test]
fn in_a_clos_every_shortest_path_has_backpressure_and_misrouted_packets_close_no_cycle() {
    for spec in [
        "fat-tree:k=4",
        "leaf-spine:leaves=4,spines=3,hosts=2",
        "bfc-testbed",
    ] {
        let fabric = fabric(spec);
        assert!(
            has_circle(&fabric, false),
            "{spec}: packets may go back and forth"
        );
        assert!(!has_circle(&fabric, true), "{spec}");
        assert_eq!(elided_on_shortest_paths(&fabric), 0, "{spec}");
    }
}

#[test]
fn packets_that_turn_around_below_a_higher_layer_cause_no_backpressure() {
    let fabric = fabric("fat-tree:k=4");
    let elision = fabric.elision();
    let places = |node: &str, peers: &str| -> Vec<usize> {
        let ports = fabric.node(fabric.find(node).unwrap()).ports.iter();
        let named = ports
            .enumerate()
            .filter(|(_, port)| port.name.starts_with(peers));
        named.map(|(place, _)| place).collect()
    };
    for (node, up, down) in [("edge0", "agg", "h"), ("agg0", "core", "edge")] {
        let id = fabric.find(node).unwrap();
        for egress in places(node, up) {
            assert_eq!(elision.ingresses(id, egress), places(node, up), "{node}");
        }
        for egress in places(node, down) {
            assert_eq!(elision.ingresses(id, egress), [], "{node}");
        }
    }
    let core = fabric.find("core0").unwrap();
    for egress in 0..fabric.node(core).ports.len() {
        assert_eq!(elision.ingresses(core, egress), []);
    }
}

#[test]
fn a_ring_is_broken_at_one_switch() {
    let fabric = ring(5);
    assert!(has_circle(&fabric, false));
    assert!(!has_circle(&fabric, true));
    let elision = fabric.elision();
    let passes_by = |id: &NodeId| {
        let ports = 0..fabric.node(*id).ports.len();
        ports.into_iter().any(|egress| {
            elision
                .ingresses(*id, egress)
                .iter()
                .any(|it| *it != egress)
        })
    };
    let broken: Vec<NodeId> = fabric.switches().filter(passes_by).collect();
    assert_eq!(broken, [fabric.find("s0").unwrap()]);
}

#[test]
fn a_host_elides_nothing() {
    let fabric = ring(3);
    for host in fabric.hosts() {
        assert_eq!(fabric.elision().ingresses(host, 0), []);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_graph_has_a_cycle_of_backpressure(
        switches in 2_usize..9,
        more in prop::collection::vec((0_usize..9, 0_usize..9), 0..12),
    ) {
        // A chain, so that all hosts reach each other, and any further links.
        let more: Vec<_> = more
            .into_iter()
            .map(|(a, b)| (a % switches, b % switches))
            .filter(|(a, b)| a != b)
            .collect();
        let fabric = graph(switches, (1..switches).map(|i| (i - 1, i)), &more);
        prop_assert!(has_circle(&fabric, false));
        prop_assert!(!has_circle(&fabric, true));
    }
}
