// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! One wire: serialization at a rate, then a propagation delay, with any queue behind it.
//!
//! | file | contents |
//! |---|---|
//! | [`line`] | when a packet begins, ends and arrives |
//! | [`link`] | a wire between a queue and its receiver: the order of events |
//! | [`options`] | the qdisc's options |
//! | [`stats`] | the qdisc's statistics |

pub mod line;
pub mod link;
pub mod options;
pub mod stats;

#[cfg(test)]
mod tests;

crate::qdisc!(
    options::KIND,
    options,
    &[stats::Stats::TABLE],
    example: "rate 10gbit"
);
