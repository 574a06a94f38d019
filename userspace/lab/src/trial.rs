// SPDX-License-Identifier: MIT OR Apache-2.0

//! One run: flows on a woven fabric, from the first byte to the summary.

mod arrivals;
mod best;
mod cpu;
mod faults;
mod memory;
mod sampler;

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Context as _, Result};
use weft_load::engine::{
    Cancel, Config, Ended, Engine, FlowResult, Host, Outcome, Phase, Progress, Report, Since, Tick,
    Times, Watch,
};
use weft_load::framing::Framing;
use weft_load::generate::{Flow, Workload};
use weft_load::load::Load;
use weft_load::record::{self, Header, Hops, PacketPath, Record, Summary};
use weft_load::statistics::{Buckets, Sorted};
use weft_net::Testbed;
use weft_topo::{NodeId, Topology};

use crate::fault::Faults;
use crate::follow::Paths;
use crate::gates::Measured;
use crate::hops::Counted;
use crate::listen::Listening;
use crate::ports::{self, Ports, Totals};
use crate::randomness::Stage;
use crate::topology;
use arrivals::Arrivals;
pub(crate) use best::Best;
use cpu::Cpu;
use faults::Injector;
use sampler::Sampler;
pub(crate) use sampler::Sampling;

/// The flows of a run, and their fabric.
pub(crate) struct Trial<'a> {
    /// The simulated fabric.
    pub(crate) topology: &'a Topology,
    /// The woven fabric.
    pub(crate) testbed: &'a Testbed,
    /// The dilation: times of the machine are this many times those of the fabric.
    pub(crate) dilation: NonZeroU32,
    pub(crate) framing: Framing,
    pub(crate) workload: &'a Workload,
    /// The requested load, if there is one.
    pub(crate) load: Option<Load>,
    /// The first line of the results' file.
    pub(crate) header: Header,
    /// The settings for sending flows.
    pub(crate) config: Config,
    /// The beginning of a flow's time.
    pub(crate) since: Since,
    /// The intentional maximum delay of the wires' timers, in the machine's time.
    pub(crate) slack: Duration,
    pub(crate) sample: Sampling,
    /// Whether every port is sampled, not only those of interest.
    pub(crate) sample_all: bool,
    /// Whether flows' packets are counted by their hops.
    pub(crate) hops: bool,
    /// The host to which packets are followed.
    pub(crate) follow: Option<NodeId>,
    /// Whether hosts use IPv6.
    pub(crate) ipv6: bool,
    pub(crate) faults: &'a Faults,
    /// The scheme's own limits of gates, by name.
    pub(crate) allow: &'a BTreeMap<String, f64>,
}

/// The results apart from the file.
pub struct Outcomes {
    /// The last line of the file, unless it was interrupted.
    pub summary: Summary,
    /// Whether it was interrupted: the file has no summary, like that of a run that did not end.
    pub cancelled: bool,
}

/// The outcome of the flows.
struct Driven {
    report: Report,
    /// The path of the packets that were followed.
    path: Option<PacketPath>,
    hops: FlowHops,
}

/// The hops of flows' packets. Empty if they were not counted.
#[derive(Default)]
struct FlowHops {
    of_flows: Vec<Option<Hops>>,
    /// The number of packets that were not counted.
    missed: u64,
}

/// The flows in the results' file.
struct RecordedFlows {
    records: Vec<record::Flow>,
    /// The number of flows that took less than the shortest possible time.
    impossible: u64,
}

/// The machine's state during the flows.
struct Machine {
    /// The processors' idle share.
    cpu_idle: Option<f64>,
    /// How often TCP's memory was short.
    shortages: u64,
}

