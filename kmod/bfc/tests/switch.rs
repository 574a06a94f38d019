// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The state that the ports of a switch share.

use super::rig::{
    empty_switch, from, join, set, Rig, BDP, HRTT, LINK, MTU, REFRESH, SHAPE, TUNING,
};
use weft_mechanisms::bfc::egress::Threshold;
use weft_mechanisms::bfc::ingress::{Tell, HOLD, QUIET};
use weft_mechanisms::bfc::neighbour::{Heard, Treatment};
use weft_mechanisms::bfc::queue_set::QueueSet;
use weft_mechanisms::bfc::switch::{Link, Place, Refused, Room};
use weft_mechanisms::common::ports::MAX_PORTS;
use weft_mechanisms::heap::Heap;

#[test]
fn a_port_is_found_by_its_device_however_many_there_are() {
    let mut switch = empty_switch();
    // Indices that lie close and far apart.
    let devices: Vec<u32> = (1..=200)
        .map(|i| if i % 3 == 0 { i << 20 } else { i })
        .collect();
    for &device in &devices {
        join(&mut switch, device, 31, &LINK, 0, 0).unwrap();
    }
    assert_eq!(switch.ports(), devices.len());
    let mut places: Vec<u16> = devices.iter().map(|d| switch.find(*d).unwrap()).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), devices.len(), "each has a place of its own");
    assert_eq!(switch.find(0), None);
    assert_eq!(switch.find(999), None);
}

#[test]
fn a_switch_has_room_for_1024_ports_and_no_more() {
    let mut switch = empty_switch();
    for device in 1..=u32::from(MAX_PORTS) {
        join(&mut switch, device, 1, &LINK, 0, 0).unwrap();
    }
    assert_eq!(switch.wanted_room(), Some(MAX_PORTS));
    assert_eq!(join(&mut switch, 5000, 1, &LINK, 0, 0), Err(Refused::Full));
    assert!((1..=u32::from(MAX_PORTS)).all(|device| switch.find(device).is_some()));
}

#[test]
fn the_members_of_a_port_have_queue_numbers_of_their_own() {
    let mut switch = empty_switch();
    let place = |base, queues| {
        Ok(Place {
            port: 0,
            base,
            queues,
        })
    };
    assert_eq!(join(&mut switch, 9, 31, &LINK, 0, 0), place(0, 31));
    assert_eq!(join(&mut switch, 9, 500, &LINK, 0, 0), place(31, 500));
    assert_eq!(join(&mut switch, 9, 31, &LINK, 0, 0), place(531, 31));
    assert_eq!(
        join(&mut switch, 9, 500, &LINK, 0, 0),
        Err(Refused::Numbers)
    );
    switch.leave(&place(31, 500).unwrap());
    assert_eq!(join(&mut switch, 9, 400, &LINK, 0, 0), place(31, 400));
    assert_eq!(join(&mut switch, 9, 101, &LINK, 0, 0), place(562, 101));
    assert_eq!(join(&mut switch, 9, 100, &LINK, 0, 0), place(431, 100));
    assert_eq!(switch.ports(), 1);
}

#[test]
fn each_member_obeys_pauses_of_its_own_queues_only() {
    let mut rig = Rig::new(1);
    let second = rig.add(1, &SHAPE, TUNING);
    assert_eq!(rig.queue_of(0, &from(0, 0, 1)), 1);
    assert_eq!(rig.queue_of(second, &from(0, 0, 1)), 32);
    rig.hear(1, Tell::Pause(32));
    assert!(rig.dequeue(0).is_some());
    assert!(rig.dequeue(second).is_none());
    rig.hear(1, Tell::State(set(&[1])));
    assert!(rig.dequeue(second).is_some());
}

#[test]
fn the_buffer_is_shared_and_each_packet_gives_back_what_it_took() {
    let mut rig = Rig::with(&vec![(SHAPE, super::rig::TUNING_WITH_BUFFER); 2]);
    let limit = super::rig::TUNING_WITH_BUFFER.share.buffer() / u64::from(MTU);
    let mut queued = 0;
    for flow in 0.. {
        match rig.enqueue(flow as usize % 2, &from(0, 0, flow)) {
            Ok(_) => queued += 1,
            Err(cause) => {
                assert_eq!(cause, weft_mechanisms::bfc::egress::Cause::Buffer);
                break;
            }
        }
    }
    assert_eq!(queued, limit);
    assert_eq!(rig.switch.bytes(), (limit * 1000, limit * 1000));
    rig.drain(0);
    assert_eq!(rig.switch.bytes(), (limit / 2 * 1000, limit * 1000));
    rig.drain(1);
    assert_eq!(rig.switch.bytes(), (0, limit * 1000));
    assert_eq!(rig.ports[0].counters().dropped_buffer, 1);
}

