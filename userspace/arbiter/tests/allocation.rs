// SPDX-License-Identifier: MIT OR Apache-2.0

//! Both policies compared with a naive model: the same pairs in the same timeslots.

mod naive;

use naive::{Naive, Policy};
use proptest::prelude::*;
use weft_arbiter::max_min::{HORIZON, MaxMin};
use weft_arbiter::min_fct::MinFct;
use weft_arbiter::{Allocator, Free, Invalid, MAX_BATCH, MAX_DEMAND, MAX_ENDPOINTS, Refused};

fn make(policy: Policy, endpoints: usize, batch: usize) -> Result<Box<dyn Allocator>, Invalid> {
    Ok(match policy {
        Policy::MaxMin => Box::new(MaxMin::new(endpoints, batch)?),
        Policy::MinFct => Box::new(MinFct::new(endpoints, batch)?),
    })
}

/// An allocator and the model.
struct Both {
    real: Box<dyn Allocator>,
    free: Box<Free>,
    naive: Naive,
    given: usize,
}

impl Both {
    fn new(policy: Policy, endpoints: u16, batch: usize) -> Self {
        Self {
            real: make(policy, endpoints.into(), batch).unwrap(),
            free: Free::new(endpoints.into(), batch).unwrap(),
            naive: Naive::new(policy, endpoints, batch),
            given: 0,
        }
    }

    fn request(&mut self, from: u16, to: u16, slots: u16) -> Result<(), Refused> {
        let answer = self.real.request(from, to, slots);
        assert_eq!(answer, self.naive.request(from, to, slots));
        answer
    }

    /// Allocates a batch, and compares it with the model.
    fn allocate(&mut self) -> Vec<Vec<(u16, u16)>> {
        let mut expected = self.naive.allocate();
        self.free.allocate(&mut *self.real);
        for (index, expected) in expected.iter_mut().enumerate() {
            // The order within a timeslot does not matter.
            expected.sort();
            let given = self.real.timeslot(index).iter();
            let mut given: Vec<_> = given.map(|a| (a.source(), a.destination())).collect();
            given.sort();
            assert_eq!(&given, expected, "timeslot {index}");
            self.given += given.len();
        }
        assert!(self.real.timeslot(expected.len()).is_empty());
        expected
    }

    /// Allocates batches until nothing is left.
    fn drain(&mut self) -> usize {
        let before = self.given;
        while self.allocate().iter().any(|timeslot| !timeslot.is_empty()) {}
        self.given - before
    }
}

/// An event between two batches.
#[derive(Clone, Debug)]
enum Event {
    Request(u16, u16, u16),
    /// All endpoints request the same destination.
    AllToOne(u16, u16),
    OneToAll(u16, u16),
    Forget(u16),
    /// This many batches without requests.
    Idle(usize),
    Batch,
}

fn event(endpoints: u16) -> impl Strategy<Value = Event> {
    // Includes endpoints that do not exist.
    let node = 0..endpoints + 1;
    let slots = prop_oneof![8 => 0..20_u16, 2 => 20..200_u16, 1 => Just(u16::MAX)];
    prop_oneof![
        20 => (node.clone(), node.clone(), slots).prop_map(|(a, b, n)| Event::Request(a, b, n)),
        1 => (node.clone(), 1..9_u16).prop_map(|(to, n)| Event::AllToOne(to, n)),
        1 => (node.clone(), 1..9_u16).prop_map(|(from, n)| Event::OneToAll(from, n)),
        1 => node.prop_map(Event::Forget),
        1 => (0..40_usize).prop_map(Event::Idle),
        6 => Just(Event::Batch),
    ]
}

