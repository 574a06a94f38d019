// SPDX-License-Identifier: MIT OR Apache-2.0

//! A switch with `dibs` at its ports: what goes in comes out, by whatever port it went meanwhile;
//! what a detoured packet looks like; and what becomes of it when ports go.
//!
//! ```text
//!   1, a host ──▶ 0, the switch ──▶ 2, a host         3 and 4 are switches: they send back to 0 what
//!                  │       │                          they get. Links have 10 Mbit/s, so that a packet
//!                  3       4                          of 1000 bytes takes 0.8 ms.
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, Namespace, tests};
use weft_mechanisms::common::tag::Tag;
use weft_mechanisms::dibs::KIND;
use weft_mechanisms::dibs::stats::Stats;

use crate::model::Packet;
use crate::modules;
use crate::network::{Link, Network};
use crate::packets::{Frame, Receiver, Sender, frame_to};
use crate::random::Random;
use crate::trace::{Trace, value};

tests![
    #[exact = "a burst must arrive faster than its ports send"]
    while_there_is_room_bursts_leave_unchanged,
    a_detoured_packet_has_the_header_of_its_new_link_and_a_mark,
    each_detour_takes_one_hop_which_ends_loops,
    #[exact = "counts detours of a burst that arrives faster than its ports send"]
    no_redirect_is_sent_with_the_schemes_settings,
    #[exact = "counts detours of a burst that arrives faster than its ports send"]
    no_time_exceeded_message_is_sent_with_the_schemes_settings,
    #[exact = "counts detours of a burst that arrives faster than its ports send"]
    ports_that_may_not_carry_detours_get_none,
    a_detoured_packet_stays_in_its_vrf,
    #[once]
    a_packet_of_a_vlan_stays_on_its_port,
    #[once]
    a_packet_of_a_bridge_stays_on_its_port,
    #[once]
    a_packet_of_another_namespace_stays_on_its_port,
    probes_of_neighbours_stay_on_their_port,
    a_large_packet_takes_no_port_whose_mtu_is_too_small_for_its_segments,
    #[once]
    packets_for_a_layer_3_device_are_detoured,
    #[stock]
    #[exact = "counts detours of a burst that comes faster than its ports send"]
    a_detoured_packet_is_on_its_first_port_while_its_enqueue_is_traced,
    ports_come_and_go_while_packets_are_detoured,
    #[exact = "a backlog must exist when tc has ended"]
    limits_change_while_packets_are_detoured,
    a_switch_is_deleted_while_packets_are_detoured,
    the_module_is_removed_after_all_that,
];

const SWITCH: usize = 0;
const SENDER: usize = 1;
const RECEIVER: usize = 2;
const OTHERS: [usize; 2] = [3, 4];

const TO: [u8; 4] = [10, 9, 0, 2];
const FROM: [u8; 4] = [10, 0, 0, 1];
const TO_V6: &str = "2001:db8::2";
const LEN: u32 = 1000;
const ETHERNET: usize = 14;

/// IPv4 plain and tagged, and IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Plain,
    Tagged,
    V6,
}

const SORTS: [Sort; 3] = [Sort::Plain, Sort::Tagged, Sort::V6];

fn sleep(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

fn sum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2);
    let sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Sends what is for the receiver by a link, of both families.
fn route(network: &mut Network, node: usize, link: &Link) -> Result<()> {
    network.route(node, link, TO)?;
    let mac = hex(&link.destination(node, TO).mac);
    let (namespace, name) = (network.namespace(node)?, link.name());
    namespace.ip(&format!("-6 route add {TO_V6}/128 dev {name}"))?;
    let neighbour = format!("-6 neighbour replace {TO_V6} lladdr {mac} dev {name}");
    namespace
        .ip(&format!("{neighbour} nud permanent"))
        .map(drop)
}

struct Star {
    network: Network,
    /// To nodes 1 to 4.
    links: [Link; 4],
    sender: Sender,
    sent: u64,
}

impl Star {
    /// `out` are the options of the port to the receiver, `others` those of the ports to switches.
    fn new(out: &str, others: &str) -> Result<Self> {
        let mut network = Network::new(5)?;
        for node in 0..5 {
            let namespace = network.namespace(node)?;
            for (name, value) in [
                ("net/ipv6/conf/all/disable_ipv6", "0"),
                ("net/ipv6/conf/default/disable_ipv6", "0"),
                ("net/ipv6/conf/default/accept_dad", "0"),
                // No link-local addresses, and so no solicitations.
                ("net/ipv6/conf/default/addr_gen_mode", "1"),
            ] {
                namespace.write_sysctl(name, value)?;
            }
        }
        let mut links = Vec::new();
        for node in 1..5 {
            links.push(network.link(SWITCH, node)?);
        }
        let links: [Link; 4] = links.try_into().expect("four links were made");
        let [to_sender, to_receiver, third, fourth] = links;
        for (node, link) in [(SWITCH, &to_receiver), (3, &third), (4, &fourth)] {
            network.forward(node)?;
            let namespace = network.namespace(node)?;
            namespace.write_sysctl("net/ipv6/conf/all/forwarding", "1")?;
            route(&mut network, node, link)?;
        }
        network.route(SWITCH, &to_sender, FROM)?;
        // The switch has sent to the others before: it knows who they are. Of one it knows by IPv4,
        // of the other by IPv6.
        network.route(SWITCH, &third, [10, 9, 0, 3])?;
        let mac = hex(&fourth.destination(SWITCH, TO).mac);
        let name = fourth.name();
        let neighbour = format!("-6 neighbour add fe80::4 lladdr {mac} dev {name}");
        let namespace = network.namespace(SWITCH)?;
        namespace.ip(&format!("{neighbour} nud permanent"))?;
        let sender = network.sender(SENDER, &to_sender)?;
        let mut star = Self {
            network,
            links,
            sender,
            sent: 0,
        };
        star.add(RECEIVER, out)?;
        for node in OTHERS {
            star.add(node, others)?;
        }
        Ok(star)
    }

