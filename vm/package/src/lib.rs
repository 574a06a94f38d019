// SPDX-License-Identifier: MIT OR Apache-2.0

//! weft for other machines: one executable, a Python wheel of it, Debian packages; and trials of
//! each where nothing else of weft's is.

#![forbid(unsafe_code)]

pub mod bundle;
pub mod debian;
mod release;
pub mod wheel;
