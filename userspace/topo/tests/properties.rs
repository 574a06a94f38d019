// SPDX-License-Identifier: MIT OR Apache-2.0

//! Properties of every fabric: routes lead to every host, names and addresses are unique, and the
//! number of paths is that of theory.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use weft_topo::topology::{MAX_NAME, MAX_NODES};
use weft_topo::{Kind, Node, NodeId, Prefix, Route, Routes, Spec, Topology};

/// An address family, with the operations that following routes needs.
trait Family: Copy + PartialEq + Into<IpAddr> {
    fn routes(routes: &Routes) -> &[Route<Self>];
    fn of(node: &Node) -> Self;
    /// The gateway address of `node` at one of its ports.
    fn gateway(node: &Node, port: usize) -> Self;
    fn covers(prefix: &Prefix<Self>, address: Self) -> bool;
}

impl Family for Ipv4Addr {
    fn routes(routes: &Routes) -> &[Route<Self>] {
        &routes.v4
    }
    fn of(node: &Node) -> Self {
        node.address.v4()
    }
    fn gateway(node: &Node, _: usize) -> Self {
        node.address.v4()
    }
    fn covers(prefix: &Prefix<Self>, address: Self) -> bool {
        let mask = u32::MAX
            .checked_shl(32 - u32::from(prefix.length))
            .unwrap_or(0);
        assert_eq!(
            prefix.address.to_bits() & !mask,
            0,
            "{prefix} has bits beyond its length"
        );
        prefix.address.to_bits() == address.to_bits() & mask
    }
}

impl Family for Ipv6Addr {
    fn routes(routes: &Routes) -> &[Route<Self>] {
        &routes.v6
    }
    fn of(node: &Node) -> Self {
        node.address.v6()
    }
    fn gateway(node: &Node, port: usize) -> Self {
        node.ports[port].mac.link_local()
    }
    fn covers(prefix: &Prefix<Self>, address: Self) -> bool {
        let mask = u128::MAX
            .checked_shl(128 - u32::from(prefix.length))
            .unwrap_or(0);
        assert_eq!(
            prefix.address.to_bits() & !mask,
            0,
            "{prefix} has bits beyond its length"
        );
        prefix.address.to_bits() == address.to_bits() & mask
    }
}

#[derive(Debug, PartialEq)]
enum End {
    Delivered(Vec<NodeId>),
    Refused,
    Loops,
}

/// Follows the longest matching prefix from node to node; `choose(n)` picks one of `n` next hops.
fn follow<A: Family>(
    fabric: &Topology,
    routes: &[Routes],
    from: NodeId,
    to: A,
    mut choose: impl FnMut(usize) -> usize,
) -> End {
    let mut at = from;
    let mut visited = vec![from];
    loop {
        let node = fabric.node(at);
        if A::of(node) == to {
            return End::Delivered(visited);
        }
        assert!(
            node.kind == Kind::Switch || at == from,
            "a host gets what is not its own"
        );
        let matching = A::routes(&routes[at.index()])
            .iter()
            .filter(|r| A::covers(&r.prefix, to));
        let Some(route) = matching.max_by_key(|route| route.prefix.length) else {
            return End::Refused;
        };
        if route.next_hops.is_empty() {
            return End::Refused;
        }
        let hop = route.next_hops[choose(route.next_hops.len())];
        let port = &node.ports[hop.port];
        let gateway = A::gateway(fabric.node(port.peer), port.peer_port);
        assert!(
            gateway == hop.gateway,
            "the gateway is not at the port's other end"
        );
        at = port.peer;
        if visited.contains(&at) {
            return End::Loops;
        }
        visited.push(at);
    }
}

/// A small generator with a seed, so that a failure can be repeated.
fn chooser(mut seed: u64) -> impl FnMut(usize) -> usize {
    move |n| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    }
}

fn check_all(fabric: &Topology, seed: u64) {
    check_names_and_ports(fabric);
    let routes = fabric.routes();
    let mut choose = chooser(seed);
    let hosts: Vec<_> = fabric.hosts().collect();
    for &to in &hosts {
        for &from in &hosts {
            let shortest = fabric.hops(from, to).unwrap() as usize;
            for end in [
                follow(
                    fabric,
                    &routes,
                    from,
                    fabric.node(to).address.v4(),
                    &mut choose,
                ),
                follow(
                    fabric,
                    &routes,
                    from,
                    fabric.node(to).address.v6(),
                    &mut choose,
                ),
            ] {
                match end {
                    End::Delivered(path) => assert_eq!(path.len(), shortest + 1),
                    other => panic!("{from:?} to {to:?}: {other:?}"),
                }
            }
        }
    }
}

