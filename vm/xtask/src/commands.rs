// SPDX-License-Identifier: MIT OR Apache-2.0

//! The commands, one file each, with its arguments. `bench`, `bundle` and `package` are in separate
//! crates.

pub(crate) mod build;
pub(crate) mod clean;
pub(crate) mod kept;
pub(crate) mod lab;
pub(crate) mod profile;
pub(crate) mod setup;
pub(crate) mod test;
pub(crate) mod vm;
pub(crate) mod weft;
