// SPDX-License-Identifier: MIT OR Apache-2.0

//! How far ahead of the lead batches are allocated, so that an ALLOC carries many timeslots.
//!
//! A datagram's headers take as many bytes as 30 timeslots, and a batch has 16 on a rack. While
//! only long flows send, nothing new is learned from one batch to the next. They could be allocated
//! together, but a request of a new flow would then wait for all of them. (Ours: the paper says
//! nothing of it.)
//!
//! # The rule
//!
//! - A batch is allocated ahead of its lead by a 32nd of the time for which no request has had to
//!   **wait** for that: one of a stream that is owed nothing, and gets its next timeslot more than a
//!   batch later than its last one, or than an ordinary batch would begin. So a flow that comes to a
//!   quiet network waits at most a 32nd of the time that the network was quiet before.
//! - A time without demand is not quiet: after it the first flow would get everything before the
//!   second one comes.
//! - It is at least [`LEAST`] timeslots, or nothing. Where new flows come all the time, one of them
//!   waits for 64 timeslots, at most once in 2,048.
//! - It is at most [`MAX_AHEAD`] timeslots, which is what a datagram can name.
//! - A batch after which a stream is owed nothing ends it until the next batch is due: the stream
//!   may have more to send by then.
//!
//! Timeslots are sent when the first of them is a lead ahead, all together.

/// The most timeslots that are allocated ahead of the lead.
pub const MAX_AHEAD: u64 = 256;

/// The fewest, unless a batch has more.
const LEAST: u64 = 64;

/// The part of the quiet time for which a new flow may have to wait.
const SHARE: u64 = 32;

/// The state of the rule. Times in ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    least: u64,
    most: u64,
    /// When a request last had to wait.
    waited_at: u64,
    /// Whether a stream is owed nothing after its timeslots in the last batch.
    is_short: bool,
}

impl Ahead {
    /// A timeslot takes `timeslot` ns. `batch` timeslots are allocated together, and at most `most`
    /// ahead.
    pub(crate) fn new(timeslot: u64, batch: u64, most: u64) -> Self {
        Self {
            least: timeslot.saturating_mul(LEAST.max(batch)),
            most: timeslot.saturating_mul(most),
            waited_at: 0,
            is_short: false,
        }
    }

    /// A request has to wait.
    pub(crate) fn wait(&mut self, now: u64) {
        self.waited_at = self.waited_at.max(now);
    }

    /// A batch is allocated: not yet short.
    pub(crate) fn begin(&mut self) {
        self.is_short = false;
    }

    /// A stream is owed nothing after its timeslot of the batch.
    pub(crate) fn shorten(&mut self) {
        self.is_short = true;
    }

    /// When to allocate the batch that is `due` at the latest.
    pub(crate) fn order_at(&self, due: u64) -> u64 {
        if self.is_short {
            return due;
        }
        // It is ahead by a part of what is quiet until then.
        let quiet = due.saturating_sub(self.waited_at);
        let ahead = (quiet / (SHARE + 1)).min(self.most);
        match ahead < self.least {
            true => due,
            false => due - ahead,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMESLOT: u64 = 1_000;
    const BATCH: u64 = 16;
    const MOST: u64 = MAX_AHEAD * TIMESLOT;

    #[test]
    fn a_request_waits_for_a_32nd_of_the_quiet_time() {
        let mut ahead = Ahead::new(TIMESLOT, BATCH, MAX_AHEAD);
        ahead.wait(1_000_000);
        for due in (1_000_000..15_000_000).step_by(997) {
            let at = ahead.order_at(due);
            let (early, quiet) = (due - at, at - 1_000_000);
            assert!(early <= quiet / 32, "{due}: {early} of {quiet}");
            assert!(early == 0 || early >= LEAST * TIMESLOT, "{due}: {early}");
            assert!(early <= MOST, "{due}: {early}");
            if (33 * LEAST * TIMESLOT..33 * MOST).contains(&(due - 1_000_000)) {
                assert!(early + 2 >= quiet / 32, "{due}: {early} of {quiet}");
            }
        }
        let due = 1_000_000 + 40 * MOST;
        assert_eq!(ahead.order_at(due), due - MOST);
        ahead.wait(due);
        assert_eq!(ahead.order_at(due + TIMESLOT), due + TIMESLOT);
    }

    #[test]
    fn nothing_is_ahead_of_a_stream_that_may_ask_for_more() {
        let mut ahead = Ahead::new(TIMESLOT, BATCH, MAX_AHEAD);
        let due = 1 << 40;
        ahead.shorten();
        assert_eq!(ahead.order_at(due), due);
        ahead.begin();
        assert_eq!(ahead.order_at(due), due - MOST);
    }

    #[test]
    fn nothing_is_ahead_if_the_most_is_less_than_the_least() {
        let ahead = Ahead::new(TIMESLOT, BATCH, 0);
        assert_eq!(ahead.order_at(1 << 40), 1 << 40);
        assert_eq!(ahead.order_at(0), 0);
    }
}