impl Trial<'_> {
    /// Runs it on hosts with these `ports`, and writes the results' file to `out`. When flows have
    /// ended, `failures` returns all other failures.
    ///
    /// # Errors
    ///
    /// If sockets, statistics or the file fail. A run that is merely not credible is no error: its
    /// summary says so.
    pub(crate) fn run(
        mut self,
        hosts: Vec<Host>,
        ports: &mut dyn Ports,
        out: &mut impl Write,
        progress: &mut dyn FnMut(Progress),
        cancel: &Cancel,
        failures: &mut dyn FnMut() -> Result<Vec<String>>,
    ) -> Result<Outcomes> {
        let arrivals = Arrivals::new(&self)?;
        let offered = arrivals.offered;
        self.header.workload.flows = arrivals.flows.len() as u64;
        record::write(out, &Record::Header(Box::new(self.header.clone())))?;

        let mut engine = Engine::new(hosts, self.config.clone())?;
        let mut faults = Injector::new(self.faults, self.testbed)?;
        let mut sampler = Sampler::new(ports, out, arrivals.span(), &self)?;
        let cpu = Cpu::now()?;
        let shortages = memory::shortages(self.testbed, self.topology)?;
        let driven = self.drive(
            &mut engine,
            arrivals,
            &mut sampler,
            &mut faults,
            progress,
            cancel,
        )?;
        let Driven { report, path, hops } = driven;
        if let Some(path) = path {
            record::write(sampler.out, &Record::Path(path))?;
        }
        let mut failures = failures()?;
        if hops.missed > 0 {
            failures.push(format!(
                "{} packets came of which hops were not counted",
                hops.missed
            ));
        }
        faults.end()?;
        sampler.check()?;
        let machine = Machine {
            cpu_idle: cpu.idle_share_since()?,
            shortages: memory::shortages(self.testbed, self.topology)? - shortages,
        };
        let (before, after) = sampler.end(report.duration_ns)?;

        let flows = self.record_flows(&report, &hops, out)?;
        let totals = ports::totals(&before, &after);
        let gates = self
            .measure(&report, &machine, &totals, flows.impossible)
            .gates();
        let buckets = Buckets::new(&self.header.buckets)?;
        let mut summary = Summary::new(&flows.records, &buckets, gates, totals.loss());
        summary.loss_of_bytes = totals.loss_of_bytes();
        summary.sums = totals.sums;
        if let Some(it) = offered {
            summary.under_load(it.load, &flows.records, it.begin_ns, it.end_ns);
        }
        summary.fail(failures);
        let cancelled = report.ended == Ended::Cancelled;
        if !cancelled {
            record::write(out, &Record::Summary(summary.clone()))?;
        }
        out.flush().context("writing the results")?;
        Ok(Outcomes { summary, cancelled })
    }

    /// Sends the flows, while ports are sampled, faults begin, and packets are listened to.
    fn drive<W: Write>(
        &self,
        engine: &mut Engine,
        arrivals: Arrivals,
        sampler: &mut Sampler<'_, W>,
        faults: &mut Injector<'_>,
        progress: &mut dyn FnMut(Progress),
        cancel: &Cancel,
    ) -> Result<Driven> {
        let (flows, mut more) = arrivals.split();
        let later_ns = self.faults.later_ns(self.dilation.get());
        let mut begin = |place: usize, _| faults.inject(place);
        let every = sampler.every;
        let mut sample = |now_ns: u64| sampler.sample(now_ns);
        // The event loop takes no error: the last one is kept until the loop has ended.
        let mut not_anew = None;
        let mut phase = |phase| {
            let stage = match phase {
                Phase::Connections => Stage::Connections,
                Phase::Flows => Stage::Flows,
            };
            if let Err(error) = stage.begin() {
                not_anew = Some(error);
            }
        };
        let watch = Watch {
            progress: Some(Tick {
                every: Duration::from_secs(1),
                call: progress,
            }),
            sample: every.map(|every| Tick {
                every,
                call: &mut sample,
            }),
            times: Some(Times {
                at_ns: &later_ns,
                call: &mut begin,
            }),
            more: more
                .as_mut()
                .map(|more| more as &mut dyn FnMut() -> Option<Flow>),
            cancel: Some(cancel),
            phase: Some(&mut phase),
        };
        let driven = std::thread::scope(|scope| {
            let fabric = (self.testbed, self.topology, self.dilation);
            let follow = |to| {
                let paths = Paths::new(self.topology, to);
                Listening::begin(scope, fabric, self.ipv6, paths)
            };
            let count = || {
                let counted = Counted::new(self.topology);
                Listening::begin(scope, fabric, self.ipv6, counted)
            };
            let following = self.follow.map(follow).transpose()?;
            let counting = self.hops.then(count).transpose()?;
            let report = engine.run(flows, watch)?;
            let path = following.map(Listening::end).transpose()?;
            let counted = counting.map(Listening::end).transpose()?;
            anyhow::Ok(Driven {
                path: path.and_then(|(paths, missed)| paths.end(missed, self.dilation)),
                hops: counted.map_or_else(FlowHops::default, |(counted, missed)| FlowHops {
                    of_flows: counted.of(&report.flows),
                    missed,
                }),
                report,
            })
        });
        match not_anew {
            Some(error) => Err(error),
            None => driven,
        }
    }

    /// Writes a record of each flow.
    fn record_flows(
        &self,
        report: &Report,
        hops: &FlowHops,
        out: &mut impl Write,
    ) -> Result<RecordedFlows> {
        let dilation = f64::from(self.dilation.get());
        let mut best = Best::new(self.topology, self.framing);
        let mut records = Vec::with_capacity(report.flows.len());
        let mut impossible = 0;
        for (place, flow) in report.flows.iter().enumerate() {
            let Flow { src, dst, size, .. } = flow.flow;
            let time = best.time_ns(src, dst, size);
            let fct = flow.fct_ns(self.since).map(|ns| ns as f64 / dilation);
            let least = best.lower_bound_ns(src, dst, size);
            // Wires round to whole ns, and to whole bytes a second.
            let sooner = fct
                .zip(least)
                .is_some_and(|(fct, least)| fct < 0.999 * least - 10.0);
            impossible += u64::from(sooner);
            if let Some(mut record) = flow.record(self.since, dilation, time, report.duration_ns) {
                record.hops = hops.of_flows.get(place).copied().flatten();
                record::write(out, &Record::Flow(record.clone()))?;
                records.push(record);
            }
        }
        Ok(RecordedFlows {
            records,
            impossible,
        })
    }

    /// What the gates judge.
    fn measure<'a>(
        &'a self,
        report: &Report,
        machine: &Machine,
        totals: &Totals,
        impossible: u64,
    ) -> Measured<'a> {
        let dilation = f64::from(self.dilation.get());
        let (own, extra) = report.flows.split_at(report.own);
        // Flows that only keep up the load may be unfinished at the end.
        let failed = |flow: &&FlowResult| matches!(flow.outcome, Outcome::Failed(_));
        let unfinished = |flow: &&FlowResult| !matches!(flow.outcome, Outcome::Finished { .. });
        let unfinished =
            own.iter().filter(unfinished).count() + extra.iter().filter(failed).count();
        let lags = report.flows.iter().filter_map(FlowResult::lag_ns);
        let lags = Sorted::new(lags.map(|ns| ns as f64));
        Measured {
            lateness: totals.lateness,
            slack_ns: self.slack.as_nanos() as f64,
            packet_time_ns: self.packet_ns() * dilation,
            cpu_idle: machine.cpu_idle,
            lag_mean_ns: report.lag.mean_ns(),
            lag_p99_ns: lags.percentile(0.99),
            impossible,
            unfinished: unfinished as u64,
            buffer_limited: buffer_limited(&report.flows),
            memory_shortages: machine.shortages,
            inherited: &self.header.inherited,
            allow: self.allow,
        }
    }

    /// The time of a full packet on the fastest link of a host, in ns of the fabric.
    fn packet_ns(&self) -> f64 {
        let bits = 8.0 * self.framing.wire_bytes(self.framing.mss.get()) as f64;
        // The fastest link has the shortest packets: the strictest gate.
        let fastest = topology::host_rates(self.topology).max();
        fastest.map_or(f64::NAN, |rate| bits * 1e9 / rate.bits_per_second() as f64)
    }
}

/// The share of all flows' time in which the size of a buffer kept the sender from sending.
fn buffer_limited(flows: &[FlowResult]) -> Option<f64> {
    let mut limited = Duration::ZERO;
    let mut all = Duration::ZERO;
    for flow in flows {
        if let Some(ns) = flow.fct_ns(Since::FirstByte) {
            all += Duration::from_nanos(ns);
            limited += flow.receive_window_limited + flow.send_buffer_limited;
        }
    }
    (!all.is_zero()).then(|| limited.as_secs_f64() / all.as_secs_f64())
}
