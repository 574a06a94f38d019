// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the comparisons with packet simulators share: the run on pFabric's fabric under the model
//! clock, and the report of both.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use weft_arguments::whole;
use weft_build::base::cache::Cache;
use weft_build::base::progress;
use weft_build::options::ClockKind;
use weft_build::stages::chain::{self, Kernel};

use super::{Figures, hops, usage};
use crate::weft_run::{self, Run};

/// The scheme of the model clock's run.
const SCHEME: &str = "droptail";

/// The fabric and its flows.
#[derive(Debug, clap::Args)]
pub(crate) struct Fabric {
    /// Leaf switches
    #[arg(long, default_value_t = 9, allow_negative_numbers = true, value_parser = whole(2..=256_u32))]
    pub(super) leaves: u32,
    /// Hosts per leaf
    #[arg(long, default_value_t = 16, allow_negative_numbers = true, value_parser = whole(1..=253_u32))]
    pub(super) hosts: u32,
    /// Load of the hosts' links, 0 to 1
    #[arg(long, default_value = "0.6")]
    pub(super) load: String,
    /// Number of flows
    #[arg(long, default_value_t = 600, allow_negative_numbers = true, value_parser = whole(1..=u64::MAX))]
    pub(super) flows: u64,
    /// Seed of the workload
    #[arg(long, value_name = "SEED", default_value_t = 1, allow_negative_numbers = true, value_parser = whole(0..=u64::MAX))]
    pub(super) workload_seed: u64,
}

impl Fabric {
    fn topology(&self, spines: u32) -> String {
        let Self { leaves, hosts, .. } = self;
        format!("leaf-spine:leaves={leaves},spines={spines},hosts={hosts}")
    }

    /// The run in the guest.
    fn run(&self, spines: u32) -> Run {
        let said = [
            ("--dilation", "1000".to_owned()),
            ("--workload", "web-search".to_owned()),
            ("--load", self.load.clone()),
            ("--flows", self.flows.to_string()),
            ("--sample", "0ns".to_owned()),
            ("--warm-up", "0".to_owned()),
        ];
        let words = weft_run::words(&self.topology(spines), said, &["--no-cool-down"]);
        Run::new(words, SCHEME, self.workload_seed)
    }

    /// The command of the run in the guest.
    ///
    /// # Errors
    /// If it cannot be written as one.
    pub(super) fn shown(&self, spines: u32, figures: &Figures) -> Result<String> {
        self.run(spines)
            .shown(&figures.target, ClockKind::Model, &figures.hardware)
    }

    /// Runs it.
    ///
    /// # Errors
    /// If the guest cannot be built, or fails.
    pub(super) fn perform(
        &self,
        spines: u32,
        cache: &Cache,
        figures: &Figures,
    ) -> Result<ModelClock> {
        let built = chain::all(cache, &figures.target.request(), &[Kernel::Model])?;
        let run = self.run(spines);
        let perform = || run.perform(&built, ClockKind::Model, &figures.hardware, &Arc::default());
        let (result, seconds) = usage::with_seconds(|| progress::step("model clock", perform))?;
        Ok(ModelClock {
            topology: self.topology(spines),
            load: self.load.clone(),
            kernel: built.release(Kernel::Model)?.to_owned(),
            flows: flows(&String::from_utf8_lossy(&result))?,
            hosts: self.hosts,
            seconds,
        })
    }
}

/// A run under the model clock.
pub(super) struct ModelClock {
    topology: String,
    load: String,
    kernel: String,
    /// Sorted by number.
    pub(super) flows: Vec<Flow>,
    /// Of a leaf.
    hosts: u32,
    seconds: f64,
}

impl ModelClock {
    /// The report's part for the model clock, and a simulator's cost, which took `seconds` for the
    /// same flows: `times` has the places of those that ended, and their times in ns.
    ///
    /// # Errors
    /// If the date cannot be read.
    pub(super) fn beside(&self, seconds: f64, times: &[(usize, u64)]) -> Result<(Report, Cost)> {
        let hops = self.hops();
        let [ours, theirs] = slowdowns(&self.flows, times);
        let unfinished = self.flows.iter().filter(|flow| flow.fct_ns.is_none());
        let report = Report {
            date: super::today()?,
            topology: self.topology.clone(),
            load: self.load.clone(),
            flows: self.flows.len(),
            data_packet_hops: hops,
            model_kernel: self.kernel.clone(),
            model_clock: Cost::new(self.seconds, hops, ours, unfinished.count()),
        };
        let lost = self.flows.len() - times.len();
        Ok((report, Cost::new(seconds, hops, theirs, lost)))
    }

    /// The number of link crossings of the flows' data packets.
    fn hops(&self) -> u64 {
        let of = |flow: &Flow| {
            let ends = (flow.src.into(), flow.dst.into());
            hops::of_flow(ends, flow.size, (self.hosts.into(), u64::MAX))
        };
        self.flows.iter().map(of).sum()
    }
}

