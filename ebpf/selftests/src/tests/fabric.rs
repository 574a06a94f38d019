// SPDX-License-Identifier: MIT OR Apache-2.0

//! What it is all for: a pfabric port behind a slow wire serves short flows before long ones.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use weft_ebpf::{HostConfig, SwitchConfig};

use crate::fabric::{Path, Version};
use crate::transfer;
use weft_ktap::Skip;

/// Bytes: 2.4 s of the wire.
const LONG: usize = 3_000_000;
/// Bytes: 24 ms of the wire.
const SHORT: usize = 30_000;

/// The time that a short flow takes beside a long one, and what `tc -s` tells of the port.
fn short_beside_long(queue: &str) -> Result<(Duration, String)> {
    let path = Path::new(1)?;
    path.attach(&HostConfig::default(), &SwitchConfig::default())?;
    let port = "qdisc add dev right2";
    path.first
        .command("tc", &format!("{port} root handle 1: wire rate 10mbit"))
        .map_err(|error| Skip(format!("needs weft's kernel modules: {error:#}")))?;
    path.first
        .command("tc", &format!("{port} parent 1: handle 2: {queue}"))?;
    let address = path.receiver_address(Version::V4);
    std::thread::scope(|scope| -> Result<(Duration, String)> {
        let long = scope.spawn(|| transfer::send(&path.sender, &path.receiver, address, LONG));
        // The long flow has filled the port's queue.
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
