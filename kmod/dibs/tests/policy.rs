// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The port that is chosen, and how often; and when a packet is detoured before its port is full.

use proptest::prelude::*;
use weft_mechanisms::common::xorshift::Xorshift32;
use weft_mechanisms::dibs::options::Policy;
use weft_mechanisms::dibs::policy::{chance, occupancy, Choice, ONE};

/// Ports: number, device, bytes.
type Offers = [(u16, u32, u64)];

fn choose(policy: Policy, flow: u32, offers: &Offers, random: &mut Xorshift32) -> Option<u16> {
    let mut choice = Choice::new(policy, flow);
    for &(port, device, bytes) in offers {
        choice.offer(port, device, bytes, random);
    }
    choice.chosen()
}

/// How often each of the ports 0 to 3 is chosen, out of 40,000 times.
fn shares(policy: Policy, offers: &Offers) -> [u32; 4] {
    let mut random = Xorshift32::new(7);
    let mut shares = [0; 4];
    for flow in 0..40_000 {
        let port = choose(policy, flow, offers, &mut random).expect("there is one");
        shares[usize::from(port)] += 1;
    }
    shares
}

/// Within five standard deviations of n out of 40,000 with the probability p = n / 40,000.
fn is_about(share: u32, expected: u32) -> bool {
    let p = f64::from(expected) / 40_000.0;
    let deviation = (40_000.0 * p * (1.0 - p)).sqrt();
    (f64::from(share) - f64::from(expected)).abs() <= 5.0 * deviation
}

const FOUR: &Offers = &[(0, 10, 900), (1, 11, 0), (2, 12, 500), (3, 13, 0)];

#[test]
fn the_random_choice_is_uniform() {
    for policy in [Policy::Random, Policy::Probabilistic] {
        for share in shares(policy, FOUR) {
            assert!(is_about(share, 10_000), "{share}");
        }
        let [a, _, c, _] = shares(policy, &[FOUR[0], FOUR[2]]);
        assert!(is_about(a, 20_000) && a + c == 40_000, "{a}");
    }
}

#[test]
fn the_load_aware_choice_is_the_least_loaded_port_and_uniform_among_equals() {
    let [a, b, c, d] = shares(Policy::LoadAware, FOUR);
    assert_eq!((a, c), (0, 0));
    assert!(is_about(b, 20_000) && b + d == 40_000, "{b}");
    assert_eq!(shares(Policy::LoadAware, &[FOUR[0], FOUR[2]])[2], 40_000);
}

#[test]
fn a_flow_keeps_its_port_while_that_has_room_and_flows_spread() {
    let mut random = Xorshift32::new(7);
    for share in shares(Policy::Flow, FOUR) {
        assert!(is_about(share, 10_000), "{share}");
    }
    let mut choose = |flow, offers: &Offers| choose(Policy::Flow, flow, offers, &mut random);
    for flow in 0..1000 {
        let first = choose(flow, FOUR);
        assert_eq!(choose(flow, FOUR), first);
        for gone in FOUR {
            let left: Vec<_> = FOUR.iter().copied().filter(|port| port != gone).collect();
            let second = choose(flow, &left);
            // It takes another port only if its own has no room.
            assert_eq!(second == first, first != Some(gone.0));
        }
    }
}

#[test]
fn no_port_is_chosen_from_none() {
    let mut random = Xorshift32::new(7);
    assert_eq!(choose(Policy::Random, 1, &[], &mut random), None);
    assert_eq!(choose(Policy::Off, 1, FOUR, &mut random), None);
}

#[test]
fn the_probability_grows_with_occupancy_and_rank_and_the_most_urgent_packets_stay() {
    let quarter = ONE / 4;
    // From half on, full at the end; for the least urgent packets.
    for (occupancy, expected) in [(0, 0), (2, 0), (3, 2 * quarter), (4, ONE)] {
        assert_eq!(chance(occupancy * quarter, 50, 15, 15), expected);
        assert_eq!(chance(occupancy * quarter, 50, u32::MAX, 15), expected);
        // If all ranks are the same.
        assert_eq!(chance(occupancy * quarter, 50, 0, 0), expected);
    }
    // The middle rank begins when the pressure is one half.
    assert_eq!(chance(3 * quarter, 50, 4, 8), 0);
    assert_eq!(chance(ONE - ONE / 8, 50, 4, 8), quarter);
    for occupancy in 0..4 {
        assert_eq!(chance(occupancy * quarter, 0, 0, 15), 0);
    }
    assert_eq!(chance(ONE, 100, 15, 15), 0, "never before it is full");
}

#[test]
fn a_port_is_as_full_as_the_fuller_of_packets_and_bytes() {
    assert_eq!(occupancy((50, 100), (0, u64::MAX)), ONE / 2);
    assert_eq!(occupancy((0, 100), (750, 1000)), ONE / 4 * 3);
    assert_eq!(occupancy((200, 100), (0, 1000)), ONE);
    assert_eq!(occupancy((7, 0), (7, 0)), 0, "no limit");
}

proptest! {
    #[test]
    fn a_probability_is_at_most_one_and_monotonic(
        occupancy in 0..=ONE, more in 0..=ONE, from in 0..=100_u32,
        rank in any::<u32>(), higher in any::<u32>(), ranks in any::<u32>(),
    ) {
        let least = chance(occupancy.min(more), from, rank.min(higher), ranks);
        let most = chance(occupancy.max(more), from, rank.max(higher), ranks);
        prop_assert!(least <= most && most <= ONE);
    }

    #[test]
    fn any_choice_is_one_of_the_candidates(
        offers in prop::collection::vec((0..1024_u16, any::<u32>(), any::<u64>()), 1..40),
        flow in any::<u32>(), seed in any::<u32>(), policy in 0..4_usize,
    ) {
        let policies = [Policy::Random, Policy::LoadAware, Policy::Flow, Policy::Probabilistic];
        let mut random = Xorshift32::new(seed);
        let chosen = choose(policies[policy], flow, &offers, &mut random);
        prop_assert!(offers.iter().any(|&(port, ..)| Some(port) == chosen));
    }
}
