// SPDX-License-Identifier: MIT OR Apache-2.0

//! Switches with `port` at their ports: the memory that ports share, whatever their children do,
//! and priority flow control from hop to hop.
//!
//! Links have 10 or 100 Mbit/s and a delay of 1 ms. A packet of 1000 bytes takes 0.8 ms at 10
//! Mbit/s, and a quantum 51.2 µs.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::errno::Errno;
use weft_ktap::{Context, tests};
use weft_mechanisms::port::KIND;
use weft_mechanisms::port::frame::{ETHERTYPE, Frame, GROUP};
use weft_mechanisms::port::stats::Stats;

use crate::model::Packet;
use crate::modules;
use crate::netlink::{Handle, Qdisc};
use crate::network::{Link, Network, ip};
use crate::packets::{Receiver, Sender};
use crate::ring::Ring;

tests![
    #[exact = "a burst must arrive faster than its port sends"]
    two_ports_share_one_memory,
    #[exact = "a burst must arrive faster than its port sends"]
    packets_that_a_child_drops_leave_the_memory,
    #[exact = "a burst must arrive faster than its port sends"]
    the_bytes_of_a_replaced_child_leave_the_memory,
    #[exact = "a burst must arrive faster than its port sends"]
    a_burst_into_the_child_of_each_kind_is_accounted_for,
    #[stock]
    #[exact = "a burst must arrive faster than its port sends"]
    a_burst_into_sfb_is_accounted_for,
    headrooms_that_take_the_whole_memory_are_refused_with_a_reason,
    #[exact = "a burst must arrive faster than its port sends"]
    a_pause_frame_has_the_bytes_of_the_standard,
    #[exact = "a burst must arrive faster than its port sends"]
    an_incast_loses_packets_without_pauses_and_none_with_them,
    #[exact = "a burst must arrive faster than its port sends"]
    pauses_go_from_hop_to_hop_and_block_flows_to_other_receivers,
    #[exact = "a burst must arrive faster than its port sends"]
    pauses_in_a_ring_deadlock_until_a_watchdog_ends_them,
    #[exact = "judges when packets arrive"]
    a_pause_ends_after_its_time_and_at_once_with_a_resume,
    #[exact = "judges when packets arrive"]
    the_watchdog_ends_an_endless_pause,
    #[exact = "judges when packets arrive"]
    a_pause_of_one_priority_stops_no_other,
    #[exact = "a burst must arrive faster than its port sends"]
    a_switch_pauses_the_priority_that_fills_its_memory,
    a_change_of_the_priority_is_refused,
    #[exact = "a burst must arrive faster than its port sends"]
    lost_resumes_delay_packets_and_lose_none,
    #[exact = "a burst must arrive faster than its port sends"]
    a_switch_is_deleted_while_it_pauses,
    the_module_is_removed_after_all_that,
];

const LEN: u32 = 1000;
const DELAY_NS: u64 = 1_000_000;
/// Serialization of a packet at 10 Mbit/s.
const PACKET_NS: u64 = 800_000;
const QUANTUM_NS: u64 = 51_200;
const PORT: Handle = Handle::new(2, 0);
const CHILD: Handle = Handle::new(3, 0);

fn sleep(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// A port: its rate, the options of `port`, and its child.
#[derive(Clone, Copy)]
struct Build<'a> {
    rate: &'a str,
    options: &'a str,
    child: &'a str,
}

const UNLIMITED: &str = "pfifo limit 1000000";

fn build(network: &mut Network, node: usize, link: &Link, build: &Build<'_>) -> Result<()> {
    let Build {
        rate,
        options,
        child,
    } = build;
    let dev = link.name();
    for line in [
        format!("qdisc add dev {dev} root handle 1: wire rate {rate} delay 1ms"),
        format!("qdisc add dev {dev} parent 1: handle 2: port {options}"),
        format!("qdisc add dev {dev} parent 2: handle 3: {child}"),
    ] {
        network.tc(node, &line)?;
    }
    Ok(())
}

fn qdisc(network: &mut Network, node: usize, link: &Link) -> Result<Qdisc> {
    network.qdisc_at(node, link, PORT)
}

fn stats(network: &mut Network, node: usize, link: &Link) -> Result<Stats> {
    stats_of(network, node, link, PORT)
}

fn stats_of(network: &mut Network, node: usize, link: &Link, handle: Handle) -> Result<Stats> {
    let qdisc = network.qdisc_at(node, link, handle)?;
    Stats::from_bytes(&qdisc.app).context("short statistics")
}

/// Sends a frame of priority flow control from a node.
fn send_pause(sender: &Sender, link: &Link, from: usize, content: &Frame) -> Result<()> {
    let mut frame = GROUP.to_vec();
    frame.extend(link.address(from));
    frame.extend(ETHERTYPE.to_be_bytes());
    frame.extend(content.encode());
    sender.send_frame(&frame).map(drop)
}

