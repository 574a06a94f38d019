// SPDX-License-Identifier: MIT OR Apache-2.0

//! A `wire` is exact: its rate, its delay, its order.
//!
//! Times are those at which the far end's kernel received a packet, so they include what the
//! processor needs for the way to the qdisc and from there through the device. That way without a
//! wire is measured, too, and taken off.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use weft_mechanisms::wire::options::{self as wire, Options};

use crate::clock;
use crate::model::Packet;
use crate::netlink::{Handle, Nest, Verb};
use crate::network::Network;
use crate::packets::Arrival;
use crate::port::{INDEX, Port, QUIET, rate};
use crate::random::Random;
use weft_ktap::{Context, tests};

tests![
    throughput_is_the_rate_for_64_to_1500_byte_mixes,
    a_packet_takes_its_length_at_the_rate,
    a_packet_also_takes_the_delay,
    overhead_counts_for_every_packet,
    a_packet_counts_as_mpu_bytes_at_least,
    overhead_and_mpu_count_for_every_frame_of_a_gso_packet,
    packets_in_flight_do_not_delay_those_behind_them,
    a_packet_behind_a_forwarded_burst_does_not_begin_before_it_arrived,
    packets_that_the_limit_holds_wait_in_the_queue_until_there_is_room,
    a_shorter_delay_overtakes_no_packet_in_flight,
    a_new_rate_applies_from_the_next_packet,
    an_idle_wire_accumulates_no_credit,
    lateness_is_counted_for_every_delivery,
    busy_time_is_the_time_spent_serializing,
];

pub(super) const WIRE: Handle = Handle::new(1, 0);
pub(super) const NS: u64 = 1_000_000_000;
/// More than any lateness here.
const MARGIN: u64 = 10_000_000;

/// What "exact" means here, in ns.
const TOLERANCE: u64 = 2_000;
/// How late a packet may be, in ns, that met something else the kernel had to do.
pub(super) const DISTURBED: u64 = 50_000;

/// Checks errors in ns. One packet in fifty, or one at least, may have met a tick of the kernel's
/// own clock, which takes as long as what is measured here; it spoils the gaps on both its sides.
/// Returns the greatest error of the others.
pub(super) fn judge(errors: impl IntoIterator<Item = u64>) -> Result<u64> {
    let mut errors: Vec<u64> = errors.into_iter().collect();
    errors.sort_unstable();
    // Of a few, none may be spoilt.
    let spoilt = if errors.len() < 8 {
        0
    } else {
        (errors.len() / 25).max(2)
    };
    let disturbed = errors.split_off(errors.len() - spoilt);
    let worst = errors.last().copied().context("nothing was measured")?;
    ensure!(
        worst <= TOLERANCE,
        "{worst} ns off, others {disturbed:?} ns"
    );
    ensure!(
        disturbed.iter().all(|&error| error <= DISTURBED),
        "{disturbed:?} ns off"
    );
    Ok(worst)
}

/// Time in ns that `bytes` take at `rate` bytes/s.
pub(super) fn time(bytes: u64, rate: u64) -> u64 {
    bytes * NS / rate
}

/// A port with a wire and room for any number of packets behind it.
pub(super) fn wire(options: &Options) -> Result<Port> {
    let mut port = Port::new()?;
    put_wire(&mut port, options)?;
    Ok(port)
}

/// Makes that of a port that has no qdisc.
fn put_wire(port: &mut Port, options: &Options) -> Result<()> {
    port.add_wire(Handle::ROOT, WIRE, options)?;
    port.tc("qdisc add dev {v} parent 1:1 handle 2: pfifo limit 100000")?;
    std::thread::sleep(QUIET);
    Ok(())
}

fn take_away(port: &mut Port) -> Result<()> {
    port.netlink.delete_qdisc(INDEX, Handle::ROOT)
}

/// Time for `ns`, and some more.
pub(super) fn after(ns: u64) -> Duration {
    Duration::from_nanos(ns + MARGIN)
}

pub(super) fn change(port: &mut Port, options: &Options) -> Result<()> {
    let payload = Nest::of(|nest| options.put(nest));
    port.qdisc(Verb::Change, "wire", Handle::ROOT, WIRE, payload)
}

