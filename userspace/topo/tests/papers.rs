// SPDX-License-Identifier: MIT OR Apache-2.0

//! The defaults give the fabrics of the papers.

use weft_topo::{NodeId, Spec, Topology};

fn fabric(text: &str) -> Topology {
    text.parse::<Spec>().unwrap().topology()
}

fn find(fabric: &Topology, name: &str) -> NodeId {
    fabric.find(name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn pfabric_interconnects_144_hosts_through_9_leaves_and_4_spines_not_oversubscribed() {
    let fabric = fabric("leaf-spine");
    assert_eq!(fabric.hosts().count(), 144);
    assert_eq!(fabric.switches().count(), 9 + 4);
    assert_eq!(fabric.bisection().unwrap().oversubscription(), 1.0);
    assert_eq!(fabric.bisection().unwrap().carried, 720_000_000_000);
    for (layer, count, rate) in [("host", 144, 10), ("fabric", 36, 40)] {
        let links: Vec<_> = fabric
            .links()
            .iter()
            .filter(|link| link.layer == layer)
            .collect();
        assert_eq!(links.len(), count);
        assert!(
            links
                .iter()
                .all(|l| l.wire.rate.bits_per_second() == rate * 1_000_000_000)
        );
    }
}

#[test]
fn pfabrics_round_trips_are_14_6_us_across_the_spine_and_13_3_us_under_a_leaf() {
    let fabric = fabric("leaf-spine");
    let h0 = find(&fabric, "h0");
    let round_trip = |to| fabric.base_rtt_ns(h0, find(&fabric, to), 1500, 40).unwrap();
    assert!(
        round_trip("h143").abs_diff(14_600) <= 100,
        "{}",
        round_trip("h143")
    );
    assert!(
        round_trip("h1").abs_diff(13_300) <= 100,
        "{}",
        round_trip("h1")
    );
    // §5.1: "an initial window of 12 packets", a bandwidth-delay product.
    let bdp = fabric
        .bdp_bytes(h0, find(&fabric, "h143"), 1500, 40)
        .unwrap();
    assert_eq!(bdp / 1500, 12);
}

#[test]
fn pases_testbed_is_a_rack_of_10_with_1_gbit_links_and_a_round_trip_of_250_us() {
    let fabric = fabric("rack");
    let (h0, h9) = (find(&fabric, "h0"), find(&fabric, "h9"));
    assert_eq!(fabric.hosts().count(), 10);
    let path = fabric.best_path(h0, h9).unwrap();
    assert_eq!(path.bottleneck().bits_per_second(), 1_000_000_000);
    assert_eq!(2 * path.propagation_ns(), 250_000);
}

#[test]
fn bfcs_flow_groups_take_the_paths_of_figure_6() {
    let fabric = fabric("bfc-testbed");
    let of = |name: &str| {
        fabric
            .groups()
            .iter()
            .find(|g| g.name == name)
            .unwrap()
            .hosts[0]
    };
    let names = |from, to| -> Vec<&str> {
        let path = fabric.best_path(of(from), of(to)).unwrap();
        let inner = &path.nodes[1..path.nodes.len() - 1];
        inner
            .iter()
            .map(|&id| fabric.node(id).name.as_str())
            .collect()
    };
    assert_eq!(names("sender1", "receiver1"), ["switch1", "switch2"]);
    assert_eq!(names("sender2", "receiver2"), ["switch1", "switch2"]);
    assert_eq!(names("sender3", "receiver2"), ["switch3", "switch2"]);
    assert!(
        fabric
            .links()
            .iter()
            .all(|l| l.wire.rate.bits_per_second() == 100_000_000_000)
    );
}

#[test]
fn bfcs_third_group_can_come_by_another_delay_than_the_second() {
    let delays = |spec: &str| -> Vec<_> {
        let fabric = fabric(spec);
        let layer = fabric.links().iter().filter(|l| l.layer == "fabric");
        layer.map(|l| l.wire.delay.ns()).collect()
    };
    assert_eq!(delays("bfc-testbed"), [1_000, 1_000]);
    assert_eq!(delays("bfc-testbed:delay=2us"), [2_000, 2_000]);
    assert_eq!(delays("bfc-testbed:third-delay=1100ns"), [1_000, 1_100]);
    assert_eq!(
        delays("bfc-testbed:fabric-delay=3us,third-delay=1us"),
        [3_000, 1_000]
    );
}

#[test]
fn bfcs_simulated_clos_has_8_us_of_round_trip_and_2_to_1_oversubscription() {
    // §6.2.1: 128 servers, 8 ToR and 8 spine switches, all links 100 Gbps and 1 µs.
    let fabric = fabric("leaf-spine:leaves=8,spines=8,hosts=16,rate=100gbit,delay=1us");
    assert_eq!(fabric.hosts().count(), 128);
    assert_eq!(fabric.bisection().unwrap().oversubscription(), 2.0);
    let path = fabric
        .best_path(find(&fabric, "h0"), find(&fabric, "h127"))
        .unwrap();
    assert_eq!(2 * path.propagation_ns(), 8_000);
}

#[test]
fn dibss_fat_tree_has_128_servers() {
    let fabric = fabric("fat-tree:k=8,rate=1gbit");
    assert_eq!(fabric.hosts().count(), 128);
    assert!(
        fabric
            .links()
            .iter()
            .all(|l| l.wire.rate.bits_per_second() == 1_000_000_000)
    );
}

#[test]
fn a_frame_is_stored_and_forwarded_at_each_switch() {
    let fabric = fabric("dumbbell:host-rate=1gbit,bottleneck-rate=100mbit,delay=5us");
    let path = fabric
        .best_path(find(&fabric, "h0"), find(&fabric, "h4"))
        .unwrap();
    assert_eq!(path.wires.len(), 3);
    // 1000 bytes: 8 µs, 80 µs and 8 µs, and three times 5 µs.
    assert_eq!(path.one_way_ns(1000), 96_000 + 15_000);
    assert_eq!(path.bottleneck().bits_per_second(), 100_000_000);
    let (h0, h4) = (find(&fabric, "h0"), find(&fabric, "h4"));
    assert_eq!(fabric.base_rtt_ns(h0, h4, 1000, 1000), Some(222_000));
    assert_eq!(fabric.bdp_bytes(h0, h4, 1000, 1000), Some(2_775));
    assert_eq!(fabric.best_path(h0, h0), None);
    assert_eq!(
        (fabric.hops(h0, h0), fabric.path_count(h0, h0)),
        (Some(0), 1)
    );
}

#[test]
fn of_paths_with_equally_many_links_the_best_is_the_fastest() {
    let spec = Spec::from_toml(
        r#"
        hosts = ["h0", "h1"]
        switches = ["a0", "a1", "b0", "b1"]
        rate = "1gbit"
        delay = "10us"
        link = [
            { ends = ["h0", "a0"] }, { ends = ["h1", "a1"] },
            { ends = ["a0", "b0"] }, { ends = ["b0", "a1"] },
            { ends = ["a0", "b1"], delay = "1us" }, { ends = ["b1", "a1"] },
        ]
        "#,
    );
    let fabric = spec.unwrap().topology();
    let (h0, h1) = (find(&fabric, "h0"), find(&fabric, "h1"));
    assert_eq!(fabric.path_count(h0, h1), 2);
    let best = fabric.best_path(h0, h1).unwrap();
    assert_eq!(fabric.node(best.nodes[2]).name, "b1");
    assert_eq!(best.propagation_ns(), 31_000);
    // Both paths occur, each with its own delays.
    let mut delays: Vec<Vec<u64>> = fabric
        .wires(h0, h1)
        .into_iter()
        .map(|wires| wires.iter().map(|wire| wire.delay.ns()).collect())
        .collect();
    delays.sort_unstable();
    let (slow, fast) = (10_000, 1_000);
    assert_eq!(delays, [[slow, fast, slow, slow], [slow, slow, slow, slow]]);
    assert!(fabric.wires(h0, h0).is_empty());
}

#[test]
fn equivalent_paths_are_one_sequence_of_wires() {
    let fabric = fabric("fat-tree:k=4");
    let (h0, h15) = (find(&fabric, "h0"), find(&fabric, "h15"));
    assert_eq!(fabric.path_count(h0, h15), 4);
    let wires = fabric.wires(h0, h15);
    assert_eq!((wires.len(), wires[0].len()), (1, 6));
    let best = fabric.best_path(h0, h15).unwrap();
    assert_eq!(wires[0], best.wires);
}

#[test]
fn of_equally_fast_paths_the_best_uses_the_first_ports() {
    let fabric = fabric("fat-tree:k=4");
    let path = fabric
        .best_path(find(&fabric, "h0"), find(&fabric, "h15"))
        .unwrap();
    let names: Vec<_> = path
        .nodes
        .iter()
        .map(|&id| fabric.node(id).name.as_str())
        .collect();
    assert_eq!(
        names,
        ["h0", "edge0", "agg0", "core0", "agg6", "edge7", "h15"]
    );
}

#[test]
fn the_slower_layer_of_a_fat_tree_is_its_bisection() {
    for slow in ["edge-rate=2gbit", "core-rate=2gbit"] {
        let bisection = fabric(&format!("fat-tree:k=4,{slow}")).bisection().unwrap();
        assert_eq!(
            (bisection.offered, bisection.carried),
            (80_000_000_000, 16_000_000_000)
        );
        assert_eq!(bisection.oversubscription(), 5.0);
    }
}
