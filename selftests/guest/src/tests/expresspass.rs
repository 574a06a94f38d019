// SPDX-License-Identifier: MIT OR Apache-2.0

//! `expresspass`: a sender sends one frame for each credit, and switches drop credits, not data.
//!
//! Hosts at one switch. All links have 10 Mbit/s, so a full frame takes 1.23 ms.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::errno::Errno;
use weft_ktap::{Context, tests};
use weft_mechanisms::expresspass::message::{Flow, Kind, Message};
use weft_mechanisms::expresspass::options::DEFAULT_PORT;
use weft_mechanisms::expresspass::stats::Stats;

use crate::flow::counter;
use crate::modules;
use crate::netlink::{Handle, Qdisc};
use crate::network::{Link, Network, ip};
use crate::transfer::{Connection, Plan, Transfer};

tests![
    #[exact = "judges a queue's length and retransmissions"]
    many_senders_lose_no_data_and_the_switchs_queue_stays_short,
    #[exact = "judges the rate of credits"]
    switches_limit_and_drop_credits_and_no_data,
    #[exact = "judges how fast flows converge"]
    two_flows_converge_to_fair_shares,
    #[exact = "judges a link's use"]
    a_flow_that_is_alone_fills_the_link,
    a_sender_without_data_stops_its_credits,
    a_sender_whose_qdisc_is_replaced_goes_on,
    a_receiver_whose_qdisc_is_replaced_goes_on,
    #[exact = "the sender must be deleted in the middle of its data"]
    a_sender_that_is_gone_gets_no_more_credits,
    messages_of_unprivileged_processes_are_ignored,
    a_host_is_deleted_while_its_packets_wait,
    the_module_is_removed_after_all_that,
];

const EXPRESSPASS: Handle = Handle::new(2, 0);
/// At the switch.
const CREDITS: Handle = Handle::new(4, 0);
const DATA: Handle = Handle::new(5, 0);

/// Frames that a switch's port holds.
const BUFFER: u32 = 24;

