// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! In-band telemetry: packets collect the state of the links on their path.
//!
//! - Y. Li, R. Miao, H. H. Liu, Y. Zhuang, F. Feng, L. Tang, Z. Cao, M. Zhang, F. Kelly, M.
//!   Alizadeh, M. Yu: "HPCC: High Precision Congestion Control", SIGCOMM 2019, §3.
//! - R. Ben Basat, S. Ramanathan, Y. Li, G. Antichi, M. Yu, M. Mitzenmacher: "PINT: Probabilistic
//!   In-band Network Telemetry", SIGCOMM 2020, §4.3.
//! - The simulator of HPCC's authors (alibaba-edu/High-Precision-Congestion-Control,
//!   `switch-node.cc`) for details of the measurement, and `int-header.h` for its units.
//!
//! # Vocabulary
//!
//! - **utilisation U**: the bytes that a link sends and that wait for it, in parts of those that it
//!   can send. 1 is a link that is full and has no queue.
//! - **stamp**: the largest utilisation on a packet's path so far, see
//!   [`stamp`](crate::common::stamp).
//! - **B**: the link's rate; **T**: the base round-trip time of the fabric.
//!
//! # Two forms
//!
//! The packet decides which one it gets.
//!
//! HPCC's packets carry numbers of each link: `qlen`, the bytes that stay behind, `txBytes`, those
//! sent before, the time and B. A packet that has room for them gets them, in 6 bytes, see
//! [`records`](crate::common::records), and the sender computes `u = qlen / (B T) + txRate / B` of
//! each link. Packets that bring records back pass unchanged.
//!
//! In PINT's form each link computes its own u, and the packet's tag carries the largest one:
//!
//! ```text
//!     a packet of `bytes` leaves, τ after the last one, and `qlen` bytes stay behind:
//!         τ = min(τ, T)
//!         U = (T - τ)/T · U  +  τ · qlen / (B T²)  +  bytes / (B T)
//!         stamp = max(stamp, U)
//! ```
//!
//! | file | contents |
//! |---|---|
//! | [`meter`] | the utilisation of a link, and the numbers of its record |
//! | [`options`] | the qdisc's options |
//! | [`stats`] | the qdisc's statistics |
//! | `sch_int.rs` | the module: it measures, records and stamps |
//!
//! # Deviations
//!
//! - **Records are times**: `qlen` and `txBytes` are divided by B, in units of T / 1,024 to T /
//!   2,047. HPCC's header has 80 bytes, 128 bytes and 1 ns.
//! - **Each packet is stamped.** PINT stamps a part of them, and shares its bits with other
//!   queries.
//! - **A stamp has 11 bits**, as many as the tag has room for. PINT's have 8 and are rounded at
//!   random.
//! - **Bytes are those that packets occupy on the link**, with the options `overhead` and `mpu`.
//!
//! # Choices that the papers leave open
//!
//! - `bytes` are those of the packet that leaves, `qlen` those that stay. The simulator takes the
//!   bytes of the packet before it.
//! - A utilisation is below 512.
//! - The number of a link in the digest of a path is its device's index, which differs from those
//!   of the switch's other ports. A path of more than six links leaves out those beyond.

pub mod meter;
pub mod options;
pub mod stats;

#[cfg(test)]
mod tests;

/// The qdisc's name, as in `tc qdisc add … int`.
pub const KIND: &str = "int";

crate::qdisc!(
    KIND,
    options,
    &[stats::Stats::TABLE],
    example: "rate 10gbit rtt 15us",
);
