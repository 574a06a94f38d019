// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A queueing discipline, generic over its packets.
//!
//! It decides, and its caller carries out the decisions: a packet that is not kept is returned as a
//! value, together with the action for it. In the kernel the caller is `kapi`, which counts,
//! adjusts the parents' counts, and frees dropped packets when the qdisc's lock is released.
//!
//! ```text
//!   enqueue ─▶ Queued                        dequeue ─▶ Packet
//!           ─▶ Refused      ─▶ to_free               ─▶ Wait: until a time
//!           ─▶ evict(…)     ─▶ to_free               ─▶ Nothing
//! ```
//!
//! # Implementations
//!
//! [`PFabric`](crate::pfabric::queue::PFabric) is a discipline: it holds the packets themselves.
//! BFC's [`Egress`](crate::bfc::egress::Egress) is not. It writes the number of the queue into a
//! packet as it queues it, so arriving and queued packets have two types, and a packet is made
//! writable only if it has a tag. Its `enqueue` has a signature of its own, but returns the types
//! below. A [`Link`](crate::wire::link::Link) holds no packets: they are in the queue behind it and
//! on the wire, and it decides when they move from one to the other.
//!
//! DIBS's [`Switch`](crate::dibs::switch::Switch) holds no packets either: it counts the packets of
//! all ports of a namespace, and decides where a packet goes that finds its port full. A detour to
//! another port is not a [`Fate`], because no other mechanism has one: see
//! [`shared`](super::shared).

/// The fate of an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate<P> {
    /// It is inside.
    Queued,
    /// There is no room for it: drop it.
    Refused(P),
}

/// The result of a dequeue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<P> {
    /// Send this packet.
    Packet(P),
    /// There are packets, but none may be sent before a time, unless something changes earlier:
    /// call dequeue again then.
    Wait {
        /// In ns of the clock that the discipline reads.
        until: u64,
        /// The allowed delay in ns, for timers to fire together.
        slack: u32,
    },
    /// There is no packet, or none until an event other than time.
    Nothing,
}

/// A queueing discipline. It owns its packets and never drops one itself: it returns it to the
/// caller.
pub trait Discipline {
    /// The type of a packet.
    type Packet;

    /// The properties of an arriving packet that it needs.
    type Arrival;

    /// The state that it shares with other ports, lent for each call; `()` for none.
    type Shared;

    /// A packet arrives. Packets dropped to make room go to `evict`. `now` reads the clock, in ns,
    /// which has a cost.
    fn enqueue(
        &mut self,
        shared: &mut Self::Shared,
        packet: Self::Packet,
        arrival: &Self::Arrival,
        now: impl FnOnce() -> u64,
        evict: impl FnMut(Self::Packet),
    ) -> Fate<Self::Packet>;

    /// The caller requests a packet.
    fn dequeue(
        &mut self,
        shared: &mut Self::Shared,
        now: impl FnOnce() -> u64,
    ) -> Next<Self::Packet>;

    /// Resets to empty: all packets go to `drop`.
    fn clear(&mut self, shared: &mut Self::Shared, drop: impl FnMut(Self::Packet));

    /// Packets inside.
    fn packets(&self) -> u32;
}
