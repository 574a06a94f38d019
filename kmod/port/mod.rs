// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A port of a switch with one memory: dynamic thresholds, and priority flow control.
//!
//! - A. K. Choudhury, E. L. Hahne: "Dynamic Queue Length Thresholds for Shared-Memory Packet
//!   Switches", IEEE/ACM Transactions on Networking 6(2), 1998.
//! - IEEE 802.1Qbb, now IEEE 802.1Q, clause 36, and IEEE 802.3, Annex 31D: priority flow control.
//! - Y. Li et al.: "HPCC: High Precision Congestion Control", SIGCOMM 2019, and its authors'
//!   simulator (alibaba-edu/High-Precision-Congestion-Control, `switch-mmu.cc`).
//! - P. Goyal et al.: "Backpressure Flow Control", NSDI 2022, §2.2 and §6.2.1.
//!
//! # Vocabulary
//!
//! - **switch**: forwards packets between its ports; in the kernel, a network namespace.
//! - **port**: a network device, or what it has of one priority. A packet arrives on its
//!   **ingress** port and leaves by its **egress** port, where it waits in the qdisc below this one.
//! - **memory**: the bytes that all ports of a switch hold at most.
//! - **headroom**: a part of the memory that only packets use which arrive after their neighbour
//!   was told to pause. The rest of the memory is **shared**.
//! - **neighbour**: the node at the other end of a port's link; **upstream** for the packets that
//!   come from it, **downstream** for those that go to it.
//! - **lossless** packet: its ingress port has priority flow control.
//!
//! # Algorithm
//!
//! ```text
//!   upstream neighbour            this switch                              downstream neighbour
//!
//!   egress port ── packets ──▶ ingress a ─▶ memory ─▶ egress b: a qdisc ── packets ──▶
//!      ▲                          │  bytes of a > xoff · free?  │ ▲
//!      └── pause, resume ◀────────┘                             └─┴─◀── pause, resume
//! ```
//!
//! **Dynamic thresholds**: "the maximum permissible length, for any individual queue at any instant
//! of time, is proportional to the unused buffering in the switch". An arriving packet is dropped
//! if its egress port would then hold more than α times the free memory.
//! **Priority flow control**: "the dynamic PFC threshold is set to trigger when traffic from an
//! input port occupies more than 11% of the free buffer" (BFC, §6.2.1). The ingress port then sends
//! a pause frame, and another one before its time is over, until a smaller number of bytes is left.
//! A port that receives one sends only control frames for the given time.
//!
//! # Structure
//!
//! | file | contents | source |
//! |---|---|---|
//! | [`switch`] | admission, bytes by egress and ingress port | Choudhury, Hahne; HPCC |
//! | [`pausing`] | the pause that a port asks of its upstream neighbour | 802.1Q |
//! | [`paused`] | the pause of a port by its downstream neighbour, and its watchdog | 802.1Q |
//! | [`frame`] | pause frames | 802.3, Annex 31D |
//! | [`options`] | the qdisc's options | |
//! | [`stats`] | the qdisc's statistics | |
//!
//! # Choices where the sources are silent
//!
//! - **A qdisc's packets have one priority**, that of its option. A device with several priorities
//!   has one such qdisc for each, below a stock qdisc that classifies packets. Each is a port of its
//!   own, with its own threshold, headroom and pause. A packet has the priority of the qdisc in
//!   which it waits, and counts for the ingress port with that priority.
//! - **A lossless packet is not subject to α.** Its ingress port pauses the neighbour instead, as
//!   in HPCC's simulator and in the usual configuration of switches.
//! - **The threshold includes the arriving packet**, for egress and ingress ports.
//! - **Each port computes thresholds with its own options.** Give all ports of a switch the same
//!   memory.
//! - **A resume follows `xon` bytes below the threshold**, when the headroom is empty: as in HPCC's
//!   simulator, where this is 3 kB.
//! - **A pause lasts the longest possible time** and is repeated after half of it, as in most
//!   switches.
//! - **The watchdog forwards**: see [`paused`].

pub mod frame;
pub mod options;
pub mod paused;
pub mod pausing;
pub mod stats;
pub mod switch;

#[cfg(test)]
mod tests;

use crate::common::mechanism::PortFigures;

/// The qdisc's name, as in `tc qdisc add … port`.
pub const KIND: &str = "port";

crate::qdisc!(
    KIND,
    options,
    &[stats::Stats::TABLE],
    port: PortFigures {
        group: "backpressure",
        sums: &[("backpressure.buffer_bytes", &["memory_backlog"])],
    },
    pauses: Some(frame::ETHERTYPE),
    talks: true,
);
