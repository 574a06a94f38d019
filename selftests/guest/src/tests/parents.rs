// SPDX-License-Identifier: MIT OR Apache-2.0

//! Each qdisc under every kind of parent, as its table makes one; and `pfabric`, `bfc` and `wire`
//! where it is hard for them: what they drop from inside must reach the parents' accounts, and what
//! they hold back must not stop the parents for good.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use weft_mechanisms::bfc::options::Options;
use weft_mechanisms::common::mechanism;
use weft_mechanisms::wire::options as wire;

use crate::model::Packet;
use crate::netlink::{Handle, Qdisc};
use crate::packets::MIN_FRAME;
use crate::pause::{Neighbour, bitmap};
use crate::port::{INDEX, Port, is_empty, limit, rate, threshold};
use crate::random::Random;
use crate::tree::{
    DRR, ETS, HFSC, HTB, Make, NETEM, QFQ, RED, SFB, TAPRIO, TREES, TREES_OF_THE_STOCK_KERNEL, Tree,
};
use weft_ktap::{Context, tests};

tests![
    every_qdisc_under_every_parent,
    #[stock]
    every_qdisc_under_parents_of_the_stock_kernel,
    large_packets_do_not_stall_a_parent,
    #[stock]
    large_packets_do_not_stall_a_parent_of_the_stock_kernel,
    #[stock]
    taprio_keeps_counting_packets_that_a_stock_child_refused,
    eviction_by_a_packet_that_tbf_segments_does_not_stall_an_hfsc_class,
    eviction_under_a_qfq_that_peeks_does_not_stall_an_hfsc_class,
    pfabric_as_root,
    pfabric_under_wire,
    pfabric_under_tbf,
    pfabric_under_htb,
    pfabric_under_hfsc,
    pfabric_under_tbf_under_hfsc,
    pfabric_under_prio_under_tbf,
    pfabric_under_drr_under_tbf,
    pfabric_under_qfq_under_tbf,
    pfabric_under_ets_under_tbf,
    pfabric_under_netem_under_tbf,
    pfabric_under_red_under_tbf,
    #[stock]
    pfabric_under_sfb_under_tbf,
    pfabric_under_prio_under_wire,
    pfabric_under_drr_under_wire,
    pfabric_under_qfq_under_wire,
    pfabric_under_htb_under_wire,
    pfabric_under_wire_under_mq,
    bfc_as_root,
    bfc_under_wire,
    bfc_under_tbf,
    bfc_under_htb,
    bfc_under_hfsc,
    bfc_under_prio_under_tbf,
    bfc_under_drr_under_tbf,
    bfc_under_qfq_under_tbf,
    #[exact = "a burst must arrive faster than its port sends"]
    bfc_under_prio_under_wire,
    bfc_under_mq,
    wire_under_tbf,
    wire_under_htb,
    wire_under_hfsc,
    wire_under_prio,
    wire_under_drr,
    wire_under_qfq,
    wire_under_mq,
    wire_under_wire,
];

/// Tests that make the same check with one qdisc in several trees.
macro_rules! under {
    ($check:ident: $($name:ident => $tree:expr;)+) => {$(
        fn $name(cx: &Context) -> Result<()> {
            $check(cx, $tree)
        }
    )+};
}

/// Sends bursts with pauses, more in each than a short queue takes. Returns how many packets were
/// sent and which arrived.
fn bursts(port: &mut Port, seed: u64) -> Result<(u64, Vec<u64>)> {
    const ROUNDS: u32 = 6;
    const BURST: u32 = 60;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    let mut random = Random::new(seed);
    let mut id = 0;
    for round in 0..ROUNDS {
        for _ in 0..BURST {
            let packet = Packet {
                id,
                rank: random.below(8),
                flow: random.below(16),
                len: random.between(MIN_FRAME, 1514),
            };
            sender.send(&packet)?;
            id += 1;
            if random.one_in(10) {
                std::thread::sleep(Duration::from_micros(u64::from(random.below(3000))));
            }
        }
        // Every other round meets an empty tree: classes must become active again.
        if round % 2 == 0 {
            port.drain(Duration::from_secs(60))?;
        }
    }
    let qdiscs = port.drain(Duration::from_secs(60))?;
    ensure_empty(&qdiscs)?;
    // A qdisc that holds nothing has sent it: it is at the far end already.
    Ok((
        id,
        receiver
            .arrivals()?
            .iter()
            .map(|arrival| arrival.id)
            .collect(),
    ))
}

