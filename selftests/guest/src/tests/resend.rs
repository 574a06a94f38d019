// SPDX-License-Identifier: MIT OR Apache-2.0

//! `resend`: a switch reports the packets that it drops, and a host retransmits them.
//!
//! Hosts' links have 100 Mbit/s, the receiver's 10 Mbit/s, and a delay of 1 ms. The switch's port
//! to the receiver holds a few packets.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::errno::Errno;
use weft_ktap::{Context, tests};
use weft_mechanisms::resend::KIND;
use weft_mechanisms::resend::notice;
use weft_mechanisms::resend::segment::Segment;
use weft_mechanisms::resend::stats::Stats;

use crate::flow::counter;
use crate::modules;
use crate::netlink::{Handle, Qdisc};
use crate::network::{Link, Network, ip};
use crate::packets::{Sender, checksum};
use crate::transfer::{Connection, Plan, Transfer};

tests![
    without_notices_tcp_finds_the_losses,
    the_sender_retransmits_each_dropped_packet_and_tcp_none,
    packets_that_a_child_evicts_are_reported_too,
    #[exact = "a burst must arrive faster than its port sends"]
    drops_that_need_no_notice_cause_none,
    #[exact = "a burst must arrive faster than its port sends"]
    a_copy_is_sent_ahead_of_the_child,
    malformed_and_late_notices_send_nothing,
    #[exact = "a burst must arrive faster than its port sends"]
    a_flood_of_notices_is_bounded,
    copies_are_bounded_and_freed,
    a_change_between_host_and_switch_is_refused,
    the_module_is_removed_after_all_that,
];

const RESEND: Handle = Handle::new(2, 0);
const CHILD: Handle = Handle::new(3, 0);
const IPV4: [u8; 2] = 0x0800_u16.to_be_bytes();
const TCP: u8 = 6;
const ICMP: u8 = 1;