#[test]
fn the_largest_hrtt_of_the_ingresses_counts() {
    let mut switch = empty_switch();
    let link = |hrtt| Link { hrtt, ..LINK };
    let alone = join(&mut switch, 1, 31, &link(5_000), 0, 0).unwrap();
    assert_eq!(switch.hrtt(alone.port), 5_000, "there is no other");
    let far = join(&mut switch, 2, 31, &link(400_000), 0, 0).unwrap();
    let near = join(&mut switch, 3, 31, &link(2_000), 0, 0).unwrap();
    assert_eq!(switch.hrtt(near.port), 400_000);
    assert_eq!(switch.hrtt(far.port), 5_000, "its own is no ingress of it");
    switch.set_link(near.port, &link(7_000));
    assert_eq!(switch.hrtt(far.port), 7_000);
    switch.leave(&far);
    assert_eq!(switch.hrtt(alone.port), 7_000);
    let equal = join(&mut switch, 4, 31, &link(7_000), 0, 0).unwrap();
    assert_eq!(switch.hrtt(equal.port), 7_000);
}

#[test]
fn frames_carry_a_number_and_their_hold_time() {
    let mut rig = Rig::new(3);
    let congest = |rig: &mut Rig, device| {
        for _ in 0..30 {
            rig.enqueue(2, &from(device, 5, device)).unwrap();
        }
    };
    congest(&mut rig, 1);
    congest(&mut rig, 2);
    let mut frames = rig.frames();
    frames.sort_by_key(|frame| frame.device);
    assert_eq!(frames.len(), 2);
    for (frame, device) in frames.iter().zip(1..) {
        assert_eq!((frame.device, frame.tell), (device, Tell::Pause(5)));
        assert_eq!((frame.sequence, frame.hold), (1, 4 * REFRESH));
    }
    rig.drain(2);
    let sequences: Vec<u64> = rig.frames().iter().map(|frame| frame.sequence).collect();
    assert_eq!(sequences, [2, 2]);
    let place = *rig.ports[0].place();
    let counters = rig.switch.counters(place.port);
    assert_eq!((counters.pauses_sent, counters.resumes_sent), (1, 1));
}

#[test]
fn bitmaps_are_sent_when_they_are_due() {
    let mut rig = Rig::new(3);
    assert_eq!(rig.switch.next_refresh(), None);
    for _ in 0..30 {
        rig.enqueue(2, &from(1, 5, 1)).unwrap();
    }
    rig.frames();
    assert_eq!(rig.switch.next_refresh(), Some(rig.now + REFRESH));
    rig.now += REFRESH;
    rig.switch.refresh(rig.now);
    assert_eq!(rig.told(), [(1, Tell::State(set(&[5])))]);
    assert_eq!(rig.switch.next_refresh(), Some(rig.now + REFRESH));
    rig.drain(2);
    rig.frames();
    let mut bitmaps = 0;
    while let Some(due) = rig.switch.next_refresh() {
        rig.now = due;
        rig.switch.refresh(due);
        assert_eq!(rig.told(), [(1, Tell::State(QueueSet::EMPTY))]);
        bitmaps += 1;
    }
    assert_eq!(bitmaps, 4, "then there is no timer any more");
}

/// The messages of each port, and their times: the due port is searched among all.
#[test]
fn each_of_1024_ports_sends_its_bitmaps_in_its_own_time() {
    let refresh = |device: u32| 1_000 + 37 * u64::from(device % 100);
    let mut switch = empty_switch();
    let mut ports = std::collections::BTreeMap::new();
    for device in 1..=u32::from(MAX_PORTS) {
        let link = Link {
            refresh: refresh(device),
            ..LINK
        };
        let place = join(&mut switch, device, 1, &link, 0, 0).unwrap();
        assert!(switch.count(place.port, 1));
        ports.insert(device, place);
    }
    let mut heard = std::collections::BTreeMap::<u32, Vec<u64>>::new();
    let mut hear = |switch: &mut super::rig::Switch, now| {
        switch.refresh(now);
        while let Some(frame) = switch.next_frame(now) {
            heard.entry(frame.device).or_default().push(now);
        }
    };
    // They begin one after the other.
    for now in 0..u64::from(MAX_PORTS) {
        assert!(switch.next_frame(now).is_some());
    }
    let mut now = 0;
    while now < 100_000 {
        now = switch.next_refresh().expect("all of them pause");
        hear(&mut switch, now);
        // Some are removed meanwhile.
        if let Some(place) = ports.remove(&(now as u32 % 5_000)) {
            switch.leave(&place);
        }
    }
    assert!(ports.len() < 1_000, "{} are left", ports.len());
    for device in ports.keys() {
        let times = &heard[device];
        assert!(times.len() > 20);
        for pair in times.windows(2) {
            assert_eq!(pair[1] - pair[0], refresh(*device), "{device}: {times:?}");
        }
    }
}

