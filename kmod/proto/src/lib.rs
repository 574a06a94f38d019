// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Every format that two parts of weft share, such as what `tc` says to a qdisc and what the qdisc
//! answers; and what is read from the headers of packets.
//!
//! The kernel modules compile these very files (by `#[path]`), so that the two ends of a netlink
//! message cannot disagree about it. Hence the rules of this crate: no dependency, no allocation,
//! no `unsafe`, no floating point, and no path that panics, whatever the bytes are.
//!
//! | module      | format                                                                     |
//! |-------------|----------------------------------------------------------------------------|
//! | [`bfc`]     | options and statistics of the `bfc` qdisc, and its pause frames            |
//! | [`flow`]    | which packets are of one flow, by their headers                            |
//! | [`hold`]    | options of the `hold` qdisc, a tool of the tests and benchmarks            |
//! | [`nla`]     | netlink attributes, read and written; refusals; fields of fixed structures |
//! | [`pfabric`] | options and statistics of the `pfabric` qdisc                              |
//! | [`tag`]     | the 8 bytes by which a packet carries its rank and its upstream queue      |
//! | [`wire`]    | options and statistics of the `wire` qdisc                                 |

#![no_std]
#![forbid(unsafe_code)]

pub mod bfc;
pub mod flow;
pub mod hold;
pub mod nla;
pub mod pfabric;
pub mod tag;
pub mod wire;
