// SPDX-License-Identifier: MIT OR Apache-2.0

//! One run: flows on a woven fabric, from the first byte to the summary.

mod cpu;
mod memory;

use std::io::Write;
use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Context as _, Result};
use weft_load::engine::{
    Cancel, Config, Ended, Engine, FlowResult, Host, Outcome, Phase, Progress, Since, Tick, Times,
    Watch,
};
use weft_load::framing::Framing;
use weft_load::generate::{Class, Flow, Workload};
use weft_load::load::Load;
use weft_load::record::{self, Header, OfferedLoad, PortSample, Record, Summary};
use weft_load::slowdown::{Hop, IdlePath, best_ns, least_ns};
use weft_load::statistics::{Buckets, Sorted};
use weft_net::Testbed;
use weft_topo::{NodeId, Topology, Wire};

use crate::fault::{Faults, Running};
use crate::follow::Paths;
use crate::gates::Measured;
use crate::hops::Counted;
use crate::listen::Listening;
use crate::ports::{self, Continued, PortReading, Ports};
use crate::randomness::Stage;
use crate::topology;
use cpu::Cpu;

/// The maximum time of a fault's command, in the machine's time.
const LONGEST_FAULT: Duration = Duration::from_secs(60);

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
}

/// The interval between samples of ports, in the machine's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sampling {
    Never,
    Every(Duration),
    /// This interval, or a longer one that gives about [`SAMPLES`] samples: a sample queries every
    /// node, which in a long run of a large fabric costs more than the packets do.
    AtLeast(Duration),
}

/// The number of samples that [`Sampling::AtLeast`] takes while flows start.
const SAMPLES: u32 = 500;

impl Sampling {
    /// The time from one sample to the next if the main flows start within `span`.
    fn every(self, span: Duration) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::Every(time) => Some(time),
            Self::AtLeast(time) => Some(time.max(span / SAMPLES)),
        }
    }
}

/// The results apart from the file.
pub struct Outcomes {
    /// The last line of the file, unless it was interrupted.
    pub summary: Summary,
    /// Whether it was interrupted: the file has no summary, like that of a run that did not end.
    pub cancelled: bool,
}

/// Best possible times between hosts.
pub(crate) struct Best<'a> {
    topology: &'a Topology,
    framing: Framing,
    hosts: Vec<NodeId>,
    /// By sender and receiver, cached.
    ways: Vec<Option<Ways>>,
}

/// The paths from one host to another.
#[derive(Clone)]
struct Ways {
    /// The distinct ones.
    paths: Vec<IdlePath>,
    /// Whether there are several, even if they are equal.
    several: bool,
}

impl<'a> Best<'a> {
    pub(crate) fn new(topology: &'a Topology, framing: Framing) -> Self {
        let hosts: Vec<NodeId> = topology.hosts().collect();
        Self {
            topology,
            framing,
            ways: vec![None; hosts.len() * hosts.len()],
            hosts,
        }
    }

    fn ways(&mut self, src: u32, dst: u32) -> Option<&Ways> {
        let (src, dst) = (src as usize, dst as usize);
        let place = src * self.hosts.len() + dst;
        if self.ways.get(place)?.is_none() {
            let (from, to) = (self.hosts[src], self.hosts[dst]);
            let hops = |wires: Vec<Wire>| {
                let hop = |wire: &Wire| Hop {
                    rate: wire.rate.bits_per_second(),
                    delay: wire.delay.ns(),
                };
                IdlePath::new(wires.iter().map(hop).collect(), self.framing).ok()
            };
            let paths = self.topology.wires(from, to).into_iter().filter_map(hops);
            self.ways[place] = Some(Ways {
                paths: paths.collect(),
                several: self.topology.path_count(from, to) > 1,
            });
        }
        self.ways[place].as_ref()
    }

    /// The time by the fastest path for the size, in ns of the fabric. `None` if there is no path.
    pub(crate) fn time_ns(&mut self, src: u32, dst: u32, bytes: u64) -> Option<f64> {
        best_ns(&self.ways(src, dst)?.paths, bytes)
    }

