// SPDX-License-Identifier: MIT OR Apache-2.0

//! `int` on a port: what it measures, which packets it stamps, in which it leaves a record, and
//! what else changes in them.
//!
//! The link has 10 Mbit/s and the base round-trip time is 10 ms: 12,500 bytes. A packet of 1000
//! bytes takes 0.8 ms.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, tests};
use weft_mechanisms::common::records::{self, BLOCK, Change, Departure, HOPS, IPV4_SIZE, Records};
use weft_mechanisms::common::stamp::{
    FRACTION_BITS, MAX_CODE, ONE, Stamps, code_of, utilisation_of,
};
use weft_mechanisms::common::tag::{self, Tag};
use weft_mechanisms::int::stats::Stats;

use crate::model::Packet;
use crate::modules;
use crate::netlink::Handle;
use crate::packets::{Destination, Frame, frame_to};
use crate::port::{INDEX, Port};

tests![
    #[exact = "a burst is to come faster than its port sends"]
    a_burst_is_stamped_with_its_queue,
    a_larger_stamp_stays,
    a_packet_without_a_stamp_goes_as_it_came,
    an_ipv6_packet_is_stamped_too,
    #[exact = "a burst is to come faster than its port sends"]
    a_burst_records_its_queue_its_bytes_and_the_time,
    full_and_returning_packets_keep_their_records,
    #[exact = "a burst is to come faster than its port sends"]
    packets_that_are_deleted_do_not_stay_in_the_backlog,
    the_module_is_removed_after_all_that,
];

const LEN: u32 = 1000;
const INT: Handle = Handle::new(2, 0);
const ECHO: u16 = 77;

/// A wire with `int` and a queue of `limit` packets.
fn port(limit: u32) -> Result<Port> {
    let port = Port::new()?;
    for line in [
        "qdisc add dev {v} root handle 1: wire rate 10mbit".to_owned(),
        "qdisc add dev {v} parent 1: handle 2: int rate 10mbit rtt 10ms".to_owned(),
        format!("qdisc add dev {{v}} parent 2: handle 3: pfifo limit {limit}"),
    ] {
        port.tc(&line)?;
    }
    Ok(port)
}

fn stats(port: &mut Port) -> Result<Stats> {
    Stats::from_bytes(&port.find(INT)?.app).context("short statistics")
}

fn packet(id: u64) -> Packet {
    Packet {
        id,
        rank: 0,
        flow: 0,
        len: LEN,
    }
}

fn tagged(stamp: u16) -> Option<Tag> {
    let stamps = Stamps { stamp, echo: ECHO };
    Some(Tag {
        rank: stamps.to_rank(),
        upstream_queue: 0,
    })
}

/// The stamp of a packet, of which nothing else has changed.
fn stamp(frame: &Frame) -> Result<u16> {
    let tag = frame.tag().context("no tag")?;
    let stamps = Stamps::from_rank(tag.rank).context("no stamp")?;
    ensure!(
        stamps.echo == ECHO && tag.upstream_queue == 0 && frame.checksum_is_right(),
        "{tag:?}"
    );
    Ok(stamps.stamp)
}

/// Each packet is 0.08 of a bandwidth-delay product, and leaves 0.08 of a round-trip time after the
/// one before it.
fn a_burst_is_stamped_with_its_queue(cx: &Context) -> Result<()> {
    const PACKETS: u64 = 20;
    const PART: f64 = 0.08;
    let mut port = port(100)?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    for id in 0..PACKETS {
        ensure!(sender.send_to(&packet(id), &Destination::NOWHERE, tagged(0))?);
    }
    port.drain(Duration::from_secs(5))?;
    let frames = receiver.frames()?;
    ensure!(frames.len() as u64 == PACKETS, "{} arrived", frames.len());
    let (mut expected, mut found) = (0.0, Vec::new());
    for (number, frame) in frames.iter().enumerate() {
        ensure!(frame.id() == Some(number as u64), "out of order");
        // The first one finds an idle link and no queue.
        let queue = match number {
            0 => 0.0,
            _ => (PACKETS - 1) as f64 - number as f64,
        };
        let since = if number == 0 { 1.0 } else { PART };
        expected = (1.0 - since) * expected + since * queue * PART + PART;
        let utilisation = f64::from(utilisation_of(stamp(frame)?)) / f64::from(ONE);
        found.push((utilisation * 1e3).round());
        ensure!(
            (utilisation / expected - 1.0).abs() < 0.01,
            "packet {number}: {utilisation}, not {expected}"
        );
    }
    cx.note(format!("utilisations in thousandths: {found:?}"));
    let stats = stats(&mut port)?;
    ensure!(
        (stats.stamped, stats.kept, stats.untagged, stats.unwritable) == (PACKETS, 0, 0, 0),
        "{stats:?}"
    );
    let highest = found.iter().copied().fold(0.0, f64::max);
    ensure!(
        (f64::from(stats.highest_utilisation) / highest - 1.0).abs() < 0.01,
        "{stats:?}"
    );
    // Nothing is left of it after a round-trip time.
    ensure!(stats.utilisation < stats.highest_utilisation, "{stats:?}");
    std::thread::sleep(Duration::from_millis(20));
    let stats = self::stats(&mut port)?;
    ensure!(stats.utilisation == 0, "{stats:?}");
    Ok(())
}

