// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a run takes of the machine.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use weft_ktap::{Context, tests};
use weft_load::record::measured;

use crate::weft;

tests![
    #[once]
    #[exact = "a run is to be valid, whose timers are judged"]
    ten_thousand_flows_take_less_than_300_mb,
    #[once]
    #[exact = "a run is to be valid, whose timers are judged"]
    a_run_for_which_tcps_memory_was_short_is_invalid,
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

/// How much all sockets may have, in pages: below which it is not short any more, from which it is
/// short, and most.
struct TcpMemory(String);

impl TcpMemory {
    const FILE: &str = "/proc/sys/net/ipv4/tcp_mem";

    /// Until this goes.
    fn set(pages: &str) -> Result<Self> {
        let before = fs::read_to_string(Self::FILE).context(Self::FILE)?;
        fs::write(Self::FILE, pages).context(Self::FILE)?;
        Ok(Self(before))
    }
}

impl Drop for TcpMemory {
    fn drop(&mut self) {
        fs::write(Self::FILE, &self.0).expect("writing back what was there");
    }
}

/// The kernel narrows windows and buffers then, of all hosts' sockets together.
fn a_run_for_which_tcps_memory_was_short_is_invalid(cx: &Context) -> Result<()> {
    const RUN: &str = "rack:hosts=4 --dilation 100 --scheme droptail --workload fixed:2MB --pairs permutation \
                       --arrivals closed:4 --flows 32 --warm-up 0";
    weft::run(RUN)?;
    let short = TcpMemory::set("96 128 100000")?;
    let said = match weft::run(RUN) {
        Ok(_) => "nothing".to_owned(),
        Err(error) => format!("{error:#}"),
    };
    drop(short);
    cx.note(said.clone());
    ensure!(
        said.contains("INVALID: ") && said.contains("TCP's memory short: "),
        "{said}"
    );
    Ok(())
}
