// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The paper's sentences, one by one; and arbitrary sequences of events against the naive model.

use std::sync::Arc;

use super::naive::Scenario;
use crate::tests::corpus::replay;
use proptest::prelude::*;
use weft_mechanisms::dibs::ip::{Ecn, Reach};
use weft_mechanisms::dibs::options::{Config, Options, Policy};
use weft_mechanisms::dibs::switch::{
    places, Arrival, Cause, Decision, Exits, Reason, Switch as Of, Terms,
};
use weft_mechanisms::heap::Heap;

type Switch = Of<Heap>;

const PACKET: Arrival = Arrival {
    len: 1500,
    rank: 0,
    flow: 1,
    ecn: Ecn::Capable,
    reach: Reach::Routed,
    carried: false,
};

const CARRIED: Arrival = Arrival {
    carried: true,
    ..PACKET
};

fn terms(options: Options) -> Terms {
    Terms::new(&Config::new(&options).unwrap())
}

fn host() -> Options {
    Options::default()
}

fn faces_a_switch() -> Options {
    Options {
        detour_to: Some(true),
        ..Options::default()
    }
}

/// A switch whose port n is device n + 1, each port with its options.
fn switch(options: &[Options]) -> Switch {
    let Ok(mut switch) = Switch::new(5);
    for (device, &options) in (1..).zip(options) {
        if let Some(wanted) = switch.wanted_places() {
            let Ok(places) = places(wanted);
            drop(switch.grow(places));
        }
        assert_eq!(join(&mut switch, device, options), Some(device as u16 - 1));
    }
    switch
}

/// Adds a member to a device's port; returns the port's number.
fn join(switch: &mut Switch, device: u32, options: Options) -> Option<u16> {
    let joined = switch.join(device, &terms(options), Arc::default());
    joined.map(|(number, _)| number)
}

/// A packet leaves a port. All ports are settled, because the test reads the switch's statistics
/// next.
fn depart(switch: &mut Switch, port: u16) {
    switch
        .departures(port)
        .expect("it has members")
        .count(PACKET.len);
    switch.settle_all();
}

fn arrive(switch: &mut Switch, port: u16) -> Decision {
    switch.arrive(port, &PACKET, |_| true)
}

fn fill(switch: &mut Switch, port: u16, packets: u32) {
    for _ in 0..packets {
        assert!(matches!(arrive(switch, port), Decision::Queue { .. }));
    }
}

fn detour_to(port: u16) -> Decision {
    Decision::Detour {
        port,
        mark: true,
        reason: Reason::Limit,
    }
}

#[test]
fn a_packet_that_finds_the_buffer_full_goes_by_a_port_that_is_connected_to_another_switch() {
    let mut switch = switch(&[host(), host(), faces_a_switch(), host()]);
    fill(&mut switch, 0, 100);
    // "whose buffer is not full": it has room for 100.
    for _ in 0..100 {
        assert_eq!(arrive(&mut switch, 0), detour_to(2));
    }
    assert_eq!(switch.packets(2), (0, 100));
    assert_eq!(arrive(&mut switch, 0), Decision::Drop(Cause::Full));
    assert_eq!(switch.counters(0).detoured, [100, 0, 0, 0]);
    assert_eq!(switch.counters(0).dropped, [1, 0, 0, 0]);
    assert_eq!(switch.counters(0).highest, 100);
    // Places of packets on their way are not available to others.
    assert_eq!(arrive(&mut switch, 2), Decision::Drop(Cause::Full));
}

#[test]
fn it_has_no_impact_on_normal_operations() {
    let mut switch = switch(&[host(), faces_a_switch()]);
    for _ in 0..10_000 {
        fill(&mut switch, 0, 1);
        depart(&mut switch, 0);
    }
    let counters = switch.counters(0);
    assert_eq!((counters.detoured, counters.marked), ([0; 4], 0));
    assert_eq!((switch.bytes(), switch.packets(0)), (0, (0, 0)));
}

/// A packet that the switch has not routed, for example a VLAN's.
struct NotRouted;

impl Exits for NotRouted {
    fn is_routed(&mut self) -> bool {
        false
    }

    fn takes(&mut self, device: u32) -> bool {
        panic!("device {device} was asked")
    }
}

