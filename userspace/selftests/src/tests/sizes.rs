// SPDX-License-Identifier: MIT OR Apache-2.0

//! Short flows beside a long one, under a congestion control that tells them apart.

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, tests};

use crate::folder::Folder;
use crate::weft;

tests![
    #[once]
    beside_a_long_flow_short_ones_are_sooner_with_l2dct_than_with_dctcp,
];

/// 1 Gbit/s, slowed to 10 Mbit/s.
const FABRIC: &str = "rack:hosts=4,rate=1gbit,delay=20us --dilation 100";
const LONG: u64 = 20_000_000;
const SHORT: u64 = 150_000;

/// Short flows need 1.2 ms alone, and one begins every 8 ms while the long flow lasts. The long one
/// has the smallest weight from its ninth millisecond on, and the first of them begins in its 20th.
fn beside_a_long_flow_short_ones_are_sooner_with_l2dct_than_with_dctcp(cx: &Context) -> Result<()> {
    let folder = Folder::new()?;
    let mut trace = format!("0 0 2 {LONG}\n");
    for n in 0..15_u64 {
        trace += &format!("{} 1 2 {SHORT}\n", 20_000_000 + n * 8_000_000);
    }
    let trace = folder.write("flows", &trace)?;
    let mean = |scheme: &str| {
        let trace = trace.display();
        let run = weft::run(&format!(
            "{FABRIC} --trace {trace} --warm-up 0 --scheme {scheme}"
        ))?;
        let short = run.flows.iter().filter(|flow| flow.size == SHORT);
        let times = short
            .map(|flow| flow.fct_ns.context("it did not end"))
            .collect::<Result<Vec<u64>>>()?;
        ensure!(times.len() == 15, "{} short flows", times.len());
        anyhow::Ok(times.iter().sum::<u64>() as f64 / times.len() as f64 / 1e6)
    };
    let (ours, linux) = (mean("l2dct")?, mean("dctcp-dibs")?);
    cx.note(format!("{ours:.2} ms, with dctcp {linux:.2} ms"));
    ensure!(ours < 0.9 * linux, "{ours} ms, with dctcp {linux} ms");
    Ok(())
}