pub(super) fn packet(id: u64, len: u32) -> Packet {
    Packet {
        id,
        rank: 0,
        flow: 0,
        len,
    }
}

pub(super) fn ensure_in_order(arrivals: &[Arrival]) -> Result<()> {
    let in_order = arrivals
        .iter()
        .zip(0..)
        .all(|(arrival, id)| arrival.id == id);
    ensure!(in_order, "reordered: {arrivals:?}");
    Ok(())
}

/// How long [`fill`] keeps them waiting at most, in ns.
pub(super) const FILL: u64 = 120_000_000;

/// Puts packets into the queue behind an idle wire before the first of them is through: the wire
/// is slow until all are there. Their numbers are 1 and up; 0 is the one that keeps them waiting.
pub(super) fn fill(port: &mut Port, lens: &[u32], options: &Options) -> Result<()> {
    change(port, &rate(100_000))?;
    let mut sender = port.sender()?;
    sender.send(&packet(0, 1500))?;
    for (id, &len) in (1..).zip(lens) {
        sender.send(&packet(id, len))?;
    }
    let waiting = port.find(Handle::new(2, 0))?.qlen as usize;
    ensure!(
        waiting == lens.len(),
        "only {waiting} of {} packets are waiting",
        lens.len()
    );
    change(port, options)
}

fn throughput_is_the_rate_for_64_to_1500_byte_mixes(cx: &Context) -> Result<()> {
    // As many as take 50 ms: against that, what the last one is late is little.
    const COUNT: usize = 1000;
    const TIME: u64 = 50_000_000;
    // An even mix, the shortest with the longest, the internet's (7:4:1), the shortest.
    let even: Vec<u32> = (64..=1500).collect();
    let simple = [vec![64; 7], vec![576; 4], vec![1500]].concat();
    let mixes: [(&str, &[u32]); 4] = [
        ("64..1500", &even),
        ("64|1500", &[64, 1500]),
        ("64|576|1500", &simple),
        ("64", &[64]),
    ];
    let mut port = Port::new()?;
    let receiver = port.receiver()?;
    for bits in [1_000_000, 10_000_000, 100_000_000_u64] {
        for (seed, (name, lens)) in (0..).zip(mixes) {
            put_wire(&mut port, &rate(bits))?;
            let mut random = Random::new(seed);
            let mut bytes = 0;
            let mut all = Vec::new();
            while all.len() < COUNT || time(bytes, bits / 8) < TIME {
                all.push(random.choose(lens));
                bytes += u64::from(all[all.len() - 1]);
            }
            let lens = all;
            fill(&mut port, &lens, &rate(bits))?;
            let arrivals = receiver.expect(lens.len() + 1, after(FILL + time(bytes, bits / 8)))?;
            ensure_in_order(&arrivals)?;
            let (first, last) = (arrivals[0].time, arrivals[lens.len()].time);
            let measured = (bytes * 8 * NS) as f64 / (last - first) as f64;
            let error = measured / bits as f64 - 1.0;
            cx.note(format!(
                "{bits:>9} bit/s, {name:<11} bytes: error {:+.4} %",
                error * 100.0
            ));
            ensure!(error.abs() < 0.001, "{measured} bit/s instead of {bits}");
            take_away(&mut port)?;
        }
    }
    Ok(())
}

/// Sends packets one by one, each when the qdisc is empty. Each is to arrive after the time that
/// `law` gives for its length. Returns the times from the qdisc's entrance to the far end, in ns.
fn transits(port: &mut Port, law: impl Fn(u64) -> u64) -> Result<Vec<u64>> {
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    sender.stamp_departures()?;
    let mut transits = Vec::new();
    for (id, len) in (0..).zip(LENS) {
        sender.send(&packet(id, len))?;
        stay_awake(after(law(len.into())));
        let arrival = receiver.expect(1, Duration::ZERO)?[0];
        let departure = sender.departure()?;
        ensure!(arrival.id == id && arrival.len == len, "{arrival:?}");
        transits.push(
            arrival
                .time
                .checked_sub(departure)
                .context("arrived before it departed")?,
        );
    }
    Ok(transits)
}

