// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! One queue's packets: a list provided by the caller, and a note for each packet.
//!
//! A port holds as many packets as its buffer has room for. In the kernel their lists are linked
//! through the packets themselves, and so need no separate memory.

/// The data about a packet that is needed when it leaves. It fits 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// The entry of the flow table in which the packet counts; [`Note::NO_ENTRY`] for none.
    pub entry: u32,
    /// The port on which it arrived, a number of [`Switch`](super::switch::Switch)'s.
    pub ingress: u16,
    /// The upstream queue whose pause counter it incremented; 0 for none: the paper's
    /// `counterIncr`.
    pub upstream_queue: u16,
}

impl Note {
    /// No entry: the packet was not sampled, or its queue does not depend on the flow table.
    pub const NO_ENTRY: u32 = u32::MAX;

    /// A packet without notes.
    pub const NOTHING: Self = Self {
        entry: Self::NO_ENTRY,
        ingress: 0,
        upstream_queue: 0,
    };

    /// As 64 bits.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        (self.entry as u64) << 32 | (self.ingress as u64) << 16 | self.upstream_queue as u64
    }

    /// From 64 bits.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            entry: (bits >> 32) as u32,
            ingress: (bits >> 16) as u16,
            upstream_queue: bits as u16,
        }
    }
}

/// A first-in-first-out list of packets, of unlimited length.
pub trait Fifo {
    /// The type of a packet.
    type Packet;

    /// An empty list.
    fn new() -> Self;

    /// Appends a packet.
    fn push(&mut self, packet: Self::Packet, note: Note);

    /// Takes the first packet.
    fn pop(&mut self) -> Option<(Self::Packet, Note)>;

    /// Bytes of the first packet; 0 if there is none.
    fn first_len(&self) -> u32;

    /// Rank of the first packet, lower is more urgent; 0 if there is none.
    fn first_rank(&self) -> u32;
}
