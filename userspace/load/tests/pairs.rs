// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pairs of sender and receiver.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use weft_load::hosts::Hosts;
use weft_load::pairs::Pairs;
use weft_load::random::{Stream, stream};

/// Compares each pair's frequency with its probability: chi-squared within 4 deviations of its
/// mean.
fn follow(pairs: &Pairs) {
    let mut rng = stream(9, Stream::Pairs);
    let n = 200_000;
    let mut counts = BTreeMap::new();
    for _ in 0..n {
        *counts.entry(pairs.sample(&mut rng)).or_insert(0.0) += 1.0;
    }
    let mut expected = BTreeMap::new();
    for (pair, probability) in pairs.all() {
        *expected.entry(pair).or_insert(0.0) += probability * f64::from(n);
    }
    assert!(
        counts.keys().all(|pair| expected.contains_key(pair)),
        "{pairs}"
    );
    let count = |pair| counts.get(pair).copied().unwrap_or(0.0_f64);
    let chi: f64 = expected
        .iter()
        .map(|(pair, e)| (count(pair) - e).powi(2) / e)
        .sum();
    let freedom = expected.len() as f64 - 1.0;
    assert!(
        (chi - freedom).abs() <= 4.0 * (2.0 * freedom).sqrt(),
        "{pairs}: {chi} of {freedom}"
    );
    assert!((expected.values().sum::<f64>() / f64::from(n) - 1.0).abs() < 1e-9);
    assert!(
        expected
            .keys()
            .all(|(src, dst)| src != dst && *src.max(dst) < pairs.hosts())
    );
}

#[test]
fn flows_follow_the_pairs_probabilities() {
    follow(&Pairs::uniform(9).unwrap());
    follow(&Pairs::permutation(9, 4).unwrap());
    follow(&Pairs::all_to_one(9, 3).unwrap());
    // Racks of 1, 2 and 3 hosts: the first host never sends.
    follow(&Pairs::intra_group(&[0, 1, 1, 2, 2, 2]).unwrap());
    // Racks of 2 and 3 hosts, which are not in order.
    follow(&Pairs::local(&[7, 2, 2, 7, 2], 0.3).unwrap());
    follow(&Pairs::local(&[0, 0, 1, 1, 2, 2, 3, 3], 0.9).unwrap());
    follow(&Pairs::from_list("mine", "0 1\n0 1 # twice\nh2 h1\n", &Hosts::numbered(3)).unwrap());
}

#[test]
fn with_pairs_within_racks_flows_stay_in_their_rack() {
    let groups = [0, 0, 0, 1, 1, 2];
    let pairs = Pairs::intra_group(&groups).unwrap();
    let rates = BTreeMap::from([0, 1, 2].map(|group| (group, 1e9)));
    assert_eq!(pairs.busiest_crossing(&groups, &rates).1, 0.0);
    assert!(pairs.all().iter().all(|((src, _), _)| *src != 5));
    // Five hosts send; the two hosts of the middle rack send only to each other.
    assert!((pairs.busiest_share() - 0.2).abs() < 1e-12);
}

#[test]
fn with_local_pairs_the_given_fraction_of_each_hosts_flows_stays_in_its_rack() {
    let groups = [7, 2, 2, 7, 2];
    let pairs = Pairs::local(&groups, 0.3).unwrap();
    let all = pairs.all();
    assert_eq!(all.len(), 20);
    for host in 0..5 {
        let group = |host: u32| groups[host as usize];
        let share = |is_local: bool| -> f64 {
            let own = all.iter().filter(|((src, _), _)| *src == host);
            let own = own.filter(|((src, dst), _)| (group(*src) == group(*dst)) == is_local);
            own.map(|(_, probability)| probability).sum()
        };
        assert!((share(true) - 0.3 / 5.0).abs() < 1e-12, "h{host}");
        assert!((share(false) - 0.7 / 5.0).abs() < 1e-12, "h{host}");
    }
    assert_eq!(pairs.to_string(), "local:0.3");
}

/// 16 racks of 4 hosts with two uplinks each, all of one rate.
#[test]
fn half_of_the_flows_load_half_as_many_uplinks_as_all_load_host_links() {
    let groups: Vec<u32> = (0..64).map(|host| host / 4).collect();
    let pairs = Pairs::local(&groups, 0.5).unwrap();
    let rates = (0..16).map(|group| (group, 2.0 * 10e9)).collect();
    let (rate, share) = pairs.busiest_crossing(&groups, &rates);
    let (uplinks, hosts) = (share / rate, pairs.busiest_share() / 10e9);
    assert!((uplinks / hosts - 1.0).abs() < 1e-9, "{uplinks} {hosts}");
}