    fn link(&self, node: usize) -> Link {
        self.links[node - 1]
    }

    fn tc(&mut self, node: usize, words: &str) -> Result<String> {
        let words = words.replace("{v}", &self.link(node).name());
        self.network.tc(SWITCH, &words)
    }

    /// Puts a wire and `dibs` at the switch's port to a node.
    fn add(&mut self, node: usize, options: &str) -> Result<()> {
        self.tc(node, "qdisc add dev {v} root handle 1: wire rate 10mbit")?;
        let words = format!("qdisc add dev {{v}} parent 1:1 handle 2: dibs {options}");
        self.tc(node, &words).map(drop)
    }

    /// What the port to a node says of itself.
    fn stats(&mut self, node: usize) -> Result<Stats> {
        let link = self.link(node);
        let qdiscs = self.network.netlink(SWITCH)?.qdiscs(link.index)?;
        let dibs = qdiscs.iter().find(|qdisc| qdisc.kind == KIND);
        let dibs = dibs.with_context(|| format!("no dibs at the port to {node}"))?;
        let stats = Stats::from_bytes(&dibs.app).context("short statistics")?;
        ensure!(
            stats.unmarked == 0 && stats.switch_dropped_lost == 0,
            "{stats:?}"
        );
        Ok(stats)
    }

    fn detoured(&mut self) -> Result<u64> {
        let stats = self.stats(RECEIVER)?;
        Ok(stats.detoured_limit + stats.detoured_bytes + stats.detoured_share)
    }

    /// Sends packets to the receiver, all at once; returns their numbers.
    fn burst(&mut self, sorts: &[Sort], packets: u64) -> Result<std::ops::Range<u64>> {
        let first = self.sent;
        let to = self.link(SENDER).destination(SENDER, TO);
        for id in first..first + packets {
            let sort = sorts[id as usize % sorts.len()];
            let frame = match sort {
                Sort::Plain => with_ecn(frame_to(&packet(id), &to, None)),
                Sort::Tagged => with_ecn(frame_to(&packet(id), &to, Some(Tag::default()))),
                Sort::V6 => frame_v6(id, to.mac),
            };
            ensure!(self.sender.send_frame(&frame)?, "the link takes it");
        }
        self.sent += packets;
        Ok(first..self.sent)
    }

    /// Waits until no port of the switch holds a packet.
    fn drain(&mut self) -> Result<()> {
        for _ in 0..200 {
            sleep(20);
            let mut left = 0;
            for node in 1..5 {
                let link = self.link(node);
                let qdiscs = self.network.netlink(SWITCH)?.qdiscs(link.index)?;
                left += qdiscs.iter().map(|qdisc| qdisc.qlen).sum::<u32>();
            }
            if left == 0 {
                return Ok(());
            }
        }
        anyhow::bail!("the switch still holds packets")
    }
}

