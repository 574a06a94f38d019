// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! What several mechanisms share.
//!
//! | file | what it is | source |
//! |---|---|---|
//! | [`discipline`] | a queueing discipline over an abstract packet | |
//! | [`flow`] | which packets are of one flow, by their headers | |
//! | [`flow_table`] | packets by flow, in order of arrival | pFabric's comparison of flow numbers |
//! | [`header`] | where in a packet a header is | |
//! | [`histogram`] | how late timers are | |
//! | [`index_pool`] | which elements of an array are in use | |
//! | [`mechanism`] | what is known of a qdisc outside of the kernel | |
//! | [`named`] | choices with a number and a name | |
//! | [`nla`] | netlink attributes, read and written; refusals; fields of fixed structures | |
//! | [`on_wire`] | what a packet takes of its link | |
//! | [`options`] | what a qdisc is told, as a table | |
//! | [`ports`] | the ports of one switch, found by their devices | |
//! | [`rank`] | what a policy makes of where in its flow a packet is | pFabric §4.1 |
//! | [`rank_trie`] | packets in order of rank | pFabric's tree of comparators |
//! | [`share`] | how much of a switch's buffer a port may have | Choudhury, Hahne (ToN 1998) |
//! | [`shared`] | what the ports of a namespace share | |
//! | [`statistics`] | what a qdisc tells of itself, as a table | |
//! | [`store`] | memory as an argument | |
//! | [`tag`] | the 8 bytes by which a packet carries its rank and its upstream queue | |
//! | [`xorshift`] | random numbers | Marsaglia (2003) |

pub mod discipline;
pub mod flow;
pub mod flow_table;
pub mod header;
pub mod histogram;
pub mod index_pool;
pub mod mechanism;
pub mod named;
pub mod nla;
pub mod on_wire;
pub mod options;
pub mod ports;
pub mod rank;
pub mod rank_trie;
pub mod share;
pub mod shared;
pub mod statistics;
pub mod store;
pub mod tag;
pub mod window;
pub mod xorshift;

#[cfg(test)]
pub(crate) mod tests;
