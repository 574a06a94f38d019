// SPDX-License-Identifier: MIT OR Apache-2.0

//! Weaves a topology.

mod attributes;
mod error;
pub mod qdisc;

pub use error::{Error, Result};
