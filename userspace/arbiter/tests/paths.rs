// SPDX-License-Identifier: MIT OR Apache-2.0

//! Paths: no link between racks gets more packets of a timeslot than it can carry.

use proptest::prelude::*;
use weft_arbiter::max_min::MaxMin;
use weft_arbiter::paths::{MAX_COLOURS, MAX_RACKS, Paths};
use weft_arbiter::{Allocation, Allocator, Free, Invalid, MAX_ENDPOINTS};

/// The shape of racks: endpoints, hosts per rack, paths.
type Shape = (usize, usize, usize);

fn shape() -> impl Strategy<Value = Shape> {
    // Racks with one host, and with the maximum; the last rack may be smaller than the others.
    let hosts = prop_oneof![1..5_usize, 5..33_usize, Just(64_usize)];
    (hosts, 2..260_usize)
        .prop_filter("too many racks", |(hosts, n)| {
            n.div_ceil(*hosts) <= MAX_RACKS
        })
        .prop_flat_map(|(hosts, endpoints)| (Just(endpoints), Just(hosts), 1..=hosts))
        .prop_filter("too many colours", |(_, hosts, paths)| {
            hosts.next_multiple_of(*paths) <= MAX_COLOURS
        })
}

/// The matching with these receivers of endpoint 0, 1, …
fn matching(receivers: &[Option<usize>]) -> Vec<Allocation> {
    let mut allocator = MaxMin::new(receivers.len().max(2), 1).unwrap();
    for (from, to) in receivers.iter().enumerate() {
        if let Some(to) = to.filter(|to| *to != from) {
            allocator.request(from as u16, to as u16, 1).unwrap();
        }
    }
    let mut free = Free::new(receivers.len().max(2), 1).unwrap();
    free.allocate(&mut allocator);
    allocator.timeslot(0).to_vec()
}

/// The largest number of packets of a matching on one link.
fn most(paths: &mut Paths, matching: &[Allocation], (endpoints, hosts, count): Shape) -> usize {
    let chosen = paths.select(matching);
    assert_eq!(chosen.len(), matching.len());
    let racks = endpoints.div_ceil(hosts);
    let mut links = vec![0; 2 * racks * count];
    for (packet, path) in matching.iter().zip(chosen) {
        let path = usize::from(*path);
        assert!(path < count);
        links[usize::from(packet.source()) / hosts * count + path] += 1;
        links[(racks + usize::from(packet.destination()) / hosts) * count + path] += 1;
    }
    links.into_iter().max().unwrap()
}

fn shuffled(endpoints: usize) -> impl Strategy<Value = Vec<usize>> {
    Just((0..endpoints).collect::<Vec<_>>()).prop_shuffle()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn no_link_exceeds_its_capacity(
        (shape, timeslots) in shape().prop_flat_map(|shape| {
            let receivers = (shuffled(shape.0), prop::collection::vec(prop::bool::weighted(0.95), shape.0));
            (Just(shape), prop::collection::vec(receivers, 1..4))
        }),
    ) {
        let (endpoints, hosts, count) = shape;
        let mut paths = Paths::new(endpoints, hosts, count).unwrap();
        // One after the other: no state remains from the last one.
        for (receivers, sends) in timeslots {
            let receivers: Vec<_> = receivers.into_iter().zip(sends).map(|(to, sends)| sends.then_some(to)).collect();
            let matching = matching(&receivers);
            prop_assert!(most(&mut paths, &matching, shape) <= hosts.div_ceil(count));
        }
    }
}

#[test]
fn full_racks_use_every_link_once() {
    // Every host of a rack sends to another one of the next rack; to one in each rack; to its
    // neighbour.
    let (racks, hosts) = (16, 16);
    let endpoints = racks * hosts;
    let shape = (endpoints, hosts, hosts);
    let mut paths = Paths::new(endpoints, hosts, hosts).unwrap();
    let patterns: [&dyn Fn(usize) -> usize; 4] = [
        &|host| (host + hosts) % endpoints,
        &|host| (host % hosts) * racks + host / hosts,
        &|host| (host + 1) % endpoints,
        &|host| host ^ 1,
    ];
    for (index, pattern) in patterns.iter().enumerate() {
        let receivers: Vec<_> = (0..endpoints).map(|host| Some(pattern(host))).collect();
        let matching = matching(&receivers);
        assert!(matching.len() >= endpoints - hosts, "{index}");
        assert_eq!(most(&mut paths, &matching, shape), 1, "{index}");
    }
}

#[test]
fn the_largest_network_is_served() {
    let (endpoints, hosts) = (MAX_ENDPOINTS, MAX_COLOURS);
    let shape = (endpoints, hosts, hosts);
    let mut paths = Paths::new(endpoints, hosts, hosts).unwrap();
    // Multiplication by an odd factor is a permutation, and mixes racks.
    let receivers: Vec<_> = (0..endpoints)
        .map(|i| Some((i * 2731 + 77) % endpoints))
        .collect();
    assert_eq!(most(&mut paths, &matching(&receivers), shape), 1);
}

#[test]
fn an_empty_matching_has_no_paths() {
    let mut paths = Paths::new(4, 2, 2).unwrap();
    assert!(paths.select(&[]).is_empty());
}

#[test]
fn impossible_settings_are_refused() {
    let refused = |endpoints, hosts, paths| Paths::new(endpoints, hosts, paths).err();
    assert_eq!(refused(0, 1, 1), Some(Invalid::Endpoints));
    assert_eq!(refused(MAX_ENDPOINTS + 1, 64, 64), Some(Invalid::Endpoints));
    assert_eq!(refused(16, 0, 1), Some(Invalid::Racks));
    assert_eq!(refused(MAX_RACKS + 1, 1, 1), Some(Invalid::Racks));
    assert_eq!(refused(16, 4, 0), Some(Invalid::Paths));
    assert_eq!(refused(16, 4, MAX_COLOURS + 1), Some(Invalid::Paths));
    assert_eq!(refused(128, 63, 60), Some(Invalid::Paths));
    assert_eq!(refused(MAX_RACKS, 1, 1), None);
    assert_eq!(refused(4096, 64, 7), Some(Invalid::Paths));
    assert_eq!(refused(4096, 64, 8), None);
}