fn scenario() -> impl Strategy<Value = (Policy, u16, usize, Vec<Event>)> {
    let policy = prop_oneof![Just(Policy::MaxMin), Just(Policy::MinFct)];
    let endpoints = prop_oneof![3 => 2..6_u16, 3 => 6..40_u16, 1 => 65..90_u16];
    let batch = prop_oneof![Just(1), Just(MAX_BATCH), 2..MAX_BATCH];
    (policy, endpoints, batch).prop_flat_map(|(policy, endpoints, batch)| {
        let events = prop::collection::vec(event(endpoints), 0..120);
        (Just(policy), Just(endpoints), Just(batch), events)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn each_timeslot_matches_the_naive_one((policy, endpoints, batch, events) in scenario()) {
        let mut both = Both::new(policy, endpoints, batch);
        for event in events {
            match event {
                Event::Request(from, to, slots) => {
 let _ = both.request(from, to, slots); },
                Event::AllToOne(to, slots) => {
                    (0..endpoints).for_each(|from| {
 let _ = both.request(from, to, slots); });
                }
                Event::OneToAll(from, slots) => {
                    (0..endpoints).for_each(|to| {
 let _ = both.request(from, to, slots); });
                }
                Event::Forget(source) => {
                    both.real.forget(source);
                    both.naive.forget(source);
                }
                Event::Idle(batches) => (0..batches).for_each(|_| drop(both.allocate())),
                Event::Batch => drop(both.allocate()),
            }
        }
        for _ in 0..4 {
            both.allocate();
        }
    }
}

const POLICIES: [Policy; 2] = [Policy::MaxMin, Policy::MinFct];

#[test]
fn under_overload_many_endpoints_are_served_as_by_the_naive_allocator() {
    for policy in POLICIES {
        let mut both = Both::new(policy, 300, 64);
        let mut random = 1_u32;
        for _ in 0..12 {
            for _ in 0..3000 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let [from, to] = [random >> 8, random >> 20].map(|node| (node % 300) as u16);
                let _ = both.request(from, to, (random >> 4) as u16 % 25);
            }
            both.allocate();
        }
        assert!(both.given > 200_000, "{policy:?}: {}", both.given);
    }
}

#[test]
fn all_to_one_takes_as_many_timeslots_as_there_are_packets() {
    for policy in POLICIES {
        let mut both = Both::new(policy, 100, 64);
        for from in 1..100 {
            both.request(from, 0, 3).unwrap();
        }
        let mut timeslots = Vec::new();
        for _ in 0..5 {
            timeslots.extend(both.allocate());
        }
        let busy = timeslots.iter().take_while(|t| t.len() == 1).count();
        assert_eq!(busy, 297, "{policy:?}");
        assert!(timeslots[busy..].iter().all(Vec::is_empty));
    }
}

#[test]
fn one_to_all_takes_as_many_timeslots_as_there_are_packets() {
    for policy in POLICIES {
        let mut both = Both::new(policy, 100, 64);
        for to in 1..100 {
            both.request(0, to, 3).unwrap();
        }
        let timeslots: Vec<_> = (0..5).flat_map(|_| both.allocate()).collect();
        let busy = timeslots.iter().take_while(|t| t.len() == 1).count();
        assert_eq!(busy, 297, "{policy:?}");
    }
}

#[test]
fn max_min_takes_turns_and_min_fct_finishes_the_smallest_first() {
    let requests = [(1, 0, 3), (2, 0, 2), (3, 0, 1)];
    let order = |policy| -> Vec<u16> {
        let mut both = Both::new(policy, 4, 8);
        for (from, to, slots) in requests {
            both.request(from, to, slots).unwrap();
        }
        both.allocate().concat().iter().map(|pair| pair.0).collect()
    };
    assert_eq!(order(Policy::MaxMin), [1, 2, 3, 1, 2, 1]);
    assert_eq!(order(Policy::MinFct), [3, 2, 2, 1, 1, 1]);
}

#[test]
fn a_pair_that_waited_longer_precedes_one_that_begins_later() {
    let mut both = Both::new(Policy::MaxMin, 4, 4);
    both.request(1, 0, 1).unwrap();
    both.allocate();
    both.request(2, 0, 1).unwrap();
    both.allocate();
    // Both request again, the one with the later timeslot first.
    both.request(2, 0, 1).unwrap();
    both.request(1, 0, 1).unwrap();
    assert_eq!(both.allocate().concat(), [(1, 0), (2, 0)]);
    // Beyond the horizon the last timeslots are forgotten: then the order of requests counts.
    (0..HORIZON).for_each(|_| drop(both.allocate()));
    both.request(2, 0, 1).unwrap();
    both.request(1, 0, 1).unwrap();
    assert_eq!(both.allocate().concat(), [(2, 0), (1, 0)]);
}

#[test]
fn a_waiting_pair_precedes_an_arriving_one_with_the_same_last_timeslot() {
    let mut both = Both::new(Policy::MaxMin, 300, 1);
    both.request(1, 0, 1).unwrap();
    both.allocate();
    // It waits for all others, until they are its equals, and one more arrives.
    both.request(1, 0, 1).unwrap();
    for from in 2..=260 {
        both.request(from, 0, 1).unwrap();
    }
    for _ in 1..HORIZON {
        both.allocate();
    }
    both.request(299, 0, 1).unwrap();
    let given: Vec<_> = (0..6).flat_map(|_| both.allocate()).flatten().collect();
    assert_eq!(given[4..], [(1, 0), (299, 0)]);
}

#[test]
fn a_pair_that_requests_one_timeslot_at_a_time_gains_nothing_over_a_backlogged_one() {
    let mut both = Both::new(Policy::MaxMin, 3, 1);
    both.request(1, 0, 1000).unwrap();
    let mut given = [0; 3];
    for _ in 0..200 {
        both.request(2, 0, 1).unwrap();
        for (from, _) in both.allocate().concat() {
            given[usize::from(from)] += 1;
        }
    }
    assert_eq!(given, [0, 100, 100]);
}

#[test]
fn a_demand_is_bounded_and_the_refused_part_is_not_allocated() {
    for policy in POLICIES {
        let mut both = Both::new(policy, 3, 64);
        assert_eq!(both.request(0, 3, 1), Err(Refused::Unknown));
        assert_eq!(both.request(3, 0, 1), Err(Refused::Unknown));
        assert_eq!(both.request(u16::MAX, u16::MAX, 1), Err(Refused::Unknown));
        assert_eq!(both.request(1, 1, 1), Err(Refused::Itself));
        let mut accepted = 0;
        while both.request(0, 1, 10_000).is_ok() {
            accepted += 10_000;
        }
        assert_eq!(both.request(0, 1, 10_000), Err(Refused::TooMuch));
        assert!(accepted <= 10_000 + MAX_DEMAND as usize, "{accepted}");
        assert_eq!(both.drain(), accepted);
        assert_eq!(both.request(0, 1, 10_000), Ok(()));
        assert_eq!(both.drain(), 10_000);
    }
}

#[test]
fn a_forgotten_source_gets_nothing_more_and_others_do() {
    for policy in POLICIES {
        let mut both = Both::new(policy, 5, 8);
        for from in 0..4 {
            both.request(from, 4, 20).unwrap();
            both.request(from, (from + 1) % 4, 20).unwrap();
        }
        both.allocate();
        // Both while it waits and as a new pair.
        both.request(2, 0, 7).unwrap();
        both.real.forget(2);
        both.naive.forget(2);
        both.real.forget(5);
        let given = (0..40).flat_map(|_| both.allocate()).flatten();
        let given: Vec<_> = given.collect();
        assert!(given.iter().all(|pair| pair.0 != 2), "{policy:?}");
        assert!(given.iter().any(|pair| pair.0 == 3));
        both.request(2, 0, 7).unwrap();
        assert_eq!(both.drain(), 7);
    }
}

#[test]
fn impossible_settings_are_refused() {
    for policy in POLICIES {
        let refused = |endpoints, batch| make(policy, endpoints, batch).err();
        assert_eq!(refused(1, 64), Some(Invalid::Endpoints));
        assert_eq!(refused(MAX_ENDPOINTS + 1, 64), Some(Invalid::Endpoints));
        assert_eq!(refused(2, 0), Some(Invalid::Batch));
        assert_eq!(refused(2, MAX_BATCH + 1), Some(Invalid::Batch));
        assert_eq!(refused(2, 1), None);
    }
}

/// The pairs of a timeslot, sorted.
fn pairs(arbiter: &dyn Allocator, index: usize) -> Vec<(u16, u16)> {
    let packets = arbiter.timeslot(index).iter();
    let mut pairs: Vec<_> = packets.map(|it| (it.source(), it.destination())).collect();
    pairs.sort();
    pairs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn less_urgent_classes_do_not_affect_a_class_and_get_the_remainder(
        policy in prop_oneof![Just(Policy::MaxMin), Just(Policy::MinFct)],
        endpoints in 2..30_u16,
        batch in 1..MAX_BATCH,
        events in prop::collection::vec((event(29), prop::bool::ANY), 0..100),
    ) {
        let n = usize::from(endpoints);
        let mut alone = Both::new(policy, endpoints, batch);
        let mut urgent = make(policy, n, batch).unwrap();
        let mut other = make(policy, n, batch).unwrap();
        let mut free = Free::new(n, batch).unwrap();
        let mut left = vec![0_i64; n * n];
        for (event, is_urgent) in events {
            match event {
                Event::Request(from, to, slots) if is_urgent => {
                    let _ = urgent.request(from, to, slots);
                    let _ = alone.request(from, to, slots);
                }
                Event::Request(from, to, slots) => {
                    if other.request(from, to, slots).is_ok() {
                        left[usize::from(from) * n + usize::from(to)] += i64::from(slots);
                    }
                }
                _ => {
                    let expected = alone.allocate();
                    free.begin();
                    urgent.allocate(&mut free);
                    other.allocate(&mut free);
                    free.end();
                    for (index, expected) in expected.iter().enumerate() {
                        let first = pairs(&*urgent, index);
                        prop_assert_eq!(&first, expected);
                        let second = pairs(&*other, index);
                        let (mut sends, mut receives) = (vec![false; n], vec![false; n]);
                        for (from, to) in first.iter().chain(&second) {
                            let (from, to) = (usize::from(*from), usize::from(*to));
                            prop_assert!(!sends[from] && !receives[to]);
                            (sends[from], receives[to]) = (true, true);
                        }
                        for (from, to) in &second {
                            left[usize::from(*from) * n + usize::from(*to)] -= 1;
                        }
                        // No pair waits if both its ends are free.
                        for (place, left) in left.iter().enumerate() {
                            prop_assert!(*left >= 0);
                            let is_free = !sends[place / n] && !receives[place % n];
                            prop_assert!(*left == 0 || !is_free);
                        }
                    }
                }
            }
        }
    }
}
