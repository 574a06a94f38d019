// SPDX-License-Identifier: MIT OR Apache-2.0

//! What several commands take, made into what the library knows.

pub(crate) mod fabric;
pub(crate) mod guest;
pub(crate) mod run;
pub(crate) mod said;
mod traffic;
pub(crate) mod variants;
