// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The utilisation of a link: HPCC's formula, PINT's average of it, and a naive model in floating
//! point.

use proptest::prelude::*;
use weft_mechanisms::common::stamp::{LIMIT, ONE};
use weft_mechanisms::int::meter::{Link, Meter, MAX_RTT};

/// 1 Gbit/s and 100 µs: 12,500 bytes in a round-trip time. A packet of 1250 bytes takes 10 µs.
const LINK: Link = Link {
    rate: 125_000_000,
    rtt: 100_000,
};
const PACKET: u64 = 1_250;
const PACKET_NS: u64 = 10_000;

fn near(found: u32, expected: f64) -> bool {
    (f64::from(found) / f64::from(ONE) - expected).abs() < 1e-3
}

/// Packets one after the other, with `queue` bytes behind each, for 20 round-trip times.
fn busy(meter: &mut Meter, now: &mut u64, gap: u64, queue: u64) -> u32 {
    let mut found = 0;
    for _ in 0..20 * LINK.rtt / gap {
        *now += gap;
        found = meter.depart(*now, PACKET, queue);
    }
    found
}

/// "txRate / B"
#[test]
fn a_full_link_without_a_queue_has_a_utilisation_of_one() {
    let mut meter = Meter::new(LINK);
    assert!(near(busy(&mut meter, &mut 0, PACKET_NS, 0), 1.0));
    let mut meter = Meter::new(LINK);
    // The packets come at half of the link's rate: the average is highest when one has left.
    assert!(near(busy(&mut meter, &mut 0, 2 * PACKET_NS, 0), 0.5));
}

/// "qlen / (B T)"
#[test]
fn a_queue_of_one_bandwidth_delay_product_adds_one() {
    let mut meter = Meter::new(LINK);
    assert!(near(busy(&mut meter, &mut 0, PACKET_NS, 12_500), 2.0));
    let mut meter = Meter::new(LINK);
    assert!(near(busy(&mut meter, &mut 0, PACKET_NS, 1_250), 1.1));
}

/// "U = (T - τ)/T · U + τ/T · u"
#[test]
fn the_average_forgets_a_queue_within_round_trip_times() {
    let mut meter = Meter::new(LINK);
    let mut now = 0;
    busy(&mut meter, &mut now, PACKET_NS, 25_000);
    now += PACKET_NS;
    // From 3 to 1, a tenth of the way with each tenth of a round-trip time.
    let found = meter.depart(now, PACKET, 0);
    assert!(near(found, 3.0 * 0.9 + 0.1), "{found}");
    assert!(near(busy(&mut meter, &mut now, PACKET_NS, 0), 1.0));
}

#[test]
fn the_first_packet_after_an_idle_time_counts_alone() {
    let mut meter = Meter::new(LINK);
    assert!(near(meter.depart(5, PACKET, 0), 0.1));
    let mut now = 5;
    busy(&mut meter, &mut now, PACKET_NS, 25_000);
    assert!(near(meter.at(now + LINK.rtt / 2), 1.5));
    assert_eq!(meter.at(now + LINK.rtt), 0);
    assert!(near(meter.depart(now + 10 * LINK.rtt, PACKET, 0), 0.1));
}

#[test]
fn a_reset_forgets_all_packets() {
    let mut meter = Meter::new(LINK);
    let mut now = 0;
    busy(&mut meter, &mut now, PACKET_NS, 25_000);
    meter.reset();
    assert_eq!(meter.at(now), 0);
    assert!(near(meter.depart(now, PACKET, 0), 0.1));
}

#[test]
fn a_change_of_the_link_applies_to_the_next_packet() {
    let mut meter = Meter::new(LINK);
    let mut now = 0;
    busy(&mut meter, &mut now, PACKET_NS, 0);
    meter.set_link(Link {
        rate: LINK.rate / 2,
        ..LINK
    });
    assert!(near(meter.depart(now + PACKET_NS, PACKET, 0), 0.9 + 0.2));
}

/// "qlen", "txBytes" and "ts", the first two divided by B.
#[test]
fn a_departure_has_the_queue_behind_it_and_the_bytes_before_it() {
    let mut meter = Meter::new(LINK);
    for packets in 0..5 {
        let now = 7 + packets * 3 * PACKET_NS;
        let departure = meter.departure(now, 2 * PACKET);
        assert_eq!(departure.queue, 2 * PACKET_NS);
        assert_eq!((departure.sent, departure.time), (packets * PACKET_NS, now));
        meter.depart(now, PACKET, 2 * PACKET);
    }
    // Senders remember what the link has sent.
    meter.reset();
    assert_eq!(meter.departure(0, 0).sent, 5 * PACKET_NS);
}

#[test]
fn bytes_sent_do_not_lose_parts_of_nanoseconds() {
    // A byte takes a third of a nanosecond.
    let mut meter = Meter::new(Link {
        rate: 3_000_000_000,
        rtt: 15_000,
    });
    for _ in 0..3_000 {
        meter.depart(0, 64, 0);
    }
    assert_eq!(meter.departure(0, 0).sent, 64_000);
}

proptest! {
    #[test]
    fn each_step_is_the_naive_models(
        (rate, rtt) in (10_000_u64..50_000_000_000, 1_000..MAX_RTT),
        steps in prop::collection::vec((0.0..3.0_f64, 1..70_000_u64, 0..10_000_000_u64), 1..300),
    ) {
        let mut meter = Meter::new(Link { rate, rtt });
        let (mut now, mut last, mut naive) = (0_u64, None, 0.0_f64);
        for (gap, bytes, queue) in steps {
            // Gaps from a nanosecond to three round-trip times.
            now += (rtt as f64).powf(gap.min(1.0)) as u64 * (1 + gap as u64);
            let (b, t) = (rate as f64 / 1e9, rtt as f64);
            let tau = last.map_or(t, |last| (now - last) as f64).min(t);
            let term = |bytes: u64| (bytes as f64 / (b * t)).min(512.0);
            naive = (t - tau) / t * naive + tau / t * term(queue) + term(bytes);
            naive = naive.min(512.0);
            let found = f64::from(meter.depart(now, bytes, queue)) / f64::from(ONE);
            // Three roundings of 2^-20, and times of whole nanoseconds.
            let error = 4e-6 + 3.0 / t;
            prop_assert!((found - naive).abs() <= error, "{found} {naive}");
            naive = found;
            last = Some(now);
        }
    }

    #[test]
    fn nothing_is_too_large(
        (rate, rtt) in any::<(u64, u64)>(),
        steps in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..100),
    ) {
        let mut meter = Meter::new(Link { rate, rtt });
        for (now, bytes, queue) in steps {
            prop_assert!(meter.depart(now, bytes, queue) < LIMIT);
            prop_assert!(meter.at(now) < LIMIT);
        }
    }
}