/// `tc` refuses a command with this reason.
fn refuses(network: &mut Network, line: &str, reason: &str) -> Result<()> {
    let refused = network.tc(0, line).map_err(|error| format!("{error:#}"));
    ensure!(
        refused.as_ref().is_err_and(|said| said.contains(reason)),
        "{refused:?}"
    );
    Ok(())
}

fn packet(id: u64, flow: u32) -> Packet {
    Packet {
        id,
        rank: 0,
        flow,
        len: LEN,
    }
}

/// Sends packets until the qdisc drops one; returns how many it took.
fn fill(sender: &mut Sender) -> Result<u64> {
    for id in 0..10_000 {
        if !sender.send(&packet(id, 0))? {
            return Ok(id);
        }
    }
    anyhow::bail!("nothing was dropped")
}

/// Sends packets of a flow from a node to another one.
fn send(
    sender: &mut Sender,
    link: &Link,
    (from, to): (usize, usize),
    ids: std::ops::Range<u64>,
) -> Result<()> {
    for id in ids {
        sender.send_to(
            &packet(id, from as u32),
            &link.destination(from, ip(to)),
            None,
        )?;
    }
    Ok(())
}

/// A switch, node 0, with two links of its own packets.
struct Two {
    network: Network,
    links: [Link; 2],
    senders: [Sender; 2],
}

impl Two {
    fn new(options: &str, child: &str) -> Result<Self> {
        let mut network = Network::new(3)?;
        let links = [network.link(0, 1)?, network.link(0, 2)?];
        for link in &links {
            let child = Build {
                rate: "10mbit",
                options,
                child,
            };
            build(&mut network, 0, link, &child)?;
        }
        let senders = [network.sender(0, &links[0])?, network.sender(0, &links[1])?];
        Ok(Self {
            network,
            links,
            senders,
        })
    }

    fn stats(&mut self, port: usize) -> Result<Stats> {
        stats(&mut self.network, 0, &self.links[port])
    }
}

fn two_ports_share_one_memory(_: &Context) -> Result<()> {
    let mut two = Two::new("memory 60000 alpha 1", UNLIMITED)?;
    // One is on the wire. Q ≤ 60 - Q.
    let first = fill(&mut two.senders[0])?;
    ensure!(first == 1 + 30, "{first}");
    let second = fill(&mut two.senders[1])?;
    ensure!(second == 1 + 15, "{second}");
    let stats = two.stats(1)?;
    ensure!(stats.memory_backlog == 45_000, "{stats:?}");
    ensure!(stats.highest_memory_backlog == 45_000, "{stats:?}");
    ensure!(stats.share == 15_000, "{stats:?}");
    ensure!(stats.dropped_share == 1, "{stats:?}");
    let drops = qdisc(&mut two.network, 0, &two.links[1])?.drops;
    ensure!(drops == 1, "{drops}");
    // The first port sends ten packets, and the second one no more than that.
    sleep(8);
    let third = fill(&mut two.senders[1])?;
    ensure!(third > 10 && third < 20, "{third}");
    sleep(100);
    let stats = two.stats(0)?;
    ensure!(stats.memory_backlog == 0, "{stats:?}");
    ensure!(stats.highest_backlog == 30_000, "{stats:?}");
    Ok(())
}

fn packets_that_a_child_drops_leave_the_memory(_: &Context) -> Result<()> {
    // A child that drops what arrives, and two that drop what is inside.
    for child in [
        "pfifo limit 5",
        "pfifo_head_drop limit 5",
        "fq_codel limit 5 noecn",
    ] {
        let mut two = Two::new("memory 60000", child)?;
        for id in 0..20 {
            two.senders[0].send(&packet(id, id as u32 % 3))?;
        }
        // The other port asks for what is free. fq_codel drops several packets at once.
        let inside = two.network.qdisc_at(0, &two.links[0], CHILD)?.backlog;
        ensure!((3_000..=5_000).contains(&inside), "{child}: {inside}");
        let stats = two.stats(1)?;
        ensure!(
            stats.memory_backlog == u64::from(inside),
            "{child}: {inside}, {stats:?}"
        );
        sleep(100);
        let stats = two.stats(1)?;
        ensure!(stats.memory_backlog == 0, "{child}: {stats:?}");
    }
    // One that drops when it is asked for a packet.
    let mut two = Two::new("memory 200000", "codel target 1ms interval 2ms noecn")?;
    for id in 0..80 {
        two.senders[0].send(&packet(id, 0))?;
    }
    sleep(200);
    let stats = two.stats(1)?;
    ensure!(stats.memory_backlog == 0, "codel: {stats:?}");
    let stats = two.stats(0)?;
    let dropped = [
        stats.dropped_share,
        stats.dropped_memory,
        stats.dropped_headroom,
    ];
    ensure!(dropped == [0; 3], "{stats:?}");
    // The kernel counts what codel drops for its parents too.
    let drops = qdisc(&mut two.network, 0, &two.links[0])?.drops;
    let inner = two.network.qdisc_at(0, &two.links[0], CHILD)?.drops;
    ensure!(inner != 0 && drops == inner, "{drops} of codel's {inner}");
    Ok(())
}

