// SPDX-License-Identifier: MIT OR Apache-2.0

//! Workloads: the same seed gives the same flows, and a changed option changes only its own
//! numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use weft_load::arrivals::Process;
use weft_load::framing::Framing;
use weft_load::generate::{Background, Class, Flow, Until, Workload};
use weft_load::hosts::Hosts;
use weft_load::incast::{Incast, IncastBytes};
use weft_load::load::{Counted, Load, LoadOf};
use weft_load::pairs::Pairs;
use weft_load::trace::{Trace, TraceFlow};

const HOSTS: u32 = 128;

fn open(sizes: &str, rate: f64) -> Workload {
    Workload {
        hosts: HOSTS,
        background: Some(Background::Open {
            sizes: sizes.parse().unwrap(),
            pairs: Pairs::uniform(HOSTS).unwrap(),
            process: Process::Poisson,
            rate,
        }),
        incast: None,
        added: Vec::new(),
        until: Until::Flows(5_000),
        warm_up: 0.1,
        deadlines: None,
        priorities: None,
        seed: 42,
    }
}

/// DIBS: 40 responders of 20 kB, 300 queries per second.
fn dibs() -> Incast {
    Incast {
        fan_in: NonZeroU32::new(40).unwrap(),
        senders: None,
        bytes: IncastBytes::PerSender(20_000),
        process: Process::Poisson,
        rate: 300.0,
        receiver: None,
    }
}

#[test]
fn incasts_exclude_balanced_arrivals() {
    let incast = Incast {
        process: Process::Balanced,
        ..dibs()
    };
    let workload = Workload {
        background: None,
        incast: Some(incast),
        ..open("fixed:1000", 1000.0)
    };
    let error = workload.flows().unwrap_err();
    assert!(
        error.to_string().contains("poisson or lognormal"),
        "{error}"
    );
}

fn flows(workload: &Workload) -> Vec<Flow> {
    workload.flows().unwrap().collect()
}

fn background(flows: &[Flow]) -> Vec<Flow> {
    let background = flows.iter().filter(|flow| flow.class == Class::Background);
    background.map(|flow| Flow { id: 0, ..*flow }).collect()
}

fn parts<T>(flows: &[Flow], part: impl Fn(&Flow) -> T) -> Vec<T> {
    flows.iter().map(part).collect()
}

#[test]
fn one_seed_gives_the_same_flows_and_another_gives_others() {
    let workload = Workload {
        incast: Some(dibs()),
        ..open("web-search", 3_000.0)
    };
    assert_eq!(flows(&workload), flows(&workload));
    let other = Workload {
        seed: 43,
        ..workload.clone()
    };
    assert_ne!(flows(&workload), flows(&other));
}

#[test]
fn flows_are_numbered_by_start_between_different_hosts() {
    let workload = Workload {
        incast: Some(dibs()),
        ..open("web-search", 3_000.0)
    };
    let flows = flows(&workload);
    assert!(flows.is_sorted_by_key(|flow| flow.start_ns));
    assert!((0..).zip(&flows).all(|(id, flow)| flow.id == id));
    assert!(
        flows
            .iter()
            .all(|flow| flow.src != flow.dst && flow.src.max(flow.dst) < HOSTS)
    );
}

#[test]
fn another_load_only_stretches_time() {
    let (slow, fast) = (
        flows(&open("web-search", 1_000.0)),
        flows(&open("web-search", 4_000.0)),
    );
    let rest = |flow: &Flow| (flow.id, flow.src, flow.dst, flow.size, flow.warm_up);
    assert_eq!(parts(&slow, rest), parts(&fast, rest));
    for (slow, fast) in slow.iter().zip(&fast) {
        assert!(slow.start_ns.abs_diff(4 * fast.start_ns) <= 3);
    }
}

#[test]
fn other_sizes_keep_times_and_pairs() {
    let (one, other) = (
        flows(&open("web-search", 1_000.0)),
        flows(&open("fixed:9", 1_000.0)),
    );
    let rest = |flow: &Flow| (flow.id, flow.start_ns, flow.src, flow.dst);
    assert_eq!(parts(&one, rest), parts(&other, rest));
}

