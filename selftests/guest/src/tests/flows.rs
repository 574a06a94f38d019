// SPDX-License-Identifier: MIT OR Apache-2.0

//! One 5-tuple is one flow to `pfabric` and `bfc`, whatever the packet looks like in memory.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use weft_mechanisms::common::tag::Tag;

use crate::model::Packet;
use crate::netlink::Handle;
use crate::packets::{Destination, Receiver, Sender, frame, frame_to};
use crate::port::{Port, limit, rate, threshold};
use weft_ktap::{Context, tests};

tests![
    #[exact = "a burst must arrive faster than its port sends"]
    a_packet_with_fragmented_headers_belongs_to_its_flow,
    #[exact = "a burst must arrive faster than its port sends"]
    a_tagged_packet_with_fragmented_headers_belongs_to_its_flow,
    #[exact = "a burst must arrive faster than its port sends"]
    bfc_queues_a_packet_with_fragmented_headers_with_its_flow,
    a_hash_computed_by_software_does_not_change_the_flow,
];

const PFABRIC: Handle = Handle::new(2, 0);
const BFC: Handle = Handle::new(2, 0);
/// More than a page: a packet socket puts the rest of the packet into pages of its own.
const LARGE: u32 = 5_000;
const SMALL: u32 = 500;
/// A frame of [`LARGE`] bytes takes 4 ms.
const RATE: u64 = 10_000_000;

/// A link for large frames.
fn port() -> Result<Port> {
    let port = Port::new()?;
    port.near.ip("link set v0 mtu 9000")?;
    port.far.ip("link set v0 mtu 9000")?;
    Ok(port)
}

fn packet(id: u64, flow: u32, rank: u32, len: u32) -> Packet {
    Packet {
        id,
        rank,
        flow,
        len,
    }
}

/// Keeps the wire busy with a packet of another flow, numbered 0.
fn busy(sender: &mut Sender) -> Result<()> {
    ensure!(sender.send(&packet(0, 7, 0, LARGE))?, "dropped");
    Ok(())
}

/// The numbers of the packets that arrive, in order.
fn order(receiver: &Receiver, count: usize) -> Result<Vec<u64>> {
    let arrivals = receiver.expect(count, Duration::from_millis(30))?;
    Ok(arrivals.iter().map(|arrival| arrival.id).collect())
}

/// Sends a large packet, of which the first `linear` bytes are in one piece, and a small and more
/// urgent one of its flow: both are of one flow, and leave in order.
fn ensure_one_flow(linear: u16, tag: Option<Tag>) -> Result<()> {
    let mut port = port()?;
    port.add_wire_and_pfabric(&rate(RATE), &limit(100))?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    busy(&mut sender)?;
    let large = frame_to(&packet(1, 1, 9, LARGE), &Destination::NOWHERE, tag);
    sender.set_rank(9)?;
    ensure!(sender.send_in_pieces(&large, linear)?, "dropped");
    ensure!(sender.send(&packet(2, 1, 1, SMALL))?, "dropped");
    let (_, stats) = port.pfabric(PFABRIC)?;
    ensure!(stats.flows == 1, "{} flows wait", stats.flows);
    let order = order(&receiver, 3)?;
    ensure!(order == [0, 1, 2], "reordered: {order:?}");
    let (_, stats) = port.pfabric(PFABRIC)?;
    ensure!(stats.overtaken == 1, "{stats:?}");
    Ok(())
}

fn a_packet_with_fragmented_headers_belongs_to_its_flow(_: &Context) -> Result<()> {
    // Nothing but the Ethernet header, which there must be; a part of the IPv4 header, all of it;
    // of the ports one, both; all headers; all of the packet.
    for linear in [14, 24, 34, 36, 38, 42, LARGE as u16] {
        ensure_one_flow(linear, None).with_context(|| format!("{linear} bytes in one piece"))?;
    }
    Ok(())
}

fn a_tagged_packet_with_fragmented_headers_belongs_to_its_flow(_: &Context) -> Result<()> {
    let tag = Tag {
        rank: 5,
        upstream_queue: 9,
    };
    for linear in [14, 34, 42, 46, LARGE as u16] {
        ensure_one_flow(linear, Some(tag))
            .with_context(|| format!("{linear} bytes in one piece"))?;
    }
    Ok(())
}

fn bfc_queues_a_packet_with_fragmented_headers_with_its_flow(_: &Context) -> Result<()> {
    for linear in [14, 34, 36, LARGE as u16] {
        let mut port = port()?;
        port.add_wire_and_bfc(&rate(RATE), &threshold(u32::MAX))?;
        let receiver = port.receiver()?;
        let mut sender = port.sender()?;
        busy(&mut sender)?;
        ensure!(
            sender.send_in_pieces(&frame(&packet(1, 1, 0, LARGE)), linear)?,
            "dropped"
        );
        ensure!(sender.send(&packet(2, 1, 0, SMALL))?, "dropped");
        let stats = port.bfc(BFC)?;
        ensure!(
            stats.occupied == 1,
            "{linear} bytes in one piece: {} queues are occupied",
            stats.occupied
        );
        let order = order(&receiver, 3)?;
        ensure!(order == [0, 1, 2], "reordered: {order:?}");
    }
    Ok(())
}

/// A filter may compute the hash of some packets of a flow, as steering of received packets and
/// devices of several queues do of all that they see.
fn a_hash_computed_by_software_does_not_change_the_flow(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    port.tc("qdisc add dev {v} clsact")?;
    // Only for those of 200 bytes of IP.
    port.tc(
        "filter add dev {v} egress protocol ip prio 1 u32 match u16 200 0xffff at 2 \
         action goto chain 1",
    )?;
    port.tc(
        "filter add dev {v} egress chain 1 protocol ip prio 1 handle 1 flow hash keys rxhash \
         divisor 1024",
    )?;
    port.add_wire_and_pfabric(&rate(1_000_000), &limit(100))?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    // 500 bytes take 4 ms.
    ensure!(sender.send(&packet(0, 7, 0, 500))?, "dropped");
    ensure!(sender.send(&packet(1, 1, 9, 214))?, "dropped");
    ensure!(sender.send(&packet(2, 1, 1, 100))?, "dropped");
    let (_, stats) = port.pfabric(PFABRIC)?;
    ensure!(stats.flows == 1, "{} flows wait", stats.flows);
    let order = order(&receiver, 3)?;
    ensure!(order == [0, 1, 2], "reordered: {order:?}");
    Ok(())
}