fn the_bytes_of_a_replaced_child_leave_the_memory(_: &Context) -> Result<()> {
    let mut two = Two::new("memory 60000", UNLIMITED)?;
    fill(&mut two.senders[0])?;
    let dev = two.links[0].name();
    let line = format!("qdisc replace dev {dev} parent 2: handle 4: red limit 100000 avpkt 1000");
    two.network.tc(0, &line)?;
    let stats = two.stats(1)?;
    ensure!(stats.memory_backlog == 0, "{stats:?}");
    let line = format!("qdisc del dev {dev} root");
    fill(&mut two.senders[0])?;
    two.network.tc(0, &line)?;
    let stats = two.stats(1)?;
    ensure!(stats.memory_backlog == 0, "{stats:?}");
    Ok(())
}

/// Bursts into a child leave nothing behind in the port or in the memory.
fn account(cx: &Context, child: &str) -> Result<()> {
    const PACKETS: u64 = 200;
    let mut two = Two::new("memory 100000", child)?;
    let receiver = two.network.receiver(1)?;
    for id in 0..PACKETS {
        let packet = Packet {
            rank: (id * 7 % 11) as u32,
            ..packet(id, (id % 5) as u32)
        };
        two.senders[0].send(&packet)?;
        if id % 50 == 49 {
            sleep(20);
        }
    }
    sleep(500);
    let arrived = receiver.arrivals()?.len();
    let port = qdisc(&mut two.network, 0, &two.links[0])?;
    let stats = two.stats(0)?;
    cx.note(format!("{child}: {arrived} arrived, {stats:?}"));
    ensure!((port.qlen, port.backlog) == (0, 0), "{child}: {port:?}");
    ensure!(stats.memory_backlog == 0, "{child}: {stats:?}");
    ensure!(arrived > 20, "{child}: {arrived}");
    Ok(())
}

fn a_burst_into_the_child_of_each_kind_is_accounted_for(cx: &Context) -> Result<()> {
    for child in [
        UNLIMITED,
        "bfifo limit 20000",
        "red limit 30000 min 5000 max 10000 avpkt 1000 burst 8 bandwidth 10mbit",
        "fq_codel limit 20",
        "fq",
        "prio",
        "sfq limit 16",
        "pfabric limit 12",
        "tbf rate 5mbit burst 2kb limit 50000",
        "choke limit 30 min 5 max 15 avpkt 1000 burst 6 bandwidth 10mbit",
        "ets bands 3 strict 1 quanta 1514 3028",
        "netem delay 3ms limit 1000",
        "skbprio limit 10",
        "hold backlog 0",
    ] {
        account(cx, child)?;
    }
    Ok(())
}

fn a_burst_into_sfb_is_accounted_for(cx: &Context) -> Result<()> {
    account(cx, "sfb limit 50 max 20 target 10")
}

fn headrooms_that_take_the_whole_memory_are_refused_with_a_reason(_: &Context) -> Result<()> {
    let mut network = Network::new(3)?;
    let (first, second) = (network.link(0, 1)?, network.link(0, 2)?);
    let options = "memory 100000 pfc rate 10mbit headroom 50000";
    network.tc(
        0,
        &format!("qdisc add dev {} root port {options}", first.name()),
    )?;
    let line = format!("qdisc add dev {} root port {options}", second.name());
    let reason = "The headrooms of the switch's ports must be less than its memory";
    refuses(&mut network, &line, reason)
}

/// Hosts, a switch, and receivers. Hosts' links have 100 Mbit/s, receivers' links 10 Mbit/s.
struct Incast {
    network: Network,
    hosts: usize,
    /// Of each host, then of each receiver.
    links: Vec<Link>,
}

impl Incast {
    fn new(hosts: usize, receivers: usize, switch: &str, host: &str) -> Result<Self> {
        let mut network = Network::new(hosts + receivers + 1)?;
        let middle = hosts + receivers;
        network.forward(middle)?;
        let mut links = Vec::new();
        for node in 0..middle {
            let link = network.link(node, middle)?;
            let rate = if node < hosts { "100mbit" } else { "10mbit" };
            for (end, options) in [(node, host), (middle, switch)] {
                let options = options.replace("RATE", rate);
                let options = Build {
                    rate,
                    options: &options,
                    child: UNLIMITED,
                };
                build(&mut network, end, &link, &options)?;
            }
            if node >= hosts {
                network.route(middle, &link, ip(node))?;
            }
            links.push(link);
        }
        Ok(Self {
            network,
            hosts,
            links,
        })
    }

    fn switch(&self) -> usize {
        self.links.len()
    }

    /// The statistics of the switch's port to a node.
    fn port(&mut self, node: usize) -> Result<Stats> {
        let (switch, link) = (self.switch(), self.links[node]);
        stats(&mut self.network, switch, &link)
    }

    /// The statistics of a node's port.
    fn host(&mut self, node: usize) -> Result<Stats> {
        let link = self.links[node];
        stats(&mut self.network, node, &link)
    }

