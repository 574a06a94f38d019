// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The rank of a packet, which a policy computes from the packet's position in its flow.
//!
//! "… each packet carry a single number in its header that encodes its priority" (M. Alizadeh et
//! al., "pFabric: Minimal Near-Optimal Datacenter Transport", SIGCOMM 2013, §1). Lower is more
//! urgent.
//!
//! A packet's position in its flow is the number of the flow's bytes before the packet's first
//! byte. It is negative for the last bytes of an earlier flow on the same socket, which ends where
//! this flow begins. A retransmitted packet keeps its position.
//!
//! This file is also compiled for eBPF: it has no loops and divides only by constants, and values
//! that are costly to obtain are functions, called only when needed.

crate::named! {
    /// How a host ranks a packet.
    Policy {
        /// The flow's bytes not sent before this packet: "the priority is set to be the remaining
        /// flow size", so that "packets that are transmitted earlier have lower priority than
        /// packets that are transmitted later (because they have relatively higher remaining flow
        /// sizes in their priority fields)" (section 4.1).
        ///
        /// Only a packet's position decides, even for a retransmission. The other reading, the size
        /// minus the acknowledged bytes, gives all packets of one window the same rank, which
        /// contradicts the sentence above. After a loss the two agree where it matters: the first
        /// missing packet begins where the acknowledged bytes end.
        Remaining = 0 "remaining",
        /// The flow's size: "using absolute flow size as the priority instead of remaining flow
        /// size", which makes starvation prevention unnecessary (section 4.1).
        Size = 1 "size",
        /// The flow's bytes sent before this packet, for unknown sizes: least attained service.
        Sent = 2 "sent",
        /// Time to the flow's deadline in µs when the packet is sent, at most 2^31 − 1; 0 once it
        /// has passed. Flows without a deadline come after all flows with one, by their remaining
        /// size.
        Deadline = 3 "deadline",
        /// The flow's class; flows without a class all have the same number.
        Fixed = 4 "fixed",
        /// No rank: in its place the tag carries the utilisation of the path, and the packet's host
        /// sends back what its socket has received, see [`stamp`](super::stamp). It begins with 0.
        Echo = 5 "echo",
        /// No rank and no tag: packets with payload of TCP have room for the records of the links
        /// on their path, and acknowledgements bring them back, see [`records`](super::records).
        Records = 6 "records",
    }
}

crate::named! {
    /// The rank of a packet whose flow did not declare its size, or exceeds it.
    Fallback {
        /// As policy `sent`.
        Sent = 0 "sent",
        /// Bytes from this packet's first byte to the last one that the application has written:
        /// the data waiting in a TCP socket. For other sockets, as `sent`.
        Queued = 1 "queued",
    }
}

/// Under [`Policy::Deadline`]: flows with a deadline rank below, those without from here on.
pub const NO_DEADLINE: u32 = 1 << 31;

/// The rules for ranking packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The policy.
    pub policy: Policy,
    /// The fallback, for flows that do not declare their size.
    pub fallback: Fallback,
    /// The rank under [`Policy::Fixed`] of flows without a class.
    pub fixed: u32,
}

/// The flow's properties as its application declared them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Bytes; 0 if unknown.
    pub size: u64,
    /// In ns of the clock passed to [`rank`]; 0 if there is none.
    pub deadline: u64,
    /// Its class; 0 if there is none.
    pub class: u32,
}

/// The basis of a packet's rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The policy.
    Policy,
    /// The fallback, because the flow's size is not known.
    Fallback,
    /// The fallback, because the packet is beyond the flow's declared size.
    Beyond,
}

/// A packet's rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// Lower is more urgent.
    pub rank: u32,
    /// Its basis.
    pub basis: Basis,
}

/// Ranks a packet that has `sent` bytes of its flow before it.
///
/// `now`: ns. `queued`: bytes from the packet's first byte to the last one that the application has
/// written, if known. Ranks saturate at 2^32 − 1.
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
        Policy::Echo | Policy::Records => (0, Basis::Policy),
    };
    let rank = rank.min(u32::MAX.into()) as u32;
    Ranked { rank, basis }
}

const LAST_DEADLINE: u64 = NO_DEADLINE as u64 - 1;

/// The position of a sequence number in a TCP socket's stream: `acked` bytes are acknowledged, and
/// `first_unacked` is the sequence number of the next byte.
#[inline(always)]
pub const fn stream_offset(acked: u64, first_unacked: u32, sequence: u32) -> u64 {
    let distance = sequence.wrapping_sub(first_unacked) as i32;
    acked.wrapping_add_signed(distance as i64)
}

/// Bytes between the `base`, where a flow begins, and an `offset` of the same stream: negative for
/// bytes of the flow before it.
#[inline(always)]
pub const fn before(base: u64, offset: u64) -> i64 {
    offset.wrapping_sub(base) as i64
}

/// Ranks by the size if the packet is within it; otherwise `fallback` gets the distance beyond it.
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

/// The remainder of a flow of `size` bytes after `sent` of them; for the flow before it on the same
/// socket, the remainder of that flow.
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
