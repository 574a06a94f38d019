// SPDX-License-Identifier: MIT OR Apache-2.0

//! One port with `bfc`: where packets go, in which order they leave and with which tag, and whom
//! it obeys.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, tests};
use weft_mechanisms::bfc::frame::{Frame, GROUP, Message};
use weft_mechanisms::bfc::options::{
    ALPHA_OFF, Assign, MAX_ENTRIES, MAX_FACTOR, MAX_HOLD, Options, Scheduler,
};
use weft_mechanisms::bfc::stats::QueueStats;
use weft_mechanisms::common::tag::{self, Tag};

use crate::model::Packet;
use crate::netlink::Handle;
use crate::packets::{Destination, Receiver, frame, frame_to};
use crate::pause::{Listener, Neighbour, bitmap, encoded, ethernet};
use crate::port::{INDEX, Port, rate, threshold};

tests![
    each_packet_is_marked_with_the_queue_in_which_it_waits,
    queue_numbers_above_255_take_bits_from_the_rank,
    an_ipv6_tag_is_rewritten_too,
    a_packet_without_a_tag_is_forwarded_unchanged,
    packets_that_are_not_ip_are_forwarded_unchanged,
    flows_share_the_wire_fairly_with_packets_of_any_length,
    srf_sends_the_queue_whose_first_packet_has_the_lowest_rank,
    #[exact = "a burst must arrive faster than its port sends"]
    a_lower_class_waits_for_a_higher_one,
    incast_packets_share_a_queue,
    #[exact = "a burst must arrive faster than its port sends"]
    stochastic_and_single_assignment_collide,
    #[exact = "a burst must arrive faster than its port sends"]
    fragments_and_other_protocols_have_flows_too,
    #[exact = "a burst must arrive faster than its port sends"]
    drops_are_counted_by_cause,
    a_change_keeps_queued_packets,
    a_paused_queue_waits_and_the_others_go_on,
    #[exact = "judges when a pause ends"]
    a_pause_lapses_when_it_is_not_refreshed,
    an_idle_port_knows_what_is_paused_and_for_how_long,
    after_the_highest_sequence_number_a_neighbour_is_accepted_again_when_its_hold_time_has_passed,
    no_frame_is_obeyed_for_longer_than_the_ports_limit,
    #[exact = "judges when a pause ends"]
    a_queue_that_is_paused_endlessly_is_released,
    a_bitmap_sets_the_state_of_all_queues,
    forged_replayed_and_foreign_frames_are_ignored_and_counted,
    a_link_that_goes_down_forgets_its_neighbour,
    frames_on_a_port_without_bfc_are_ignored,
    #[exact = "a burst must arrive faster than its port sends"]
    control_frames_overtake_data,
    #[exact = "a burst must arrive faster than its port sends"]
    a_flood_of_control_frames_is_dropped,
    control_packets_go_first_and_are_never_paused,
    #[exact = "a burst must arrive faster than its port sends"]
    a_flood_of_control_packets_leaves_room_for_pauses,
    queues_are_shown_as_classes,
];

const BFC: Handle = Handle::new(2, 0);
const FAR: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// A packet of 1000 bytes takes 0.8 ms.
const MBIT10: u64 = 10_000_000;
const LONG: Duration = Duration::from_secs(2);

/// A port whose queue is never congested. Its flow table is as large as can be, as flows that share
/// an entry by their hashes, which differ from boot to boot, share a queue: two flows of 25 do so
/// in 1 % of all boots, in 9 % with the default. Its neighbour, who is a test, may say things once.
fn calm() -> Options {
    Options {
        factor: Some(MAX_FACTOR),
        hold: Some(MAX_HOLD),
        ..threshold(u32::MAX)
    }
}

/// The same with a number of queues.
fn calm_with(queues: u32) -> Options {
    Options {
        queues: Some(queues),
        factor: Some(MAX_FACTOR.min(MAX_ENTRIES / queues)),
        ..calm()
    }
}

fn port(options: &Options) -> Result<Port> {
    let mut port = Port::new()?;
    port.add_wire_and_bfc(&rate(MBIT10), options)?;
    Ok(port)
}

fn packet(id: u64, flow: u32) -> Packet {
    Packet {
        id,
        rank: 0,
        flow,
        len: 1000,
    }
}

fn tagged(rank: u32) -> Option<Tag> {
    Some(Tag {
        rank,
        upstream_queue: 7,
    })
}

/// Which flow each of the arrived packets is of: `flow_of` by their numbers.
fn flows(receiver: &Receiver, flow_of: &[u32]) -> Result<Vec<u32>> {
    let arrivals = receiver.arrivals()?;
    let all = arrivals
        .iter()
        .map(|arrival| flow_of.get(arrival.id as usize).copied());
    all.map(|flow| flow.context("an unknown packet")).collect()
}

