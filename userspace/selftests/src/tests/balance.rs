// SPDX-License-Identifier: MIT OR Apache-2.0

//! The share of each of several equal-cost paths.
//!
//! ```text
//!   h0 h1 ─ edge0 ─┬─ agg0 ─┬─ core0
//!   h2 h3 ─ edge1 ─┤        └─ core1
//!                  └─ agg1 ─┬─ core2
//!                           └─ core3
//! ```

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, Namespace, tests};
use weft_topo::{Spec, Topology};

use crate::machine::json;
use crate::weft::{self, Up};

tests![
    flows_are_spread_evenly_over_all_paths,
    flows_with_tags_are_spread_evenly_over_all_paths,
    sprayed_packets_are_spread_evenly_over_all_paths,
];

const TESTBED: &str = "balance";
const FABRIC: &str = "fat-tree:k=4";
/// Ports from the first pod up to the core.
const UPLINKS: [(&str, &str); 4] = [
    ("agg0", "core0"),
    ("agg0", "core1"),
    ("agg1", "core2"),
    ("agg1", "core3"),
];
/// Packets for which a host's queue has room under every scheme.
const BURST: usize = 16;
const BURST_TIME: Duration = Duration::from_millis(2);
/// Maximum deviation of a count, in standard deviations: one in 16,000 is larger.
const DEVIATIONS: f64 = 4.0;

fn topology() -> Result<Topology> {
    Ok(FABRIC.parse::<Spec>()?.topology())
}

/// Sends `packets` of each of `flows` flows from each host in `from` to the opposite host; returns
/// the packets at each of [`UPLINKS`].
fn send(up: &Up<'_>, from: &[&str], flows: u16, packets: u64) -> Result<[u64; 4]> {
    let topology = topology()?;
    let to = topology.find("h15").context("h15")?;
    let to: IpAddr = topology.node(to).address.v4().into();
    let far = Namespace::open(up.namespace("h15"))?;
    // Prevents ICMP errors.
    let _receiver = far.enter(|| UdpSocket::bind((to, 9)))??;
    let before = counts(up)?;
    let mut sent = 0;
    for host in from {
        let near = Namespace::open(up.namespace(host))?;
        for flow in 0..flows {
            let socket = near.enter(|| UdpSocket::bind(("0.0.0.0", 20_000 + flow)))??;
            for _ in 0..packets {
                socket.send_to(b"x", (to, 9))?;
                sent += 1;
                if sent % BURST == 0 {
                    std::thread::sleep(BURST_TIME);
                }
            }
        }
    }
    // Waits for packets in transit.
    std::thread::sleep(Duration::from_secs(1));
    let after = counts(up)?;
    Ok([0, 1, 2, 3].map(|place| after[place] - before[place]))
}

fn counts(up: &Up<'_>) -> Result<[u64; 4]> {
    let mut counts = [0; 4];
    for (count, (node, port)) in counts.iter_mut().zip(UPLINKS) {
        let line = format!(
            "ip netns exec {} tc -s -j qdisc show dev {port}",
            up.namespace(node).trim_start_matches("/run/netns/")
        );
        let qdiscs = json(&line)?;
        let root = qdiscs.iter().find(|qdisc| qdisc["root"] == true);
        *count = root
            .and_then(|root| root["packets"].as_u64())
            .with_context(|| format!("{line}: {qdiscs:?}"))?;
    }
    Ok(counts)
}

/// Checks that each of `counts`, and each pair at one aggregation switch, is consistent with
/// `trials` fair choices of `unit` packets each.
fn ensure_even(cx: &Context, counts: [u64; 4], trials: u64, unit: u64) -> Result<()> {
    cx.note(format!("core0 to core3: {counts:?}"));
    ensure!(counts.iter().sum::<u64>() == trials * unit, "{counts:?}");
    ensure!(counts.iter().all(|count| count % unit == 0), "{counts:?}");
    let off = |count: u64, share: f64| {
        let mean = trials as f64 * share;
        let deviation = (mean * (1.0 - share)).sqrt();
        ((count / unit) as f64 - mean).abs() / deviation
    };
    for count in counts {
        ensure!(off(count, 0.25) <= DEVIATIONS, "{counts:?}");
    }
    ensure!(off(counts[0] + counts[1], 0.5) <= DEVIATIONS, "{counts:?}");
    Ok(())
}

/// Two packets of each flow take the same path, and flows spread evenly over all paths.
fn flows_of(cx: &Context, scheme: &str) -> Result<()> {
    let words = format!("{FABRIC} --dilation 1000 --scheme {scheme}");
    let up = Up::new(TESTBED, &words)?;
    let from = ["h0", "h1", "h2", "h3"];
    let counts = send(&up, &from, 150, 2)?;
    ensure_even(cx, counts, 600, 2)
}

fn flows_are_spread_evenly_over_all_paths(cx: &Context) -> Result<()> {
    flows_of(cx, "droptail")
}

fn flows_with_tags_are_spread_evenly_over_all_paths(cx: &Context) -> Result<()> {
    weft::require_programs()?;
    flows_of(cx, "pfabric-ecmp")
}

fn sprayed_packets_are_spread_evenly_over_all_paths(cx: &Context) -> Result<()> {
    weft::require_programs()?;
    let words = format!("{FABRIC} --dilation 1000 --scheme pfabric");
    let up = Up::new(TESTBED, &words)?;
    let counts = send(&up, &["h0"], 1, 800)?;
    ensure_even(cx, counts, 800, 1)
}