fn a_larger_stamp_stays(_: &Context) -> Result<()> {
    let mut port = port(100)?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    let idle = code_of((0.08 * f64::from(ONE)) as u32);
    for (id, stamp) in [0, idle - 9, idle + 9, MAX_CODE].into_iter().enumerate() {
        ensure!(sender.send_to(&packet(id as u64), &Destination::NOWHERE, tagged(stamp))?);
        port.drain(Duration::from_secs(5))?;
        std::thread::sleep(Duration::from_millis(50));
    }
    let frames = receiver.frames()?;
    let stamps: Vec<u16> = frames.iter().map(stamp).collect::<Result<_>>()?;
    let near = |found: u16| found.abs_diff(idle) <= 1;
    ensure!(
        matches!(stamps[..], [a, b, c, d] if near(a) && near(b) && c == idle + 9 && d == MAX_CODE),
        "{stamps:?}, not {idle}"
    );
    let stats = stats(&mut port)?;
    ensure!((stats.stamped, stats.kept) == (2, 2), "{stats:?}");
    Ok(())
}

fn a_packet_without_a_stamp_goes_as_it_came(_: &Context) -> Result<()> {
    let mut port = port(100)?;
    let receiver = port.receiver()?;
    let sender = port.sender()?;
    let foreign = Tag {
        rank: 1 << (2 * weft_mechanisms::common::stamp::BITS),
        upstream_queue: 0,
    };
    let mut malformed = frame_to(&packet(2), &Destination::NOWHERE, tagged(0));
    // A reserved byte of the tag.
    malformed[14 + 20 + 2] = 1;
    let sent = [
        frame_to(&packet(0), &Destination::NOWHERE, None),
        frame_to(&packet(1), &Destination::NOWHERE, Some(foreign)),
        malformed,
    ];
    for frame in &sent {
        ensure!(sender.send_frame(frame)?);
    }
    port.drain(Duration::from_secs(5))?;
    let arrived = receiver.frames()?;
    ensure!(arrived.len() == sent.len(), "{} arrived", arrived.len());
    for (frame, sent) in arrived.iter().zip(&sent) {
        let bytes = frame.bytes();
        ensure!(bytes == &sent[..bytes.len()], "a packet has changed");
    }
    let stats = stats(&mut port)?;
    ensure!(
        (stats.stamped, stats.kept, stats.untagged) == (0, 0, 3),
        "{stats:?}"
    );
    Ok(())
}

fn an_ipv6_packet_is_stamped_too(_: &Context) -> Result<()> {
    let mut port = port(100)?;
    let receiver = crate::packets::Receiver::open_for(&port.far, libc::ETH_P_IPV6 as u16)?;
    let mut frame = Destination::NOWHERE.mac.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1]);
    frame.extend((libc::ETH_P_IPV6 as u16).to_be_bytes());
    // 8 bytes of tag, 12 of UDP.
    frame.extend([0x60, 0, 0, 0, 0, 20, tag::IPV6_DESTINATION_OPTIONS, 64]);
    frame.extend([0xfd; 32]);
    frame.extend(tagged(0).unwrap_or_default().to_ipv6(17));
    frame.extend([0, 1, 0, 9, 0, 12, 0, 0, 1, 2, 3, 4]);
    ensure!(port.sender()?.send_frame(&frame)?);
    port.drain(Duration::from_secs(5))?;
    let arrived = receiver.frames()?;
    ensure!(arrived.len() == 1, "{} arrived", arrived.len());
    let found = tag::find_in_packet(&arrived[0].bytes()[14..]);
    let found = found.ok().flatten().context("no tag")?;
    let stamps = Stamps::from_rank(found.rank).context("no stamp")?;
    // 74 bytes of 12,500.
    let expected = (74_u64 << FRACTION_BITS) / 12_500;
    ensure!(
        stamps.echo == ECHO && stamps.stamp.abs_diff(code_of(expected as u32)) <= 1,
        "{stamps:?}"
    );
    ensure!(stats(&mut port)?.stamped == 1);
    Ok(())
}

/// The frame of a packet with this block.
fn recording(id: u64, block: [u8; BLOCK]) -> Result<Vec<u8>> {
    let frame = frame_to(
        &Packet {
            len: LEN - IPV4_SIZE as u32,
            ..packet(id)
        },
        &Destination::NOWHERE,
        None,
    );
    let (ethernet, rest) = frame.split_at(14);
    let (header, rest) = rest.split_first_chunk().context("a short frame")?;
    let option = records::to_ipv4(block);
    let header = records::with_option(*header, &option).context("no room")?;
    Ok([ethernet, &header, &option, rest].concat())
}

