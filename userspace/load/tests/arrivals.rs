// SPDX-License-Identifier: MIT OR Apache-2.0

//! Times between flows, and the resulting load.

use std::collections::BTreeMap;
use weft_load::arrivals::Process;
use weft_load::framing::Framing;
use weft_load::generate::{Background, Flow, Until, Workload};
use weft_load::hosts::Hosts;
use weft_load::load::{Counted, Load, LoadOf};
use weft_load::pairs::Pairs;
use weft_load::random::{Stream, stream};
use weft_load::sizes::Sizes;
use weft_load::trace::Trace;

const HOSTS: u32 = 16;
const RATE: f64 = 10e9;

fn flows(
    sizes: &str,
    pairs: &Pairs,
    process: Process,
    rate: f64,
    until: Until,
    seed: u64,
) -> Vec<Flow> {
    let workload = Workload {
        hosts: HOSTS,
        background: Some(Background::Open {
            sizes: sizes.parse().unwrap(),
            pairs: pairs.clone(),
            process,
            rate,
        }),
        incast: None,
        added: Vec::new(),
        until,
        warm_up: 0.0,
        deadlines: None,
        priorities: None,
        seed,
    };
    workload.flows().unwrap().collect()
}

#[test]
fn poisson_arrivals_have_their_rate() {
    let pairs = Pairs::uniform(HOSTS).unwrap();
    for seed in 1..=3 {
        let until = Until::Time(10_000_000_000);
        let flows = flows(
            "fixed:1000",
            &pairs,
            Process::Poisson,
            20_000.0,
            until,
            seed,
        );
        // One per cent is 4.5 standard deviations.
        assert!(
            (flows.len() as f64 / 200_000.0 - 1.0).abs() < 0.01,
            "{}",
            flows.len()
        );
    }
}

/// Kolmogorov-Smirnov at 0.001; Stephens' form.
#[test]
fn poisson_times_are_exponential() {
    let mut rng = stream(11, Stream::Arrivals);
    let n = 50_000;
    let mut times: Vec<f64> = (0..n).map(|_| Process::Poisson.sample(&mut rng)).collect();
    times.sort_unstable_by(f64::total_cmp);
    let distance = times.iter().enumerate().map(|(index, time)| {
        let expected = 1.0 - (-time).exp();
        let (below, above) = (index as f64 / n as f64, (index + 1) as f64 / n as f64);
        (expected - below).abs().max((above - expected).abs())
    });
    let distance = distance.fold(0.0, f64::max);
    let root = (n as f64).sqrt();
    assert!(
        distance < 1.9495 / (root + 0.12 + 0.11 / root),
        "{distance}"
    );
}

#[test]
fn log_normal_times_keep_the_mean_and_have_their_sigma() {
    for (sigma, n) in [(0.5, 400_000), (1.0, 2_000_000)] {
        let process = Process::LogNormal { sigma };
        let mut rng = stream(3, Stream::Arrivals);
        let times: Vec<f64> = (0..n).map(|_| process.sample(&mut rng)).collect();
        let mean = times.iter().sum::<f64>() / f64::from(n);
        // One per cent is more than 10 standard errors.
        assert!((mean - 1.0).abs() < 0.01, "sigma {sigma}: mean {mean}");
    }
    // At sigma 2 the mean of 4 million times has a standard error of 0.37 %, with a heavy tail.
    // Their logarithms show mu and sigma exactly: mean -2, deviation 2.
    let process: Process = "lognormal".parse().unwrap();
    let mut rng = stream(3, Stream::Arrivals);
    let n = 4_000_000;
    let (mut sum, mut log_sum, mut log_squares) = (0.0, 0.0, 0.0);
    for _ in 0..n {
        let time = process.sample(&mut rng);
        let log = time.ln();
        sum += time;
        log_sum += log;
        log_squares += log * log;
    }
    let n = f64::from(n);
    let (mean, mu) = (sum / n, log_sum / n);
    let sigma = (log_squares / n - mu * mu).sqrt();
    assert!((mean - 1.0).abs() < 0.015, "mean {mean}");
    assert!((mu + 2.0).abs() < 0.005, "mu {mu}");
    assert!((sigma - 2.0).abs() < 0.004, "sigma {sigma}");
}

