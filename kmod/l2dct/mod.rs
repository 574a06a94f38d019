// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! L2DCT: DCTCP whose flows grow more slowly and back off more, the more they have sent.
//!
//! A. Munir et al.: "Minimizing Flow Completion Times in Data Centers", INFOCOM 2013.
//!
//! A host does not know a flow's size in advance, so L2DCT uses the bytes that the flow has sent
//! (least attained service). The flow's **weight** w falls as it sends:
//!
//! ```text
//!     w     2.5 at first, 0.125 in the end, linear in the bytes sent in between
//!     k     w / 2.5: growth of the window in packets per round-trip time     (DCTCP: 1)
//!     b     α^w: a mark makes of a window W the window W (1 - b/2)            (DCTCP: b = α)
//! ```
//!
//! α is DCTCP's: the weighted average of the fraction of marked packets, at most 1. So a new flow
//! grows like one of DCTCP and backs off less. A long one grows by a packet in 20 round-trip times
//! and backs off more: at each mark by almost half of its window.
//!
//! | file | contents |
//! |---|---|
//! | [`law`] | w and k |
//! | [`dctcp`](crate::common::dctcp) | α, and the effect of a mark on the window |
//! | `tcp_l2dct.rs` | the module: the kernel's Reno, with this law in DCTCP's places |
//!
//! # Sources of the law
//!
//! The paper's text was not available. The law follows two public models: that of PIAS's authors in
//! ns-2 (`HKUST-SING/PIAS-NS2`) and one in ns-3 (`FujiZ/ns-3`). Both have these three formulas, the
//! two weights 2.5 and 0.125, and slow start like DCTCP's. They differ in these points:
//!
//! | | ns-2 | ns-3 | here |
//! |---|---|---|---|
//! | w is 2.5 up to | 200 KiB | 200 segments | 200 KiB |
//! | w is 0.125 from | 1 MiB | 1,000 segments | 1 MiB |
//! | bytes sent | with retransmissions | without | without |
//! | a connection's next flow | starts at w = 2.5 | – | starts at w = 2.5 |
//! | least growth | none | a byte per acknowledgement | none |
//! | least window after a mark | 1 packet | 1 packet | 2 packets, as in Linux's DCTCP |
//!
//! # Other choices
//!
//! - **A flow of a connection** ends when all data that the application has written is
//!   acknowledged; the next data begins a new one. The path stays the same, so α stays.
//! - **Bytes sent** include those in flight.
//! - **k** counts only a part of each acknowledged packet towards the kernel's growth, and keeps
//!   the rest for later acknowledgements.
//! - Everything else is Linux's DCTCP, as with D2TCP: slow start, half the window
//!   after a loss, and whole packets. A mark reduces the window by whole packets, rounded down.

pub mod law;

#[cfg(test)]
mod tests;

crate::congestion_control!("l2dct");
