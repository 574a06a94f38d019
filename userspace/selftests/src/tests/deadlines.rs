// SPDX-License-Identifier: MIT OR Apache-2.0

//! Flows with deadlines: hosts that know them act on them, and the results contain them.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use nix::sys::personality::{self, Persona};
use weft_ktap::{Context, tests};
use weft_load::record::Flow;

use crate::folder::Folder;
use crate::weft;

tests![
    with_pase_the_flow_with_the_earlier_deadline_goes_first,
    #[once]
    with_pase_it_goes_first_even_if_maps_have_no_names,
    #[once]
    with_pfabric_the_flow_with_the_earlier_deadline_goes_first_at_a_switch,
    #[once]
    with_d2tcp_the_flow_with_the_earlier_deadline_gets_more,
];

/// 1 Gbit/s, slowed to 10 Mbit/s.
const FABRIC: &str = "rack:hosts=4,rate=1gbit,delay=20us --dilation 100";

/// A trace of pairs of flows of `bytes` each, which begin together; pairs begin far apart.
fn pairs(folder: &Folder, count: u64, bytes: u64, pair: [&str; 2]) -> Result<PathBuf> {
    let line = |n: u64| {
        // A pair needs slightly less than half of its time.
        let ns = n * bytes * 8 * 2 * 2;
        pair.map(|way| format!("{ns} {way} {bytes}\n")).concat()
    };
    folder.write("pairs", &(0..count).map(line).collect::<String>())
}

/// How much sooner the flow of each pair with the earlier deadline ended than the other, relative
/// to the longer time; also notes it in the report.
fn sooner(cx: &Context, trace: &std::path::Path, words: &str) -> Result<Vec<f64>> {
    let trace = trace.display();
    let words = format!("{FABRIC} --trace {trace} --warm-up 0 {words}");
    let run = weft::run(&words)?;
    let mut flows = run.flows;
    flows.sort_by_key(|flow| flow.id);
    let of = |flow: &Flow| {
        let took = flow.fct_ns.context("it did not end")?;
        anyhow::Ok((flow.deadline_ns.context("it has no deadline")?, took as f64))
    };
    let one = |pair: &[Flow]| {
        let mut both = [of(&pair[0])?, of(&pair[1])?];
        both.sort_by_key(|(deadline, _)| *deadline);
        let [(_, earlier), (_, later)] = both;
        Ok((later - earlier) / later.max(earlier))
    };
    let sooner = flows.chunks(2).map(one).collect::<Result<Vec<f64>>>()?;
    cx.note(format!("{words}: {sooner:.2?}"));
    Ok(sooner)
}

/// The number of pairs in which the flow with the earlier deadline was clearly sooner.
fn clearly(sooner: &[f64]) -> usize {
    sooner.iter().filter(|it| **it > 0.3).count()
}

/// On the sending host's own link; with new connections, and with reused ones.
fn with_pase_the_flow_with_the_earlier_deadline_goes_first(cx: &Context) -> Result<()> {
    weft::require_programs()?;
    let folder = Folder::new()?;
    let trace = pairs(&folder, 15, 400_000, ["0 1", "0 2"])?;
    let of = |words: &str| {
        let words = format!("--scheme pase-local {words} --deadline uniform:20ms-200ms");
        anyhow::Ok(clearly(&sooner(cx, &trace, &words)?))
    };
    for connection in ["flow", "pair"] {
        let first = of(&format!("--set criterion=1 --connection {connection}"))?;
        ensure!(first == 15, "{connection}: {first} of 15");
    }
    // By size, which is equal for both, the first flow wins.
    let first = of("--set criterion=0")?;
    ensure!((2..=13).contains(&first), "{first} of 15 by size");
    Ok(())
}

/// The loader gives maps no names if it cannot parse the kernel's release, such as `7.3-amd64`, or
/// if the release seems too old for names. The declarations of applications must still be found.
fn with_pase_it_goes_first_even_if_maps_have_no_names(cx: &Context) -> Result<()> {
    weft::require_programs()?;
    let folder = Folder::new()?;
    let trace = pairs(&folder, 15, 400_000, ["0 1", "0 2"])?;
    let words = "--scheme pase-local --set criterion=1 --deadline uniform:20ms-200ms";
    // Child processes inherit this process's personality.
    let own = personality::get()?;
    personality::set(own | Persona::UNAME26)?;
    let sooner = sooner(cx, &trace, words);
    personality::set(own)?;
    let first = clearly(&sooner?);
    ensure!(first == 15, "{first} of 15");
    Ok(())
}

fn with_pfabric_the_flow_with_the_earlier_deadline_goes_first_at_a_switch(
    cx: &Context,
) -> Result<()> {
    weft::require_programs()?;
    let folder = Folder::new()?;
    let trace = pairs(&folder, 15, 400_000, ["0 2", "1 2"])?;
    let words = "--scheme pfabric-deadline --deadline uniform:20ms-200ms";
    let first = clearly(&sooner(cx, &trace, words)?);
    ensure!(first == 15, "{first} of 15");
    Ok(())
}

/// Two long flows share a port that marks, and both would take about 32 ms. The one with the nearer
/// deadline takes only as much as it needs, and windows of 15 packets shrink by whole packets: it
/// ends a few hundredths sooner.
fn with_d2tcp_the_flow_with_the_earlier_deadline_gets_more(cx: &Context) -> Result<()> {
    weft::require_programs()?;
    let folder = Folder::new()?;
    let trace = pairs(&folder, 15, 2_000_000, ["0 2", "1 2"])?;
    let mean = |scheme: &str| {
        let words = format!("--scheme {scheme} --deadline uniform:16ms-64ms");
        let sooner = sooner(cx, &trace, &words)?;
        anyhow::Ok(sooner.iter().sum::<f64>() / sooner.len() as f64)
    };
    let (with, without) = (mean("d2tcp")?, mean("dctcp-dibs")?);
    cx.note(format!("sooner by {with:.2}, with dctcp by {without:.2}"));
    ensure!(with > 0.04, "{with}");
    ensure!(without.abs() < 0.02, "{without}");
    Ok(())
}
