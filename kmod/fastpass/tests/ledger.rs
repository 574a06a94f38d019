// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Two hosts' reports on the paths between them give the losses there, whatever is lost; and the
//! reports are few.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use weft_mechanisms::fastpass::frame::{Entry, ENTRIES, MAX_SIZE};
use weft_mechanisms::fastpass::host::{Host, Shape, Terms};
use weft_mechanisms::fastpass::ledger::{Ledger, ROUNDS};
use weft_mechanisms::fastpass::queues::Order;
use weft_mechanisms::fastpass::session::{Demands, Has, Received, Secret, Session};
use weft_mechanisms::heap::Heap;

use super::arbiter;
use super::exchange::Random;

/// The ledger's current report.
fn told(ledger: &mut Ledger<Heap>) -> Vec<Entry> {
    let mut entries = [Entry::default(); ENTRIES];
    let filled = ledger.report(0, &mut entries);
    entries[..filled].to_vec()
}

fn of(entries: &[Entry], peer: u16, path: u8) -> Entry {
    let mut entries = entries.iter();
    let found = entries.find(|it| (it.peer, it.path) == (peer, path));
    *found.unwrap()
}

/// Packets lost of those sent when `sender` reported, as an arbiter computes it from a later report
/// of the receiver.
fn missing(sender: Entry, receiver: Entry) -> u16 {
    let behind = sender.sent.wrapping_sub(receiver.seen) as i16;
    receiver.lost.wrapping_add(behind.max(0) as u16)
}

#[test]
fn a_gap_is_a_loss() {
    let mut ledger = Ledger::<Heap>::new(4, 2).unwrap();
    for number in [1, 2, 3, 6, 7] {
        ledger.arrive(0, 3, 1, number);
    }
    let entry = of(&told(&mut ledger), 3, 1);
    assert_eq!((entry.sent, entry.seen, entry.lost), (0, 7, 2));
    assert_eq!(ledger.lost(), 2);
    // One of the two was only late, and a duplicate is no news.
    ledger.arrive(0, 3, 1, 5);
    ledger.arrive(0, 3, 1, 7);
    let entry = of(&told(&mut ledger), 3, 1);
    assert_eq!((entry.seen, entry.lost, ledger.lost()), (7, 1, 1));
    // The other path is not affected.
    assert_eq!(of(&told(&mut ledger), 3, 0).lost, 0);
}

#[test]
fn a_sender_that_restarts_has_lost_nothing() {
    let mut ledger = Ledger::<Heap>::new(4, 1).unwrap();
    (1..=1000).for_each(|number| ledger.arrive(0, 1, 0, number));
    (1..=3).for_each(|number| ledger.arrive(0, 1, 0, number));
    let entry = of(&told(&mut ledger), 1, 0);
    assert_eq!((entry.seen, entry.lost), (3, 0));
}

#[test]
fn unknown_endpoints_and_paths_are_not_recorded() {
    let mut ledger = Ledger::<Heap>::new(4, 2).unwrap();
    assert_eq!(ledger.send(0, 4, 0), None);
    assert_eq!(ledger.send(0, 0, 2), None);
    ledger.arrive(0, u16::MAX, u16::MAX, 1);
    assert_eq!(ledger.due(), None);
    let mut none = Ledger::<Heap>::new(4, 0).unwrap();
    assert_eq!(none.send(0, 0, 0), None);
    assert!(none.due().is_none() && told(&mut none).is_empty());
}

/// At 30 % loss of reports, one of eight arrives except one time in 15,000.
#[test]
fn reports_mention_an_endpoint_a_few_times_after_its_last_packet() {
    let mut ledger = Ledger::<Heap>::new(300, 3).unwrap();
    ledger.send(77, 299, 2);
    assert_eq!(ledger.due(), Some(77));
    for round in 0..ROUNDS {
        assert!(ledger.due().is_some());
        let entries = told(&mut ledger);
        assert_eq!(entries.len(), 3, "{round}");
        assert_eq!(of(&entries, 299, 2).sent, 1);
    }
    assert_eq!(ledger.due(), None);
}

