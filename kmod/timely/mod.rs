// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! TIMELY: a rate that follows the gradient of the round-trip time.
//!
//! R. Mittal, V. T. Lam, N. Dukkipati, E. Blem, H. Wassel, M. Ghobadi, A. Vahdat, Y. Wang, D.
//! Wetherall, D. Zats: "TIMELY: RTT-based Congestion Control for the Datacenter", SIGCOMM 2015, §4
//! and Algorithm 1.
//!
//! # Vocabulary
//!
//! - **completion event**: a segment of data is acknowledged. Each has one round-trip time.
//! - **gradient**: the averaged difference of two successive round-trip times, in parts of the
//!   smallest round-trip time. A positive one means that a queue grows.
//! - **HAI**: hyperactive increase, after several events without a growing queue.
//!
//! # Law
//!
//! ```text
//!     completion event, with a round-trip time RTT:
//!         diff = (1 - α) diff + α (RTT - previous RTT);  gradient = diff / minRTT
//!
//!         RTT < T_low      rate + δ
//!         RTT > T_high     rate × (1 - β (1 - T_high / RTT))
//!         gradient ≤ 0     rate + N δ      N = 5 from the fifth negative gradient in a row on
//!         otherwise        rate × (1 - β gradient)
//! ```
//!
//! | file | contents |
//! |---|---|
//! | [`rate`] | the rate of a flow |
//! | `tcp_timely.rs` | the module: it paces the socket at that rate |
//!
//! # Deviations
//!
//! - **Packets are paced one by one.** The paper's NIC sends a segment of 16 to 64 kB in one burst,
//!   and paces segments.
//! - **The round-trip time** of an event is measured on the last packet that the acknowledgement
//!   covers, in µs, from when it left the socket. The paper measures a segment, without the time to
//!   serialize it. Both include the host's own queue behind the pacer.
//! - **A flow starts at the line rate.** The paper starts it at C / (N + 1) if the host has N other
//!   flows.
//!
//! # Choices that the paper leaves open
//!
//! - The first round-trip time has no difference: diff stays 0.
//! - An acknowledgement of several segments is one event, because it has one round-trip time. An
//!   acknowledgement without one, of a retransmitted packet, leaves its segment to the next.
//! - Each event counts for HAI by its gradient, also below T_low and above T_high.
//! - The rate is at most the line rate, and at least a smallest rate: Algorithm 1 would make it
//!   negative at a gradient above 1 / β.
//! - Losses leave the rate, and so does an idle time.
//! - **Values**: T_low (50 µs), T_high (500 µs), β (0.8) and δ (10 Mbit/s) are from the paper's
//!   testbed of 10 Gbit/s; α (0.875), minRTT (20 µs) and segments (16 kB) from Y. Zhu et al., "ECN or
//!   Delay: Lessons Learnt from Analysis of DCQCN and TIMELY", CoNEXT 2016.

pub mod rate;

#[cfg(test)]
mod tests;

crate::congestion_control!("timely");
