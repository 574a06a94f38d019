// SPDX-License-Identifier: MIT OR Apache-2.0

//! Other qdiscs as the queue behind a `wire`, directly and below a `hold` that keeps nothing.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::clock;
use crate::model::Packet;
use crate::netlink::Handle;
use crate::network::Network;
use crate::packets::MIN_FRAME;
use crate::port::{Port, limit, rate};
use crate::random::Random;
use weft_ktap::{Context, tests};

tests![
    #[exact = "a burst must arrive faster than its port sends"]
    the_default_child_is_a_pfifo_as_long_as_the_devices_queue,
    pfifo_with_a_limit,
    bfifo_with_a_limit,
    pfifo_fast,
    prio,
    red,
    fq_codel,
    fq,
    tbf_slower_than_the_wire,
    netem_with_a_delay,
    duplicates_made_by_netem_are_dropped,
    skbprio,
    choke,
    ets,
    netem_above_a_pfabric,
    #[stock]
    sfb,
    a_new_child_drops_no_packet_whose_transmission_has_begun,
    a_smaller_limit_of_the_child_drops_no_packet_whose_transmission_has_begun,
];

const WIRE: Handle = Handle::new(1, 0);

/// The places of a child: its parent, its handle, and the qdisc between it and the wire, if any.
const PLACES: [(&str, &str, Option<&str>); 2] =
    [("1:1", "2:", None), ("2:1", "3:", Some("hold backlog 0"))];

/// Sends more than the child takes through a wire of 10 Mbit/s. What was sent arrives or is counted
/// as dropped by the wire, and nothing is left in any qdisc.
fn account(cx: &Context, child: &str, drops_expected: bool) -> Result<()> {
    account_of_lengths(cx, child, drops_expected, (MIN_FRAME, 1514))
}

fn account_of_lengths(
    cx: &Context,
    child: &str,
    drops_expected: bool,
    (shortest, longest): (u32, u32),
) -> Result<()> {
    const PACKETS: u64 = 400;
    for (parent, handle, between) in PLACES {
        let mut port = Port::new()?;
        port.add_wire(Handle::ROOT, WIRE, &rate(10_000_000))?;
        if let Some(between) = between {
            port.tc(&format!(
                "qdisc add dev {{v}} parent 1:1 handle 2: {between}"
            ))?;
        }
        port.tc(&format!(
            "qdisc add dev {{v}} parent {parent} handle {handle} {child}"
        ))?;
        let receiver = port.receiver()?;
        let mut sender = port.sender()?;
        let mut random = Random::new(3);
        for id in 0..PACKETS {
            let len = random.between(shortest, longest);
            sender.send(&Packet {
                id,
                rank: random.below(8),
                flow: random.below(8),
                len,
            })?;
            if random.one_in(20) {
                std::thread::sleep(Duration::from_millis(u64::from(random.below(10))));
            }
        }
        port.drain(Duration::from_secs(60))?;
        let arrived = receiver.arrivals()?.len() as u64;
        let wire = port.find(WIRE)?;
        let dropped = u64::from(wire.drops);
        let above = between.unwrap_or("wire");
        cx.note(format!(
            "below {above}: {PACKETS} sent, {arrived} arrived, {dropped} dropped"
        ));
        ensure!(
            arrived + dropped == PACKETS,
            "below {above}: {arrived} arrived, {dropped} dropped of {PACKETS}"
        );
        ensure!(
            (dropped > 0) == drops_expected,
            "below {above}: {dropped} were dropped"
        );
        ensure!(u64::from(wire.sent_packets) == arrived, "{wire:?}");
        let (_, stats) = port.wire(WIRE)?;
        ensure!(
            stats.late_count == arrived && stats.in_flight == 0,
            "below {above}: {stats:?}"
        );
        // Destroyed with a backlog.
        for flow in 0..20 {
            sender.send(&Packet {
                id: 0,
                rank: 0,
                flow,
                len: 1000,
            })?;
        }
        port.tc("qdisc del dev {v} root")?;
    }
    Ok(())
}

