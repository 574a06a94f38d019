// SPDX-License-Identifier: MIT OR Apache-2.0

//! Switches and hosts with `bfc` at every port: backpressure from hop to hop, and what becomes of
//! it when frames are lost, ports go down, and switches go away.
//!
//! Links have 10 Mbit/s and 1 ms, so that a packet of 1000 bytes takes 0.8 ms, a 1-hop round trip
//! some 3 ms, and a 1-hop BDP some 3.7 kB.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use weft_ktap::{Context, tests};
use weft_mechanisms::bfc::frame::{Frame, GROUP, Message};
use weft_mechanisms::bfc::options::{
    ALPHA_OFF, Assign, Devices, MAX_FACTOR, MAX_HOLD, MIN_REFRESH, Options, Pushback,
};
use weft_mechanisms::common::tag::Tag;
use weft_mechanisms::wire::options as wire;

use crate::model::Packet;
use crate::modules;
use crate::netlink::Handle;
use crate::network::{Link, Network, ip};
use crate::packets::{Receiver, Sender};
use crate::pause::{Listener, Neighbour, bitmap, ethernet};
use crate::port::rate;
use crate::ring::Ring;

tests![
    #[exact = "a burst must arrive faster than its port sends"]
    backpressure_goes_from_hop_to_hop_and_nothing_is_lost,
    #[exact = "a burst must arrive faster than its port sends"]
    a_flow_to_another_receiver_is_not_held_up,
    #[exact = "a burst must arrive faster than its port sends"]
    a_flow_of_one_packet_pushes_back_only_if_told_to,
    #[exact = "a burst must arrive faster than its port sends"]
    the_frames_of_a_pause_are_as_documented,
    frames_leave_in_the_order_of_their_numbers,
    #[exact = "a burst must arrive faster than its port sends"]
    a_burst_from_many_ports_fits_the_shared_buffer,
    a_neighbour_that_pauses_everything_does_not_starve_the_other_ports,
    #[exact = "a burst must arrive faster than its port sends"]
    lost_pause_frames_are_made_up_for,
    #[exact = "a burst must arrive faster than its port sends"]
    the_pauses_of_a_dead_neighbour_lapse,
    #[exact = "a burst must arrive faster than its port sends"]
    packets_that_leave_by_a_port_that_goes_down_no_longer_count,
    #[exact = "a burst must arrive faster than its port sends"]
    a_deleted_qdisc_resumes_the_neighbours_that_it_had_paused,
    #[exact = "a burst must arrive faster than its port sends"]
    a_ring_of_backpressure_deadlocks_unless_it_is_elided,
    #[exact = "a burst must arrive faster than its port sends"]
    a_switch_is_deleted_while_it_pauses_and_is_paused,
    #[exact = "a burst must arrive faster than its port sends"]
    a_port_comes_back_while_packets_are_counted_there,
    #[exact = "a burst must arrive faster than its port sends"]
    the_module_is_removed_after_all_that,
];

const MBIT10: u64 = 10_000_000;
const DELAY: u64 = 1_000_000;
const HRTT: u64 = 3_000_000;
const LEN: u32 = 1000;

fn line() -> wire::Options {
    wire::Options {
        delay: Some(DELAY),
        ..rate(MBIT10)
    }
}

fn fast() -> wire::Options {
    wire::Options {
        delay: Some(DELAY),
        ..rate(10 * MBIT10)
    }
}

fn options() -> Options {
    Options {
        rate: Some(MBIT10 / 8),
        hrtt: Some(HRTT),
        // Flows that share an entry by their hashes would share a queue.
        factor: Some(MAX_FACTOR),
        ..Options::default()
    }
}

