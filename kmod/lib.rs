// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! weft's mechanisms, a folder each, without anything of the kernel.
//!
//! A folder contains everything about one paper's mechanism: its description and law, its options
//! and replies, its frames, its tests, its manual pages, and the thin modules (`sch_NAME.rs`,
//! `tcp_NAME.rs`) that connect the law to the kernel. This crate is the pure part of that: time,
//! memory and lengths are arguments, decisions are return values. The same files are compiled into
//! the modules, into tests against naive models, into fuzz targets, into `tc`'s plugin and into the
//! fabric weaver, so the two ends of a message cannot disagree about it.
//!
//! Hence the rules of this crate: no dependency, no allocation after construction, no clock, no
//! `unsafe`, no floating point, and no path that panics, whatever the input is. An impossible value
//! is handled, because a kernel must continue, and reported: see `invariant.rs`.
//!
//! | folder | contents | source |
//! |---|---|---|
//! | [`bfc`] | per-hop, per-flow flow control of switches, and the window of its hosts | BFC (NSDI 2022) |
//! | [`carry`] | gives packets an IPv4 option that `int` fills, for benchmarks | |
//! | [`d2tcp`] | deadline-aware DCTCP, for hosts | D2TCP (SIGCOMM 2012) |
//! | [`dcqcn`] | a rate that congestion notifications cut | DCQCN (SIGCOMM 2015) |
//! | [`dibs`] | detours instead of drops, at switches | DIBS (EuroSys 2014) |
//! | [`expresspass`] | hosts that send one frame for each credit of their receivers | ExpressPass (SIGCOMM 2017) |
//! | [`fastpass`] | hosts that send in timeslots of an arbiter, and their protocol | Fastpass (SIGCOMM 2014) |
//! | [`hold`] | keeps a backlog in its child, for tests and benchmarks | |
//! | [`hpcc`] | a window by the utilisation of the path | HPCC (SIGCOMM 2019), PINT (SIGCOMM 2020) |
//! | [`int`] | the state of links, written into packets | HPCC (SIGCOMM 2019), PINT (SIGCOMM 2020) |
//! | [`l2dct`] | size-aware DCTCP, for hosts | L2DCT (INFOCOM 2013) |
//! | [`pase`] | arbitration of links, and the window of its hosts | PASE (SIGCOMM 2014) |
//! | [`pfabric`] | priority scheduling and dropping of switches, rate control of hosts | pFabric (SIGCOMM 2013) |
//! | [`port`] | one memory for all ports of a switch, priority flow control | IEEE 802.1Qbb |
//! | [`powertcp`] | a window that follows the power of links, or of the round-trip time | PowerTCP (NSDI 2022) |
//! | [`prague`] | a paced DCTCP with accurate ECN, for hosts | Prague (Internet draft) |
//! | [`resend`] | notices of dropped packets, and hosts that retransmit them | BFC (NSDI 2022), its baseline |
//! | [`swift`] | a window that keeps the round-trip time at a target | Swift (SIGCOMM 2020) |
//! | [`timely`] | a rate that follows the gradient of the delay | TIMELY (SIGCOMM 2015) |
//! | [`wire`] | serialization and propagation on one wire, with a queue behind it | |
//! | [`common`] | modules that several mechanisms share | |
//!
//! `heap.rs` provides memory from a heap; the kernel's modules and the eBPF programs omit it.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

#[cfg(feature = "heap")]
extern crate alloc;

#[macro_use]
mod invariant;

pub mod common;
#[cfg(feature = "heap")]
pub mod heap;

pub mod bfc;
pub mod carry;
pub mod d2tcp;
pub mod dcqcn;
pub mod dibs;
pub mod expresspass;
pub mod fastpass;
pub mod hold;
pub mod hpcc;
pub mod int;
pub mod l2dct;
pub mod pase;
pub mod pfabric;
pub mod port;
pub mod powertcp;
pub mod prague;
pub mod resend;
pub mod swift;
pub mod timely;
pub mod wire;

/// The qdiscs, for code that processes each of them: `do!(bfc, hold, …)`.
#[macro_export]
macro_rules! for_qdiscs {
    ($do:ident) => {
        $do!(
            bfc,
            carry,
            dibs,
            expresspass,
            fastpass,
            hold,
            int,
            pfabric,
            port,
            resend,
            wire
        );
    };
}

macro_rules! list {
    ($($mechanism:ident),*) => {
        /// All qdiscs, in the order of their names.
        pub const QDISCS: &[common::mechanism::Qdisc] = &[$($mechanism::QDISC),*];
    };
}
for_qdiscs!(list);

/// The qdisc with this name.
pub fn qdisc(kind: &str) -> Option<&'static common::mechanism::Qdisc> {
    QDISCS.iter().find(|qdisc| qdisc.kind == kind)
}

macro_rules! congestion_controls {
    ($($mechanism:ident),*) => {
        /// All congestion controls, in the order of their names.
        pub const CONGESTION_CONTROLS: &[common::mechanism::CongestionControl] =
            &[$($mechanism::CONGESTION_CONTROL),*];
    };
}
congestion_controls!(
    bfc, d2tcp, dcqcn, hpcc, l2dct, pase, pfabric, powertcp, prague, swift, timely
);

/// The congestion control with this name.
pub fn congestion_control(name: &str) -> Option<&'static common::mechanism::CongestionControl> {
    CONGESTION_CONTROLS.iter().find(|it| it.name == name)
}

// The tests name the crate like the fuzz targets, which compile some of the same files.
#[cfg(test)]
extern crate self as weft_mechanisms;

#[cfg(test)]
mod tests;
