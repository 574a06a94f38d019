// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fastpass's promise: hardly anything waits at a switch.

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, tests};

use crate::weft;

tests![hardly_anything_waits_at_a_switch_when_an_arbiter_schedules];

/// Of a full frame.
const FRAME: u64 = 1514;

/// How many bytes wait at a switch's port, beside the frame that is being sent: the most, and in how many of a hundred
/// samples there are two frames or more.
fn waiting(scheme: &str) -> Result<(u64, f64)> {
    // Slowed so much that what an arbiter computes, where that takes time, is little of a packet's.
    let run = weft::run(&format!(
        "fat-tree:k=4 --dilation 20000 --scheme {scheme} --workload fixed:30kB --load 0.6 --flows 300 --sample 5us"
    ))?;
    // What only kept up the load may be under way when the others have ended.
    let mut measured = run.flows.iter().filter(|flow| !flow.warm_up);
    ensure!(
        measured.all(|flow| flow.fct_ns.is_some()),
        "{scheme}: some flows did not end"
    );
    ensure!(
        run.ports.iter().all(|port| port.drops == 0),
        "{scheme}: a port dropped packets"
    );
    let switches = run.ports.iter().filter(|port| !port.host);
    let bytes: Vec<u64> = switches.map(|port| port.backlog_bytes).collect();
    let most = bytes.iter().max().context("no samples")?;
    let two = bytes.iter().filter(|&&bytes| bytes >= 2 * FRAME).count();
    Ok((*most, 100.0 * two as f64 / bytes.len() as f64))
}

/// Not nothing: acknowledgements go by their flows' ways, not by the arbiter's, and its own packets wait for nobody.
fn hardly_anything_waits_at_a_switch_when_an_arbiter_schedules(cx: &Context) -> Result<()> {
    weft::require_programs()?;
    let (most, often) = waiting("fastpass")?;
    let (most_without, often_without) = waiting("droptail")?;
    cx.note(format!(
        "at most {most} B, two frames or more in {often:.1} % of samples"
    ));
    cx.note(format!(
        "without an arbiter {most_without} B, and {often_without:.1} %"
    ));
    ensure!(most <= 12 * FRAME && often <= 4.0, "much waits at switches");
    ensure!(
        most_without > 3 * most && often_without > 5.0 * often,
        "the load is too low to tell"
    );
    Ok(())
}
