// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the host's `cargo xtask vm` and the guest's init agree on.
//!
//! - [`request`]: the file that tells init what to run.
//! - [`transfer`]: the shared memory through which init hands back an exit status and a tar of
//!   `/out`.

#![forbid(unsafe_code)]

pub mod request;
pub mod transfer;
