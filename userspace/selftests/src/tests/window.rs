// SPDX-License-Identifier: MIT OR Apache-2.0

//! The amount of data in flight that schemes allow.

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, tests};
use weft_load::record::PortSample;

use crate::weft;

tests![
    #[once]
    ideal_fair_queueing_keeps_one_bdp_per_flow_in_flight,
];

/// Two long flows meet at a receiver's port: its backlog is at most the data that both have in
/// flight.
fn ideal_fair_queueing_keeps_one_bdp_per_flow_in_flight(cx: &Context) -> Result<()> {
    const WINDOW: u64 = 20;
    const PACKET: u64 = 1514;
    let run = weft::run(&format!(
        "rack:hosts=3,rate=10gbit,delay=3us --dilation 1000 --scheme ideal-fq --set window={WINDOW} --warm-up 0 \
         --sample 20us --only-added --add h1-h0:2MB --add h2-h0:2MB"
    ))?;
    let receivers = |port: &&PortSample| !port.host && port.port == "h0";
    let waiting = run.ports.iter().filter(receivers);
    let most = waiting.map(|port| port.backlog_bytes).max();
    let most = most.context("no samples")?;
    cx.note(format!("{most} bytes wait at most"));
    // Each flow has some data on its wires; half of the total must wait.
    let both = 2 * WINDOW * PACKET;
    ensure!(
        (both / 2..=both).contains(&most),
        "{most} bytes wait at most, of two windows, {both} bytes"
    );
    Ok(())
}
