// SPDX-License-Identifier: MIT OR Apache-2.0

//! Priorities of flows: their distribution, and which flows have one.

mod mixed;

use std::num::NonZeroU8;

use mixed::flows;
use weft_load::deadlines::Deadlines;
use weft_load::generate::{Class, Flow, Workload};

/// As many incasts as other flows.
fn workload(priorities: u8, incast: bool) -> Workload {
    Workload {
        priorities: NonZeroU8::new(priorities),
        ..mixed::workload(2_000, incast.then_some(1_000.0))
    }
}

#[test]
fn all_flows_except_added_ones_have_a_priority() {
    for flow in flows(&workload(4, true)) {
        let expected = (flow.class != Class::Added).then_some(true);
        assert_eq!(flow.priority.map(|it| it < 4), expected, "{flow:?}");
    }
    let without = flows(&workload(0, true));
    assert!(without.iter().all(|it| it.priority.is_none()));
}

/// Chi-squared with n - 1 degrees of freedom is above these with probability 0.001.
#[test]
fn priorities_have_equal_shares_of_background_and_of_incasts() {
    for (count, most) in [(2, 10.83), (3, 13.82), (4, 16.27), (8, 24.32)] {
        let all = flows(&workload(count, true));
        let is_incast = |flow: &&Flow| matches!(flow.class, Class::Incast(_));
        let (incasts, others): (Vec<&Flow>, Vec<&Flow>) = all.iter().partition(is_incast);
        for flows in [incasts, others] {
            let mut counts = vec![0.0_f64; count.into()];
            for priority in flows.iter().filter_map(|it| it.priority) {
                counts[usize::from(priority)] += 1.0;
            }
            let drawn: f64 = counts.iter().sum();
            assert!(drawn >= 2_000.0, "{drawn}");
            let expected = drawn / f64::from(count);
            let squares = counts.iter().map(|it| (it - expected).powi(2) / expected);
            let chi: f64 = squares.sum();
            assert!(chi < most, "{count}: {chi} {counts:?}");
        }
    }
}

#[test]
fn priorities_change_nothing_else_and_incasts_do_not_change_priorities() {
    let deadlines: Deadlines = "uniform:5ms-25ms".parse().unwrap();
    let both = |priorities| Workload {
        deadlines: Some(deadlines.clone()),
        ..workload(priorities, true)
    };
    let without = |flow: Flow| Flow {
        priority: None,
        ..flow
    };
    let with: Vec<_> = flows(&both(4)).into_iter().map(without).collect();
    assert_eq!(with, flows(&both(0)));
    let background = |incast| -> Vec<_> {
        let all = flows(&workload(4, incast));
        let background = all.into_iter().filter(|it| it.class == Class::Background);
        background.map(|it| (it.start_ns, it.priority)).collect()
    };
    assert_eq!(background(true), background(false));
    let incasts = |workload: &Workload| -> Vec<_> {
        let all = workload.flows().unwrap();
        let incasts = all.filter(|it| matches!(it.class, Class::Incast(_)));
        incasts
            .map(|it| (it.src, it.priority))
            .take(2_000)
            .collect()
    };
    let alone = Workload {
        background: None,
        ..workload(4, true)
    };
    assert_eq!(incasts(&workload(4, true)), incasts(&alone));
}

#[test]
fn flows_that_keep_up_the_load_have_priorities_too() {
    let workload = workload(4, false);
    let mut all = workload.flows().unwrap();
    assert_eq!(all.by_ref().count(), 2_001);
    all.continue_load().unwrap();
    let more: Vec<_> = all.take(100).map(|it| it.priority).collect();
    for priority in 0..4 {
        assert!(more.contains(&Some(priority)), "{more:?}");
    }
    assert!(!more.contains(&None));
}

#[test]
fn there_are_two_to_eight_priorities() {
    for count in [1, 9, 255] {
        let refused = workload(count, false).flows().unwrap_err().to_string();
        assert_eq!(refused, format!("{count} priorities: expected 2 to 8"));
    }
}