fn ensure_empty(qdiscs: &[Qdisc]) -> Result<()> {
    for qdisc in qdiscs {
        ensure!(is_empty(qdisc), "not empty after the end: {qdisc:?}");
    }
    Ok(())
}

/// Puts a qdisc of a kind, as its table makes one, at each leaf; returns their handles.
fn populate(tree: &mut Tree, qdisc: &mechanism::Qdisc) -> Result<Vec<Handle>> {
    tree.populate(|port, leaf, handle| {
        let place = match leaf {
            Handle::ROOT => "root".to_owned(),
            leaf => format!("parent {leaf:?}"),
        };
        let mechanism::Qdisc { kind, example, .. } = qdisc;
        let words = format!("qdisc add dev {{v}} {place} handle {handle:?} {kind} {example}");
        port.tc(&words).map(drop)
    })
}

fn every_qdisc_under_every_parent(cx: &Context) -> Result<()> {
    every_qdisc_under(&TREES, cx)
}

fn every_qdisc_under_parents_of_the_stock_kernel(cx: &Context) -> Result<()> {
    every_qdisc_under(&TREES_OF_THE_STOCK_KERNEL, cx)
}

/// What was sent arrives or is counted as dropped, and nothing is left.
fn every_qdisc_under(trees: &[(&str, Make)], cx: &Context) -> Result<()> {
    // What htb, drr and qfq say of one that holds packets back for their time.
    cx.expect_kernel_message("non-work-conserving");
    for qdisc in weft_mechanisms::QDISCS {
        let (mut all, mut lost) = (0, 0);
        for (parent, make) in trees {
            let name = || format!("{} under {parent}", qdisc.kind);
            let mut tree = make().with_context(name)?;
            let handles = populate(&mut tree, qdisc).with_context(name)?;
            let (sent, arrived) = bursts(&mut tree.port, 2).with_context(name)?;
            let mut dropped = 0;
            for handle in handles {
                dropped += u64::from(tree.port.find(handle)?.drops);
            }
            let delivered = arrived.len() as u64;
            ensure!(
                delivered > 0 && delivered + dropped == sent,
                "{}: {delivered} arrived, {dropped} dropped of {sent}",
                name()
            );
            all += sent;
            lost += dropped;
        }
        cx.note(format!("{}: {all} sent, {lost} dropped", qdisc.kind));
    }
    Ok(())
}

fn large_packets_do_not_stall_a_parent(cx: &Context) -> Result<()> {
    large_packets_under(&TREES, cx)
}

fn large_packets_do_not_stall_a_parent_of_the_stock_kernel(cx: &Context) -> Result<()> {
    large_packets_under(&TREES_OF_THE_STOCK_KERNEL, cx)
}

/// Sends packets that are to be cut into segments (GSO), some by tbf, among others. Nothing is
/// left, and each class still passes packets on.
fn large_packets_under(trees: &[(&str, Make)], cx: &Context) -> Result<()> {
    cx.expect_kernel_message("non-work-conserving");
    for qdisc in weft_mechanisms::QDISCS {
        for (parent, make) in trees {
            let name = || format!("{} under {parent}", qdisc.kind);
            let mut tree = make().with_context(name)?;
            populate(&mut tree, qdisc).with_context(name)?;
            let port = &mut tree.port;
            let mut sender = port.sender()?;
            let mut random = Random::new(5);
            for round in 0..40 {
                let large = random.one_in(3);
                let packet = Packet {
                    id: round,
                    rank: random.below(8),
                    flow: random.below(16),
                    len: match large {
                        true => random.between(2000, 12_000),
                        false => random.between(MIN_FRAME, 1514),
                    },
                };
                match large {
                    true => sender.send_gso(&packet, 700),
                    false => sender.send(&packet),
                }
                .with_context(name)?;
                if random.one_in(10) {
                    std::thread::sleep(Duration::from_millis(u64::from(random.below(20))));
                }
            }
            let qdiscs = port.drain(Duration::from_secs(60)).with_context(name)?;
            ensure_empty(&qdiscs).with_context(name)?;
            let receiver = port.receiver()?;
            for flow in 0..2 {
                let id = flow.into();
                sender.send(&Packet {
                    id,
                    rank: 0,
                    flow,
                    len: 500,
                })?;
            }
            port.drain(Duration::from_secs(60)).with_context(name)?;
            let mut ids: Vec<u64> = receiver.arrivals()?.iter().map(|it| it.id).collect();
            ids.sort_unstable();
            ensure!(ids == [0, 1], "{}: of 0 and 1 came {ids:?}", name());
        }
    }
    Ok(())
}

