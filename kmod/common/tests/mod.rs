// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of the modules that mechanisms share, and the helpers of all tests: [`message`] and
//! [`idle_link`].

mod average;
mod bdp;
mod dctcp;
mod deadlines;
mod discipline;
mod flow;
mod flow_table;
mod header;
mod histogram;
pub(crate) mod idle_link;
mod index_pool;
pub(crate) mod message;
mod nla;
mod options;
mod pacing;
mod ports;
mod power;
mod rank;
mod rank_trie;
mod records;
mod stamp;
pub(crate) mod tag;
mod window;