fn each_packet_is_marked_with_the_queue_in_which_it_waits(_: &Context) -> Result<()> {
    let port = port(&Options {
        queues: Some(64),
        sticky: Some(1_000_000_000),
        ..calm()
    })?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    for id in 0..20 {
        let packet = packet(id, id as u32 % 5);
        ensure!(sender.send_to(&packet, &Destination::NOWHERE, tagged(9))?);
    }
    std::thread::sleep(LONG);
    let mut queues = BTreeMap::new();
    let frames = receiver.frames()?;
    ensure!(frames.len() == 20, "{} arrived", frames.len());
    for frame in frames {
        ensure!(frame.checksum_is_right(), "{:02x?}", frame.bytes());
        let id = frame.id().context("not a crafted packet")?;
        let tag = frame.tag().context("no tag")?;
        ensure!(
            tag.rank == 9 && (1..=63).contains(&tag.upstream_queue),
            "{tag:?}"
        );
        let queue = *queues.entry(id % 5).or_insert(tag.upstream_queue);
        ensure!(queue == tag.upstream_queue, "a flow changed its queue");
    }
    let different: BTreeSet<u16> = queues.values().copied().collect();
    ensure!(different.len() == 5, "flows share queues: {queues:?}");
    Ok(())
}

fn queue_numbers_above_255_take_bits_from_the_rank(_: &Context) -> Result<()> {
    const RANK: u32 = (1 << 24) + 12_345;
    let port = port(&calm_with(1024))?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    for id in 0..400 {
        let packet = Packet {
            len: 0,
            ..packet(id, id as u32)
        };
        sender.send_to(&packet, &Destination::NOWHERE, tagged(RANK))?;
    }
    std::thread::sleep(LONG);
    let mut queues = BTreeSet::new();
    for frame in receiver.frames()? {
        ensure!(frame.checksum_is_right());
        let found = frame.tag().context("no tag")?;
        // The tag came in the layout for small numbers.
        let came = tagged(RANK).unwrap_or_default().on_the_wire();
        let expected = Tag {
            upstream_queue: found.upstream_queue,
            ..came
        };
        ensure!(found == expected.on_the_wire(), "{found:?}");
        queues.insert(found.upstream_queue);
    }
    ensure!(queues.last() > Some(&380), "{queues:?}");
    Ok(())
}

fn an_ipv6_tag_is_rewritten_too(_: &Context) -> Result<()> {
    let port = port(&calm())?;
    let receiver = Receiver::open_for(&port.far, libc::ETH_P_IPV6 as u16)?;
    let mut frame = Vec::from(Destination::NOWHERE.mac);
    frame.extend([2, 0, 0, 0, 0, 1, 0x86, 0xdd]);
    // 8 bytes of tag, 12 of UDP.
    frame.extend([0x60, 0, 0, 0, 0, 20, tag::IPV6_DESTINATION_OPTIONS, 64]);
    frame.extend([0xfd; 32]);
    frame.extend(tagged(9).unwrap_or_default().to_ipv6(17));
    frame.extend([0, 1, 0, 2, 0, 12, 0, 0, 1, 2, 3, 4]);
    port.sender()?.send_frame(&frame)?;
    std::thread::sleep(LONG);
    let arrived = receiver.frames()?;
    ensure!(arrived.len() == 1);
    let found = tag::find_in_packet(&arrived[0].bytes()[14..]);
    let expected = Tag {
        rank: 9,
        upstream_queue: 1,
    };
    ensure!(found == Ok(Some(expected)), "{found:?}");
    frame[14 + 40..14 + 48].copy_from_slice(&expected.to_ipv6(17));
    ensure!(arrived[0].bytes() == frame, "more has changed");
    Ok(())
}

fn a_packet_without_a_tag_is_forwarded_unchanged(_: &Context) -> Result<()> {
    let port = port(&calm())?;
    let receiver = port.receiver()?;
    let sender = port.sender()?;
    let mut malformed = frame_to(&packet(1, 1), &Destination::NOWHERE, tagged(9));
    // A reserved byte of the tag.
    malformed[14 + 20 + 3] = 1;
    let frames = [frame(&packet(0, 0)), malformed];
    for frame in &frames {
        sender.send_frame(frame)?;
    }
    std::thread::sleep(LONG);
    let arrived = receiver.frames()?;
    ensure!(arrived.len() == 2);
    for (arrived, sent) in arrived.iter().zip(frames) {
        ensure!(
            sent.starts_with(arrived.bytes()),
            "{:02x?}",
            arrived.bytes()
        );
    }
    Ok(())
}

fn packets_that_are_not_ip_are_forwarded_unchanged(_: &Context) -> Result<()> {
    // The second EtherType for local experiments, and IP of the other version.
    const EXPERIMENT: u16 = 0x88b6;
    let ipv4 = frame_to(&packet(1, 1), &Destination::NOWHERE, tagged(9));
    let mut ipv6 = ipv4[..14].to_vec();
    ipv6.extend([0x60, 0, 0, 0, 0, 20, tag::IPV6_DESTINATION_OPTIONS, 64]);
    ipv6.extend([0xfd; 32]);
    ipv6.extend(tagged(9).unwrap_or_default().to_ipv6(17));
    ipv6.extend([0, 1, 0, 2, 0, 12, 0, 0, 1, 2, 3, 4]);
    for (like, ethertype) in [
        (&ipv4, EXPERIMENT),
        (&ipv6, EXPERIMENT),
        (&ipv4, libc::ETH_P_IPV6 as u16),
        (&ipv6, libc::ETH_P_IP as u16),
    ] {
        let port = port(&calm())?;
        let receiver = Receiver::open_for(&port.far, ethertype)?;
        let mut frame = like.clone();
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        port.sender()?.send_frame(&frame)?;
        std::thread::sleep(LONG);
        let arrived = receiver.frames()?;
        ensure!(arrived.len() == 1, "{ethertype:04x}: {}", arrived.len());
        ensure!(
            arrived[0].bytes() == &frame[..arrived[0].bytes().len()],
            "{ethertype:04x}: rewritten to {:02x?}",
            arrived[0].bytes()
        );
    }
    Ok(())
}

