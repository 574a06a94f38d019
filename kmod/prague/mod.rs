// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Prague: the L4S sender, a paced DCTCP with accurate ECN.
//!
//! K. De Schepper, O. Tilmans, B. Briscoe, V. Goel: "Prague Congestion Control",
//! draft-briscoe-iccrg-prague-congestion-control; RFC 9330, 9331 and 9332 for the architecture, the
//! requirements of a sender, and the dual queue that marks its packets.
//!
//! # Vocabulary
//!
//! - **L4S**: low latency, low loss, scalable throughput. A port marks packets of scalable senders
//!   early and often, in a queue of their own.
//! - **α**: the weighted average of the fraction of marked packets, as in DCTCP.
//! - **virtual round-trip time**: one that a flow pretends to have, so that flows with different
//!   round-trip times share a link alike.
//!
//! # Law
//!
//! ```text
//!     round trip       α = (1 - g) α + g F         F: the marked fraction of its packets, g = 1/16
//!
//!     mark             window × (1 - α/2)          at most once in a round-trip time
//!
//!     unmarked packet  window + 1                  below the threshold (slow start)
//!                      window + k / window         above it; k = 1
//!
//!     loss             window × 1/2                from before a mark of the same round trip
//!
//!     pacing           2 × window / RTT            below half of the threshold
//!                          window / RTT            above it
//! ```
//!
//! With a virtual round-trip time V, a flow with a shorter round-trip time R has k = (R/V)², and
//! its α and its reductions have the period V. So its rate grows as that of a flow with V.
//!
//! | file | contents |
//! |---|---|
//! | [`law`] | the window, α and the pacing rate |
//! | `tcp_prague.rs` | the module |
//!
//! # Deviations
//!
//! - **Packets are ECT(0)**, except in the handshake: Linux 7.2 offers a congestion control ECT(1)
//!   only there. A dual queue must classify by any ECT (`any_ect` of tc-dualpi2).
//! - **Without accurate ECN** at the other end there are no marks, and the law is Reno's, paced.
//! - **Sub-packet windows** are not part of this law: the least window is two packets, as in
//!   Linux's DCTCP and in the draft's reference code.
//! - **The fallback to a classic reaction** on ports that mark rarely (the draft's section on
//!   RFC 3168 bottlenecks) is left out, as it is off in the reference code.
//!
//! # Choices that the draft leaves open
//!
//! - α begins as 1, so the first mark halves the window and ends slow start.
//! - An acknowledgement that ends a round trip updates α before its mark takes effect.
//! - Marked packets add nothing. Unmarked ones do, also in a round trip with a mark, but not while
//!   a loss is repaired.
//! - A flow that does not fill its window does not grow.
//! - A timeout makes the window one packet, and the threshold half of the window.
//! - The pacing rate counts a packet's headers, as the reference code does: the kernel counts only
//!   payload, so packets leave a little sooner and the window remains the limit.

pub mod law;

#[cfg(test)]
mod tests;

crate::congestion_control!("prague");
