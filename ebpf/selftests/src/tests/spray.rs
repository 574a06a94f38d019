// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packet spraying over equal paths.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use anyhow::{Result, ensure};
use weft_ebpf::{Attacher, Counter, Hook, HostConfig, Spray, SwitchConfig, port};

use crate::capture::Capture;
use crate::fabric::{Path, Version};
use crate::frame;
use crate::tests::wire::counters;
use crate::transfer;
use weft_ktap::Namespace;

/// Datagrams of one flow.
const COUNT: usize = 1001;
const PORT: u16 = 9;

/// How many of them take each of `paths` paths.
fn split(version: Version, paths: u8, config: SwitchConfig) -> Result<Vec<usize>> {
    let path = Path::new(paths)?;
    path.attach(&HostConfig::default(), &config)?;
    // Who is where is known before the first packet that counts.
    // On each path.
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
        },
    )
}

/// A datagram and its answer take turns at two ports of the same switch: if they took turns from
/// one count, all datagrams would have the same path.
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
        },
    )?;
    // 250 each, with a standard deviation of 14: five of those.
    ensure!(
        counts.iter().all(|count| (180..=320).contains(count)),
        "{counts:?}"
    );
    Ok(format!("{counts:?}"))
}

pub(super) fn off_keeps_a_flow_on_one_path() -> Result<String> {
    let counts = split(Version::V4, 4, SwitchConfig::default())?;
    ensure!(
        counts.iter().filter(|count| **count != 0).count() == 1,
        "{counts:?}"
    );
    Ok(String::new())
}