#[test]
fn a_packet_that_the_switch_has_not_routed_is_not_detoured() {
    let mut switch = switch(&[host(), faces_a_switch()]);
    for _ in 0..100 {
        let decision = switch.arrive(0, &PACKET, NotRouted);
        assert!(matches!(decision, Decision::Queue { .. }));
    }
    assert_eq!(
        switch.arrive(0, &PACKET, NotRouted),
        Decision::Drop(Cause::Link)
    );
}

#[test]
fn detoured_packets_and_packets_that_find_20_waiting_are_marked() {
    let mut switch = switch(&[host(), faces_a_switch()]);
    for waiting in 0..100 {
        let mark = waiting >= 20;
        assert_eq!(arrive(&mut switch, 0), Decision::Queue { mark });
    }
    assert_eq!(arrive(&mut switch, 0), detour_to(1));
    assert_eq!(switch.counters(0).marked, 81);
    for (ecn, counted) in [(Ecn::NotCapable, 81), (Ecn::Marked, 81), (Ecn::Capable, 82)] {
        let decision = switch.arrive(0, &Arrival { ecn, ..PACKET }, |_| true);
        let mark = ecn == Ecn::Capable;
        let (port, reason) = (1, Reason::Limit);
        assert_eq!(decision, Decision::Detour { port, mark, reason });
        assert_eq!(switch.counters(0).marked, counted);
    }
}

#[test]
fn a_reserved_place_is_kept_until_the_packet_arrives() {
    let mut switch = switch(&[
        host(),
        Options {
            limit: Some(1),
            ..faces_a_switch()
        },
    ]);
    fill(&mut switch, 0, 100);
    assert_eq!(arrive(&mut switch, 0), detour_to(1));
    assert_eq!(arrive(&mut switch, 1), Decision::Drop(Cause::Full));
    assert_eq!(switch.embark(1, PACKET.len, |_| true), Some(2));
    // Another packet that arrives meanwhile, and one that claims to be carried where it is not.
    assert_eq!(arrive(&mut switch, 1), Decision::Drop(Cause::Full));
    assert_eq!(
        switch.arrive(0, &CARRIED, |_| true),
        Decision::Drop(Cause::Full)
    );
    let queued = Decision::Queue { mark: false };
    assert_eq!(switch.arrive(1, &CARRIED, |_| true), queued);
    assert_eq!(switch.packets(1), (1, 0));
    assert_eq!(switch.counters(1).received, 1);
    switch.landed(true);
    assert_eq!(switch.packets(1), (1, 0));
    // A second such packet has no place.
    assert_eq!(
        switch.arrive(1, &CARRIED, |_| true),
        Decision::Drop(Cause::Full)
    );
    depart(&mut switch, 1);
    assert_eq!(arrive(&mut switch, 0), detour_to(1));
    assert_eq!(switch.embark(1, PACKET.len, |_| true), Some(2));
    // It does not arrive: something else has taken it.
    switch.landed(true);
    assert_eq!((switch.packets(1), switch.bytes()), ((0, 0), 150_000));
}

#[test]
fn ports_that_cannot_send_are_skipped_and_packets_of_a_removed_port_are_detoured() {
    let mut switch = switch(&[host(), faces_a_switch(), faces_a_switch()]);
    fill(&mut switch, 0, 100);
    for _ in 0..20 {
        let decision = switch.arrive(0, &PACKET, |device| device != 2);
        assert_eq!(decision, detour_to(2));
    }
    // Its carrier is gone, and the other's is back.
    assert_eq!(switch.embark(2, PACKET.len, |device| device == 2), Some(2));
    assert_eq!((switch.packets(1), switch.packets(2)), ((0, 1), (0, 19)));
    assert!(matches!(
        switch.arrive(1, &CARRIED, |_| true),
        Decision::Queue { .. }
    ));
    // No port can send it.
    assert_eq!(switch.embark(2, PACKET.len, |_| false), None);
    let counters = switch.switch_counters();
    assert_eq!((counters.diverted, counters.lost), (1, 1));
    // A deleted port stays as long as packets are on their way to it, and is then removed.
    switch.leave(2);
    assert_eq!((switch.ports(), switch.packets(2)), (3, (0, 18)));
    for _ in 0..18 {
        assert_eq!(switch.embark(2, PACKET.len, |_| true), Some(2));
        switch.landed(true);
    }
    assert_eq!(switch.ports(), 2);
    assert_eq!(switch.bytes(), 101 * 1500);
}

