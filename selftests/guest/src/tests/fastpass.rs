// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hosts with `fastpass`, and `weft-arbiter`: packets wait for timeslots, go in them, and get
//! through whatever becomes of the arbiter and of what is said to it.
//!
//! ```text
//!   1, the arbiter ──┐                     4, which receives; a
//!   2, a host ───────┼── 0, a switch ────  second arbiter            10 Mbit/s: a packet takes 1.2 ms
//!   3, a host ───────┘
//! ```

use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context as _, Error, Result, ensure};
use weft_ktap::{Context, tests};
use weft_mechanisms::common::tag::Tag;
use weft_mechanisms::fastpass::KIND;
use weft_mechanisms::fastpass::frame::{Head, Kind, MAX_SIZE, encode, encode_reset};
use weft_mechanisms::fastpass::options::DEFAULT_PORT;
use weft_mechanisms::fastpass::stats::Stats;

use crate::cgroup_program::Program;
use crate::model::Packet;
use crate::network::{Link, Network};
use crate::packets::{Arrival, Frame, Receiver, Sender};
use crate::trace::Trace;

tests![
    #[exact = "judges when packets arrive"]
    packets_wait_for_the_arbiter_and_leave_in_its_timeslots,
    packets_to_addresses_that_are_not_endpoints_do_not_wait,
    #[exact = "packets must meet their timeslots"]
    two_senders_share_a_receiver_and_its_queue_stays_short,
    packets_carry_their_path,
    an_arbiter_that_restarts_receives_all_requests_anew,
    a_third_of_the_control_packets_may_be_lost,
    #[exact = "judges how long no arbiter schedules"]
    arbiters_take_over_from_each_other,
    #[exact = "packets must meet their timeslots"]
    an_arbiter_that_stalled_allocates_nothing_more,
    #[exact = "arbiters must answer in time"]
    the_second_arbiter_stays_on_standby_while_a_third_of_the_beats_are_lost,
    forged_beats_do_not_keep_an_arbiter_from_taking_over,
    forged_packets_are_ignored,
    a_programs_datagrams_by_the_control_port_wait_for_timeslots,
    an_unprivileged_process_takes_over_no_session,
    a_host_whose_socket_is_destroyed_keeps_its_port_and_continues,
    #[stock]
    security_modules_classify_control_packets,
    control_packets_bypass_rules_for_processes_and_are_counted_as_sent,
    control_packets_are_fragmented_only_if_the_routes_mtu_is_locked,
    a_host_is_deleted_while_its_packets_wait,
];

const SWITCH: usize = 0;
const ARBITER: usize = 1;
const SENDERS: [usize; 2] = [2, 3];
const RECEIVER: usize = 4;

const LEN: u32 = 1514;
/// Bytes of what two arbiters tell each other.
const BEAT: usize = 24;
const TIMESLOT: Duration = Duration::from_micros(1270);

fn address(node: usize) -> [u8; 4] {
    [10, 0, 0, 1 + node as u8]
}