    /// Each host sends a number of packets to the first receiver.
    fn burst(&mut self, packets: u64) -> Result<()> {
        for node in 0..self.hosts {
            let link = self.links[node];
            let mut sender = self.network.sender(node, &link)?;
            let first = node as u64 * packets;
            let to = self.hosts;
            send(&mut sender, &link, (node, to), first..first + packets)?;
        }
        Ok(())
    }
}

const SWITCH: &str = "memory 200000 pfc rate RATE hrtt 3ms";
const HOST: &str = "pfc rate RATE";

fn a_pause_frame_has_the_bytes_of_the_standard(_: &Context) -> Result<()> {
    let mut incast = Incast::new(
        1,
        1,
        "memory 200000 pfc rate RATE hrtt 3ms quanta 4660",
        HOST,
    )?;
    let receiver = Receiver::open_for(incast.network.namespace(0)?, ETHERTYPE)?;
    incast.burst(100)?;
    sleep(500);
    let frames = receiver.frames()?;
    let switch = incast.switch();
    let from = incast.links[0].address(switch);
    let expected = |quanta: u16| {
        let mut frame = vec![0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];
        frame.extend(from);
        // MAC Control, priority flow control, and the vector of priority 3 alone.
        frame.extend([0x88, 0x08, 0x01, 0x01, 0x00, 0x08]);
        frame.extend([0, 0, 0, 0, 0, 0]);
        frame.extend(quanta.to_be_bytes());
        frame.resize(60, 0);
        frame
    };
    let (first, last) = (frames.first(), frames.last());
    let first = first.context("no pause frame")?.bytes().to_vec();
    ensure!(first == expected(0x1234), "{first:02x?}");
    let last = last.context("no pause frame")?.bytes().to_vec();
    ensure!(last == expected(0), "{last:02x?}");
    Ok(())
}

fn an_incast_loses_packets_without_pauses_and_none_with_them(cx: &Context) -> Result<()> {
    const HOSTS: usize = 4;
    const PACKETS: u64 = 150;
    for pfc in [false, true] {
        let (switch, host) = match pfc {
            false => ("memory 200000", ""),
            // Three frames of 100 Mbit/s in 3 ms, for each of five ports.
            true => ("memory 400000 pfc rate RATE hrtt 3ms", HOST),
        };
        let mut incast = Incast::new(HOSTS, 1, switch, host)?;
        let receiver = incast.network.receiver(HOSTS)?;
        incast.burst(PACKETS)?;
        sleep(1_500);
        let arrived: BTreeSet<u64> = receiver.arrivals()?.iter().map(|it| it.id).collect();
        let out = incast.port(HOSTS)?;
        let dropped = out.dropped_share + out.dropped_memory + out.dropped_headroom;
        cx.note(format!("pfc {pfc}: {} arrived, {out:?}", arrived.len()));
        let sent = HOSTS as u64 * PACKETS;
        ensure!(arrived.len() as u64 + dropped == sent, "{out:?}");
        ensure!((dropped > 0) != pfc, "{out:?}");
        ensure!(out.memory_backlog == 0, "{out:?}");
        for node in 0..HOSTS {
            let (told, heard) = (incast.port(node)?, incast.host(node)?);
            cx.note(format!("{node}: {told:?}"));
            ensure!((told.pauses_sent > 0) == pfc, "{told:?}");
            let sent = (told.pauses_sent, told.resumes_sent);
            let received = (heard.pauses_received, heard.resumes_received);
            ensure!(sent == received, "sent {sent:?}, received {received:?}");
            ensure!((heard.paused_ns > 0) == pfc, "{heard:?}");
            ensure!((told.pausing, heard.paused, told.unsent) == (0, 0, 0));
            // 37,500 bytes in 3 ms, and two frames.
            ensure!(told.highest_headroom_backlog <= 40_528, "{told:?}");
            ensure!((told.ingress_backlog, told.headroom_backlog) == (0, 0));
        }
    }
    Ok(())
}

/// Nodes 0 and 1 → switch 2 → switch 3 → receivers 4 and 5, whose links are slow.
struct Row {
    network: Network,
    links: [Link; 5],
}

impl Row {
    fn new() -> Result<Self> {
        let mut network = Network::new(6)?;
        let ends = [(0, 2), (1, 2), (2, 3), (3, 4), (3, 5)];
        let mut links = Vec::new();
        for (a, b) in ends {
            links.push(network.link(a, b)?);
        }
        let links: [Link; 5] = links.try_into().expect("five links were made");
        for switch in [2, 3] {
            network.forward(switch)?;
        }
        for receiver in [4, 5] {
            network.route(2, &links[2], ip(receiver))?;
            network.route(3, &links[receiver - 1], ip(receiver))?;
        }
        for ((a, b), link) in ends.iter().zip(&links) {
            let rate = if *a == 3 { "10mbit" } else { "100mbit" };
            for end in [*a, *b] {
                let options = if [2, 3].contains(&end) { SWITCH } else { HOST };
                let options = options.replace("RATE", rate);
                let options = Build {
                    rate,
                    options: &options,
                    child: UNLIMITED,
                };
                build(&mut network, end, link, &options)?;
            }
        }
        Ok(Self { network, links })
    }
}

