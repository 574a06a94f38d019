// SPDX-License-Identifier: MIT OR Apache-2.0

//! The plugin of iproute2's `tc` for weft's qdiscs: their options and their statistics.
//!
//! `tc` knows its built-in qdiscs. For any other `KIND` it loads `q_KIND.so` and looks up
//! `KIND_qdisc_util` in it. It searches `$TC_LIB_DIR`, by default the folder `tc` of the system's
//! libraries: `/usr/lib/tc`, on Debian `/usr/lib/x86_64-linux-gnu/tc`. This library has
//! `KIND_qdisc_util` for each of weft's qdiscs and is installed under the name of each. One binary
//! serves iproute2 6.1 to 7.2; see [`tc`] for how. A qdisc's table ([`weft_mechanisms::QDISCS`])
//! defines its options and statistics; this crate has no code for any particular qdisc.
//!
//! | module | part |
//! |---|---|
//! | [`tc`] | the operations that `tc` provides: parse quantities, print text and JSON |
//! | [`args`] | the command line and its errors |
//! | [`options`] | options by their table: parses words into a request, prints a dump |
//! | [`statistics`] | statistics by their table |
//! | [`size`] | sizes in bytes, as iproute2 prints them |
//! | `ffi` | the C side, with all `unsafe` code |

#![deny(unsafe_code)]

pub mod args;
#[allow(unsafe_code)]
mod ffi;
pub mod options;
pub mod size;
pub mod statistics;
pub mod tc;
