// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The papers' algorithms, a file or folder each, with nothing of the kernel in them.
//!
//! Time, memory and lengths are arguments, decisions are return values: the same files run in a
//! kernel module, in a test against a naive model, under a fuzzer and in a simulation. Nothing here
//! allocates after construction, and nothing can panic: a value that cannot be is answered, not
//! asserted, as a kernel must go on.
//!
//! | file | what it is | source |
//! |---|---|---|
//! | [`bfc`] | per-hop, per-flow flow control of a switch: a folder | BFC (NSDI 2022), §3.3 |
//! | [`bfc_window`] | the window of a BFC host | BFC (NSDI 2022), Appendices A.1 and A.8 |
//! | [`pfabric`] | priority scheduling and dropping of a switch port | pFabric (SIGCOMM 2013), §4.1 |
//! | [`pfabric_rate`] | rate control of a pFabric host | pFabric (SIGCOMM 2013), §4.2 |
//! | [`rank_trie`] | packets in order of rank | its tree of comparators |
//! | [`flow_table`] | packets by flow, in order of arrival | its comparison of flow numbers |
//! | [`index_pool`] | which elements of an array are in use | |
//! | [`link`] | a wire between a queue and its receiver: what happens when | |
//! | [`wire`] | serialization and propagation on one wire | |
//! | [`histogram`] | how late timers are | |
//! | [`xorshift`] | random numbers | Marsaglia (2003) |
//! | [`store`] | memory as an argument | |
#![no_std]
#![forbid(unsafe_code)]

pub mod bfc;
pub mod bfc_window;
pub mod flow_table;
pub mod histogram;
pub mod index_pool;
pub mod link;
pub mod pfabric;
pub mod pfabric_rate;
pub mod rank_trie;
pub mod store;
pub mod wire;
pub mod xorshift;