fn hex(mac: &[u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn packet(id: u64) -> Packet {
    Packet {
        id,
        rank: 0,
        flow: id as u32 % 7,
        len: LEN,
    }
}

/// Makes an IPv4 packet one that is capable of ECN.
fn with_ecn(mut frame: Vec<u8>) -> Vec<u8> {
    let header = usize::from(frame[ETHERNET] & 15) * 4;
    frame[ETHERNET + 1] = 2;
    frame[ETHERNET + 10..ETHERNET + 12].fill(0);
    let checksum = !sum(&frame[ETHERNET..ETHERNET + header]);
    frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// An IPv6 packet with the same content, capable of ECN.
fn frame_v6(id: u64, mac: [u8; 6]) -> Vec<u8> {
    let mut frame = mac.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1, 0x86, 0xdd]);
    let payload = LEN as usize - ETHERNET - 40;
    frame.extend([0x60, 0x20, 0, 0]);
    frame.extend((payload as u16).to_be_bytes());
    frame.extend([17, 64]);
    let address = |last| [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    frame.extend(address(1));
    frame.extend(address(2));
    frame.extend([0x27, 0x10, 0, 9]);
    frame.extend((payload as u16).to_be_bytes());
    // Nobody looks at the checksum on the way.
    frame.extend([0, 1]);
    frame.extend(b"weft");
    frame.extend(id.to_be_bytes());
    frame.resize(LEN as usize, 0);
    frame
}

/// What is seen of a crafted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    id: u64,
    to: [u8; 6],
    from: [u8; 6],
    hops: u8,
    marked: bool,
    sort: Sort,
}

fn seen(frame: &Frame) -> Result<Option<Seen>> {
    let bytes = frame.bytes();
    let Some(at) = bytes.windows(4).position(|word| word == b"weft") else {
        return Ok(None);
    };
    let id = *bytes[at + 4..].first_chunk().context("a number")?;
    let is_v6 = bytes[ETHERNET] >> 4 == 6;
    let (hops, class, sort) = match is_v6 {
        true => (bytes[ETHERNET + 7], bytes[ETHERNET + 1] >> 4, Sort::V6),
        false => {
            ensure!(frame.checksum_is_right(), "{bytes:?}");
            let sort = match frame.tag() {
                Some(_) => Sort::Tagged,
                None => Sort::Plain,
            };
            (bytes[ETHERNET + 8], bytes[ETHERNET + 1], sort)
        }
    };
    ensure!(frame.len == LEN, "{} bytes", frame.len);
    Ok(Some(Seen {
        id: u64::from_be_bytes(id),
        to: *bytes.first_chunk().context("an address")?,
        from: *bytes[6..].first_chunk().context("an address")?,
        hops,
        marked: class & 3 == 3,
        sort,
    }))
}

/// The crafted packets that have arrived.
fn arrived(receiver: &Receiver) -> Result<Vec<Seen>> {
    let frames = receiver.frames()?;
    let seen: Result<Vec<_>> = frames.iter().map(seen).collect();
    Ok(seen?.into_iter().flatten().collect())
}

fn while_there_is_room_bursts_leave_unchanged(cx: &Context) -> Result<()> {
    let mut random = Random::new(11);
    for policy in 0..3 {
        let word = ["random", "load-aware", "flow"][policy];
        let options = format!("limit 20 policy {word}");
        let mut star = Star::new(&options, &format!("{options} detour-to"))?;
        let receiver = Receiver::of_both_ways(star.network.namespace(RECEIVER)?)?;
        let (mut detoured, mut dropped) = (0, 0);
        // Hundred bursts in all.
        for burst in 0..34 {
            let packets = match burst % 4 {
                0 => random.between(61, 200),
                1 => 60,
                _ => random.between(1, 60),
            };
            let before = star.stats(RECEIVER)?;
            let ids = star.burst(&SORTS, packets.into())?;
            star.drain()?;
            let stats = star.stats(RECEIVER)?;
            let lost = stats.dropped_full - before.dropped_full;
            let mut came: BTreeMap<u64, u32> = BTreeMap::new();
            for packet in arrived(&receiver)? {
                *came.entry(packet.id).or_default() += 1;
                ensure!(packet.to == star.link(RECEIVER).address(RECEIVER));
                ensure!(packet.from == star.link(RECEIVER).address(SWITCH));
                // One hop here; two more for each time that it went to another switch.
                ensure!(packet.hops % 2 == 1 && packet.hops < 64, "{packet:?}");
                ensure!(packet.hops == 63 || packet.marked, "{packet:?}");
            }
            ensure!(came.values().all(|&times| times == 1), "twice: {came:?}");
            ensure!(came.keys().all(|id| ids.contains(id)), "of another burst");
            let arrived = came.len() as u64;
            ensure!(
                arrived + lost == u64::from(packets),
                "{packets} sent, {arrived} arrived, {lost} dropped: {stats:?}"
            );
            // Three ports of 20.
            ensure!(packets > 60 || lost == 0, "{packets}: {stats:?}");
            ensure!(packets < 20 || stats.highest_backlog == 20, "{stats:?}");
            dropped += lost;
        }
        let mut received = 0;
        for node in OTHERS {
            let stats = star.stats(node)?;
            ensure!(
                stats.highest_backlog <= 20 && stats.coming == 0 && stats.dropped_full == 0,
                "{stats:?}"
            );
            received += stats.received;
        }
        detoured += star.detoured()?;
        let stats = star.stats(RECEIVER)?;
        ensure!(received == detoured, "{received} of {detoured} came");
        ensure!(stats.switch_backlog == 0, "{stats:?}");
        ensure!(detoured > 500 && dropped > 50, "{detoured}, {dropped}");
        cx.note(format!("{word}: {detoured} detours, {dropped} dropped"));
    }
    Ok(())
}

fn a_detoured_packet_has_the_header_of_its_new_link_and_a_mark(_cx: &Context) -> Result<()> {
    // The receiver's link is closed: what does not wait goes to the others.
    let mut star = Star::new("limit 1 mark 0", "limit 1000 mark 0 detour-to")?;
    star.tc(RECEIVER, "qdisc change dev {v} root wire rate 1kbit")?;
    star.burst(&[Sort::Plain], 2)?;
    for node in OTHERS {
        // It keeps what it gets.
        let namespace = star.network.namespace(node)?;
        namespace.write_sysctl("net/ipv4/ip_forward", "0")?;
        namespace.write_sysctl("net/ipv6/conf/all/forwarding", "0")?;
    }
    let receivers: Result<Vec<_>> = OTHERS
        .iter()
        .map(|&node| Receiver::of_both_ways(star.network.namespace(node)?))
        .collect();
    let receivers = receivers?;
    let ids = star.burst(&SORTS, 120)?;
    sleep(500);
    let mut all = Vec::new();
    for (node, receiver) in OTHERS.into_iter().zip(&receivers) {
        let link = star.link(node);
        let here = arrived(receiver)?;
        for sort in SORTS {
            let count = here.iter().filter(|packet| packet.sort == sort).count();
            ensure!(count > 5, "{count} of {sort:?} to {node}");
        }
        for packet in here {
            let sort = SORTS[packet.id as usize % 3];
            let expected = Seen {
                id: packet.id,
                to: link.address(node),
                from: link.address(SWITCH),
                hops: 63,
                marked: true,
                sort,
            };
            ensure!(packet == expected, "{packet:?}, not {expected:?}");
            all.push(packet.id);
        }
    }
    all.sort_unstable();
    ensure!(all.into_iter().eq(ids), "each once");
    let stats = star.stats(RECEIVER)?;
    ensure!(
        stats.detoured_limit == 120 && stats.marked == 120,
        "{stats:?}"
    );
    Ok(())
}

fn each_detour_takes_one_hop_which_ends_loops(_cx: &Context) -> Result<()> {
    for (option, detours) in [("ttl 0", 31), ("ttl 9", 4)] {
        let mut star = Star::new(&format!("limit 5 {option}"), "limit 100 detour-to")?;
        // Nothing leaves by the receiver's link: one packet on the wire, five behind it.
        star.tc(RECEIVER, "qdisc change dev {v} root wire rate 1kbit")?;
        star.burst(&[Sort::Plain], 6)?;
        sleep(10);
        star.burst(&[Sort::Plain, Sort::V6], 4)?;
        sleep(2000);
        let stats = star.stats(RECEIVER)?;
        // They find the port full with 63 hops left, 61, …, 3; with 1 left they are dropped. Or
        // with 9 at most once they have been detoured.
        ensure!(stats.detoured_limit == 4 * detours, "{option}: {stats:?}");
        ensure!(
            stats.dropped_ttl == 4 && stats.dropped_full == 0,
            "{option}: {stats:?}"
        );
        ensure!(stats.switch_backlog == 5 * u64::from(LEN), "{stats:?}");
    }
    Ok(())
}

/// A star whose switches can send messages to the sender, with settings of `net`.
fn telling(options: &str, settings: &[(&str, &str)]) -> Result<Star> {
    let mut star = Star::new(options, "limit 100 detour-to")?;
    let [to_sender, _, third, fourth] = star.links;
    for (node, link) in [(SWITCH, to_sender), (3, third), (4, fourth)] {
        let namespace = star.network.namespace(node)?;
        for (name, value) in settings {
            namespace.write_sysctl(
                &format!("net/{}", name.replace("{dev}", &link.name())),
                value,
            )?;
        }
        namespace.ip("link set lo up")?;
        namespace.ip(&format!("address add 10.8.0.{node}/32 dev lo"))?;
        if node != SWITCH {
            star.network.route(node, &link, FROM)?;
        }
    }
    Ok(star)
}

/// Messages of a type of ICMP that a link has seen.
fn messages(receiver: &Receiver, kind: u8) -> Result<usize> {
    let is = |frame: &Frame| {
        let bytes = frame.bytes();
        bytes[ETHERNET + 9] == 1 && bytes[ETHERNET + 20] == kind
    };
    Ok(receiver.frames()?.iter().filter(|frame| is(frame)).count())
}

/// Redirects that the sender's link has seen in a minute of packets that come back the way they
/// went.
fn redirects(settings: &[(&str, &str)]) -> Result<usize> {
    const REDIRECT: u8 = 5;
    let mut star = telling("limit 1", settings)?;
    let receiver = Receiver::open(star.network.namespace(SENDER)?)?;
    let arrivals = Receiver::open(star.network.namespace(RECEIVER)?)?;
    star.burst(&[Sort::Plain], 60)?;
    star.drain()?;
    ensure!(star.detoured()? >= 58);
    let came = arrived(&arrivals)?;
    ensure!(came.len() == 60, "{} came", came.len());
    messages(&receiver, REDIRECT)
}

/// The kernel sends such messages by itself, and with the settings none.
fn none_with(
    settings: &[(&str, &str)],
    sent: fn(&[(&str, &str)]) -> Result<usize>,
    cx: &Context,
) -> Result<()> {
    let (without, with) = (sent(&[])?, sent(settings)?);
    cx.note(format!("{without} messages without the settings"));
    ensure!(without > 0, "the kernel sends them by itself");
    ensure!(with == 0, "{with} messages");
    Ok(())
}

fn no_redirect_is_sent_with_the_schemes_settings(cx: &Context) -> Result<()> {
    let settings = [
        ("ipv4/conf/all/send_redirects", "0"),
        ("ipv4/conf/{dev}/send_redirects", "0"),
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/{dev}/rp_filter", "0"),
    ];
    none_with(&settings, redirects, cx)
}

/// Messages that hops are spent.
fn time_exceeded(settings: &[(&str, &str)]) -> Result<usize> {
    const TIME_EXCEEDED: u8 = 11;
    // A packet finds the port full with 8 hops left, 6, …, 2, and is back at the switch with 1.
    let mut star = telling("limit 5 ttl 8", settings)?;
    let receiver = Receiver::open(star.network.namespace(SENDER)?)?;
    star.tc(RECEIVER, "qdisc change dev {v} root wire rate 1kbit")?;
    star.burst(&[Sort::Plain], 16)?;
    sleep(2000);
    let detoured = star.detoured()?;
    ensure!(detoured == 10 * 4, "{detoured} detours");
    messages(&receiver, TIME_EXCEEDED)
}

fn no_time_exceeded_message_is_sent_with_the_schemes_settings(cx: &Context) -> Result<()> {
    none_with(&[("ipv4/icmp_ratelimit", "300000000")], time_exceeded, cx)
}

fn ports_that_may_not_carry_detours_get_none(_cx: &Context) -> Result<()> {
    // Facing a host; without a neighbour that is known; of another kind.
    for (what, options) in [
        ("a host's", "limit 100 nodetour-to"),
        ("no neighbour", "limit 100 detour-to"),
        ("a pfifo", ""),
        ("down", "limit 100 detour-to"),
        ("no carrier", "limit 100 detour-to"),
    ] {
        let mut star = Star::new("limit 5", "limit 100 detour-to")?;
        star.tc(4, "qdisc del dev {v} root")?;
        star.tc(4, "qdisc add dev {v} root handle 1: wire rate 10mbit")?;
        if !options.is_empty() {
            star.tc(4, &format!("qdisc add dev {{v}} parent 1:1 dibs {options}"))?;
        }
        let link = star.link(4);
        match what {
            "no neighbour" => {
                let namespace = star.network.namespace(SWITCH)?;
                let words = format!("-6 neighbour del fe80::4 dev {}", link.name());
                namespace.ip(&words)?;
            }
            "down" => star.network.set_up(SWITCH, &link, false)?,
            "no carrier" => star.network.set_up(4, &link, false)?,
            _ => {}
        }
        let receiver = Receiver::of_both_ways(star.network.namespace(4)?)?;
        star.burst(&SORTS, 60)?;
        star.drain()?;
        let here = arrived(&receiver)?;
        ensure!(here.is_empty(), "{what}: {here:?}");
        let stats = star.stats(RECEIVER)?;
        ensure!(stats.detoured_limit >= 54, "{what}: {stats:?}");
        ensure!(stats.dropped_full == 0, "{what}: {stats:?}");
    }
    Ok(())
}

/// A star whose port to the receiver is full and stays so.
fn full() -> Result<Star> {
    let mut star = Star::new("limit 1", "limit 100 detour-to")?;
    star.tc(RECEIVER, "qdisc change dev {v} root wire rate 1kbit")?;
    star.burst(&[Sort::Plain], 2)?;
    sleep(10);
    Ok(star)
}

fn a_detoured_packet_stays_in_its_vrf(cx: &Context) -> Result<()> {
    // A VRF takes its new device down and up; here the kernel says that it could not.
    cx.expect_kernel_message("Failed to cycle device");
    let mut star = full()?;
    let link = star.link(3);
    let mac = hex(&link.destination(SWITCH, TO).mac);
    let name = link.name();
    let enslave = |star: &mut Star, master: &str| -> Result<()> {
        let namespace = star.network.namespace(SWITCH)?;
        namespace.ip(&format!("link set {name} {master} up"))?;
        // What the kernel knew of the link's neighbours went with that.
        let words = format!("neighbour replace 10.9.1.3 lladdr {mac} dev {name} nud permanent");
        namespace.ip(&words).map(drop)
    };
    star.network
        .namespace(SWITCH)?
        .ip("link add red up type vrf table 10")?;
    enslave(&mut star, "master red")?;
    star.burst(&[Sort::Plain], 40)?;
    sleep(100);
    let (inside, outside) = (star.stats(3)?, star.stats(4)?);
    ensure!(inside.received == 0, "{inside:?}");
    ensure!(outside.received >= 38, "{outside:?}");
    // And as before outside of it.
    enslave(&mut star, "nomaster")?;
    star.burst(&[Sort::Plain], 40)?;
    sleep(100);
    let back = star.stats(3)?;
    ensure!(back.received > 5, "{back:?}");
    Ok(())
}

/// Routes packets to a device on top of the full port, `upper`, and checks that none is detoured.
fn stay_on_their_port(star: &mut Star, upper: &str) -> Result<()> {
    const UPPER_TO: [u8; 4] = [10, 9, 7, 7];
    let mac = hex(&star.link(RECEIVER).destination(SWITCH, TO).mac);
    let namespace = star.network.namespace(SWITCH)?;
    namespace.ip(&format!("route add 10.9.7.7/32 dev {upper}"))?;
    namespace.ip(&format!(
        "neighbour add 10.9.7.7 lladdr {mac} dev {upper} nud permanent"
    ))?;
    let before = star.stats(RECEIVER)?;
    let to = star.link(SENDER).destination(SENDER, UPPER_TO);
    for id in 0..20 {
        ensure!(star.sender.send_frame(&frame_to(&packet(id), &to, None))?);
    }
    sleep(100);
    let stats = star.stats(RECEIVER)?;
    ensure!(stats.detoured_limit == before.detoured_limit, "{stats:?}");
    ensure!(stats.dropped_link >= before.dropped_link + 20, "{stats:?}");
    Ok(())
}

/// A VLAN is another network than the one of the device below it, whose ports do not know its
/// stations.
fn a_packet_of_a_vlan_stays_on_its_port(_cx: &Context) -> Result<()> {
    let mut star = full()?;
    let name = star.link(RECEIVER).name();
    let namespace = star.network.namespace(SWITCH)?;
    namespace.ip(&format!(
        "link add link {name} name tagged up type vlan id 7"
    ))?;
    stay_on_their_port(&mut star, "tagged")
}

/// A bridge forwards by its own table. The switch's routes say nothing of its stations.
fn a_packet_of_a_bridge_stays_on_its_port(_cx: &Context) -> Result<()> {
    let mut star = full()?;
    let name = star.link(RECEIVER).name();
    let namespace = star.network.namespace(SWITCH)?;
    namespace.ip("link add joined up type bridge")?;
    namespace.ip(&format!("link set {name} master joined"))?;
    // The bridge has a carrier when its port forwards.
    sleep(2000);
    stay_on_their_port(&mut star, "joined")
}

/// A macvlan of another namespace sends by the switch's device, and not by the switch's routes.
fn a_packet_of_another_namespace_stays_on_its_port(_cx: &Context) -> Result<()> {
    let mut star = full()?;
    let link = star.link(RECEIVER);
    let other = Namespace::without_ipv6()?;
    let namespace = star.network.namespace(SWITCH)?;
    namespace.ip(&format!(
        "link add link {} name above netns {} type macvlan mode bridge",
        link.name(),
        other.path()
    ))?;
    other.ip("link set above up")?;
    let index = other.enter(|| nix::net::if_::if_nametoindex("above"))??;
    let sender = Sender::open(&other, index)?;
    let before = star.stats(RECEIVER)?;
    let to = link.destination(SWITCH, TO);
    for id in 0..20 {
        let taken = sender.send_frame(&frame_to(&packet(id), &to, None))?;
        ensure!(!taken, "packet {id} went elsewhere: there is no room");
    }
    let stats = star.stats(RECEIVER)?;
    ensure!(stats.detoured_limit == before.detoured_limit, "{stats:?}");
    ensure!(stats.dropped_link >= before.dropped_link + 20, "{stats:?}");
    Ok(())
}

/// A probe is of use to the neighbour only, be it sent from and to addresses that are routed.
fn probes_of_neighbours_stay_on_their_port(_cx: &Context) -> Result<()> {
    let mut star = full()?;
    let before = star.stats(RECEIVER)?;
    let link = star.link(RECEIVER);
    let sender = star.network.sender(SWITCH, &link)?;
    let solicitation = |id| {
        let mut frame = frame_v6(id, link.address(RECEIVER));
        (frame[ETHERNET + 6], frame[ETHERNET + 7]) = (58, 255);
        frame[ETHERNET + 40] = 135;
        frame
    };
    for id in 0..20 {
        ensure!(!sender.send_frame(&solicitation(id))?, "there is no room");
    }
    let stats = star.stats(RECEIVER)?;
    ensure!(stats.detoured_limit == before.detoured_limit, "{stats:?}");
    ensure!(stats.dropped_link == before.dropped_link + 20, "{stats:?}");
    Ok(())
}

fn a_large_packet_takes_no_port_whose_mtu_is_too_small_for_its_segments(
    _cx: &Context,
) -> Result<()> {
    let mut star = full()?;
    for node in OTHERS {
        let name = star.link(node).name();
        star.network
            .namespace(SWITCH)?
            .ip(&format!("link set {name} mtu 1400"))?;
    }
    let before = star.stats(RECEIVER)?;
    let to = star.link(SENDER).destination(SENDER, TO);
    for (segment, detoured) in [(1440, 0), (1000, 10)] {
        let large = Packet {
            len: 42 + 4 * u32::from(segment),
            ..packet(0)
        };
        for _ in 0..10 {
            ensure!(star.sender.send_gso_to(&large, &to, segment)?);
        }
        sleep(100);
        let stats = star.stats(RECEIVER)?;
        ensure!(
            (detoured..=detoured * 100).contains(&(stats.detoured_limit - before.detoured_limit))
                && stats.dropped_full == before.dropped_full + 10,
            "segments of {segment}: {stats:?}"
        );
    }
    Ok(())
}

/// Such a packet begins with its IP header: the first byte of that is of no address.
fn packets_for_a_layer_3_device_are_detoured(_cx: &Context) -> Result<()> {
    const TUNNEL_TO: [u8; 4] = [10, 9, 0, 9];
    let mut star = Star::new("limit 1", "limit 100 detour-to")?;
    let namespace = star.network.namespace(SWITCH)?;
    let _tunnel = namespace.enter(|| tunnel("t0"))??;
    namespace.ip("link set t0 up")?;
    namespace.ip("route add 10.9.0.9/32 dev t0")?;
    let index: u32 = namespace.enter(|| nix::net::if_::if_nametoindex("t0"))??;
    star.network
        .tc(SWITCH, "qdisc add dev t0 root handle 1: wire rate 1kbit")?;
    star.network
        .tc(SWITCH, "qdisc add dev t0 parent 1:1 handle 2: dibs limit 1")?;
    let to = star.link(SENDER).destination(SENDER, TUNNEL_TO);
    for id in 0..20 {
        ensure!(star.sender.send_frame(&frame_to(&packet(id), &to, None))?);
    }
    sleep(100);
    let qdiscs = star.network.netlink(SWITCH)?.qdiscs(index)?;
    let dibs = qdiscs.iter().find(|qdisc| qdisc.kind == KIND);
    let stats = Stats::from_bytes(&dibs.context("no dibs at the tunnel")?.app);
    let stats = stats.context("short statistics")?;
    ensure!(
        // The device's own solicitations are no packets to be detoured.
        stats.detoured_limit >= 18 && stats.dropped_link <= 2,
        "{stats:?}"
    );
    Ok(())
}

nix::ioctl_readwrite_bad!(
    /// Makes a tunnel's descriptor that of a device.
    tunsetiff,
    nix::request_code_write!(b'T', 202, size_of::<libc::c_int>()),
    [u8; 40]
);

/// A device of layer 3 (tun), as long as the result is open.
fn tunnel(name: &str) -> Result<std::fs::File> {
    // Where it is a module, nothing else loads it. Where it is built in, modprobe may find none.
    let _ = std::process::Command::new("modprobe").arg("tun").output();
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .context("/dev/net/tun")?;
    // struct ifreq: the name, then the flags.
    let mut request = [0_u8; 40];
    request[..name.len()].copy_from_slice(name.as_bytes());
    let flags = (libc::IFF_TUN | libc::IFF_NO_PI) as u16;
    request[16..18].copy_from_slice(&flags.to_ne_bytes());
    // SAFETY: TUNSETIFF reads a struct ifreq, and writes the name to it.
    unsafe { tunsetiff(file.as_raw_fd(), &raw mut request) }.context("TUNSETIFF")?;
    Ok(file)
}

/// The kernel traces the enqueue of a detoured packet once the port's qdisc has taken it. Another
/// processor must not have the packet until then.
fn a_detoured_packet_is_on_its_first_port_while_its_enqueue_is_traced(cx: &Context) -> Result<()> {
    const ROOT: &str = "0xFFFFFFFF";
    // `dev` is the third pointer of struct sk_buff, and the first of struct netdev_queue.
    let fields = "dev=+16($skbaddr):x64 queue_dev=+0($txq):x64";
    let trace = Trace::of_event("qdisc/qdisc_enqueue", "weft_enqueue", fields)?;
    let mut star = Star::new("limit 20", "limit 20 detour-to")?;
    let receiver = Receiver::of_both_ways(star.network.namespace(RECEIVER)?)?;
    let indices = [RECEIVER, OTHERS[0], OTHERS[1]].map(|node| star.link(node).index);
    let mut came = 0;
    for _ in 0..10 {
        star.burst(&SORTS, 50)?;
        star.drain()?;
        came += arrived(&receiver)?.len() as u64;
    }
    ensure!(came == star.sent, "{came} of {} arrived", star.sent);
    let (mut first, mut second, mut read) = (BTreeSet::new(), 0, 0);
    for line in trace.lines()? {
        if line.contains(" weft_enqueue: ") {
            let (dev, queue_dev) = (value(&line, "dev")?, value(&line, "queue_dev")?);
            ensure!(dev == queue_dev, "the packet has left: {line}");
            read += 1;
        } else if line.contains(" qdisc_enqueue: ") {
            let index: u32 = value(&line, "ifindex")?.parse()?;
            let Some(port) = indices.iter().position(|it| *it == index) else {
                continue;
            };
            let is_root = value(&line, "handle")? == "0x10000" && value(&line, "parent")? == ROOT;
            ensure!(is_root, "{line}");
            let packet = value(&line, "skbaddr")?.to_owned();
            if port == 0 {
                first.insert(packet);
            } else if first.contains(&packet) {
                second += 1;
            }
        }
    }
    let detoured = star.detoured()?;
    cx.note(format!("{detoured} detours, {second} of them traced again"));
    ensure!(detoured > 100, "{detoured} detours");
    // The switch's own packets, such as reports of multicast groups, are traced as well, and some
    // have the address of an earlier packet.
    ensure!(second >= detoured, "{second} of {detoured} detours traced");
    ensure!(read > detoured, "the packet was read {read} times");
    Ok(())
}

fn ports_come_and_go_while_packets_are_detoured(cx: &Context) -> Result<()> {
    let mut random = Random::new(11);
    let mut star = Star::new("limit 10", "limit 40 detour-to")?;
    let receiver = Receiver::of_both_ways(star.network.namespace(RECEIVER)?)?;
    let (mut came, mut detoured) = (0, 0);
    for round in 0..60 {
        let node = OTHERS[round % 2];
        let link = star.link(node);
        let detoured_before = star.detoured()?;
        // All of it fits into what stays.
        star.burst(&SORTS, random.between(20, 48).into())?;
        match round % 5 {
            0 => {
                star.network.set_up(node, &link, false)?;
                sleep(u64::from(random.below(20)));
                star.network.set_up(node, &link, true)?;
                // Its routes went with it.
                route(&mut star.network, node, &link)?;
            }
            1 => {
                star.network.set_up(SWITCH, &link, false)?;
                sleep(u64::from(random.below(20)));
                star.network.set_up(SWITCH, &link, true)?;
                // What the kernel knew of the link's neighbours went with it.
                let mac = hex(&link.destination(SWITCH, TO).mac);
                let words = format!("neighbour replace 10.9.1.{node} lladdr {mac} dev");
                let namespace = star.network.namespace(SWITCH)?;
                namespace.ip(&format!("{words} {} nud permanent", link.name()))?;
            }
            2 => {
                star.tc(node, "qdisc del dev {v} parent 1:1")?;
                sleep(u64::from(random.below(20)));
                star.tc(
                    node,
                    "qdisc add dev {v} parent 1:1 handle 2: dibs limit 40 detour-to",
                )?;
            }
            3 => {
                star.tc(
                    node,
                    "qdisc change dev {v} parent 1:1 handle 2: dibs nodetour-to",
                )?;
                sleep(u64::from(random.below(20)));
                star.tc(
                    node,
                    "qdisc change dev {v} parent 1:1 handle 2: dibs detour-to",
                )?;
            }
            _ => {}
        }
        star.drain()?;
        came += arrived(&receiver)?.len() as u64;
        let stats = star.stats(RECEIVER)?;
        ensure!(stats.switch_backlog == 0, "{round}: {stats:?}");
        ensure!(stats.dropped_full == 0, "{round}: {stats:?}");
        detoured += star.detoured()? - detoured_before;
    }
    // What waited in a port that went is purged with it, as of any qdisc.
    cx.note(format!(
        "{} sent, {detoured} detours, {came} came",
        star.sent
    ));
    ensure!(detoured > 500 && came > star.sent / 2);
    ensure!(came <= star.sent);
    // And all is as it was.
    let ids = star.burst(&SORTS, 60)?;
    star.drain()?;
    let mut last: Vec<_> = arrived(&receiver)?.iter().map(|packet| packet.id).collect();
    last.sort_unstable();
    ensure!(last.iter().copied().eq(ids), "{last:?}");
    Ok(())
}

fn limits_change_while_packets_are_detoured(_cx: &Context) -> Result<()> {
    let mut star = Star::new("limit 50", "limit 50 detour-to")?;
    star.burst(&SORTS, 100)?;
    let change = "qdisc change dev {v} parent 1:1 handle 2: dibs";
    star.tc(RECEIVER, &format!("{change} limit 10"))?;
    let stats = star.stats(RECEIVER)?;
    ensure!(stats.dropped_change > 0, "{stats:?}");
    let text = star.tc(RECEIVER, "qdisc show dev {v}")?;
    ensure!(
        text.contains("dibs 2: parent 1:1 limit 10p mark 20p"),
        "{text}"
    );
    star.tc(3, &format!("{change} limit_bytes 5000 limit 0"))?;
    star.drain()?;
    let before = star.stats(RECEIVER)?;
    star.burst(&SORTS, 60)?;
    star.drain()?;
    let stats = star.stats(3)?;
    ensure!(stats.received > 0 && stats.switch_backlog == 0, "{stats:?}");
    let stats = star.stats(RECEIVER)?;
    ensure!(stats.dropped_full == before.dropped_full, "{stats:?}");
    star.tc(RECEIVER, &format!("{change} policy off"))?;
    star.burst(&SORTS, 60)?;
    star.drain()?;
    let stats = star.stats(RECEIVER)?;
    ensure!(stats.dropped_off >= 48, "{stats:?}");
    Ok(())
}

fn a_switch_is_deleted_while_packets_are_detoured(_cx: &Context) -> Result<()> {
    for pause in 0..8 {
        let mut star = Star::new("limit 5", "limit 20 detour-to")?;
        star.burst(&SORTS, 45)?;
        sleep(pause);
        star.network.delete(SWITCH);
    }
    Ok(())
}

fn the_module_is_removed_after_all_that(_cx: &Context) -> Result<()> {
    let star = Star::new("limit 5", "limit 20 detour-to")?;
    let in_use = modules::remove("sch_dibs");
    ensure!(in_use == Err(nix::errno::Errno::EWOULDBLOCK), "{in_use:?}");
    drop(star);
    modules::wait_until_unused()?;
    modules::remove("sch_dibs")?;
    ensure!(modules::users("sch_dibs").is_none(), "it is still there");
    // And comes back with the next qdisc.
    let mut star = Star::new("limit 5", "limit 20 detour-to")?;
    star.burst(&SORTS, 45)?;
    star.drain()?;
    let stats = star.stats(RECEIVER)?;
    ensure!(
        stats.detoured_limit > 0 && stats.dropped_full == 0,
        "{stats:?}"
    );
    Ok(())
}