fn sleep(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Hosts at one switch.
struct Star {
    network: Network,
    links: Vec<Link>,
}

impl Star {
    fn new(hosts: usize) -> Result<Self> {
        Self::with_delay(hosts, "100us")
    }

    fn with_delay(hosts: usize, delay: &str) -> Result<Self> {
        let (mut network, links) = Network::star(
            hosts,
            &[
                ("tcp_congestion_control", "reno"),
                ("tcp_early_retrans", "0"),
                ("tcp_autocorking", "0"),
            ],
        )?;
        let switch = hosts;
        for (node, link) in links.iter().enumerate() {
            let dev = link.name();
            let wire = format!("wire rate 10mbit delay {delay} overhead 24 mpu 84");
            for (end, lines) in [
                (
                    node,
                    vec![
                        format!("root handle 1: {wire}"),
                        "parent 1: handle 2: expresspass rate 10mbit winit 63".to_owned(),
                    ],
                ),
                (
                    switch,
                    vec![
                        format!("root handle 1: {wire}"),
                        "parent 1: handle 2: prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"
                            .to_owned(),
                        "parent 2:1 handle 3: tbf rate 517880bit burst 144 limit 10000 mpu 84 \
                         overhead 24"
                            .to_owned(),
                        "parent 3:1 handle 4: pfifo limit 8".to_owned(),
                        format!("parent 2:2 handle 5: pfifo limit {BUFFER}"),
                    ],
                ),
            ] {
                // tbf warns of a burst of less than the longest packet, which a credit is not.
                let mtu = |mtu: u32| format!("link set dev {dev} mtu {mtu}");
                network.namespace(end)?.ip(&mtu(100))?;
                for line in lines {
                    network.tc(end, &format!("qdisc add dev {dev} {line}"))?;
                }
                network.namespace(end)?.ip(&mtu(1500))?;
            }
            let filter = format!(
                "filter add dev {dev} parent 2: protocol ip prio 1 u32 match u8 17 0xff at 9 \
                 match u16 0x0258 0xffff at 28 classid 2:1"
            );
            network.tc(switch, &filter)?;
        }
        Ok(Self { network, links })
    }

    fn switch(&self) -> usize {
        self.links.len()
    }

    /// A qdisc at a node's end of the link of a host.
    fn qdisc(&mut self, node: usize, host: usize, handle: Handle) -> Result<Qdisc> {
        self.network.qdisc_at(node, &self.links[host], handle)
    }

    /// A qdisc of the switch's port to a host.
    fn port(&mut self, host: usize, handle: Handle) -> Result<Qdisc> {
        self.qdisc(self.switch(), host, handle)
    }

    /// The statistics of a host.
    fn host(&mut self, host: usize) -> Result<Stats> {
        Stats::from_bytes(&self.qdisc(host, host, EXPRESSPASS)?.app).context("short statistics")
    }

    fn open(&self, from: usize, to: usize, bytes: usize) -> Result<Connection> {
        let plan = Plan::new((ip(to), 1000 + from as u16), bytes);
        Connection::open(
            self.network.namespace(from)?,
            self.network.namespace(to)?,
            &plan,
        )
    }

    /// Segments that a host's TCP retransmitted.
    fn retransmitted(&self, host: usize) -> Result<u64> {
        counter(self.network.namespace(host)?, "RetransSegs")
    }

    /// All hosts' and ports' queues are empty, and no data was dropped.
    fn ensure_idle(&mut self) -> Result<()> {
        for host in 0..self.links.len() {
            let (stats, data) = (self.host(host)?, self.port(host, DATA)?);
            let own = self.qdisc(host, host, EXPRESSPASS)?;
            ensure!((own.qlen, own.backlog) == (0, 0), "{host}: {own:?}");
            ensure!(own.drops == 0 && stats.waiting == 0, "{host}: {stats:?}");
            ensure!(
                stats.sending == 0 && stats.receiving == 0,
                "{host}: {stats:?}"
            );
            ensure!(stats.malformed == 0 && stats.foreign == 0, "{stats:?}");
            ensure!((data.drops, data.qlen) == (0, 0), "{host}: {data:?}");
            ensure!(self.retransmitted(host)? == 0, "{host} retransmitted");
        }
        Ok(())
    }
}

/// Congestion drops credits, and data finds short queues.
fn many_senders_lose_no_data_and_the_switchs_queue_stays_short(cx: &Context) -> Result<()> {
    let mut star = Star::new(9)?;
    let connections: Result<Vec<Connection>> =
        (1..9).map(|host| star.open(host, 0, 150_000)).collect();
    let flows: Vec<Transfer> = connections?.into_iter().map(Connection::start).collect();
    let mut longest = 0;
    for _ in 0..100 {
        sleep(10);
        longest = longest.max(star.port(0, DATA)?.qlen);
    }
    flows
        .into_iter()
        .try_for_each(|flow| flow.finish().map(drop))?;
    sleep(200);
    let receiver = star.host(0)?;
    cx.note(format!("longest queue {longest}, {receiver:?}"));
    ensure!(receiver.dropped > 0 && receiver.begun >= 8, "{receiver:?}");
    ensure!(receiver.echoed >= 8 * 150_000 / 1460, "{receiver:?}");
    // Far less than the eight first windows.
    ensure!(longest <= 16, "{longest}");
    star.ensure_idle()
}

/// The credits of several receivers meet at the port of their common sender.
fn switches_limit_and_drop_credits_and_no_data(cx: &Context) -> Result<()> {
    let mut star = Star::new(5)?;
    let mut connections = Vec::new();
    for host in 1..5 {
        let plan = Plan::new((ip(host), 2000), 150_000);
        connections.push(Connection::open(
            star.network.namespace(0)?,
            star.network.namespace(host)?,
            &plan,
        )?);
    }
    let flows: Vec<Transfer> = connections.into_iter().map(Connection::start).collect();
    sleep(100);
    let before = star.port(0, CREDITS)?;
    sleep(300);
    let after = star.port(0, CREDITS)?;
    flows
        .into_iter()
        .try_for_each(|flow| flow.finish().map(drop))?;
    sleep(200);
    // 5.18 % of 10 Mbit/s, of 84 bytes: 231.2 in 300 ms.
    let credits = after.sent_packets - before.sent_packets;
    cx.note(format!("{credits} credits in 300 ms, {after:?}"));
    ensure!(after.drops > 10, "{after:?}");
    ensure!((180..=240).contains(&credits), "{credits}");
    star.ensure_idle()
}

fn two_flows_converge_to_fair_shares(cx: &Context) -> Result<()> {
    // A round-trip time of some 23 ms, of 18 frames.
    let mut star = Star::with_delay(3, "5ms")?;
    // The paper's law converges more slowly when a round-trip time has few credits.
    let dev = star.links[0].name();
    let line =
        format!("qdisc change dev {dev} parent 1: handle 2: expresspass law simulator loss 12");
    star.network.tc(0, &line)?;
    let connections = [star.open(1, 0, 4_000_000)?, star.open(2, 0, 4_000_000)?];
    let [first, second] = connections;
    let first = first.start();
    sleep(1000);
    let second = second.start();
    // Some 40 round-trip times.
    sleep(1000);
    let used =
        |star: &mut Star| -> Result<[u64; 2]> { Ok([star.host(1)?.used, star.host(2)?.used]) };
    let before = used(&mut star)?;
    sleep(1000);
    let after = used(&mut star)?;
    let [a, b] = [0, 1].map(|flow| after[flow] - before[flow]);
    cx.note(format!("{a} and {b} frames in 1 s"));
    first.finish()?;
    second.finish()?;
    sleep(500);
    // Both together: 771 frames at most, with the credits' part of the link.
    ensure!((640..=775).contains(&(a + b)), "{a} and {b}");
    ensure!(a * 2 < b * 3 && b * 2 < a * 3, "{a} and {b}");
    star.ensure_idle()
}

/// Credits leave 94.8 % of a link to frames.
fn a_flow_that_is_alone_fills_the_link(cx: &Context) -> Result<()> {
    let mut star = Star::new(2)?;
    let flow = star.open(1, 0, 1_500_000)?.start();
    sleep(400);
    let before = star.host(1)?.used;
    sleep(500);
    let frames = star.host(1)?.used - before;
    let time = flow.finish()?;
    sleep(200);
    cx.note(format!("{frames} frames in 500 ms; all in {time:?}"));
    // 500 ms / (1622 bytes at 10 Mbit/s) = 385.3.
    ensure!((370..=388).contains(&frames), "{frames}");
    star.ensure_idle()
}

fn a_sender_without_data_stops_its_credits(cx: &Context) -> Result<()> {
    let mut star = Star::new(2)?;
    star.open(1, 0, 100_000)?.start().finish()?;
    sleep(100);
    let (sender, receiver) = (star.host(1)?, star.host(0)?);
    cx.note(format!("{sender:?}, {receiver:?}"));
    ensure!(sender.stops >= 1 && receiver.receiving == 0, "{receiver:?}");
    // About a round-trip time's credits, for each stop.
    ensure!(
        sender.wasted + sender.unknown <= 20 * sender.stops,
        "{sender:?}"
    );
    sleep(500);
    ensure!(
        star.host(0)?.sent == receiver.sent,
        "credits are sent still"
    );
    star.ensure_idle()
}

fn replace(star: &mut Star, host: usize, kind: &str) -> Result<()> {
    let dev = star.links[host].name();
    let line = format!("qdisc replace dev {dev} parent 1: handle 9: {kind}");
    star.network.tc(host, &line).map(drop)
}

fn a_sender_whose_qdisc_is_replaced_goes_on(_: &Context) -> Result<()> {
    for kind in ["expresspass rate 10mbit", "pfifo limit 1000"] {
        let mut star = Star::new(2)?;
        let flow = star.open(1, 0, 500_000)?.start();
        sleep(100);
        replace(&mut star, 1, kind)?;
        flow.finish().context(kind)?;
        // Nobody stops the credits of a host without expresspass: eight timeouts do.
        sleep(12_000);
        let receiver = star.host(0)?;
        ensure!(receiver.receiving == 0, "{kind}: {receiver:?}");
    }
    Ok(())
}

fn a_receiver_whose_qdisc_is_replaced_goes_on(_: &Context) -> Result<()> {
    let mut star = Star::new(2)?;
    let flow = star.open(1, 0, 500_000)?.start();
    sleep(100);
    replace(&mut star, 0, "expresspass rate 10mbit")?;
    flow.finish()?;
    sleep(200);
    let sender = star.host(1)?;
    ensure!(sender.repeated >= 1 && sender.sending == 0, "{sender:?}");
    Ok(())
}

fn a_sender_that_is_gone_gets_no_more_credits(cx: &Context) -> Result<()> {
    let mut star = Star::new(2)?;
    let (sender, receiver) = star.open(1, 0, 0)?.into_sockets();
    let data = [7; 200_000];
    sender.set_nonblocking(true)?;
    let mut to = &sender;
    let written = std::io::Write::write(&mut to, &data)?;
    sleep(10);
    let before = star.host(0)?;
    ensure!(before.receiving == 1, "{written} bytes, {before:?}");
    star.network.delete(1);
    drop((sender, receiver));
    // Eight timeouts of 1.23 s, of 1000 frames.
    sleep(12_000);
    let after = star.host(0)?;
    cx.note(format!("{after:?}"));
    ensure!((after.receiving, after.abandoned) == (0, 1), "{after:?}");
    Ok(())
}

fn messages_of_unprivileged_processes_are_ignored(_: &Context) -> Result<()> {
    let mut star = Star::new(2)?;
    let socket = star
        .network
        .namespace(1)?
        .enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 5000)))??;
    let flow = Flow {
        source: u32::from_be_bytes(ip(1)),
        destination: u32::from_be_bytes(ip(0)),
        source_port: 1,
        destination_port: 2,
    };
    let kind = Kind::Request { waiting: 100 };
    let request = Message { flow, kind }.encode();
    let to = (Ipv4Addr::from(ip(0)), DEFAULT_PORT as u16);
    for _ in 0..5 {
        socket.send_to(&request, to)?;
        socket.send_to(&request[1..], to)?;
    }
    sleep(100);
    let stats = star.host(0)?;
    ensure!((stats.foreign, stats.malformed) == (5, 5), "{stats:?}");
    ensure!((stats.begun, stats.sent) == (0, 0), "{stats:?}");
    Ok(())
}