fn pauses_go_from_hop_to_hop_and_block_flows_to_other_receivers(cx: &Context) -> Result<()> {
    const PACKETS: u64 = 300;
    let mut row = Row::new()?;
    let [first, second, middle, fourth, _] = row.links;
    let (long, short) = (row.network.receiver(4)?, row.network.receiver(5)?);
    let mut sender = row.network.sender(0, &first)?;
    send(&mut sender, &first, (0, 4), 0..PACKETS)?;
    sleep(50);
    let told = stats(&mut row.network, 3, &middle)?;
    let obeyed = stats(&mut row.network, 2, &middle)?;
    let host = stats(&mut row.network, 0, &first)?;
    ensure!(told.pauses_sent > 0, "{told:?}");
    ensure!(
        obeyed.pauses_received > 0 && host.pauses_received > 0,
        "{host:?}"
    );
    // "This stops all the traffic traversing the paused link, even those flows that are destined to
    // other uncongested egress ports."
    let mut other = row.network.sender(1, &second)?;
    send(&mut other, &second, (1, 5), 1000..1010)?;
    // Three hops of 1 ms, and ten packets at 0.8 ms: 11 ms without pauses.
    sleep(30);
    let soon = short.arrivals()?.len();
    cx.note(format!("{soon} of 10 packets in 30 ms"));
    ensure!(soon < 10, "nothing was blocked");
    sleep(1_000);
    ensure!(soon + short.arrivals()?.len() == 10, "not all arrived");
    let arrived = long.arrivals()?;
    ensure!(arrived.len() as u64 == PACKETS, "{}", arrived.len());
    ensure!(arrived.is_sorted_by_key(|it| it.id), "reordered");
    // The slow link was never idle.
    let time = arrived[arrived.len() - 1].time - arrived[0].time;
    let busy = (PACKETS - 1) * PACKET_NS;
    cx.note(format!("the bottleneck was busy {busy} of {time} ns"));
    ensure!(time < busy * 102 / 100, "{time} ns instead of {busy}");
    let out = stats(&mut row.network, 3, &fourth)?;
    let dropped = (out.dropped_share, out.dropped_memory, out.dropped_headroom);
    ensure!(dropped == (0, 0, 0), "{out:?}");
    Ok(())
}

/// A ring with `port` at every port. `options`: further options of the switches' ports.
fn ring(options: &str) -> Result<Ring> {
    let mut ring = Ring::new()?;
    let switch_options = format!("{SWITCH} {options}");
    for switch in 0..Ring::SWITCHES {
        // A host's link is twice as fast as the ring.
        let host = (ring.hosts[switch], Ring::host(switch), HOST, "20mbit");
        let next = (
            ring.ring[switch],
            Ring::next(switch),
            &*switch_options,
            "10mbit",
        );
        for (link, other, other_options, rate) in [host, next] {
            for (end, options) in [(switch, &*switch_options), (other, other_options)] {
                let options = Build {
                    rate,
                    options: &options.replace("RATE", rate),
                    child: UNLIMITED,
                };
                build(&mut ring.network, end, &link, &options)?;
            }
        }
    }
    Ok(ring)
}

fn pauses_in_a_ring_deadlock_until_a_watchdog_ends_them(cx: &Context) -> Result<()> {
    const PACKETS: u64 = 100;
    for options in ["", "watchdog 50ms"] {
        let mut ring = ring(options)?;
        // All of it takes some 160 ms.
        let [arrived, later] = ring.exchange(PACKETS, send)?;
        let (mut paused, mut released, mut dropped) = (0, 0, 0);
        for switch in 0..Ring::SWITCHES {
            let out = stats(&mut ring.network, switch, &ring.ring[switch])?;
            let host = stats(&mut ring.network, switch, &ring.hosts[switch])?;
            paused += out.paused;
            released += out.released;
            for port in [&out, &host] {
                dropped += port.dropped_share + port.dropped_memory + port.dropped_headroom;
            }
        }
        cx.note(format!(
            "{options:?}: {arrived} arrived, then {later}; {dropped} dropped, {released} released"
        ));
        let all = Ring::SWITCHES as u64 * PACKETS;
        match options {
            "" => ensure!(
                arrived < all && later == 0 && paused == 3 && dropped == 0,
                "no deadlock: {arrived} of {all}, then {later}; {paused} ports are paused"
            ),
            _ => ensure!(
                arrived + dropped == all && released > 0 && paused == 0,
                "{arrived} of {all} arrived, {dropped} were dropped; {paused} ports are paused"
            ),
        }
    }
    Ok(())
}

/// A port whose neighbour pauses it with frames of the test's.
struct Neighbour {
    network: Network,
    link: Link,
    sender: Sender,
    pauser: Sender,
    receiver: Receiver,
}

