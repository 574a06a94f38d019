// SPDX-License-Identifier: MIT OR Apache-2.0

//! Deadlines of flows: their text form, their distribution, and which flows have one.

mod mixed;

use mixed::flows;
use weft_load::deadlines::Deadlines;
use weft_load::generate::{Class, Flow, Workload};
use weft_load::random::{Stream, stream};

const MS: u64 = 1_000_000;

fn deadlines(text: &str) -> Deadlines {
    text.parse().unwrap()
}

fn workload(deadlines: Option<&str>, incast: bool) -> Workload {
    Workload {
        deadlines: deadlines.map(self::deadlines),
        ..mixed::workload(1_000, incast.then_some(100.0))
    }
}

#[test]
fn a_distribution_is_displayed_as_it_was_parsed() {
    for text in ["fixed:20ms", "uniform:5ms-25ms", "uniform:0.5us-1s"] {
        assert_eq!(deadlines(text).to_string(), text);
    }
    assert_eq!(deadlines("fixed:1.5us").max_ns(), 1_500);
}

#[test]
fn malformed_deadlines_are_refused() {
    for (text, sentence) in [
        ("5ms", "expected fixed:TIME or uniform:MIN-MAX"),
        ("uniform:5ms", "`` is no time"),
        ("uniform:25ms-5ms", "the first time is the shorter one"),
        ("fixed:0ms", "`0ms` is no time"),
        ("fixed:0.5ns", "`0.5ns` is no time"),
        ("fixed:20", "`20` is no time"),
        ("fixed:86401s", "`86401s` is no time"),
        ("uniform:1ms-x", "`x` is no time"),
    ] {
        let refused = text.parse::<Deadlines>().unwrap_err().to_string();
        assert!(refused.contains(sentence), "{text}: {refused}");
    }
}

#[test]
fn all_times_are_equally_likely_including_both_ends() {
    let few = deadlines("uniform:5ns-9ns");
    let mut rng = stream(3, Stream::Deadlines);
    let mut counts = [0_u32; 5];
    for _ in 0..50_000 {
        counts[(few.sample(&mut rng) - 5) as usize] += 1;
    }
    let squares = counts.iter().map(|&c| (f64::from(c) - 1e4).powi(2) / 1e4);
    let chi: f64 = squares.sum();
    // Chi-squared with 4 degrees of freedom is above 18.47 with probability 0.001.
    assert!(chi < 18.47, "{chi} {counts:?}");
    let day = deadlines("uniform:1ns-86400s");
    assert!((0..1_000).all(|_| (1..=day.max_ns()).contains(&day.sample(&mut rng))));
}

#[test]
fn all_flows_except_added_ones_have_a_deadline() {
    let all = flows(&workload(Some("uniform:5ms-25ms"), true));
    let count = |class: fn(&Class) -> bool| all.iter().filter(|it| class(&it.class)).count();
    assert!(count(|it| matches!(it, Class::Incast(_))) > 100);
    assert_eq!(count(|it| *it == Class::Added), 1);
    for flow in &all {
        let within = flow.deadline_ns.map(|ns| (5 * MS..=25 * MS).contains(&ns));
        let expected = (flow.class != Class::Added).then_some(true);
        assert_eq!(within, expected, "{flow:?}");
    }
    assert!(
        flows(&workload(None, true))
            .iter()
            .all(|it| it.deadline_ns.is_none())
    );
}

#[test]
fn deadlines_change_nothing_else_and_incasts_do_not_change_deadlines() {
    let without = |flow: Flow| Flow {
        deadline_ns: None,
        ..flow
    };
    let with: Vec<_> = flows(&workload(Some("fixed:5ms"), true))
        .into_iter()
        .map(without)
        .collect();
    assert_eq!(with, flows(&workload(None, true)));
    let background = |incast| -> Vec<_> {
        let all = flows(&workload(Some("uniform:5ms-25ms"), incast));
        let background = all.into_iter().filter(|it| it.class == Class::Background);
        background.map(|it| (it.start_ns, it.deadline_ns)).collect()
    };
    assert_eq!(background(true), background(false));
}

#[test]
fn flows_that_keep_up_the_load_have_deadlines_too() {
    let workload = workload(Some("fixed:5ms"), false);
    let mut all = workload.flows().unwrap();
    assert_eq!(all.by_ref().count(), 1_001);
    all.continue_load().unwrap();
    assert!(all.take(100).all(|it| it.deadline_ns == Some(5 * MS)));
}