/// A flow in the results of `weft run`.
#[derive(Deserialize)]
pub(super) struct Flow {
    id: u64,
    pub(super) src: u32,
    pub(super) dst: u32,
    warm_up: bool,
    pub(super) start_ns: u64,
    pub(super) size: u64,
    fct_ns: Option<u64>,
    slowdown: Option<f64>,
}

/// The cost and the results of one of the two.
#[derive(Serialize)]
pub(super) struct Cost {
    processor_seconds: f64,
    /// Per data packet and link that it crosses, without retransmissions.
    us_per_data_packet_hop: f64,
    /// Over the flows that ended in both, without the warm-up; relative to the best possible time.
    mean_slowdown: f64,
    unfinished: usize,
}

impl Cost {
    fn new(seconds: f64, hops: u64, mean_slowdown: f64, unfinished: usize) -> Self {
        Self {
            processor_seconds: seconds,
            us_per_data_packet_hop: 1e6 * seconds / hops as f64,
            mean_slowdown,
            unfinished,
        }
    }

    fn row(&self, name: &str) -> String {
        format!(
            "{name:<36}{:>12.1}{:>12.2}{:>15.2}{:>12}\n",
            self.processor_seconds,
            self.us_per_data_packet_hop,
            self.mean_slowdown,
            self.unfinished
        )
    }
}

/// The part of a report that each comparison has.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) date: String,
    topology: String,
    load: String,
    flows: usize,
    data_packet_hops: u64,
    model_kernel: String,
    model_clock: Cost,
}

impl Report {
    /// A table of both.
    pub(super) fn table(&self, simulator: &str, theirs: &Cost) -> String {
        let Self {
            topology,
            load,
            flows,
            model_kernel,
            ..
        } = self;
        let mut text = format!(
            "{topology}, web-search, load {load}, {flows} flows, {:.2} million data-packet hops\n\n",
            millions(self.data_packet_hops),
        );
        let [name, seconds, hop, slowdown, unfinished] = [
            "",
            "processor s",
            "µs per hop",
            "mean slowdown",
            "unfinished",
        ];
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{name:<36}{seconds:>12}{hop:>12}{slowdown:>15}{unfinished:>12}"
        );
        let ours = format!("model clock, {model_kernel}, {SCHEME}");
        text + &self.model_clock.row(&ours) + &theirs.row(simulator)
    }
}

/// The flows of a result, sorted by number.
fn flows(results: &str) -> Result<Vec<Flow>> {
    let lines = results
        .lines()
        .filter(|line| line.contains(r#""record":"flow""#));
    let mut flows: Vec<Flow> = lines
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .context("reading the flows")?;
    flows.sort_by_key(|flow| flow.id);
    Ok(flows)
}

/// Means over the flows that ended in both: weft's and the simulator's.
fn slowdowns(flows: &[Flow], times: &[(usize, u64)]) -> [f64; 2] {
    let both = times.iter().filter_map(|&(place, ns)| {
        let flow = flows.get(place).filter(|flow| !flow.warm_up)?;
        let slowdown = flow.slowdown?;
        Some([slowdown, ns as f64 * slowdown / flow.fct_ns? as f64])
    });
    let both: Vec<[f64; 2]> = both.collect();
    [0, 1].map(|side| both.iter().map(|it| it[side]).sum::<f64>() / both.len() as f64)
}

pub(super) fn millions(count: u64) -> f64 {
    count as f64 / 1e6
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const RESULTS: &str = r#"{"record":"header","format":1}
{"record":"flow","id":1,"src":0,"dst":17,"class":"background","warm_up":false,"start_ns":50,"size":1449,"fct_ns":3000,"slowdown":1.5}
{"record":"flow","id":0,"src":0,"dst":1,"class":"background","warm_up":true,"start_ns":7,"size":1448,"fct_ns":1000,"slowdown":1.0}
{"record":"summary"}"#;

    pub(crate) const FABRIC: fn() -> Fabric = || Fabric {
        leaves: 9,
        hosts: 16,
        load: "0.6".to_owned(),
        flows: 2,
        workload_seed: 1,
    };

    pub(crate) fn two_flows() -> Vec<Flow> {
        flows(RESULTS).unwrap()
    }

    #[test]
    fn a_hop_is_a_packet_that_crosses_a_link() {
        let run = ModelClock {
            topology: FABRIC().topology(4),
            load: String::new(),
            kernel: String::new(),
            flows: two_flows(),
            hosts: FABRIC().hosts,
            seconds: 1.0,
        };
        // One packet over two links, two over four.
        assert_eq!(run.hops(), 2 + 8);
    }

    #[test]
    fn slowdowns_are_over_the_same_best_possible_time() {
        // The best possible time is 2000 ns; the warm-up is excluded.
        let times = [(1, 4000), (0, 5000)];
        assert_eq!(slowdowns(&two_flows(), &times), [1.5, 2.0]);
    }
}