impl Neighbour {
    fn new(options: &str) -> Result<Self> {
        let mut network = Network::new(2)?;
        let link = network.link(0, 1)?;
        let options = Build {
            rate: "10mbit",
            options,
            child: UNLIMITED,
        };
        build(&mut network, 0, &link, &options)?;
        Ok(Self {
            sender: network.sender(0, &link)?,
            pauser: network.sender(1, &link)?,
            receiver: network.receiver(1)?,
            network,
            link,
        })
    }

    fn pause(&self, quanta: u16) -> Result<()> {
        send_pause(&self.pauser, &self.link, 1, &Frame::about(3, quanta))
    }

    fn stats(&mut self) -> Result<Stats> {
        stats(&mut self.network, 0, &self.link)
    }
}

fn a_pause_ends_after_its_time_and_at_once_with_a_resume(cx: &Context) -> Result<()> {
    let mut neighbour = Neighbour::new("pfc rate 10mbit")?;
    // The time at which an unpaused packet arrives, after the time at which it was sent.
    let start = |neighbour: &mut Neighbour, id| -> Result<u64> {
        neighbour.sender.stamp_departures()?;
        neighbour.sender.send(&packet(id, 0))?;
        neighbour.sender.departure()
    };
    let sent = start(&mut neighbour, 0)?;
    let arrived = neighbour.receiver.expect(1, Duration::from_millis(10))?[0];
    let alone = arrived.time - sent;
    ensure!(alone.abs_diff(PACKET_NS + DELAY_NS) < 50_000, "{alone} ns");
    // 51.2 ms.
    neighbour.pause(1_000)?;
    let sent = start(&mut neighbour, 1)?;
    let arrived = neighbour.receiver.expect(1, Duration::from_millis(100))?[0];
    let paused = arrived.time - sent - alone;
    cx.note(format!("paused for {paused} ns"));
    ensure!(paused.abs_diff(1_000 * QUANTUM_NS) < 100_000, "{paused} ns");
    // A packet that has begun is completed.
    start(&mut neighbour, 2)?;
    neighbour.pause(65_535)?;
    start(&mut neighbour, 3)?;
    let arrived = neighbour.receiver.expect(1, Duration::from_millis(20))?[0];
    ensure!(arrived.id == 2, "{arrived:?}");
    ensure!(neighbour.stats()?.paused == 1, "it is not paused");
    neighbour.pause(0)?;
    let arrived = neighbour.receiver.expect(1, Duration::from_millis(10))?[0];
    ensure!(arrived.id == 3, "{arrived:?}");
    let stats = neighbour.stats()?;
    ensure!((stats.paused, stats.lapsed) == (0, 1), "{stats:?}");
    ensure!(
        (stats.pauses_received, stats.resumes_received) == (2, 1),
        "{stats:?}"
    );
    let expected = 1_000 * QUANTUM_NS + 20_000_000;
    ensure!(stats.paused_ns.abs_diff(expected) < 2_000_000, "{stats:?}");
    // Other frames of MAC Control are ignored, and without pfc all are.
    let dev = neighbour.link.name();
    neighbour.network.tc(
        0,
        &format!("qdisc change dev {dev} parent 1: handle 2: port nopfc"),
    )?;
    neighbour.pause(65_535)?;
    start(&mut neighbour, 4)?;
    neighbour.receiver.expect(1, Duration::from_millis(10))?;
    Ok(())
}

fn the_watchdog_ends_an_endless_pause(_: &Context) -> Result<()> {
    let mut neighbour = Neighbour::new("pfc rate 10mbit watchdog 50ms")?;
    neighbour.pause(65_535)?;
    neighbour.sender.send(&packet(0, 0))?;
    sleep(40);
    ensure!(
        neighbour.receiver.arrivals()?.is_empty(),
        "it was not paused"
    );
    sleep(20);
    ensure!(
        neighbour.receiver.arrivals()?.len() == 1,
        "it was not released"
    );
    neighbour.pause(65_535)?;
    neighbour.sender.send(&packet(1, 0))?;
    sleep(10);
    ensure!(
        neighbour.receiver.arrivals()?.len() == 1,
        "it is not ignored"
    );
    let stats = neighbour.stats()?;
    ensure!((stats.released, stats.ignored) == (1, 1), "{stats:?}");
    // A change ends a pause at once, if that is what it asks for.
    neighbour.pause(0)?;
    neighbour.pause(65_535)?;
    neighbour.sender.send(&packet(2, 0))?;
    sleep(10);
    ensure!(
        neighbour.receiver.arrivals()?.is_empty(),
        "it is not paused again"
    );
    let dev = neighbour.link.name();
    let line = format!("qdisc change dev {dev} parent 1: handle 2: port nopfc");
    neighbour.network.tc(0, &line)?;
    sleep(10);
    ensure!(
        neighbour.receiver.arrivals()?.len() == 1,
        "it is still paused"
    );
    Ok(())
}

/// The ports of two priorities, 3 first, below one `prio`.
const PRIORITIES: [(u8, Handle); 2] = [(3, Handle::new(0x10, 0)), (5, Handle::new(0x11, 0))];

