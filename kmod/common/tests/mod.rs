// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of what mechanisms share, and what all tests share: [`heap`], [`message`].

mod discipline;
mod flow;
mod flow_table;
mod header;
pub(crate) mod heap;
mod histogram;
mod index_pool;
pub(crate) mod message;
mod nla;
mod options;
mod ports;
mod rank;
mod rank_trie;
mod tag;
