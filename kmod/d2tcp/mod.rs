// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! D2TCP: DCTCP that backs off less the nearer a flow's deadline is.
//!
//! B. Vamanan, J. Hasan, T. N. Vijaykumar: "Deadline-Aware Datacenter TCP (D2TCP)", SIGCOMM 2012.
//!
//! DCTCP reduces its window by α/2, where α is the weighted average of the fraction of marked
//! packets. D2TCP takes a **penalty** p = α^d in α's place. α is at most 1: so a flow whose
//! **deadline imminence** d is above 1, which is near its deadline, gives away less than DCTCP's
//! would, and one with time to spare more.
//!
//! ```text
//!     d = Tc / D       Tc: what the flow still needs, at the rate that it has
//!                      D:  the time that is left until its deadline
//!     d is at least 1/2 and at most 2; of a flow without a deadline it is 1, which is DCTCP
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | [`law`] | α, Tc, d, and what a mark makes of the window |
//! | [`power`] | α^d without floating point |
//! | `tcp_d2tcp.rs` | the module: the kernel's Reno, with this law in DCTCP's places |
//!
//! # What was filled in
//!
//! - **Tc** is of a window that goes up and down between a half and all of what it is when it is
//!   marked, three quarters on average: so many round-trip times as that takes for the bytes that
//!   remain.
//! - **The round-trip time** is the smoothed one of the socket.
//! - **A flow that is late** cannot make it any more, and is from then on as one without a
//!   deadline.
//! - **A flow that did not say its size** has what it has written and is not yet acknowledged.
//! - All else is Linux's DCTCP (`net/ipv4/tcp_dctcp.c`), number for number: α in 2^-10, a sixteenth
//!   of it new in each window and 1 at the beginning, growth, at least 2 packets, half the window
//!   after a loss. So what a mark takes is whole packets, rounded down: of 15 packets, p = 0.1
//!   takes none.

pub mod law;
pub mod power;

#[cfg(test)]
mod tests;
