// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! A wire between a queue and its receiver: when packets begin, end and arrive.
//!
//! ```text
//!   arrivals ─▶ queue ─▶ [ serialization ] ─▶ ( in flight … delay … ) ─▶ deliveries
//!             (a child)    one at a time         first in, first out
//! ```
//!
//! [`Wire`] is the law of one packet. This file applies it: it takes packets from the queue when
//! the wire is free, and computes when to look again. Nothing here reads a clock: every call passes
//! the time, and the caller sets a timer for [`Link::next_event`].
//!
//! # Late timers do not change the result
//!
//! Timers fire late, especially on a busy machine. Two rules keep the wire exact:
//!
//! 1. A waiting packet begins when the previous one ended, not when the timer was served
//!    ([`Wire::next_start`]). So the wire's throughput is its rate, however late the timers are.
//! 2. [`Link::advance`] runs before every arrival joins the queue, and begins every packet that
//!    should have begun by then, however many they are. So a packet is chosen among those that had
//!    arrived by the time it should begin, never a later one, and none begins before it arrived.
//!
//! The remaining lateness is in the deliveries, and counted ([`Lateness`]). Only a queue that reads
//! a clock may return a different packet if asked late, or one that it would have withheld.
//!
//! # Allowed lateness does not add up
//!
//! Timers of several wires that may be late by a `slack` can fire together, which saves interrupts.
//! A packet then carries the time at which it was due, and the next wire uses that as its arrival
//! time ([`arrival`]). So a packet that crosses a fabric is late once, at its end, by at most the
//! slack, however many wires it crosses. Two other results can differ from those with punctual
//! timers: the order of packets that arrive at a queue within one slack, and the packets that the
//! queue drops at that time.
//!
//! # When the end of a serialization is an event
//!
//! The end must be seen in time only if something depends on it: the sending socket, whose
//! accounting ends with it, or a packet that waits in a queue that reads a clock. Otherwise it can
//! be processed later with the same result, and needs no timer: a packet in a FIFO behind a busy
//! wire begins when the next arrival or the next delivery is processed, with the times of rule 1.
//!
//! # A limit on packets in flight
//!
//! Packets in flight are charged to no account, and if the device is stopped, they would pile up.
//! So they have a limit, in bytes, because a wire holds `rate × delay` bytes whatever its packets
//! are like. At the limit nothing is lost: the wire stays idle, and waiting packets stay in the
//! queue, which decides what to do when it is full. The next packet begins when deliveries have
//! made room, at the time at which the last of them was due: it is sent as if the sender had
//! stopped its transmitter (and `limit / delay` is then the rate).
//!
//! Late timers do have an effect here, because a packet that is due and not yet delivered counts:
//! an arrival may find no room for one that should have begun before. Both then begin no earlier
//! than this arrival. A limit with room for the packets that enter while a timer is late has no
//! such effect.
//!
//! # How long a call may take
//!
//! Rule 2 allows no call to stop half-way: an arrival that then joined the queue could be served in
//! place of a packet that should have begun before it arrived, and at that time. But a call cannot
//! begin more packets than the queue holds, because none joins it meanwhile, and each packet begins
//! once. So a call's time is bounded by the queue's limit, and a packet's share of all calls by a
//! constant. A timer keeps calls from beginning more than [`BATCH`] packets, with few exceptions.
//! It matters where the delay is long compared with a packet's time, until the first delivery; from
//! then on there is one delivery for each packet.

use super::line::{Params, Wire};
use crate::common::histogram::Lateness;

/// The ends of a link: the queue behind the wire and the packets in flight.
pub trait Ends {
    /// Packets that the queue holds.
    fn waiting(&self) -> u32;

    /// Takes the next packet from the queue and puts it in flight until the time, in ns, that
    /// `begin` returns for its length in bytes and its number of frames. Returns whether there was
    /// one: a queue may hold packets and yet return none (a shaper).
    fn launch(&mut self, begin: impl FnOnce(u32, u32) -> u64) -> bool;

    /// Whether the queue's next packet does not depend on the time of the call: it reads no clock,
    /// and shapes nothing. Then it need not be asked in time.
    fn timeless(&self) -> bool;

    /// Whether a socket still accounts for the packet launched last.
    fn owned(&self) -> bool;

    /// The serialization of the packet launched last has ended: its socket's accounting does too.
    fn sent(&mut self);

    /// When the first packet in flight is to be delivered, in ns.
    fn first_delivery(&self) -> Option<u64>;

    /// Bytes in flight, by the lengths that `begin` was given.
    fn in_flight(&self) -> u32;
}

/// The arrival time of a packet that arrives at `now` and was `due` at a time: the time when it was
/// due, if that was at most `slack` ns ago. All times in ns.
#[inline]
pub fn arrival(now: u64, due: Option<u64>, slack: u32) -> u64 {
    match due {
        Some(due) => due.max(now.saturating_sub(slack.into())).min(now),
        None => now,
    }
}

/// Packets after which a queue that need not be asked in time is asked nevertheless: one call of
/// [`Link::advance`] begins this many, if they have equal lengths. More begin only if a timer was
/// late, or if long packets are followed by short ones.
pub const BATCH: u32 = 64;

/// One wire in use. All times are in ns of one clock, which goes back only for an [`arrival`].
#[derive(Clone, Debug)]
pub struct Link {
    wire: Wire,
    /// When the packet launched last began.
    began: u64,
    /// It is being serialized.
    sending: bool,
    /// The queue held packets and returned none.
    stalled: bool,
    /// Bytes in flight from which on no packet begins.
    limit: u32,
    /// Only the limit keeps a packet from beginning.
    full: bool,
    held: u64,
    lateness: Lateness,
}

