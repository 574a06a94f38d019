// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! pFabric: packets carry their flow's remaining size, switches send the smallest first and drop
//! the largest, and hosts send at line rate until timeouts slow them down.
//!
//! M. Alizadeh, S. Yang, M. Sharif, S. Katti, N. McKeown, B. Prabhakar, S. Shenker: "pFabric:
//! Minimal Near-Optimal Datacenter Transport", SIGCOMM 2013.
//!
//! | file | contents | source |
//! |---|---|---|
//! | [`queue`] | priority scheduling and dropping of a switch port | §4.1 |
//! | [`rate`] | rate control of a host | §4.2 |
//! | [`options`] | the qdisc's options | |
//! | [`stats`] | the qdisc's statistics | |

pub mod options;
pub mod queue;
pub mod rate;
pub mod stats;

#[cfg(test)]
mod tests;

use crate::common::mechanism::PortFigures;

crate::qdisc!(
    options::KIND,
    options,
    &[stats::Stats::TABLE],
    port: PortFigures {
        group: "",
        sums: &[
            ("evictions", &["evicted"]),
            ("weighed_drops", &["evicted", "rejected"]),
            ("dropped_bytes", &["evicted_bytes", "rejected_bytes"]),
            ("flows", &["flows"]),
        ],
    },
);

crate::congestion_control!("pfabric");