/// The records of a packet with a right checksum.
fn found(frame: &Frame) -> Result<Records> {
    ensure!(frame.checksum_is_right(), "a wrong checksum");
    let packet = frame.bytes().get(14..).context("a short frame")?;
    let (at, _) = records::find(packet).context("no records")?;
    let block = packet.get(at..).and_then(<[u8]>::first_chunk);
    Ok(Records::from_block(block.context("a short block")?))
}

/// Each packet occupies the link for 0.8 ms, and the first one finds no queue.
fn a_burst_records_its_queue_its_bytes_and_the_time(cx: &Context) -> Result<()> {
    const PACKETS: u64 = 10;
    const NS: u64 = 800_000;
    let mut port = port(100)?;
    let receiver = port.receiver()?;
    let sender = port.sender()?;
    for id in 0..PACKETS {
        ensure!(sender.send_frame(&recording(id, [0; BLOCK])?)?);
    }
    port.drain(Duration::from_secs(5))?;
    let frames = receiver.frames()?;
    ensure!(frames.len() as u64 == PACKETS, "{} arrived", frames.len());
    let all: Vec<Records> = frames.iter().map(found).collect::<Result<_>>()?;
    // The unit of a round-trip time of 10 ms is 8.2 µs.
    let unit = 1_u64 << records::shift_for(10_000_000);
    for (pair, left) in all.windows(2).zip((0..PACKETS - 1).rev()) {
        let changes: Vec<Change> = pair[1].since(&pair[0], NS).collect();
        let [change] = changes[..] else {
            anyhow::bail!("{changes:?}");
        };
        cx.note(format!("{change:?}"));
        ensure!(
            change.interval.abs_diff(NS) <= unit
                && change.sent.abs_diff(NS) <= unit
                && change.queue.abs_diff(left * NS) <= unit,
            "{change:?} with {left} packets behind it"
        );
    }
    let stats = stats(&mut port)?;
    ensure!(
        (stats.recorded, stats.full, stats.returning, stats.untagged) == (PACKETS, 0, 0, 0),
        "{stats:?}"
    );
    Ok(())
}

fn full_and_returning_packets_keep_their_records(_: &Context) -> Result<()> {
    let mut port = port(100)?;
    let receiver = port.receiver()?;
    let sender = port.sender()?;
    let mut full = recording(0, [0; BLOCK])?;
    for link in 0..HOPS as u32 {
        let packet = full.get_mut(14..).context("a short frame")?;
        let block = records::find(packet).context("no records")?;
        let departure = Departure {
            queue: 1 << 20,
            sent: 1 << 30,
            time: 1 << 40,
        };
        ensure!(records::append(packet, block, link, 10_000_000, departure));
    }
    let mut returning = [7; BLOCK];
    returning[0] = 0x91;
    let returning = recording(1, returning)?;
    for frame in [&full, &returning] {
        ensure!(sender.send_frame(frame)?);
        port.drain(Duration::from_secs(5))?;
    }
    let frames = receiver.frames()?;
    let [first, second] = &frames[..] else {
        anyhow::bail!("{} arrived", frames.len());
    };
    // Only the number of links, the path's digest and the checksum have changed.
    let records = 14 + 20 + 4..14 + 20 + IPV4_SIZE;
    ensure!(found(first)?.head().hops() == HOPS && first.bytes()[36] >> 4 == 7);
    ensure!(first.bytes()[records.clone()] == full[records]);
    ensure!(second.bytes() == &returning[..second.bytes().len()]);
    let stats = stats(&mut port)?;
    ensure!(
        (stats.recorded, stats.full, stats.returning) == (0, 1, 1),
        "{stats:?}"
    );
    Ok(())
}

fn packets_that_are_deleted_do_not_stay_in_the_backlog(_: &Context) -> Result<()> {
    let mut port = port(10)?;
    let mut sender = port.sender()?;
    let mut refused = 0;
    for id in 0..20 {
        refused += u32::from(!sender.send_to(&packet(id), &Destination::NOWHERE, tagged(0))?);
    }
    // One is on the wire, and ten wait.
    ensure!(refused == 9, "{refused} refused");
    let int = port.find(INT)?;
    ensure!((int.qlen, int.backlog) == (10, 10 * LEN), "{int:?}");
    port.tc("qdisc replace dev {v} parent 2: handle 4: pfifo limit 5")?;
    let int = port.find(INT)?;
    ensure!((int.qlen, int.backlog) == (0, 0), "{int:?}");
    port.tc("qdisc change dev {v} parent 1: handle 2: int rate 5mbit")?;
    port.drain(Duration::from_secs(5))?;
    port.netlink.delete_qdisc(INDEX, Handle::ROOT)
}

fn the_module_is_removed_after_all_that(_: &Context) -> Result<()> {
    modules::remove_when_unused("sch_int")
}