    /// A lower bound of the time that holds even for spraying, in ns of the fabric.
    fn least_ns(&mut self, src: u32, dst: u32, bytes: u64) -> Option<f64> {
        let ways = self.ways(src, dst)?;
        least_ns(&ways.paths, ways.several, bytes)
    }
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
        let dilation = f64::from(self.dilation.get());
        let factor = u64::from(self.dilation.get());
        let slowed = |mut flow: Flow| {
            flow.start_ns = flow.start_ns.saturating_mul(factor);
            flow.deadline_ns = flow.deadline_ns.map(|ns| ns.saturating_mul(factor));
            flow
        };
        let mut drawn = self.workload.flows()?;
        let meant: Vec<Flow> = drawn.by_ref().collect();
        let next_ns = drawn.go_on();
        let keeps_up = next_ns.is_some() && !self.header.workload.no_cool_down;
        let offered = self
            .load
            .zip(next_ns)
            .and_then(|(load, next_ns)| Arrived::new(&meant, next_ns, &load, &self.framing));
        let mut more = || drawn.next().map(slowed);
        let flows: Vec<Flow> = meant.into_iter().map(slowed).collect();
        let span = flows.iter().map(|flow| flow.start_ns).max().unwrap_or(0);
        let every = self.sample.every(Duration::from_nanos(span));
        self.header.workload.flows = flows.len() as u64;
        record::write(out, &Record::Header(Box::new(self.header.clone())))?;