fn the_default_child_is_a_pfifo_as_long_as_the_devices_queue(_: &Context) -> Result<()> {
    // veth's transmit queue length.
    const LENGTH: u32 = 1000;
    let mut port = Port::new()?;
    port.add_wire(Handle::ROOT, WIRE, &rate(1_000_000))?;
    let child = port
        .qdiscs()?
        .into_iter()
        .find(|qdisc| qdisc.parent == Handle::new(1, 1).0);
    ensure!(
        child.as_ref().is_some_and(|child| child.kind == "pfifo"),
        "the child is {child:?}"
    );
    let mut sender = port.sender()?;
    // One passes to the wire at once.
    for id in 0..u64::from(LENGTH) + 11 {
        let taken = sender.send(&Packet {
            id,
            rank: 0,
            flow: 0,
            len: 1514,
        })?;
        ensure!(
            taken == (id <= LENGTH.into()),
            "packet {id} was taken: {taken}"
        );
    }
    let wire = port.find(WIRE)?;
    ensure!(wire.qlen == LENGTH + 1 && wire.drops == 10, "{wire:?}");
    Ok(())
}

fn pfifo_with_a_limit(cx: &Context) -> Result<()> {
    account(cx, "pfifo limit 10", true)
}

fn bfifo_with_a_limit(cx: &Context) -> Result<()> {
    account(cx, "bfifo limit 10000", true)
}

fn pfifo_fast(cx: &Context) -> Result<()> {
    account(cx, "pfifo_fast", false)
}

fn prio(cx: &Context) -> Result<()> {
    account(cx, "prio", false)
}

fn red(cx: &Context) -> Result<()> {
    account(
        cx,
        "red limit 20000 min 3000 max 9000 avpkt 1000 burst 5 bandwidth 10mbit",
        true,
    )
}

fn fq_codel(cx: &Context) -> Result<()> {
    account(cx, "fq_codel limit 10 flows 4", true)
}

fn fq(cx: &Context) -> Result<()> {
    account(cx, "fq limit 10", true)
}

fn tbf_slower_than_the_wire(cx: &Context) -> Result<()> {
    account(cx, "tbf rate 5mbit burst 1600 limit 1000000", false)
}

fn netem_with_a_delay(cx: &Context) -> Result<()> {
    account(cx, "netem delay 3ms limit 1000", false)
}

fn skbprio(cx: &Context) -> Result<()> {
    // When skbprio drops a packet for another, it answers NET_XMIT_CN whatever their lengths are:
    // its parents' bytes are right only if all packets are of one length.
    account_of_lengths(cx, "skbprio limit 10", true, (1000, 1000))
}

fn choke(cx: &Context) -> Result<()> {
    let options = "limit 30 min 5 max 15 avpkt 1000 burst 6 bandwidth 10mbit";
    account(cx, &format!("choke {options}"), true)
}

fn ets(cx: &Context) -> Result<()> {
    account(cx, "ets bands 3 strict 1 quanta 1514 3028", false)
}

fn sfb(cx: &Context) -> Result<()> {
    account(cx, "sfb limit 50 max 20 target 10", true)
}

/// What the `pfabric` drops is counted by both above it, of what netem has taken before.
fn netem_above_a_pfabric(cx: &Context) -> Result<()> {
    const PACKETS: u64 = 300;
    let mut port = Port::new()?;
    port.add_wire(Handle::ROOT, WIRE, &rate(10_000_000))?;
    port.tc("qdisc add dev {v} parent 1:1 handle 2: netem delay 1ms limit 1000")?;
    port.add_pfabric(Handle::new(2, 1), Handle::new(3, 0), &limit(5))?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    let mut random = Random::new(6);
    for id in 0..PACKETS {
        sender.send(&Packet {
            id,
            rank: random.below(8),
            flow: random.below(8),
            len: random.between(MIN_FRAME, 1514),
        })?;
        if random.one_in(30) {
            std::thread::sleep(Duration::from_millis(u64::from(random.below(10))));
        }
    }
    port.drain(Duration::from_secs(60))?;
    let (_, stats) = port.pfabric(Handle::new(3, 0))?;
    let arrived = receiver.arrivals()?.len() as u64;
    let dropped = stats.evicted + stats.rejected;
    cx.note(format!("{PACKETS} sent, {arrived} arrived, {stats:?}"));
    ensure!(stats.evicted > 0, "{stats:?}");
    ensure!(
        arrived + dropped == PACKETS,
        "{arrived} arrived, {dropped} dropped of {PACKETS}"
    );
    Ok(())
}

