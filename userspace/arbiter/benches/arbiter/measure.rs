// SPDX-License-Identifier: MIT OR Apache-2.0

//! Processor time of this thread, or of all, and time on the wall, in turns.

use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// How often each subject has its turn. The first does not count.
pub(crate) const TURNS: usize = 33;

/// What was measured of one subject in one setting.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) setting: String,
    pub(crate) subject: String,
    /// Packets of a timeslot, on average.
    pub(crate) packets: f64,
    /// Nanoseconds per timeslot: the median of all turns that count.
    pub(crate) median_ns: f64,
    /// And the least of them: others use the machine, too.
    pub(crate) lower_bound_ns: f64,
    /// And each of them, in order of time.
    pub(crate) turns_ns: Vec<f64>,
}

impl Row {
    /// Of the processor time of each turn, and the packets of all that count.
    pub(crate) fn new(
        setting: &str,
        subject: &str,
        timeslots: usize,
        packets: usize,
        turns: &[f64],
    ) -> Self {
        let turns_ns: Vec<_> = turns.iter().map(|ns| ns / timeslots as f64).collect();
        let mut sorted = turns_ns.clone();
        sorted.sort_by(f64::total_cmp);
        Self {
            setting: setting.into(),
            subject: subject.into(),
            packets: packets as f64 / (timeslots * turns.len()) as f64,
            median_ns: sorted[sorted.len() / 2],
            lower_bound_ns: sorted[0],
            turns_ns,
        }
    }
}

/// This thread's time on a processor so far, in ns.
pub(crate) fn now() -> f64 {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// The time on processors of all threads together, in ns.
pub(crate) fn of_all_threads() -> f64 {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// The time on the wall, from some time on, in ns.
pub(crate) fn on_the_wall() -> f64 {
    read(ClockId::CLOCK_MONOTONIC)
}

fn read(clock: ClockId) -> f64 {
    let time = clock_gettime(clock).expect("a clock");
    time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
}