/// Why [`is_empty`] does not ask taprio.
fn taprio_keeps_counting_packets_that_a_stock_child_refused(_: &Context) -> Result<()> {
    let mut tree = Tree::of_queues(TAPRIO)?;
    tree.populate(|port, leaf, handle| {
        let words = format!("qdisc add dev {{v}} parent {leaf:?} handle {handle:?} pfifo limit 1");
        port.tc(&words).map(drop)
    })?;
    bursts(&mut tree.port, 3)?;
    let (root, children): (Vec<_>, Vec<_>) = tree
        .port
        .qdiscs()?
        .into_iter()
        .partition(|qdisc| qdisc.kind == "taprio");
    let refused: u32 = children.iter().map(|child| child.drops).sum();
    let [root] = root.as_slice() else {
        anyhow::bail!("{root:?}");
    };
    ensure!(
        refused > 0 && root.qlen == refused,
        "{refused} were refused: {root:?}"
    );
    Ok(())
}

/// One class of an hfsc, which is not real-time: it is asked for packets as long as it is active.
fn hfsc_with_one_class() -> Result<Port> {
    let port = Port::new()?;
    port.tc("qdisc add dev {v} root handle 1: hfsc default 1")?;
    port.tc("class add dev {v} parent 1: classid 1:1 hfsc ls rate 4mbit ul rate 4mbit")?;
    Ok(port)
}

/// hfsc stops a class whose qdisc counts no packet, and does not start it for one that is counted
/// later. tbf counts the segments of a packet once all are inside; meanwhile each evicts a packet
/// that was counted.
fn eviction_by_a_packet_that_tbf_segments_does_not_stall_an_hfsc_class(_: &Context) -> Result<()> {
    let mut port = hfsc_with_one_class()?;
    port.tc("qdisc add dev {v} parent 1:1 handle 2: tbf rate 1gbit burst 5kb limit 1000000")?;
    let handle = Handle::new(3, 0);
    port.add_pfabric(Handle::new(2, 1), handle, &limit(4))?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    let packet = |id, rank, len| Packet {
        id,
        rank,
        flow: 0,
        len,
    };
    // The first is on its way at once; those after it fill the queue.
    for id in 0..8 {
        sender.send(&packet(id, 10, 1000))?;
    }
    // tbf says that a packet was dropped of whose segments it counts none, be they inside.
    for id in 8..11 {
        sender.send_gso(&packet(id, 1, 42 + 6 * 1400), 1400)?;
    }
    let (_, stats) = port.pfabric(handle)?;
    ensure!(stats.evicted == 4, "{stats:?}");
    ensure_empty(&port.drain(Duration::from_secs(10))?)?;
    // And the class goes on.
    let before = receiver.arrivals()?.len();
    ensure!(sender.send(&packet(11, 0, 1000))?);
    ensure_empty(&port.drain(Duration::from_secs(10))?)?;
    let after = receiver.arrivals()?.len();
    ensure!(
        before > 0 && after == 1,
        "{before} arrived, then {after} of 1"
    );
    Ok(())
}

/// qfq looks at its child's first packet before its parents count the one that arrives.
fn eviction_under_a_qfq_that_peeks_does_not_stall_an_hfsc_class(_: &Context) -> Result<()> {
    let mut port = hfsc_with_one_class()?;
    port.tc("qdisc add dev {v} parent 1:1 handle 2: prio")?;
    port.tc("filter add dev {v} parent 2: matchall flowid 2:1")?;
    port.tc("qdisc add dev {v} parent 2:1 handle 3: qfq")?;
    port.tc("class add dev {v} parent 3: classid 3:1 qfq weight 1 maxpkt 2048")?;
    port.tc("filter add dev {v} parent 3: matchall flowid 3:1")?;
    let handle = Handle::new(4, 0);
    port.add_pfabric(Handle::new(3, 1), handle, &limit(1))?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    for (id, rank) in (0..).zip([20, 10, 5, 4, 3]) {
        let packet = Packet {
            id,
            rank,
            flow: 0,
            len: 1000,
        };
        ensure!(sender.send(&packet)?, "packet {id} was dropped");
    }
    let (_, stats) = port.pfabric(handle)?;
    ensure!(stats.evicted == 3, "{stats:?}");
    ensure_empty(&port.drain(Duration::from_secs(10))?)?;
    let ids: Vec<u64> = receiver.arrivals()?.iter().map(|it| it.id).collect();
    ensure!(ids == [0, 4], "{ids:?} arrived");
    Ok(())
}

