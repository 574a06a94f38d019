// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A queueing discipline, over packets it knows nothing of.
//!
//! It decides, and somebody else carries out: a packet that is not kept comes back as a value, with
//! what is to be done with it. In the kernel that is `kapi`, which counts, tells the parents, and
//! frees what was dropped when the qdisc's lock is released.
//!
//! ```text
//!   enqueue ─▶ Queued                        dequeue ─▶ Packet
//!           ─▶ Refused      ─▶ to_free               ─▶ Wait: until a time
//!           ─▶ evict(…)     ─▶ to_free               ─▶ Nothing
//! ```
//!
//! # Who is one
//!
//! A discipline that holds the packets themselves: [`PFabric`](crate::pfabric::queue::PFabric).
//! BFC's [`Egress`](crate::bfc::egress::Egress) writes the number of the queue into a packet as it
//! queues it, so that what goes in and what is held are of two types, and a packet is made writable
//! only where it has a tag: its `enqueue` stays its own, its answers are these. A
//! [`Link`](crate::wire::link::Link) holds no packets: they are in the queue behind it and on the
//! wire, and it says when they go from one to the other.
//!
//! DIBS's [`Switch`](crate::dibs::switch::Switch) holds no packets either: it counts those of all
//! ports of a namespace, and says where one goes that finds its port full. That it goes by another
//! port is no [`Fate`], for nobody else says it: see [`shared`](super::shared).

/// What becomes of an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate<P> {
    /// It is inside.
    Queued,
    /// There is no room for it: drop it.
    Refused(P),
}

/// The answer to a dequeue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<P> {
    /// Send this packet.
    Packet(P),
    /// There are packets, but none may be sent before a time, unless something changes before: ask
    /// again then.
    Wait {
        /// ns of the clock that the discipline is told.
        until: u64,
        /// ns that it may be later, for timers to fire together.
        slack: u32,
    },
    /// There is no packet, or none until something else than time changes.
    Nothing,
}

/// A queueing discipline. It owns its packets and drops none: it hands them back.
pub trait Discipline {
    /// What stands for a packet.
    type Packet;

    /// What it wants to know of a packet that arrives.
    type Arrival;

    /// What it shares with other ports, lent for each call; `()` for nothing.
    type Shared;

    /// A packet arrives. Packets that are dropped to make room go to `evict`. `now` reads the
    /// clock, in ns; it is not free.
    fn enqueue(
        &mut self,
        shared: &mut Self::Shared,
        packet: Self::Packet,
        arrival: &Self::Arrival,
        now: impl FnOnce() -> u64,
        evict: impl FnMut(Self::Packet),
    ) -> Fate<Self::Packet>;

    /// A packet is asked for.
    fn dequeue(
        &mut self,
        shared: &mut Self::Shared,
        now: impl FnOnce() -> u64,
    ) -> Next<Self::Packet>;

    /// Back to empty: all packets go to `drop`.
    fn clear(&mut self, shared: &mut Self::Shared, drop: impl FnMut(Self::Packet));

    /// Packets inside.
    fn packets(&self) -> u32;
}