fn sleep(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Hosts at one switch; the last host receives.
struct Star {
    network: Network,
    links: Vec<Link>,
}

impl Star {
    /// A star of `hosts` hosts. `port`: the qdisc of the switch's port to the last host, below
    /// `wire`, and its child.
    fn new(hosts: usize, port: &str, child: &str) -> Result<Self> {
        let (mut network, links) = Network::star(
            hosts,
            &[
                // A gap is no loss, as in the scheme hpcc-ideal.
                ("tcp_sack", "0"),
                ("tcp_reordering", "300"),
                ("tcp_max_reordering", "300"),
                ("tcp_early_retrans", "0"),
                ("tcp_congestion_control", "reno"),
                // A window of some 20 packets.
                ("tcp_rmem", "4096 65536 65536"),
            ],
        )?;
        let switch = hosts;
        for (node, link) in links.iter().enumerate() {
            let (dev, last) = (link.name(), node + 1 == hosts);
            let rate = if last { "10mbit" } else { "100mbit" };
            let (at_switch, child) = match last {
                true => (port, child),
                false => (KIND, "pfifo limit 1000"),
            };
            for (end, kind, child) in [
                (node, "resend keep 500", "pfifo limit 1000"),
                (switch, at_switch, child),
            ] {
                for line in [
                    format!("qdisc add dev {dev} root handle 1: wire rate {rate} delay 1ms"),
                    format!("qdisc add dev {dev} parent 1: handle 2: {kind}"),
                    format!("qdisc add dev {dev} parent 2: handle 3: {child}"),
                ] {
                    network.tc(end, &line)?;
                }
            }
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

    /// The statistics of a host.
    fn host(&mut self, host: usize) -> Result<Stats> {
        Stats::from_bytes(&self.qdisc(host, host, RESEND)?.app).context("short statistics")
    }

    /// The statistics of the switch's port to a host.
    fn port(&mut self, host: usize) -> Result<Stats> {
        let switch = self.switch();
        Stats::from_bytes(&self.qdisc(switch, host, RESEND)?.app).context("short statistics")
    }

    /// Each host sends `bytes` to the last one at the same time. Returns TCP's retransmissions.
    fn incast(&mut self, bytes: usize) -> Result<u64> {
        let last = self.links.len() - 1;
        let connections: Result<Vec<Connection>> = (0..last)
            .map(|host| {
                let plan = Plan::new((ip(last), 1000 + host as u16), bytes);
                let [from, to] = [host, last].map(|node| self.network.namespace(node));
                Connection::open(from?, to?, &plan)
            })
            .collect();
        let flows: Vec<Transfer> = connections?.into_iter().map(Connection::start).collect();
        flows
            .into_iter()
            .try_for_each(|flow| flow.finish().map(drop))?;
        let mut retransmitted = 0;
        for host in 0..=last {
            retransmitted += counter(self.network.namespace(host)?, "RetransSegs")?;
        }
        Ok(retransmitted)
    }

    /// A packet socket at a node's end of the link of a host.
    fn sender(&mut self, node: usize, host: usize) -> Result<Sender> {
        let link = self.links[host];
        self.network.sender(node, &link)
    }

    /// A frame from a node's end of the link of a host.
    fn frame(&self, node: usize, host: usize, packet: &[u8]) -> Vec<u8> {
        let link = self.links[host];
        let mut frame = link.destination(node, [0; 4]).mac.to_vec();
        frame.extend(link.address(node));
        frame.extend(IPV4);
        frame.extend(packet);
        frame
    }
}

/// An IPv4 packet.
fn ipv4(protocol: u8, from: [u8; 4], to: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    packet.extend(from);
    packet.extend(to);
    let check = checksum(&packet);
    packet[10..12].copy_from_slice(&check.to_be_bytes());
    packet.extend(payload);
    packet
}

/// The segment of 900 bytes with a number, from the first host to the last one of two.
pub(super) fn segment(number: u32) -> Segment {
    Segment {
        source: u32::from_be_bytes(ip(0)),
        destination: u32::from_be_bytes(ip(1)),
        source_port: 5000,
        destination_port: 6000,
        sequence: number,
        acknowledgement: 0,
        length: 900,
    }
}

/// Its packet.
pub(super) fn tcp(segment: &Segment) -> Vec<u8> {
    let mut payload = segment.source_port.to_be_bytes().to_vec();
    payload.extend(segment.destination_port.to_be_bytes());
    payload.extend(segment.sequence.to_be_bytes());
    payload.extend([0, 0, 0, 0, 0x50, 0x10, 0, 99, 0, 0, 0, 0]);
    payload.resize(20 + segment.length as usize, 0);
    ipv4(
        TCP,
        segment.source.to_be_bytes(),
        segment.destination.to_be_bytes(),
        &payload,
    )
}

/// The packet of its notice, from the switch.
pub(super) fn notice_of(segment: &Segment) -> Vec<u8> {
    let message = notice::encode(segment);
    ipv4(ICMP, ip(2), segment.source.to_be_bytes(), &message)
}

/// The number of the segment in a frame.
fn number(frame: &[u8]) -> Option<u32> {
    let is_tcp = frame.get(23) == Some(&TCP);
    let sequence = frame.get(14 + 20 + 4..)?.first_chunk()?;
    is_tcp.then(|| u32::from_be_bytes(*sequence))
}

const SMALL: &str = "pfifo limit 8";
const BYTES: usize = 300_000;

/// The test's own check: this network loses packets that TCP retransmits.
fn without_notices_tcp_finds_the_losses(cx: &Context) -> Result<()> {
    let mut star = Star::new(4, "hold backlog 0", SMALL)?;
    let retransmitted = star.incast(BYTES)?;
    cx.note(format!("{retransmitted} retransmissions"));
    ensure!(retransmitted > 10, "{retransmitted}");
    Ok(())
}

/// "On a packet drop, the switch informs the sender directly, which then retransmits the dropped
/// packet."
fn the_sender_retransmits_each_dropped_packet_and_tcp_none(cx: &Context) -> Result<()> {
    let mut star = Star::new(4, KIND, SMALL)?;
    let retransmitted = star.incast(BYTES)?;
    let (port, switch) = (star.port(3)?, star.switch());
    let dropped = u64::from(star.qdisc(switch, 3, CHILD)?.drops);
    let hosts: Vec<Stats> = (0..3).map(|host| star.host(host)).collect::<Result<_>>()?;
    let resent: u64 = hosts.iter().map(|host| host.resent).sum();
    cx.note(format!("{dropped} dropped, {port:?}, {hosts:?}"));
    ensure!(retransmitted == 0, "{retransmitted} by TCP");
    ensure!(port.noticed > 10 && port.unsent == 0, "{port:?}");
    ensure!(
        (port.unnamed, port.noticed) == (0, dropped),
        "{dropped}, {port:?}"
    );
    ensure!(resent == dropped, "{resent} of {dropped}");
    for host in &hosts {
        ensure!(host.received == host.resent, "{host:?}");
        ensure!(host.copies != 0 && host.uncopied == 0, "{host:?}");
        ensure!(
            [host.missed, host.failed, host.malformed] == [0; 3],
            "{host:?}"
        );
    }
    for (node, host) in (0..4).map(|host| (host, host)).chain([(switch, 3)]) {
        let qdisc = star.qdisc(node, host, RESEND)?;
        ensure!((qdisc.qlen, qdisc.backlog) == (0, 0), "{node}: {qdisc:?}");
    }
    Ok(())
}

fn packets_that_a_child_evicts_are_reported_too(cx: &Context) -> Result<()> {
    // The first drops what is inside, the second also several at once, the third what is inside or
    // arrives.
    for child in [
        "pfifo_head_drop limit 8",
        "fq_codel limit 8 noecn target 10s interval 100s",
        "pfabric limit 8",
    ] {
        let mut star = Star::new(4, KIND, child)?;
        let retransmitted = star.incast(BYTES)?;
        let port = star.port(3)?;
        let hosts: Vec<Stats> = (0..3).map(|host| star.host(host)).collect::<Result<_>>()?;
        let resent: u64 = hosts.iter().map(|host| host.resent).sum();
        cx.note(format!("{child}: {retransmitted} retransmitted, {port:?}"));
        ensure!(retransmitted == 0, "{child}: {retransmitted}");
        ensure!(port.noticed > 10 && port.unnamed == 0, "{child}: {port:?}");
        ensure!(resent == port.noticed, "{child}: {resent}, {port:?}");
    }
    Ok(())
}

/// A host's own packets, and other protocols.
fn drops_that_need_no_notice_cause_none(_: &Context) -> Result<()> {
    let mut star = Star::new(2, KIND, "pfifo limit 1")?;
    let switch = star.switch();
    let own = star.sender(switch, 1)?;
    let frame = star.frame(switch, 1, &tcp(&segment(0)));
    for _ in 0..10 {
        own.send_frame(&frame)?;
    }
    sleep(50);
    let before = star.port(1)?;
    ensure!(before.unnamed > 5 && before.noticed == 0, "{before:?}");
    let other = star.sender(0, 0)?;
    let udp = ipv4(17, ip(0), ip(1), &[0; 800]);
    let frame = star.frame(0, 0, &udp);
    for _ in 0..200 {
        other.send_frame(&frame)?;
    }
    sleep(500);
    let after = star.port(1)?;
    ensure!(
        after.unnamed > before.unnamed && after.noticed == 0,
        "{after:?}"
    );
    ensure!(star.host(0)?.copies == 0, "{:?}", star.host(0)?);
    Ok(())
}

fn a_copy_is_sent_ahead_of_the_child(cx: &Context) -> Result<()> {
    let mut star = Star::new(2, KIND, "pfifo limit 1000")?;
    let (switch, dev) = (star.switch(), star.links[0].name());
    star.network.tc(
        0,
        &format!("qdisc change dev {dev} root handle 1: wire rate 10mbit delay 1ms"),
    )?;
    let receiver = star.network.receiver(switch)?;
    let (host, notifier) = (star.sender(0, 0)?, star.sender(switch, 0)?);
    // 0.75 ms each: 20 of them take 15 ms.
    for number in 0..20 {
        host.send_frame(&star.frame(0, 0, &tcp(&segment(number))))?;
    }
    sleep(4);
    notifier.send_frame(&star.frame(switch, 0, &notice_of(&segment(1))))?;
    sleep(100);
    let frames = receiver.frames()?;
    let order: Vec<u32> = frames.iter().filter_map(|it| number(it.bytes())).collect();
    cx.note(format!("{order:?}"));
    ensure!(order.len() == 21, "{order:?}");
    let again = order.iter().rposition(|number| *number == 1);
    ensure!(
        again.is_some_and(|place| (3..15).contains(&place)),
        "{order:?}"
    );
    let others: Vec<u32> = order
        .iter()
        .copied()
        .filter(|number| *number != 1)
        .collect();
    ensure!(others.is_sorted(), "{order:?}");
    let stats = star.host(0)?;
    ensure!(
        (stats.resent, stats.copies, stats.waiting) == (1, 20, 0),
        "{stats:?}"
    );
    Ok(())
}

fn malformed_and_late_notices_send_nothing(_: &Context) -> Result<()> {
    let mut star = Star::new(2, KIND, SMALL)?;
    let switch = star.switch();
    let (host, notifier) = (star.sender(0, 0)?, star.sender(switch, 0)?);
    host.send_frame(&star.frame(0, 0, &tcp(&segment(0))))?;
    sleep(50);
    let mut wrong = Vec::new();
    // The checksum, the code with its checksum, and the length.
    for change in [&[(22, 1)][..], &[(21, 1), (23, 0xff)][..]] {
        let mut packet = notice_of(&segment(0));
        for (at, bits) in change {
            packet[*at] ^= bits;
        }
        wrong.push(packet);
    }
    let cut = &notice::encode(&segment(0))[..24];
    wrong.push(ipv4(ICMP, ip(2), ip(0), cut));
    for packet in &wrong {
        notifier.send_frame(&star.frame(switch, 0, packet))?;
    }
    notifier.send_frame(&star.frame(switch, 0, &notice_of(&segment(7))))?;
    sleep(50);
    let stats = star.host(0)?;
    ensure!((stats.malformed, stats.received) == (3, 1), "{stats:?}");
    ensure!((stats.missed, stats.resent) == (1, 0), "{stats:?}");
    // The right one still sends the copy, as often as one arrives.
    for count in 1..=5 {
        notifier.send_frame(&star.frame(switch, 0, &notice_of(&segment(0))))?;
        sleep(50);
        let stats = star.host(0)?;
        ensure!((stats.resent, stats.copies) == (count, 1), "{stats:?}");
    }
    Ok(())
}

fn a_flood_of_notices_is_bounded(cx: &Context) -> Result<()> {
    const NOTICES: usize = 3000;
    let mut star = Star::new(2, KIND, SMALL)?;
    let (switch, dev) = (star.switch(), star.links[0].name());
    star.network.tc(
        switch,
        &format!("qdisc change dev {dev} root handle 1: wire rate 1mbit delay 1ms"),
    )?;
    star.network.tc(
        0,
        &format!("qdisc change dev {dev} root handle 1: wire rate 1mbit delay 1ms"),
    )?;
    let (host, notifier) = (star.sender(0, 0)?, star.sender(switch, 0)?);
    host.send_frame(&star.frame(0, 0, &tcp(&segment(0))))?;
    sleep(50);
    let frame = star.frame(switch, 0, &notice_of(&segment(0)));
    let mut taken = 0;
    for _ in 0..NOTICES {
        taken += u64::from(notifier.send_frame(&frame)?);
    }
    let port = star.port(0)?;
    let qdisc = star.qdisc(switch, 0, RESEND)?;
    cx.note(format!("{taken} taken, {qdisc:?}, {port:?}"));
    ensure!(qdisc.backlog <= 65_536, "{qdisc:?}");
    ensure!(
        port.dropped_control == NOTICES as u64 - taken && taken < 1200,
        "{port:?}"
    );
    // A drop of a notice is not noticed, and each notice sends one copy at most, of one packet.
    ensure!((port.noticed, port.unnamed) == (0, 0), "{port:?}");
    sleep(20_000);
    let stats = star.host(0)?;
    let sent = star.qdisc(0, 0, RESEND)?;
    cx.note(format!("{stats:?}, {sent:?}"));
    ensure!(
        stats.received == taken && stats.resent == taken,
        "{stats:?}"
    );
    ensure!(
        (stats.copies, stats.waiting, sent.qlen) == (1, 0, 0),
        "{stats:?}"
    );
    // At most as many wait as may be kept.
    ensure!(sent.drops > 0 && sent.sent_packets >= 500, "{sent:?}");
    Ok(())
}

fn copies_are_bounded_and_freed(_: &Context) -> Result<()> {
    let mut star = Star::new(2, KIND, "pfifo limit 10000")?;
    let (link, dev) = (star.links[0], star.links[0].name());
    let sender = star.sender(0, 0)?;
    let fill = |star: &mut Star| {
        for number in 0..600 {
            sender.send_frame(&star.frame(0, 0, &tcp(&segment(number))))?;
        }
        sleep(200);
        star.host(0)
    };
    let stats = fill(&mut star)?;
    ensure!(
        (stats.copies, stats.copied) == (500, 500 * 954),
        "{stats:?}"
    );
    let line = format!("qdisc change dev {dev} parent 1: handle 2: resend keep 100");
    star.network.tc(0, &line)?;
    let stats = star.host(0)?;
    ensure!((stats.copies, stats.copied) == (0, 0), "{stats:?}");
    let stats = fill(&mut star)?;
    ensure!(stats.copies == 100, "{stats:?}");
    // A device that is down has no packets.
    star.network.set_up(0, &link, false)?;
    let stats = star.host(0)?;
    ensure!((stats.copies, stats.copied) == (0, 0), "{stats:?}");
    star.network.set_up(0, &link, true)?;
    sleep(50);
    let stats = fill(&mut star)?;
    ensure!(stats.copies == 100, "{stats:?}");
    let line = format!("qdisc replace dev {dev} root handle 9: pfifo");
    star.network.tc(0, &line)?;
    // A namespace ends with all its copies and devices.
    let mut star = Star::new(2, KIND, SMALL)?;
    let sender = star.sender(0, 0)?;
    for number in 0..50 {
        sender.send_frame(&star.frame(0, 0, &tcp(&segment(number))))?;
    }
    drop(sender);
    star.network.delete(0);
    Ok(())
}

fn a_change_between_host_and_switch_is_refused(_: &Context) -> Result<()> {
    let mut star = Star::new(2, KIND, SMALL)?;
    let dev = star.links[0].name();
    let reason = "A change cannot begin or end keeping";
    for (node, keep) in [(0, 0), (2, 9)] {
        let line = format!("qdisc change dev {dev} parent 1: handle 2: resend keep {keep}");
        let refused = star
            .network
            .tc(node, &line)
            .map_err(|error| format!("{error:#}"));
        ensure!(
            refused.as_ref().is_err_and(|said| said.contains(reason)),
            "{refused:?}"
        );
    }
    // One more than a namespace has.
    let mut network = Network::new(2)?;
    for number in 0..17 {
        let link = network.link(0, 1)?;
        let line = format!("qdisc add dev {} root resend keep 1", link.name());
        let added = network.tc(0, &line).map_err(|error| format!("{error:#}"));
        let reason = "A namespace keeps the packets of at most 16 devices";
        let is_right = match &added {
            Ok(_) => number < 16,
            Err(said) => number == 16 && said.contains(reason),
        };
        ensure!(is_right, "{number}: {added:?}");
    }
    Ok(())
}

fn the_module_is_removed_after_all_that(_: &Context) -> Result<()> {
    let mut star = Star::new(2, KIND, SMALL)?;
    let sender = star.sender(0, 0)?;
    for number in 0..50 {
        sender.send_frame(&star.frame(0, 0, &tcp(&segment(number))))?;
    }
    let in_use = modules::remove("sch_resend");
    ensure!(in_use == Err(Errno::EWOULDBLOCK), "{in_use:?}");
    drop((sender, star));
    modules::wait_until_unused()?;
    modules::remove("sch_resend")?;
    ensure!(modules::users("sch_resend").is_none(), "it is still there");
    Ok(())
}