        let mut engine = Engine::new(hosts, self.config.clone())?;
        let (faults, testbed, sample_all) = (self.faults, self.testbed, self.sample_all);
        let (mut commands, at_once) = (Running::default(), faults.at_once());
        for place in 0..at_once {
            faults.begin(place, testbed, &mut commands)?;
            commands.end(LONGEST_FAULT)?;
        }
        let later_ns = faults.later_ns(self.dilation.get());
        let mut unbegun = None;
        let mut begin = |place: usize, _| {
            if unbegun.is_none() {
                unbegun = faults.begin(at_once + place, testbed, &mut commands).err();
            }
        };
        let mut ports = Continued::new(ports);
        let before = ports.read()?;
        let cpu = Cpu::now()?;
        let shortages = memory::shortages(self.testbed, self.topology)?;
        // An error in the loop's callback is kept until the loop has ended.
        let mut failure = None;
        let mut last = before.clone();
        let mut sample = |now_ns: u64| {
            if failure.is_some() {
                return;
            }
            let written = ports.read().and_then(|now| {
                for ((before, last), now) in before.iter().zip(&last).zip(&now) {
                    if sample_all || now.is_of_interest_after(last) {
                        let sample = sample_of(before, now, now_ns, dilation);
                        record::write(out, &Record::Port(sample))?;
                    }
                }
                last = now;
                Ok(())
            });
            failure = written.err();
        };
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
            cancel: Some(cancel),
            more: keeps_up.then_some(&mut more),
            phase: Some(&mut phase),
        };
        let (report, paths, counted) = std::thread::scope(|scope| {
            let fabric = (testbed, self.topology, self.dilation);
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
            let paths = following.map(Listening::end).transpose()?;
            let counted = counting.map(Listening::end).transpose()?;
            anyhow::Ok((report, paths, counted))
        })?;
        if let Some(error) = not_anew {
            return Err(error);
        }
        let path = paths.and_then(|(paths, missed)| paths.end(missed, self.dilation));
        if let Some(path) = path {
            record::write(out, &Record::Path(path))?;
        }
        let mut failures = failures()?;
        let mut hops = Vec::new();
        if let Some((counted, missed)) = counted {
            hops = counted.of(&report.flows);
            if missed > 0 {
                failures.push(format!(
                    "{missed} packets came of which hops were not counted"
                ));
            }
        }
        match unbegun {
            Some(error) => return Err(error),
            None => commands.end(LONGEST_FAULT)?,
        }
        if let Some(error) = failure {
            return Err(error.context("sampling ports"));
        }
        let cpu_idle = cpu.idle_share_since()?;
        let shortages = memory::shortages(self.testbed, self.topology)? - shortages;
        let after = ports.read()?;
        if every.is_some() {
            let sent = |port: &PortReading, before: &PortReading| {
                port.sample.busy_ns != before.sample.busy_ns
            };
            let all = before.iter().zip(&after);
            for (before, now) in all.filter(|(before, now)| sent(now, before)) {
                let sample = sample_of(before, now, report.duration_ns, dilation);
                record::write(out, &Record::Port(sample))?;
            }
        }

        let mut best = Best::new(self.topology, self.framing);
        let mut records = Vec::with_capacity(report.flows.len());
        let mut impossible = 0;
        for (place, flow) in report.flows.iter().enumerate() {
            let Flow { src, dst, size, .. } = flow.flow;
            let time = best.time_ns(src, dst, size);
            let fct = flow.fct_ns(self.since).map(|ns| ns as f64 / dilation);
            let least = best.least_ns(src, dst, size);
            // Wires round to whole ns, and to whole bytes a second.
            let sooner = fct
                .zip(least)
                .is_some_and(|(fct, least)| fct < 0.999 * least - 10.0);
            impossible += u64::from(sooner);
            if let Some(mut record) = flow.record(self.since, dilation, time, report.duration_ns) {
                record.hops = hops.get(place).copied().flatten();
                record::write(out, &Record::Flow(record.clone()))?;
                records.push(record);
            }
        }
        let totals = ports::totals(&before, &after);
        let (own, extra) = report.flows.split_at(report.own);
        // Flows that only keep up the load may be unfinished at the end.
        let failed = |flow: &&FlowResult| matches!(flow.outcome, Outcome::Failed(_));
        let unfinished = |flow: &&FlowResult| !matches!(flow.outcome, Outcome::Finished { .. });
        let unfinished =
            own.iter().filter(unfinished).count() + extra.iter().filter(failed).count();
        let lags = report.flows.iter().filter_map(FlowResult::lag_ns);
        let lags = Sorted::new(lags.map(|ns| ns as f64));
        let measured = Measured {
            lateness: totals.lateness,
            slack_ns: self.slack.as_nanos() as f64,
            packet_time_ns: self.packet_ns() * dilation,
            cpu_idle,
            lag_mean_ns: report.lag.mean_ns(),
            lag_p99_ns: lags.percentile(0.99),
            impossible,
            unfinished: unfinished as u64,
            buffer_limited: buffer_limited(&report.flows),
            memory_shortages: shortages,
            inherited: &self.header.inherited,
        };
        let buckets = Buckets::new(&self.header.buckets)?;
        let mut summary = Summary::new(&records, &buckets, measured.gates(), totals.loss());
        summary.loss_of_bytes = totals.loss_of_bytes();
        summary.sums = totals.sums;
        if let Some(Arrived {
            load,
            begin_ns,
            end_ns,
        }) = offered
        {
            summary.under_load(load, &records, begin_ns, end_ns);
        }
        summary.fail(failures);
        let cancelled = report.ended == Ended::Cancelled;
        if !cancelled {
            record::write(out, &Record::Summary(summary.clone()))?;
        }
        out.flush().context("writing the results")?;
        Ok(Outcomes { summary, cancelled })
    }

    /// The time of a full packet on the fastest link of a host, in ns of the fabric.
    fn packet_ns(&self) -> f64 {
        let bits = 8.0 * self.framing.wire_bytes(self.framing.mss.get()) as f64;
        // The fastest link has the shortest packets: the strictest gate.
        let fastest = topology::host_rates(self.topology).max();
        fastest.map_or(f64::NAN, |rate| bits * 1e9 / rate.bits_per_second() as f64)
    }
}

/// The load that the random flows gave, beside the requested one.
struct Arrived {
    load: OfferedLoad,
    /// From the start of the first measured flow,
    begin_ns: u64,
    /// to the start of the first flow after the last measured one.
    end_ns: u64,
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

/// A port's present sample; counters count from `before`.
fn sample_of(before: &PortReading, now: &PortReading, now_ns: u64, dilation: f64) -> PortSample {
    let mut sample = now.sample.clone();
    sample.count_from(&before.sample);
    sample.divide_times(dilation);
    sample.time_ns = (now_ns as f64 / dilation).round() as u64;
    sample
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_is_sampled_some_500_times_unless_it_is_said_how_often() {
        let [packets, short, long] = [10, 4_000, 1_000_000].map(Duration::from_millis);
        assert_eq!(Sampling::AtLeast(packets).every(short), Some(packets));
        assert_eq!(Sampling::AtLeast(packets).every(long), Some(long / 500));
        assert_eq!(
            Sampling::AtLeast(packets).every(Duration::ZERO),
            Some(packets)
        );
        assert_eq!(Sampling::Every(packets).every(long), Some(packets));
        assert_eq!(Sampling::Never.every(long), None);
    }
}
