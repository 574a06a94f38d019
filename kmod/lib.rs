// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! weft's mechanisms, a folder each, with nothing of the kernel in them.
//!
//! A folder has all of one paper's mechanism: its account and law, what `tc` says to it and what it
//! answers, its frames, its tests, its manual pages, and the thin modules (`sch_NAME.rs`,
//! `tcp_NAME.rs`) that bring the law to the kernel. What is in this crate is the pure part of that:
//! time, memory and lengths are arguments, decisions are return values. The very same files are
//! compiled into the modules, into tests against naive models, into fuzz targets, into `tc`'s
//! plugin and into what weaves fabrics, so that two ends of a message cannot disagree about it.
//!
//! Hence the rules of this crate: no dependency, no allocation after construction, no clock, no
//! `unsafe`, no floating point, and no path that panics, whatever the input is: a value that cannot
//! be is answered, not asserted, as a kernel must go on.
//!
//! | folder | what it is | source |
//! |---|---|---|
//! | [`bfc`] | per-hop, per-flow flow control of switches, and the window of its hosts | BFC (NSDI 2022) |
//! | [`d2tcp`] | DCTCP by deadlines, for hosts | D2TCP (SIGCOMM 2012) |
//! | [`dibs`] | detours in place of drops, at switches | DIBS (EuroSys 2014) |
//! | [`fastpass`] | hosts that send when an arbiter says, and how they talk with it | Fastpass (SIGCOMM 2014) |
//! | [`hold`] | keeps a backlog in its child, for tests and benchmarks | |
//! | [`pase`] | arbitration of links, and the window of its hosts | PASE (SIGCOMM 2014) |
//! | [`pfabric`] | priority scheduling and dropping of switches, rate control of hosts | pFabric (SIGCOMM 2013) |
//! | [`wire`] | serialization and propagation on one wire, with a queue behind it | |
//! | [`common`] | what several share | |
//!
//! `heap.rs` is memory for them where there is a heap, which the kernel's modules and the eBPF
//! programs leave out.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

#[cfg(feature = "heap")]
extern crate alloc;

pub mod common;
#[cfg(feature = "heap")]
pub mod heap;

pub mod bfc;
pub mod d2tcp;
pub mod dibs;
pub mod fastpass;
pub mod hold;
pub mod pase;
pub mod pfabric;
pub mod wire;

/// The qdiscs, for whoever does something with each of them: `do!(bfc, hold, …)`.
#[macro_export]
macro_rules! for_qdiscs {
    ($do:ident) => {
        $do!(bfc, dibs, fastpass, hold, pfabric, wire);
    };
}

macro_rules! list {
    ($($mechanism:ident),*) => {
        /// All qdiscs, in the order of their names.
        pub const QDISCS: &[common::mechanism::Qdisc] = &[$($mechanism::QDISC),*];
    };
}
for_qdiscs!(list);

/// The qdisc of that name.
pub fn qdisc(kind: &str) -> Option<&'static common::mechanism::Qdisc> {
    QDISCS.iter().find(|qdisc| qdisc.kind == kind)
}

// The tests name the crate as fuzz targets do, which compile some of the same files.
#[cfg(test)]
extern crate self as weft_mechanisms;

#[cfg(test)]
mod tests;
