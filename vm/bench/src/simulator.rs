// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the comparisons with packet simulators share: a run on pFabric's fabric under the model
//! clock, its flows, and what a run of them costs.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use weft_arguments::whole;
use weft_build::base::progress;
use weft_build::options::{ClockKind, Hardware};
use weft_build::stages::chain::Built;

use super::hops;
use super::usage::Usage;
use crate::weft_run::{self, Run};

/// The scheme of the model clock's run.
pub(super) const SCHEME: &str = "droptail";

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
    pub(super) fn topology(&self, spines: u32) -> String {
        let Self { leaves, hosts, .. } = self;
        format!("leaf-spine:leaves={leaves},spines={spines},hosts={hosts}")
    }

    /// The run in the guest.
    pub(super) fn run(&self, spines: u32) -> Run {
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

    /// Runs it: the flows, sorted by number, and the processor seconds.
    ///
    /// # Errors
    /// If the guest fails.
    pub(super) fn perform(
        &self,
        spines: u32,
        built: &Built,
        hardware: &Hardware,
    ) -> Result<(Vec<Flow>, f64)> {
        let before = Usage::so_far()?;
        let result = progress::step("model clock", || {
            self.run(spines)
                .perform(built, ClockKind::Model, hardware, &Arc::default())
        })?;
        let seconds = Usage::so_far()?.seconds() - before.seconds();
        Ok((flows(&String::from_utf8_lossy(&result))?, seconds))
    }

    /// The number of link crossings of the flows' data packets.
    pub(super) fn hops(&self, flows: &[Flow]) -> u64 {
        let of = |flow: &Flow| {
            let ends = (flow.src.into(), flow.dst.into());
            hops::of_flow(ends, flow.size, (self.hosts.into(), u64::MAX))
        };
        flows.iter().map(of).sum()
    }
}

/// A flow in the results of `weft run`.
#[derive(Deserialize)]
pub(super) struct Flow {
    pub(super) id: u64,
    pub(super) src: u32,
    pub(super) dst: u32,
    pub(super) warm_up: bool,
    pub(super) start_ns: u64,
    pub(super) size: u64,
    pub(super) fct_ns: Option<u64>,
    pub(super) slowdown: Option<f64>,
}

/// The cost and the results of one of the two.
#[derive(Serialize)]
pub(super) struct Figures {
    pub(super) processor_seconds: f64,
    /// Per data packet and link that it crosses, without retransmissions.
    pub(super) us_per_data_packet_hop: f64,
    /// Over the flows that ended in both, without the warm-up; relative to the best possible time.
    pub(super) mean_slowdown: f64,
    pub(super) unfinished: u64,
}

impl Figures {
    pub(super) fn new(seconds: f64, hops: u64, mean_slowdown: f64, unfinished: u64) -> Self {
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
pub(super) fn slowdowns(flows: &[Flow], times: &[(usize, u64)]) -> [f64; 2] {
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

/// A table of both.
pub(super) fn table(
    of: (&str, &str, usize, u64),
    kernel: &str,
    ours: &Figures,
    theirs: (&str, &Figures),
) -> String {
    let (topology, load, flows, hops) = of;
    let mut text = format!(
        "{topology}, web-search, load {load}, {flows} flows, {:.2} million data-packet hops\n\n",
        millions(hops),
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
    text += &ours.row(&format!("model clock, {kernel}, {SCHEME}"));
    text + &theirs.1.row(theirs.0)
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
        // One packet over two links, two over four.
        assert_eq!(FABRIC().hops(&two_flows()), 2 + 8);
    }

    #[test]
    fn slowdowns_are_over_the_same_best_possible_time() {
        // The best possible time is 2000 ns; the warm-up is excluded.
        let times = [(1, 4000), (0, 5000)];
        assert_eq!(slowdowns(&two_flows(), &times), [1.5, 2.0]);
    }
}
