// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The rank of a packet: what a policy makes of where in its flow the packet is.
//!
//! "… each packet carry a single number in its header that encodes its priority" (M. Alizadeh et
//! al., "pFabric: Minimal Near-Optimal Datacenter Transport", SIGCOMM 2013, §1). Lower is more
//! urgent.
//!
//! Where a packet is in its flow is a number of bytes: those of the flow before the packet's first.
//! It is negative for bytes that the flow before on the same socket has left, which ends where this
//! one begins. A packet that is sent again is where it was the first time.
//!
//! All of this is also compiled for eBPF: no loop, no division but by constants, and what is costly
//! to learn is a function, called if it matters.

crate::named! {
    /// How a host ranks a packet.
    Policy {
        /// Bytes of the flow that were not sent before this packet: "the priority is set to be the
        /// remaining flow size", so that "packets that are transmitted earlier have lower priority
        /// than packets that are transmitted later (because they have relatively higher remaining
        /// flow sizes in their priority fields)" (section 4.1).
        ///
        /// A packet's bytes alone decide, also when they are sent again. The other reading, the
        /// size less what was acknowledged, gives the packets of one window one and the same rank,
        /// which contradicts the sentence above. The two agree on what matters after a loss: the
        /// first packet that is missing begins where the acknowledged bytes end.
        Remaining = 0 "remaining",
        /// The flow's size: "using absolute flow size as the priority instead of remaining flow
        /// size", which makes starvation prevention unnecessary (section 4.1).
        Size = 1 "size",
        /// Bytes of the flow that were sent before this packet, for unknown sizes: least attained
        /// service.
        Sent = 2 "sent",
        /// Time to the flow's deadline in µs when the packet is sent, at most 2^31 − 1; 0 once it
        /// has passed. Flows without one come after all that have one, by their remaining size.
        Deadline = 3 "deadline",
        /// The flow's class; of a flow without one, the same number for all.
        Fixed = 4 "fixed",
    }
}

crate::named! {
    /// How a packet is ranked whose flow did not say its size, or exceeds it.
    Fallback {
        /// As policy `sent`.
        Sent = 0 "sent",
        /// Bytes from this packet's first to the last that the application has written: what waits
        /// in a TCP socket. Of other sockets, as `sent`.
        Queued = 1 "queued",
    }
}

/// Under [`Policy::Deadline`]: flows with a deadline rank below, those without from here on.
pub const NO_DEADLINE: u32 = 1 << 31;

/// How packets are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// By what.
    pub policy: Policy,
    /// By what, where the flow does not say its size.
    pub fallback: Fallback,
    /// The rank under [`Policy::Fixed`] of flows without a class.
    pub fixed: u32,
}

/// What a flow's application has said of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Bytes; 0: unknown.
    pub size: u64,
    /// ns of the clock that [`rank`] is told; 0: none.
    pub deadline: u64,
    /// Its class; 0: none.
    pub class: u32,
}

/// By what a packet was ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The policy.
    Policy,
    /// The fallback, as the flow's size is not known.
    Fallback,
    /// The fallback, as the packet is beyond the size that the flow had said.
    Beyond,
}

/// A packet's rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// Lower is more urgent.
    pub rank: u32,
    /// By what.
    pub basis: Basis,
}

/// Ranks a packet before which `sent` bytes of its flow are.
///
/// `now`: ns. `queued`: bytes from the packet's first to the last that the application has written,
/// if that can be known. Ranks end at 2^32 − 1: what is more is equal.
#[inline(always)]
pub fn rank(
    rules: Rules,
    said: Said,
    sent: i64,
    now: impl FnOnce() -> u64,
    queued: impl FnOnce() -> Option<u64>,
) -> Ranked {
    let fallback = |sent: i64| match rules.fallback {
        Fallback::Queued => queued().unwrap_or(attained(sent)),
        Fallback::Sent => attained(sent),
    };
    let (rank, basis) = match rules.policy {
        Policy::Remaining => by_size(said.size, sent, remaining, fallback),
        Policy::Size => by_size(said.size, sent, |size, _| size, fallback),
        Policy::Sent => (attained(sent), Basis::Policy),
        Policy::Deadline if said.deadline != 0 => {
            let left = said.deadline.saturating_sub(now()) / 1000;
            (left.min(LAST_DEADLINE), Basis::Policy)
        }
        Policy::Deadline => {
            let (rank, basis) = by_size(said.size, sent, remaining, fallback);
            (rank.min(LAST_DEADLINE) | NO_DEADLINE as u64, basis)
        }
        Policy::Fixed if said.class != 0 => (said.class.into(), Basis::Policy),
        Policy::Fixed => (rules.fixed.into(), Basis::Policy),
    };
    let rank = rank.min(u32::MAX.into()) as u32;
    Ranked { rank, basis }
}

const LAST_DEADLINE: u64 = NO_DEADLINE as u64 - 1;

/// Where a sequence number is in a TCP socket's stream: `acked` bytes are acknowledged, and
/// `first_unacked` is the number of the byte after them.
#[inline(always)]
pub const fn stream_offset(acked: u64, first_unacked: u32, sequence: u32) -> u64 {
    let distance = sequence.wrapping_sub(first_unacked) as i32;
    acked.wrapping_add_signed(distance as i64)
}

/// Bytes of a flow that begins at `base` before an `offset` of the same stream: negative for those
/// of the flow before.
#[inline(always)]
pub const fn before(base: u64, offset: u64) -> i64 {
    offset.wrapping_sub(base) as i64
}

/// By the size, where the packet is within it; how far beyond it is else tells `fallback`.
#[inline(always)]
fn by_size(
    size: u64,
    sent: i64,
    rank: impl FnOnce(u64, i64) -> u64,
    fallback: impl FnOnce(i64) -> u64,
) -> (u64, Basis) {
    if size == 0 {
        (fallback(sent), Basis::Fallback)
    } else if sent >= 0 && sent as u64 >= size {
        let beyond = (sent as u64).wrapping_sub(size);
        (fallback(beyond as i64), Basis::Beyond)
    } else {
        (rank(size, sent), Basis::Policy)
    }
}

/// What remains of a flow of `size` bytes before which `sent` are; of the flow before it on the
/// same socket, what remained of that.
#[inline(always)]
fn remaining(size: u64, sent: i64) -> u64 {
    if sent < 0 {
        sent.unsigned_abs()
    } else {
        size.wrapping_sub(sent as u64)
    }
}

/// The service that a flow has attained, in bytes.
#[inline(always)]
fn attained(sent: i64) -> u64 {
    sent.max(0) as u64
}