fn check_names_and_ports(fabric: &Topology) {
    let mut names = BTreeSet::new();
    let mut addresses = BTreeSet::new();
    let mut macs = BTreeSet::new();
    for (i, id) in fabric.ids().enumerate() {
        let node = fabric.node(id);
        assert_eq!(id.index(), i);
        assert!(names.insert(&node.name), "{} twice", node.name);
        assert!((1..=MAX_NAME).contains(&node.name.len()));
        assert!(addresses.insert(node.address), "{:?} twice", node.address);
        let mut ports = BTreeSet::new();
        for (place, port) in node.ports.iter().enumerate() {
            assert!(
                ports.insert(&port.name),
                "{}:{} twice",
                node.name,
                port.name
            );
            assert!((1..=MAX_NAME).contains(&port.name.len()));
            assert!(port.name.starts_with(&fabric.node(port.peer).name));
            assert!(macs.insert(port.mac.0));
            assert_eq!(port.mac.0[0] & 3, 2, "locally administered, unicast");
            let back = &fabric.node(port.peer).ports[port.peer_port];
            assert_eq!(
                (back.peer, back.peer_port, back.link),
                (id, place, port.link)
            );
            assert!(fabric.links()[port.link].ends.contains(&(id, place)));
        }
    }
    assert!(fabric.nodes().len() <= MAX_NODES);
}

fn fabric(text: &str) -> Topology {
    text.parse::<Spec>().unwrap().topology()
}

fn host(fabric: &Topology, i: usize) -> NodeId {
    fabric.find(&format!("h{i}")).unwrap()
}

fn rates() -> impl Strategy<Value = String> {
    let rate = prop_oneof![
        (1..=400_u32).prop_map(|n| format!("{n}gbit")),
        (1..=100_000_u32).prop_map(|n| format!("{n}kbit")),
        (125..=1_000_000_u32).prop_map(|n| format!("{}bit", 8 * n)),
        Just("2.5gbit".to_owned()),
    ];
    let delay = prop_oneof![
        (0..=10_000_u32).prop_map(|n| format!("{n}us")),
        (0..=1_000_000_u32).prop_map(|n| format!("{n}ns")),
        Just("0.5ms".to_owned()),
    ];
    let option = prop_oneof![
        (
            prop_oneof![Just("rate"), Just("host-rate"), Just("fabric-rate")],
            rate
        )
            .prop_map(|(name, value)| (name, value)),
        (
            prop_oneof![Just("delay"), Just("host-delay"), Just("fabric-delay")],
            delay
        )
            .prop_map(|(name, value)| (name, value)),
    ];
    prop::collection::btree_map("[a-f]", option, 0..4).prop_map(|options| {
        let mut seen = BTreeSet::new();
        let options = options.into_values().filter(|(name, _)| seen.insert(*name));
        options
            .map(|(name, value)| format!(",{name}={value}"))
            .collect()
    })
}

fn small_spec() -> impl Strategy<Value = String> {
    let shape = prop_oneof![
        (1..=3_u32).prop_map(|half| format!("fat-tree:k={}", 2 * half)),
        (2..=6_u32, 1..=4_u32, 1..=5_u32)
            .prop_map(|(l, s, h)| format!("leaf-spine:leaves={l},spines={s},hosts={h}")),
        (1..=9_u32, 1..=9_u32).prop_map(|(l, r)| format!("dumbbell:left={l},right={r}")),
        (1..=3_u32, 1..=3_u32, 1..=3_u32, 0..=9_000_u32).prop_map(|(a, b, c, ns)| {
            format!("bfc-testbed:sender1={a},sender2={b},sender3={c},third-delay={ns}ns")
        }),
    ];
    (shape, rates()).prop_map(|(shape, rates)| shape + &rates)
}