/// Sleeps, but never long. A processor that slept through ticks of the kernel's clock makes up for
/// them, before anything else, at the next interrupt: 5 µs after 100 ms. One that has traffic to
/// carry does not sleep so long.
pub(super) fn stay_awake(time: Duration) {
    const NAP: Duration = Duration::from_micros(3700);
    let mut left = time;
    while !left.is_zero() {
        std::thread::sleep(left.min(NAP));
        left = left.saturating_sub(NAP);
    }
}

/// The way without a wire, in ns: the least of several.
fn way_to_the_device(port: &mut Port) -> Result<u64> {
    clock::require_exact()?;
    port.tc("qdisc add dev {v} root handle 2: pfifo limit 1000")?;
    let way = transits(port, |_| 0)?
        .into_iter()
        .min()
        .context("nothing was sent")?;
    take_away(port)?;
    Ok(way)
}

/// Checks that packets pass a wire as its law says; returns the greatest error in ns.
fn ensure_exact(
    port: &mut Port,
    options: &Options,
    way: u64,
    law: impl Fn(u64) -> u64,
) -> Result<u64> {
    put_wire(port, options)?;
    let measured = transits(port, &law)?;
    take_away(port)?;
    let expected: Vec<u64> = LENS.iter().map(|&len| law(len.into()) + way).collect();
    let pairs = || measured.iter().zip(&expected);
    let early = pairs().any(|(measured, expected)| measured < expected);
    ensure!(
        !early,
        "earlier than the law: {measured:?} ns, not {expected:?}"
    );
    judge(pairs().map(|(measured, expected)| measured - expected))
        .with_context(|| format!("{measured:?} ns, not {expected:?}"))
}

pub(super) const LENS: [u32; 12] = [64, 1500, 65, 1499, 100, 1000, 777, 64, 1514, 333, 555, 1200];

fn a_packet_takes_its_length_at_the_rate(cx: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let way = way_to_the_device(&mut port)?;
    cx.note(format!("the way without a wire takes {way} ns"));
    // At 1 Gbit/s, a short packet takes less time than the processor needs to send it.
    for bits in [100_000, 1_000_000, 10_000_000, 100_000_000] {
        let error = ensure_exact(&mut port, &rate(bits), way, |len| time(len, bits / 8))?;
        cx.note(format!("{bits} bit/s: error {error} ns at most"));
    }
    Ok(())
}

fn a_packet_also_takes_the_delay(cx: &Context) -> Result<()> {
    const RATE: u64 = 10_000_000;
    let mut port = Port::new()?;
    let way = way_to_the_device(&mut port)?;
    for delay in [1, 1_000, 50_000, 200_000, 10_000_000, NS, 10 * NS] {
        let options = Options {
            delay: Some(delay),
            ..rate(RATE)
        };
        let error = ensure_exact(&mut port, &options, way, |len| time(len, RATE / 8) + delay)?;
        cx.note(format!("delay {delay} ns: error {error} ns at most"));
    }
    Ok(())
}

/// Sends packets back to back; returns the times between their arrivals.
fn gaps(options: &Options, lens: &[u32]) -> Result<Vec<u64>> {
    clock::require_exact()?;
    let port = wire(options)?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    for (id, &len) in (0..).zip(lens) {
        sender.send(&packet(id, len))?;
    }
    // At 8 Mbit/s, no packet takes more than 3 ms.
    let arrivals = receiver.expect(lens.len(), after(3_000_000 * lens.len() as u64))?;
    ensure_in_order(&arrivals)?;
    Ok(gaps_of(&arrivals))
}

pub(super) fn gaps_of(arrivals: &[Arrival]) -> Vec<u64> {
    arrivals
        .windows(2)
        .map(|pair| pair[1].time.saturating_sub(pair[0].time))
        .collect()
}

/// Checks gaps; returns the greatest error in ns.
pub(super) fn ensure_near(
    measured: &[u64],
    expected: impl IntoIterator<Item = u64>,
) -> Result<u64> {
    let expected: Vec<u64> = expected.into_iter().collect();
    ensure!(
        measured.len() == expected.len(),
        "{measured:?} ns, not {expected:?}"
    );
    judge(
        measured
            .iter()
            .zip(&expected)
            .map(|(measured, expected)| measured.abs_diff(*expected)),
    )
    .with_context(|| format!("{measured:?} ns, not {expected:?}"))
}

