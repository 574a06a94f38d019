// SPDX-License-Identifier: MIT OR Apache-2.0

//! What flows there are, as options of `weft run`.

use std::num::NonZeroU32;

use anyhow::Result;
use clap::ValueEnum;
use weft_lab::error::usage;
use weft_lab::traffic::{Drawn, Incasts, LoadLinks, Origin, Traffic};
use weft_load::collective::Collective;
use weft_load::deadlines::Deadlines;
use weft_load::generate::Until;
use weft_load::load::Counted;
use weft_topo::Delay;

/// Which flows.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Flow sizes: a name of `weft workloads`, fixed:SIZE, uniform:MIN-MAX, or a CDF file
    #[arg(long, value_name = "SIZES", default_value = "web-search")]
    workload: String,
    /// Offered load, above 0 to 1; several, separated by commas, are a sweep
    #[arg(
        long,
        value_name = "FRACTION",
        value_delimiter = ',',
        default_value = "0.6"
    )]
    load: Vec<f64>,
    /// What the load is a fraction of
    #[arg(long, value_enum, default_value_t = Of::Host)]
    load_of: Of,
    /// Which bytes the load counts: the wire's, with every header, or the flows'
    #[arg(long, value_enum, default_value_t = Count::Wire)]
    count: Count,
    /// poisson, lognormal[:SIGMA], or closed[:N]: N flows at a time per pair, the end of one
    /// begins the next
    #[arg(long, default_value = "poisson")]
    arrivals: String,
    /// Who sends to whom: uniform, permutation, all-to-one[:hN], without:hN (uniform, and hN has no
    /// flows), intra-rack, FROM-TO of two hosts or groups (left-right), or a file of lines SRC DST:
    /// hosts by name or by number from 0
    #[arg(long, default_value = "uniform")]
    pairs: String,
    /// Flows from a file of lines START_NS SRC DST SIZE (hosts by name or by number from 0) instead
    /// of all of the above
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "load", "arrivals", "pairs"])]
    trace: Option<String>,
    /// Rounds of a collective instead of all of the above: ring or tree (all-reduce) or all-to-all
    /// with the bytes at each host, ring:64MB, or at each of the first eight, ring:8x64MB;
    /// replicate:4MB writes blocks, each to three hosts, the first of which copies it to the
    /// others; a flow begins when what it sends is there
    #[arg(long, value_name = "KIND:SIZE", conflicts_with_all = ["workload", "load", "arrivals", "pairs", "trace", "incast", "flows", "time"])]
    collective: Option<Collective>,
    /// How many rounds
    #[arg(long, value_name = "N", requires = "collective", default_value_t = 20)]
    rounds: u64,
    /// Incasts on top: 40x20kB@300 is 40 senders of 20 kB each, 300 times a second of the fabric;
    /// 100:20MB@5 is 20 MB in all
    #[arg(long, value_name = "N×SIZE@RATE")]
    incast: Option<String>,
    /// Receiver of all incasts (default: a new one each time)
    #[arg(long, value_name = "HOST", requires = "incast")]
    incast_to: Option<String>,
    /// Hosts that send an incast's flows, where they are to be fewer than its flows: in turn
    /// (default: each flow is from another host)
    #[arg(long, value_name = "N", requires = "incast")]
    incast_senders: Option<NonZeroU32>,
    /// Times between incasts: poisson or lognormal[:SIGMA]; lognormal:0 is always the same time
    #[arg(long, value_name = "ARRIVALS", default_value = "poisson")]
    incast_arrivals: String,
    /// Nothing but the incasts
    #[arg(long, requires = "incast", conflicts_with = "trace")]
    only_incast: bool,
    /// A flow on top (repeatable): h1-h0:30MB is 30 MB from h1 to h0 from the beginning on,
    /// h1-h0:30MB@2ms from 2 ms of the fabric on, h1-h0:20x30MB are twenty of them, rack0-h9:30MB
    /// is one from each host of that group
    #[arg(long, value_name = "FROM-TO:SIZE")]
    add: Vec<String>,
    /// Nothing but the flows of --add
    #[arg(long, requires = "add", conflicts_with_all = ["trace", "incast", "collective"])]
    only_added: bool,
    /// In how much time flows have to be done, in time of the fabric: fixed:TIME or
    /// uniform:MIN-MAX, such as uniform:5ms-25ms; flows of --add have no deadline
    #[arg(long, value_name = "TIMES", conflicts_with = "only_added")]
    deadline: Option<Deadlines>,
    /// How many flows (default 1000); while they last, flows that are not measured keep up the load
    #[arg(long, value_name = "N", conflicts_with = "time")]
    flows: Option<u64>,
    /// For how long flows start, in time of the fabric: 50ms
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// The fraction that comes first and is not measured (default: where there is a load, on top of
    /// --flows or --time as many as the link needs to forget that it was empty, but no more than
    /// are measured; else a tenth)
    #[arg(long, value_name = "FRACTION")]
    warm_up: Option<f64>,
    /// Nothing but the flows that are asked for: none keeps up the load while the last of them end,
    /// which meet fewer others than the first
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
    /// # Errors
    ///
    /// If `--time`, `--arrivals`, `--pairs` or `--incast` cannot be read: one sentence.
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
            until: self.until()?,
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

    fn until(&self) -> Result<Until> {
        Ok(match (&self.time, self.flows) {
            (Some(time), _) => match time.parse::<Delay>() {
                Ok(time) => Until::Time(time.ns()),
                Err(_) => {
                    return usage(format!(
                        "--time {time}: expected a time up to 10s, such as 50ms"
                    ));
                }
            },
            (None, _) if self.collective.is_some() => Until::Rounds(self.rounds),
            (None, Some(flows)) => Until::Flows(flows),
            (None, None) if self.trace.is_some() => Until::TraceEnd,
            (None, None) => Until::Flows(1000),
        })
    }
}
