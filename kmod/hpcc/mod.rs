// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! HPCC: a window that keeps the utilisation of the path's fullest link below a target.
//!
//! Y. Li, R. Miao, H. H. Liu, Y. Zhuang, F. Feng, L. Tang, Z. Cao, M. Zhang, F. Kelly, M. Alizadeh,
//! M. Yu: "HPCC: High Precision Congestion Control", SIGCOMM 2019, §3 and Algorithm 1; in the form
//! of R. Ben Basat et al., "PINT: Probabilistic In-band Network Telemetry", SIGCOMM 2020, in which
//! a packet carries one number. Where this account names the simulator, it is that of HPCC's
//! authors (alibaba-edu/High-Precision-Congestion-Control, `rdma-hw.cc`), which has both forms.
//!
//! # Vocabulary
//!
//! - **utilisation U**: the largest one among the links of the path, see [`int`](crate::int).
//! - **η**: the target utilisation.
//! - **T**: the base round-trip time, the same for all flows.
//! - **W, W_c**: the window, and the reference window from which each W of a round-trip time is
//!   computed, so that the acknowledgements of one queue do not shrink the window again and again.
//! - **incStage**: round-trip times in a row in which the window grew additively.
//!
//! # Law
//!
//! ```text
//!     start      W = W_c = W_init = B_NIC × T
//!
//!     acknowledgement with a utilisation U:
//!         U ≥ η, or incStage ≥ maxStage      W = W_c / (U / η) + W_AI      incStage → 0
//!         otherwise                          W = W_c + W_AI                incStage → incStage + 1
//!
//!         the first of a packet sent after the last update:  W_c = W, and incStage changes
//!
//!     W_AI = W_init (1 - η) / N          rate = W / T
//! ```
//!
//! | file | contents |
//! |---|---|
//! | [`law`] | the window of a flow |
//! | `tcp_hpcc.rs` | the module: it reads U from the socket, and paces it at the window's rate |
//!
//! # The utilisation's way
//!
//! `int` measures it at each port and stamps it on the packets. At the receiver an eBPF program
//! keeps the largest stamp of a socket, and another one writes it into the socket's next packet as
//! its echo. At the sender the first program stores the echo with the socket, see
//! [`stamp`](crate::common::stamp).
//!
//! # Deviations
//!
//! - **The average of U** is computed at the link, as in PINT, and not at the sender.
//! - **Links are not told apart**: as in PINT, U is that of the fullest link of one packet's path.
//! - **Each acknowledgement counts.** The simulator can use a random part of them.
//!
//! # Choices that the paper leaves open
//!
//! - **W is at most W_init**, because a host sends no faster than its link: as in the simulator.
//! - **Losses and timeouts leave the window**: the paper's fabric is lossless.
//! - **An acknowledgement without an echo** leaves the window, and begins no round-trip time.
//! - **Values**: η (0.95), maxStage (5) and links of 100 Gbit/s are the paper's. N (100) gives its
//!   W_AI of 80 bytes for its T of 13 µs.

pub mod law;

#[cfg(test)]
mod tests;

crate::congestion_control!("hpcc");
