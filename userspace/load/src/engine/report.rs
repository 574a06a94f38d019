// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a run comes to.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::generate::Flow;
use crate::record;

/// What became of a run. Times are ns of `CLOCK_MONOTONIC` since its beginning.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Why it ended.
    pub ended: Ended,
    /// When it began, in ns of `CLOCK_MONOTONIC`.
    pub begin_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
    /// Every flow of the workload, in its order, then those that kept up the load
    /// ([`Watch::more`](super::Watch::more)).
    pub flows: Vec<FlowResult>,
    /// How many of them are the workload's own.
    pub own: usize,
    /// How late flows started.
    pub lag: Lag,
    /// Connections that were opened, those that had to be opened again among them.
    pub connections: u64,
    /// Connections accepted that belong to no flow any more, or never did.
    pub strangers: u64,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Nothing was left to do: every flow of the workload's own is finished or has failed.
    Complete,
    /// Patience was over.
    Patience,
    /// It was cancelled.
    Cancelled,
}

/// How late flows started: against their arrival or, in a closed loop, the end of the flow before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Flows that started.
    pub count: u64,
    /// The sum of all.
    pub sum_ns: u64,
    /// The largest.
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

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// ns since the run's beginning.
    pub now_ns: u64,
    /// Flows of the workload in all.
    pub flows: u64,
    /// Of these, flows that have started.
    pub started: u64,
    /// Flows that have ended, those that failed among them.
    pub ended: u64,
}

/// How a flow fared. What counts segments or time is the sender's TCP_INFO, from the flow's
/// beginning to its end, over all connections it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowResult {
    /// The flow.
    pub flow: Flow,
    /// When it was to start. `None`: the flow it waits for did not end.
    pub due_ns: Option<u64>,
    /// When it did.
    pub start_ns: Option<u64>,
    /// When its first byte was handed to the kernel, on the first connection that took one.
    pub first_byte_ns: Option<u64>,
    /// What became of it.
    pub outcome: Outcome,
    /// Bytes that were there at the receiver.
    pub received: u64,
    /// Segments sent again, SYN among them.
    pub retransmissions: u64,
    /// Of these, segments that the receiver said it had already. Those that it says after the
    /// flow's end are not among them. `None`: the connection has no selective acknowledgements, in
    /// which receivers say so (D-SACK, RFC 2883).
    pub spurious: Option<u64>,
    /// Times that the retransmission timer expired, for SYN too. `None`: the kernel does not tell
    /// (before Linux 6.7).
    pub timeouts: Option<u64>,
    /// From which port it was sent, if a connection was opened for it.
    pub port: Option<u16>,
    /// Connections that were reset before they were accepted.
    pub reconnects: u32,
    /// Whether it took a connection that was there.
    pub reused: bool,
    /// The congestion window in segments at the end.
    pub congestion_window: Option<u32>,
    /// For how long the receiver's window was what kept the sender from sending.
    pub receive_window_limited: Duration,
    /// For how long the send buffer was.
    pub send_buffer_limited: Duration,
}

/// What became of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did not start.
    NotStarted,
    /// It was under way when the run ended.
    Unfinished,
    /// Its last byte was read at the receiver.
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
    /// In doing what.
    pub stage: Stage,
    /// The kernel's error number.
    pub errno: i32,
}

/// What a flow failed in.
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

/// From when a flow's time runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// [`FlowResult::start_ns`]: opening a connection is part of it.
    Start,
    /// [`FlowResult::first_byte_ns`]: it is not.
    FirstByte,
}

impl FlowResult {
    /// Of a flow that has not started.
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

    /// How late it started. `None`: it did not.
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

    /// As a record of the results' file, times divided by `dilation`; `best_ns` is the best
    /// possible time on the fabric ([`crate::slowdown::IdlePath::best_ns`]), if known; `run_ns` is
    /// when the run ended ([`Report::duration_ns`]). `None`: it did not start.
    #[must_use]
    pub fn record(
        &self,
        since: Since,
        dilation: f64,
        best_ns: Option<f64>,
        run_ns: u64,
    ) -> Option<record::Flow> {
        let fabric = |ns: u64| ns as f64 / dilation;
        // One that never wrote a byte began where it asked for a connection.
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
