// SPDX-License-Identifier: MIT OR Apache-2.0

//! weft for other machines: one executable, a Python wheel of it, Debian packages; and tests of
//! each in roots without any other part of weft.

#![forbid(unsafe_code)]

pub mod bundle;
pub mod debian;
mod release;
pub mod wheel;
