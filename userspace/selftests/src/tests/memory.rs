// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a run takes of the machine.

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use weft_ktap::{Context, tests};
use weft_load::record::measured;

use crate::weft;

tests![
    #[once]
    ten_thousand_flows_take_less_than_300_mb,
];

const FLOWS: usize = 10_000;

fn ten_thousand_flows_take_less_than_300_mb(cx: &Context) -> Result<()> {
    // Within racks, and few packets each: it is not these that are to be measured.
    let words = format!(
        "fat-tree:k=4 --dilation 1000 --scheme droptail --workload fixed:1kB --pairs intra-rack \
         --connection pair --load 0.1 --flows {FLOWS} --warm-up 0"
    );
    let run = weft::run(&words)?;
    // What keeps up the load at the end is more.
    let measured = measured(&run.flows);
    let ended = measured.filter(|flow| flow.fct_ns.is_some());
    ensure!(ended.count() == FLOWS);
    // In kB: the most that any process had that was waited for, and none has more than this one.
    let most = getrusage(UsageWho::RUSAGE_CHILDREN)
        .context("asking for processes' memory")?
        .max_rss();
    cx.note(format!("{} MB", most / 1000));
    ensure!(most < 300_000, "{most} kB");
    Ok(())
}
