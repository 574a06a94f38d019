// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The law of one wire: when a packet begins, ends and arrives.
//!
//! # Law
//!
//! ```text
//!  start    = max(end of the packet before, time since which a packet is ready)
//!  end      = start + (bytes on the wire) / rate
//!  delivery = end + delay, but not before the packet before
//! ```
//!
//! ```text
//!  ready ─┐
//!         ▼
//!  sender ├── packet 1 ──┤├─ packet 2 ─┤         ├── packet 3 ──┤      one at a time
//!         start      end=start                   ready             ┄┄▶ time
//!                        └──── delay ────▶ delivery of packet 1
//! ```
//!
//! **A late timer does not lower throughput.** The law uses the time at which a packet could begin,
//! not the time at which the timer was served. While packets are waiting, each begins where the
//! previous one ended, and a timer that fires 50 µs late finds a start 50 µs ago. Only the wire's
//! idle time ([`Wire::ready`] later than the last end) moves a start to the present.
//!
//! **Bytes on the wire.** A packet of `len` bytes in `segments` frames (one, or the number into
//! which a GSO packet will be cut) occupies `max(len + segments × overhead, segments × mpu)` bytes.
//! This is the sum over its frames of `max(frame + overhead, mpu)` if the frames are as equal as
//! possible: `len mod segments` frames have one byte more than the others. Then either no frame,
//! or, to the byte, every frame falls short of the minimum. (A real GSO packet's last frame may be
//! shorter than the others; its length is not known here. If only such a frame falls short, its
//! padding is not counted.)
//!
//! **Whole nanoseconds.** A packet's end is rounded down to a nanosecond, and the exact remainder
//! is carried to the next packet while packets go back to back. The time of n packets is thus the
//! time of their total length, rounded down once, so that the rate is exact in the long run at any
//! rate. An idle gap drops the remainder, less than a nanosecond, as does a change of parameters.
//!
//! # Ranges
//!
//! Times are `u64` in ns (584 years) and saturate at the end of that range. A single packet counts
//! for at most 18.4 × 10^9 bytes. Both limits are far beyond a qdisc's values; they prevent
//! overflows.

use crate::common::on_wire;
use core::num::NonZeroU64;

const NS_PER_S: u64 = 1_000_000_000;

/// The properties of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Bytes per second.
    pub rate: NonZeroU64,
    /// Propagation delay in ns, from the end of a serialization to the delivery.
    pub delay: u64,
    /// Bytes that a frame occupies on the wire in addition to its own: 24 for Ethernet's preamble,
    /// frame check sequence and gap.
    pub overhead: u32,
    /// The fewest bytes that a frame occupies, overhead included: 84 for Ethernet.
    pub mpu: u32,
}

/// The times of a packet on the wire, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// Its first bit leaves.
    pub start: u64,
    /// Its last bit has left, and the next packet can begin.
    pub end: u64,
    /// Its last bit has arrived.
    pub delivery: u64,
}

/// One wire, one direction.
#[derive(Clone, Debug)]
pub struct Wire {
    params: Params,
    /// End of the last serialization.
    busy_until: u64,
    next_start: u64,
    /// The rounding of the last end, in units of ns/rate; below the rate.
    remainder: u64,
    last_delivery: u64,
    busy_ns: u64,
}

impl Wire {
    /// A wire that has been idle forever.
    pub fn new(params: Params) -> Self {
        Self {
            params,
            busy_until: 0,
            next_start: 0,
            remainder: 0,
            last_delivery: 0,
            busy_ns: 0,
        }
    }

    /// Changes the wire's properties for packets that begin from now on.
    pub fn set_params(&mut self, params: Params) {
        self.params = params;
        // It is in units of the old rate.
        self.remainder = 0;
    }

    /// The wire's properties.
    pub fn params(&self) -> Params {
        self.params
    }

    /// Makes the wire idle, as if nothing had ever been sent, except that
    /// [`busy_ns`](Self::busy_ns) does not decrease.
    pub fn reset(&mut self) {
        *self = Self {
            busy_ns: self.busy_ns,
            ..Self::new(self.params)
        };
    }

    /// The queue behind the wire has had a packet to send since `now`, in ns, and had none before.
    ///
    /// Call it when the queue goes from empty to not empty, or when a queue that held back its
    /// packets yields one. Do not call it while packets wait for the wire, because they are due
    /// when it is free. Of two calls without a packet in between, the later one counts.
    #[inline]
    pub fn ready(&mut self, now: u64) {
        if now > self.busy_until {
            self.next_start = now;
            self.remainder = 0;
        } else {
            self.next_start = self.busy_until;
        }
    }

    /// Keeps the next packet from beginning before `time`, in ns.
    #[inline]
    pub fn not_before(&mut self, time: u64) {
        if time > self.next_start {
            self.next_start = time;
            self.remainder = 0;
        }
    }

    /// The earliest time, in ns, at which the next packet can begin: the end of the previous one,
    /// or the time since which it is [`ready`](Self::ready), or allowed
    /// ([`not_before`](Self::not_before)), whichever is later.
    #[inline]
    pub fn next_start(&self) -> u64 {
        self.next_start
    }

    /// Serializes a packet of `len` bytes in `segments` frames (0 counts as 1) from
    /// [`next_start`](Self::next_start) on.
    ///
    /// Packets arrive in the order in which they begin: if the delay has become shorter, a packet
    /// is delivered no earlier than the previous one.
    #[inline]
    pub fn begin(&mut self, len: u32, segments: u32) -> Transmission {
        let Params {
            rate,
            delay,
            overhead,
            mpu,
        } = self.params;
        let bytes = on_wire::bytes(len, segments, overhead, mpu);
        let scaled = bytes.saturating_mul(NS_PER_S);
        // The quotient and the remainder of one division.
        let scaled = scaled.saturating_add(self.remainder);
        let duration = scaled / rate;
        self.remainder = scaled % rate;

        let start = self.next_start;
        let end = start.saturating_add(duration);
        let delivery = end.saturating_add(delay).max(self.last_delivery);
        self.busy_until = end;
        self.next_start = end;
        self.last_delivery = delivery;
        self.busy_ns = self.busy_ns.saturating_add(duration);
        Transmission {
            start,
            end,
            delivery,
        }
    }

    /// The end of the last serialization, in ns.
    #[inline]
    pub fn busy_until(&self) -> u64 {
        self.busy_until
    }

    /// Time spent serializing, in ns. A packet's time counts when it begins.
    #[inline]
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns
    }
}