fn flows_share_the_wire_fairly_with_packets_of_any_length(_: &Context) -> Result<()> {
    let port = port(&calm())?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    let lengths = [100, 500, 1500];
    let mut flow_of = Vec::new();
    for round in 0..150 {
        for (flow, &len) in (0..).zip(&lengths) {
            // As many bytes of each.
            if round % (len / 100) == 0 {
                let id = flow_of.len() as u64;
                sender.send(&Packet {
                    len,
                    ..packet(id, flow)
                })?;
                flow_of.push(flow);
            }
        }
    }
    std::thread::sleep(LONG);
    let mut bytes = [0_u32; 3];
    let arrived = flows(&receiver, &flow_of)?;
    ensure!(arrived.len() == flow_of.len());
    // The first one was alone when it came.
    for &flow in &arrived[1..] {
        bytes[flow as usize] += lengths[flow as usize];
        let (least, most) = (bytes.iter().min(), bytes.iter().max());
        let apart = most.zip(least).map_or(0, |(most, least)| most - least);
        if bytes.iter().all(|bytes| *bytes < 13_000) {
            ensure!(apart <= 2 * 1514, "{bytes:?}");
        }
    }
    Ok(())
}

fn srf_sends_the_queue_whose_first_packet_has_the_lowest_rank(_: &Context) -> Result<()> {
    let port = port(&Options {
        scheduler: Some(Scheduler::Srf),
        ..calm()
    })?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    // Flow and rank; the first one is on the wire at once.
    let sent = [
        (9, 0),
        (1, 9000),
        (1, 8000),
        (2, 2000),
        (2, 1000),
        (3, 5000),
        (3, 500),
    ];
    for (id, &(flow, rank)) in (0..).zip(&sent) {
        sender.send(&Packet {
            rank,
            ..packet(id, flow)
        })?;
    }
    let arrivals = receiver.expect(sent.len(), LONG)?;
    let order: Vec<u64> = arrivals.iter().map(|arrival| arrival.id).collect();
    ensure!(order == [0, 3, 4, 5, 6, 1, 2], "{order:?}");
    Ok(())
}

fn a_lower_class_waits_for_a_higher_one(_: &Context) -> Result<()> {
    let port = port(&Options {
        classes: Some(4),
        ..calm()
    })?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    sender.send(&packet(0, 0))?;
    let mut expected = vec![(0, 0)];
    for id in 1..41 {
        let rank = [3, 1, 7, 0, 2][id as usize % 5];
        sender.send(&Packet {
            rank,
            ..packet(id, 10 + rank)
        })?;
        expected.push((rank.min(3), id));
    }
    let arrivals = receiver.expect(41, LONG)?;
    let class = |id: u64| expected[id as usize].0;
    let classes: Vec<u32> = arrivals[1..]
        .iter()
        .map(|arrival| class(arrival.id))
        .collect();
    ensure!(classes.is_sorted(), "{classes:?}");
    Ok(())
}

fn incast_packets_share_a_queue(_: &Context) -> Result<()> {
    let port = port(&Options {
        queues: Some(9),
        incast: Some(5),
        ..calm()
    })?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    for id in 0..24 {
        let rank = if id % 2 == 0 { 5 } else { 0 };
        let packet = Packet {
            rank,
            ..packet(id, id as u32 % 14)
        };
        sender.send_to(&packet, &Destination::NOWHERE, tagged(0))?;
    }
    std::thread::sleep(LONG);
    let mut others = BTreeSet::new();
    for frame in receiver.frames()? {
        let queue = frame.tag().context("no tag")?.upstream_queue;
        let id = frame.id().context("not a crafted packet")?;
        if id % 2 == 0 {
            ensure!(queue == 8, "packet {id} was in queue {queue}");
        } else {
            ensure!(queue != 8, "packet {id} was in the incast queue");
            others.insert(queue);
        }
    }
    // Seven flows, of which two may share an entry of the flow table.
    ensure!(others.len() >= 6, "{others:?}");
    Ok(())
}

fn stochastic_and_single_assignment_collide(cx: &Context) -> Result<()> {
    for assign in [Assign::Dynamic, Assign::Stochastic, Assign::Single] {
        let mut port = port(&Options {
            assign: Some(assign),
            ..calm()
        })?;
        let mut sender = port.sender()?;
        for id in 0..25 {
            sender.send(&packet(id, id as u32))?;
        }
        let stats = port.bfc(BFC)?;
        cx.note(format!("{assign:?}: {} collisions", stats.collisions));
        // Flows that share an entry of the flow table are one flow to it.
        ensure!((23..=25).contains(&stats.activations), "{stats:?}");
        let expected = match assign {
            Assign::Dynamic => 0..=0,
            Assign::Stochastic => 1..=stats.activations,
            // The first packet is on the wire already, and the second one finds the queue empty.
            Assign::Single => stats.activations - 2..=stats.activations - 2,
        };
        ensure!(
            expected.contains(&stats.collisions),
            "{assign:?}: {stats:?}"
        );
    }
    Ok(())
}

