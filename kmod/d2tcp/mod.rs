// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! D2TCP: DCTCP that backs off less the nearer a flow's deadline is.
//!
//! B. Vamanan, J. Hasan, T. N. Vijaykumar: "Deadline-Aware Datacenter TCP (D2TCP)", SIGCOMM 2012.
//!
//! DCTCP reduces its window by α/2, where α is the weighted average of the fraction of marked
//! packets. D2TCP uses a **penalty** p = α^d in place of α. As α is at most 1, a flow near its
//! deadline, whose **deadline imminence** d is above 1, backs off less than with DCTCP, and a flow
//! with time to spare backs off more.
//!
//! ```text
//!     d = Tc / D       Tc: what the flow still needs, at the rate that it has
//!                      D:  the time that is left until its deadline
//!     d is at least 1/2 and at most 2; of a flow without a deadline it is 1, which is DCTCP
//! ```
//!
//! | file | contents |
//! |---|---|
//! | [`law`] | Tc and d |
//! | [`dctcp`](crate::common::dctcp) | α, and the effect of a mark on the window |
//! | `tcp_d2tcp.rs` | the module: the kernel's Reno, with this law in DCTCP's places |
//!
//! # Choices that the paper leaves open
//!
//! - **Tc** assumes a window that oscillates between a half and all of its size when it is marked,
//!   three quarters on average: the number of round-trip times that the remaining bytes take with
//!   that window.
//! - **The round-trip time** is the smoothed one of the socket.
//! - **A late flow** can no longer meet its deadline, and from then on is treated as one without a
//!   deadline.
//! - **A flow of undeclared size** counts the data that it has written and that is not yet
//!   acknowledged.
//! - Everything else is Linux's DCTCP (`net/ipv4/tcp_dctcp.c`), number for number: α in 2^-10, a
//!   sixteenth of it new in each window and 1 at the beginning, growth, at least 2 packets, half
//!   the window after a loss. So a mark reduces the window by whole packets, rounded down: with 15
//!   packets, p = 0.1 reduces it by none.

pub mod law;

#[cfg(test)]
mod tests;

crate::congestion_control!("d2tcp");
