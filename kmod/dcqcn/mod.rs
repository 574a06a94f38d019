// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! DCQCN: a rate that congestion notifications cut, and that a timer and a byte counter raise.
//!
//! Y. Zhu, H. Eran, D. Firestone, C. Guo, M. Lipshteyn, Y. Liron, J. Padhye, S. Raindel, M. H.
//! Yahia, M. Zhang: "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, §3.
//!
//! # Vocabulary
//!
//! - **CP**, congestion point: a switch, which marks packets by RED.
//! - **NP**, notification point: the receiver. It sends a congestion notification packet (CNP) when
//!   a marked packet arrives, at most one for each flow in N µs.
//! - **RP**, reaction point: the sender.
//! - **R_C, R_T**: the current rate, and the target rate to which it recovers.
//! - **T, BC**: how often the rate timer has expired, and how often the byte counter has counted B
//!   bytes, since the last cut.
//!
//! # Law
//!
//! ```text
//!     start        R_C = R_T = line rate, α = 1             "no slow start phase"
//!
//!     CNP          R_T = R_C;  R_C = R_C (1 - α/2);  α = (1 - g) α + g            (equation 1)
//!                  T = BC = 0; all timers and the byte counter start over
//!
//!     no CNP for K:  α = (1 - g) α                                                (equation 2)
//!
//!     each expiry of the timer, and each B bytes:                                 (Figure 7)
//!                  max(T, BC) < F     fast recovery        R_T stays
//!                  min(T, BC) > F     hyper increase       R_T += R_HAI
//!                  otherwise          additive increase    R_T += R_AI
//!                  R_C = (R_T + R_C) / 2                                  (equations 3 and 4)
//!                  then T, or BC, is one more
//! ```
//!
//! | file | contents |
//! |---|---|
//! | [`rate`] | the RP, with the NP's limit of notifications |
//! | `tcp_dcqcn.rs` | the module: it paces the socket at R_C |
//!
//! # The law has no timer
//!
//! A congestion control has no timer of its own. The law gets the time with each acknowledgement
//! and before each transmission, and makes up for the expiries since the last time. The result is
//! the same as if each had been handled when it was due: between two events an expiry depends only
//! on the expiries before it. A test compares the two. It takes a bounded number of steps however
//! late the event is, because a long row of increases of one kind has a closed form.
//!
//! # Deviations
//!
//! - **CNPs** are not packets here. TCP's receiver echoes each mark (RFC 8257, §3.2), and the
//!   sender applies the NP's rule to the acknowledgements: the first one with a mark is a CNP, and
//!   then no other one for N µs. As the paper's CNP, it takes effect after the path back.
//! - **Bytes are counted** when they are acknowledged, not when they are sent: a round-trip time
//!   later. A packet counts as the bytes of a full one on the wire.
//! - **Losses**: the paper's fabric is lossless (PFC). Here Linux repairs losses, and they leave
//!   the rate as it is.
//!
//! # Choices that the paper leaves open
//!
//! - **Hyper increase**: §3.3 names it and prints no formula. Here R_HAI is added each time, as the
//!   simulators of the paper's authors' successors do. QCN's multiplies it by the number of steps.
//! - **Figure 7's conditions** use T and BC from before the event that is counted. So F = 5 gives
//!   "F = 5 successive iterations" of fast recovery.
//! - **An expiry at the same time as an acknowledgement** comes first; of one acknowledgement, its
//!   bytes come before its mark.
//! - **Bounds**: R_T is at most the line rate. A cut leaves at least a smallest rate, as NICs do.
//! - **Rounding**: R_C is rounded up, so that it reaches R_T. α below 2^-12 stays there.
//! - **A connection whose data is all sent and acknowledged** restarts as a new flow when it has
//!   data again: in the paper each flow has its own connection (queue pair).

pub mod rate;

#[cfg(test)]
mod tests;

crate::congestion_control!("dcqcn");