/// What the flow dissector is asked for.
fn fragments_and_other_protocols_have_flows_too(_: &Context) -> Result<()> {
    const GRE: u8 = 47;
    const SCTP: u8 = 132;
    let mut port = port(&calm())?;
    let sender = port.sender()?;
    // On the wire at once; the others wait.
    sender.send_frame(&frame(&packet(0, 0)))?;
    let send = |protocol: u8, source: u8, fragment: [u8; 2], udp_source: u32| {
        let mut frame = frame(&packet(1, udp_source));
        frame[14 + 6..14 + 8].copy_from_slice(&fragment);
        frame[14 + 9] = protocol;
        frame[14 + 15] = source;
        sender.send_frame(&frame)
    };
    // Flow by flow: their addresses and protocols differ.
    for (protocol, source) in [(GRE, 1), (GRE, 2), (SCTP, 1), (SCTP, 2)] {
        for _ in 0..2 {
            send(protocol, source, [0x40, 0], 0)?;
        }
    }
    ensure!(port.bfc(BFC)?.activations == 1 + 4, "{:?}", port.bfc(BFC)?);
    // The fragments of one datagram: only the first one would have its ports.
    for fragment in [[0x20, 0], [0x20, 10], [0, 20]] {
        send(libc::IPPROTO_UDP as u8, 3, fragment, u32::from(fragment[1]))?;
    }
    let stats = port.bfc(BFC)?;
    ensure!(stats.activations == 1 + 4 + 1, "{stats:?}");
    Ok(())
}

fn drops_are_counted_by_cause(_: &Context) -> Result<()> {
    for (limit, buffer) in [(10_500, 0), (0, 10_500)] {
        let mut port = port(&Options {
            limit: Some(limit),
            buffer: Some(buffer),
            alpha: Some(ALPHA_OFF),
            ..calm()
        })?;
        let receiver = port.receiver()?;
        let mut sender = port.sender()?;
        let taken: Result<Vec<bool>> = (0..20).map(|id| sender.send(&packet(id, 1))).collect();
        let taken = taken?.iter().filter(|taken| **taken).count();
        // One on the wire and ten behind it.
        ensure!(taken == 11, "{taken} were taken");
        let stats = port.bfc(BFC)?;
        let (by_limit, by_buffer) = if limit != 0 { (9, 0) } else { (0, 9) };
        let dropped = (stats.dropped_limit, stats.dropped_buffer);
        ensure!(dropped == (by_limit, by_buffer), "{stats:?}");
        ensure!(port.find(BFC)?.drops == 9);
        ensure!(
            (stats.highest_backlog, stats.buffer_backlog) == (10_000, 10_000),
            "{stats:?}"
        );
        receiver.expect(11, LONG)?;
        let stats = port.bfc(BFC)?;
        let buffer = (stats.buffer_backlog, stats.highest_buffer_backlog);
        ensure!(buffer == (0, 10_000), "{stats:?}");
    }
    Ok(())
}

fn a_change_keeps_queued_packets(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    // The first packet takes 0.8 s: nothing else leaves meanwhile.
    port.add_wire_and_bfc(&rate(10_000), &calm())?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    for id in 0..30 {
        sender.send(&packet(id, id as u32 % 4))?;
    }
    let before = port.find(BFC)?;
    port.tc(
        "qdisc change dev {v} parent 1:1 handle 2: bfc limit 1kb buffer 1kb quantum 1 sample 3%",
    )?;
    let after = port.find(BFC)?;
    let same = (before.qlen, before.backlog, before.drops) == (29, 29_000, 0);
    ensure!(
        same && (after.qlen, after.backlog, after.drops) == (29, 29_000, 0),
        "{after:?}"
    );
    ensure!(!sender.send(&packet(30, 1))?, "over the limit now");
    port.tc("qdisc change dev {v} root handle 1: wire rate 10mbit")?;
    receiver.expect(30, LONG).map(drop)
}

/// A port that a neighbour at the far end pauses.
fn neighbour(port: &Port) -> Result<Neighbour> {
    Neighbour::new(&port.far, INDEX, FAR)
}

