// SPDX-License-Identifier: MIT OR Apache-2.0

//! The best possible flow completion time, by hand and against a packet-by-packet simulation.

use std::num::NonZeroU32;

use proptest::prelude::*;
use weft_load::framing::Framing;
use weft_load::slowdown::{Hop, IdlePath, best_ns, lower_bound_ns};

fn framing(mss: u32, headers: u32, frame: u32, minimum: u32) -> Framing {
    let mss = NonZeroU32::new(mss).unwrap();
    Framing {
        mss,
        headers,
        frame,
        minimum,
    }
}

const TEN_GBIT: Hop = Hop {
    rate: 10_000_000_000,
    delay: 1_000,
};

/// 1460 + 40 + 38 = 1538 bytes are 1230.4 ns at 10 Gbit/s; 1 + 78 are below the minimum of 84,
/// which are 67.2 ns.
#[test]
fn one_packet_is_stored_and_forwarded_at_each_link() {
    let path = IdlePath::new(vec![TEN_GBIT; 4], framing(1460, 40, 38, 84)).unwrap();
    assert!((path.best_ns(1460) - (4.0 * 1230.4 + 4_000.0)).abs() < 1e-6);
    assert!((path.best_ns(1) - (4.0 * 67.2 + 4_000.0)).abs() < 1e-6);
}

/// 1 MB is 684 full packets and one of 1,000,000 - 684 * 1460 = 1360 bytes. On equal links the
/// shorter last packet stays behind the full ones until the last link: 684 + 3 times 1230.4 ns, and
/// (1360 + 78) * 0.8 = 1150.4 ns.
#[test]
fn one_megabyte_is_pipelined() {
    let path = IdlePath::new(vec![TEN_GBIT; 4], framing(1460, 40, 38, 84)).unwrap();
    let expected = 4_000.0 + 687.0 * 1230.4 + 1150.4;
    assert!((path.best_ns(1_000_000) - expected).abs() < 1e-6);
    assert!((path.slowdown(1_000_000, (2.0 * expected) as u64) - 2.0).abs() < 1e-5);
}

/// The slow link sets the pace: 2 full packets and 1 byte; a full packet has 100 bytes, the last
/// one 10. The fast link takes 1 ns per byte, the slow link 10 ns: 100 + 1000 + 1000 + 100, then
/// the fast link again for the last packet alone: 10 (the full packet before it has long left).
#[test]
fn the_slowest_link_sets_the_pace() {
    let fast = Hop {
        rate: 8_000_000_000,
        delay: 0,
    };
    let slow = Hop {
        rate: 800_000_000,
        delay: 0,
    };
    let path = IdlePath::new(vec![fast, slow, fast], framing(91, 9, 0, 0)).unwrap();
    assert!((path.best_ns(183) - 2210.0).abs() < 1e-6);
}

#[test]
fn wire_bytes_count_headers_and_short_frames() {
    let framing = framing(1460, 40, 38, 84);
    assert_eq!(framing.flow_wire_bytes(1461), 1538 + 84);
    assert_eq!(framing.flow_wire_bytes(1460), 1538);
    assert_eq!(framing.packets(1461), 2);
    let tagged = Framing::ethernet_tcp(1500, true).unwrap();
    assert_eq!((tagged.mss.get(), tagged.headers), (1440, 60));
    assert_eq!(
        Framing::ethernet_tcp(1500, false).unwrap().with_option(8),
        Some(tagged)
    );
    assert_eq!(tagged.with_option(1440), None);
    assert_eq!(Framing::ethernet_tcp(60, true), None);
    let ipv6 = Framing::ethernet_tcp_ipv6(1500, false).unwrap();
    assert_eq!((ipv6.mss.get(), ipv6.headers), (1428, 72));
    assert_eq!(ipv6.wire_bytes(1428), tagged.wire_bytes(1440));
}

#[test]
fn a_path_without_links_or_rate_is_refused() {
    assert!(IdlePath::new(vec![], framing(1460, 40, 38, 84)).is_err());
    let dead = Hop { rate: 0, delay: 0 };
    assert!(IdlePath::new(vec![TEN_GBIT, dead], framing(1460, 40, 38, 84)).is_err());
}

