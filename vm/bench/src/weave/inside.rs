// SPDX-License-Identifier: MIT OR Apache-2.0

//! The measuring process. It has its own network, mount and process namespaces, which remove
//! everything when it ends, even by a signal.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};
use serde::{Deserialize, Serialize};
use weft_build::base::{output, progress};

use super::check;
use super::removal::Removal;
use super::rest::Rest;
use super::tools::{self, SHAPER, Weaver};
use super::{Args, Tool};

/// Number of measurements of the wait itself, with nothing to remove.
const WAITS: u32 = 7;

/// One repetition, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) tool: Tool,
    pub(crate) k: u32,
    /// Until the tool reported that the fabric was built.
    pub(crate) up: f64,
    /// Until it reported that the fabric was removed.
    pub(crate) down: f64,
    /// From then on until the kernel had removed the last device.
    pub(crate) gone: f64,
}

impl Sample {
    pub(crate) fn total(&self) -> f64 {
        self.up + self.down + self.gone
    }
}

/// The result for the parent process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// [`Sample::gone`] with nothing to remove.
    pub(crate) wait: Vec<f64>,
    /// The share of processor time that other processes used during pauses.
    pub(crate) others: f64,
    /// In the order of measurement.
    pub(crate) samples: Vec<Sample>,
}

/// Measures, and prints [`Measured`].
///
/// # Errors
/// If a tool fails, or its result is not a fat-tree.
pub(crate) fn run(options: &Args, weft: &Path) -> Result<u8> {
    prepare()?;
    let mut rest = Rest::default();
    let mut measured = Measured {
        wait: waits(&mut rest)?,
        others: 0.0,
        samples: Vec::new(),
    };
    let plan = repetitions(options);
    let mut weavers = Vec::new();
    for (number, &(tool, k, round)) in plan.iter().enumerate() {
        // After round 0 all figures exist, in its order.
        if round == 0 {
            weavers.push(((tool, k), tools::weaver(tool, k, weft)?));
        }
        let weaver = weavers.iter_mut().find(|(kind, _)| *kind == (tool, k));
        let (_, weaver) = weaver.context("no weaver")?;
        let (number, all) = (number + 1, plan.len());
        let what = format!("run {number} of {all}: {}, k={k}", tool.name());
        let sample = progress::step(&what, || {
            measure(tool, k, round, weaver.as_mut(), &mut rest)
        })?;
        if round > 0 {
            measured.samples.push(sample);
        }
    }
    measured.others = rest.others();
    output::print(serde_json::to_string(&measured)?)?;
    Ok(0)
}

/// Hides other testbeds, and protects settings of the whole machine.
fn prepare() -> Result<()> {
    let none = None::<&str>;
    mount(Some("bench"), "/run", Some("tmpfs"), MsFlags::empty(), none)
        .context("mounting a /run")?;
    // Mininet would raise limits of the machine permanently.
    for place in ["/proc/sys/fs", "/proc/sys/kernel"] {
        let bind = MsFlags::MS_BIND;
        mount(Some(place), place, none, bind, none)
            .and_then(|()| {
                let readonly = bind | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
                mount(none, place, none, readonly, none)
            })
            .with_context(|| format!("making {place} read-only"))?;
    }
    Ok(())
}

/// The order of runs: each round has all tools, so that other load on the machine affects them
/// alike. Round 0 is not measured: it reads programs from the disk, and checks each result.
fn repetitions(options: &Args) -> Vec<(Tool, u32, u32)> {
    let mut all = Vec::new();
    let rounds = options.runs.max(options.slow_runs);
    for round in 0..=rounds {
        for &k in &options.k {
            for &tool in &options.tools {
                let one = (tool, k, round);
                // A duplicate request is done once.
                if round <= tool.runs(options) && !all.contains(&one) {
                    all.push(one);
                }
            }
        }
    }
    all
}

fn measure(
    tool: Tool,
    k: u32,
    round: u32,
    weaver: &mut dyn Weaver,
    rest: &mut Rest,
) -> Result<Sample> {
    rest.take()?;
    let begun = Instant::now();
    weaver.up()?;
    let up = begun.elapsed();
    check::fat_tree(&weaver.nodes()?, k, (round == 0).then_some(SHAPER))?;
    let removal = Removal::expect()?;
    rest.take()?;
    let begun = Instant::now();
    weaver.down()?;
    let down = begun.elapsed();
    removal.wait()?;
    Ok(Sample {
        tool,
        k,
        up: up.as_secs_f64(),
        down: down.as_secs_f64(),
        gone: (begun.elapsed() - down).as_secs_f64(),
    })
}

fn waits(rest: &mut Rest) -> Result<Vec<f64>> {
    let wait = |_| {
        let removal = Removal::expect()?;
        rest.take()?;
        let begun = Instant::now();
        removal.wait()?;
        Ok(begun.elapsed().as_secs_f64())
    };
    (0..WAITS).map(wait).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn tools_take_turns_and_mininet_stops_first() {
        let words = "weave --k 4,4 --tools weft,mininet,weft --runs 3 --slow-runs 1";
        let options = Line::parse_from(words.split(' ')).args;
        let (weft, mininet) = (Tool::Weft, Tool::Mininet);
        assert_eq!(
            repetitions(&options),
            [
                (weft, 4, 0),
                (mininet, 4, 0),
                (weft, 4, 1),
                (mininet, 4, 1),
                (weft, 4, 2),
                (weft, 4, 3),
            ]
        );
    }
}