#[test]
fn other_times_keep_sizes_and_pairs() {
    let one = open("web-search", 1_000.0);
    let mut other = one.clone();
    if let Some(Background::Open { process, .. }) = &mut other.background {
        *process = Process::LogNormal { sigma: 2.0 };
    }
    let (one, other) = (flows(&one), flows(&other));
    let rest = |flow: &Flow| (flow.id, flow.size, flow.src, flow.dst);
    assert_eq!(parts(&one, rest), parts(&other, rest));
    assert_ne!(one, other);
}

#[test]
fn other_pairs_keep_sizes_and_times() {
    let one = open("web-search", 1_000.0);
    let mut other = one.clone();
    if let Some(Background::Open { pairs, .. }) = &mut other.background {
        *pairs = Pairs::permutation(HOSTS, 42).unwrap();
    }
    let rest = |flow: &Flow| (flow.id, flow.start_ns, flow.size);
    assert_eq!(parts(&flows(&one), rest), parts(&flows(&other), rest));
}

#[test]
fn incasts_and_background_do_not_change_each_other() {
    let without = open("web-search", 1_000.0);
    let with = Workload {
        incast: Some(dibs()),
        ..without.clone()
    };
    assert_eq!(background(&flows(&with)), background(&flows(&without)));
    let incasts = |workload: &Workload| -> Vec<_> {
        let flows = workload
            .flows()
            .unwrap()
            .filter(|flow| flow.class != Class::Background);
        flows
            .map(|f| (f.start_ns, f.src, f.dst, f.size, f.class))
            .take(10_000)
            .collect()
    };
    let alone = Workload {
        background: None,
        until: Until::Flows(10_000),
        ..with.clone()
    };
    assert_eq!(incasts(&with), incasts(&alone));
}

fn events(flows: &[Flow]) -> BTreeMap<u64, Vec<Flow>> {
    let mut events: BTreeMap<u64, Vec<Flow>> = BTreeMap::new();
    for flow in flows {
        if let Class::Incast(event) = flow.class {
            events.entry(event).or_default().push(*flow);
        }
    }
    events
}

#[test]
fn an_incast_has_one_receiver_and_as_many_different_senders_as_its_fan_in() {
    for fan_in in [1, 40, HOSTS - 1] {
        let incast = Incast {
            fan_in: NonZeroU32::new(fan_in).unwrap(),
            ..dibs()
        };
        let workload = Workload {
            background: None,
            incast: Some(incast),
            until: Until::Flows(u64::from(fan_in) * 499 + 1),
            ..open("fixed:1", 1.0)
        };
        let events = events(&flows(&workload));
        assert_eq!(events.len(), 500, "the last incast is whole");
        assert!(events.keys().copied().eq(0..500));
        for flows in events.values() {
            let senders: BTreeSet<_> = flows.iter().map(|flow| flow.src).collect();
            assert_eq!(senders.len(), fan_in as usize);
            assert!(!senders.contains(&flows[0].dst));
            assert!(
                flows
                    .iter()
                    .all(|f| (f.start_ns, f.dst) == (flows[0].start_ns, flows[0].dst))
            );
        }
    }
}

/// BFC's 100 to 1 on 16 hosts.
#[test]
fn an_incast_may_have_more_flows_than_senders() {
    let (fan_in, senders) = (100, 15);
    let incast = Incast {
        fan_in: NonZeroU32::new(fan_in).unwrap(),
        senders: NonZeroU32::new(senders),
        bytes: IncastBytes::Aggregate(5_000_050),
        ..dibs()
    };
    assert_eq!(
        incast.to_string(),
        "5000050 B from 100 by 15 hosts, 300.000000 per s, poisson"
    );
    let workload = Workload {
        hosts: 16,
        background: None,
        incast: Some(incast),
        until: Until::Flows(u64::from(fan_in) * 50),
        ..open("fixed:1", 1.0)
    };
    let events = events(&flows(&workload));
    assert_eq!(events.len(), 50);
    for flows in events.values() {
        assert_eq!(flows.len(), fan_in as usize);
        assert_eq!(flows.iter().map(|flow| flow.size).sum::<u64>(), 5_000_050);
        let mut each: BTreeMap<u32, u32> = BTreeMap::new();
        for flow in flows {
            assert_ne!(flow.src, flow.dst);
            *each.entry(flow.src).or_default() += 1;
        }
        assert_eq!(each.len(), senders as usize);
        assert!(
            each.values().all(|count| (6..=7).contains(count)),
            "{each:?}"
        );
    }
}