/// Ten packets that a router forwards, each of 100 ms on a wire of 10 s, which no timer looks at
/// until the first arrives. After 550 ms six have begun, and the child is changed. The numbers of
/// those that arrive.
fn arrive_after(change: &str) -> Result<Vec<u64>> {
    const TO: [u8; 4] = [10, 9, 0, 2];
    let mut network = Network::new(3)?;
    let (near, far) = (network.link(0, 1)?, network.link(1, 2)?);
    network.forward(1)?;
    network.route(1, &far, TO)?;
    let name = far.name();
    let wire = format!("qdisc add dev {name} root handle 1: wire rate 80kbit delay 10s");
    network.tc(1, &wire)?;
    let child = format!("qdisc add dev {name} parent 1:1 handle 2: pfabric limit 100");
    network.tc(1, &child)?;
    let receiver = network.receiver(2)?;
    let mut sender = network.sender(0, &near)?;
    let start = clock::monotonic();
    for id in 0..10 {
        let packet = Packet {
            id,
            rank: 0,
            flow: 0,
            len: 1000,
        };
        ensure!(sender.send_to(&packet, &near.destination(0, TO), None)?);
    }
    clock::sleep_until(start + 550_000_000)?;
    network.tc(1, &change.replace("{v}", &name))?;
    std::thread::sleep(Duration::from_secs(12));
    Ok(receiver.arrivals()?.iter().map(|it| it.id).collect())
}

fn a_new_child_drops_no_packet_whose_transmission_has_begun(_: &Context) -> Result<()> {
    let arrived = arrive_after("qdisc replace dev {v} parent 1:1 handle 3: pfifo limit 9")?;
    ensure!(arrived.iter().copied().eq(0..6), "{arrived:?}");
    Ok(())
}

fn a_smaller_limit_of_the_child_drops_no_packet_whose_transmission_has_begun(
    _: &Context,
) -> Result<()> {
    let arrived = arrive_after("qdisc change dev {v} parent 1:1 handle 2: pfabric limit 1")?;
    ensure!(arrived.iter().copied().eq(0..7), "{arrived:?}");
    Ok(())
}

/// netem gives a duplicate to the tree's root, the wire, which is just giving it the packet.
fn duplicates_made_by_netem_are_dropped(cx: &Context) -> Result<()> {
    const PACKETS: u64 = 200;
    // A wire withholds packets, which htb remarks upon.
    cx.expect_kernel_message("non-work-conserving");
    for above in ["", "htb default 1"] {
        let mut port = Port::new()?;
        let parent = match above {
            "" => "root",
            htb => {
                port.tc(&format!("qdisc add dev {{v}} root handle 9: {htb}"))?;
                port.tc("class add dev {v} parent 9: classid 9:1 htb rate 1gbit quantum 1514")?;
                "parent 9:1"
            }
        };
        port.tc(&format!(
            "qdisc add dev {{v}} {parent} handle 1: wire rate 10mbit"
        ))?;
        port.tc("qdisc add dev {v} parent 1:1 handle 2: netem duplicate 50% limit 1000")?;
        let receiver = port.receiver()?;
        let mut sender = port.sender()?;
        for id in 0..PACKETS {
            let packet = Packet {
                id,
                rank: 0,
                flow: 0,
                len: 500,
            };
            ensure!(sender.send(&packet)?, "packet {id} was dropped");
        }
        port.drain(Duration::from_secs(60))?;
        let ids: Vec<u64> = receiver.arrivals()?.iter().map(|it| it.id).collect();
        ensure!(ids.iter().copied().eq(0..PACKETS), "{ids:?}");
        let wire = port.find(WIRE)?;
        cx.note(format!("{above}: {} duplicates", wire.drops));
        ensure!((50..150).contains(&wire.drops), "{wire:?}");
        ensure!(wire.qlen == 0 && wire.backlog == 0, "{wire:?}");
    }
    Ok(())
}
