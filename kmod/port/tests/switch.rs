// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The sentences of the papers, one by one; and arbitrary sequences of events against the naive
//! model.

use super::naive::Scenario;
use crate::tests::corpus::replay;
use proptest::prelude::*;
use weft_mechanisms::heap::Heap;
use weft_mechanisms::port::frame::Frame;
use weft_mechanisms::port::options::{Config, Options, ALPHA_1, ALPHA_OFF};
use weft_mechanisms::port::switch::{
    Cause, Id, Refused, Room, Sending, State, Switch as Of, Terms,
};

type Switch = Of<Heap>;

const MTU: u32 = 1500;
const RATE: u64 = 1_250_000_000;
/// Half of the longest pause at that rate.
const REFRESH: u64 = 1_677_696;

fn shared(memory: u32, alpha: u32) -> Options {
    Options {
        memory: Some(memory),
        alpha: Some(alpha),
        ..Options::default()
    }
}

/// Priority flow control with a headroom of 10,000 bytes.
fn lossless(memory: u32) -> Options {
    Options {
        pfc: Some(true),
        rate: Some(RATE),
        headroom: Some(10_000),
        ..shared(memory, ALPHA_1)
    }
}

fn terms(options: Options) -> Terms {
    Terms::new(&Config::new(&options).unwrap(), MTU)
}

fn room(ports: u16) -> Room<Heap> {
    let Ok(room) = Room::new(ports);
    room
}

fn join(switch: &mut Switch, device: u32, options: Options) -> Result<u16, Refused> {
    if let Some(ports) = switch.wanted_room() {
        drop(switch.grow(room(ports)));
    }
    let config = Config::new(&options).unwrap();
    let priority = config.priority;
    switch.join(Id { device, priority }, &Terms::new(&config, MTU))
}

/// A switch whose port n is device n + 1, each port with its options.
fn switch(options: &[Options]) -> Switch {
    let mut switch = Switch::new(room(0));
    for (device, &options) in (1..).zip(options) {
        assert_eq!(join(&mut switch, device, options), Ok(device as u16 - 1));
    }
    switch
}

/// Packets of 1,000 bytes arrive until one is dropped; returns how many were not.
fn fill(switch: &mut Switch, egress: u16, device: u32) -> (u64, Cause) {
    for accepted in 0.. {
        if let Err(cause) = switch.arrive(egress, device, 1000) {
            return (accepted, cause);
        }
    }
    unreachable!()
}

fn state(switch: &mut Switch, port: u16) -> State {
    switch.state(port, 0)
}

/// All frames that are to be sent now.
fn frames(switch: &mut Switch, now: u64) -> Vec<Sending> {
    switch.tick(now);
    std::iter::from_fn(|| switch.next_frame(now)).collect()
}

fn sending(device: u32, quanta: u16) -> Sending {
    Sending {
        device,
        frame: Frame::about(3, quanta),
    }
}

// ---- Dynamic thresholds -----------------------------------------------------------------------

#[test]
fn the_longest_queue_is_proportional_to_the_unused_buffering() {
    let mut switch = switch(&[shared(90_000, ALPHA_1); 3]);
    // One port alone: Q = α (B - Q).
    assert_eq!(fill(&mut switch, 0, 9), (45, Cause::Share));
    // A second one: half of what is left.
    assert_eq!(fill(&mut switch, 1, 9), (23, Cause::Share));
    assert_eq!(fill(&mut switch, 2, 9), (11, Cause::Share));
    assert_eq!(switch.bytes(), 79_000);
    assert_eq!(state(&mut switch, 2).share, Some(11_000));
    assert_eq!(state(&mut switch, 0).counters.dropped, [1, 0, 0]);
}

#[test]
fn queues_that_fill_up_together_hold_the_same() {
    // Each has α B / (1 + n α).
    for (alpha, expected) in [(ALPHA_1 / 2, 20), (ALPHA_1, 25), (8 * ALPHA_1, 32)] {
        let mut switch = switch(&[shared(100_000, alpha); 3]);
        for turn in 0..300 {
            let _ = switch.arrive(turn % 3, 0, 1000);
        }
        for port in 0..3 {
            let packets = state(&mut switch, port).bytes / 1000;
            assert!(packets.abs_diff(expected) <= 1, "{alpha}: {packets}");
        }
    }
}