fn added(start_ns: u64, src: u32, dst: u32, size: u64) -> TraceFlow {
    TraceFlow {
        start_ns,
        src,
        dst,
        size,
    }
}

#[test]
fn added_flows_are_ordered_by_start_and_do_not_change_the_others() {
    let without = Workload {
        incast: Some(dibs()),
        ..open("web-search", 1_000.0)
    };
    // After all other flows, and at the beginning.
    let late = added(3_600_000_000_000, 5, 6, 70);
    let early = added(0, 7, 8, 90);
    let with = Workload {
        added: vec![late, early],
        ..without.clone()
    };
    let (without, with) = (flows(&without), flows(&with));
    assert!(with.is_sorted_by_key(|flow| flow.start_ns));
    assert!((0..).zip(&with).all(|(id, flow)| flow.id == id));
    let of_added = |flow: &&Flow| flow.class == Class::Added;
    let found: Vec<_> = with.iter().filter(of_added).collect();
    let rest = |flow: &Flow| (flow.start_ns, flow.src, flow.dst, flow.size, flow.warm_up);
    assert_eq!(
        found.iter().map(|flow| rest(flow)).collect::<Vec<_>>(),
        [(0, 7, 8, 90, false), (late.start_ns, 5, 6, 70, false)]
    );
    let others: Vec<_> = with
        .iter()
        .filter(|flow| !of_added(flow))
        .map(rest)
        .collect();
    assert_eq!(others, parts(&without, rest));
}

#[test]
fn a_workload_may_consist_of_added_flows_only() {
    let workload = Workload {
        background: None,
        added: vec![added(5, 1, 2, 3), added(5, 2, 1, 4)],
        until: Until::Time(1),
        ..open("fixed:1", 1.0)
    };
    let rest = |flow: &Flow| (flow.id, flow.start_ns, flow.src, flow.dst, flow.size);
    assert_eq!(
        parts(&flows(&workload), rest),
        [(0, 5, 1, 2, 3), (1, 5, 2, 1, 4)]
    );
}

/// 127 degrees of freedom: above 181.99 with probability 0.001. The senders of one incast differ
/// from each other, so their statistic is slightly smaller.
#[test]
fn receivers_and_senders_of_incasts_are_any_host() {
    let workload = Workload {
        background: None,
        incast: Some(dibs()),
        until: Until::Flows(40 * 20_000),
        ..open("fixed:1", 1.0)
    };
    let events = events(&flows(&workload));
    let (mut received, mut sent) = (vec![0.0_f64; HOSTS as usize], vec![0.0_f64; HOSTS as usize]);
    for flows in events.values() {
        received[flows[0].dst as usize] += 1.0;
        for flow in flows {
            sent[flow.src as usize] += 1.0;
        }
    }
    for counts in [received, sent] {
        let expected = counts.iter().sum::<f64>() / f64::from(HOSTS);
        let chi: f64 = counts
            .iter()
            .map(|count| (count - expected).powi(2) / expected)
            .sum();
        assert!(chi < 182.0, "{chi}");
    }
}

#[test]
fn a_fixed_receiver_receives_all_flows_at_the_same_times() {
    let random = Workload {
        background: None,
        incast: Some(dibs()),
        until: Until::Time(1_000_000_000),
        ..open("fixed:1", 1.0)
    };
    let fixed = Workload {
        incast: Some(Incast {
            receiver: Some(7),
            ..dibs()
        }),
        ..random.clone()
    };
    let (random, fixed) = (flows(&random), flows(&fixed));
    assert!(fixed.iter().all(|flow| flow.dst == 7 && flow.src != 7));
    assert_eq!(
        parts(&random, |flow| flow.start_ns),
        parts(&fixed, |flow| flow.start_ns)
    );
}

