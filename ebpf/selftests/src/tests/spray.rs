// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packet spraying over equal paths.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use anyhow::{Result, ensure};
use weft_ebpf::{Attacher, Counter, Hook, HostConfig, Spray, SwitchConfig, Untagged, port};
use weft_mechanisms::common::tag::Tag;

use crate::capture::Capture;
use crate::fabric::{Path, Version};
use crate::frame;
use crate::tests::wire::counters;
use crate::transfer;
use weft_ktap::Namespace;

/// Datagrams of one flow.
const COUNT: usize = 1001;
const PORT: u16 = 9;

/// The number of datagrams on each of `paths` paths.
fn split(version: Version, paths: u8, config: SwitchConfig) -> Result<Vec<usize>> {
    let path = Path::new(paths)?;
    path.attach(&HostConfig::default(), &config)?;
    // Resolves all neighbours on each path before the packets that count.
    for _ in 0..2 * paths {
        transfer::reach(&path.sender, &path.receiver, path.receiver_address(version))?;
    }
    let captures: Vec<_> = (2..2 + paths)
        .map(|number| Capture::start(&path.second, &format!("left{number}")))
        .collect::<Result<_>>()?;
    let any = if version == Version::V4 {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let socket = path.sender.enter(|| UdpSocket::bind(any))??;
    socket.connect((path.receiver_address(version), PORT))?;
    for _ in 0..COUNT {
        // The port is closed, and an ICMP error may come back in between.
        while socket.send(&[0; 100]).is_err() {}
    }
    let counts = captures
        .iter()
        .map(|capture| Ok(frame::to_port(&capture.frames()?, PORT)?.len()));
    let counts = counts.collect::<Result<Vec<_>>>()?;
    ensure!(counts.iter().sum::<usize>() == COUNT, "{counts:?}");
    let sprayed = counters(&path.first, "left")?.get(Counter::Sprayed);
    ensure!(
        (sprayed == 0) == (config.spray == Spray::Off),
        "{sprayed} packets sprayed"
    );
    Ok(counts)
}

fn evenly(version: Version, paths: u8, config: SwitchConfig) -> Result<String> {
    let counts = split(version, paths, config)?;
    let (least, most) = (counts.iter().min(), counts.iter().max());
    ensure!(
        most.zip(least)
            .is_some_and(|(most, least)| most - least <= 1),
        "{counts:?}"
    );
    Ok(format!("{counts:?}"))
}

const ROUND_ROBIN: SwitchConfig = SwitchConfig {
    spray: Spray::RoundRobin,
    paths: 0,
    stride: 0,
    untagged: Untagged::Last,
};

pub(super) fn round_robin_splits_evenly_v4() -> Result<String> {
    evenly(Version::V4, 4, ROUND_ROBIN)
}

pub(super) fn round_robin_splits_evenly_v6() -> Result<String> {
    evenly(Version::V6, 4, ROUND_ROBIN)
}

pub(super) fn round_robin_over_three_paths_splits_evenly() -> Result<String> {
    evenly(
        Version::V4,
        3,
        SwitchConfig {
            spray: Spray::RoundRobin,
            paths: 3,
            stride: 0,
            untagged: Untagged::Last,
        },
    )
}

/// A datagram and its answer use two ports of the same switch in turn. If the ports shared one
/// count, all datagrams would take the same path.
pub(super) fn ports_that_share_programs_take_turns_each_on_its_own() -> Result<String> {
    let path = Path::new(2)?;
    let mut attacher = Attacher::new(&path.object, None).at(Hook::Clsact);
    let ports = ["left", "right2", "right3"];
    for port in ports {
        path.first.enter(|| attacher.switch(port, &ROUND_ROBIN))??;
    }
    let programs = |port| path.first.enter(|| port::programs(port))?;
    let (left, right) = (programs("left")?, programs("right2")?);
    ensure!(
        left.len() == 2 && left == right,
        "{left:?} and {right:?}: loaded for each port"
    );
    let address = path.receiver_address(Version::V4);
    for _ in 0..4 {
        transfer::reach(&path.sender, &path.receiver, address)?;
    }
    let socket = |namespace: &Namespace| -> Result<UdpSocket> {
        let socket = namespace.enter(|| UdpSocket::bind("0.0.0.0:0"))??;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(socket)
    };
    let (sender, receiver) = (socket(&path.sender)?, socket(&path.receiver)?);
    let to = SocketAddr::new(address, receiver.local_addr()?.port());
    let captures: Vec<_> = (2..4)
        .map(|number| Capture::start(&path.second, &format!("left{number}")))
        .collect::<Result<_>>()?;
    for _ in 0..COUNT {
        let mut buffer = [0; 100];
        sender.send_to(&buffer, to)?;
        let (_, from) = receiver.recv_from(&mut buffer)?;
        receiver.send_to(&buffer, from)?;
        sender.recv(&mut buffer)?;
    }
    let counts = captures
        .iter()
        .map(|capture| Ok(frame::to_port(&capture.frames()?, to.port())?.len()));
    let counts = counts.collect::<Result<Vec<_>>>()?;
    ensure!(counts.iter().sum::<usize>() == COUNT, "{counts:?}");
    ensure!(counts[0].abs_diff(counts[1]) <= 1, "{counts:?}");
    Ok(format!("{counts:?}"))
}

pub(super) fn random_takes_every_path() -> Result<String> {
    let counts = split(
        Version::V4,
        4,
        SwitchConfig {
            spray: Spray::Random,
            paths: 0,
            stride: 0,
            untagged: Untagged::Last,
        },
    )?;
    // 250 each, with a standard deviation of 14: five of those.
    ensure!(
        counts.iter().all(|count| (180..=320).contains(count)),
        "{counts:?}"
    );
    Ok(format!("{counts:?}"))
}

/// A datagram with a tag, to a port of the receiver.
fn tagged(upstream_queue: u16, port: u16) -> Vec<u8> {
    const PAYLOAD: u16 = 30;
    let rank = 77;
    let tag = Tag {
        rank,
        upstream_queue,
    }
    .to_ipv4();
    let mut packet = vec![0x47, 0];
    packet.extend((28 + 8 + PAYLOAD).to_be_bytes());
    packet.extend([0, 1, 0, 0, 64, 17, 0, 0, 10, 9, 1, 1, 10, 9, 9, 2]);
    packet.extend(tag);
    let sum = frame::checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    for word in [4321, port, 8 + PAYLOAD, 0] {
        packet.extend(word.to_be_bytes());
    }
    packet.resize(packet.len() + usize::from(PAYLOAD), 0);
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend(packet);
    frame
}

/// Six paths over three next hops, two successive paths over each; and paths beyond them.
pub(super) fn a_packet_takes_the_path_in_its_tag() -> Result<String> {
    let path = Path::new(3)?;
    path.first.ip("link set left address 02:00:00:00:00:02")?;
    let mut attacher = Attacher::new(&path.object, None);
    let config = SwitchConfig {
        spray: Spray::Path,
        paths: 3,
        stride: 2,
        untagged: Untagged::Last,
    };
    path.first.enter(|| attacher.switch("left", &config))??;
    let captures: Vec<_> = (2..5)
        .map(|number| Capture::start(&path.second, &format!("left{number}")))
        .collect::<Result<_>>()?;
    let sender = Capture::start(&path.sender, "eth")?;
    // By the queue's number, which is the path's plus 1; each path has its own port. For 0 the
    // flow's hash decides.
    for queue in (0..=8).chain([255, 1023]) {
        for _ in 0..3 {
            sender.send(&tagged(queue, 7000 + queue))?;
        }
    }
    let mut ways = BTreeMap::<u16, Vec<usize>>::new();
    for (way, capture) in captures.iter().enumerate() {
        for frame in capture.frames()? {
            let packet = frame::parse(&frame)?;
            if let Some(packet) = packet.filter(|it| (7000..8100).contains(&it.destination_port)) {
                ways.entry(packet.destination_port - 7000)
                    .or_default()
                    .push(way);
            }
        }
    }
    let flow = ways.remove(&0).unwrap_or_default();
    ensure!(
        flow.len() == 3 && flow.iter().all(|way| *way == flow[0]),
        "{flow:?}"
    );
    for (queue, way) in [
        (1, 0),
        (2, 0),
        (3, 1),
        (4, 1),
        (5, 2),
        (6, 2),
        (7, 0),
        (8, 0),
        (255, 254 / 2 % 3),
        (1023, 1022 / 2 % 3),
    ] {
        ensure!(
            ways.remove(&queue) == Some(vec![way; 3]),
            "queue {queue} by another way than {way}"
        );
    }
    ensure!(ways.is_empty(), "{ways:?}");
    Ok(String::new())
}

pub(super) fn off_keeps_a_flow_on_one_path() -> Result<String> {
    let counts = split(Version::V4, 4, SwitchConfig::default())?;
    ensure!(
        counts.iter().filter(|count| **count != 0).count() == 1,
        "{counts:?}"
    );
    Ok(String::new())
}