#[test]
fn a_queue_longer_than_its_threshold_only_shrinks() {
    let mut switch = switch(&[shared(100_000, ALPHA_1); 2]);
    fill(&mut switch, 0, 0);
    fill(&mut switch, 1, 0);
    // The first one is now above its threshold.
    assert!(state(&mut switch, 0).bytes > state(&mut switch, 0).share.unwrap());
    switch.depart(0, 0, 1000);
    assert_eq!(switch.arrive(0, 0, 1000), Err(Cause::Share));
}

#[test]
fn without_alpha_a_port_may_fill_the_memory() {
    let mut switch = switch(&[shared(90_000, ALPHA_OFF); 2]);
    assert_eq!(fill(&mut switch, 0, 0), (90, Cause::Memory));
    assert_eq!(fill(&mut switch, 1, 0), (0, Cause::Memory));
    assert_eq!((switch.bytes(), switch.highest()), (90_000, 90_000));
}

#[test]
fn without_memory_there_is_no_limit() {
    let mut switch = switch(&[Options::default(); 2]);
    for _ in 0..100_000 {
        assert_eq!(switch.arrive(0, 2, 9_000), Ok(()));
    }
    assert_eq!(state(&mut switch, 0).share, None);
}

#[test]
fn a_packet_that_leaves_makes_room_at_another_port() {
    let mut switch = switch(&[shared(10_000, ALPHA_OFF); 2]);
    fill(&mut switch, 0, 0);
    switch.depart(0, 0, 1000);
    assert_eq!(switch.arrive(1, 0, 1000), Ok(()));
    assert_eq!(switch.bytes(), 10_000);
}

#[test]
fn a_change_of_the_memory_drops_nothing_and_limits_what_arrives() {
    let mut switch = switch(&[shared(100_000, ALPHA_OFF)]);
    fill(&mut switch, 0, 0);
    switch.set_terms(0, &terms(shared(50_000, ALPHA_OFF)));
    assert_eq!(switch.bytes(), 100_000);
    for _ in 0..51 {
        assert_eq!(switch.arrive(0, 0, 1000), Err(Cause::Memory));
        switch.depart(0, 0, 1000);
    }
    assert_eq!(switch.arrive(0, 0, 1000), Ok(()));
}

// ---- Priority flow control ---------------------------------------------------------------------

/// Two ingress ports, 0 and 1, and an egress port, 2.
fn incast(memory: u32) -> Switch {
    switch(&[lossless(memory); 3])
}

#[test]
fn it_is_set_to_trigger_when_an_input_port_occupies_more_than_11_percent_of_the_free_buffer() {
    // 1,000,000 bytes, and three headrooms.
    let mut switch = incast(1_030_000);
    let mut arrived = 0_u64;
    while frames(&mut switch, 0).is_empty() {
        assert_eq!(switch.arrive(2, 1, 1000), Ok(()));
        arrived += 1000;
    }
    // 0.11 / 1.11 of it.
    assert!((99_000..=100_000).contains(&arrived), "{arrived}");
    assert!(state(&mut switch, 0).pausing && !state(&mut switch, 1).pausing);
}

#[test]
fn the_pause_is_a_frame_by_the_ingress_device_and_is_repeated_before_it_ends() {
    let mut switch = incast(130_000);
    while !switch.has_news() {
        switch.arrive(2, 1, 1000).unwrap();
    }
    assert_eq!(frames(&mut switch, 50), [sending(1, 65_535)]);
    assert!(!switch.has_news());
    assert_eq!(switch.next_event(), Some(50 + REFRESH));
    switch.arrive(2, 1, 1000).unwrap();
    assert_eq!(frames(&mut switch, 49 + REFRESH), [], "it was told");
    assert_eq!(frames(&mut switch, 60 + REFRESH), [sending(1, 65_535)]);
    assert_eq!(state(&mut switch, 0).counters.pauses_sent, 2);
}

#[test]
fn packets_that_arrive_after_the_pause_fit_in_the_headroom() {
    let mut switch = incast(130_000);
    while !switch.has_news() {
        switch.arrive(2, 1, 1000).unwrap();
    }
    // Another neighbour may fill the shared memory meanwhile.
    while !state(&mut switch, 1).pausing {
        switch.arrive(2, 2, 1000).unwrap();
    }
    let before = state(&mut switch, 0).headroom;
    for _ in before / 1000..10 {
        assert_eq!(switch.arrive(2, 1, 1000), Ok(()));
    }
    assert_eq!(state(&mut switch, 0).headroom, 10_000);
    // More than was announced as in flight.
    assert_eq!(switch.arrive(2, 1, 1000), Err(Cause::Headroom));
    assert_eq!(state(&mut switch, 2).counters.dropped, [0, 0, 1]);
}