#[test]
fn the_load_of_groups_is_that_of_the_busiest_one_in_one_direction() {
    let groups = [0, 0, 1, 1, 2, 2];
    let rates = BTreeMap::from([(0, 10e9), (1, 10e9), (2, 40e9)]);
    let of = |pairs: &[(u32, u32)]| {
        let pairs = Pairs::listed("mine", pairs.to_vec(), 6).unwrap();
        pairs.busiest_crossing(&groups, &rates)
    };
    assert_eq!(of(&[(0, 2), (2, 0)]), (20e9, 1.0));
    assert_eq!(of(&[(0, 2), (2, 4)]), (20e9, 1.0));
    // One rack receives from two others.
    assert_eq!(of(&[(0, 2), (4, 3)]), (10e9, 1.0));
    // Of two racks with crossing flows, one sends over fast links, the other over slow ones.
    assert_eq!(of(&[(0, 4), (2, 3), (4, 5), (4, 2)]), (10e9, 0.25));
    // A group without links: its flows load only the links of the receivers.
    let rates = BTreeMap::from([(1, 10e9)]);
    let pairs = Pairs::listed("mine", vec![(0, 2), (0, 4)], 6).unwrap();
    assert_eq!(pairs.busiest_crossing(&groups, &rates), (10e9, 0.5));
}

#[test]
fn all_derangements_are_equally_likely() {
    let mut counts = BTreeMap::new();
    for seed in 0..9_000 {
        let all = Pairs::permutation(4, seed).unwrap().all();
        let receivers: Vec<u32> = all.iter().map(|((_, dst), _)| *dst).collect();
        *counts.entry(receivers).or_insert(0_u32) += 1;
    }
    assert_eq!(counts.len(), 9, "4 hosts have 9 derangements");
    // Chi-squared with 8 degrees of freedom is above 26.1 with probability 0.001.
    let chi: f64 = counts
        .values()
        .map(|&c| (f64::from(c) - 1000.0).powi(2) / 1000.0)
        .sum();
    assert!(chi < 26.1, "{chi}");
}

proptest! {
    #[test]
    fn a_permutation_is_a_derangement(hosts in 2_u32..200, seed: u64) {
        let pairs = Pairs::permutation(hosts, seed).unwrap();
        let all = pairs.all();
        let senders: BTreeSet<_> = all.iter().map(|((src, _), _)| *src).collect();
        let receivers: BTreeSet<_> = all.iter().map(|((_, dst), _)| *dst).collect();
        prop_assert_eq!(senders.len(), hosts as usize);
        prop_assert_eq!(receivers.len(), hosts as usize);
        prop_assert!(all.iter().all(|((src, dst), _)| src != dst));
        prop_assert_eq!(&pairs, &Pairs::permutation(hosts, seed).unwrap());
    }
}

#[test]
fn impossible_pairs_are_refused() {
    assert!(Pairs::uniform(1).is_err());
    assert!(Pairs::permutation(1, 1).is_err());
    assert!(Pairs::all_to_one(4, 4).is_err());
    assert!(Pairs::intra_group(&[0, 1, 2]).is_err());
    for (groups, fraction, expected) in [
        (
            [0, 1, 2, 3],
            0.5,
            "no rack has two hosts, so none can send within it",
        ),
        (
            [4, 4, 4, 4],
            0.5,
            "there is only one rack, so no flow can leave it",
        ),
        (
            [0, 0, 1, 0],
            0.5,
            "host 2 is alone in its rack, so none of its flows can stay there",
        ),
        (
            [0, 0, 1, 1],
            1.0,
            "a fraction of 1 within racks: expected above 0 and below 1",
        ),
        (
            [0, 0, 1, 1],
            f64::NAN,
            "a fraction of NaN within racks: expected above 0 and below 1",
        ),
    ] {
        let refused = Pairs::local(&groups, fraction).unwrap_err().to_string();
        assert_eq!(refused, expected);
    }
    assert!(Pairs::listed("mine", vec![(0, 1), (1, 1)], 3).is_err());
    assert!(Pairs::listed("mine", vec![(0, 1), (3, 0)], 3).is_err());
    for (text, expected) in [
        ("# none\n", "mine: holds no pairs: expected lines `SRC DST`"),
        ("0 1\n0 1 2\n", "mine:2: expected 2 words, `SRC DST`"),
        ("0 1\n1 1\n", "mine:2: a flow needs two different hosts"),
        (
            "h0 h3\n",
            "mine:1: there is no host `h3`: expected a name such as h0, or a place from 0 to 2",
        ),
    ] {
        assert_eq!(
            Pairs::from_list("mine", text, &Hosts::numbered(3))
                .unwrap_err()
                .to_string(),
            expected
        );
    }
}