/// BFC: 100 senders, 20 MB in aggregate, 5 % of the load.
#[test]
fn incasts_offer_their_load() {
    let framing = Framing::ethernet_tcp(1500, true).unwrap();
    let mut incast = Incast {
        fan_in: NonZeroU32::new(100).unwrap(),
        bytes: IncastBytes::Aggregate(20_000_050),
        ..dibs()
    };
    let of = LoadOf::Host {
        rate: 10e9,
        share: incast.busiest_share(HOSTS),
    };
    let load = Load {
        fraction: 0.05,
        of,
        counted: Counted::Wire,
    };
    incast.rate = load
        .per_second(incast.bits(Counted::Wire, &framing))
        .unwrap();
    let workload = Workload {
        background: None,
        incast: Some(incast),
        until: Until::Flows(100 * 60_000),
        ..open("fixed:1", 1.0)
    };
    let (mut bits, mut event_bytes, mut end) = (0.0, 0, 0);
    for flow in workload.flows().unwrap() {
        bits += Counted::Wire.bits(flow.size, &framing);
        event_bytes += if flow.class == Class::Incast(0) {
            flow.size
        } else {
            0
        };
        assert!(flow.size == 200_000 || flow.size == 200_001);
        end = flow.start_ns;
    }
    assert_eq!(event_bytes, 20_000_050);
    let achieved = bits / (end as f64 / 1e9) / (10e9 * f64::from(HOSTS));
    assert!((achieved / 0.05 - 1.0).abs() < 0.01, "{achieved}");
}

#[test]
fn a_workload_ends_where_it_should() {
    let count = open("fixed:1000", 1_000.0);
    assert_eq!(flows(&count).len(), 5_000);
    let with = flows(&Workload {
        incast: Some(dibs()),
        ..count.clone()
    });
    assert_eq!(background(&with).len(), 5_000);
    let last = background(&with).last().unwrap().start_ns;
    assert!(with.iter().all(|flow| flow.start_ns <= last));
    // About 300 incasts of 40 in each of the 5 seconds.
    assert!(events(&with).len() > 1_300);

    let time = Workload {
        until: Until::Time(1_000_000_000),
        incast: Some(dibs()),
        ..count
    };
    let flows = flows(&time);
    assert!(flows.iter().all(|flow| flow.start_ns < 1_000_000_000));
    assert!(background(&flows).len() > 850 && events(&flows).len() > 220);
}

/// A quotient times its divisor can be a little more than the dividend.
#[test]
fn a_warm_up_of_n_flows_has_exactly_n() {
    for all in 1..400_u64 {
        let before = 51.min(all - 1);
        let workload = Workload {
            until: Until::Flows(all),
            warm_up: before as f64 / all as f64,
            ..open("web-search", 1e6)
        };
        let warming = flows(&workload).iter().filter(|flow| flow.warm_up).count();
        assert_eq!(warming as u64, before, "of {all}");
    }
}

#[test]
fn the_warm_up_is_marked() {
    let count = Workload {
        incast: Some(dibs()),
        ..open("fixed:1000", 1_000.0)
    };
    let with = flows(&count);
    assert_eq!(
        background(&with).iter().filter(|flow| flow.warm_up).count(),
        500
    );
    let first_measured = with.iter().find(|flow| !flow.warm_up).unwrap().id;
    assert!(
        with.iter()
            .all(|flow| flow.warm_up == (flow.id < first_measured))
    );

    let time = Workload {
        until: Until::Time(1_000_000_000),
        ..count.clone()
    };
    assert!(
        flows(&time)
            .iter()
            .all(|flow| flow.warm_up == (flow.start_ns < 100_000_000))
    );
    let none = Workload {
        warm_up: 0.0,
        ..count
    };
    assert!(flows(&none).iter().all(|flow| !flow.warm_up));
}