/// `wire`, `prio`, and a port for each priority. Packets of rank 0 have the first priority, packets
/// of rank 1 have the second, and pause frames go before all of them.
fn build_priorities(
    network: &mut Network,
    node: usize,
    link: &Link,
    (rate, options): (&str, &str),
) -> Result<()> {
    let dev = link.name();
    let mut lines = vec![
        format!("qdisc add dev {dev} root handle 1: wire rate {rate} delay 1ms"),
        format!(
            "qdisc add dev {dev} parent 1: handle 2: prio bands 3 priomap 1 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2"
        ),
        format!("filter add dev {dev} parent 2: protocol 0x8808 prio 1 matchall classid 2:1"),
    ];
    for (band, (priority, handle)) in (2..).zip(PRIORITIES) {
        let handle = format!("{:x}", handle.0 >> 16);
        lines.push(format!(
            "qdisc add dev {dev} parent 2:{band} handle {handle}: port {options} priority {priority}"
        ));
        lines.push(format!("qdisc add dev {dev} parent {handle}: {UNLIMITED}"));
    }
    for line in lines {
        network.tc(node, &line)?;
    }
    Ok(())
}

/// The statistics of both ports.
fn of_priorities(network: &mut Network, node: usize, link: &Link) -> Result<[Stats; 2]> {
    let mut of = |(_, handle)| stats_of(network, node, link, handle);
    let [first, second] = PRIORITIES;
    Ok([of(first)?, of(second)?])
}

fn a_pause_of_one_priority_stops_no_other(_: &Context) -> Result<()> {
    let mut network = Network::new(2)?;
    let link = network.link(0, 1)?;
    build_priorities(&mut network, 0, &link, ("10mbit", "pfc rate 10mbit"))?;
    let mut sender = network.sender(0, &link)?;
    let pauser = network.sender(1, &link)?;
    let receiver = network.receiver(1)?;
    let pause = |times: [Option<u16>; 2]| -> Result<()> {
        let mut content = Frame::default();
        [content.times[3], content.times[5]] = times;
        send_pause(&pauser, &link, 1, &content)
    };
    let mut burst = |first: u64| -> Result<()> {
        for id in first..first + 10 {
            let rank = (id % 2) as u32;
            sender.send(&Packet {
                rank,
                ..packet(id, 0)
            })?;
        }
        Ok(())
    };
    let parity = |receiver: &Receiver| -> Result<[usize; 2]> {
        let arrived = receiver.arrivals()?;
        let odd = arrived.iter().filter(|it| it.id % 2 == 1).count();
        Ok([arrived.len() - odd, odd])
    };
    pause([Some(65_535), None])?;
    burst(0)?;
    sleep(20);
    let arrived = parity(&receiver)?;
    ensure!(arrived == [0, 5], "{arrived:?}");
    let [first, second] = of_priorities(&mut network, 0, &link)?;
    ensure!((first.paused, second.paused) == (1, 0), "{first:?}");
    // One frame resumes one priority, and pauses the other.
    pause([Some(0), Some(65_535)])?;
    burst(10)?;
    sleep(20);
    let arrived = parity(&receiver)?;
    ensure!(arrived == [10, 0], "{arrived:?}");
    let [first, second] = of_priorities(&mut network, 0, &link)?;
    ensure!((first.paused, second.paused) == (0, 1), "{first:?}");
    ensure!(
        (first.pauses_received, first.resumes_received) == (1, 1),
        "{first:?}"
    );
    ensure!(
        (second.pauses_received, second.resumes_received) == (1, 0),
        "{second:?}"
    );
    pause([None, Some(0)])?;
    sleep(20);
    let arrived = parity(&receiver)?;
    ensure!(arrived == [0, 5], "{arrived:?}");
    Ok(())
}

fn a_switch_pauses_the_priority_that_fills_its_memory(cx: &Context) -> Result<()> {
    const PACKETS: u64 = 150;
    let mut network = Network::new(3)?;
    let (host, out) = (network.link(0, 1)?, network.link(1, 2)?);
    network.forward(1)?;
    network.route(1, &out, ip(2))?;
    let switch = "memory 200000 pfc hrtt 3ms rate";
    build_priorities(&mut network, 0, &host, ("100mbit", "pfc rate 100mbit"))?;
    build_priorities(
        &mut network,
        1,
        &host,
        ("100mbit", &format!("{switch} 100mbit")),
    )?;
    build_priorities(
        &mut network,
        1,
        &out,
        ("10mbit", &format!("{switch} 10mbit")),
    )?;
    // `skb->priority` does not cross a link, so the length decides here.
    let long = "u32 match u16 0x0300 0xff00 at 2 classid 2:3";
    let filter = format!(
        "filter add dev {} parent 2: protocol ip prio 2 {long}",
        out.name()
    );
    network.tc(1, &filter)?;
    let receiver = network.receiver(2)?;
    let mut sender = network.sender(0, &host)?;
    let to = host.destination(0, ip(2));
    for id in 0..PACKETS {
        let long = Packet {
            rank: 1,
            ..packet(id, 0)
        };
        sender.send_to(&long, &to, None)?;
    }
    sleep(30);
    let [urgent, filling] = of_priorities(&mut network, 1, &host)?;
    cx.note(format!("{filling:?}"));
    ensure!((urgent.pausing, filling.pausing) == (0, 1), "{filling:?}");
    let [urgent, paused] = of_priorities(&mut network, 0, &host)?;
    ensure!((urgent.paused, paused.paused) == (0, 1), "{paused:?}");
    receiver.arrivals()?;
    // The other priority passes through both nodes meanwhile.
    for id in PACKETS..PACKETS + 10 {
        let short = Packet {
            len: 200,
            ..packet(id, 0)
        };
        sender.send_to(&short, &to, None)?;
    }
    sleep(15);
    let soon = receiver.arrivals()?;
    let soon = soon.iter().filter(|it| it.id >= PACKETS).count();
    ensure!(soon == 10, "{soon} of 10 packets passed");
    sleep(1_000);
    let [first, second] = of_priorities(&mut network, 1, &out)?;
    let dropped = first.dropped_headroom + second.dropped_headroom;
    ensure!(dropped == 0, "{second:?}");
    let [_, told] = of_priorities(&mut network, 1, &host)?;
    ensure!(told.pauses_sent > 0 && told.pausing == 0, "{told:?}");
    ensure!(told.memory_backlog == 0, "{told:?}");
    Ok(())
}