/// Overflows a `pfabric` at each leaf. What was sent arrives or is counted as dropped; nothing is
/// left anywhere.
fn overflow_pfabric(cx: &Context, tree: Tree) -> Result<()> {
    overflow_pfabric_of(5, cx, tree)
}

/// The same, of a limit in packets.
fn overflow_pfabric_of(most: u32, cx: &Context, mut tree: Tree) -> Result<()> {
    let handles =
        tree.populate(|port, leaf, handle| port.add_pfabric(leaf, handle, &limit(most)))?;
    let (sent, arrived) = bursts(&mut tree.port, 1)?;
    let (mut evicted, mut dropped) = (0, 0);
    for handle in handles {
        let (_, stats) = tree.port.pfabric(handle)?;
        ensure!(
            stats.highest_backlog == most,
            "{handle:?} was never full: {stats:?}"
        );
        ensure!(stats.evicted > 0, "{handle:?} evicted nothing: {stats:?}");
        let drops = tree.port.find(handle)?.drops;
        ensure!(
            u64::from(drops) == stats.evicted + stats.rejected,
            "{drops} drops, {stats:?}"
        );
        evicted += stats.evicted;
        dropped += stats.evicted + stats.rejected;
    }
    let delivered = arrived.len() as u64;
    ensure!(
        delivered + dropped == sent,
        "{delivered} arrived, {dropped} dropped of {sent}"
    );
    cx.note(format!(
        "{sent} sent, {delivered} arrived, {dropped} dropped, {evicted} by eviction"
    ));
    // Destroyed with a backlog.
    let mut sender = tree.port.sender()?;
    for flow in 0..20 {
        sender.send(&Packet {
            id: 0,
            rank: flow,
            flow,
            len: 1000,
        })?;
    }
    tree.port.tc("qdisc del dev {v} root").map(drop)
}

fn pfabric_as_root(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let handle = Handle::new(1, 0);
    port.add_pfabric(Handle::ROOT, handle, &limit(5))?;
    // The device takes packets as fast as they come: none waits, none is dropped.
    let (sent, arrived) = bursts(&mut port, 1)?;
    ensure!(
        arrived.iter().copied().eq(0..sent),
        "not all arrived in order: {arrived:?}"
    );
    let qdisc = port.find(handle)?;
    ensure!(
        u64::from(qdisc.sent_packets) == sent && qdisc.drops == 0,
        "{qdisc:?}"
    );
    Ok(())
}

under! {
    overflow_pfabric:
    pfabric_under_wire => Tree::wire()?;
    pfabric_under_tbf => Tree::tbf()?;
    pfabric_under_htb => Tree::root("htb", &HTB)?;
    pfabric_under_hfsc => Tree::root("hfsc", &HFSC)?;
    pfabric_under_prio_under_tbf => Tree::under_tbf("prio", &[])?;
    pfabric_under_drr_under_tbf => Tree::under_tbf("drr", &DRR)?;
    pfabric_under_qfq_under_tbf => Tree::under_tbf("qfq", &QFQ)?;
    pfabric_under_ets_under_tbf => Tree::under_tbf(ETS, &[])?;
    pfabric_under_netem_under_tbf => Tree::single_under_tbf(NETEM)?;
    pfabric_under_red_under_tbf => Tree::single_under_tbf(RED)?;
    pfabric_under_sfb_under_tbf => Tree::single_under_tbf(SFB)?;
    pfabric_under_prio_under_wire => Tree::under_wire("prio", &[])?;
    pfabric_under_drr_under_wire => Tree::under_wire("drr", &DRR)?;
    pfabric_under_qfq_under_wire => Tree::under_wire("qfq", &QFQ)?;
    pfabric_under_htb_under_wire => Tree::under_wire("htb", &HTB)?;
}

/// Where there is room for one packet, what arrives takes the place of all that is inside. hfsc
/// asks its class before that whether there is anything, and would have it stopped for good by an
/// account that goes to nothing before the packet is on it.
fn pfabric_under_tbf_under_hfsc(cx: &Context) -> Result<()> {
    overflow_pfabric_of(1, cx, Tree::tbf_under_hfsc()?)
}

