// SPDX-License-Identifier: MIT OR Apache-2.0

//! Results of a run.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::generate::Flow;
use crate::record;

/// The results of a run. Times are ns of `CLOCK_MONOTONIC` since the run began.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Why the run ended.
    pub ended: Ended,
    /// When the run began, in ns of `CLOCK_MONOTONIC`.
    pub begin_ns: u64,
    /// Duration of the run.
    pub duration_ns: u64,
    /// Every flow of the workload, in its order, then the flows that kept up the load
    /// ([`Watch::more`](super::Watch::more)).
    pub flows: Vec<FlowResult>,
    /// Number of the workload's own flows.
    pub own: usize,
    /// How late flows started.
    pub lag: Lag,
    /// Connections that were opened, including those opened again after a reset.
    pub connections: u64,
    /// Accepted connections that belong to no flow.
    pub strangers: u64,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every flow of the workload has finished or failed.
    Complete,
    /// Patience was over.
    Patience,
    /// The run was cancelled.
    Cancelled,
}

/// How late flows started, compared with their arrival or, in a closed loop, the end of the
/// previous flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Flows that started.
    pub count: u64,
    /// Sum of the delays.
    pub sum_ns: u64,
    /// Largest delay.
    pub max_ns: u64,
}

impl Lag {
    pub(super) fn record(&mut self, ns: u64) {
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// `None` if no flow started.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// ns since the run began.
    pub now_ns: u64,
    /// Number of flows in the workload.
    pub flows: u64,
    /// Of these, flows that have started.
    pub started: u64,
    /// Flows that have ended, including failed ones.
    pub ended: u64,
}

/// The result of a flow. Counters of segments and times are from the sender's TCP_INFO, from the
/// flow's beginning to its end, summed over all connections it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowResult {
    /// The flow.
    pub flow: Flow,
    /// When it was due. `None`: the flow that it waits for did not end.
    pub due_ns: Option<u64>,
    /// When it started.
    pub start_ns: Option<u64>,
    /// When its first byte was handed to the kernel, on the first connection that accepted one.
    pub first_byte_ns: Option<u64>,
    /// Its outcome.
    pub outcome: Outcome,
    /// Bytes that arrived at the receiver.
    pub received: u64,
    /// Retransmitted segments, including SYN.
    pub retransmissions: u64,
    /// Of these, segments that the receiver reported as duplicates before the flow ended. `None`:
    /// the connection has no selective acknowledgements, which carry that report (D-SACK, RFC
    /// 2883).
    pub spurious: Option<u64>,
    /// Expirations of the retransmission timer, also for SYN. `None`: the kernel does not report
    /// them (before Linux 6.7).
    pub timeouts: Option<u64>,
    /// The source port, if a connection was opened for the flow.
    pub port: Option<u16>,
    /// Connections that were reset before they were accepted.
    pub reconnects: u32,
    /// Whether it reused an existing connection.
    pub reused: bool,
    /// The congestion window at the end, in segments.
    pub congestion_window: Option<u32>,
    /// How long the receiver's window limited the sender.
    pub receive_window_limited: Duration,
    /// How long the send buffer limited the sender.
    pub send_buffer_limited: Duration,
}

/// The outcome of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did not start.
    NotStarted,
    /// It had not ended when the run did.
    Unfinished,
    /// The receiver read its last byte.
    Finished {
        /// When.
        end_ns: u64,
    },
    /// Its connection could not be opened, or broke.
    Failed(Failure),
}

/// Why a flow failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When.
    pub at_ns: u64,
    /// During which operation.
    pub stage: Stage,
    /// The kernel's error number.
    pub errno: i32,
}

/// The operation during which a flow failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Opening the connection.
    Connect,
    /// Sending.
    Send,
    /// Receiving.
    Receive,
}

impl fmt::Display for Failure {
    /// For example `sending: Connection reset by peer (os error 104)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Connect => "connecting",
            Stage::Send => "sending",
            Stage::Receive => "receiving",
        };
        write!(f, "{stage}: {}", io::Error::from_raw_os_error(self.errno))
    }
}

/// The start of a flow's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// [`FlowResult::start_ns`]: includes opening a connection.
    Start,
    /// [`FlowResult::first_byte_ns`]: excludes it.
    FirstByte,
}

impl FlowResult {
    /// The result of a flow that has not started.
    #[must_use]
    pub fn new(flow: Flow) -> Self {
        Self {
            flow,
            due_ns: None,
            start_ns: None,
            first_byte_ns: None,
            outcome: Outcome::NotStarted,
            received: 0,
            retransmissions: 0,
            spurious: Some(0),
            timeouts: None,
            port: None,
            reconnects: 0,
            reused: false,
            congestion_window: None,
            receive_window_limited: Duration::ZERO,
            send_buffer_limited: Duration::ZERO,
        }
    }

    /// Flow completion time in ns. `None`: it did not finish.
    #[must_use]
    pub fn fct_ns(&self, since: Since) -> Option<u64> {
        match self.outcome {
            Outcome::Finished { end_ns } => end_ns.checked_sub(self.begin_ns(since)?),
            _ => None,
        }
    }

    /// How late it started. `None`: it did not start.
    #[must_use]
    pub fn lag_ns(&self) -> Option<u64> {
        self.start_ns?.checked_sub(self.due_ns?)
    }

    pub(super) fn begin_ns(&self, since: Since) -> Option<u64> {
        match since {
            Since::Start => self.start_ns,
            Since::FirstByte => self.first_byte_ns,
        }
    }

    /// The flow's record in the results' file, with times divided by `dilation`. `best_ns` is the
    /// best possible time on the fabric ([`crate::slowdown::IdlePath::best_ns`]), if known;
    /// `run_ns` is when the run ended ([`Report::duration_ns`]). `None`: the flow did not start.
    #[must_use]
    pub fn record(
        &self,
        since: Since,
        dilation: f64,
        best_ns: Option<f64>,
        run_ns: u64,
    ) -> Option<record::Flow> {
        let fabric = |ns: u64| ns as f64 / dilation;
        // A flow that never wrote a byte began when it requested a connection.
        let start = self.begin_ns(since).or(self.start_ns)?;
        let fct = self.fct_ns(since).map(fabric);
        Some(record::Flow {
            id: self.flow.id,
            src: self.flow.src,
            dst: self.flow.dst,
            class: self.flow.class.into(),
            warm_up: self.flow.warm_up,
            start_ns: fabric(start).round() as u64,
            size: self.flow.size,
            fct_ns: fct.map(|fct| fct.round() as u64),
            deadline_ns: self.flow.deadline_ns.map(|ns| fabric(ns).round() as u64),
            priority: self.flow.priority,
            slowdown: fct.zip(best_ns).map(|(fct, best)| fct / best),
            retransmissions: self.retransmissions,
            spurious: self.spurious,
            timeouts: self.timeouts,
            hops: None,
            partial: fct.is_none().then(|| record::Partial {
                bytes: self.received,
                ns: fabric(run_ns.saturating_sub(start)).round() as u64,
            }),
        })
    }
}