/// Only the chosen port is asked whether it can send, and another one if it cannot.
#[test]
fn few_ports_are_asked_whether_they_can_send() {
    let mut switch = switch(&[
        host(),
        faces_a_switch(),
        faces_a_switch(),
        faces_a_switch(),
        faces_a_switch(),
    ]);
    fill(&mut switch, 0, 100);
    let mut asked = 0;
    let decision = switch.arrive(0, &PACKET, |_| {
        asked += 1;
        true
    });
    assert!(matches!(decision, Decision::Detour { .. }));
    assert_eq!(asked, 1);
    let mut asked = Vec::new();
    let decision = switch.arrive(0, &PACKET, |device| {
        asked.push(device);
        false
    });
    asked.sort_unstable();
    assert_eq!(
        (decision, asked),
        (Decision::Drop(Cause::Full), vec![2, 3, 4, 5])
    );
}

/// A departure makes room at its port and in the shared buffer, although the switch is not called.
#[test]
fn a_departure_makes_room_for_all() {
    let share = |options| Options {
        share: Some(3000),
        alpha: Some(0),
        ..options
    };
    let mut switch = switch(&[share(host()), share(host())]);
    fill(&mut switch, 0, 2);
    assert_eq!(arrive(&mut switch, 1), Decision::Drop(Cause::Full));
    switch.departures(0).unwrap().count(PACKET.len);
    // The fast path counts the departures of its own port. The slow path counts the departures of
    // all ports.
    assert!(!switch.admit(1, PACKET.len));
    assert!(matches!(arrive(&mut switch, 1), Decision::Queue { .. }));
    assert_eq!(arrive(&mut switch, 1), Decision::Drop(Cause::Full));
    switch.departures(0).unwrap().count(PACKET.len);
    fill(&mut switch, 1, 1);
    switch.settle_all();
    assert_eq!((switch.packets(0), switch.packets(1)), ((0, 0), (2, 0)));
    // The highest true value, without packets that had already departed.
    assert_eq!(switch.switch_counters().highest_bytes, 3000);
}

#[test]
fn a_packet_that_cannot_be_forwarded_is_not_detoured() {
    let mut switch = switch(&[host(), faces_a_switch()]);
    fill(&mut switch, 0, 100);
    for (reach, cause) in [(Reach::Expires, Cause::Ttl), (Reach::Link, Cause::Link)] {
        let arrival = Arrival { reach, ..PACKET };
        assert_eq!(switch.arrive(0, &arrival, |_| true), Decision::Drop(cause));
    }
    assert_eq!(switch.counters(0).dropped, [0, 1, 1, 0]);
}

#[test]
fn limits_in_bytes_cause_detours_too() {
    let small = Options {
        limit_bytes: Some(4000),
        ..host()
    };
    let mut switch = switch(&[small, faces_a_switch()]);
    fill(&mut switch, 0, 2);
    let decision = Decision::Detour {
        port: 1,
        mark: true,
        reason: Reason::Bytes,
    };
    assert_eq!(arrive(&mut switch, 0), decision);
    let short = Arrival {
        len: 1000,
        ..PACKET
    };
    assert!(matches!(
        switch.arrive(0, &short, |_| true),
        Decision::Queue { .. }
    ));
}

#[test]
fn with_a_shared_buffer_a_port_that_has_its_share_detours() {
    let share = |options| Options {
        share: Some(90_000),
        ..options
    };
    let mut switch = switch(&[share(host()), share(faces_a_switch())]);
    // Half of it: as much as is then free.
    fill(&mut switch, 0, 30);
    let decision = arrive(&mut switch, 0);
    let (port, mark, reason) = (1, true, Reason::Share);
    assert_eq!(decision, Decision::Detour { port, mark, reason });
    // "upon extreme congestion which overflows the whole shared buffer": a port that still holds
    // less than is free; another 14 packets of it leave 22,500 bytes.
    for _ in 0..14 {
        assert!(matches!(
            arrive(&mut switch, 0),
            Decision::Detour { port: 1, .. }
        ));
    }
    assert_eq!(arrive(&mut switch, 0), Decision::Drop(Cause::Full));
    assert_eq!(switch.bytes(), 45 * 1500);
    // A packet with a place keeps it, although its port now exceeds its share.
    assert_eq!(switch.embark(1, PACKET.len, |_| true), Some(2));
    fill_to(&mut switch, 2);
    assert!(matches!(
        switch.arrive(1, &CARRIED, |_| true),
        Decision::Queue { .. }
    ));
}

