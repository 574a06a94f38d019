// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets on the wire.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use weft_ebpf::{
    Attacher, Counter, Counters, Gso, Hook, HostConfig, Policy, SwitchConfig, Tagged, Untagged,
    port,
};
use weft_mechanisms::common::tag::{Tag, find_in_packet};

use crate::capture::Capture;
use crate::fabric::{Path, Version};
use crate::frame::{self, Packet};
use crate::transfer::{self, Sink};
use weft_ktap::Namespace;

/// Bytes of a transfer.
const SIZE: usize = 3_000_000;
const MTU: usize = 1500;

pub(super) fn counters(namespace: &Namespace, device: &str) -> Result<Counters> {
    let status = namespace.enter(|| port::status(device))??;
    Ok(status.context("nothing is attached")?.counters)
}

/// The first sequence number of a stream that was captured from its start.
fn first_byte(frames: &[Vec<u8>], port: u16) -> Result<u32> {
    for frame in frames {
        match frame::parse(frame)? {
            Some(packet) if packet.destination_port == port && packet.syn => {
                return Ok(packet.sequence.wrapping_add(1));
            }
            _ => {}
        }
    }
    anyhow::bail!("the capture holds no SYN")
}

/// Checks each packet of a flow whose first byte has this sequence number; returns the number of
/// retransmitted packets.
fn check_remaining(packets: &[Packet], first: u32, size: usize) -> Result<usize> {
    let mut seen = HashMap::new();
    let mut again = 0;
    for packet in packets {
        let offset = packet.sequence.wrapping_sub(first) as usize;
        let tag = packet
            .tag
            .with_context(|| format!("no tag on the packet at {offset}"))?;
        let expected = Tag {
            rank: (size - offset) as u32,
            upstream_queue: 0,
        };
        ensure!(
            tag == expected,
            "at {offset}: {tag:?} instead of {expected:?}"
        );
        ensure!(packet.length <= MTU, "a packet of {} bytes", packet.length);
        if seen.insert(offset, packet.payload).is_some() {
            again += 1;
        }
    }
    let mut next = 0;
    while next < size {
        next += seen
            .get(&next)
            .with_context(|| format!("no packet begins at {next}"))?;
    }
    Ok(again)
}

fn each_packet(version: Version, hook: Hook) -> Result<String> {
    let path = Path::new(1)?;
    path.attach_at(hook, &HostConfig::default(), &SwitchConfig::default())?;
    let first = Capture::start(&path.first, "left")?;
    let last = Capture::start(&path.receiver, "eth")?;
    let delivered = Delivered::start(&path.receiver)?;
    let peer = transfer::send(
        &path.sender,
        &path.receiver,
        path.receiver_address(version),
        SIZE,
    )?;
    let frames = first.frames()?;
    let begin = first_byte(&frames, peer.port())?;
    let packets = frame::to_port(&frames, peer.port())?;
    check_remaining(&packets, begin, SIZE)?;
    // After two switches that route, the packets are unchanged.
    let at_receiver = frame::to_port(&last.frames()?, peer.port())?;
    let essence = |packet: &Packet| (packet.sequence, packet.payload, packet.tag);
    let same = packets
        .iter()
        .map(essence)
        .eq(at_receiver.iter().map(essence));
    ensure!(same, "the packets changed on their way");
    // IP at the receiver sees no tags.
    let tagged = at_receiver
        .iter()
        .filter(|packet| packet.tag.is_some())
        .count() as u64;
    let counters = counters(&path.receiver, "eth")?;
    ensure!(
        counters.get(Counter::Untagged) == tagged,
        "{counters:?}, {tagged} tagged"
    );
    ensure!(counters.get(Counter::UntagMalformed) + counters.get(Counter::UntagFailed) == 0);
    let delivered = delivered.count_without_tag(peer.port())?;
    ensure!(
        delivered >= packets.len(),
        "{delivered} of {} delivered",
        packets.len()
    );
    let read = self::counters(&path.first, "left")?.get(Counter::Read);
    ensure!(read == tagged, "the switch read {read} of {tagged} tags");
    Ok(format!(
        "{} packets, the longest {} bytes",
        packets.len(),
        longest(&packets)
    ))
}

