// SPDX-License-Identifier: MIT OR Apache-2.0

//! Options that several commands share, and their conversion to the library's types.

pub(crate) mod fabric;
pub(crate) mod guest;
pub(crate) mod run;
pub(crate) mod said;
mod traffic;
pub(crate) mod variants;