fn a_paused_queue_waits_and_the_others_go_on(_: &Context) -> Result<()> {
    let mut port = port(&Options {
        sticky: Some(1_000_000_000),
        ..calm()
    })?;
    let receiver = port.receiver()?;
    let (mut sender, mut far) = (port.sender()?, neighbour(&port)?);
    far.say(Message::Pause(2))?;
    for id in 0..20 {
        // Queue 1; the other flow's is queue 3, as queue 2 is paused.
        sender.send(&packet(id, 1))?;
    }
    sender.send(&packet(20, 2))?;
    far.say(Message::Pause(3))?;
    for id in 21..40 {
        sender.send(&packet(id, 2))?;
    }
    std::thread::sleep(LONG);
    let first: Vec<u64> = receiver.arrivals()?.iter().map(|it| it.id).collect();
    // One more may have been sent before the pause came.
    ensure!(
        first.len() <= 21 && (0..20).all(|id| first.contains(&id)),
        "{first:?}"
    );
    let stats = port.bfc(BFC)?;
    let queues = (stats.occupied, stats.paused, stats.active);
    ensure!(queues == (1, 2, 0), "{stats:?}");
    ensure!(stats.pauses_received == 2, "{stats:?}");
    far.say(Message::Resume(3))?;
    let arrived = receiver.expect(40 - first.len(), LONG)?;
    ensure!(arrived.iter().map(|it| it.id).is_sorted(), "{arrived:?}");
    let stats = port.bfc(BFC)?;
    let resumed = (stats.paused, stats.resumes_received);
    ensure!(resumed == (1, 1), "{stats:?}");
    ensure!(stats.paused_ns > 1_900_000_000, "{stats:?}");
    Ok(())
}

fn a_pause_lapses_when_it_is_not_refreshed(cx: &Context) -> Result<()> {
    const HOLD: u64 = 30_000_000;
    let mut port = port(&calm())?;
    let receiver = port.receiver()?;
    let (mut sender, mut far) = (port.sender()?, neighbour(&port)?);
    far.hold = (HOLD / 1000) as u32;
    sender.send(&packet(0, 1))?;
    std::thread::sleep(Duration::from_millis(5));
    let start = receiver.arrivals()?[0].time;
    far.say(bitmap(1..1024))?;
    for id in 1..11 {
        sender.send(&packet(id, 1))?;
    }
    let arrivals = receiver.expect(10, LONG)?;
    let waited = arrivals[0].time - start;
    cx.note(format!("resumed {waited} ns after it was paused"));
    // The first packet arrived up to 5 ms before the pause did.
    ensure!((HOLD..HOLD + 10_000_000).contains(&waited), "{waited}");
    let stats = port.bfc(BFC)?;
    ensure!(stats.lapsed >= 31 && stats.paused == 0, "{stats:?}");
    // The neighbour is alive: it is obeyed again, for as long as it goes on speaking.
    sender.send(&packet(20, 1))?;
    far.say(bitmap(1..1024))?;
    for _ in 0..5 {
        sender.send(&packet(21, 1))?;
        std::thread::sleep(Duration::from_millis(20));
        far.say(Message::Pause(3))?;
        ensure!(receiver.arrivals()?.len() <= 1, "a refreshed pause lapsed");
    }
    std::thread::sleep(LONG);
    ensure!(receiver.arrivals()?.len() >= 5);
    Ok(())
}

fn an_idle_port_knows_what_is_paused_and_for_how_long(cx: &Context) -> Result<()> {
    const MS: u64 = 1_000_000;
    let sleep = |ms| std::thread::sleep(Duration::from_millis(ms));
    let about = |ns: u64, ms: u64| (ms * MS..(ms + 30) * MS).contains(&ns);
    for lapses in [false, true] {
        let mut port = port(&calm())?;
        let (mut sender, mut far) = (port.sender()?, neighbour(&port)?);
        far.hold = 400_000;
        // Four queues that have sent all that they had.
        for id in 0..4 {
            sender.send(&packet(id, id as u32))?;
        }
        port.drain(LONG)?;
        far.say(bitmap(1..5))?;
        sleep(100);
        let stats = port.bfc(BFC)?;
        ensure!(stats.paused == 4, "{stats:?}");
        ensure!(about(stats.paused_ns, 400), "as yet: {stats:?}");
        far.say(bitmap([4]))?;
        sleep(200);
        if !lapses {
            far.say(bitmap([]))?;
        }
        sleep(3_000);
        // 100 ms for three of them; the fourth for 300, or until it lapses.
        let fourth = if lapses { 500 } else { 300 };
        let stats = port.bfc(BFC)?;
        cx.note(format!("paused for {} ns", stats.paused_ns));
        let lapsed = u64::from(lapses);
        ensure!((stats.paused, stats.lapsed) == (0, lapsed), "{stats:?}");
        ensure!(about(stats.paused_ns, 300 + fourth), "{stats:?}");
        // Nor is it otherwise when traffic comes back.
        for id in 0..4 {
            sender.send(&packet(id, id as u32))?;
        }
        port.drain(LONG)?;
        let stats = port.bfc(BFC)?;
        ensure!(about(stats.paused_ns, 300 + fourth), "{stats:?}");
        for class in port.netlink.classes(INDEX)? {
            let of_bfc = Some(&class.app).filter(|_| class.kind == "bfc");
            let Some(queue) = of_bfc.and_then(|app| QueueStats::from_bytes(app)) else {
                continue;
            };
            let expected = match queue.number {
                1..=3 => 100,
                4 => fourth,
                _ => 0,
            };
            ensure!(queue.paused == 0, "{queue:?}");
            ensure!(about(queue.paused_ns, expected), "{queue:?}");
        }
    }
    Ok(())
}