fn longest(packets: &[Packet]) -> usize {
    packets
        .iter()
        .map(|packet| packet.length)
        .max()
        .unwrap_or(0)
}

pub(super) fn each_packet_carries_exactly_the_remaining_size_v4() -> Result<String> {
    each_packet(Version::V4, Hook::Tcx)
}

pub(super) fn each_packet_carries_exactly_the_remaining_size_v6() -> Result<String> {
    each_packet(Version::V6, Hook::Tcx)
}

pub(super) fn each_packet_carries_exactly_the_remaining_size_at_clsact() -> Result<String> {
    each_packet(Version::V4, Hook::Clsact)
}

/// Packets that IP delivers at the receiver, after the programs at ingress: they are mirrored to a
/// separate device.
struct Delivered {
    capture: Capture,
}

impl Delivered {
    fn start(namespace: &Namespace) -> Result<Self> {
        // A filter of tc, after weft's programs at both hooks.
        namespace.ip("link add seen type veth peer name mirror")?;
        namespace.ip("link set seen up")?;
        namespace.ip("link set mirror up")?;
        // Programs at clsact have added the qdisc.
        let qdiscs = namespace.command("tc", "qdisc show dev eth")?;
        if !qdiscs.contains("clsact") {
            namespace.command("tc", "qdisc add dev eth clsact")?;
        }
        let filter = "filter add dev eth ingress pref 60000 protocol all u32 match u32 0 0 action mirred egress mirror dev mirror";
        namespace.command("tc", filter)?;
        Ok(Self {
            capture: Capture::start(namespace, "seen")?,
        })
    }

    /// The number of TCP packets with payload to a port; an error if one has a tag.
    fn count_without_tag(&self, port: u16) -> Result<usize> {
        let packets = frame::to_port(&self.capture.frames()?, port)?;
        for packet in &packets {
            ensure!(packet.tag.is_none(), "delivered with its tag: {packet:?}");
        }
        Ok(packets.len())
    }
}

fn sent_again(version: Version) -> Result<String> {
    const SIZE: usize = 300_000;
    let path = Path::new(1)?;
    path.attach(&HostConfig::default(), &SwitchConfig::default())?;
    // A short queue before a slow wire drops packets, like a real one. The wire is slow enough that
    // even a kernel with debugging fills the queue.
    let queue = "qdisc add dev right2 root tbf rate 1mbit burst 5kb limit 20kb";
    path.first.command("tc", queue)?;
    let capture = Capture::start(&path.first, "left")?;
    let peer = transfer::send(
        &path.sender,
        &path.receiver,
        path.receiver_address(version),
        SIZE,
    )?;
    let frames = capture.frames()?;
    let packets = frame::to_port(&frames, peer.port())?;
    let again = check_remaining(&packets, first_byte(&frames, peer.port())?, SIZE)?;
    ensure!(again > 0, "nothing was lost");
    Ok(format!(
        "{} packets, {again} of them retransmitted",
        packets.len()
    ))
}

pub(super) fn a_retransmission_carries_the_same_rank_v4() -> Result<String> {
    sent_again(Version::V4)
}

pub(super) fn a_retransmission_carries_the_same_rank_v6() -> Result<String> {
    sent_again(Version::V6)
}