#[test]
fn a_resume_follows_when_the_headroom_is_empty_and_less_than_the_threshold_is_left() {
    let mut switch = incast(130_000);
    while !switch.has_news() {
        switch.arrive(2, 1, 1000).unwrap();
    }
    for _ in 0..5 {
        switch.arrive(2, 1, 1000).unwrap();
    }
    assert_eq!(frames(&mut switch, 0).len(), 1);
    while frames(&mut switch, 100).is_empty() {
        switch.depart(2, 1, 1000);
    }
    let state = state(&mut switch, 0);
    assert!(!state.pausing && state.headroom == 0);
    assert_eq!(state.counters.resumes_sent, 1);
    let threshold = state.threshold.unwrap();
    assert!(state.ingress + 3_000 <= threshold, "{state:?}");
    assert!(state.ingress + 4_000 > threshold - 110, "not later");
    assert_eq!(switch.next_event(), None);
}

#[test]
fn a_port_that_is_empty_always_resumes() {
    // The threshold is never 3,000 bytes.
    let mut switch = incast(40_000);
    while !switch.has_news() {
        switch.arrive(2, 1, 1000).unwrap();
    }
    assert_eq!(frames(&mut switch, 0), [sending(1, 65_535)]);
    while state(&mut switch, 2).bytes != 0 {
        assert_eq!(frames(&mut switch, 0), []);
        switch.depart(2, 1, 1000);
    }
    assert_eq!(frames(&mut switch, 0), [sending(1, 0)]);
}

#[test]
fn a_lossless_packet_is_not_dropped_by_the_threshold_of_its_egress_port() {
    let mut options = [lossless(1_000_000); 3];
    options[2].alpha = Some(1);
    let mut switch = switch(&options);
    for _ in 0..50 {
        assert_eq!(switch.arrive(2, 1, 1000), Ok(()));
    }
    // A packet of this node is.
    assert_eq!(switch.arrive(2, 0, 1000), Err(Cause::Share));
}

#[test]
fn the_headrooms_are_not_shared() {
    let mut switch = switch(&[shared(100_000, ALPHA_OFF)]);
    for device in 2..5 {
        join(&mut switch, device, lossless(100_000)).unwrap();
    }
    assert_eq!(fill(&mut switch, 0, 0), (70, Cause::Memory));
    switch.leave(1);
    assert_eq!(fill(&mut switch, 0, 0), (10, Cause::Memory));
}

#[test]
fn headrooms_that_take_the_whole_memory_are_refused() {
    let mut switch = switch(&[lossless(30_000); 2]);
    assert_eq!(
        join(&mut switch, 3, lossless(30_000)),
        Err(Refused::Headroom)
    );
    assert_eq!(join(&mut switch, 3, shared(30_000, ALPHA_1)), Ok(2));
    // Another qdisc of the same device takes no more.
    assert_eq!(join(&mut switch, 2, lossless(30_000)), Ok(1));
}

#[test]
fn a_pause_that_other_packets_made_needless_is_not_refreshed_but_ended() {
    let mut switch = incast(130_000);
    for _ in 0..40 {
        switch.arrive(2, 0, 1000).unwrap();
    }
    while !state(&mut switch, 0).pausing {
        switch.arrive(2, 1, 1000).unwrap();
    }
    assert_eq!(frames(&mut switch, 0), [sending(1, 65_535)]);
    while state(&mut switch, 0).headroom != 0 {
        switch.depart(2, 1, 1000);
    }
    // The threshold rises, and no packet of the neighbour leaves.
    for _ in 0..40 {
        switch.depart(2, 0, 1000);
    }
    assert!(state(&mut switch, 0).pausing);
    assert_eq!(frames(&mut switch, REFRESH), [sending(1, 0)]);
}

