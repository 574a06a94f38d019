// SPDX-License-Identifier: MIT OR Apache-2.0

//! The other policies, on one link.

use std::io::Write as _;
use std::net::UdpSocket;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use weft_ebpf::{Counter, Fallback, HostConfig, Policy, SwitchConfig};

use crate::capture::Capture;
use crate::fabric::{Path, Version};
use crate::frame;
use crate::tests::wire::counters;
use crate::transfer::{self, Sink};

const SIZE: usize = 50_000;

/// Offset and rank of each packet of a TCP flow that is written in one call.
fn ranks(path: &Path, announced: Option<u64>) -> Result<Vec<(usize, u32)>> {
    let capture = Capture::start(&path.first, "left")?;
    let sink = Sink::start(&path.receiver, path.receiver_address(Version::V4))?;
    let mut stream = sink.connect(&path.sender)?;
    if let Some(size) = announced {
        weft_socket::flow_size(&stream, size)?;
    }
    stream.write_all(&transfer::bytes(SIZE))?;
    let port = sink.address.port();
    sink.finish(stream, SIZE)?;
    let packets = frame::to_port(&capture.frames()?, port)?;
    let first = packets.first().context("no packets")?.sequence;
    packets
        .iter()
        .map(|packet| {
            let offset = packet.sequence.wrapping_sub(first) as usize;
            Ok((offset, packet.tag.context("no tag")?.rank))
        })
        .collect()
}

fn attached(policy: Policy, fallback: Fallback) -> Result<Path> {
    let path = Path::new(1)?;
    let config = HostConfig {
        policy,
        fallback,
        fixed: 77,
        ..HostConfig::default()
    };
    path.attach(&config, &SwitchConfig::default())?;
    Ok(path)
}

pub(super) fn size_is_the_flow_size_on_every_packet() -> Result<String> {
    let path = attached(Policy::Size, Fallback::Sent)?;
    let ranks = ranks(&path, Some(SIZE as u64))?;
    ensure!(
        ranks.iter().all(|(_, rank)| *rank as usize == SIZE),
        "{ranks:?}"
    );
    ensure!(counters(&path.sender, "eth")?.get(Counter::TagFallback) == 0);
    Ok(String::new())
}

pub(super) fn sent_counts_the_bytes_before() -> Result<String> {
    for (policy, announced) in [(Policy::Sent, Some(1 << 30)), (Policy::Remaining, None)] {
        let path = attached(policy, Fallback::Sent)?;
        let ranks = ranks(&path, announced)?;
        ensure!(
            ranks.iter().all(|(offset, rank)| *rank as usize == *offset),
            "{ranks:?}"
        );
        let fallbacks = counters(&path.sender, "eth")?.get(Counter::TagFallback);
        ensure!(
            (fallbacks != 0) == announced.is_none(),
            "{fallbacks} fallbacks"
        );
    }
    Ok(String::new())
}

pub(super) fn queued_is_the_number_of_bytes_in_the_socket() -> Result<String> {
    let path = attached(Policy::Remaining, Fallback::Queued)?;
    let ranks = ranks(&path, None)?;
    // All was written in one call, but the first packets may leave before the last byte is copied.
    ensure!(
        ranks
            .iter()
            .all(|(offset, rank)| *rank as usize <= SIZE - offset),
        "{ranks:?}"
    );
    let (offset, rank) = ranks.last().context("no packets")?;
    ensure!(*rank as usize == SIZE - offset, "{ranks:?}");
    ensure!(ranks.iter().all(|(_, rank)| *rank > 0), "{ranks:?}");
    Ok(String::new())
}

pub(super) fn fixed_is_the_class_or_the_number() -> Result<String> {
    let path = attached(Policy::Fixed, Fallback::Sent)?;
    let ranks = ranks(&path, None)?;
    ensure!(ranks.iter().all(|(_, rank)| *rank == 77), "{ranks:?}");
    let rank = datagram(&path, |socket| Ok(weft_socket::class(socket, 5)?))?;
    ensure!(rank == 5, "{rank}");
    Ok(String::new())
}

/// The rank of one datagram of 100 bytes.
fn datagram(path: &Path, prepare: impl FnOnce(&UdpSocket) -> Result<()>) -> Result<u32> {
    let capture = Capture::start(&path.first, "left")?;
    let socket = path.sender.enter(|| UdpSocket::bind("0.0.0.0:0"))??;
    prepare(&socket)?;
    socket.send_to(&[0; 100], (path.receiver_address(Version::V4), 9))?;
    let packets = frame::to_port(&capture.frames()?, 9)?;
    ensure!(packets.len() == 1, "{packets:?}");
    Ok(packets[0].tag.context("no tag")?.rank)
}

pub(super) fn deadline_is_the_time_left() -> Result<String> {
    const HALF: u32 = 1 << 31;
    let path = attached(Policy::Deadline, Fallback::Sent)?;
    let soon = datagram(&path, |socket| {
        Ok(weft_socket::deadline_in(socket, Duration::from_secs(1))?)
    })?;
    ensure!((500_000..=1_000_000).contains(&soon), "{soon}");
    let later = datagram(&path, |socket| {
        Ok(weft_socket::deadline_in(socket, Duration::from_secs(60))?)
    })?;
    ensure!((59_000_000..=60_000_000).contains(&later), "{later}");
    let missed = datagram(&path, |socket| {
        weft_socket::deadline_in(socket, Duration::from_millis(1))?;
        std::thread::sleep(Duration::from_millis(5));
        Ok(())
    })?;
    ensure!(missed == 0, "{missed}");
    // Datagrams without a deadline come after all others, the shorter first.
    let short = datagram(&path, |socket| Ok(weft_socket::flow_size(socket, 1 << 20)?))?;
    let long = datagram(&path, |socket| Ok(weft_socket::flow_size(socket, 1 << 29)?))?;
    ensure!(HALF <= short && short < long, "{short} {long}");
    Ok(String::new())
}

pub(super) fn bytes_beyond_the_size_fall_back() -> Result<String> {
    const SAID: usize = 20_000;
    let path = attached(Policy::Remaining, Fallback::Sent)?;
    let ranks = ranks(&path, Some(SAID as u64))?;
    for (offset, rank) in &ranks {
        let expected = if *offset < SAID {
            SAID - offset
        } else {
            offset - SAID
        };
        ensure!(
            *rank as usize == expected,
            "at {offset}: {rank} instead of {expected}"
        );
    }
    let beyond = ranks.iter().filter(|(offset, _)| *offset >= SAID).count() as u64;
    let counted = counters(&path.sender, "eth")?.get(Counter::TagBeyondSize);
    ensure!(
        counted == beyond && beyond > 0,
        "{counted} of {beyond} counted"
    );
    Ok(String::new())
}
