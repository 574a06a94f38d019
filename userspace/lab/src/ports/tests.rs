// SPDX-License-Identifier: MIT OR Apache-2.0

use weft_load::record::{Detours, PortSample};
use weft_mechanisms::{bfc, dibs};

use super::*;

/// A child qdisc that has only statistics of its kind.
fn child<'a>(kind: &'a str, app: &'a [u8]) -> QdiscFigures<'a> {
    QdiscFigures {
        kind,
        handle: Handle(0x2_0000),
        parent: Handle(0x1_0001),
        sent_packets: 0,
        sent_bytes: 0,
        backlog_packets: 0,
        backlog_bytes: 0,
        drops: 0,
        app,
    }
}

/// A port's reading with such a qdisc.
fn reading(kind: &str, app: &[u8]) -> PortReading {
    let mut port = PortReading::default();
    port.add(&child(kind, app));
    port
}

fn sampled(sample: PortSample) -> PortReading {
    PortReading {
        sample,
        ..PortReading::default()
    }
}

/// The same as at PASE's ports: a RED queue in each band.
#[test]
fn a_port_counts_the_marks_of_all_bands() {
    let mut port = PortReading::default();
    for marked in [7_u32, 0, 2] {
        let statistics = [1, 2, 3, marked].map(u32::to_ne_bytes);
        port.add(&child("red", statistics.as_flattened()));
    }
    assert_eq!(port.sample.marks, 9);
}

#[test]
fn packets_in_flight_are_in_no_queue() {
    let stats = weft_mechanisms::wire::stats::Stats {
        busy_ns: 5,
        in_flight: 3,
        in_flight_bytes: 4500,
        late_count: 1,
        late_sum_ns: 7,
        late_max_ns: 7,
        late_histogram: [0; weft_mechanisms::wire::stats::LATENESS_BUCKETS],
        in_flight_limit: 1_061_076,
        held: 0,
    };
    let app = stats.to_bytes();
    let mut port = PortReading::default();
    port.add(&QdiscFigures {
        kind: "wire",
        handle: Handle(0x1_0000),
        parent: Handle::ROOT,
        sent_packets: 10,
        sent_bytes: 15000,
        backlog_packets: 8,
        backlog_bytes: 12_000,
        drops: 2,
        app: &app,
    });
    let sample = &port.sample;
    assert_eq!((sample.backlog_packets, sample.backlog_bytes), (5, 7500));
    assert_eq!(
        (port.sent_packets, sample.drops, sample.busy_ns),
        (10, 2, 5)
    );
}

#[test]
fn the_first_band_of_a_prio_is_counted_separately() {
    let mut port = PortReading::default();
    for (kind, handle, parent, backlog_bytes) in [
        ("htb", 0x1_0000, u32::MAX, 5000),
        ("prio", 0x10_0000, 0x1_0001, 5000),
        ("pfifo", 0x11_0000, 0x10_0001, 300),
        ("pfifo", 0x12_0000, 0x10_0002, 4700),
    ] {
        port.add(&QdiscFigures {
            kind,
            handle: Handle(handle),
            parent: Handle(parent),
            sent_packets: 0,
            sent_bytes: 0,
            backlog_packets: 0,
            backlog_bytes,
            drops: 0,
            app: &[],
        });
    }
    let sample = &port.sample;
    assert_eq!((sample.backlog_bytes, sample.first_band_bytes), (5000, 300));
}

#[test]
fn backpressure_has_counters_and_the_present_state() {
    let reading = |stats: bfc::stats::Stats| reading("bfc", &stats.to_bytes()).sample;
    let before = bfc::stats::Stats {
        occupied: 9,
        collisions: 5,
        pauses_sent: 100,
        paused_ns: 1_000_000,
        pauses_received: 3,
        ..Default::default()
    };
    let now = bfc::stats::Stats {
        occupied: 3,
        active: 2,
        collisions: 7,
        pauses_sent: 150,
        paused_ns: 4_000_400,
        buffer_backlog: 30_000,
        longest: 9_000,
        pauses_received: 7,
        ..Default::default()
    };
    let mut since = reading(now);
    since.count_from(&reading(before));
    since.divide_times(1000.0);
    let expected = Backpressure {
        occupied: 3,
        active: 2,
        collisions: 2,
        pauses_sent: 50,
        paused_ns: 3_000,
        buffer_bytes: 30_000,
        longest: 9_000,
        pauses_received: 4,
        ..Backpressure::default()
    };
    assert_eq!(since.backpressure, Some(expected));
}

#[test]
fn a_port_without_a_queue_is_of_interest_when_it_pauses_its_neighbour() {
    let port = |pausing, pauses_sent, buffer_bytes| {
        sampled(PortSample {
            backpressure: Some(Backpressure {
                pausing,
                pauses_sent,
                buffer_bytes,
                ..Backpressure::default()
            }),
            ..PortSample::default()
        })
    };
    let idle = port(0, 7, 0);
    assert!(port(1, 7, 0).is_of_interest_after(&idle));
    assert!(port(0, 8, 0).is_of_interest_after(&idle));
    // The contents of the switch's other ports are reported by those.
    assert!(!port(0, 7, 9_000).is_of_interest_after(&idle));
    assert!(!PortReading::default().is_of_interest_after(&PortReading::default()));
}

#[test]
fn an_emptied_queue_is_of_interest_once() {
    let port = |backlog_packets| {
        sampled(PortSample {
            backlog_packets,
            ..PortSample::default()
        })
    };
    assert!(port(0).is_of_interest_after(&port(1)));
    assert!(!port(0).is_of_interest_after(&port(0)));
}

/// Gives readings one after the other.
struct Given(Vec<PortReading>);

