// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! DIBS: a switch detours a packet through another port instead of dropping it at a full one.
//!
//! K. Zarifis, R. Miao, M. Calder, E. Katz-Bassett, M. Yu, J. Padhye: "DIBS: Just-in-time
//! Congestion Mitigation for Data Centers", EuroSys 2014.
//!
//! # Vocabulary
//!
//! - **switch**: forwards packets between its ports; in the kernel, a network namespace.
//! - **port**: a network device, and the FIFO of packets that wait to leave by it.
//! - **detour**: to send a packet by a port other than the one that leads to its destination. A
//!   detour is **backward** if it uses the port on which the packet arrived.
//! - **to face** a switch, or a host: to have it at the other end of the link.
//! - **place**: room for one packet at a port; **reserved** for a packet that is on its way there
//!   from another port.
//!
//! # Algorithm
//!
//! "When a switch receives a packet, if the buffer towards that packet's destination is full, the
//! switch detours the packet via a random port that is connected to another switch, and whose
//! buffer is not full" (§2). Other switches forward it back: they know nothing of detours. A packet
//! is marked (ECN) if it finds 20 or more waiting, and whenever it is detoured: "the detoured
//! packets are also marked" (§5.3). Hosts run DCTCP without fast retransmissions.
//!
//! # Structure
//!
//! | file | contents | source |
//! |---|---|---|
//! | [`switch`] | how full ports are, and the fate of an arriving packet | §2, §4, §5.5.2 |
//! | [`policy`] | which port a packet is detoured to, and when | §2, §7 |
//! | [`ip`] | the packet fields read and written: ECN, hops | §5.3, §5.5.3 |
//! | [`options`] | the qdisc's options | |
//! | [`stats`] | the qdisc's statistics | |
//!
//! # Deviations from the paper, and choices that it leaves open
//!
//! - **A packet's own output port is not a candidate**, full or not.
//! - **A packet that could not be forwarded is not detoured**: a packet without a hop left, which
//!   the next switch would drop, and packets of use only at the other end of this link (ARP,
//!   groups, link-local addresses, neighbour discovery). If its port is full it is dropped, as
//!   without DIBS.
//! - **A packet that the switch has not routed is not detoured**: for example a VLAN's, whose
//!   stations are unknown at other ports.
//! - **Of the shared buffer** (§5.5.2) a port may hold α times the free part, see
//!   [`share`](crate::common::share).
//! - **A flow's detours** (§7) "follow a consistent path": each flow orders all ports in its own
//!   way, and its packets go by the first one that has room.
//! - **Probabilistic detours** (§7) need a formula: see [`policy::chance`].
//! - **Several qdiscs of one device are one port**, with one limit.

pub mod ip;
pub mod options;
pub mod policy;
pub mod stats;
// Not for eBPF programs, which lack these atomic operations.
#[cfg(target_has_atomic = "64")]
pub mod switch;

#[cfg(test)]
mod tests;

use crate::common::mechanism::PortFigures;

crate::qdisc!(
    KIND,
    options,
    &[stats::Stats::TABLE],
    port: PortFigures {
        group: "detours",
        sums: &[
            (
                "detours.sent",
                &["detoured_limit", "detoured_bytes", "detoured_share", "detoured_early"],
            ),
            ("marks", &["marked"]),
        ],
    },
);

/// The qdisc's name, as in `tc qdisc add … dibs`.
pub const KIND: &str = "dibs";