/// Packet by packet, link by link: each begins when it has arrived and the previous one has left.
fn simulate(links: &[Hop], framing: &Framing, bytes: u64) -> f64 {
    let mut free = vec![0.0_f64; links.len()];
    let mut left = bytes;
    loop {
        let payload = left.min(u64::from(framing.mss.get()));
        let mut arrival = 0.0;
        for (link, free) in links.iter().zip(&mut free) {
            let start = free.max(arrival);
            let wire = framing.wire_bytes(u32::try_from(payload).unwrap());
            *free = start + wire as f64 * 8e9 / link.rate as f64;
            arrival = *free + link.delay as f64;
        }
        left -= payload;
        if left == 0 {
            return arrival;
        }
    }
}

/// A diamond: packets are sprayed over two paths between the first link and the last one, in turn,
/// or with all short packets on the other path. Each link serves in the order of arrival.
fn sprayed(
    first: Hop,
    middle: [Hop; 2],
    last: Hop,
    framing: &Framing,
    bytes: u64,
    choice: u64,
) -> f64 {
    let mss = u64::from(framing.mss.get());
    let time = |link: &Hop, payload: u64| {
        framing.wire_bytes(u32::try_from(payload).unwrap()) as f64 * 8e9 / link.rate as f64
    };
    let (mut at_first, mut at_middle) = (0.0, [0.0_f64; 2]);
    let mut arrivals = Vec::new();
    for packet in 0..bytes.div_ceil(mss) {
        let payload = (bytes - packet * mss).min(mss);
        at_first += time(&first, payload);
        let way = (choice >> (packet % 64) & 1) as usize;
        let link = &middle[way];
        at_middle[way] = at_middle[way].max(at_first + first.delay as f64) + time(link, payload);
        arrivals.push((at_middle[way] + link.delay as f64, payload));
    }
    arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let done = arrivals.iter().fold(0.0_f64, |free, (at, payload)| {
        free.max(*at) + time(&last, *payload)
    });
    done + last.delay as f64
}

proptest! {
    #[test]
    fn no_spraying_beats_the_lower_bound(
        rates in prop::array::uniform4(1_u64..=1000),
        delays in prop::array::uniform4(0_u64..20_000),
        bytes in 1_u64..100_000,
        choice: u64,
    ) {
        let link = |n: usize| Hop { rate: rates[n] * 10_000_000, delay: delays[n] };
        let framing = framing(1460, 40, 38, 84);
        let paths = [1, 2].map(|way| IdlePath::new(vec![link(0), link(way), link(3)], framing).unwrap());
        let time = sprayed(link(0), [link(1), link(2)], link(3), &framing, bytes, choice);
        let least = lower_bound_ns(&paths, true, bytes).unwrap();
        prop_assert!(time >= least * (1.0 - 1e-12), "{} {}", time, least);
        prop_assert!(least <= best_ns(&paths, bytes).unwrap() * (1.0 + 1e-12));
        // If all packets take one path, the faster path is the best.
        let alone = [0, u64::MAX].map(|choice| sprayed(link(0), [link(1), link(2)], link(3), &framing, bytes, choice));
        let best = best_ns(&paths, bytes).unwrap();
        prop_assert!((best / alone[0].min(alone[1]) - 1.0).abs() < 1e-9);
    }
}

/// A full packet and a short one over equal links: the short one overtakes the full one, and saves
/// its time once.
#[test]
fn a_short_packet_that_overtakes_beats_the_best_path_and_not_the_lower_bound() {
    let framing = framing(1460, 40, 38, 84);
    let bytes = 1460 + 1;
    let path = IdlePath::new(vec![TEN_GBIT; 3], framing).unwrap();
    let time = sprayed(TEN_GBIT, [TEN_GBIT; 2], TEN_GBIT, &framing, bytes, 0b10);
    let paths = [path];
    assert!(time < best_ns(&paths, bytes).unwrap() - 1.0);
    assert!(time >= lower_bound_ns(&paths, true, bytes).unwrap());
    assert_eq!(lower_bound_ns(&paths, false, bytes), best_ns(&paths, bytes));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn the_closed_form_matches_the_simulation(
        links in prop::collection::vec((1_u64..=1000, 0_u64..100_000), 1..8),
        mss in 1_u32..3000,
        headers in 0_u32..100,
        minimum in 0_u32..200,
        bytes in 1_u64..200_000,
    ) {
        let links: Vec<Hop> =
            links.into_iter().map(|(rate, delay)| Hop { rate: rate * 10_000_000, delay }).collect();
        let bytes = bytes.min(u64::from(mss) * 300);
        let framing = framing(mss, headers, 14, minimum);
        let expected = simulate(&links, &framing, bytes);
        let best = IdlePath::new(links, framing).unwrap().best_ns(bytes);
        prop_assert!((best / expected - 1.0).abs() < 1e-9, "{} {}", best, expected);
    }
}