pub(super) fn a_second_flow_begins_after_the_unsent_bytes_of_the_first() -> Result<String> {
    const FIRST: usize = 400_000;
    const SECOND: usize = 100_000;
    let path = Path::new(1)?;
    path.attach(&HostConfig::default(), &SwitchConfig::default())?;
    path.first.command(
        "tc",
        "qdisc add dev right2 root tbf rate 100mbit burst 5kb limit 20kb",
    )?;
    let capture = Capture::start(&path.first, "left")?;
    let sink = Sink::start(&path.receiver, path.receiver_address(Version::V4))?;
    let mut stream = sink.connect(&path.sender)?;
    let bytes = transfer::bytes(FIRST + SECOND);
    weft_socket::flow_size(&stream, FIRST as u64)?;
    stream.write_all(&bytes[..FIRST])?;
    // Most of the first flow waits in the socket.
    weft_socket::flow_size(&stream, SECOND as u64)?;
    stream.write_all(&bytes[FIRST..])?;
    let port = sink.address.port();
    sink.finish(stream, FIRST + SECOND)?;
    let frames = capture.frames()?;
    let begin = first_byte(&frames, port)?;
    let (mut first, mut second) = (0, 0);
    for packet in frame::to_port(&frames, port)? {
        let offset = packet.sequence.wrapping_sub(begin) as usize;
        let rank = packet.tag.context("no tag")?.rank as usize;
        let expected = if offset < FIRST {
            FIRST - offset
        } else {
            FIRST + SECOND - offset
        };
        ensure!(
            rank == expected,
            "at {offset}: rank {rank} instead of {expected}"
        );
        *(if offset < FIRST {
            &mut first
        } else {
            &mut second
        }) += 1;
    }
    ensure!(
        first > FIRST / MTU && second >= SECOND / MTU,
        "{first}, {second} packets"
    );
    Ok(String::new())
}

pub(super) fn a_burst_carries_the_rank_of_its_first_byte() -> Result<String> {
    let path = Path::new(1)?;
    let config = HostConfig {
        gso: Gso::On,
        ..HostConfig::default()
    };
    path.attach(&config, &SwitchConfig::default())?;
    // After this link the bursts are segments, as on the wire of a device without offloads.
    path.second.command(
        "tc",
        "qdisc add dev right root tbf rate 1gbit burst 1600 limit 4mb",
    )?;
    let mut figures = String::new();
    for version in [Version::V4, Version::V6] {
        let (bursts, segments) = (
            Capture::start(&path.first, "left")?,
            Capture::start(&path.receiver, "eth")?,
        );
        let peer = transfer::send(
            &path.sender,
            &path.receiver,
            path.receiver_address(version),
            SIZE,
        )?;
        let frames = bursts.frames()?;
        let begin = first_byte(&frames, peer.port())?;
        let packets = frame::to_port(&frames, peer.port())?;
        let burst = longest(&packets);
        // The length of bursts depends on TCP and varies with the round-trip time.
        ensure!(burst > 2 * MTU, "the longest burst has {burst} bytes");
        let rank = |packet: &Packet| Ok::<_, anyhow::Error>(packet.tag.context("no tag")?.rank);
        for packet in &packets {
            let expected = SIZE as u32 - packet.sequence.wrapping_sub(begin);
            ensure!(rank(packet)? == expected, "{packet:?}, expected {expected}");
        }
        let segments = frame::to_port(&segments.frames()?, peer.port())?;
        ensure!(
            longest(&segments) <= MTU,
            "a segment of {} bytes",
            longest(&segments)
        );
        for segment in &segments {
            let own = SIZE as u32 - segment.sequence.wrapping_sub(begin);
            let rank = rank(segment)?;
            ensure!(
                rank >= own && rank - own < 65_536,
                "{segment:?}, own rank {own}"
            );
        }
        figures += &format!(
            "{version:?}: {} bursts to {burst} bytes, {} segments\n",
            packets.len(),
            segments.len()
        );
    }
    Ok(figures)
}