#[test]
fn a_port_obeys_frames_about_its_priority_only() {
    let mut switch = incast(130_000);
    assert!(!switch.hear(1, &Frame::about(4, 100), 10));
    assert_eq!(switch.paused_until(0, 10), None);
    switch.hear(1, &Frame::about(3, 100), 10);
    assert_eq!(switch.paused_until(0, 10), Some(10 + 5_120));
    assert_eq!(switch.paused_until(1, 10), None);
    assert!(switch.hear(1, &Frame::about(3, 0), 20));
    let counters = state(&mut switch, 0).counters;
    assert_eq!(
        (counters.pauses_received, counters.resumes_received),
        (1, 1)
    );
    // No port of this switch, and one without flow control.
    assert!(!switch.hear(77, &Frame::about(3, 100), 10));
    switch.set_terms(1, &terms(shared(130_000, ALPHA_1)));
    switch.hear(2, &Frame::about(3, 100), 10);
    assert_eq!(switch.paused_until(1, 10), None);
}

// ---- Priorities --------------------------------------------------------------------------------

/// Priority flow control of another priority.
fn of_priority(priority: u8, memory: u32) -> Options {
    Options {
        priority: Some(priority),
        ..lossless(memory)
    }
}

/// Ports 0 and 1 are devices 1 and 2 with priority 3, ports 2 and 3 the same with priority 5.
fn two_priorities() -> Switch {
    let mut switch = Switch::new(room(0));
    for (place, priority) in [(0, 3), (1, 3), (2, 5), (3, 5)] {
        let device = u32::from(place % 2) + 1;
        let joined = join(&mut switch, device, of_priority(priority, 140_000));
        assert_eq!(joined, Ok(place));
    }
    switch
}

#[test]
fn each_priority_of_a_neighbour_is_paused_for_its_own_bytes() {
    let mut switch = two_priorities();
    // From device 1, by device 2, with priority 5.
    while !switch.has_news() {
        switch.arrive(3, 1, 1000).unwrap();
    }
    let pause = |priority, quanta| Sending {
        device: 1,
        frame: Frame::about(priority, quanta),
    };
    assert_eq!(frames(&mut switch, 0), [pause(5, 65_535)]);
    let [urgent, other] = [0, 2].map(|port| state(&mut switch, port));
    assert_eq!((urgent.ingress, urgent.pausing), (0, false));
    assert_eq!(other.ingress, state(&mut switch, 3).bytes);
    // The memory is one: what priority 5 holds lowers the threshold of priority 3.
    assert_eq!(urgent.threshold, other.threshold);
    while state(&mut switch, 3).bytes != 0 {
        switch.depart(3, 1, 1000);
    }
    assert_eq!(frames(&mut switch, 0), [pause(5, 0)]);
}

#[test]
fn a_frame_pauses_the_priorities_that_it_is_about() {
    let mut switch = two_priorities();
    switch.hear(2, &Frame::about(5, 100), 10);
    assert_eq!(switch.paused_until(1, 10), None);
    assert_eq!(switch.paused_until(3, 10), Some(10 + 5_120));
    let mut both = Frame::about(3, 200);
    both.times[5] = Some(0);
    assert!(switch.hear(2, &both, 20), "priority 5 may send again");
    assert_eq!(switch.paused_until(1, 20), Some(20 + 10_240));
    assert_eq!(switch.paused_until(3, 20), None);
}

#[test]
fn dynamic_thresholds_are_those_of_each_priority() {
    let mut switch = Switch::new(room(0));
    for priority in [0, 1] {
        let options = Options {
            priority: Some(priority),
            ..shared(90_000, ALPHA_1)
        };
        join(&mut switch, 1, options).unwrap();
    }
    assert_eq!(fill(&mut switch, 0, 9), (45, Cause::Share));
    assert_eq!(fill(&mut switch, 1, 9), (23, Cause::Share));
}

#[test]
fn a_packet_whose_ingress_device_lacks_its_priority_is_not_lossless() {
    let mut switch = two_priorities();
    join(&mut switch, 3, of_priority(3, 140_000)).unwrap();
    let before = state(&mut switch, 4).ingress;
    switch.arrive(3, 3, 1000).unwrap();
    assert_eq!(state(&mut switch, 4).ingress, before);
    switch.arrive(1, 3, 1000).unwrap();
    assert_eq!(state(&mut switch, 4).ingress, before + 1000);
}

