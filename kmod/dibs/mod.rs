// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! DIBS: a switch whose port is full sends a packet by another port, in place of dropping it.
//!
//! K. Zarifis, R. Miao, M. Calder, E. Katz-Bassett, M. Yu, J. Padhye: "DIBS: Just-in-time
//! Congestion Mitigation for Data Centers", EuroSys 2014.
//!
//! # Vocabulary
//!
//! - **switch**: what forwards packets between its ports; in the kernel, a network namespace.
//! - **port**: a network device, and the FIFO of packets that wait to leave by it.
//! - **detour**: to send a packet by another port than the one that leads to its destination.
//!   **Backward** is a detour by the port that the packet came by.
//! - **to face** a switch, or a host: to have it at the other end of the link.
//! - **place**: room for one packet at a port; **reserved** for a packet that is on its way there
//!   from another port.
//!
//! # Algorithm
//!
//! "When a switch receives a packet, if the buffer towards that packet's destination is full, the
//! switch detours the packet via a random port that is connected to another switch, and whose
//! buffer is not full" (§2). Other switches forward it back: they know of no detours. A packet is
//! marked (ECN) that finds 20 or more waiting, and each that is detoured: "the detoured packets are
//! also marked" (§5.3). Hosts run DCTCP without fast retransmissions.
//!
//! # Structure
//!
//! | file | what it is | source |
//! |---|---|---|
//! | [`switch`] | how full ports are, and what becomes of a packet that arrives | §2, §4, §5.5.2 |
//! | [`policy`] | which port a packet is detoured to, and when | §2, §7 |
//! | [`ip`] | what is read and written in a packet: ECN, hops | §5.3, §5.5.3 |
//! | [`options`] | what `tc` says to the qdisc | |
//! | [`stats`] | what the qdisc tells of itself | |
//!
//! # Deviations from the paper, and what it leaves open
//!
//! - **The port that a packet is to leave by is not among the candidates**, full or not.
//! - **A packet that could not be forwarded is not detoured**: one without a hop left, which the
//!   next switch would drop, and what is of use at the other end of this link only (ARP, groups,
//!   link-local addresses, neighbour discovery). If its port is full it is dropped, as without
//!   DIBS.
//! - **A packet that the switch has not routed is not detoured**: a VLAN's, for example, whose
//!   stations are unknown at other ports.
//! - **Of the shared buffer** (§5.5.2) a port may have α times what is free, as
//!   [`share`](crate::common::share) has it.
//! - **Of a flow's detours** (§7) it is said that they "follow a consistent path": the flow has an
//!   order of its own of all ports, and its packets go by the first one that has room.
//! - **For probabilistic detours** (§7) a formula is needed: see [`policy::chance`].
//! - **Several qdiscs of one device are one port**, with one limit.

pub mod ip;
pub mod options;
pub mod policy;
pub mod stats;
// Not for eBPF programs, which have no such atomic operations.
#[cfg(target_has_atomic = "64")]
pub mod switch;

#[cfg(test)]
mod tests;

crate::qdisc!(KIND, options, &[stats::Stats::TABLE]);

/// The qdisc's name, as in `tc qdisc add … dibs`.
pub const KIND: &str = "dibs";