fn after_the_highest_sequence_number_a_neighbour_is_accepted_again_when_its_hold_time_has_passed(
    _: &Context,
) -> Result<()> {
    let mut port = port(&calm())?;
    let mut far = neighbour(&port)?;
    far.hold = 50_000;
    far.sequence = u64::MAX - 1;
    far.say(bitmap([1]))?;
    far.sequence = 1_000;
    far.say(bitmap([1, 2]))?;
    std::thread::sleep(Duration::from_millis(10));
    let stats = port.bfc(BFC)?;
    ensure!((stats.paused, stats.replayed) == (1, 1), "{stats:?}");
    std::thread::sleep(Duration::from_millis(50));
    far.say(bitmap([1, 2]))?;
    std::thread::sleep(Duration::from_millis(10));
    let stats = port.bfc(BFC)?;
    ensure!((stats.paused, stats.replayed) == (2, 1), "{stats:?}");
    // Somebody else, at first in vain.
    let mut other = Neighbour::new(&port.far, INDEX, [2, 0, 0, 0, 0, 77])?;
    other.say(bitmap([]))?;
    std::thread::sleep(Duration::from_millis(10));
    let stats = port.bfc(BFC)?;
    ensure!((stats.paused, stats.foreign) == (2, 1), "{stats:?}");
    std::thread::sleep(Duration::from_millis(50));
    other.say(bitmap([3]))?;
    std::thread::sleep(Duration::from_millis(10));
    let stats = port.bfc(BFC)?;
    ensure!((stats.paused, stats.foreign) == (1, 1), "{stats:?}");
    Ok(())
}

fn no_frame_is_obeyed_for_longer_than_the_ports_limit(_: &Context) -> Result<()> {
    for (hold, ms) in [(None, 1_000), (Some(100_000_000), 100)] {
        let mut port = port(&Options { hold, ..calm() })?;
        let receiver = port.receiver()?;
        let (mut sender, mut far) = (port.sender()?, neighbour(&port)?);
        // For a minute.
        far.say(bitmap(1..32))?;
        std::thread::sleep(Duration::from_millis(1));
        sender.send(&packet(0, 1))?;
        std::thread::sleep(Duration::from_millis(ms - 20));
        ensure!(receiver.arrivals()?.is_empty(), "it was not paused");
        std::thread::sleep(Duration::from_millis(40));
        ensure!(receiver.arrivals()?.len() == 1, "still paused");
        let stats = port.bfc(BFC)?;
        ensure!((stats.lapsed, stats.released) == (31, 0), "{stats:?}");
    }
    Ok(())
}

fn a_queue_that_is_paused_endlessly_is_released(_: &Context) -> Result<()> {
    let mut port = port(&Options {
        watchdog: Some(300_000_000),
        ..calm()
    })?;
    let receiver = port.receiver()?;
    let (mut sender, mut far) = (port.sender()?, neighbour(&port)?);
    let sleep = |ms| std::thread::sleep(Duration::from_millis(ms));
    far.say(bitmap(1..32))?;
    sleep(1);
    sender.send(&packet(0, 1))?;
    // It is alive, and says it again and again.
    for _ in 0..14 {
        sleep(20);
        far.say(bitmap(1..32))?;
    }
    ensure!(receiver.arrivals()?.is_empty(), "it was not paused");
    sleep(40);
    far.say(bitmap(1..32))?;
    sleep(10);
    ensure!(receiver.arrivals()?.len() == 1, "still paused");
    let stats = port.bfc(BFC)?;
    let ended = (stats.paused, stats.released, stats.lapsed);
    ensure!(ended == (0, 31, 0), "{stats:?}");
    // Once it has resumed it, it may pause it again.
    far.say(bitmap(2..32))?;
    far.say(Message::Pause(1))?;
    sleep(10);
    let stats = port.bfc(BFC)?;
    ensure!((stats.paused, stats.released) == (1, 31), "{stats:?}");
    Ok(())
}

fn a_bitmap_sets_the_state_of_all_queues(_: &Context) -> Result<()> {
    let mut port = port(&calm_with(200))?;
    let receiver = port.receiver()?;
    let (mut sender, mut far) = (port.sender()?, neighbour(&port)?);
    far.say(bitmap(1..200))?;
    for id in 0..150 {
        sender.send(&packet(id, id as u32))?;
    }
    ensure!(receiver.expect(0, LONG)?.is_empty());
    // The upper half, of which more than a word.
    far.say(bitmap(1..100))?;
    std::thread::sleep(LONG);
    let stats = port.bfc(BFC)?;
    ensure!(stats.paused == 99 && stats.active == 0, "{stats:?}");
    let first = receiver.arrivals()?.len();
    far.say(bitmap([]))?;
    std::thread::sleep(LONG);
    let second = receiver.arrivals()?.len();
    ensure!(
        first + second == 150 && first > 40 && second > 90,
        "{first}, {second}"
    );
    let stats = port.bfc(BFC)?;
    ensure!(
        (stats.paused, stats.bitmaps_received) == (0, 3),
        "{stats:?}"
    );
    Ok(())
}