fn sleep(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// An arbiter, which ends with this.
struct Arbiter(Child);

impl Drop for Arbiter {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Rack {
    network: Network,
    /// To nodes 1 to 4.
    links: [Link; 4],
    senders: [Sender; 2],
    receiver: Receiver,
    arrived: Vec<Arrival>,
    sent: u64,
}

impl Rack {
    fn new() -> Result<Self> {
        Self::with("")
    }

    /// Whose hosts know of two arbiters.
    fn of_two() -> Result<Self> {
        let address = Ipv4Addr::from(address(RECEIVER));
        Self::with(&format!("standby {address}"))
    }

    /// With more options of the hosts' qdiscs.
    fn with(options: &str) -> Result<Self> {
        let mut network = Network::new(5)?;
        network.forward(SWITCH)?;
        let mut links = Vec::new();
        for node in 1..5 {
            links.push(network.link(SWITCH, node)?);
        }
        let links: [Link; 4] = links.try_into().expect("four links were made");
        for node in 1..5 {
            let link = &links[node - 1];
            network.route(SWITCH, link, address(node))?;
            let name = link.name();
            let own = Ipv4Addr::from(address(node));
            let there = network.namespace(node)?;
            there.ip("link set lo up")?;
            there.ip(&format!("address add {own}/32 dev {name}"))?;
            for other in (1..5).filter(|other| *other != node) {
                network.route(node, link, address(other))?;
            }
            network.tc(
                SWITCH,
                &format!("qdisc add dev {name} root handle 1: wire rate 10mbit overhead 24 mpu 84"),
            )?;
            network.tc(
                node,
                &format!("qdisc add dev {name} root handle 1: wire rate 10mbit overhead 24 mpu 84"),
            )?;
        }
        for node in SENDERS {
            let words = format!(
                "qdisc add dev {} parent 1:1 handle 2: fastpass address {} first 10.0.0.2 hosts 4 arbiter 10.0.0.2 \
                 rate 10mbit timeslot {}us timeout 100ms {options}",
                links[node - 1].name(),
                Ipv4Addr::from(address(node)),
                TIMESLOT.as_micros(),
            );
            network.tc(node, &words)?;
        }
        let senders = [
            network.sender(SENDERS[0], &links[SENDERS[0] - 1])?,
            network.sender(SENDERS[1], &links[SENDERS[1] - 1])?,
        ];
        let receiver = network.receiver(RECEIVER)?;
        Ok(Self {
            network,
            links,
            senders,
            receiver,
            arrived: Vec::new(),
            sent: 0,
        })
    }

    fn link(&self, node: usize) -> Link {
        self.links[node - 1]
    }

    fn arbiter(&mut self) -> Result<Arbiter> {
        self.arbiter_at(ARBITER, "")
    }

    fn arbiter_at(&mut self, node: usize, options: &str) -> Result<Arbiter> {
        let mut command = Command::new("weft-arbiter");
        let words = "--first 10.0.0.2 --hosts 4 --timeslot 1270us --lead 25ms --timeout 100ms";
        command.args(words.split(' ').chain(options.split_whitespace()));
        let child = self.network.namespace(node)?.enter(|| command.spawn())?;
        Ok(Arbiter(child.context("starting weft-arbiter")?))
    }

    /// The first of two, which watch each other.
    fn first(&mut self) -> Result<Arbiter> {
        self.arbiter_at(ARBITER, "--peer 10.0.0.5 --window 1s")
    }

    fn second(&mut self) -> Result<Arbiter> {
        self.arbiter_at(RECEIVER, "--peer 10.0.0.2 --second --window 1s")
    }

    /// Sends for so long, some of what can be sent at a time.
    fn send_for(&mut self, ms: u64) -> Result<()> {
        for _ in 0..ms.div_ceil(20) {
            // 15 packets' time.
            self.burst(0, 5, None)?;
            self.burst(1, 5, None)?;
            self.arrived.extend(self.receiver.arrivals()?);
            sleep(20);
        }
        Ok(())
    }

    /// The longest time in which nothing arrived, in ms.
    fn longest_pause(&self) -> u64 {
        let pairs = self.arrived.windows(2);
        let pauses = pairs.map(|pair| pair[1].time.saturating_sub(pair[0].time));
        pauses.max().unwrap_or(0) / 1_000_000
    }

    fn stats(&mut self, node: usize) -> Result<Stats> {
        let link = self.link(node);
        let qdiscs = self.network.netlink(node)?.qdiscs(link.index)?;
        let qdisc = qdiscs.iter().find(|qdisc| qdisc.kind == KIND);
        let qdisc = qdisc.context("there is no fastpass")?;
        Stats::from_bytes(&qdisc.app).context("short statistics")
    }

    /// Sends packets of a sender to the receiver, all at once.
    fn burst(&mut self, sender: usize, packets: u64, tag: Option<Tag>) -> Result<()> {
        let to = self
            .link(SENDERS[sender])
            .destination(SENDERS[sender], address(RECEIVER));
        for id in self.sent..self.sent + packets {
            let packet = Packet {
                id,
                rank: 0,
                flow: sender as u32,
                len: LEN,
            };
            ensure!(
                self.senders[sender].send_to(&packet, &to, tag)?,
                "it is taken"
            );
        }
        self.sent += packets;
        Ok(())
    }

    /// Waits until `packets` packets have arrived in all.
    fn wait_for(&mut self, packets: u64, ms: u64) -> Result<()> {
        for _ in 0..ms.div_ceil(20) {
            self.arrived.extend(self.receiver.arrivals()?);
            if self.arrived.len() as u64 >= packets {
                break;
            }
            sleep(20);
        }
        let arrived = self.arrived.len() as u64;
        ensure!(arrived == packets, "{arrived} of {packets} have arrived");
        Ok(())
    }

    /// All that was sent arrives, each once.
    fn all_arrive(&mut self, ms: u64) -> Result<()> {
        self.wait_for(self.sent, ms)?;
        let mut ids: Vec<u64> = self.arrived.iter().map(|arrival| arrival.id).collect();
        ids.sort_unstable();
        ensure!(ids.into_iter().eq(0..self.sent), "some twice, others not");
        Ok(())
    }
}

fn packets_wait_for_the_arbiter_and_leave_in_its_timeslots(cx: &Context) -> Result<()> {
    let mut rack = Rack::new()?;
    rack.burst(0, 40, None)?;
    sleep(200);
    rack.wait_for(0, 0)?;
    let stats = rack.stats(SENDERS[0])?;
    ensure!(stats.synchronised == 0 && stats.waiting == 40, "{stats:?}");
    // It says that it is there, again and again.
    ensure!((2..8).contains(&stats.said), "{stats:?}");
    let _arbiter = rack.arbiter()?;
    rack.all_arrive(2000)?;
    let in_order = rack.arrived.iter().map(|arrival| arrival.id).eq(0..40);
    ensure!(in_order, "they overtake each other");
    // One in a timeslot: each comes a timeslot after the other, except for the lateness of timers.
    let times = rack
        .arrived
        .windows(2)
        .map(|pair| pair[1].time - pair[0].time);
    let least = times.min().unwrap_or(0);
    ensure!(least > 1_000_000, "two came within {least} ns");
    sleep(200);
    let stats = rack.stats(SENDERS[0])?;
    cx.note(format!("{stats:?}"));
    ensure!(stats.synchronised == 1 && stats.resets == 1, "{stats:?}");
    ensure!(stats.scheduled == 40 && stats.pathless == 40, "{stats:?}");
    ensure!(stats.used == 40 && stats.wasted == 0, "{stats:?}");
    ensure!(stats.outstanding == 0 && stats.ahead == 0, "{stats:?}");
    ensure!(stats.waiting == 0 && stats.dropped_full == 0, "{stats:?}");
    ensure!(stats.control >= 4 && stats.heard >= 4, "{stats:?}");
    ensure!(stats.foreign == 0 && stats.malformed == 0, "{stats:?}");
    Ok(())
}

fn packets_to_addresses_that_are_not_endpoints_do_not_wait(_: &Context) -> Result<()> {
    let mut rack = Rack::new()?;
    // There is no arbiter.
    let elsewhere = [10, 9, 0, 1];
    let link = rack.link(RECEIVER);
    rack.network.route(SWITCH, &link, elsewhere)?;
    let to = rack.link(SENDERS[0]).destination(SENDERS[0], elsewhere);
    for id in 0..10 {
        let (rank, flow, len) = (0, 1, 500);
        let packet = Packet {
            id,
            rank,
            flow,
            len,
        };
        ensure!(rack.senders[0].send_to(&packet, &to, None)?, "it is taken");
    }
    rack.wait_for(10, 500)?;
    let stats = rack.stats(SENDERS[0])?;
    ensure!(stats.unscheduled >= 10 && stats.waiting == 0, "{stats:?}");
    ensure!(stats.said == 0 && stats.scheduled == 0, "{stats:?}");
    Ok(())
}

fn two_senders_share_a_receiver_and_its_queue_stays_short(cx: &Context) -> Result<()> {
    const PACKETS: u64 = 200;
    let mut rack = Rack::new()?;
    let _arbiter = rack.arbiter()?;
    let link = rack.link(RECEIVER).index;
    for sender in 0..2 {
        rack.burst(sender, PACKETS, None)?;
    }
    let mut longest = 0;
    for _ in 0..1000 {
        let qdiscs = rack.network.netlink(SWITCH)?.qdiscs(link)?;
        longest = qdiscs
            .iter()
            .map(|qdisc| qdisc.qlen)
            .fold(longest, u32::max);
        if rack.stats(SENDERS[0])?.waiting + rack.stats(SENDERS[1])?.waiting == 0 {
            break;
        }
        sleep(2);
    }
    rack.all_arrive(1000)?;
    cx.note(format!("at most {longest} packets at the switch"));
    // The one that is being sent, and one that waits for it: without an arbiter they would be half
    // of all.
    ensure!(longest <= 3, "{longest} packets at the switch");
    // Max-min fairness: as long as both have packets, neither gets ahead.
    let (mut first, mut second) = (0_i64, 0_i64);
    for arrival in &rack.arrived[..PACKETS as usize] {
        match arrival.id < PACKETS {
            true => first += 1,
            false => second += 1,
        }
    }
    ensure!((first - second).abs() <= 40, "{first} and {second}");
    Ok(())
}

fn packets_carry_their_path(_: &Context) -> Result<()> {
    let mut rack = Rack::new()?;
    let _arbiter = rack.arbiter()?;
    let tag = Tag {
        rank: 1234,
        upstream_queue: 0,
    };
    rack.burst(0, 5, Some(tag))?;
    let mut frames = Vec::new();
    for _ in 0..50 {
        frames.extend(rack.receiver.frames()?);
        sleep(20);
    }
    ensure!(frames.len() == 5, "{} of 5 arrived", frames.len());
    for frame in frames {
        let expected = Tag {
            upstream_queue: 1,
            ..tag
        };
        ensure!(frame.tag() == Some(expected), "{:?}", frame.tag());
        ensure!(frame.checksum_is_right(), "the header's checksum");
    }
    let stats = rack.stats(SENDERS[0])?;
    ensure!(stats.pathless == 0 && stats.scheduled == 5, "{stats:?}");
    Ok(())
}

fn an_arbiter_that_restarts_receives_all_requests_anew(cx: &Context) -> Result<()> {
    let mut rack = Rack::new()?;
    let arbiter = rack.arbiter()?;
    for sender in 0..2 {
        rack.burst(sender, 150, None)?;
    }
    sleep(150);
    drop(arbiter);
    sleep(200);
    let stats = rack.stats(SENDERS[0])?;
    ensure!(stats.waiting > 20 && stats.scheduled > 20, "{stats:?}");
    let waited = stats.waiting;
    // Nothing is given while there is none.
    ensure!(rack.stats(SENDERS[0])?.waiting == waited, "somebody gives");
    let _arbiter = rack.arbiter()?;
    rack.all_arrive(3000)?;
    for node in SENDERS {
        let stats = rack.stats(node)?;
        cx.note(format!("{stats:?}"));
        ensure!(stats.resets == 2 && stats.scheduled == 150, "{stats:?}");
    }
    Ok(())
}

fn a_third_of_the_control_packets_may_be_lost(cx: &Context) -> Result<()> {
    let mut rack = Rack::new()?;
    // Nothing but the control protocol goes to and from the arbiter.
    let name = rack.link(ARBITER).name();
    for node in [SWITCH, ARBITER] {
        rack.network.tc(
            node,
            &format!("qdisc replace dev {name} root netem loss 30%"),
        )?;
    }
    let _arbiter = rack.arbiter()?;
    for round in 0..10 {
        rack.burst(round % 2, 30, None)?;
        sleep(50);
    }
    rack.all_arrive(20_000)?;
    let [a, b] = [rack.stats(SENDERS[0])?, rack.stats(SENDERS[1])?];
    cx.note(format!("{a:?}"));
    ensure!(a.lost + b.lost > 0, "none of the timeslots was lost: {a:?}");
    ensure!(a.scheduled == 150 && b.scheduled == 150, "{a:?} {b:?}");
    Ok(())
}

fn arbiters_take_over_from_each_other(cx: &Context) -> Result<()> {
    let mut rack = Rack::of_two()?;
    let first = rack.first()?;
    let second = rack.second()?;
    // Two windows, in which the first one waits for another.
    sleep(2100);
    rack.send_for(300)?;
    ensure!(rack.stats(SENDERS[0])?.resets == 1, "two have spoken");
    drop(first);
    rack.send_for(1600)?;
    rack.all_arrive(8000)?;
    let pause = rack.longest_pause();
    cx.note(format!("{pause} ms without an arbiter"));
    // A window since its last beat, and a round trip; what it had given before comes all the same.
    ensure!((700..1300).contains(&pause), "{pause} ms");
    ensure!(rack.stats(SENDERS[0])?.resets == 2, "who speaks?");
    // It comes back, and leaves the second one alone.
    let _first = rack.first()?;
    sleep(3000);
    rack.burst(0, 20, None)?;
    rack.all_arrive(1000)?;
    ensure!(rack.stats(SENDERS[0])?.resets == 2, "it has interfered");
    drop(second);
    rack.burst(0, 50, None)?;
    rack.all_arrive(4000)?;
    for node in SENDERS {
        let stats = rack.stats(node)?;
        cx.note(format!("{stats:?}"));
        ensure!(stats.waiting == 0 && stats.foreign == 0, "{stats:?}");
    }
    ensure!(rack.stats(SENDERS[0])?.resets == 3, "who speaks?");
    Ok(())
}

/// Stopped for longer than a window, and then it goes on: what it would give is given by the other
/// one.
fn an_arbiter_that_stalled_allocates_nothing_more(cx: &Context) -> Result<()> {
    let mut rack = Rack::of_two()?;
    let first = rack.first()?;
    let _second = rack.second()?;
    sleep(2100);
    rack.send_for(200)?;
    let signal = |name: &str| {
        let id = first.0.id().to_string();
        Command::new("kill").args([name, &id]).status()
    };
    ensure!(signal("-STOP")?.success(), "it cannot be stopped");
    rack.send_for(1600)?;
    ensure!(signal("-CONT")?.success(), "it cannot go on");
    // Were both active, packets of both senders, which have some hundreds waiting, would meet: some
    // 15 more in 20 ms than leave. Of one that allocates, the link is full, and has what timers are
    // late, and what nobody allocates, beside that.
    let link = rack.link(RECEIVER).index;
    let mut longest = 0;
    for _ in 0..100 {
        rack.send_for(20)?;
        let qdiscs = rack.network.netlink(SWITCH)?.qdiscs(link)?;
        longest = qdiscs.iter().map(|it| it.qlen).fold(longest, u32::max);
    }
    rack.all_arrive(12_000)?;
    let stats = rack.stats(SENDERS[0])?;
    cx.note(format!(
        "at most {longest} packets at the switch; {stats:?}"
    ));
    ensure!(stats.resets == 2 && stats.foreign == 0, "{stats:?}");
    ensure!(longest <= 6, "{longest} packets at the switch");
    Ok(())
}

fn the_second_arbiter_stays_on_standby_while_a_third_of_the_beats_are_lost(
    cx: &Context,
) -> Result<()> {
    let mut rack = Rack::of_two()?;
    let name = rack.link(ARBITER).name();
    for node in [SWITCH, ARBITER] {
        let words = format!("qdisc replace dev {name} root netem loss 30%");
        rack.network.tc(node, &words)?;
    }
    let first = rack.first()?;
    let _second = rack.second()?;
    sleep(2100);
    rack.send_for(3000)?;
    rack.all_arrive(20_000)?;
    let stats = rack.stats(SENDERS[0])?;
    cx.note(format!("{stats:?}"));
    ensure!(stats.lost > 0 && stats.resets == 1, "{stats:?}");
    drop(first);
    rack.burst(0, 50, None)?;
    rack.all_arrive(4000)?;
    ensure!(rack.stats(SENDERS[0])?.resets == 2, "who speaks?");
    Ok(())
}

/// Beats that say that the first arbiter is active, and the second, of somebody who does not see
/// theirs.
fn forged_beats_do_not_keep_an_arbiter_from_taking_over(_: &Context) -> Result<()> {
    let mut rack = Rack::of_two()?;
    let link = rack.link(RECEIVER);
    let forger = rack.network.sender(SWITCH, &link)?;
    let first = rack.first()?;
    let _second = rack.second()?;
    let port = DEFAULT_PORT as u16;
    let mut beat = [0; BEAT];
    beat[..6].copy_from_slice(b"FCB\x01\x00\x01");
    beat[8..16].fill(7);
    let forge = |ms: u64| -> Result<()> {
        for _ in 0..ms / 20 {
            forger.send_frame(&forged(&link, RECEIVER, port, &beat))?;
            sleep(20);
        }
        Ok(())
    };
    forge(2500)?;
    drop(first);
    forge(1500)?;
    rack.burst(0, 50, None)?;
    rack.all_arrive(1000)?;
    ensure!(rack.stats(SENDERS[0])?.resets == 1, "nobody has taken over");
    Ok(())
}

/// The UDP ports that somebody in the namespace listens at.
fn udp_ports(rack: &mut Rack, node: usize) -> Result<Vec<u16>> {
    let namespace = rack.network.namespace(node)?;
    let text = namespace.enter(|| std::fs::read_to_string("/proc/thread-self/net/udp"))??;
    let lines = text.lines().skip(1);
    let ports = lines.filter_map(|line| {
        let local = line.split_whitespace().nth(1)?;
        u16::from_str_radix(local.split_once(':')?.1, 16).ok()
    });
    Ok(ports.collect())
}

/// The UDP datagrams that a namespace counts as sent.
fn datagrams_sent(rack: &mut Rack, node: usize) -> Result<u64> {
    let namespace = rack.network.namespace(node)?;
    let text = namespace.enter(|| std::fs::read_to_string("/proc/thread-self/net/snmp"))??;
    let mut lines = text.lines().filter(|line| line.starts_with("Udp: "));
    let names = lines.next().context("no names")?.split_whitespace();
    let values = lines.next().context("no values")?.split_whitespace();
    let mut both = names.zip(values);
    let (_, value) = both
        .find(|(name, _)| *name == "OutDatagrams")
        .context("no OutDatagrams")?;
    Ok(value.parse()?)
}

/// A datagram in the arbiter's name.
fn forged(link: &Link, node: usize, port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = link.address(node).to_vec();
    frame.extend([2, 0, 0, 0, 0, 9, 8, 0]);
    let start = frame.len();
    frame.extend([0x45, 0]);
    frame.extend((28 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend(address(ARBITER));
    frame.extend(address(node));
    let words = frame[start..].chunks(2);
    let sum: u32 = words
        .map(|it| u32::from(u16::from_be_bytes([it[0], it[1]])))
        .sum();
    let check = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[start + 10..start + 12].copy_from_slice(&check.to_be_bytes());
    frame.extend((DEFAULT_PORT as u16).to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend((8 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

fn forged_packets_are_ignored(cx: &Context) -> Result<()> {
    let mut rack = Rack::new()?;
    let _arbiter = rack.arbiter()?;
    let victim = SENDERS[0];
    rack.burst(0, 100, None)?;
    let ports = udp_ports(&mut rack, victim)?;
    ensure!(ports.len() == 1, "{ports:?} are listened at");
    // From the switch: nobody looks at where it comes from.
    let link = rack.link(victim);
    let forger = rack.network.sender(SWITCH, &link)?;
    let id = victim as u16 - 1;
    let mut bytes = [0; MAX_SIZE];
    let alloc = Head {
        kind: Kind::Alloc,
        endpoint: id,
        word: 5,
    };
    let len = encode(&mut bytes, alloc, 12345, [].into_iter(), &[]);
    let alloc = bytes[..len].to_vec();
    let len = encode_reset(&mut bytes, id, 777, 888);
    let reset = bytes[..len].to_vec();
    for _ in 0..20 {
        for payload in [&alloc[..], &reset, b"FCP", &[0; 1400]] {
            forger.send_frame(&forged(&link, victim, ports[0], payload))?;
        }
        sleep(5);
    }
    rack.all_arrive(2000)?;
    let stats = rack.stats(victim)?;
    cx.note(format!("{stats:?}"));
    ensure!(stats.foreign == 40 && stats.malformed == 40, "{stats:?}");
    ensure!(stats.resets == 1 && stats.scheduled == 100, "{stats:?}");
    Ok(())
}

/// Which port a program uses, and where it sends, makes no control packet: only the kernel's own
/// socket is heard.
fn a_programs_datagrams_by_the_control_port_wait_for_timeslots(cx: &Context) -> Result<()> {
    // Without an arbiter: a packet that waits for a timeslot stays.
    let mut rack = Rack::new()?;
    let host = SENDERS[0];
    let port = DEFAULT_PORT as u16;
    let namespace = rack.network.namespace(host)?;
    let any = Ipv4Addr::UNSPECIFIED;
    let of = |port| {
        namespace
            .enter(|| UdpSocket::bind((any, port)))?
            .map_err(Error::from)
    };
    let (control, other) = (of(port)?, of(0)?);
    let to = |node, port| (Ipv4Addr::from(address(node)), port);
    for _ in 0..10 {
        control.send_to(b"data", to(RECEIVER, 9))?;
        other.send_to(b"data", to(RECEIVER, port))?;
        other.send_to(b"FCP", to(ARBITER, port))?;
        control.send_to(b"FCP", to(ARBITER, port))?;
    }
    sleep(100);
    let stats = rack.stats(host)?;
    cx.note(format!("{stats:?}"));
    ensure!(stats.waiting == 40, "{stats:?}");
    ensure!(stats.said > 0 && stats.control == stats.said, "{stats:?}");
    Ok(())
}

/// A process on an endpoint's host that asks the arbiter for a session in the endpoint's name.
fn an_unprivileged_process_takes_over_no_session(cx: &Context) -> Result<()> {
    let mut rack = Rack::new()?;
    let _arbiter = rack.arbiter()?;
    let host = SENDERS[0];
    let namespace = rack.network.namespace(host)?;
    let socket = namespace.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
    socket.set_nonblocking(true)?;
    let head = Head {
        kind: Kind::Request,
        endpoint: host as u16 - 1,
        word: 5,
    };
    let mut bytes = [0; MAX_SIZE];
    let len = encode(&mut bytes, head, 12345, [].into_iter(), &[]);
    let to = (Ipv4Addr::from(address(ARBITER)), DEFAULT_PORT as u16);
    for _ in 0..100 {
        socket.send_to(&bytes[..len], to)?;
        rack.burst(0, 1, None)?;
        sleep(5);
    }
    rack.all_arrive(4000)?;
    let answer = socket.recv_from(&mut bytes).map_err(|error| error.kind());
    ensure!(
        answer == Err(std::io::ErrorKind::WouldBlock),
        "the arbiter answered: {answer:?}"
    );
    let ports = udp_ports(&mut rack, host)?;
    ensure!(ports.contains(&1023), "{ports:?} are listened at");
    let stats = rack.stats(host)?;
    cx.note(format!("{stats:?}"));
    ensure!(stats.resets == 1, "{stats:?}");
    Ok(())
}

/// The administrator of a namespace may destroy its sockets, the kernel's among them. Once one had
/// lost its port, the next datagram took the socket's lock to give it another one, in softirq.
fn a_host_whose_socket_is_destroyed_keeps_its_port_and_continues(cx: &Context) -> Result<()> {
    let mut rack = Rack::new()?;
    let _arbiter = rack.arbiter()?;
    let victim = SENDERS[0];
    rack.burst(0, 100, None)?;
    let before = udp_ports(&mut rack, victim)?;
    ensure!(before.len() == 1, "{before:?} are listened at");
    let mut destroyed = 0;
    for _ in 0..50 {
        let namespace = rack.network.namespace(victim)?;
        let mut command = Command::new("ss");
        command.args(["--no-header", "--kill", "--udp", "--all"]);
        let output = namespace.enter(|| command.output())??;
        ensure!(output.status.success(), "{output:?}");
        destroyed += String::from_utf8_lossy(&output.stdout).lines().count();
        sleep(5);
    }
    let after = udp_ports(&mut rack, victim)?;
    ensure!(
        after == before,
        "{before:?} was listened at, and now {after:?}"
    );
    rack.all_arrive(2000)?;
    let stats = rack.stats(victim)?;
    cx.note(format!("destroyed {destroyed} times; {stats:?}"));
    ensure!(destroyed == 50, "destroyed {destroyed} times");
    ensure!(stats.resets == 1 && stats.scheduled == 100, "{stats:?}");
    Ok(())
}

/// A security module may choose the route of a datagram (IPsec), as in `udp_sendmsg()`.
fn security_modules_classify_control_packets(cx: &Context) -> Result<()> {
    const CLASSIFIED: &str = "security_sk_classify_flow <-weft_socket_send";
    let trace = Trace::of_calls("security_sk_classify_flow")?;
    let mut rack = Rack::new()?;
    let _arbiter = rack.arbiter()?;
    rack.burst(0, 10, None)?;
    rack.all_arrive(2000)?;
    let said = rack.stats(SENDERS[0])?.said;
    let lines = trace.lines()?;
    let classified = lines
        .iter()
        .filter(|line| line.contains(CLASSIFIED))
        .count() as u64;
    cx.note(format!(
        "{classified} datagrams classified, of {said} and another host's"
    ));
    ensure!(
        said > 0 && classified >= said,
        "{classified} of {said}: {lines:?}"
    );
    Ok(())
}

/// eBPF programs that decide where processes may send do not apply to control packets. Asking them
/// took the socket's lock, in softirq.
fn control_packets_bypass_rules_for_processes_and_are_counted_as_sent(cx: &Context) -> Result<()> {
    let mut rack = Rack::new()?;
    let _arbiter = rack.arbiter()?;
    let port = DEFAULT_PORT as u16;
    let _program = Program::forbids(port)?;
    let process = rack.network.namespace(RECEIVER)?;
    let process = process.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
    let to = (Ipv4Addr::from(address(ARBITER)), port);
    let refused = process.send_to(b"", to).map_err(|error| error.kind());
    ensure!(
        refused == Err(std::io::ErrorKind::PermissionDenied),
        "a process may send: {refused:?}"
    );
    rack.burst(0, 100, None)?;
    rack.all_arrive(2000)?;
    let host = SENDERS[0];
    let stats = rack.stats(host)?;
    let sent = datagrams_sent(&mut rack, host)?;
    cx.note(format!("{sent} datagrams; {stats:?}"));
    ensure!(stats.scheduled == 100, "{stats:?}");
    ensure!(
        sent > 0 && sent == stats.said,
        "{sent} datagrams were counted, {stats:?}"
    );
    Ok(())
}

/// Of each datagram to an arbiter, whether its header forbids fragments.
fn whole(frames: &[Frame]) -> Vec<bool> {
    let flag = |frame: &Frame| {
        let (ethernet, rest) = frame.bytes().split_first_chunk::<14>()?;
        let (ip, udp) = rest.split_first_chunk::<20>()?;
        let to = u32::from(u16::from_be_bytes([*udp.get(2)?, *udp.get(3)?]));
        let said = ethernet[12..] == [8, 0] && (ip[0], ip[9], to) == (0x45, 17, DEFAULT_PORT);
        said.then_some(ip[6] & 0x40 != 0)
    };
    frames.iter().filter_map(flag).collect()
}

/// As what a process sends that asked for nothing else.
fn control_packets_are_fragmented_only_if_the_routes_mtu_is_locked(cx: &Context) -> Result<()> {
    let mut rack = Rack::new()?;
    let host = SENDERS[0];
    let name = rack.link(host).name();
    let capture = Receiver::of_both_ways(rack.network.namespace(host)?)?;
    rack.burst(0, 10, None)?;
    for (mtu, expected) in [("", true), ("mtu lock 1400", false), ("mtu 1400", true)] {
        let to = Ipv4Addr::from(address(ARBITER));
        let there = rack.network.namespace(host)?;
        there.ip(&format!("route replace {to}/32 dev {name} {mtu}"))?;
        // The earlier ones.
        capture.frames()?;
        sleep(300);
        let whole = whole(&capture.frames()?);
        cx.note(format!("by a route with \"{mtu}\": {whole:?}"));
        ensure!(!whole.is_empty() && whole.iter().all(|it| *it == expected));
    }
    Ok(())
}

fn a_host_is_deleted_while_its_packets_wait(_: &Context) -> Result<()> {
    for with_arbiter in [false, true] {
        let mut rack = Rack::new()?;
        let arbiter = with_arbiter.then(|| rack.arbiter()).transpose()?;
        rack.burst(0, 200, None)?;
        rack.burst(1, 200, None)?;
        sleep(60);
        // The qdisc alone, which comes anew; then the host.
        let link = rack.link(SENDERS[0]);
        rack.network.tc(
            SENDERS[0],
            &format!("qdisc delete dev {} root", link.name()),
        )?;
        rack.network
            .set_up(SENDERS[1], &rack.links[SENDERS[1] - 1].clone(), false)?;
        rack.network.delete(SENDERS[1]);
        sleep(60);
        drop(arbiter);
    }
    Ok(())
}
