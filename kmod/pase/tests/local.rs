// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A host's own arbitrator.

use proptest::prelude::*;
use weft_mechanisms::heap::Heap;
use weft_mechanisms::pase::arbiter::Link;
use weft_mechanisms::pase::criterion::{About, Criterion};
use weft_mechanisms::pase::local::{demand, flow, Local, FLOWS};
use weft_mechanisms::pase::{Verdict, MAX_RATE};

/// 1 Gbit/s.
const LINK: Link = Link {
    rate: 125_000_000,
    queues: 8,
    lifetime: 1_000_000_000,
};

fn local() -> Local<Heap> {
    let Ok(local) = Local::new(3);
    local
}

fn ask(local: &mut Local<Heap>, number: u32, remaining: u64) -> Verdict {
    let about = About {
        remaining,
        sized: true,
        ..About::default()
    };
    let flow = flow(number, &about, Criterion::Remaining, 250, LINK.rate, 0);
    local.ask(&flow, LINK, 0)
}

/// "New flows start sending traffic at line rate."
#[test]
fn a_flow_alone_starts_at_line_rate_and_a_small_one_with_its_size() {
    let mut local = local();
    let rate = |local: &mut _, remaining| ask(local, 1, remaining).rate;
    assert_eq!(rate(&mut local, 500_000), LINK.rate);
    // All its data within 250 µs.
    assert_eq!(rate(&mut local, 10_000), 40_000_000);
    assert_eq!(rate(&mut local, 0), 0);
}

/// "demand(optional)" (Algorithm 1): a flow that only knows the data written so far may have more.
#[test]
fn a_flow_of_unknown_size_demands_the_whole_link() {
    let about = About {
        remaining: 1_000,
        ..About::default()
    };
    let flow = flow(1, &about, Criterion::Remaining, 250, LINK.rate, 0);
    assert_eq!(local().ask(&flow, LINK, 0).rate, LINK.rate);
}

#[test]
fn the_shortest_flow_has_the_link_until_it_ends() {
    let mut local = local();
    let numbers = [(); 3].map(|()| local.number());
    assert_eq!(numbers, [1, 2, 3]);
    let asks = |local: &mut Local<Heap>| {
        [(1, 900_000), (2, 300_000), (3, 600_000)]
            .map(|(number, size)| ask(local, number, size).queue)
    };
    asks(&mut local);
    assert_eq!(asks(&mut local), [3, 1, 2]);
    local.end(2);
    assert_eq!(ask(&mut local, 3, 600_000).rate, LINK.rate);
    assert_eq!(local.len(), 2);
}

#[test]
fn flows_beyond_the_table_are_in_a_low_queue_and_the_most_urgent_stay_in_it() {
    let mut local = local();
    for number in 1..=2 * FLOWS {
        let verdict = ask(&mut local, number, 1_000_000 + u64::from(number));
        assert_eq!(verdict.queue, number.clamp(1, 8) as u8);
    }
    assert_eq!(local.len(), FLOWS);
    assert_eq!(ask(&mut local, 9_999, 10).queue, 1);
}

proptest! {
    #[test]
    fn a_demand_is_never_more_than_the_link(remaining: u64, rtt_us: u32, rate: u64) {
        prop_assert!(demand(remaining, rtt_us, rate) <= rate.min(MAX_RATE));
    }
}