fn forged_replayed_and_foreign_frames_are_ignored_and_counted(_: &Context) -> Result<()> {
    let mut port = port(&calm())?;
    let receiver = port.receiver()?;
    let (mut sender, mut far) = (port.sender()?, neighbour(&port)?);
    far.sequence = 100;
    far.say(bitmap([]))?;
    let pause = |sequence, hold| Frame {
        sequence,
        hold,
        message: Message::Pause(1),
    };
    let good = encoded(&pause(1000, 1000));
    let other = [2, 0, 0, 0, 0, 9];
    let patched = |at: usize, with: u8| {
        let mut bytes = good.clone();
        bytes[at] = with;
        ethernet(GROUP, FAR, &bytes)
    };
    let padded = |len| {
        let mut bytes = good.clone();
        bytes.resize(len, 1);
        ethernet(GROUP, FAR, &bytes)
    };
    let malformed = [
        // To this port alone, to all, to bridges farther away.
        ethernet([2, 0, 0, 0, 0, 1], FAR, &good),
        ethernet([0xff; 6], FAR, &good),
        ethernet([0x01, 0x80, 0xc2, 0, 0, 0], FAR, &good),
        // Another protocol, version, kind, queue, hold time; too short; too long.
        patched(0, b'X'),
        patched(3, 2),
        patched(4, 9),
        patched(6, 4),
        ethernet(GROUP, FAR, &encoded(&pause(1001, 0))),
        ethernet(GROUP, FAR, &encoded(&pause(1002, 60_000_001))),
        ethernet(GROUP, FAR, &good[..19]),
        ethernet(GROUP, FAR, &[]),
        padded(46),
        padded(200),
        padded(1400),
    ];
    for frame in &malformed {
        far.send(frame)?;
    }
    let foreign = [
        ethernet(GROUP, other, &good),
        ethernet(GROUP, other, &encoded(&pause(u64::MAX, 1000))),
    ];
    for frame in &foreign {
        far.send(frame)?;
    }
    let replayed = [
        ethernet(GROUP, FAR, &encoded(&pause(101, 1000))),
        ethernet(GROUP, FAR, &encoded(&pause(5, 1000))),
        ethernet(GROUP, FAR, &encoded(&pause(0, 1000))),
    ];
    for frame in &replayed {
        far.send(frame)?;
    }
    for id in 0..5 {
        sender.send(&packet(id, 1))?;
    }
    receiver.expect(5, LONG)?;
    let stats = port.bfc(BFC)?;
    let ignored = (stats.malformed, stats.foreign, stats.replayed);
    ensure!(ignored == (malformed.len() as u64, 2, 3), "{stats:?}");
    let obeyed = (stats.pauses_received, stats.bitmaps_received, stats.paused);
    ensure!(obeyed == (0, 1, 0), "{stats:?}");
    // After all that, the neighbour is still heard, and what was replayed was once right.
    far.send(&ethernet(GROUP, FAR, &good))?;
    far.send(&ethernet(GROUP, FAR, &good))?;
    std::thread::sleep(Duration::from_millis(1));
    let stats = port.bfc(BFC)?;
    ensure!(
        (stats.pauses_received, stats.replayed) == (1, 4),
        "{stats:?}"
    );
    Ok(())
}

fn a_link_that_goes_down_forgets_its_neighbour(_: &Context) -> Result<()> {
    let mut port = port(&calm())?;
    let mut far = neighbour(&port)?;
    far.sequence = 100;
    far.say(bitmap(1..32))?;
    std::thread::sleep(Duration::from_millis(1));
    ensure!(port.bfc(BFC)?.bitmaps_received == 1);
    port.netlink.set_up(INDEX, false)?;
    port.netlink.set_up(INDEX, true)?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    sender.send(&packet(0, 1))?;
    receiver.expect(1, LONG)?;
    // Another one, who counts from the beginning.
    let mut other = Neighbour::new(&port.far, INDEX, [2, 0, 0, 0, 0, 77])?;
    other.say(bitmap(1..32))?;
    sender.send(&packet(1, 1))?;
    receiver.expect(0, LONG)?;
    let stats = port.bfc(BFC)?;
    ensure!(
        (stats.foreign, stats.bitmaps_received) == (0, 2),
        "{stats:?}"
    );
    Ok(())
}

fn frames_on_a_port_without_bfc_are_ignored(_: &Context) -> Result<()> {
    // The module is loaded, by another port.
    let _elsewhere = port(&calm())?;
    let mut port = Port::new()?;
    port.add_wire(Handle::ROOT, Handle::new(1, 0), &rate(MBIT10))?;
    let receiver = port.receiver()?;
    let (mut sender, mut far) = (port.sender()?, neighbour(&port)?);
    far.say(bitmap(1..1024))?;
    far.send(&ethernet(GROUP, FAR, &[1, 2, 3]))?;
    for id in 0..5 {
        sender.send(&packet(id, 1))?;
    }
    receiver.expect(5, LONG).map(drop)
}