fn sleep(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Sends packets of a flow, numbered from `first` on.
fn send(
    sender: &mut Sender,
    link: &Link,
    (from, to): (usize, usize),
    flow: u32,
    ids: std::ops::Range<u64>,
) -> Result<()> {
    for id in ids {
        let packet = Packet {
            id,
            rank: 0,
            flow,
            len: LEN,
        };
        let tag = Tag::default();
        sender.send_to(&packet, &link.destination(from, ip(to)), Some(tag))?;
    }
    Ok(())
}

/// Waits until no port of these holds a packet.
fn drain(network: &mut Network, ports: &[(usize, Link)], ms: u64) -> Result<()> {
    for _ in 0..ms / 50 {
        let mut left = 0;
        for (node, link) in ports {
            left += network.find(*node, link)?.qlen;
        }
        if left == 0 {
            // What is on the wires.
            sleep(20);
            return Ok(());
        }
        sleep(50);
    }
    for (node, link) in ports {
        let stats = network.bfc(*node, link)?;
        ensure!(
            network.find(*node, link)?.qlen == 0,
            "{node}, {link:?}: {stats:?}"
        );
    }
    Ok(())
}

/// Two senders, two switches in a row, two receivers: 0, 1 → 2 → 3 → 4, 5. The links to the
/// receivers are slow, all others fast.
struct Row {
    network: Network,
    /// Of node 0, of node 1, between the switches, to node 4, to node 5.
    links: [Link; 5],
    /// Those that packets go through.
    ports: Vec<(usize, Link)>,
}

impl Row {
    fn new(options: &Options) -> Result<Self> {
        let mut network = Network::new(6)?;
        let ends = [(0, 2), (1, 2), (2, 3), (3, 4), (3, 5)];
        let mut links = Vec::new();
        for (a, b) in ends {
            links.push(network.link(a, b)?);
        }
        let links: [Link; 5] = links.try_into().expect("five links were made");
        let [first, second, middle, fourth, fifth] = links;
        for switch in [2, 3] {
            network.forward(switch)?;
        }
        for receiver in [4, 5] {
            network.route(2, &middle, ip(receiver))?;
        }
        network.route(3, &fourth, ip(4))?;
        network.route(3, &fifth, ip(5))?;
        let ports = vec![
            (0, first),
            (1, second),
            (2, middle),
            (3, fourth),
            (3, fifth),
        ];
        // Both ends of each link: the other ones send the pause frames.
        for ((a, b), link) in ends.iter().zip(&links) {
            let slow = *a == 3;
            let wire = if slow { line() } else { fast() };
            let rate = if slow { MBIT10 } else { 10 * MBIT10 };
            let options = Options {
                rate: Some(rate / 8),
                ..*options
            };
            network.port(*a, link, &wire, &options)?;
            network.port(*b, link, &wire, &options)?;
        }
        Ok(Self {
            network,
            links,
            ports,
        })
    }

    fn drain(&mut self, ms: u64) -> Result<()> {
        drain(&mut self.network, &self.ports, ms)
    }
}

fn backpressure_goes_from_hop_to_hop_and_nothing_is_lost(cx: &Context) -> Result<()> {
    const PACKETS: u64 = 400;
    // A fifth of what is sent. At the first switch, whose queues are both paused, Th is a whole
    // 1-hop BDP of 37.5 kB, to which comes what is under way until the pause takes effect.
    let mut row = Row::new(&Options {
        buffer: Some(160_000),
        ..options()
    })?;
    let [first, second, middle, fourth, _] = row.links;
    // Hosts have room for what they send.
    for (node, link) in [(0, first), (1, second)] {
        let change = Options {
            buffer: Some(0),
            ..Options::default()
        };
        row.network.change_bfc(node, &link, &change)?;
    }
    let receiver = row.network.receiver(4)?;
    for (node, link) in [(0, first), (1, second)] {
        let mut sender = row.network.sender(node, &link)?;
        let ids = node as u64 * PACKETS..(node as u64 + 1) * PACKETS;
        send(&mut sender, &link, (node, 4), node as u32, ids)?;
    }
    row.drain(5_000)?;
    let arrived = receiver.arrivals()?;
    ensure!(
        arrived.len() as u64 == 2 * PACKETS,
        "{} arrived",
        arrived.len()
    );
    for node in 0..2 {
        let of = arrived
            .iter()
            .map(|it| it.id)
            .filter(|id| id / PACKETS == node);
        ensure!(of.is_sorted(), "packets of node {node} were reordered");
    }
    // The slow link was never idle.
    let time = arrived[arrived.len() - 1].time - arrived[0].time;
    let busy = (2 * PACKETS - 1) * u64::from(LEN) * 800;
    cx.note(format!("the bottleneck was busy {busy} of {time} ns"));
    ensure!(time < busy * 102 / 100, "{time} ns instead of {busy}");
    // Pushed back from the second switch to the first one, and from there to both hosts.
    let bottleneck = row.network.bfc(3, &fourth)?;
    let told = row.network.bfc(3, &middle)?;
    let obeyed = row.network.bfc(2, &middle)?;
    let host = row.network.bfc(0, &first)?;
    cx.note(format!("at the bottleneck {bottleneck:?}"));
    ensure!(told.pauses_sent + told.bitmaps_sent > 5, "{told:?}");
    ensure!(told.resumes_sent > 0, "{told:?}");
    let sent = (told.pauses_sent, told.resumes_sent, told.bitmaps_sent);
    let received = (
        obeyed.pauses_received,
        obeyed.resumes_received,
        obeyed.bitmaps_received,
    );
    ensure!(sent == received, "sent {sent:?}, received {received:?}");
    ensure!(obeyed.paused_ns > 0 && host.paused_ns > 0, "{host:?}");
    // "BFC is able to limit the queue length near the pause threshold": two flows, each with Th and
    // what comes within a round trip at ten times the rate.
    ensure!(bottleneck.highest_backlog < 60_000, "{bottleneck:?}");
    ensure!(told.pausing == 0 && host.paused == 0, "{told:?}, {host:?}");
    ensure!(told.unsent == 0, "{told:?}");
    Ok(())
}

fn a_flow_to_another_receiver_is_not_held_up(cx: &Context) -> Result<()> {
    let mut row = Row::new(&options())?;
    let [first, ..] = row.links;
    let receiver = row.network.receiver(5)?;
    let mut sender = row.network.sender(0, &first)?;
    // A long flow that is stopped at every hop, and then a short one to the other receiver.
    send(&mut sender, &first, (0, 4), 1, 0..300)?;
    sleep(30);
    ensure!(
        row.network.bfc(0, &first)?.paused > 0,
        "the long flow was not pushed back"
    );
    send(&mut sender, &first, (0, 5), 2, 1000..1010)?;
    sleep(30);
    let arrived = receiver.arrivals()?;
    cx.note(format!("{} of 10 packets in 30 ms", arrived.len()));
    // Three hops of 1 ms and ten packets at 0.8 ms.
    ensure!(arrived.len() == 10, "{} arrived", arrived.len());
    row.drain(5_000)
}

/// All packets share a queue of the slow link.
fn a_flow_of_one_packet_pushes_back_only_if_told_to(cx: &Context) -> Result<()> {
    for pushback in [Pushback::All, Pushback::Backlogged] {
        let mut row = Row::new(&Options {
            th: Some(1),
            assign: Some(Assign::Single),
            pushback: Some(pushback),
            ..options()
        })?;
        let [first, _, middle, fourth, _] = row.links;
        let mut sender = row.network.sender(0, &first)?;
        for flow in 0..12 {
            send(
                &mut sender,
                &first,
                (0, 4),
                flow,
                flow.into()..u64::from(flow) + 1,
            )?;
        }
        row.drain(5_000)?;
        let (told, slow) = (row.network.bfc(3, &middle)?, row.network.bfc(3, &fourth)?);
        cx.note(format!("{pushback:?}: {} congested", slow.congested));
        ensure!(slow.congested >= 5, "{slow:?}");
        let sent = told.pauses_sent + told.bitmaps_sent;
        ensure!(
            (sent == 0) == (pushback == Pushback::Backlogged),
            "{told:?}"
        );
        // A flow of more packets does so in any case.
        send(&mut sender, &first, (0, 4), 1, 100..130)?;
        row.drain(5_000)?;
        let told = row.network.bfc(3, &middle)?;
        ensure!(told.pauses_sent + told.bitmaps_sent > sent, "{told:?}");
    }
    Ok(())
}

fn the_frames_of_a_pause_are_as_documented(_: &Context) -> Result<()> {
    let mut row = Row::new(&options())?;
    let [first, _, middle, ..] = row.links;
    let listener = Listener::open(row.network.namespace(2)?)?;
    let mut sender = row.network.sender(0, &first)?;
    send(&mut sender, &first, (0, 4), 1, 0..150)?;
    row.drain(5_000)?;
    sleep(1_000);
    // Node 2 hears what node 3 says by the link between them.
    let told: Vec<_> = listener.heard()?;
    ensure!(
        told.iter().all(|it| it.from == middle.address(3)),
        "{told:?}"
    );
    ensure!(told.is_sorted_by(|a, b| a.frame.sequence < b.frame.sequence));
    ensure!(
        told.iter().all(|it| it.frame.hold == 4 * 30_000),
        "four times ten HRTT"
    );
    ensure!(
        matches!(told[0].frame.message, Message::Pause(_)),
        "{:?}",
        told[0]
    );
    let resumed = told
        .iter()
        .rposition(|it| matches!(it.frame.message, Message::Resume(_)));
    let resumed = resumed.unwrap_or(told.len());
    let after: Vec<Message> = told[resumed + 1..]
        .iter()
        .map(|it| it.frame.message)
        .collect();
    // Four all-clear bitmaps, each after a refresh, and then silence.
    ensure!(after == [bitmap([]); 4], "{after:?}");
    for pair in told[resumed + 1..].windows(2) {
        let apart = pair[1].time - pair[0].time;
        ensure!(
            (29_000_000..31_000_000).contains(&apart),
            "{apart} ns apart"
        );
    }
    Ok(())
}

/// Bitmaps whose time has come and pauses that are new at once. On one CPU, as in virtual time,
/// nothing could go wrong here; on several (`cargo xtask vm --clock real --cpus 2 -- …`) a frame
/// could overtake another. What is looked at is how they leave: on their way, a veth may reorder
/// them.
fn frames_leave_in_the_order_of_their_numbers(cx: &Context) -> Result<()> {
    let mut row = Row::new(&Options {
        refresh: Some(MIN_REFRESH),
        hold: Some(MAX_HOLD),
        ..options()
    })?;
    let [first, second, middle, ..] = row.links;
    let sent = Receiver::open_for(row.network.namespace(3)?, libc::ETH_P_ALL as u16)?;
    let (mut sequences, from) = (Vec::new(), middle.address(3));
    for round in 0..10 {
        for (node, link) in [(0, first), (1, second)] {
            let mut sender = row.network.sender(node, &link)?;
            for to in [4, 5] {
                let flow = (round * 4 + node * 2 + to) as u32;
                send(&mut sender, &link, (node, to), flow, 0..40)?;
            }
        }
        sleep(50);
        for frame in sent.frames()? {
            let header = ethernet(GROUP, from, &[]);
            let payload = frame.bytes().strip_prefix(&header[..]);
            if let Some(Ok(frame)) = payload.map(Frame::decode) {
                sequences.push(frame.sequence);
            }
        }
    }
    row.drain(5_000)?;
    cx.note(format!("{} frames", sequences.len()));
    ensure!(sequences.len() > 100, "only {} frames", sequences.len());
    ensure!(sequences.is_sorted_by(|a, b| a < b), "reordered");
    Ok(())
}

fn a_burst_from_many_ports_fits_the_shared_buffer(cx: &Context) -> Result<()> {
    // Ten hosts, five flows each, to one receiver at the same switch.
    const HOSTS: usize = 10;
    const FLOWS: u32 = 5;
    const PACKETS: u64 = 20;
    const SWITCH: usize = HOSTS;
    const RECEIVER: usize = HOSTS + 1;
    let mut network = Network::new(HOSTS + 2)?;
    network.forward(SWITCH)?;
    let mut links = Vec::new();
    // Each host may send what fits a round trip before it is stopped, and its flows have a share of
    // the threshold; the hosts send five times as much. All of it waits at one port.
    let options = Options {
        buffer: Some(200_000),
        alpha: Some(ALPHA_OFF),
        ..options()
    };
    for node in (0..HOSTS).chain([RECEIVER]) {
        let link = network.link(node, SWITCH)?;
        network.port(
            node,
            &link,
            &line(),
            &Options {
                buffer: Some(0),
                ..options
            },
        )?;
        network.port(SWITCH, &link, &line(), &options)?;
        links.push(link);
    }
    let last = links[HOSTS];
    network.route(SWITCH, &last, ip(RECEIVER))?;
    let receiver = network.receiver(RECEIVER)?;
    for (node, link) in links[..HOSTS].iter().enumerate() {
        let mut sender = network.sender(node, link)?;
        for flow in 0..FLOWS {
            let flow = node as u32 * FLOWS + flow;
            let ids = u64::from(flow) * PACKETS..(u64::from(flow) + 1) * PACKETS;
            send(&mut sender, link, (node, RECEIVER), flow, ids)?;
        }
    }
    let mut ports: Vec<(usize, Link)> = links[..HOSTS].iter().copied().enumerate().collect();
    ports.push((SWITCH, last));
    drain(&mut network, &ports, 5_000)?;
    let arrived: BTreeSet<u64> = receiver.arrivals()?.iter().map(|it| it.id).collect();
    let sent = HOSTS as u64 * u64::from(FLOWS) * PACKETS;
    let stats = network.bfc(SWITCH, &last)?;
    cx.note(format!(
        "{sent} packets sent, {} arrived; at most {} bytes in the switch",
        arrived.len(),
        stats.highest_buffer_backlog
    ));
    ensure!(arrived.len() as u64 == sent, "{stats:?}");
    ensure!(
        stats.dropped_buffer == 0 && stats.collisions > 0,
        "{stats:?}"
    );
    Ok(())
}

fn a_neighbour_that_pauses_everything_does_not_starve_the_other_ports(cx: &Context) -> Result<()> {
    const BUFFER: u32 = 90_000;
    for alpha in [None, Some(ALPHA_OFF)] {
        let mut row = Row::new(&Options {
            buffer: Some(BUFFER),
            alpha,
            ..options()
        })?;
        let [first, second, middle, fourth, fifth] = row.links;
        for (node, link) in [(0, first), (1, second)] {
            let change = Options {
                buffer: Some(0),
                ..Options::default()
            };
            row.network.change_bfc(node, &link, &change)?;
        }
        // Nothing is pushed back to the first switch: what comes fills the second one.
        let elide = Options {
            elide: Some({
                let mut devices = Devices::NONE;
                devices.push(middle.index);
                devices
            }),
            ..Options::default()
        };
        row.network.change_bfc(3, &fourth, &elide)?;
        row.network.change_bfc(3, &fifth, &elide)?;
        let mut stuck = Neighbour::new(row.network.namespace(4)?, fourth.index, fourth.address(4))?;
        stuck.sequence = u64::MAX >> 1;
        stuck.hold = 900_000;
        stuck.say(bitmap(1..32))?;
        sleep(10);
        let mut sender = row.network.sender(0, &first)?;
        send(&mut sender, &first, (0, 4), 1, 0..200)?;
        sleep(100);
        let full = row.network.bfc(3, &fourth)?;
        cx.note(format!(
            "{alpha:?}: {} bytes are stuck",
            full.buffer_backlog
        ));
        let receiver = row.network.receiver(5)?;
        send(&mut sender, &first, (0, 5), 2, 1000..1010)?;
        sleep(100);
        let arrived = receiver.arrivals()?.len();
        let dropped = row.network.bfc(3, &fifth)?.dropped_buffer;
        if alpha.is_none() {
            // Eight ninths.
            ensure!(full.buffer_backlog == 80_000, "{full:?}");
            ensure!(
                full.dropped_share == 120 && full.dropped_buffer == 0,
                "{full:?}"
            );
            ensure!((arrived, dropped) == (10, 0), "{arrived}, {dropped}");
        } else {
            ensure!(full.buffer_backlog == 90_000, "{full:?}");
            ensure!(
                full.dropped_share == 0 && full.dropped_buffer == 110,
                "{full:?}"
            );
            ensure!((arrived, dropped) == (0, 10), "{arrived}, {dropped}");
        }
    }
    Ok(())
}

fn lost_pause_frames_are_made_up_for(cx: &Context) -> Result<()> {
    let mut row = Row::new(&Options {
        refresh: Some(20_000_000),
        ..options()
    })?;
    let [first, _, middle, ..] = row.links;
    // At the first switch every other frame of the second one's is lost, in turn; then all of them.
    let name = middle.name();
    row.network.tc(2, &format!("qdisc add dev {name} clsact"))?;
    let filter = format!("filter add dev {name} ingress protocol 0x88b5 prio 1 matchall");
    row.network
        .tc(2, &format!("{filter} action pass random determ drop 2"))?;
    let receiver = row.network.receiver(4)?;
    let mut sender = row.network.sender(0, &first)?;
    send(&mut sender, &first, (0, 4), 1, 0..200)?;
    row.drain(5_000)?;
    ensure!(receiver.arrivals()?.len() == 200, "not all arrived");
    let (told, heard) = (row.network.bfc(3, &middle)?, row.network.bfc(2, &middle)?);
    let sent = told.pauses_sent + told.resumes_sent + told.bitmaps_sent;
    let received = heard.pauses_received + heard.resumes_received + heard.bitmaps_received;
    cx.note(format!("{received} of {sent} frames received"));
    ensure!(
        received * 3 < sent * 2 && received * 3 > sent,
        "{received} of {sent}"
    );
    // Nothing stays paused for longer than the frames hold.
    sleep(100);
    ensure!(row.network.bfc(2, &middle)?.paused == 0);
    // A resume that is lost, and all bitmaps after it: the pause lapses.
    row.network
        .tc(2, &format!("filter del dev {name} ingress"))?;
    let mut told = Neighbour::new(row.network.namespace(3)?, middle.index, middle.address(3))?;
    told.sequence = u64::MAX >> 1;
    told.hold = 80_000;
    told.say(bitmap(1..32))?;
    // It arrives before what is lost.
    sleep(5);
    row.network.tc(2, &format!("{filter} action drop"))?;
    sleep(10);
    told.say(bitmap([]))?;
    send(&mut sender, &first, (0, 4), 1, 200..201)?;
    sleep(30);
    ensure!(receiver.arrivals()?.is_empty(), "the resume was not lost");
    sleep(100);
    ensure!(receiver.arrivals()?.len() == 1, "stuck");
    ensure!(row.network.bfc(2, &middle)?.lapsed > 0);
    Ok(())
}

fn the_pauses_of_a_dead_neighbour_lapse(_: &Context) -> Result<()> {
    let mut row = Row::new(&options())?;
    let [first, _, middle, ..] = row.links;
    let receiver = row.network.receiver(4)?;
    let mut sender = row.network.sender(0, &first)?;
    send(&mut sender, &first, (0, 4), 1, 0..100)?;
    sleep(20);
    ensure!(row.network.bfc(2, &middle)?.paused > 0, "nothing is paused");
    // Its port towards the first switch speaks no more.
    row.network.delete_bfc(3, &middle)?;
    row.drain(5_000)?;
    ensure!(receiver.arrivals()?.len() == 100, "not all arrived");
    let stats = row.network.bfc(2, &middle)?;
    ensure!(stats.lapsed > 0 && stats.paused == 0, "{stats:?}");
    Ok(())
}

fn packets_that_leave_by_a_port_that_goes_down_no_longer_count(_: &Context) -> Result<()> {
    let mut row = Row::new(&options())?;
    let [first, _, middle, fourth, _] = row.links;
    let mut sender = row.network.sender(0, &first)?;
    send(&mut sender, &first, (0, 4), 1, 0..100)?;
    sleep(20);
    ensure!(
        row.network.bfc(3, &middle)?.pausing > 0,
        "nothing is paused"
    );
    // With its packets purged, the first switch is resumed at once, and what comes is dropped.
    row.network.set_up(3, &fourth, false)?;
    sleep(10);
    let (told, heard) = (row.network.bfc(3, &middle)?, row.network.bfc(2, &middle)?);
    ensure!(
        told.pausing == 0 && heard.paused == 0,
        "{told:?}, {heard:?}"
    );
    ensure!(heard.lapsed == 0, "it was not told: {heard:?}");
    ensure!(row.network.find(3, &fourth)?.qlen == 0);
    ensure!(row.network.bfc(3, &middle)?.buffer_backlog == 0);
    row.network.set_up(3, &fourth, true)?;
    row.network.route(3, &fourth, ip(4))?;
    row.drain(5_000)
}

fn a_deleted_qdisc_resumes_the_neighbours_that_it_had_paused(_: &Context) -> Result<()> {
    let mut row = Row::new(&options())?;
    let [first, _, middle, fourth, _] = row.links;
    let mut sender = row.network.sender(0, &first)?;
    for _ in 0..3 {
        send(&mut sender, &first, (0, 4), 1, 0..60)?;
        sleep(20);
        ensure!(
            row.network.bfc(3, &middle)?.pausing > 0,
            "nothing is paused"
        );
        row.network.delete_bfc(3, &fourth)?;
        sleep(10);
        let (told, heard) = (row.network.bfc(3, &middle)?, row.network.bfc(2, &middle)?);
        ensure!(
            (told.pausing, heard.paused, heard.lapsed) == (0, 0, 0),
            "{heard:?}"
        );
        row.network.add_bfc(3, &fourth, &options())?;
        row.drain(5_000)?;
    }
    Ok(())
}

/// A ring with `bfc` at every port. With `elided`, that switch does not push back from the ring
/// into the ring.
fn ring(elided: Option<usize>) -> Result<Ring> {
    let mut ring = Ring::new()?;
    // One queue, as under PFC: what goes on and what leaves cannot pass by each other.
    let single = Options {
        assign: Some(Assign::Single),
        buffer: Some(0),
        ..options()
    };
    for switch in 0..Ring::SWITCHES {
        let (host, next) = (ring.hosts[switch], ring.ring[switch]);
        let mut devices = Devices::NONE;
        if elided == Some(switch) {
            devices.push(ring.link_to(switch).index);
        }
        let on = Options {
            elide: Some(devices),
            ..single
        };
        let network = &mut ring.network;
        network.port(switch, &next, &line(), &on)?;
        network.port(Ring::next(switch), &next, &line(), &single)?;
        // A host's link is twice as fast as the ring.
        let wire = wire::Options {
            delay: Some(DELAY),
            ..rate(2 * MBIT10)
        };
        network.port(switch, &host, &wire, &single)?;
        network.port(Ring::host(switch), &host, &wire, &single)?;
    }
    Ok(ring)
}

fn a_ring_of_backpressure_deadlocks_unless_it_is_elided(cx: &Context) -> Result<()> {
    const PACKETS: u64 = 100;
    for elided in [None, Some(0)] {
        let mut ring = ring(elided)?;
        // All of it takes some 160 ms.
        let [arrived, later] = ring.exchange(PACKETS, |sender, link, way, ids| {
            send(sender, link, way, way.0 as u32, ids)
        })?;
        let mut paused = 0;
        for (switch, link) in ring.ring.iter().enumerate() {
            paused += ring.network.bfc(switch, link)?.paused;
        }
        cx.note(format!(
            "elided at {elided:?}: {arrived} arrived, then {later}"
        ));
        let all = Ring::SWITCHES as u64 * PACKETS;
        match elided {
            None => ensure!(
                arrived < all && later == 0 && paused == 3,
                "no deadlock: {arrived} of {all}, then {later}; {paused} queues are paused"
            ),
            Some(_) => ensure!(
                arrived == all && paused == 0,
                "{arrived} of {all} arrived, {paused} queues are paused"
            ),
        }
    }
    Ok(())
}

fn a_switch_is_deleted_while_it_pauses_and_is_paused(_: &Context) -> Result<()> {
    for node in [3, 2, 4, 0] {
        let mut row = Row::new(&options())?;
        let [first, second, middle, fourth, _] = row.links;
        for (node, link) in [(0, first), (1, second)] {
            let mut sender = row.network.sender(node, &link)?;
            send(&mut sender, &link, (node, 4), node as u32, 0..100)?;
        }
        // The second switch's port is paused, too, by somebody who claims to be the receiver.
        let mut receiver =
            Neighbour::new(row.network.namespace(4)?, fourth.index, fourth.address(4))?;
        receiver.say(bitmap(1..32))?;
        sleep(20);
        ensure!(row.network.bfc(2, &middle)?.paused > 0, "nothing is paused");
        ensure!(row.network.bfc(3, &fourth)?.paused > 0, "nothing is paused");
        drop(receiver);
        row.network.delete(node);
        sleep(50);
    }
    modules::wait_until_unused()
}

fn a_port_comes_back_while_packets_are_counted_there(_: &Context) -> Result<()> {
    let mut row = Row::new(&options())?;
    let [first, _, middle, ..] = row.links;
    let receiver = row.network.receiver(4)?;
    let listener = Listener::open(row.network.namespace(2)?)?;
    let mut sender = row.network.sender(0, &first)?;
    send(&mut sender, &first, (0, 4), 1, 0..100)?;
    sleep(20);
    row.network.delete_bfc(3, &middle)?;
    row.network.add_bfc(3, &middle, &options())?;
    // What it had counted still counts, and is reported again by a port that has just begun.
    let stats = row.network.bfc(3, &middle)?;
    ensure!(stats.pausing > 0, "{stats:?}");
    sleep(5);
    let told = listener.heard()?;
    ensure!(told.is_sorted_by(|a, b| a.frame.sequence < b.frame.sequence));
    ensure!(row.network.bfc(2, &middle)?.replayed == 0);
    row.drain(5_000)?;
    ensure!(receiver.arrivals()?.len() == 100, "not all arrived");
    ensure!(row.network.bfc(3, &middle)?.pausing == 0);
    Ok(())
}

fn the_module_is_removed_after_all_that(_: &Context) -> Result<()> {
    let mut row = Row::new(&options())?;
    let [first, _, middle, fourth, _] = row.links;
    let mut sender = row.network.sender(0, &first)?;
    send(&mut sender, &first, (0, 4), 1, 0..100)?;
    sleep(20);
    ensure!(row.network.bfc(2, &middle)?.paused > 0, "nothing is paused");
    let in_use = modules::remove("sch_bfc");
    ensure!(in_use == Err(nix::errno::Errno::EWOULDBLOCK), "{in_use:?}");
    for (node, link) in [(3, fourth), (3, middle), (2, middle), (0, first)] {
        row.network
            .netlink(node)?
            .delete_qdisc(link.index, Handle::ROOT)?;
    }
    drop((sender, row));
    modules::wait_until_unused()?;
    modules::remove("sch_bfc")?;
    ensure!(modules::users("sch_bfc").is_none(), "it is still there");
    // And comes back with the next qdisc.
    let mut row = Row::new(&options())?;
    let receiver = row.network.receiver(4)?;
    let mut sender = row.network.sender(0, &first)?;
    send(&mut sender, &first, (0, 4), 1, 0..50)?;
    row.drain(5_000)?;
    ensure!(receiver.arrivals()?.len() == 50);
    Ok(())
}