/// A connected graph of switches with hosts, some of them at more than one switch.
fn random_file() -> impl Strategy<Value = String> {
    (1..=7_usize, 2..=12_usize).prop_flat_map(|(switches, hosts)| {
        let tree = prop::collection::vec(any::<prop::sample::Index>(), switches);
        let more = prop::collection::vec((0..switches, 0..switches), 0..8);
        let homes = prop::collection::vec(prop::collection::vec(0..switches, 1..=2), hosts);
        let cables = prop::collection::vec((0..hosts, 0..hosts), 0..2);
        (tree, more, homes, cables).prop_map(|(tree, more, homes, cables)| {
            let mut text = format!(
                "hosts = {:?}\nswitches = {:?}\nrate = \"1gbit\"\n",
                (0..homes.len())
                    .map(|i| format!("h{i}"))
                    .collect::<Vec<_>>(),
                (0..tree.len()).map(|i| format!("s{i}")).collect::<Vec<_>>(),
            );
            let mut link = |a: String, b: String| {
                if a != b {
                    text += &format!("[[link]]\nends = [\"{a}\", \"{b}\"]\n");
                }
            };
            for (i, parent) in tree.iter().enumerate().skip(1) {
                link(format!("s{i}"), format!("s{}", parent.index(i)));
            }
            // A lone switch needs a host: h0.
            link("h0".to_owned(), "s0".to_owned());
            for (a, b) in more {
                link(format!("s{a}"), format!("s{b}"));
            }
            for (host, homes) in homes.iter().enumerate() {
                for home in homes {
                    link(format!("h{host}"), format!("s{home}"));
                }
            }
            for (a, b) in cables {
                link(format!("h{a}"), format!("h{b}"));
            }
            text
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_host_reaches_every_host_on_a_shortest_path(spec in small_spec(), seed: u64) {
        check_all(&fabric(&spec), seed);
    }

    #[test]
    fn any_graph_of_a_file_is_routed(text in random_file(), seed: u64) {
        let spec = Spec::from_toml(&text).unwrap();
        check_all(&spec.topology(), seed);
    }

    #[test]
    fn a_specification_is_parsed_as_it_was_displayed(spec in small_spec()) {
        let spec: Spec = spec.parse().unwrap();
        prop_assert_eq!(&spec.to_string().parse::<Spec>().unwrap(), &spec);
        prop_assert_eq!(spec.topology(), spec.clone().topology());
    }

    #[test]
    fn a_file_is_parsed_as_it_was_displayed(text in random_file()) {
        let spec = Spec::from_toml(&text).unwrap();
        prop_assert_eq!(Spec::from_toml(&spec.to_string()).unwrap(), spec);
    }

    #[test]
    fn no_address_in_the_fabric_causes_a_routing_loop(
        spec in small_spec(),
        pod in 0..8_u8, switch in 0..8_u8, id in 0..8_u8,
        seed: u64,
    ) {
        let fabric = fabric(&spec);
        let routes = fabric.routes();
        let mut choose = chooser(seed);
        for from in fabric.hosts() {
            let to = Ipv4Addr::new(10, pod, switch, id);
            let end = follow(&fabric, &routes, from, to, &mut choose);
            let nobody = fabric.hosts().all(|host| fabric.node(host).address.v4() != to);
            prop_assert!(end != End::Loops);
            prop_assert!(nobody || end != End::Refused);
        }
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text in ".{0,60}", more in "[a-z0-9=,:.-]{0,40}") {
        let _ = text.parse::<Spec>();
        let _ = Spec::from_toml(&text);
        for kind in weft_topo::spec::KINDS {
            let _ = format!("{kind}:{more}").parse::<Spec>();
        }
    }

    #[test]
    fn the_oversubscription_is_the_requested_one(
        n in 1..=40_u32, half in 1..=3_u32, leaves in 2..=9_u32, spines in 1..=4_u32, hosts in 1..=16_u32,
    ) {
        for spec in [
            format!("fat-tree:k={},oversubscription={n}", 2 * half),
            format!("leaf-spine:leaves={leaves},spines={spines},hosts={hosts},oversubscription={n}"),
            format!("dumbbell:left={leaves},right={hosts},oversubscription={n}"),
        ] {
            let is = fabric(&spec).bisection().unwrap().oversubscription();
            prop_assert!((is / f64::from(n) - 1.0).abs() < 1e-6, "{} of {}", is, spec);
        }
    }

    #[test]
    fn an_access_switchs_uplinks_are_slower_by_the_oversubscription(n in 1..=8_u32, half in 1..=3_u32) {
        // Counted on the links themselves.
        let fabric = fabric(&format!("fat-tree:k={},oversubscription={n},rate=8gbit", 2 * half));
        for id in fabric.switches().filter(|&id| fabric.node(id).layer == "edge") {
            let sum = |layer| -> u64 {
                let links = fabric.node(id).ports.iter().map(|port| &fabric.links()[port.link]);
                links.filter(|link| link.layer == layer).map(|link| link.wire.rate.bits_per_second()).sum()
            };
            prop_assert!(sum("host").abs_diff(u64::from(n) * sum("edge")) < 8 * 8 * u64::from(n));
        }
    }
}

#[test]
fn a_fat_tree_has_k_half_squared_paths_between_pods_k_half_within_and_one_under_an_edge() {
    for k in [2, 4, 6, 8] {
        let fabric = fabric(&format!("fat-tree:k={k}"));
        let half = k / 2;
        assert_eq!(fabric.hosts().count(), k * k * k / 4);
        assert_eq!(fabric.switches().count(), 5 * k * k / 4);
        assert_eq!(fabric.links().len(), 3 * k * k * k / 4);
        for (to, host_at) in fabric.hosts().enumerate().skip(1) {
            let (hops, paths) = match to {
                _ if to < half => (2, 1),
                _ if to < half * half => (4, half),
                _ => (6, half * half),
            };
            assert_eq!(
                fabric.hops(host(&fabric, 0), host_at),
                Some(hops),
                "k={k} h{to}"
            );
            assert_eq!(
                fabric.path_count(host(&fabric, 0), host_at),
                paths as u64,
                "k={k} h{to}"
            );
        }
        for id in fabric.switches() {
            assert_eq!(fabric.node(id).ports.len(), k, "{}", fabric.node(id).name);
        }
    }
}

#[test]
fn routes_offer_every_shortest_path() {
    let fabric = fabric("fat-tree:k=6");
    let routes = fabric.routes();
    let (from, to) = (host(&fabric, 0), host(&fabric, 53));
    let mut ways = BTreeSet::new();
    for seed in 0..400 {
        let to = fabric.node(to).address.v6();
        let end = follow(&fabric, &routes, from, to, chooser(seed * 7919));
        let End::Delivered(path) = end else {
            panic!("{end:?}")
        };
        ways.insert(path);
    }
    assert_eq!(ways.len(), 9);
}

#[test]
fn a_fat_trees_tables_are_as_short_as_al_fares() {
    let fabric = fabric("fat-tree:k=8");
    for (id, routes) in fabric.ids().zip(fabric.routes()) {
        // Hosts: the default route. Edge: 4 hosts, up, and its own block as unreachable.
        // Aggregation: 4 edges, up, and its pod as unreachable. Core: one route per pod.
        let lines = match fabric.node(id).layer.as_str() {
            "host" => 1,
            "edge" | "agg" => 6,
            _ => 8,
        };
        assert_eq!(routes.v4.len(), lines, "{}", fabric.node(id).name);
        assert_eq!(routes.v6.len(), lines, "{}", fabric.node(id).name);
    }
}

#[test]
fn every_host_of_a_large_fabric_is_reachable() {
    let fabric = fabric("fat-tree:k=16");
    let routes = fabric.routes();
    let mut choose = chooser(1);
    for i in 0..1024 {
        let to = fabric.node(host(&fabric, i * 37 % 1024)).address.v4();
        let end = follow(&fabric, &routes, host(&fabric, i), to, &mut choose);
        assert!(matches!(end, End::Delivered(_)), "h{i}: {end:?}");
    }
}

#[test]
fn the_largest_fabrics_have_unique_names_and_addresses() {
    for spec in [
        "fat-tree:k=32",
        "leaf-spine:leaves=256,spines=256,hosts=37",
        "leaf-spine:leaves=38,spines=4,hosts=253",
        "rack:hosts=253",
        "dumbbell:left=253,right=253",
        "bfc-testbed:sender1=126,sender2=126,sender3=126",
    ] {
        check_names_and_ports(&fabric(spec));
    }
}