fn overhead_counts_for_every_packet(_: &Context) -> Result<()> {
    for overhead in [0, 24, 1000] {
        let options = Options {
            overhead: Some(overhead),
            ..rate(8_000_000)
        };
        let expected = LENS[1..]
            .iter()
            .map(|len| time(u64::from(len + overhead), 1_000_000));
        ensure_near(&gaps(&options, &LENS)?, expected)?;
    }
    Ok(())
}

fn a_packet_counts_as_mpu_bytes_at_least(_: &Context) -> Result<()> {
    for (overhead, mpu) in [(0, 84), (24, 84), (24, 2000)] {
        let options = Options {
            overhead: Some(overhead),
            mpu: Some(mpu),
            ..rate(8_000_000)
        };
        let bytes = |len| u64::from(mpu.max(len + overhead));
        let expected = LENS[1..].iter().map(|&len| time(bytes(len), 1_000_000));
        ensure_near(&gaps(&options, &LENS)?, expected)?;
    }
    Ok(())
}

fn overhead_and_mpu_count_for_every_frame_of_a_gso_packet(_: &Context) -> Result<()> {
    clock::require_exact()?;
    // A payload of 3000 bytes becomes 6 frames of 500, each with headers of 42 and an overhead of
    // 24; or, with the longer minimum, 6 times that.
    for (mpu, bytes) in [(0, 6 * (500 + 42 + 24)), (600, 6 * 600)] {
        let options = Options {
            overhead: Some(24),
            mpu: Some(mpu),
            ..rate(8_000_000)
        };
        let port = wire(&options)?;
        let receiver = port.receiver()?;
        let mut sender = port.sender()?;
        sender.send(&packet(0, 1500))?;
        // Enough that some may meet a tick.
        for id in 1..=8 {
            ensure!(sender.send_gso(&packet(id, 42 + 3000), 500)?, "dropped");
        }
        let arrivals = receiver.expect(9, after(9 * 6_000_000))?;
        ensure_near(&gaps_of(&arrivals), [time(bytes, 1_000_000); 8])?;
    }
    Ok(())
}

fn packets_in_flight_do_not_delay_those_behind_them(cx: &Context) -> Result<()> {
    clock::require_exact()?;
    // 10 ms of packets in flight, 125 bytes each 100 µs.
    let options = Options {
        delay: Some(10_000_000),
        ..rate(10_000_000)
    };
    let mut port = wire(&options)?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    for id in 0..1000 {
        sender.send(&packet(id, 125))?;
    }
    std::thread::sleep(Duration::from_millis(50));
    let (_, stats) = port.wire(WIRE)?;
    // Those whose serialization began are in flight: 100, and the one being serialized.
    ensure!(stats.in_flight.abs_diff(101) <= 2, "{stats:?}");
    ensure!(stats.in_flight_bytes == stats.in_flight * 125, "{stats:?}");
    let gaps = gaps_of(&receiver.expect(1000, after(100_000_000))?);
    let error = ensure_near(&gaps, gaps.iter().map(|_| 100_000))?;
    cx.note(format!("error {error} ns at most"));
    Ok(())
}

