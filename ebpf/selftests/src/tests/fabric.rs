// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tags and weft's qdiscs together.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use weft_ebpf::{HostConfig, SwitchConfig};

use crate::fabric::{Path, Version};
use crate::transfer;
use weft_ktap::{Namespace, Skip};

/// The rate of the wires in these tests.
const BITS_PER_SECOND: u64 = 10_000_000;
/// Bytes; they occupy the wire for 2.4 s.
const LONG: usize = 3_000_000;
/// Bytes; they occupy the wire for 24 ms.
const SHORT: usize = 30_000;

/// Adds a wire to a device.
fn add_wire(namespace: &Namespace, device: &str) -> Result<()> {
    let root = format!("qdisc add dev {device} root handle 1:");
    namespace
        .command("tc", &format!("{root} wire rate {BITS_PER_SECOND}bit"))
        .map_err(|error| Skip(format!("needs weft's kernel modules: {error:#}")))?;
    Ok(())
}

/// The time of a short flow beside a long one, and the output of `tc -s` for the port.
fn short_beside_long(queue: &str) -> Result<(Duration, String)> {
    let path = Path::new(1)?;
    path.attach(&HostConfig::default(), &SwitchConfig::default())?;
    add_wire(&path.first, "right2")?;
    let queue = format!("qdisc add dev right2 parent 1: handle 2: {queue}");
    path.first.command("tc", &queue)?;
    let address = path.receiver_address(Version::V4);
    std::thread::scope(|scope| -> Result<(Duration, String)> {
        let long = scope.spawn(|| transfer::send(&path.sender, &path.receiver, address, LONG));
        // By then the long flow has filled the port's queue.
        std::thread::sleep(Duration::from_millis(500));
        let start = Instant::now();
        transfer::send(&path.sender, &path.receiver, address, SHORT)?;
        let time = start.elapsed();
        ensure!(
            !long.is_finished(),
            "the long flow was done before the short one"
        );
        long.join()
            .map_err(|_| anyhow::anyhow!("the long flow panicked"))??;
        Ok((time, path.first.command("tc", "-s qdisc show dev right2")?))
    })
}

pub(super) fn short_flows_overtake_long_ones_at_a_pfabric_port() -> Result<String> {
    let (fair, _) = short_beside_long("pfifo limit 100")?;
    let (first, statistics) = short_beside_long("pfabric limit 100")?;
    let figures = format!("{SHORT} bytes took {first:?} behind pfabric, {fair:?} behind pfifo");
    // Alone it needs 24 ms of the wire; a full pfifo makes each round trip 120 ms longer.
    ensure!(
        first < Duration::from_millis(80) && first * 2 < fair,
        "{figures}\n{statistics}"
    );
    Ok(format!("{figures}\n{statistics}"))
}

/// Bytes and packets that a device has sent, and the time in ns for which its wire was busy.
fn sent(namespace: &Namespace, device: &str) -> Result<[u64; 3]> {
    let json = |command, arguments| -> Result<serde_json::Value> {
        let shown = namespace.command(command, &format!("-j -s {arguments} dev {device}"))?;
        Ok(serde_json::from_str(&shown)?)
    };
    let link = json("ip", "link show")?;
    let qdiscs = json("tc", "qdisc show")?;
    let tx = &link[0]["stats64"]["tx"];
    let figures = [&tx["bytes"], &tx["packets"], &qdiscs[0]["busy_ns"]];
    let [Some(bytes), Some(packets), Some(busy)] = figures.map(serde_json::Value::as_u64) else {
        bail!("not all of it in {link} and {qdiscs}");
    };
    Ok([bytes, packets, busy])
}

pub(super) fn a_tags_bytes_take_time_on_the_hosts_wire() -> Result<String> {
    const IDLE: Duration = Duration::from_millis(100);
    let path = Path::new(1)?;
    path.attach(&HostConfig::default(), &SwitchConfig::default())?;
    // The device counts the bytes of a GSO packet with one header for all segments, so disable GSO.
    path.sender.ip("link set eth gso_max_segs 1")?;
    add_wire(&path.sender, "eth")?;
    let receiver = path.receiver_address(Version::V4);
    let before = sent(&path.sender, "eth")?;
    transfer::send(&path.sender, &path.receiver, receiver, SHORT)?;
    std::thread::sleep(IDLE);
    let after = sent(&path.sender, "eth")?;
    let [bytes, packets, busy] = std::array::from_fn(|i| after[i] - before[i]);
    let expected = bytes * 8 * (1_000_000_000 / BITS_PER_SECOND);
    let figures = format!("{packets} packets of {bytes} bytes: busy for {busy} ns");
    ensure!(busy == expected, "{figures}, not {expected} ns");
    Ok(figures)
}