fn udp(path: &Path, version: Version) -> Result<(UdpSocket, UdpSocket)> {
    let address = path.receiver_address(version);
    let receiver = path.receiver.enter(|| UdpSocket::bind((address, 0)))??;
    receiver.set_read_timeout(Some(Duration::from_secs(5)))?;
    let any = if version == Version::V4 {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let sender = path.sender.enter(|| UdpSocket::bind(any))??;
    sender.connect(receiver.local_addr()?)?;
    Ok((sender, receiver))
}

pub(super) fn a_tagged_packet_never_exceeds_the_mtu() -> Result<String> {
    let path = Path::new(1)?;
    path.attach(&HostConfig::default(), &SwitchConfig::default())?;
    // A later route without the smaller MTU.
    path.sender.ip("route add 10.9.9.2/32 via 10.9.1.2")?;
    let (sender, receiver) = udp(&path, Version::V4)?;
    discover_mtu(&sender)?;
    let capture = Capture::start(&path.first, "left")?;
    // 1472 fill the MTU; 1464 leave room for the tag.
    let mut buffer = [0; 2000];
    for length in [1464, 1465, 1472] {
        sender.send(&transfer::bytes(length))?;
        ensure!(receiver.recv(&mut buffer)? == length);
    }
    let packets = frame::to_port(&capture.frames()?, receiver.local_addr()?.port())?;
    let tagged: Vec<_> = packets.iter().map(|packet| packet.tag.is_some()).collect();
    ensure!(
        tagged == [true, false, false] && longest(&packets) == MTU,
        "{packets:?}"
    );
    ensure!(counters(&path.sender, "eth")?.get(Counter::TagTooLong) == 2);
    // A route with the smaller MTU refuses datagrams that need fragmentation and must not be
    // fragmented.
    path.sender.ip("route del 10.9.9.2/32")?;
    let error = sender.send(&transfer::bytes(1465)).expect_err("sent");
    ensure!(error.raw_os_error() == Some(libc::EMSGSIZE), "{error}");
    Ok(String::new())
}

/// Forbids fragmentation of datagrams.
fn discover_mtu(socket: impl AsFd) -> Result<()> {
    use std::os::fd::AsRawFd as _;
    let always = libc::IP_PMTUDISC_DO;
    // SAFETY: The kernel reads an `i32`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            (&raw const always).cast(),
            size_of_val(&always) as u32,
        )
    };
    ensure!(
        result == 0,
        "IP_MTU_DISCOVER: {}",
        std::io::Error::last_os_error()
    );
    Ok(())
}

pub(super) fn datagrams_and_their_fragments_are_tagged() -> Result<String> {
    let path = Path::new(1)?;
    path.attach(&HostConfig::default(), &SwitchConfig::default())?;
    for version in [Version::V4, Version::V6] {
        let (sender, receiver) = udp(&path, version)?;
        let capture = Capture::start(&path.first, "left")?;
        let last = Capture::start(&path.receiver, "eth")?;
        weft_socket::flow_size(&sender, 10_000)?;
        let mut buffer = [0; 9000];
        for length in [1000, 500, 8000, 500] {
            sender.send(&transfer::bytes(length))?;
            ensure!(receiver.recv(&mut buffer)? == length);
            ensure!(buffer[..length] == transfer::bytes(length));
        }
        let port = receiver.local_addr()?.port();
        let frames = capture.frames()?;
        let ip = |frame: &Vec<u8>| frame[14..].to_vec();
        let mut ranks = Vec::new();
        for packet in frames
            .iter()
            .filter(|frame| frame[12..14] != [8, 6])
            .map(ip)
        {
            ensure!(packet.len() <= MTU, "{} bytes", packet.len());
            if let Some(tag) =
                find_in_packet(&packet).map_err(|error| anyhow::anyhow!("{error:?}"))?
            {
                ranks.push(tag.rank);
            }
        }
        // Two datagrams, six fragments in some order, and the last one.
        ensure!(ranks.len() == 9, "{ranks:?}");
        ensure!(ranks[..2] == [10_000, 9000] && ranks[8] == 500, "{ranks:?}");
        ensure!(
            ranks[2..8].iter().all(|rank| (500..=8500).contains(rank)),
            "{ranks:?}"
        );
        ensure!(ranks[2] == 8500, "{ranks:?}");
        ensure!(
            frame::to_port(&last.frames()?, port)?
                .iter()
                .all(|packet| packet.tag.is_some())
        );
    }
    Ok(String::new())
}

