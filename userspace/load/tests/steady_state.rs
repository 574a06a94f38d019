// SPDX-License-Identifier: MIT OR Apache-2.0

//! Checks that a run is long enough: flows of this crate's generator on a link with equal sharing,
//! against the law of M/G/1 processor sharing (Kleinrock, Queueing Systems II, §4.4). On average, a
//! flow takes 1/(1 - ρ) times as long as alone, whatever the distribution of sizes.

use std::num::NonZeroU32;

use weft_load::arrivals::Process;
use weft_load::framing::Framing;
use weft_load::generate::{Background, Flow, Until, Workload};
use weft_load::load::{Counted, Load, LoadOf, relaxation_s};
use weft_load::pairs::Pairs;
use weft_load::sizes::Sizes;
use weft_load::statistics::mean_interval;

const RATE: f64 = 10e9;

/// Payload without headers.
fn framing() -> Framing {
    Framing {
        mss: NonZeroU32::new(1460).unwrap(),
        headers: 0,
        frame: 0,
        minimum: 0,
    }
}

/// An active flow: its index, and the bytes that remain.
struct Active(usize, f64);

/// The slowdowns of measured flows; load stays on until they have ended. A naive model: from event
/// to event, each flow gets its share.
fn processor_sharing(workload: &Workload) -> Vec<f64> {
    let mut all = workload.flows().unwrap();
    let mut flows: Vec<Flow> = all.by_ref().collect();
    let mut left = flows.iter().filter(|flow| !flow.warm_up).count();
    all.continue_load().unwrap();
    let mut slowdowns = Vec::new();
    let mut active: Vec<Active> = Vec::new();
    let (mut now, mut next) = (0.0_f64, 0);
    let per_ns = RATE / 8e9;
    while left > 0 {
        if next == flows.len() {
            flows.extend(all.next());
        }
        let arrival = flows[next].start_ns as f64;
        let share = per_ns / active.len() as f64;
        let least = active.iter().map(|it| it.1).fold(f64::INFINITY, f64::min);
        let departure = if active.is_empty() {
            f64::INFINITY
        } else {
            now + least / share
        };
        let until = arrival.min(departure);
        active
            .iter_mut()
            .for_each(|it| it.1 -= (until - now) * share);
        now = until;
        if arrival < departure {
            active.push(Active(next, flows[next].size as f64));
            next += 1;
            continue;
        }
        active.retain(|Active(place, rest)| {
            let flow = flows[*place];
            if *rest < 1e-3 && !flow.warm_up {
                let alone = flow.size as f64 / per_ns;
                slowdowns.push((now - flow.start_ns as f64) / alone);
                left -= 1;
            }
            *rest >= 1e-3
        });
    }
    slowdowns
}

/// Repeats runs of five seeds each. Returns in how many runs the interval of the mean slowdown
/// contains the law's, and the mean of all slowdowns divided by the law's.
fn trials(sizes: &str, fraction: f64, warm: bool, measured: u64) -> (usize, f64) {
    const TRIALS: u64 = 40;
    let sizes: Sizes = sizes.parse().unwrap();
    let framing = framing();
    let load = Load {
        fraction,
        of: LoadOf::Host {
            rate: RATE,
            share: 1.0,
        },
        counted: Counted::Wire,
    };
    let rate = load
        .per_second(load.counted.mean_bits(&sizes, &framing))
        .unwrap();
    let warm_up = relaxation_s(fraction, Counted::Wire, &sizes, &framing, RATE) * rate;
    let warm_up = if warm { warm_up.ceil() } else { 0.0 };
    let flows = measured + warm_up as u64;
    let mean = |seed: u64| {
        let workload = Workload {
            hosts: 2,
            background: Some(Background::Open {
                sizes: sizes.clone(),
                pairs: Pairs::all_to_one(2, 0).unwrap(),
                process: Process::Poisson,
                rate,
            }),
            incast: None,
            added: Vec::new(),
            until: Until::Flows(flows),
            warm_up: warm_up / flows as f64,
            deadlines: None,
            priorities: None,
            seed,
        };
        let slowdowns = processor_sharing(&workload);
        assert!(slowdowns.len() as u64 >= measured - 1);
        slowdowns.iter().sum::<f64>() / slowdowns.len() as f64
    };
    let law = 1.0 / (1.0 - fraction);
    let (mut within, mut sum) = (0, 0.0);
    for trial in 0..TRIALS {
        let means: Vec<f64> = (0..5).map(|n| mean(1 + 5 * trial + n)).collect();
        let interval = mean_interval(&means, 0.95).unwrap();
        within += usize::from((interval.mean - law).abs() <= interval.half_width);
        sum += interval.mean;
    }
    (within, sum / TRIALS as f64 / law)
}

#[test]
fn the_mean_slowdown_of_five_seeds_matches_processor_sharing() {
    for (sizes, load) in [
        ("web-search", 0.3),
        ("web-search", 0.6),
        ("web-search", 0.8),
        ("fixed:100kB", 0.8),
    ] {
        let (within, ratio) = trials(sizes, load, true, 1_500);
        eprintln!("{sizes} {load}: {within} of 40, {ratio:.3}");
        // 95 % would be 38 of 40; means over few flows are not quite normal.
        assert!(within >= 31, "{sizes} at {load}: {within} of 40");
        assert!((ratio - 1.0).abs() < 0.08, "{sizes} at {load}: {ratio}");
    }
}

#[test]
fn without_the_warm_up_the_mean_slowdown_is_too_small() {
    let (within, ratio) = trials("web-search", 0.8, false, 60);
    eprintln!("{within} of 40, {ratio:.3}");
    assert!(ratio < 0.8 && within < 31, "{within} of 40, {ratio}");
}
