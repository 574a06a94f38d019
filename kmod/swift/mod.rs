// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Swift: keeps the round-trip time of each flow at a target.
//!
//! G. Kumar, N. Dukkipati, K. Jang, H. M. G. Wassel, X. Wu, B. Montazeri, Y. Wang, K. Springborn,
//! C. Alfeld, M. Ryan, D. Wetherall, A. Vahdat: "Swift: Delay is Simple and Effective for
//! Congestion Control in the Datacenter", SIGCOMM 2020, §3 and Algorithm 1.
//!
//! # Vocabulary
//!
//! - **delay**: the round-trip time of a packet and its acknowledgement.
//! - **target delay**: base + hops × ħ + flow scaling.
//! - **flow scaling**: the part of the target that grows as the window shrinks.
//! - **window**: packets that may be in flight, also less than one.
//!
//! # Law
//!
//! ```text
//!     target = base + hops × ħ + max(0, min(α / √window + β, fs_range))
//!         α = fs_range / (1/√fs_min - 1/√fs_max)      β = -α / √fs_max
//!
//!     acknowledgement of n packets, after a delay:
//!         delay < target       window += ai × n / window      if the window is 1 or more
//!                              window += ai × n               if it is less
//!         otherwise            window × max(1 - β' × (delay - target) / delay, 1 - max_mdf)
//!                                                             at most once in a round-trip time
//!     fast recovery            window × (1 - max_mdf)         at most once in a round-trip time
//!     timeout                  the same; from the fifth in a row on, the smallest window
//!
//!     window below 1 ──▶ one packet at a time, one every RTT / window
//! ```
//!
//! β' is the paper's multiplicative decrease constant, for which it also uses the letter β.
//!
//! | file | contents |
//! |---|---|
//! | [`law`] | the window and its target |
//! | `tcp_swift.rs` | the module |
//!
//! # What is left out
//!
//! - **The split of the delay** into fabric delay and endpoint delay, each with a window of its
//!   own (§3.1, §3.4). It needs NIC timestamps and a field in the acknowledgement. TCP measures the
//!   end-to-end delay in µs, from when a packet leaves the socket; this is the fabric's window with
//!   that delay. It contains the host's own queue.
//! - **Hops of each packet** (§3.2): the paper reads them from the received TTL and reflects them.
//!   The number is a parameter here, the same for each destination.
//! - **Acknowledgement pacing, and the classes of service** (§3.6 and after).
//!
//! # Choices that the paper leaves open
//!
//! - **The time of the last decrease**: Algorithm 1 prints `cwnd ≤ cwnd_prev`. With equality, an
//!   acknowledgement that may not decrease the window would postpone the next decrease, so a flow
//!   with more than one packet in flight would never decrease again. Here only a smaller window
//!   counts.
//! - **The round-trip time between two decreases** is the last measured one.
//! - **An acknowledgement without a delay**, of a retransmitted packet, ends a row of timeouts and
//!   leaves the window (Karn's algorithm).
//! - **A flow that does not fill its window** does not grow, because its delay says nothing about a
//!   window that it does not fill (RFC 7661 gives the reasons).
//! - **The first window** is a parameter. A connection that was idle keeps its window.
//! - **Values**: the paper gives no table. Base target 25 µs, fs_range 100 µs, fs_min 0.1 and
//!   fs_max 100 packets are near its figures; ai 1, β' 0.8, max_mdf 0.5 and the fifth timeout are
//!   what public simulations use.

pub mod law;

#[cfg(test)]
mod tests;

crate::congestion_control!("swift");