/// Handshakes, acknowledgements and packets that no socket here has sent carry a tag; a flow's own
/// bytes have their rank.
pub(super) fn all_packets_carry_a_tag_if_requested() -> Result<String> {
    const FIXED: u32 = 77;
    const SIZE: usize = 100_000;
    for version in [Version::V4, Version::V6] {
        let path = Path::new(1)?;
        let config = HostConfig {
            policy: Policy::Remaining,
            fixed: FIXED,
            tagged: Tagged::All,
            ..HostConfig::default()
        };
        path.attach(&config, &SwitchConfig::default())?;
        let status = path.sender.enter(|| port::status("eth"))??;
        let tagged = status.map(|status| status.host.tagged);
        ensure!(tagged == Some(Tagged::All), "{tagged:?}");
        let all = Capture::start(&path.first, "left")?;
        let delivered = Delivered::start(&path.receiver)?;
        let address = path.receiver_address(version);
        let peer = transfer::send(&path.sender, &path.receiver, address, SIZE)?;
        // A packet of no socket of the host: an echo request.
        let mut echo = vec![2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 8, 8, 0];
        let mut header = [
            0x45, 0, 0, 28, 0, 1, 0, 0, 64, 1, 0, 0, 10, 9, 1, 1, 10, 9, 7, 7,
        ];
        let sum = frame::checksum(&header).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
        echo.extend(header);
        echo.extend([8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
        Capture::start(&path.sender, "eth")?.send(&echo)?;
        let all = all.frames()?;
        let (mut bare, mut full, mut echoes) = (0, 0, 0);
        for frame in &all {
            if frame[..12] == echo[..12] {
                let tag = find_in_packet(&frame[14..]).ok().flatten();
                ensure!(tag.is_some_and(|tag| tag.rank == FIXED), "{frame:x?}");
                echoes += 1;
            }
            // TCP, in both directions.
            let Some(packet) = frame::parse(frame)? else {
                continue;
            };
            let tag = packet.tag.context("a packet without a tag")?;
            match packet.payload {
                0 => bare += 1,
                _ => full += 1,
            }
            ensure!(
                packet.payload > 0 || tag.rank == FIXED,
                "{tag:?} on {packet:?}"
            );
        }
        // Handshakes and acknowledgements: one for every other segment, and more.
        ensure!(
            full >= 68 && bare >= 10 && echoes == 1,
            "{full}, {bare} and {echoes}"
        );
        let first = first_byte(&all, peer.port())?;
        check_remaining(&frame::to_port(&all, peer.port())?, first, SIZE)?;
        ensure!(delivered.count_without_tag(peer.port())? >= 68);
    }
    Ok(String::new())
}

pub(super) fn untagged_traffic_passes_unchanged() -> Result<String> {
    let path = Path::new(1)?;
    path.attach(&HostConfig::default(), &SwitchConfig::default())?;
    // Echo requests, ARP, frames without IP, TCP that belongs to no socket of this host.
    let mut sent = Vec::new();
    for (kind, packet) in [
        (
            0x0800,
            &[
                0x45, 0, 0, 28, 0, 1, 0, 0, 64, 1, 0, 0, 10, 9, 1, 1, 10, 9, 7, 7, 8, 0,
            ][..],
        ),
        (
            0x0800,
            &[
                0x46, 0, 0, 32, 0, 1, 0, 0, 64, 6, 0, 0, 10, 9, 1, 1, 10, 9, 7, 7, 1, 1, 1, 0,
            ],
        ),
        (0x86dd, &[0x60, 0, 0, 0, 0, 20, 6, 64, 0xfd]),
        (0x86dd, &[0x60, 0, 0, 0, 0, 20, 60, 64, 0xfd]),
        (0x0806, &[0, 1, 8, 0, 6, 4, 0, 2]),
        (0x88b5, &[1, 2, 3]),
    ] {
        let mut frame = vec![2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 8];
        frame.extend(u16::to_be_bytes(kind));
        frame.extend(packet);
        frame.resize(100, 0x55);
        sent.push(frame);
    }
    // From a host, and to a host.
    let out = Capture::start(&path.first, "left")?;
    let out_of = Capture::start(&path.sender, "eth")?;
    let delivered = Delivered::start(&path.receiver)?;
    let into = Capture::start(&path.second, "right")?;
    for frame in &sent {
        out_of.send(frame)?;
        into.send(frame)?;
    }
    for (what, frames) in [("out", out.frames()?), ("in", delivered.capture.frames()?)] {
        let ours = frames
            .into_iter()
            .filter(|frame| frame[..12] == sent[0][..12]);
        ensure!(
            ours.eq(sent.iter().cloned()),
            "a packet on its way {what} was changed"
        );
    }
    // The port is closed: SYN and RST, without payload.
    let nobody = (path.receiver_address(Version::V4), 9);
    ensure!(
        path.sender
            .enter(|| std::net::TcpStream::connect(nobody))?
            .is_err()
    );
    ensure!(counters(&path.sender, "eth")?.get(Counter::Tagged) == 0);
    Ok(String::new())
}

/// Packets in a port's upper and lower band.
fn bands(switch: &Namespace, device: &str) -> Result<[u64; 2]> {
    let text = switch.command("tc", &format!("-s -j qdisc show dev {device}"))?;
    let all: Vec<serde_json::Value> = serde_json::from_str(&text).context("tc's JSON")?;
    let band = |handle: &str| {
        let found = all.iter().find(|it| it["handle"] == handle);
        found
            .and_then(|it| it["packets"].as_u64())
            .with_context(|| format!("no band {handle} in {text}"))
    };
    Ok([band("11:")?, band("12:")?])
}

/// A host that does not tag its data, or whose packets have no room for a tag, does not overtake
/// others. Packets that cannot hold data do: acknowledgements, and packets that open a connection.
pub(super) fn data_without_a_tag_goes_last_at_a_switch() -> Result<String> {
    for (version, longest) in [(Version::V4, 100), (Version::V6, 80)] {
        for untagged in [Untagged::Last, Untagged::First] {
            let path = Path::new(1)?;
            let config = SwitchConfig {
                untagged,
                ..SwitchConfig::default()
            };
            path.first
                .enter(|| Attacher::new(&path.object, None).switch("left", &config))??;
            for words in [
                "qdisc add dev right2 root handle 1: prio bands 3",
                "qdisc add dev right2 parent 1:1 handle 11: pfifo",
                "qdisc add dev right2 parent 1:2 handle 12: pfifo",
                // By the highest bit of the priority.
                "filter add dev right2 parent 1: handle 1 flow map key priority rshift 31 \
                 baseclass 1:1",
            ] {
                path.first.command("tc", words)?;
            }
            transfer::reach(&path.sender, &path.receiver, path.receiver_address(version))?;
            let (sender, receiver) = udp(&path, version)?;
            let sent = |payload: usize| -> Result<[u64; 2]> {
                let before = bands(&path.first, "right2")?;
                sender.send(&vec![0; payload])?;
                // When a packet has arrived, its port has counted it.
                let arrived = receiver.recv(&mut [0; 2000]);
                let arrived = arrived.with_context(|| format!("{payload} bytes under way"))?;
                ensure!(arrived == payload, "{arrived} of {payload} bytes");
                let after = bands(&path.first, "right2")?;
                Ok([after[0] - before[0], after[1] - before[1]])
            };
            let data = match untagged {
                Untagged::Last => [0, 1],
                Untagged::First => [1, 0],
            };
            // 128 bytes with the headers, one more, and a full packet.
            for (payload, expected) in [(longest, [1, 0]), (longest + 1, data), (1400, data)] {
                let counted = sent(payload)?;
                // Neighbour discovery has no tag, may occur at any time, is short and goes first.
                ensure!(
                    counted[0] >= expected[0] && counted[1] == expected[1],
                    "{version:?}, {payload} bytes, {untagged:?}: {counted:?}"
                );
            }
            let counted = counters(&path.first, "left")?.get(Counter::ReadLast);
            // A host's reports of its multicast groups (MLD) are as long, untagged, and may occur
            // at any time.
            let is_right = match untagged {
                Untagged::Last => counted >= 2,
                Untagged::First => counted == 0,
            };
            ensure!(is_right, "{version:?}, {untagged:?}: {counted} counted");
        }
    }
    Ok(String::new())
}