fn control_frames_overtake_data(_: &Context) -> Result<()> {
    let port = port(&calm())?;
    let (data, control) = (port.receiver()?, Listener::open(&port.far)?);
    let mut sender = port.sender()?;
    for id in 0..30 {
        sender.send(&packet(id, id as u32))?;
    }
    let mut near = Neighbour::new(&port.near, INDEX, [2, 0, 0, 0, 0, 1])?;
    near.say(Message::Pause(5))?;
    std::thread::sleep(LONG);
    let told = control.heard()?;
    ensure!(told.len() == 1);
    let before = data
        .arrivals()?
        .iter()
        .filter(|it| it.time < told[0].time)
        .count();
    // What was on the wire, and nothing that waited.
    ensure!(before <= 3, "{before} packets went before");
    Ok(())
}

fn a_flood_of_control_frames_is_dropped(_: &Context) -> Result<()> {
    let mut port = port(&calm())?;
    let frame = ethernet(GROUP, FAR, &[0; 1400]);
    let sender = port.sender()?;
    for _ in 0..100 {
        sender.send_frame(&frame)?;
    }
    let stats = port.bfc(BFC)?;
    ensure!((50..56).contains(&stats.dropped_control), "{stats:?}");
    ensure!(u64::from(port.find(BFC)?.drops) == stats.dropped_control);
    port.drain(LONG).map(drop)
}

fn control_packets_go_first_and_are_never_paused(_: &Context) -> Result<()> {
    let mut port = port(&Options {
        control: Some(0),
        ..calm()
    })?;
    let receiver = port.receiver()?;
    let (mut sender, mut far) = (port.sender()?, neighbour(&port)?);
    far.say(bitmap(1..1024))?;
    for id in 0..20 {
        let rank = u32::from(id < 10);
        let packet = Packet {
            rank,
            ..packet(id, id as u32)
        };
        sender.send_to(&packet, &Destination::NOWHERE, tagged(rank))?;
    }
    std::thread::sleep(LONG);
    let mut ids = Vec::new();
    for frame in receiver.frames()? {
        ensure!(frame.checksum_is_right());
        let tag = frame.tag().context("no tag")?;
        ensure!(
            tag.upstream_queue == 0,
            "the next hop would count it: {tag:?}"
        );
        ids.push(frame.id().context("not a crafted packet")?);
    }
    ensure!(ids == (10..20).collect::<Vec<u64>>(), "{ids:?}");
    let stats = port.bfc(BFC)?;
    let (flows, buffer) = (stats.activations, stats.highest_backlog);
    ensure!((9..=10).contains(&flows), "{stats:?}");
    ensure!(buffer < 11 * 1_014, "only data counts: {stats:?}");
    ensure!(port.find(BFC)?.qlen == 10);
    far.say(bitmap([]))?;
    port.drain(LONG).map(drop)
}

fn a_flood_of_control_packets_leaves_room_for_pauses(_: &Context) -> Result<()> {
    let mut port = port(&Options {
        control: Some(0),
        ..calm()
    })?;
    let control = Listener::open(&port.far)?;
    let mut sender = port.sender()?;
    for id in 0..50 {
        sender.send(&packet(id, 1))?;
    }
    let mut near = Neighbour::new(&port.near, INDEX, [2, 0, 0, 0, 0, 1])?;
    near.say(Message::Pause(5))?;
    let stats = port.bfc(BFC)?;
    ensure!((10..19).contains(&stats.dropped_control), "{stats:?}");
    ensure!(u64::from(port.find(BFC)?.drops) == stats.dropped_control);
    port.drain(LONG)?;
    std::thread::sleep(Duration::from_millis(100));
    ensure!(control.heard()?.len() == 1, "the pause was dropped");
    Ok(())
}

fn queues_are_shown_as_classes(_: &Context) -> Result<()> {
    let mut port = port(&Options {
        classes: Some(2),
        sticky: Some(1_000_000_000),
        ..calm_with(300)
    })?;
    let (mut sender, mut far) = (port.sender()?, neighbour(&port)?);
    far.say(bitmap([1, 150, 299]))?;
    for id in 0..8 {
        let rank = id as u32 % 2;
        sender.send(&Packet {
            rank,
            ..packet(id, 10 + rank)
        })?;
    }
    std::thread::sleep(Duration::from_millis(100));
    far.say(bitmap([2, 150]))?;
    for id in 8..12 {
        sender.send(&packet(id, 10))?;
    }
    std::thread::sleep(Duration::from_millis(5));
    let mut seen = Vec::new();
    for class in port.netlink.classes(INDEX)? {
        if class.kind != "bfc" {
            continue;
        }
        let stats = QueueStats::from_bytes(&class.app).context("short statistics")?;
        ensure!(class.handle == 0x2_0000 + stats.number, "{class:?}");
        ensure!(class.backlog == 1000 * class.qlen, "{class:?}");
        let sent = (class.sent_packets, class.sent_bytes / 1000);
        ensure!(u64::from(sent.0) == sent.1, "{class:?}");
        seen.push((stats.number, stats.class, class.qlen, sent.0, stats.paused));
        ensure!(
            (stats.paused_ns > 0) == matches!(stats.number, 1 | 2 | 150 | 299),
            "{stats:?}"
        );
    }
    // Queue 2 has waited since, with what came later; queue 151 has sent all of its packets.
    let expected = [(2, 0, 4, 4, 1), (150, 1, 0, 0, 1), (151, 1, 0, 4, 0)];
    ensure!(seen == expected, "{seen:?}");
    Ok(())
}