#[test]
fn a_report_is_bounded_and_the_next_one_continues_where_it_ended() {
    for (count, paths) in [
        (30, 4),
        (5, 100),
        (2, 256),
        (300, 1),
        (57, 1),
        (56, 1),
        (3, 19),
    ] {
        let mut ledger = Ledger::<Heap>::new(count, paths).unwrap();
        (0..count).for_each(|to| assert!(ledger.send(0, to, 0).is_some()));
        let cells = usize::from(count) * usize::from(paths);
        let mut seen = BTreeSet::new();
        for _ in 0..cells.div_ceil(ENTRIES) {
            let entries = told(&mut ledger);
            assert!(entries.len() <= ENTRIES, "{}", entries.len());
            seen.extend(entries.iter().map(|it| (it.peer, it.path)));
        }
        assert_eq!(seen.len(), cells, "{count} {paths}");
        let mut reports = 0;
        while ledger.due().is_some() {
            told(&mut ledger);
            reports += 1;
            assert!(
                reports <= 8 * cells.div_ceil(ENTRIES) + 8,
                "{count} {paths}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whichever of their packets are lost, even all of them for a while, and however many there
    /// are.
    #[test]
    fn reports_of_both_endpoints_give_the_losses(seed: u64, phases in prop::collection::vec(
        (0..3_u8, 1..20_000_u32, 0..=100_u64), 1..8,
    )) {
        let mut random = Random::new(seed);
        let [mut a, mut b] = [(); 2].map(|()| Ledger::<Heap>::new(2, 3).unwrap());
        let mut under_way: BTreeMap<u8, VecDeque<Option<u16>>> = BTreeMap::new();
        let mut lost = [0_u16; 3];
        for (path, packets, percent) in phases {
            for _ in 0..packets {
                let number = a.send(0, 1, path.into()).unwrap();
                let is_lost = random.percent(percent);
                lost[usize::from(path)] = lost[usize::from(path)].wrapping_add(is_lost.into());
                let way = under_way.entry(path).or_default();
                way.push_back((!is_lost).then_some(number));
                // Some are under way, and keep their order.
                if way.len() > 20 || random.percent(50) {
                    if let Some(number) = way.pop_front().flatten() {
                        b.arrive(0, 0, path.into(), number);
                    }
                }
            }
            // Packets sent until now have arrived, or never will, when the receiver is asked.
            let sender = told(&mut a);
            for (path, way) in &mut under_way {
                way.drain(..).flatten().for_each(|number| b.arrive(0, 0, (*path).into(), number));
            }
            let receiver = told(&mut b);
            for path in 0..3 {
                // A host that has seen nothing reports nothing.
                let receiver = receiver.iter().find(|it| it.path == path);
                let receiver = receiver.copied().unwrap_or_default();
                let found = missing(of(&sender, 1, path), receiver);
                prop_assert_eq!(found, lost[usize::from(path)], "path {}", path);
            }
        }
    }
}

const TERMS: Terms = Terms {
    timeslot: 100,
    capacity: 1000,
    limit: 10,
    late: 100,
    gather: 0,
    hold: 0,
    interval: 100,
    timeout: 1000,
    skew: 7,
    report: 5000,
};

const SHAPE: Shape = Shape {
    id: 1,
    endpoints: 4,
    paths: 2,
    classes: 1,
    order: Order::Fifo,
};

#[derive(Default)]
struct Heard(Vec<(u64, Entry)>);

impl Demands for Heard {
    fn request(&mut self, _destination: u16, _slots: u32, _has: Has) -> bool {
        true
    }

    fn forget(&mut self) {}

    fn report(&mut self, time: u64, entry: Entry) {
        self.0.push((time, entry));
    }
}

const HEEDED: Received = Received::Heeded {
    refused: 0,
    is_first: false,
};

const SECRET: Secret = Secret([1, 2]);

/// Runs until the host has no more messages; returns the session's results.
fn exchange(
    host: &mut Host<Heap>,
    session: &mut Session<Heap>,
    now: u64,
    heard: &mut Heard,
) -> Vec<Received> {
    let mut all = Vec::new();
    let mut bytes = [0; MAX_SIZE];
    while let Some(len) = host.poll(now, &mut bytes) {
        let (received, reset) = arbiter::receive(session, now, &bytes[..len], SECRET, heard);
        all.push(received);
        if let Some(reset) = reset {
            assert!(host.receive(now, &reset).is_some());
        }
        while let Some(len) = session.poll(now, false, &mut bytes) {
            assert!(host.receive(now, &bytes[..len]).is_some());
        }
    }
    all
}

#[test]
fn a_host_reports_under_its_session_and_not_before_it_has_one() {
    let mut host = Host::<Heap>::new(SHAPE, 5, TERMS).unwrap();
    let mut session = Session::new(1, 4, 1000).unwrap();
    let mut heard = Heard::default();
    host.arrived(10_000, 3, 1, Some(4));
    assert_eq!(host.next_poll(), None);
    // It requests a timeslot, and so learns of the arbiter.
    assert!(host.arrive(10_000, 2, 0, 500));
    for now in [10_000, 10_100, 10_200] {
        exchange(&mut host, &mut session, now, &mut heard);
    }
    let expected = |time, path, seen, lost| {
        let entry = Entry {
            peer: 3,
            path,
            sent: 0,
            seen,
            lost,
        };
        (time, entry)
    };
    let first = heard.0.first().unwrap().0;
    assert!((10_000 - 7..=10_200 - 7).contains(&first), "{first}");
    assert_eq!(
        heard.0,
        [expected(first, 0, 0, 0), expected(first, 1, 4, 3)]
    );
    // Not again before it is due; then it is acknowledged, even if it contains nothing else to
    // answer.
    heard.0.clear();
    assert!(exchange(&mut host, &mut session, first + 4000, &mut heard).len() < 2);
    assert!(heard.0.is_empty());
    host.clear();
    // Each endpoint has its own part of that time.
    let received = exchange(&mut host, &mut session, first + 7 + 7500, &mut heard);
    assert_eq!(received.last(), Some(&HEEDED));
    assert_eq!(heard.0.len(), 2);
    assert_eq!(host.counters().reports, 2);
    assert_eq!(host.lost_packets(), 3);
}

#[test]
fn forged_reports_are_ignored() {
    let mut host = Host::<Heap>::new(SHAPE, 5, TERMS).unwrap();
    let mut session = Session::<Heap>::new(1, 4, 1000).unwrap();
    let mut heard = Heard::default();
    assert!(host.arrive(10_000, 2, 0, 500));
    exchange(&mut host, &mut session, 10_000, &mut heard);
    let mut bytes = [0; MAX_SIZE];
    let head = weft_mechanisms::fastpass::frame::Head {
        kind: weft_mechanisms::fastpass::frame::Kind::Report,
        endpoint: 1,
        word: 5,
    };
    let entries = [Entry::default(); 3];
    let len = weft_mechanisms::fastpass::frame::encode_report(&mut bytes, head, 12345, 1, &entries);
    let (received, _) = arbiter::receive(&mut session, 10_000, &bytes[..len], SECRET, &mut heard);
    assert_eq!(received, Received::Unsynchronised { cookie: 5 });
    assert!(heard.0.is_empty());
}