impl Link {
    /// An idle link. A packet begins while fewer than `limit` bytes are in flight (0 counts as 1).
    pub fn new(params: Params, limit: u32) -> Self {
        Self {
            wire: Wire::new(params),
            began: 0,
            sending: false,
            stalled: false,
            limit: limit.max(1),
            full: false,
            held: 0,
            lateness: Lateness::new(),
        }
    }

    /// New parameters and a new limit, for the packets that begin from `now` on.
    pub fn set_params(&mut self, now: u64, params: Params, limit: u32, ends: &mut impl Ends) {
        self.advance(now, ends);
        self.wire.set_params(params);
        self.limit = limit.max(1);
        if self.full {
            // The old limit has held it back until now.
            self.wire.not_before(now);
            self.advance(now, ends);
        }
    }

    /// The parameters.
    pub fn params(&self) -> Params {
        self.wire.params()
    }

    /// Resets to idle, after both ends were emptied. Counters stay.
    pub fn reset(&mut self) {
        self.wire.reset();
        self.sending = false;
        self.stalled = false;
        self.full = false;
    }

    /// Time spent serializing, in ns.
    pub fn busy_ns(&self) -> u64 {
        self.wire.busy_ns()
    }

    /// Packets that the limit held back.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// How late deliveries were.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// Processes all events up to `now`, except deliveries: ends and begins serializations.
    ///
    /// Afterwards the wire is busy until after `now`, or full, or the queue has no packet to
    /// return.
    ///
    /// Call it before an arrival joins the queue, before [`Link::deliver`], and before the contents
    /// of either end are shown or changed.
    #[inline]
    pub fn advance(&mut self, now: u64, ends: &mut impl Ends) {
        if self.sending && self.wire.busy_until() > now {
            return;
        }
        if ends.waiting() != 0 {
            // On an idle wire, each packet begins alone, so that case has no loop.
            if !self.begin_next(now, ends) || self.wire.busy_until() > now {
                return;
            }
            if ends.waiting() != 0 {
                return self.catch_up(now, ends);
            }
        }
        self.end_last(ends);
        self.stalled = false;
    }

    /// After a packet that began and ended by `now`: all that follow it until then.
    #[inline(never)]
    fn catch_up(&mut self, now: u64, ends: &mut impl Ends) {
        // No more than these can begin: nothing joins the queue meanwhile.
        for _ in 0..ends.waiting() {
            if !self.begin_next(now, ends) || self.wire.busy_until() > now {
                return;
            }
        }
        self.end_last(ends);
        self.stalled = false;
    }

    /// Whether the next packet began. Its predecessor has ended.
    #[inline]
    fn begin_next(&mut self, now: u64, ends: &mut impl Ends) -> bool {
        self.end_last(ends);
        if ends.in_flight() >= self.limit {
            self.held = self.held.wrapping_add(u64::from(!self.full));
            self.full = true;
            return false;
        }
        self.full = false;
        if self.stalled {
            // A packet that the queue withheld so far could not have begun before now.
            self.wire.ready(now);
        }
        let wire = &mut self.wire;
        self.began = wire.next_start();
        self.sending = ends.launch(|len, segments| wire.begin(len, segments).delivery);
        self.stalled = !self.sending;
        self.sending
    }

    /// The serialization of the packet launched last has ended, if that is not known yet.
    #[inline]
    fn end_last(&mut self, ends: &mut impl Ends) {
        if self.sending {
            ends.sent();
            self.sending = false;
        }
    }

    /// A packet joined the queue at `now`, after [`Link::advance`]; the `first` one if the queue
    /// was empty until then.
    #[inline]
    pub fn arrived(&mut self, now: u64, first: bool) {
        if first {
            self.stalled = false;
            self.wire.ready(now);
        } else if self.full {
            // It may be returned in place of packets that waited for room.
            self.wire.not_before(now);
        }
    }

    /// Whether the first packet in flight is due by `now`. If so, its lateness is counted and the
    /// caller delivers it.
    pub fn deliver(&mut self, now: u64, ends: &impl Ends) -> bool {
        match ends.first_delivery() {
            Some(due) if due <= now => {
                self.lateness.record(now.wrapping_sub(due));
                if self.full {
                    // This makes room, or some of it.
                    self.wire.not_before(due);
                }
                true
            }
            _ => false,
        }
    }

    /// When to call [`Link::advance`] and [`Link::deliver`] again, in ns; `now` or earlier means at
    /// once. `None` means not before the next arrival, or not before the queue reports that it has
    /// packets again.
    pub fn next_event(&self, ends: &impl Ends) -> Option<u64> {
        let delivery = ends.first_delivery();
        let end = if self.sending {
            let end = self.wire.busy_until();
            let waiting = ends.waiting();
            // For a timeless queue, asking at the next delivery is early enough, and there is one,
            // because the packet being sent is in flight.
            let asked = ends.timeless() && delivery.is_some();
            if ends.owned() || (waiting != 0 && !asked) {
                Some(end)
            } else if waiting > BATCH {
                let batch = end
                    .wrapping_sub(self.began)
                    .saturating_mul(u64::from(BATCH).wrapping_sub(1));
                Some(end.saturating_add(batch))
            } else {
                None
            }
        } else if ends.waiting() != 0 && !self.stalled && !self.full {
            // It arrived just now.
            Some(self.wire.next_start())
        } else {
            None
        };
        match (delivery, end) {
            (Some(delivery), Some(end)) => Some(delivery.min(end)),
            (one, other) => one.or(other),
        }
    }
}
