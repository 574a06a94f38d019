// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of weft-tc: each qdisc against a recorded `tc`, the plugin in the real one, and the manual
//! pages against the tables.

mod bfc;
mod hold;
mod man;
mod pfabric;
mod real_tc;
mod recorded_tc;
mod round_trip;
mod size;
mod wire;
