// SPDX-License-Identifier: MIT OR Apache-2.0

//! What iproute2's `tc` needs to know about weft's qdiscs: their options and their statistics.
//!
//! `tc` knows the qdiscs it was built with. For any other `KIND` it loads `q_KIND.so` and looks up
//! `KIND_qdisc_util` in it. It looks in `$TC_LIB_DIR`, by default the folder `tc` of the system's
//! libraries: `/usr/lib/tc`, on Debian `/usr/lib/x86_64-linux-gnu/tc`. This library has
//! `KIND_qdisc_util` for each of weft's qdiscs and is installed under as many names. One binary
//! serves iproute2 6.1 to 7.2; see [`tc`] for how. What a qdisc's options and statistics are is in
//! its table ([`weft_mechanisms::QDISCS`]): there is nothing of any one of them here.
//!
//! | module | part |
//! |---|---|
//! | [`tc`] | what may be asked of `tc`: read quantities, print text and JSON |
//! | [`args`] | the command line, and what is said of a wrong one |
//! | [`options`] | options by their table: words into a request, a dump into words |
//! | [`statistics`] | statistics by their table |
//! | [`size`] | sizes in bytes, as iproute2 prints them |
//! | `ffi` | the C side, with all the `unsafe` there is |

#![deny(unsafe_code)]

pub mod args;
#[allow(unsafe_code)]
mod ffi;
pub mod options;
pub mod size;
pub mod statistics;
pub mod tc;