#[test]
fn what_a_device_could_not_send_is_the_last_frame() {
    let mut switch = two_priorities();
    for egress in [1, 3] {
        while !state(&mut switch, egress - 1).pausing {
            switch.arrive(egress, 1, 1000).unwrap();
        }
    }
    switch.tick(0);
    let first = switch.next_frame(0).unwrap();
    let second = switch.next_frame(0).unwrap();
    assert_eq!((first.device, second.device), (1, 1));
    switch.unsent(1, 0);
    let unsent = [0, 2].map(|port| state(&mut switch, port).counters.unsent);
    let about_5 = second.frame.time(5).is_some();
    assert_eq!(unsent, [u64::from(!about_5), u64::from(about_5)]);
    switch.unsent(2, 0);
    assert_eq!(state(&mut switch, 1).counters.unsent, 0, "it sent none");
}

#[test]
fn a_device_has_an_index_below_2_to_the_29() {
    let mut switch = two_priorities();
    for priority in [0, 7] {
        let options = of_priority(priority, 1_000_000);
        assert!(join(&mut switch, (1 << 29) - 1, options).is_ok());
        let refused = join(&mut switch, 1 << 29, options);
        assert_eq!(refused, Err(Refused::Device));
    }
    // Nor is its packet another device's.
    switch.arrive(3, 1 << 29 | 1, 1000).unwrap();
    assert_eq!(state(&mut switch, 2).ingress, 0);
}

#[test]
fn the_lowest_priority_counts_malformed_frames() {
    let mut switch = two_priorities();
    switch.hear_nonsense(2);
    switch.hear_nonsense(77);
    let malformed = [1, 3].map(|port| state(&mut switch, port).counters.malformed);
    assert_eq!(malformed, [1, 0]);
}

// ---- Members -----------------------------------------------------------------------------------

#[test]
fn a_port_that_leaves_resumes_its_neighbour() {
    let mut switch = incast(130_000);
    while !switch.has_news() {
        switch.arrive(2, 1, 1000).unwrap();
    }
    frames(&mut switch, 0);
    switch.leave(0);
    assert_eq!(frames(&mut switch, 1), [sending(1, 0)]);
    // Its packets are inside, so it is kept for them.
    assert_eq!(switch.ports(), 3);
    while state(&mut switch, 2).bytes != 0 {
        switch.depart(2, 1, 1000);
    }
    assert_eq!(switch.ports(), 2);
}

#[test]
fn a_port_keeps_its_bytes_when_the_switch_grows() {
    let mut switch = switch(&[shared(1_000_000, ALPHA_1); 2]);
    switch.arrive(0, 2, 1000).unwrap();
    switch.arrive(1, 1, 500).unwrap();
    for device in 3..20 {
        join(&mut switch, device, shared(1_000_000, ALPHA_1)).unwrap();
    }
    assert_eq!(state(&mut switch, 1).ingress, 1000);
    switch.depart(0, 2, 1000);
    switch.depart(1, 1, 500);
    assert_eq!(state(&mut switch, 1).ingress, 0);
    assert_eq!(switch.bytes(), 0);
}

#[test]
fn drops_by_a_child_are_subtracted_from_the_largest_neighbour_and_no_error_outlives_the_queue() {
    let mut switch = incast(1_000_000);
    for _ in 0..10 {
        switch.arrive(2, 1, 1000).unwrap();
    }
    for _ in 0..4 {
        switch.arrive(2, 2, 1000).unwrap();
    }
    switch.lose(2, 3_000, None);
    assert_eq!(state(&mut switch, 0).ingress, 7_000);
    // It was a packet of the other one that was dropped.
    switch.lose(2, 1_000, Some(2));
    assert_eq!(state(&mut switch, 1).ingress, 3_000);
    // Four of the other one leave, although only three are known.
    for _ in 0..4 {
        switch.depart(2, 2, 1000);
    }
    assert_eq!(state(&mut switch, 0).ingress, 6_000);
    switch.lose(2, u64::MAX, None);
    assert_eq!((switch.bytes(), state(&mut switch, 0).ingress), (0, 0));
}

#[test]
fn bytes_that_a_child_adds_are_those_of_the_packets_neighbour() {
    let mut switch = incast(1_000_000);
    switch.arrive(2, 1, 3_000).unwrap();
    switch.gain(2, 84, 1);
    assert_eq!(state(&mut switch, 0).ingress, 3_084);
    switch.depart(2, 1, 1_542);
    switch.depart(2, 1, 1_542);
    assert_eq!(switch.bytes(), 0);
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
    replay("port", |bytes| Scenario::decode(bytes).run());
}