#[test]
fn processes_are_displayed_as_they_are_parsed() {
    for text in ["poisson", "lognormal:2", "lognormal:0.5"] {
        assert_eq!(text.parse::<Process>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "Poisson",
        "lognormal:",
        "lognormal:x",
        "lognormal:-1",
        "lognormal:NaN",
        "lognormal:5",
    ] {
        assert!(text.parse::<Process>().is_err(), "{text}");
    }
}

fn load(fraction: f64, of: LoadOf, counted: Counted) -> Load {
    Load {
        fraction,
        of,
        counted,
    }
}

/// By hand: 60 % of 10 Gbit/s with 100 packets of 1500 bytes on the wire, on 16 hosts.
#[test]
fn the_rate_of_a_load_follows_the_formula() {
    let framing = Framing {
        mss: 1460.try_into().unwrap(),
        headers: 40,
        frame: 0,
        minimum: 0,
    };
    let sizes: Sizes = "fixed:146000".parse().unwrap();
    assert!((Counted::Wire.mean_bits(&sizes, &framing) - 1_200_000.0).abs() < 1e-6);
    assert!((Counted::Payload.mean_bits(&sizes, &framing) - 1_168_000.0).abs() < 1e-6);
    let share = Pairs::uniform(HOSTS).unwrap().busiest_share();
    let host = load(0.6, LoadOf::Host { rate: RATE, share }, Counted::Wire);
    assert!((host.per_second(1_200_000.0).unwrap() - 80_000.0).abs() < 1e-6);
    // All hosts send to one: only its link is loaded.
    let share = Pairs::all_to_one(HOSTS, 3).unwrap().busiest_share();
    let host = load(0.6, LoadOf::Host { rate: RATE, share }, Counted::Wire);
    assert!((host.per_second(1_200_000.0).unwrap() - 5_000.0).abs() < 1e-6);
    // The core: 4 racks of 4 hosts, each with 20 Gbit/s up; 12 of a host's 15 peers are in other
    // racks.
    let groups: Vec<u32> = (0..HOSTS).map(|host| host / 4).collect();
    let up = BTreeMap::from([0, 1, 2, 3].map(|rack| (rack, 20e9)));
    let pairs = Pairs::uniform(HOSTS).unwrap();
    let (rate, share) = pairs.busiest_crossing(&groups, &up);
    assert!(rate == 80e9 && (share - 0.8).abs() < 1e-12);
    let core = load(0.5, LoadOf::Core { rate, share }, Counted::Wire);
    assert!((core.per_second(1_200_000.0).unwrap() - 40e9 / (0.8 * 1.2e6)).abs() < 1e-6);
    assert_eq!(core.to_string(), "0.5 of core links (wire bytes)");
}

#[test]
fn an_impossible_load_is_refused() {
    let of = LoadOf::Host {
        rate: RATE,
        share: 1.0,
    };
    for fraction in [0.0, -0.1, 1.01, f64::NAN] {
        assert!(
            load(fraction, of, Counted::Wire).per_second(1e6).is_err(),
            "{fraction}"
        );
    }
    let nothing = LoadOf::Core {
        rate: RATE,
        share: 0.0,
    };
    assert!(load(0.5, nothing, Counted::Wire).per_second(1e6).is_err());
}

/// The load on the links and on the core over a run, by counting bytes.
#[test]
fn the_achieved_load_is_within_one_per_cent_of_the_requested_one() {
    let framing = Framing::ethernet_tcp(1500, true).unwrap();
    let groups: Vec<u32> = (0..HOSTS).map(|host| host / 4).collect();
    let crosses = |flow: &&Flow| groups[flow.src as usize] != groups[flow.dst as usize];
    let pairs = Pairs::uniform(HOSTS).unwrap();
    let host = LoadOf::Host {
        rate: RATE,
        share: pairs.busiest_share(),
    };
    let up = BTreeMap::from([0, 1, 2, 3].map(|rack| (rack, 20e9)));
    let (rate, share) = pairs.busiest_crossing(&groups, &up);
    let core = LoadOf::Core { rate, share };
    for (name, count) in [
        ("web-search", 300_000),
        ("google-all-rpc", 2_000_000),
        ("facebook-hadoop", 600_000),
    ] {
        let sizes: Sizes = name.parse().unwrap();
        let rate = |of, counted| {
            load(0.6, of, counted)
                .per_second(Counted::mean_bits(counted, &sizes, &framing))
                .unwrap()
        };
        let drawn_at = rate(host, Counted::Wire);
        let flows = flows(
            name,
            &pairs,
            Process::Poisson,
            drawn_at,
            Until::Flows(count),
            1,
        );
        let seconds = flows.last().unwrap().start_ns as f64 / 1e9;
        for counted in [Counted::Payload, Counted::Wire] {
            let bits = |flow: &Flow| counted.bits(flow.size, &framing);
            // At another rate, the same flows take longer or shorter in proportion.
            let seconds = |of| seconds * drawn_at / rate(of, counted);
            let on_hosts = flows.iter().map(bits).sum::<f64>() / seconds(host);
            let achieved = on_hosts / (RATE * f64::from(HOSTS));
            assert!(
                (achieved / 0.6 - 1.0).abs() < 0.01,
                "{name} {counted}: {achieved}"
            );
            let in_core = flows.iter().filter(crosses).map(bits).sum::<f64>() / seconds(core);
            let achieved = in_core / 80e9;
            assert!(
                (achieved / 0.6 - 1.0).abs() < 0.01,
                "{name} {counted}, core: {achieved}"
            );
        }
    }
}

#[test]
fn a_trace_is_played_by_start() {
    let trace = Trace::parse(
        "mine",
        "# ns\n20 h1 h0 5\n10 0 2 7\n20 2 1 9\n",
        &Hosts::numbered(3),
    )
    .unwrap();
    let workload = Workload {
        hosts: 3,
        background: Some(Background::Trace(trace)),
        incast: None,
        added: Vec::new(),
        until: Until::TraceEnd,
        warm_up: 0.3,
        deadlines: None,
        priorities: None,
        seed: 1,
    };
    let flows: Vec<_> = workload
        .flows()
        .unwrap()
        .map(|f| (f.start_ns, f.src, f.dst, f.size, f.warm_up))
        .collect();
    assert_eq!(
        flows,
        [
            (10, 0, 2, 7, true),
            (20, 1, 0, 5, false),
            (20, 2, 1, 9, false)
        ]
    );
}

#[test]
fn malformed_traces_are_refused_with_the_line() {
    for (text, expected) in [
        (
            "",
            "mine: holds no flows: expected lines `START_NS SRC DST SIZE`",
        ),
        (
            "1 0 1\n",
            "mine:1: expected 4 words, `START_NS SRC DST SIZE`",
        ),
        ("\n1.5 0 1 9\n", "mine:2: start `1.5` is not a whole number"),
        ("1 0 0 9\n", "mine:1: a flow needs two different hosts"),
        (
            "1 0 3 9\n",
            "mine:1: there is no host `3`: expected a name such as h0, or a place from 0 to 2",
        ),
        (
            "1 x 1 9\n",
            "mine:1: there is no host `x`: expected a name such as h0, or a place from 0 to 2",
        ),
        (
            "1 0 1 0\n",
            "mine:1: a flow of 0 bytes: expected 1 byte to 1 TiB",
        ),
        ("1 0 1 many\n", "mine:1: size `many` is not a whole number"),
    ] {
        assert_eq!(
            Trace::parse("mine", text, &Hosts::numbered(3))
                .unwrap_err()
                .to_string(),
            expected
        );
    }
}

/// Each of `n` flows has a size, and a gap before it, from a stratum of its own: sorted, the i-th
/// is between the quantiles i/n and (i + 1)/n. That holds separately for the warm-up, the measured
/// flows, and the flows that keep up the load afterwards.
#[test]
fn balanced_flows_have_one_size_and_one_gap_per_stratum() {
    let sizes: Sizes = "web-search".parse().unwrap();
    let mut orders = Vec::new();
    for seed in 1..=5 {
        let workload = Workload {
            hosts: HOSTS,
            background: Some(Background::Open {
                sizes: sizes.clone(),
                pairs: Pairs::uniform(HOSTS).unwrap(),
                process: Process::Balanced,
                rate: 1000.0,
            }),
            incast: None,
            added: Vec::new(),
            until: Until::Flows(250),
            warm_up: 0.2,
            deadlines: None,
            priorities: None,
            seed,
        };
        let mut flows = workload.flows().unwrap();
        flows.continue_load();
        let all: Vec<_> = flows.take(450).collect();
        orders.push(all.iter().map(|it| it.size).collect::<Vec<_>>());
        let starts = std::iter::once(0).chain(all.iter().map(|it| it.start_ns));
        let gaps: Vec<_> = starts
            .zip(&all)
            .map(|(before, it)| it.start_ns - before)
            .collect();
        let blocks = [0..50, 50..250, 250..450];
        for block in blocks {
            let n = block.len() as f64;
            let mut sorted: Vec<_> = all[block.clone()].iter().map(|it| it.size as f64).collect();
            sorted.sort_by(f64::total_cmp);
            for (i, size) in sorted.iter().enumerate() {
                let (low, high) = (i as f64 / n, (i + 1) as f64 / n);
                let within = sizes.quantile(low) - 1.0..=sizes.quantile(high) + 1.0;
                assert!(within.contains(size), "{seed}: {size} is not in {within:?}");
            }
            let mut sorted = gaps[block].to_vec();
            sorted.sort_unstable();
            for (i, gap) in sorted.iter().enumerate() {
                let quantile = |p: f64| -1e6 * (1.0 - p).ln();
                let within = quantile(i as f64 / n) - 2.0..=quantile((i + 1) as f64 / n) + 2.0;
                assert!(
                    within.contains(&(*gap as f64)),
                    "{seed}: {gap} is not in {within:?}"
                );
            }
        }
    }
    // In random order: neighbours rise as often as they fall.
    let rises = |sizes: &[u64]| sizes.windows(2).filter(|it| it[0] < it[1]).count();
    let rises: usize = orders.iter().map(|it| rises(it)).sum();
    assert!((1000..1250).contains(&rises), "{rises}");
    assert!((1..5).all(|it| orders[it] != orders[0]));
}

#[test]
fn balanced_arrivals_need_a_number_of_flows() {
    let workload = |until| Workload {
        hosts: HOSTS,
        background: Some(Background::Open {
            sizes: "fixed:1000".parse().unwrap(),
            pairs: Pairs::uniform(HOSTS).unwrap(),
            process: Process::Balanced,
            rate: 1000.0,
        }),
        incast: None,
        added: Vec::new(),
        until,
        warm_up: 0.0,
        deadlines: None,
        priorities: None,
        seed: 1,
    };
    assert!(workload(Until::Flows(10)).flows().is_ok());
    let refused = workload(Until::Time(1_000_000)).flows().unwrap_err();
    assert!(
        refused.to_string().contains("a number of flows"),
        "{refused}"
    );
}