#[test]
fn an_unsent_frame_is_made_up_for() {
    let mut rig = Rig::new(2);
    for _ in 0..30 {
        rig.enqueue(1, &from(1, 5, 1)).unwrap();
    }
    assert_eq!(rig.told(), [(1, Tell::Pause(5))]);
    rig.switch.unsent(1, rig.now);
    rig.drain(1);
    rig.frames();
    rig.switch.unsent(1, rig.now);
    let due = rig.switch.next_refresh().unwrap();
    rig.now = due;
    rig.switch.refresh(due);
    assert_eq!(rig.told(), [(1, Tell::State(QueueSet::EMPTY))]);
    assert_eq!(rig.switch.counters(0).unsent, 2);
    rig.switch.unsent(77, due);
}

/// Every frame of device 1 fails for `ns`: returns the times of the attempts, from the start.
fn tries_while_down(rig: &mut Rig, ns: u64) -> Vec<u64> {
    let start = rig.now;
    let mut tries = Vec::new();
    loop {
        while let Some(frame) = rig.switch.next_frame(rig.now) {
            tries.push(rig.now - start);
            rig.switch.unsent(frame.device, rig.now);
        }
        let due = rig.switch.next_refresh();
        let Some(due) = due.filter(|due| *due <= start + ns) else {
            return tries;
        };
        rig.now = due;
        rig.switch.refresh(due);
    }
}

#[test]
fn a_port_that_is_down_stops_retrying_after_its_hold_time_and_a_few_bitmaps() {
    let mut rig = Rig::new(2);
    for _ in 0..40 {
        rig.enqueue(1, &from(1, 5, 1)).unwrap();
    }
    assert_eq!(rig.told(), [(1, Tell::Pause(5))]);
    rig.drain(1);
    let tries = tries_while_down(&mut rig, 10_000 * REFRESH);
    // The resume, and the bitmaps that make up for it.
    assert_eq!(tries.len(), 1 + usize::from(QUIET), "{tries:?}");
    assert!(tries.iter().all(|at| *at < 4 * HOLD * REFRESH), "{tries:?}");
    assert_eq!(rig.switch.next_refresh(), None, "no timer either");
}

#[test]
fn a_port_that_is_down_while_it_pauses_retries_once_per_hold_time() {
    let mut rig = Rig::new(2);
    for _ in 0..40 {
        rig.enqueue(1, &from(1, 5, 1)).unwrap();
    }
    let tries = tries_while_down(&mut rig, 1_000 * REFRESH);
    // The first failure may be the only one.
    let waits: Vec<u64> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits[..3], [REFRESH, 2 * REFRESH, HOLD * REFRESH]);
    assert!(waits[2..].iter().all(|wait| *wait == HOLD * REFRESH));
    // The port comes back: the neighbour hears it, and then at each refresh, as before.
    for wait in [HOLD, 1, 1, 1] {
        let due = rig.switch.next_refresh().unwrap();
        assert_eq!(due - rig.now, wait * REFRESH);
        rig.now = due;
        rig.switch.refresh(due);
        assert_eq!(rig.told(), [(1, Tell::State(set(&[5])))]);
    }
    rig.switch.unsent(1, rig.now);
    assert_eq!(rig.switch.next_refresh(), Some(rig.now + REFRESH));
}

