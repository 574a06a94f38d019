// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The `bfc` qdisc (Goyal et al., "Backpressure Flow Control", NSDI 2022): options, statistics, and
//! the frames by which neighbours pause and resume each other's queues.
//!
//! | module      | format                                              |
//! |-------------|-----------------------------------------------------|
//! | [`options`] | what `tc` says to the qdisc, and what it dumps      |
//! | [`stats`]   | what the qdisc tells of itself and of its queues    |
//! | [`frame`]   | what a switch tells the neighbour upstream          |

pub mod frame;
pub mod options;
pub mod stats;

/// The qdisc's name, as in `tc qdisc add … bfc`.
pub const KIND: &str = "bfc";