impl Ports for Given {
    fn read(&mut self) -> Result<Vec<PortReading>> {
        Ok(vec![self.0.remove(0)])
    }
}

#[test]
fn counters_continue_when_a_qdisc_is_replaced() {
    let reading = |count: u64, told: bool| PortReading {
        sample: PortSample {
            busy_ns: 10 * count,
            drops: count,
            backlog_packets: count % 2,
            backpressure: told.then(|| Backpressure {
                pauses_sent: count,
                longest: count,
                ..Backpressure::default()
            }),
            ..PortSample::default()
        },
        lateness: Lateness {
            count,
            ..Lateness::default()
        },
        ..PortReading::default()
    };
    let steps = [(5, true), (8, true), (0, false), (2, true), (3, true)];
    let mut given = Given(steps.map(|(count, told)| reading(count, told)).into());
    let mut ports = Continued::new(&mut given);
    let mut seen = Vec::new();
    for _ in steps {
        let port = ports.read().unwrap().remove(0);
        let sample = &port.sample;
        let told = sample.backpressure.unwrap();
        assert_eq!(
            (sample.drops, port.lateness.count),
            (sample.busy_ns / 10, sample.drops)
        );
        seen.push((
            sample.drops,
            sample.backlog_packets,
            told.pauses_sent,
            told.longest,
        ));
    }
    let expected = [
        (5, 1, 5, 5),
        (8, 0, 8, 8),
        (8, 0, 8, 8),
        (10, 0, 10, 2),
        (11, 1, 11, 3),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn marks_are_read_from_red_codel_fq_codel_and_dualpi2() {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let red: Vec<u8> = words(&[1, 2, 3, 44]);
    assert_eq!(reading("red", &red).sample.marks, 44);
    let codel: Vec<u8> = words(&[1500, 2, 3, 4, u32::MAX, 6, 70, 1, 5]);
    assert_eq!(reading("codel", &codel).sample.marks, 75);
    let codel: Vec<u8> = words(&[0, 1500, 6, 55]);
    assert_eq!(reading("fq_codel", &codel).sample.marks, 55);
    let dualpi2: Vec<u8> = words(&[1, 2, 3, 4, 5, 6, 70, 8, 9, 10, 11, 12]);
    assert_eq!(reading("dualpi2", &dualpi2).sample.marks, 78);
}

#[test]
fn pfabric_counts_the_bytes_of_drops() {
    let stats = weft_mechanisms::pfabric::stats::Stats {
        evicted: 3,
        rejected: 4,
        evicted_bytes: 3_000,
        rejected_bytes: 400,
        flows: 5,
        ..Default::default()
    };
    let port = reading("pfabric", &stats.to_bytes());
    assert_eq!((port.sample.evictions, port.flows), (3, Some(5)));
    assert_eq!((port.weighed_drops, port.dropped_bytes), (7, 3_400));
    assert_eq!(reading("pfabric", &[0; 8]).flows, None);
}

#[test]
fn detours_and_marks_of_dibs_are_read_and_summed() {
    let of = |stats: &dibs::stats::Stats| reading("dibs", &stats.to_bytes());
    let before = dibs::stats::Stats {
        detoured_limit: 5,
        received: 2,
        marked: 7,
        ..Default::default()
    };
    let now = dibs::stats::Stats {
        detoured_limit: 15,
        detoured_bytes: 100,
        detoured_share: 1_000,
        detoured_early: 10_000,
        received: 9,
        marked: 27,
        ..Default::default()
    };
    let (before, now) = (of(&before), of(&now));
    let expected = Detours {
        sent: 11_110,
        received: 7,
    };
    let mut since = now.sample.clone();
    since.count_from(&before.sample);
    assert_eq!(since.detours, Some(expected));
    let none = reading("dibs", &[]);
    assert_eq!(none.sample.detours, None);
    let all = [before.clone(), before.clone(), none.clone()];
    let sums = totals(&all, &[now.clone(), now.clone(), none.clone()]).sums;
    let sums = |key: &str| sums.get(key);
    assert_eq!((sums("marks"), sums("detours")), (Some(40), Some(22_220)));
    let none = std::slice::from_ref(&none);
    let sums = totals(none, none).sums;
    assert_eq!((sums.get("marks"), sums.get("detours")), (Some(0), None));
    // The qdisc was created again: it counts from 0.
    let mut given = Given(vec![now.clone(), before, now]);
    let mut ports = Continued::new(&mut given);
    let mut last = || ports.read().unwrap().remove(0).sample.detours.unwrap();
    assert_eq!(
        (last().received, last().received, last().received),
        (9, 11, 18)
    );
}

#[test]
fn loss_is_relative_to_sent_packets_or_to_bytes_if_all_drops_count_bytes() {
    let port = |host, sent: u64, drops, weighed_drops| PortReading {
        sample: PortSample {
            host,
            drops,
            ..PortSample::default()
        },
        sent_packets: sent,
        sent_bytes: 1000 * sent,
        weighed_drops,
        dropped_bytes: 100 * weighed_drops,
        ..PortReading::default()
    };
    let before = vec![port(true, 5, 1, 1), port(false, 50, 2, 2)];
    let after = vec![port(true, 13, 3, 3), port(false, 60, 5, 5)];
    let known = totals(&before, &after);
    assert_eq!(known.loss(), Some(0.5));
    assert_eq!(known.loss_of_bytes(), Some(500.0 / 8200.0));
    let after = vec![port(true, 13, 3, 3), port(false, 60, 5, 4)];
    let unknown = totals(&before, &after);
    assert_eq!(unknown.loss(), Some(0.5));
    assert_eq!(unknown.loss_of_bytes(), None);
    assert_eq!(totals(&before, &before).loss(), None);
}
