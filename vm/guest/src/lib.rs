// SPDX-License-Identifier: MIT OR Apache-2.0

//! The interface between the host's `cargo xtask vm` and the guest's init.
//!
//! - [`request`]: the file that names the command for init.
//! - [`transfer`]: the shared memory through which init returns an exit status and a tar of `/out`.

#![forbid(unsafe_code)]

pub mod request;
pub mod transfer;
