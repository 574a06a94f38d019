// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command lines of weft's programs.
//!
//! | module | part |
//! |---|---|
//! | `man` | man pages, with the feature of that name |
//! | [`mod@parse`] | parses a program's command line; prints its help, version and errors |
//! | [`number`] | parsers of numbers in a range |

#![forbid(unsafe_code)]

#[cfg(feature = "man")]
pub mod man;
pub mod number;
pub mod parse;

pub use number::{real, whole};
pub use parse::parse;