fn a_host_is_deleted_while_its_packets_wait(_: &Context) -> Result<()> {
    let mut star = Star::new(3)?;
    let flows = [star.open(1, 0, 300_000)?, star.open(2, 0, 300_000)?];
    let [first, second] = flows.map(Connection::start);
    sleep(60);
    let dev = star.links[1].name();
    // Without its root, packets that wait are dropped, and TCP retransmits them.
    star.network
        .tc(1, &format!("qdisc delete dev {dev} root"))?;
    first.finish()?;
    second.finish()?;
    let (sender, receiver) = star.open(2, 0, 0)?.into_sockets();
    sender.set_nonblocking(true)?;
    let mut to = &sender;
    std::io::Write::write(&mut to, &[7; 200_000])?;
    sleep(5);
    star.network.delete(2);
    drop((sender, receiver));
    Ok(())
}

fn the_module_is_removed_after_all_that(_: &Context) -> Result<()> {
    let star = Star::new(2)?;
    let flow = star.open(1, 0, 50_000)?.start();
    let in_use = modules::remove("sch_expresspass");
    ensure!(in_use == Err(Errno::EWOULDBLOCK), "{in_use:?}");
    flow.finish()?;
    drop(star);
    modules::wait_until_unused()?;
    modules::remove("sch_expresspass")?;
    ensure!(
        modules::users("sch_expresspass").is_none(),
        "it is still there"
    );
    Ok(())
}
