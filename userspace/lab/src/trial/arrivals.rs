// SPDX-License-Identifier: MIT OR Apache-2.0

//! The flows of a run, in the machine's time.

use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::Result;
use weft_load::framing::Framing;
use weft_load::generate::{Class, Flow, Flows};
use weft_load::load::Load;
use weft_load::record::OfferedLoad;

use super::Trial;

/// The flows of a run.
pub(super) struct Arrivals {
    /// The workload's own flows.
    pub(super) flows: Vec<Flow>,
    /// The flows that keep up the load until the workload's own flows have ended.
    more: Option<Flows>,
    dilation: NonZeroU32,
    /// `None` without random flows or a requested load.
    pub(super) offered: Option<Arrived>,
}

impl Arrivals {
    /// Draws the flows.
    ///
    /// # Errors
    ///
    /// If the workload is not possible.
    pub(super) fn new(trial: &Trial<'_>) -> Result<Self> {
        let mut drawn = trial.workload.flows()?;
        let meant: Vec<Flow> = drawn.by_ref().collect();
        let next_ns = drawn.continue_load();
        let keeps_up = next_ns.is_some() && !trial.header.workload.no_cool_down;
        let offered = trial
            .load
            .zip(next_ns)
            .and_then(|(load, next_ns)| Arrived::new(&meant, next_ns, &load, &trial.framing));
        let slow = |flow| slowed(flow, trial.dilation);
        Ok(Self {
            flows: meant.into_iter().map(slow).collect(),
            more: keeps_up.then_some(drawn),
            dilation: trial.dilation,
            offered,
        })
    }

    /// The time in which the workload's own flows start.
    pub(super) fn span(&self) -> Duration {
        let last_ns = self.flows.iter().map(|flow| flow.start_ns).max();
        Duration::from_nanos(last_ns.unwrap_or(0))
    }

    /// The workload's own flows, and a source of those that keep up the load.
    pub(super) fn split(self) -> (Vec<Flow>, Option<impl FnMut() -> Option<Flow>>) {
        let Self {
            flows,
            more,
            dilation,
            ..
        } = self;
        let more = more.map(|mut more| move || more.next().map(|flow| slowed(flow, dilation)));
        (flows, more)
    }
}

/// The flow with its times on the slowed fabric.
fn slowed(mut flow: Flow, dilation: NonZeroU32) -> Flow {
    let factor = u64::from(dilation.get());
    flow.start_ns = flow.start_ns.saturating_mul(factor);
    flow.deadline_ns = flow.deadline_ns.map(|ns| ns.saturating_mul(factor));
    flow
}

/// The load that the random flows gave, beside the requested one.
#[derive(Clone, Copy)]
pub(super) struct Arrived {
    pub(super) load: OfferedLoad,
    /// From the start of the first measured flow,
    pub(super) begin_ns: u64,
    /// to the start of the first flow after the last measured one.
    pub(super) end_ns: u64,
}

impl Arrived {
    /// `None` if no flow is measured.
    fn new(flows: &[Flow], end_ns: u64, load: &Load, framing: &Framing) -> Option<Self> {
        let is_measured = |flow: &&Flow| flow.class == Class::Background && !flow.warm_up;
        let measured = || flows.iter().filter(is_measured);
        let begin_ns = measured().next()?.start_ns;
        let bits: f64 = measured()
            .map(|flow| load.counted.bits(flow.size, framing))
            .sum();
        let offered = load.offered(bits, end_ns.saturating_sub(begin_ns) as f64)?;
        Some(Self {
            load: OfferedLoad {
                asked: load.fraction,
                offered,
            },
            begin_ns,
            end_ns,
        })
    }
}