#[test]
fn frames_are_received_only_on_a_port_with_a_member() {
    let mut switch = empty_switch();
    let heard = Heard {
        from: [2; 6],
        sequence: 1,
        hold: 1_000,
        tell: Tell::Pause(3),
    };
    assert_eq!(switch.hear(1, &heard, 0), None);
    switch.hear_nonsense(1);
    let place = join(&mut switch, 1, 31, &LINK, 0, 0).unwrap();
    let taken = Some(Treatment::Taken { changed: true });
    assert_eq!(switch.hear(1, &heard, 0), taken);
    assert_eq!(switch.hear(1, &heard, 0), Some(Treatment::Replayed));
    let other = Heard {
        from: [4; 6],
        ..heard
    };
    assert_eq!(switch.hear(1, &other, 0), Some(Treatment::Foreign));
    switch.hear_nonsense(1);
    let counters = switch.counters(place.port);
    assert_eq!((counters.pauses_received, counters.replayed), (1, 1));
    assert_eq!((counters.foreign, counters.malformed), (1, 1));
    switch.leave(&place);
    assert_eq!(switch.hear(1, &heard, 0), None);
}

#[test]
fn a_port_outlives_its_last_member_while_packets_are_counted_there() {
    let mut rig = Rig::new(2);
    for _ in 0..30 {
        rig.enqueue(1, &from(1, 5, 1)).unwrap();
    }
    rig.frames();
    let place = *rig.ports[0].place();
    let inside = rig.switch.inside(place.port);
    assert_eq!(
        inside, 4,
        "of 30 packets those that found more than 25,000 bytes"
    );
    rig.switch.leave(&place);
    assert!(rig.switch.reap().is_none(), "packets are counted there");
    assert_eq!(rig.switch.find(1), None);
    // It returns meanwhile, in the same place, and its upstream neighbour gets the state.
    let again = join(&mut rig.switch, 1, 31, &LINK, 100, rig.now).unwrap();
    assert_eq!(again.port, place.port);
    assert_eq!(rig.switch.counter(again.port, 5), inside);
    let frames = rig.frames();
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].tell, Tell::State(set(&[5])));
    assert!(frames[0].sequence > 100);
    rig.switch.leave(&again);
    rig.drain(1);
    assert_eq!(rig.told(), [], "nobody is there to be told");
    assert_eq!(rig.switch.counter(again.port, 5), 0);
    assert_eq!(rig.switch.next_refresh(), None);
    assert!(rig.switch.reap().is_some());
    assert!(rig.switch.reap().is_none());
    assert_eq!(rig.switch.ports(), 1);
}

#[test]
fn sequence_numbers_rise_over_a_restart() {
    let mut switch = empty_switch();
    let place = join(&mut switch, 1, 31, &LINK, 1_000, 0).unwrap();
    switch.leave(&place);
    assert!(switch.reap().is_some());
    join(&mut switch, 1, 31, &LINK, 2_000, 0).unwrap();
    let mut rig = Rig::new(0);
    rig.switch = switch;
    let egress = rig.add(2, &SHAPE, TUNING);
    for _ in 0..30 {
        rig.enqueue(egress, &from(1, 5, 1)).unwrap();
    }
    assert_eq!(rig.frames()[0].sequence, 2_001);
}

#[test]
fn the_caller_keeps_memory_that_a_port_does_not_need() {
    use weft_mechanisms::bfc::switch::PortMemory;
    let mut switch = empty_switch();
    join(&mut switch, 1, 31, &LINK, 0, 0).unwrap();
    let Ok(mut memory) = PortMemory::<Heap>::new(32);
    switch.join(1, 31, &LINK, 0, 0, &mut memory).unwrap();
    // The memory can be used for another port.
    let mut other = empty_switch();
    let Ok(room) = Room::new(1);
    drop(other.grow(room));
    let place = other.join(7, 31, &LINK, 0, 0, &mut memory).unwrap();
    assert!(other.count(place.port, 5), "still there");
}

#[test]
fn th_is_one_hop_bdp_at_the_queue_drain_rate() {
    let mut rig = Rig::new(2);
    let threshold = |rig: &Rig| rig.ports[1].threshold(&rig.switch);
    assert_eq!(threshold(&rig), BDP, "nobody else drains");
    for flow in 1..=4 {
        rig.enqueue(1, &from(1, 1, flow)).unwrap();
        assert_eq!(threshold(&rig), BDP / u64::from(flow));
    }
    // "i.e. queues with data to transmit that are not paused"
    rig.hear(2, Tell::State(set(&[1, 2, 3])));
    rig.dequeue(1);
    assert_eq!(threshold(&rig), BDP);
    let fixed = weft_mechanisms::bfc::egress::Tuning {
        threshold: Threshold::Fixed(77),
        ..TUNING
    };
    rig.ports[1].tune(fixed);
    assert_eq!(threshold(&rig), 77);
    assert_eq!(HRTT * 12_500_000_000 / 1_000_000_000, BDP);
}
