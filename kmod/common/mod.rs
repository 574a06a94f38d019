// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Modules that several mechanisms share.
//!
//! | file | contents | source |
//! |---|---|---|
//! | [`average`] | a moving average over a time | |
//! | [`bdp`] | a host's bandwidth-delay product, and the rate of a part of it | |
//! | [`dctcp`] | DCTCP's α, and its reduction of a window | DCTCP (SIGCOMM 2010) |
//! | [`deadlines`] | the port whose event is due next | Williams (CACM 1964) |
//! | [`discipline`] | a queueing discipline over an abstract packet | |
//! | [`flow`] | the flow of a packet, by its headers | |
//! | [`flow_table`] | packets by flow, in order of arrival | pFabric's comparison of flow numbers |
//! | [`header`] | the position of a header in a packet | |
//! | [`histogram`] | the lateness of timers | |
//! | [`index_pool`] | the free elements of an array | |
//! | [`mechanism`] | the description of a mechanism outside of the kernel | |
//! | [`named`] | choices with a number and a name | |
//! | [`nla`] | netlink attributes, read and written; refusals; fields of fixed structures | |
//! | [`on_wire`] | the bytes that a packet occupies on its link | |
//! | [`options`] | a qdisc's options, as a table | |
//! | [`pacing`] | rates at which a socket paces itself | |
//! | [`ports`] | the ports of one switch, found by their devices | |
//! | [`power`] | a power of a fraction, without floating point | |
//! | [`rank`] | the rank of a packet, by a policy and its position in the flow | pFabric §4.1 |
//! | [`rank_trie`] | packets in order of rank | pFabric's tree of comparators |
//! | [`records`] | the records of a path's links, as packets carry them | HPCC (SIGCOMM 2019) |
//! | [`share`] | a port's share of a switch's buffer | Choudhury, Hahne (ToN 1998) |
//! | [`shared`] | the state that the ports of a namespace share | |
//! | [`stamp`] | the utilisation of a path, as packets carry it | PINT (SIGCOMM 2020) |
//! | [`statistics`] | a qdisc's statistics, as a table | |
//! | [`store`] | memory as an argument | |
//! | [`tag`] | the 8 bytes that carry a packet's rank and its upstream queue | |
//! | [`xorshift`] | random numbers | Marsaglia (2003) |

pub mod average;
pub mod bdp;
pub mod dctcp;
pub mod deadlines;
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
pub mod pacing;
pub mod ports;
pub mod power;
pub mod rank;
pub mod rank_trie;
pub mod records;
pub mod share;
pub mod shared;
pub mod stamp;
pub mod statistics;
pub mod store;
pub mod tag;
pub mod window;
pub mod xorshift;

#[cfg(test)]
pub(crate) mod tests;
