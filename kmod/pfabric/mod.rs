// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! pFabric: packets carry their flow's remaining size, switches send the smallest first and drop
//! the largest, hosts send at line rate until they are told otherwise.
//!
//! M. Alizadeh, S. Yang, M. Sharif, S. Katti, N. McKeown, B. Prabhakar, S. Shenker: "pFabric:
//! Minimal Near-Optimal Datacenter Transport", SIGCOMM 2013.
//!
//! | file | what it is | source |
//! |---|---|---|
//! | [`queue`] | priority scheduling and dropping of a switch port | §4.1 |
//! | [`rate`] | rate control of a host | §4.2 |
//! | [`options`] | what `tc` says to the qdisc | |
//! | [`stats`] | what the qdisc tells of itself | |

pub mod options;
pub mod queue;
pub mod rate;
pub mod stats;

#[cfg(test)]
mod tests;

crate::qdisc!(options::KIND, options, &[stats::Stats::TABLE]);
