// SPDX-License-Identifier: MIT OR Apache-2.0

//! Options of `weft run` that describe the workload.

use std::num::{NonZeroU8, NonZeroU32};
use std::ops::Bound;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use weft_arguments::{real, whole};
use weft_lab::error::usage;
use weft_lab::traffic::{Drawn, Incasts, LoadLinks, Origin, Traffic};
use weft_load::collective::Collective;
use weft_load::deadlines::Deadlines;
use weft_load::generate::{MAX_PRIORITIES, Until};
use weft_load::load::Counted;

use super::time;

/// Options of drawn flows. A run without such flows refuses them, because they would change
/// nothing: with `--load 0.2,0.4` it would make the same run twice.
const DRAWN: [&str; 6] = ["workload", "load", "load_of", "count", "arrivals", "pairs"];

/// The workload.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Flow sizes: a name of `weft workloads`, fixed:SIZE, uniform:MIN-MAX, or a CDF file
    #[arg(long, value_name = "SIZES", default_value = "web-search")]
    workload: String,
    /// Offered load, above 0 and up to 1; several values, separated by commas, make a sweep
    #[arg(
        long,
        value_name = "FRACTION",
        value_delimiter = ',',
        default_value = "0.6",
        allow_negative_numbers = true,
        value_parser = real((Bound::Excluded(0.0), Bound::Included(1.0)))
    )]
    load: Vec<f64>,
    /// Capacity that the load is a fraction of
    #[arg(long, value_enum, default_value_t = Of::Host)]
    load_of: Of,
    /// Bytes that the load counts: on the wire with every header, or the flows' payload
    #[arg(long, value_enum, default_value_t = Count::Wire)]
    count: Count,
    /// Arrivals: poisson, lognormal[:SIGMA], or closed[:N], which keeps N flows per pair running;
    /// balanced is poisson with stratified sizes and times, so that short runs offer the load too
    #[arg(long, default_value = "poisson")]
    arrivals: String,
    /// Traffic matrix: uniform, permutation, all-to-one[:hN], without:hN (uniform among the other
    /// hosts), intra-rack, local:FRACTION (of flows that stay in the sender's rack; the others go
    /// to other racks), FROM-TO for two hosts or groups (left-right), or a file with lines SRC DST
    /// (host names, or numbers from 0)
    #[arg(long, default_value = "uniform")]
    pairs: String,
    /// Read flows from a file with lines START_NS SRC DST SIZE (host names, or numbers from 0),
    /// instead of all options above
    #[arg(long, value_name = "FILE", conflicts_with_all = DRAWN)]
    trace: Option<String>,
    /// Run rounds of a collective, instead of all options above: ring, tree (all-reduce) or
    /// all-to-all with the bytes at each host (ring:64MB), or at each of the first eight
    /// (ring:8x64MB). replicate:4MB writes each block to three hosts: the first one copies it to
    /// the others. A flow starts when its data is available
    #[arg(long, value_name = "KIND:SIZE", conflicts_with_all = DRAWN.into_iter().chain(["trace", "incast", "flows", "time"]))]
    collective: Option<Collective>,
    /// Number of rounds
    #[arg(long, value_name = "N", requires = "collective", default_value_t = 20, allow_negative_numbers = true, value_parser = whole(1..=u64::MAX))]
    rounds: u64,
    /// Add incasts: 40x20kB@300 is 40 senders of 20 kB each, 300 times per second of fabric time;
    /// 100:20MB@5 is 20 MB in total from 100 senders
    #[arg(long, value_name = "N×SIZE@RATE")]
    incast: Option<String>,
    /// Receiver of all incasts (default: a random host for each)
    #[arg(long, value_name = "HOST", requires = "incast")]
    incast_to: Option<String>,
    /// Number of hosts that send an incast's flows, in turn (default: one host per flow)
    #[arg(long, value_name = "N", requires = "incast", allow_negative_numbers = true, value_parser = whole(NonZeroU32::MIN..=NonZeroU32::MAX))]
    incast_senders: Option<NonZeroU32>,
    /// Times between incasts: poisson or lognormal[:SIGMA]; lognormal:0 is periodic
    #[arg(
        long,
        value_name = "ARRIVALS",
        requires = "incast",
        default_value = "poisson"
    )]
    incast_arrivals: String,
    /// Run only the incasts
    #[arg(long, requires = "incast", conflicts_with_all = DRAWN.into_iter().chain(["trace"]))]
    only_incast: bool,
    /// Add a flow (repeatable): h1-h0:30MB sends 30 MB from h1 to h0 at the start, h1-h0:30MB@2ms
    /// at 2 ms of fabric time, h1-h0:20x30MB sends twenty of them, rack0-h9:30MB sends one from
    /// each host of the group
    #[arg(long, value_name = "FROM-TO:SIZE")]
    add: Vec<String>,
    /// Run only the flows of --add
    #[arg(long, requires = "add", conflicts_with_all = DRAWN.into_iter().chain(["trace", "incast", "collective", "flows", "time"]))]
    only_added: bool,
    /// Deadlines of flows after their start, in fabric time: fixed:TIME or uniform:MIN-MAX, such as
    /// uniform:5ms-25ms. Flows of --add have none
    #[arg(long, value_name = "TIMES", conflicts_with = "only_added")]
    deadline: Option<Deadlines>,
    /// Number of priorities, 2 to 8. Each flow has a random one; 0 is the most urgent. It is the
    /// DSCP of the flow's packets (CS0, CS1 and so on) and the flow's class for bfc, by which
    /// schemes such as bfc-classes serve it. Flows of --add have none
    #[arg(long, value_name = "N", conflicts_with = "only_added", allow_negative_numbers = true, value_parser = whole(2..=MAX_PRIORITIES))]
    priorities: Option<u8>,
    /// Number of measured flows (default 1000). Further flows keep up the load until the last of
    /// them ends
    #[arg(long, value_name = "N", conflicts_with = "time", allow_negative_numbers = true, value_parser = whole(1..=u64::MAX))]
    flows: Option<u64>,
    /// Start flows for TIME (fabric time), such as 50ms, instead of a number of flows
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    time: Option<Duration>,
    /// Fraction of flows that start first and are not measured (default: with a load, additional
    /// flows until the link reaches steady state, at most as many as are measured; else a tenth)
    #[arg(long, value_name = "FRACTION", allow_negative_numbers = true, value_parser = real(0.0..1.0))]
    warm_up: Option<f64>,
    /// Run no flows after the measured ones. The last measured flows then meet less load than the
    /// first
    #[arg(long)]
    no_cool_down: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Of {
    /// The busiest host link
    Host,
    /// The links between the core and the busiest rack, in the busier direction
    Core,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Count {
    Wire,
    Payload,
}

impl Args {
    /// Whether flows start when others end, so that there is no load.
    pub(crate) fn is_closed(&self) -> bool {
        self.arrivals.starts_with("closed")
    }

    /// # Errors
    ///
    /// If `--arrivals`, `--pairs` or `--incast` cannot be parsed: one sentence.
    pub(crate) fn traffic(&self) -> Result<Traffic> {
        let background = match (&self.trace, self.collective) {
            (Some(file), _) => Some(Origin::Trace(file.clone())),
            (None, Some(collective)) => Some(Origin::Collective(collective)),
            (None, None) if self.only_incast || self.only_added => None,
            (None, None) => Some(Origin::Drawn(self.drawn()?)),
        };
        let incasts = match &self.incast {
            Some(text) => Some(Incasts {
                to: self.incast_to.clone(),
                senders: self.incast_senders,
                ..Incasts::new(text, &self.incast_arrivals)?
            }),
            None => None,
        };
        Ok(Traffic {
            background,
            incasts,
            added: self.add.clone(),
            deadlines: self.deadline.clone(),
            priorities: self.priorities.and_then(NonZeroU8::new),
            until: self.until(),
            warm_up: self.warm_up,
            no_cool_down: self.no_cool_down,
        })
    }

    fn drawn(&self) -> Result<Drawn> {
        Ok(Drawn {
            sizes: self.workload.clone(),
            load: match self.load.as_slice() {
                [load] => *load,
                _ => return usage("one load a run; several are values of each.load"),
            },
            load_of: match self.load_of {
                Of::Host => LoadLinks::Host,
                Of::Core => LoadLinks::Core,
            },
            counted: match self.count {
                Count::Wire => Counted::Wire,
                Count::Payload => Counted::Payload,
            },
            arrivals: self.arrivals.parse()?,
            pairs: self.pairs.parse()?,
        })
    }

    fn until(&self) -> Until {
        match (self.time, self.flows) {
            (Some(time), _) => Until::Time(time.as_nanos() as u64),
            (None, _) if self.collective.is_some() => Until::Rounds(self.rounds),
            (None, Some(flows)) => Until::Flows(flows),
            (None, None) if self.trace.is_some() => Until::TraceEnd,
            (None, None) => Until::Flows(1000),
        }
    }
}
