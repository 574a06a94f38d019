// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Ideal retransmission: a switch tells the sender which packet it dropped, and the sender
//! retransmits it at once.
//!
//! - P. Goyal, P. Shah, K. Zhao, G. Nikolaidis, M. Alizadeh, T. E. Anderson: "Backpressure Flow
//!   Control", NSDI 2022, §6.2.1, the baseline HPCC-PFC ("HPCC without PFC", "ideal
//!   retransmission").
//!
//! "This version replaces PFC with perfect retransmission. On a packet drop, the switch informs the
//! sender directly, which then retransmits the dropped packet. We choose this (potentially
//! impractical) strategy to provide a bound on the performance that can be achieved using any
//! retransmission scheme."
//!
//! The simulator that BFC's authors published (prateshg/BFC_NS3_NSDI2022) does not contain this
//! baseline: its switches admit every packet (`broadcom-node.cc`, `CheckIngressAdmission` and
//! `CheckEgressAdmission` always return true), and a host that would retransmit stops the
//! simulation (`qbb-net-device.cc`, `Retransmit`). HPCC's own simulator, on which the paper runs
//! HPCC, goes back to the first missing packet when the receiver asks for it (`rdma-hw.cc`,
//! `RecoverQueue`). So this follows the paper's sentences alone.
//!
//! # Vocabulary
//!
//! - **segment**: a TCP packet, acknowledgements included: a flow whose window is one packet waits
//!   for a lost acknowledgement until TCP's timeout.
//! - **notice**: the message from a switch to the source of a dropped segment, which names it.
//! - **copy**: a packet that a host has sent, kept until newer copies take its place.
//!
//! # Algorithm
//!
//! ```text
//!   host                                            switch
//!
//!   TCP ─▶ child ─┬─────────── segments ──────────────▶ child ─▶ next hop
//!                 └▶ copies                              │ drops one while it enqueues
//!                      │                                 │
//!   named copy ◀───────┴──────────── notice ◀────────────┘
//!        └─▶ retransmitted, ahead of the child
//! ```
//!
//! - **Switch**: for each forwarded segment that the child drops during an enqueue, be it the
//!   arriving one or another, a notice goes to its source address.
//! - **Every port**: notices are sent ahead of all packets, and copies ahead of the child. A notice
//!   that is dropped causes no notice.
//! - **Host**: each segment that leaves the child is copied. The copy that a notice names is sent
//!   as it was, and kept as the newest, because it can be dropped again. A notice without a copy is
//!   counted, and TCP's timeout recovers the segment.
//!
//! TCP sees a packet that is late, not one that is lost. It must not conclude a loss from the gap:
//! the scheme `hpcc-ideal` turns fast retransmissions off, as the scheme `dibs` does.
//!
//! # Structure
//!
//! | file | contents |
//! |---|---|
//! | [`segment`] | the name of a segment, read from a packet |
//! | [`notice`] | notices, as ICMP messages |
//! | [`copies`] | a device's copies, found by their names |
//! | [`host`] | a host's devices, and the notices that arrive |
//! | [`options`] | the qdisc's options |
//! | [`stats`] | the qdisc's statistics |
//! | `sch_resend.rs` | the module: it sees drops, copies packets and sends |
//!
//! # Deviations
//!
//! - **A notice takes time and bandwidth**: it travels through the fabric, with the priority of
//!   network control. In the paper the switch "informs the sender directly".
//! - **Memory is bounded**: a host keeps as many copies as its option `keep` says.
//!
//! # Choices that the paper leaves open
//!
//! - **The copy is sent as it was**: same headers, same TCP timestamp. Its receiver takes it for
//!   the original, and room for hop records is as empty as it was.
//! - **The host's window stays**: the congestion control sees neither drop nor copy.
//! - **Drops in the child after an enqueue** (by codel, or when a qdisc is deleted) cause no
//!   notice.
//! - **IPv4 only**; a packet that has yet to be segmented is neither named nor copied.
//! - **A host's own queue** that refuses a packet causes no notice: TCP sees the refusal.

pub mod copies;
pub mod host;
pub mod notice;
pub mod options;
pub mod segment;
pub mod stats;

#[cfg(test)]
mod tests;

/// The qdisc's name, as in `tc qdisc add … resend`.
pub const KIND: &str = "resend";

crate::qdisc!(
    KIND,
    options,
    &[stats::Stats::TABLE],
    talks: true,
);