/// Forwarded packets have no socket that needs to know when they are sent: with a long delay, the
/// queue is seldom asked for them.
fn a_packet_behind_a_forwarded_burst_does_not_begin_before_it_arrived(cx: &Context) -> Result<()> {
    const BURST: u64 = 200;
    const DELAY: u64 = 100_000_000;
    // 125 bytes at 10 Mbit/s.
    const PACKET: u64 = 100_000;
    const DESTINATION: [u8; 4] = [10, 0, 0, 99];
    clock::require_exact()?;
    let mut network = Network::new(3)?;
    let (first, second) = (network.link(0, 1)?, network.link(1, 2)?);
    network.forward(1)?;
    network.route(1, &second, DESTINATION)?;
    let options = Options {
        delay: Some(DELAY),
        ..rate(10_000_000)
    };
    let options = Nest::of(|nest| options.put(nest));
    let place = (Handle::ROOT, WIRE);
    network.qdisc(Verb::Add, (1, &second), place, wire::KIND, options)?;
    std::thread::sleep(QUIET);
    let receiver = network.receiver(2)?;
    let mut sender = network.sender(0, &first)?;
    sender.stamp_departures()?;
    let to = first.destination(0, DESTINATION);
    let mut departures = Vec::new();
    for id in 0..=BURST {
        if id == BURST {
            // The burst has been sent for long, and none of it has arrived.
            stay_awake(Duration::from_millis(60));
        }
        sender.send_to(&packet(id, 125), &to, None)?;
        departures.push(sender.departure()?);
    }
    let arrivals = receiver.expect(BURST as usize + 1, after(BURST * PACKET + DELAY))?;
    ensure_in_order(&arrivals)?;
    // What the processor needs for the way to the wire and from there is in that of the first.
    let transits = [0, BURST as usize].map(|id| arrivals[id].time.checked_sub(departures[id]));
    let [Some(first), Some(last)] = transits else {
        anyhow::bail!("arrived before they departed: {transits:?} ns");
    };
    cx.note(format!("the first took {first} ns, the last {last} ns"));
    ensure!(
        (PACKET + DELAY..=PACKET + DELAY + 2 * DISTURBED).contains(&first),
        "the first took {first} ns"
    );
    ensure!(
        (PACKET + DELAY..=PACKET + DELAY + 2 * DISTURBED).contains(&last),
        "the last took {last} ns"
    );
    Ok(())
}

fn packets_that_the_limit_holds_wait_in_the_queue_until_there_is_room(_: &Context) -> Result<()> {
    clock::require_exact()?;
    // 125 bytes each 100 µs, and 8 of them at once: 8 each 10.1 ms.
    const DELAY: u64 = 10_000_000;
    const PACKET: u64 = 100_000;
    let options = Options {
        delay: Some(DELAY),
        limit: Some(1_000),
        ..rate(10_000_000)
    };
    let mut port = wire(&options)?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    for id in 0..24 {
        sender.send(&packet(id, 125))?;
    }
    std::thread::sleep(Duration::from_millis(5));
    let (_, stats) = port.wire(WIRE)?;
    ensure!(
        (
            stats.in_flight,
            stats.in_flight_bytes,
            stats.in_flight_limit
        ) == (8, 1_000, 1_000),
        "{stats:?}"
    );
    ensure!(stats.held == 1, "{stats:?}");
    let waiting = port.find(Handle::new(2, 0))?.qlen;
    ensure!(waiting == 16, "{waiting} packets wait");
    let arrivals = receiver.expect(24, after(3 * (DELAY + PACKET) + 8 * PACKET))?;
    ensure_in_order(&arrivals)?;
    let gap = |number| match number % 8 {
        0 => DELAY + PACKET - 7 * PACKET,
        _ => PACKET,
    };
    ensure_near(&gaps_of(&arrivals), (1..24).map(gap))?;
    // More room is used at once.
    for id in 0..24 {
        sender.send(&packet(id, 125))?;
    }
    std::thread::sleep(Duration::from_millis(5));
    let more = Options {
        limit: Some(0),
        ..Options::default()
    };
    change(&mut port, &more)?;
    std::thread::sleep(Duration::from_millis(3));
    let (_, stats) = port.wire(WIRE)?;
    ensure!(stats.in_flight == 24, "{stats:?}");
    receiver.expect(24, after(DELAY + 24 * PACKET)).map(drop)
}

fn a_shorter_delay_overtakes_no_packet_in_flight(_: &Context) -> Result<()> {
    clock::require_exact()?;
    let options = Options {
        delay: Some(500_000_000),
        ..rate(8_000_000)
    };
    let mut port = wire(&options)?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    for id in 0..5 {
        sender.send(&packet(id, 1000))?;
    }
    std::thread::sleep(Duration::from_millis(100));
    change(
        &mut port,
        &Options {
            delay: Some(1_000),
            ..Options::default()
        },
    )?;
    for id in 5..10 {
        sender.send(&packet(id, 1000))?;
    }
    // They leave 1 ms after one another, and arrive with the last that has the long delay.
    std::thread::sleep(Duration::from_millis(100));
    ensure!(
        receiver.arrivals()?.is_empty(),
        "a packet overtook those in flight"
    );
    let arrivals = receiver.expect(10, after(500_000_000))?;
    ensure_in_order(&arrivals)?;
    let last = arrivals[4].time;
    ensure!(
        arrivals[9].time - last < 100_000,
        "later than those they waited for: {arrivals:?}"
    );
    // What is sent from now on has the short delay.
    sender.send(&packet(0, 1000))?;
    sender.send(&packet(1, 1000))?;
    ensure_near(
        &gaps_of(&receiver.expect(2, after(2_000_000))?),
        [1_000_000],
    )
    .map(drop)
}