/// The flows that keep up the load are those of a longer workload of the same seed, except that
/// they are not measured.
#[test]
fn the_load_goes_on_as_if_the_workload_were_longer() {
    let with = |until| Workload {
        incast: Some(dibs()),
        until,
        ..open("web-search", 1_000.0)
    };
    let longer = flows(&with(Until::Flows(7_000)));
    for until in [Until::Flows(5_000), Until::Time(4_000_000_000)] {
        let mut all = with(until).flows().unwrap();
        let own: Vec<Flow> = all.by_ref().collect();
        assert_eq!(all.next(), None);
        let next_ns = all.continue_load();
        let more: Vec<Flow> = all.by_ref().take(500).collect();
        assert!(more.iter().all(|flow| flow.warm_up));
        let first = more.iter().find(|flow| flow.class == Class::Background);
        assert_eq!(first.map(|flow| flow.start_ns), next_ns);
        let together = own.iter().chain(&more);
        let same = |(a, b): (&Flow, &Flow)| {
            Flow {
                warm_up: false,
                ..*a
            } == Flow {
                warm_up: false,
                ..*b
            }
        };
        assert!(together.zip(&longer).all(same), "{until:?}");
    }
    // A file has no flows beyond its end.
    let trace = Trace::parse("mine", "0 0 1 10", &Hosts::numbered(2)).unwrap();
    let mut all = Workload {
        hosts: 2,
        background: Some(Background::Trace(trace)),
        until: Until::TraceEnd,
        ..open("fixed:1", 1.0)
    }
    .flows()
    .unwrap();
    assert_eq!(
        (all.by_ref().count(), all.continue_load(), all.next()),
        (1, None, None)
    );
}

#[test]
fn in_a_closed_loop_each_flow_waits_for_the_previous_one_of_its_pair() {
    let workload = Workload {
        hosts: 4,
        background: Some(Background::Closed {
            sizes: "web-search".parse().unwrap(),
            pairs: Pairs::permutation(4, 1).unwrap(),
            outstanding: NonZeroU32::new(3).unwrap(),
        }),
        until: Until::Flows(100),
        ..open("fixed:1", 1.0)
    };
    let flows = flows(&workload);
    assert_eq!(flows.len(), 100);
    let (first, rest) = flows.split_at(12);
    assert!(first.iter().all(|flow| flow.after.is_none()));
    for flow in rest {
        let before = flows[flow.after.unwrap().first as usize];
        assert_eq!((before.src, before.dst), (flow.src, flow.dst));
    }
    let waited_for: BTreeSet<_> = rest
        .iter()
        .map(|flow| flow.after.map(|after| after.first))
        .collect();
    assert_eq!(waited_for.len(), rest.len(), "no flow begins two");
    for pair in first.iter().map(|flow| (flow.src, flow.dst)) {
        let outstanding = first.iter().filter(|flow| (flow.src, flow.dst) == pair);
        assert_eq!(outstanding.count(), 3);
    }
}

/// The exact numbers: they must not change with a dependency, a compiler or a machine.
#[test]
fn a_seed_gives_the_same_flows_in_every_version() {
    let mut workload = Workload {
        incast: Some(dibs()),
        ..open("web-search", 3_000.0)
    };
    if let Some(Background::Open { process, .. }) = &mut workload.background {
        *process = Process::LogNormal { sigma: 2.0 };
    }
    // FNV-1a.
    let hash = flows(&workload)
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, flow| {
            let words = [
                flow.start_ns,
                u64::from(flow.src),
                u64::from(flow.dst),
                flow.size,
            ];
            words
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .fold(hash, |hash, byte| {
                    (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
                })
        });
    assert_eq!(hash, 0xf367_a1fd_18b4_69eb, "{hash:#x}");
}