fn pfabric_under_wire_under_mq(cx: &Context) -> Result<()> {
    let mut tree = Tree::mq()?;
    tree.raise(|port, leaf, handle| port.add_wire(leaf, handle, &rate(2_500_000)))?;
    let handles = tree.populate(|port, leaf, handle| port.add_pfabric(leaf, handle, &limit(5)))?;
    let (sent, arrived) = bursts(&mut tree.port, 1)?;
    let (mut dropped, mut queues) = (0, 0);
    for handle in handles {
        let (_, stats) = tree.port.pfabric(handle)?;
        dropped += stats.evicted + stats.rejected;
        queues += u32::from(stats.highest_backlog > 0);
    }
    let delivered = arrived.len() as u64;
    ensure!(
        delivered + dropped == sent,
        "{delivered} arrived, {dropped} dropped of {sent}"
    );
    ensure!(
        queues > 1 && dropped > 0,
        "{queues} queues were used, {dropped} packets dropped"
    );
    cx.note(format!(
        "{sent} sent, {delivered} arrived, {dropped} dropped, {queues} queues used"
    ));
    Ok(())
}

/// Sends through a `bfc` at each leaf, all queues of which are paused now and then. What was sent
/// arrives, in the order of its flow, or is counted as dropped; nothing is left anywhere. A quarter
/// are control packets, which overtake the data of their flow.
fn pause_bfc(cx: &Context, mut tree: Tree) -> Result<()> {
    // As of a wire, see below: all packets of a paused port are held back.
    cx.expect_kernel_message("non-work-conserving");
    cx.expect_kernel_message("isn't work conserving");
    let options = Options {
        limit: Some(30_000),
        queues: Some(16),
        control: Some(1),
        ..threshold(u32::MAX)
    };
    let handles = tree.populate(|port, leaf, handle| port.add_bfc(leaf, handle, &options))?;
    let receiver = tree.port.receiver()?;
    let mut sender = tree.port.sender()?;
    let mut far = Neighbour::new(&tree.port.far, INDEX, [2, 0, 0, 0, 0, 2])?;
    far.hold = 20_000;
    let mut random = Random::new(4);
    let mut flow_of = Vec::new();
    for _ in 0..6 {
        far.say(bitmap(1..1024))?;
        for _ in 0..80 {
            let (flow, rank) = (random.below(8), u32::from(random.one_in(4)));
            sender.send(&Packet {
                id: flow_of.len() as u64,
                rank,
                flow,
                len: random.between(MIN_FRAME, 1514),
            })?;
            flow_of.push((flow, rank));
        }
        // Paused, resumed or lapsed, and drained.
        std::thread::sleep(Duration::from_millis(u64::from(random.between(1, 30))));
        if random.one_in(2) {
            far.say(bitmap([]))?;
        }
        tree.port.drain(Duration::from_secs(60))?;
    }
    ensure_empty(&tree.port.qdiscs()?)?;
    let arrived: Vec<u64> = receiver.arrivals()?.iter().map(|it| it.id).collect();
    for flow in (0..8).flat_map(|flow| [(flow, 0), (flow, 1)]) {
        let of = arrived.iter().filter(|&&id| flow_of[id as usize] == flow);
        ensure!(of.is_sorted(), "flow and rank {flow:?} were reordered");
    }
    let (mut dropped, mut used) = (0, 0);
    for handle in handles {
        let stats = tree.port.bfc(handle)?;
        ensure!(stats.paused == 0 && stats.occupied == 0, "{stats:?}");
        ensure!(stats.bitmaps_received >= 6, "{stats:?}");
        let qdisc = tree.port.find(handle)?;
        let dropped_here = stats.dropped_limit + stats.dropped_control;
        ensure!(u64::from(qdisc.drops) == dropped_here, "{qdisc:?}");
        dropped += dropped_here;
        used += u32::from(stats.paused_ns > 0 && qdisc.sent_packets > 0);
    }
    let (sent, delivered) = (flow_of.len() as u64, arrived.len() as u64);
    ensure!(
        delivered + dropped == sent,
        "{delivered} arrived, {dropped} dropped of {sent}"
    );
    // mq spreads what two leaves cannot hold over four.
    ensure!(
        dropped > 0 || tree.leaves.len() > 2,
        "no leaf was ever full"
    );
    ensure!(
        tree.leaves.len() == 1 || used > 1,
        "only {used} leaf was used"
    );
    cx.note(format!(
        "{sent} sent, {delivered} arrived, {dropped} dropped"
    ));
    // Destroyed with a backlog, and paused.
    far.hold = 60_000_000;
    far.say(bitmap(1..1024))?;
    for flow in 0..20 {
        sender.send(&Packet {
            id: 0,
            rank: 0,
            flow,
            len: 1000,
        })?;
    }
    tree.port.tc("qdisc del dev {v} root").map(drop)
}

