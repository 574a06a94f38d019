// SPDX-License-Identifier: MIT OR Apache-2.0

//! Background flows, incasts and an added flow.

use std::num::NonZeroU32;

use weft_load::arrivals::Process;
use weft_load::generate::{Background, Flow, Until, Workload};
use weft_load::incast::{Incast, IncastBytes};
use weft_load::pairs::Pairs;
use weft_load::trace::TraceFlow;

/// `flows` background flows among 16 hosts, 1,000 per second, and one added flow; with `incasts`,
/// that many incasts of five flows per second.
pub(crate) fn workload(flows: u64, incasts: Option<f64>) -> Workload {
    Workload {
        hosts: 16,
        background: Some(Background::Open {
            sizes: "web-search".parse().unwrap(),
            pairs: Pairs::uniform(16).unwrap(),
            process: Process::Poisson,
            rate: 1_000.0,
        }),
        incast: incasts.map(|rate| Incast {
            fan_in: NonZeroU32::new(5).unwrap(),
            senders: None,
            bytes: IncastBytes::PerSender(20_000),
            process: Process::Poisson,
            rate,
            receiver: None,
        }),
        added: vec![TraceFlow {
            start_ns: 0,
            src: 0,
            dst: 1,
            size: 1 << 30,
        }],
        until: Until::Flows(flows),
        warm_up: 0.1,
        deadlines: None,
        priorities: None,
        seed: 7,
    }
}

pub(crate) fn flows(workload: &Workload) -> Vec<Flow> {
    workload.flows().unwrap().collect()
}