/// Another port takes all that it can of the shared buffer.
fn fill_to(switch: &mut Switch, device: u32) {
    let greedy = Options {
        share: Some(90_000),
        alpha: Some(0),
        ..host()
    };
    let Ok(places) = places(4);
    drop(switch.grow(places));
    let number = join(switch, device + 1, greedy).unwrap();
    while matches!(arrive(switch, number), Decision::Queue { .. }) {}
    assert_eq!(switch.bytes(), 90_000);
}

#[test]
fn a_port_that_does_not_detour_drops() {
    let off = Options {
        policy: Some(Policy::Off),
        ..host()
    };
    let mut switch = switch(&[off, faces_a_switch()]);
    fill(&mut switch, 0, 100);
    assert_eq!(arrive(&mut switch, 0), Decision::Drop(Cause::Off));
}

#[test]
fn urgent_packets_are_detoured_last() {
    let port = |options| Options {
        policy: Some(Policy::Probabilistic),
        limit: Some(1000),
        ranks: Some(3),
        ..options
    };
    // For each rank, the first occupancy at which a packet is detoured.
    let mut firsts = Vec::new();
    for rank in 0..4 {
        let mut switch = switch(&[port(host()), port(faces_a_switch())]);
        let arrival = Arrival { rank, ..PACKET };
        let first = (0..2000).find(|_| {
            matches!(
                switch.arrive(0, &arrival, |_| true),
                Decision::Detour { .. }
            )
        });
        firsts.push(first.unwrap());
    }
    assert_eq!(firsts[0], 1000, "{firsts:?}");
    assert!(firsts.is_sorted_by(|a, b| a > b), "{firsts:?}");
    assert!((500..700).contains(&firsts[3]), "{firsts:?}");
    // If no other port has room, a packet takes the room that there is.
    let mut switch = switch(&[port(host())]);
    let least = Arrival { rank: 3, ..PACKET };
    for _ in 0..1000 {
        let decision = switch.arrive(0, &least, |_| true);
        assert!(matches!(decision, Decision::Queue { .. }));
    }
    assert_eq!(
        switch.arrive(0, &least, |_| true),
        Decision::Drop(Cause::Full)
    );
}

#[test]
fn qdiscs_of_one_device_are_one_port() {
    let mut switch = switch(&[host(), faces_a_switch()]);
    assert_eq!(join(&mut switch, 1, host()), Some(0));
    fill(&mut switch, 0, 100);
    assert_eq!(arrive(&mut switch, 0), detour_to(1));
    switch.leave(0);
    assert_eq!(switch.ports(), 2);
}

#[test]
fn a_lowered_limit_takes_effect_and_packets_under_way_are_detoured() {
    let mut switch = switch(&[host(), faces_a_switch(), faces_a_switch()]);
    fill(&mut switch, 0, 100);
    fill(&mut switch, 2, 100);
    assert_eq!(arrive(&mut switch, 0), detour_to(1));
    fill(&mut switch, 1, 1);
    let less = Options {
        limit: Some(1),
        ..faces_a_switch()
    };
    assert!(!switch.is_over(1));
    switch.set_terms(1, &terms(less));
    assert!(switch.is_over(1));
    depart(&mut switch, 2);
    assert_eq!(switch.embark(1, PACKET.len, |_| true), Some(3));
    assert!(!switch.is_over(1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_life_of_a_switch_matches_the_model(
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
    ) {
        Scenario::decode(&bytes).run();
    }
}

/// The fuzzer's corpus, including its past findings.
#[test]
#[cfg_attr(miri, ignore = "reads files, which Miri's isolation does not allow")]
fn the_fuzz_corpus_passes() {
    replay("dibs", |bytes| Scenario::decode(bytes).run());
}