under! {
    pause_bfc:
    bfc_as_root => Tree::new(Port::new()?, &[Handle::ROOT]);
    bfc_under_wire => Tree::wire()?;
    bfc_under_tbf => Tree::tbf()?;
    bfc_under_htb => Tree::root("htb", &HTB)?;
    bfc_under_hfsc => Tree::root("hfsc", &HFSC)?;
    bfc_under_prio_under_tbf => Tree::under_tbf("prio", &[])?;
    bfc_under_drr_under_tbf => Tree::under_tbf("drr", &DRR)?;
    bfc_under_qfq_under_tbf => Tree::under_tbf("qfq", &QFQ)?;
    bfc_under_prio_under_wire => Tree::under_wire("prio", &[])?;
    bfc_under_mq => Tree::mq()?;
}

/// Sends through a `wire` at each leaf. Nothing is lost, and of one flow nothing is reordered.
fn delay_with_wire(cx: &Context, mut tree: Tree) -> Result<()> {
    // Their parents expect a packet whenever one is inside: a wire with all its packets in flight
    // has none, and they say so. It must do no harm.
    cx.expect_kernel_message("non-work-conserving");
    cx.expect_kernel_message("isn't work conserving");
    let options = wire::Options {
        delay: Some(3_000_000),
        ..rate(5_000_000)
    };
    let handles = tree.populate(|port, leaf, handle| port.add_wire(leaf, handle, &options))?;
    let receiver = tree.port.receiver()?;
    let mut sender = tree.port.sender()?;
    let mut random = Random::new(2);
    let mut flow_of = Vec::new();
    for _ in 0..300 {
        let flow = random.below(8);
        let len = random.between(MIN_FRAME, 1514);
        sender.send(&Packet {
            id: flow_of.len() as u64,
            rank: 0,
            flow,
            len,
        })?;
        flow_of.push(flow);
        if random.one_in(10) {
            std::thread::sleep(Duration::from_micros(u64::from(random.below(9000))));
        }
    }
    let qdiscs = tree.port.drain(Duration::from_secs(60))?;
    ensure_empty(&qdiscs)?;
    let arrived: Vec<u64> = receiver
        .arrivals()?
        .iter()
        .map(|arrival| arrival.id)
        .collect();
    ensure!(
        arrived.len() == flow_of.len(),
        "{} of {} arrived",
        arrived.len(),
        flow_of.len()
    );
    for flow in 0..8 {
        let ids = || arrived.iter().filter(|&&id| flow_of[id as usize] == flow);
        ensure!(
            ids().is_sorted(),
            "flow {flow} was reordered: {:?}",
            ids().collect::<Vec<_>>()
        );
    }
    let mut used = 0;
    for handle in handles {
        let (_, stats) = tree.port.wire(handle)?;
        ensure!(
            (stats.in_flight, stats.in_flight_bytes) == (0, 0),
            "{stats:?}"
        );
        used += u32::from(stats.late_count > 0);
    }
    ensure!(
        tree.leaves.len() == 1 || used > 1,
        "only {used} wire was used"
    );
    // Destroyed with packets queued and in flight.
    for flow in 0..20 {
        sender.send(&Packet {
            id: 0,
            rank: 0,
            flow,
            len: 1000,
        })?;
    }
    tree.port.tc("qdisc del dev {v} root").map(drop)
}

under! {
    delay_with_wire:
    wire_under_tbf => Tree::tbf()?;
    wire_under_htb => Tree::root("htb", &HTB)?;
    wire_under_hfsc => Tree::root("hfsc", &HFSC)?;
    wire_under_prio => Tree::root("prio", &[])?;
    wire_under_drr => Tree::root("drr", &DRR)?;
    wire_under_qfq => Tree::root("qfq", &QFQ)?;
    wire_under_mq => Tree::mq()?;
}

fn wire_under_wire(cx: &Context) -> Result<()> {
    let mut port = Port::new()?;
    port.add_wire(Handle::ROOT, Handle::new(1, 0), &rate(10_000_000))?;
    delay_with_wire(cx, Tree::new(port, &[Handle::new(1, 1)]))
}