fn a_new_rate_applies_from_the_next_packet(_: &Context) -> Result<()> {
    clock::require_exact()?;
    let mut port = wire(&rate(800_000))?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    for id in 0..6 {
        sender.send(&packet(id, 1000))?;
    }
    // In the middle of the third: 10 ms each.
    std::thread::sleep(Duration::from_millis(25));
    change(&mut port, &rate(8_000_000))?;
    let gaps = gaps_of(&receiver.expect(6, after(60_000_000))?);
    ensure_near(
        &gaps,
        [10_000_000, 10_000_000, 1_000_000, 1_000_000, 1_000_000],
    )
    .map(drop)
}

fn an_idle_wire_accumulates_no_credit(_: &Context) -> Result<()> {
    clock::require_exact()?;
    let port = wire(&rate(8_000_000))?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    for _ in 0..3 {
        for id in 0..4 {
            sender.send(&packet(id, 1000))?;
        }
        ensure_near(
            &gaps_of(&receiver.expect(4, after(4_000_000))?),
            [1_000_000; 3],
        )?;
        std::thread::sleep(Duration::from_millis(500));
    }
    Ok(())
}

fn lateness_is_counted_for_every_delivery(cx: &Context) -> Result<()> {
    const PACKETS: u64 = 500;
    let mut port = wire(&rate(10_000_000))?;
    let receiver = port.receiver()?;
    let options = Options {
        delay: Some(100_000),
        ..rate(10_000_000)
    };
    fill(&mut port, &[100; PACKETS as usize - 1], &options)?;
    receiver.expect(PACKETS as usize, after(FILL + PACKETS * 80_000))?;
    let (_, stats) = port.wire(WIRE)?;
    let counted: u64 = stats.late_histogram.iter().sum();
    ensure!(
        counted == PACKETS && stats.late_count == PACKETS,
        "{stats:?}"
    );
    // Bucket i holds 2^(i-1) <= ns < 2^i, so it bounds the sum from both sides.
    let low: u64 = (1..)
        .zip(&stats.late_histogram[1..])
        .map(|(i, n)| n << (i - 1))
        .sum();
    let high: u64 = (0..).zip(&stats.late_histogram).map(|(i, n)| n << i).sum();
    ensure!((low..=high).contains(&stats.late_sum_ns), "{stats:?}");
    let last = stats
        .late_histogram
        .iter()
        .rposition(|&n| n > 0)
        .unwrap_or(0);
    ensure!(
        stats
            .late_max_ns
            .checked_ilog2()
            .map_or(0, |log| log as usize + 1)
            == last,
        "{stats:?}"
    );
    cx.note(format!(
        "{} ns late on average, {} ns at most",
        stats.late_sum_ns / PACKETS,
        stats.late_max_ns
    ));
    clock::require_exact()?;
    // Buckets up to 11 are those below 2048 ns.
    let exact: u64 = stats.late_histogram[..12].iter().sum();
    ensure!(
        exact >= PACKETS - PACKETS / 50 && stats.late_max_ns <= DISTURBED,
        "{stats:?}"
    );
    Ok(())
}

fn busy_time_is_the_time_spent_serializing(_: &Context) -> Result<()> {
    let mut port = wire(&rate(10_000_000))?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    let (mut bytes, mut count) = (0, 0);
    for _ in 0..3 {
        for len in LENS {
            sender.send(&packet(count, len))?;
            bytes += u64::from(len);
            count += 1;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    receiver.expect(count as usize, Duration::ZERO)?;
    let (_, stats) = port.wire(WIRE)?;
    let expected = time(bytes, 10_000_000 / 8);
    // Less than a nanosecond is lost where the wire falls idle.
    ensure!(
        stats.busy_ns.abs_diff(expected) <= 3,
        "{} ns, not {expected}",
        stats.busy_ns
    );
    Ok(())
}
