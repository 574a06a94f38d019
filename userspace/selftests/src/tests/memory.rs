// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory of a run.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use weft_ktap::{Context, tests};
use weft_load::record::measured;

use crate::weft;

tests![
    #[once]
    #[exact = "a run must be valid, which late timers prevent"]
    ten_thousand_flows_take_less_than_300_mb,
    #[once]
    #[exact = "a run must be valid, which late timers prevent"]
    a_run_that_is_short_of_tcp_memory_is_invalid,
];

const FLOWS: usize = 10_000;

fn ten_thousand_flows_take_less_than_300_mb(cx: &Context) -> Result<()> {
    // Within racks, and with few packets each, because the fabric's memory is not measured here.
    let words = format!(
        "fat-tree:k=4 --dilation 1000 --scheme droptail --workload fixed:1kB --pairs intra-rack \
         --connection pair --load 0.1 --flows {FLOWS} --warm-up 0"
    );
    let run = weft::run(&words)?;
    // The flows that keep up the load come in addition.
    let measured = measured(&run.flows);
    let ended = measured.filter(|flow| flow.fct_ns.is_some());
    ensure!(ended.count() == FLOWS);
    // In kB: the maximum of all child processes, which includes this run.
    let most = getrusage(UsageWho::RUSAGE_CHILDREN)
        .context("asking for processes' memory")?
        .max_rss();
    cx.note(format!("{} MB", most / 1000));
    ensure!(most < 300_000, "{most} kB");
    Ok(())
}

/// Limits for the memory of all sockets in pages: where pressure ends, where it begins, and the
/// maximum.
struct TcpMemory(String);

impl TcpMemory {
    const FILE: &str = "/proc/sys/net/ipv4/tcp_mem";

    /// Sets the limits until the value is dropped.
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

/// Under pressure the kernel reduces windows and buffers of all hosts' sockets.
fn a_run_that_is_short_of_tcp_memory_is_invalid(cx: &Context) -> Result<()> {
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