#[test]
fn impossible_workloads_are_refused() {
    let good = open("fixed:1000", 1_000.0);
    let closed = Background::Closed {
        sizes: "fixed:1".parse().unwrap(),
        pairs: Pairs::uniform(HOSTS).unwrap(),
        outstanding: NonZeroU32::MIN,
    };
    let trace =
        Background::Trace(Trace::parse("mine", "0 0 128 1\n", &Hosts::numbered(129)).unwrap());
    let short = Background::Trace(Trace::parse("mine", "0 0 1 1\n", &Hosts::numbered(2)).unwrap());
    let fan_in = NonZeroU32::new(HOSTS).unwrap();
    for (workload, expected) in [
        (
            Workload {
                warm_up: 1.0,
                ..good.clone()
            },
            "warm-up 1: expected a fraction from 0 to below 1",
        ),
        (
            Workload {
                until: Until::Flows(0),
                ..good.clone()
            },
            "a workload needs at least one flow, or some time",
        ),
        (
            Workload {
                background: None,
                ..good.clone()
            },
            "a workload needs background flows, incasts, or flows that are added",
        ),
        (
            Workload {
                until: Until::TraceEnd,
                ..good.clone()
            },
            "without a trace, say a number of flows or a time",
        ),
        (
            Workload {
                hosts: 127,
                ..good.clone()
            },
            "the pairs are of 128 hosts, the fabric has 127",
        ),
        (
            open("fixed:1", 0.0),
            "0 arrivals per second: expected more than 0",
        ),
        (
            Workload {
                background: Some(closed.clone()),
                until: Until::Time(1),
                ..good.clone()
            },
            "a closed loop ends after a number of flows, not after a time",
        ),
        (
            Workload {
                background: Some(closed),
                incast: Some(dibs()),
                ..good.clone()
            },
            "a closed loop has no incasts on top: when it ends is not known before",
        ),
        (
            Workload {
                background: Some(trace),
                until: Until::TraceEnd,
                ..good.clone()
            },
            "the trace has a host h128, the fabric has 128 hosts",
        ),
        (
            Workload {
                background: Some(short),
                until: Until::Flows(2),
                ..good.clone()
            },
            "2 flows: the trace has 1",
        ),
        (
            Workload {
                incast: Some(Incast { fan_in, ..dibs() }),
                ..good.clone()
            },
            "an incast of 128 senders needs 129 hosts: the fabric has 128",
        ),
        (
            Workload {
                incast: Some(Incast {
                    bytes: IncastBytes::Aggregate(39),
                    ..dibs()
                }),
                ..good.clone()
            },
            "each flow of an incast has at least 1 byte",
        ),
        (
            Workload {
                incast: Some(Incast {
                    senders: NonZeroU32::new(41),
                    ..dibs()
                }),
                ..good.clone()
            },
            "41 senders of 40 flows: some have none",
        ),
        (
            Workload {
                added: vec![added(0, 3, 128, 1)],
                ..good.clone()
            },
            "there is no host h128: the fabric has 128",
        ),
        (
            Workload {
                added: vec![added(0, 3, 3, 1)],
                ..good.clone()
            },
            "a flow from h3 to h3 goes nowhere",
        ),
        (
            Workload {
                added: vec![added(0, 3, 4, 0)],
                ..good.clone()
            },
            "a flow of 0 bytes: expected 1 byte to 1 TiB",
        ),
        (
            Workload {
                incast: Some(Incast {
                    receiver: Some(128),
                    ..dibs()
                }),
                ..good
            },
            "there is no host h128: the fabric has 128",
        ),
    ] {
        assert_eq!(workload.flows().unwrap_err().to_string(), expected);
    }
}

/// The error comes at once: nothing is drawn or allocated before.
#[test]
fn workloads_too_large_for_any_machine_are_refused_at_once() {
    let closed = |outstanding| Workload {
        background: Some(Background::Closed {
            sizes: "fixed:1".parse().unwrap(),
            pairs: Pairs::uniform(HOSTS).unwrap(),
            outstanding: NonZeroU32::new(outstanding).unwrap(),
        }),
        ..open("fixed:1", 1.0)
    };
    let refused = |workload: Workload| workload.flows().map(drop).unwrap_err().to_string();
    let usual = || open("fixed:1", 1_000.0);
    let many = "flows: a run has at most 1e7";
    assert!(refused(closed(400_000_000)).ends_with(many));
    assert!(closed(2).flows().is_ok());
    let until = |until, rate| Workload {
        until,
        ..open("fixed:1", rate)
    };
    assert!(refused(until(Until::Flows(u64::MAX), 1e9)).ends_with(many));
    assert!(refused(until(Until::Time(10_000_000_000), 1e7)).ends_with(many));
    assert!(refused(until(Until::Flows(100), 1e-300)).contains("s until the last flow"));
    let incast = |rate| Workload {
        incast: Some(Incast { rate, ..dibs() }),
        ..usual()
    };
    assert!(refused(incast(1e30)).ends_with(many));
    assert!(incast(300.0).flows().is_ok());
    let only = |rate| Workload {
        background: None,
        ..incast(rate)
    };
    assert!(refused(only(1e-300)).contains("s until the last flow"));
    assert!(only(1e30).flows().is_ok());
}
