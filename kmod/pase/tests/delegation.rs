// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A link divided among its children.

use proptest::prelude::*;
use weft_mechanisms::heap::Heap;
use weft_mechanisms::pase::arbiter::{Arbiter, Link};
use weft_mechanisms::pase::delegation::{Delegation, MAX_CHILDREN};
use weft_mechanisms::pase::{Flow, MAX_RATE};

fn delegation(children: u32, rate: u64) -> Delegation<Heap> {
    let Ok(delegation) = Delegation::new(children, rate);
    delegation
}

fn shares(link: &Delegation<Heap>) -> Vec<u64> {
    (0..).map_while(|child| link.share(child)).collect()
}

#[test]
fn before_any_report_children_are_equal() {
    assert_eq!(shares(&delegation(4, 1_000)), [250; 4]);
    assert_eq!(shares(&delegation(0, 1_000)), []);
}

#[test]
fn shares_follow_the_reports_and_every_child_has_one() {
    let mut link = delegation(4, 1_600_000);
    for (child, demand) in [(0, 300), (1, 100), (2, 0)] {
        assert!(link.report(child, demand));
    }
    assert!(!link.report(4, 1));
    link.renew();
    // 25,000 each, and three quarters and a quarter of 1,500,000.
    assert_eq!(shares(&link), [1_150_000, 400_000, 25_000, 25_000]);
}

#[test]
fn a_child_keeps_its_share_after_one_lost_report_and_loses_it_when_it_is_gone() {
    let mut link = delegation(2, 1_600);
    link.report(0, 100);
    link.report(1, 100);
    for _ in 0..3 {
        link.renew();
        assert!(shares(&link)[1] >= 799, "{:?}", shares(&link));
        link.report(0, 100);
    }
    link.renew();
    assert_eq!(shares(&link)[1], 50);
}

#[test]
fn shares_of_children_with_arbitrators_converge_to_their_flows_demand() {
    const RATE: u64 = 1_000_000;
    let mut link = delegation(3, RATE);
    let mut children = [0, 1, 2].map(|secret| {
        let link = Link {
            rate: 0,
            queues: 8,
            lifetime: 1_000,
        };
        let Ok(arbiter) = Arbiter::<Heap>::new(100, link, secret);
        arbiter
    });
    // 60 %, 25 % and nothing.
    let demands = [(0, 400_000), (0, 200_000), (1, 250_000)];
    let mut given = Vec::new();
    for round in 0..2 {
        for (child, arbiter) in (0..).zip(&mut children) {
            arbiter.set_rate(link.share(child).unwrap());
        }
        given = (0..)
            .zip(demands)
            .map(|(id, (child, demand))| {
                let flow = Flow {
                    id,
                    urgency: id,
                    demand,
                };
                children[child].update(&flow, round).rate
            })
            .collect();
        for (child, arbiter) in (0..).zip(&children) {
            link.report(child, arbiter.demand());
        }
        link.renew();
    }
    assert_eq!(given, [400_000, 200_000, 250_000]);
}

proptest! {
    #[test]
    fn shares_never_add_up_to_more_than_the_link_has(
        rate in prop_oneof![0..100_u64, any::<u64>()],
        rounds in prop::collection::vec(
            prop::collection::vec((0..20_u32, prop_oneof![0..9_u64, any::<u64>()]), 0..30), 0..9),
        children in prop_oneof![0..20_u32, Just(MAX_CHILDREN), Just(u32::MAX)],
    ) {
        let mut link = delegation(children, rate);
        let rate = rate.min(MAX_RATE);
        for reports in rounds {
            for (child, demand) in reports {
                prop_assert_eq!(link.report(child, demand), child < children);
            }
            link.renew();
            let shares = shares(&link);
            let sum: u64 = shares.iter().sum();
            prop_assert!(sum <= rate);
            // The undivided rest is due to rounding: a byte of equal shares, a part of others.
            let lost = rate - sum;
            let rounding = shares.len() as u64 * (2 + (rate >> 20));
            prop_assert!(shares.is_empty() || lost <= rounding, "{} of {}", lost, rate);
        }
    }
}