fn a_change_of_the_priority_is_refused(_: &Context) -> Result<()> {
    let mut network = Network::new(2)?;
    let dev = network.link(0, 1)?.name();
    let line = |verb, options| format!("qdisc {verb} dev {dev} root handle 1: port {options}");
    network.tc(0, &line("add", "priority 2"))?;
    network.tc(0, &line("change", "priority 2 alpha 2"))?;
    refuses(
        &mut network,
        &line("change", "priority 4"),
        "Priority cannot be changed",
    )
}

fn lost_resumes_delay_packets_and_lose_none(cx: &Context) -> Result<()> {
    const PACKETS: u64 = 150;
    // 10,000 quanta are 51.2 ms at 100 Mbit/s.
    let switch = "memory 400000 pfc rate RATE hrtt 3ms quanta 10000";
    let mut incast = Incast::new(2, 1, switch, HOST)?;
    for node in 0..2 {
        let name = incast.links[node].name();
        let network = &mut incast.network;
        network.tc(node, &format!("qdisc add dev {name} clsact"))?;
        let filter = format!("filter add dev {name} ingress protocol 0x8808 prio 1");
        // Half of all frames are lost.
        let action = "matchall action pass random determ drop 2";
        network.tc(node, &format!("{filter} {action}"))?;
    }
    let receiver = incast.network.receiver(2)?;
    incast.burst(PACKETS)?;
    sleep(2_000);
    let out = incast.port(2)?;
    let (told, heard) = (incast.port(0)?, incast.host(0)?);
    cx.note(format!("{told:?}\n{heard:?}"));
    ensure!(heard.pauses_received < told.pauses_sent, "none was lost");
    let arrived = receiver.arrivals()?.len() as u64;
    // A pause may be lost, and then what is not paused.
    ensure!(
        arrived + out.dropped_headroom == 2 * PACKETS,
        "{arrived}, {out:?}"
    );
    ensure!((heard.paused, told.pausing) == (0, 0), "{heard:?}");
    Ok(())
}

fn a_switch_is_deleted_while_it_pauses(_: &Context) -> Result<()> {
    let mut incast = Incast::new(2, 1, SWITCH, HOST)?;
    incast.burst(200)?;
    sleep(30);
    ensure!(incast.port(1)?.pausing == 1, "it pauses nothing");
    // One port's qdiscs, then all of the switch.
    let (switch, link) = (incast.switch(), incast.links[1]);
    let netlink = incast.network.netlink(switch)?;
    netlink.delete_qdisc(link.index, Handle::ROOT)?;
    sleep(10);
    ensure!(incast.host(1)?.resumes_received > 0, "it was not resumed");
    incast.network.delete(switch);
    sleep(10);
    Ok(())
}

fn the_module_is_removed_after_all_that(_: &Context) -> Result<()> {
    let mut incast = Incast::new(2, 1, SWITCH, HOST)?;
    incast.burst(100)?;
    sleep(20);
    let in_use = modules::remove("sch_port");
    ensure!(in_use == Err(Errno::EWOULDBLOCK), "{in_use:?}");
    let (switch, link) = (incast.switch(), incast.links[0]);
    let port = qdisc(&mut incast.network, switch, &link)?;
    ensure!(port.kind == KIND, "{port:?}");
    drop(incast);
    modules::wait_until_unused()?;
    modules::remove("sch_port")?;
    ensure!(modules::users("sch_port").is_none(), "it is still there");
    let mut incast = Incast::new(2, 1, SWITCH, HOST)?;
    let receiver = incast.network.receiver(2)?;
    incast.burst(100)?;
    sleep(500);
    ensure!(receiver.arrivals()?.len() == 200, "not all arrived");
    Ok(())
}
