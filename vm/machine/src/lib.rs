// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests: machines that boot weft's kernel, run one command and return its results.
//!
//! A [`Machine`] is a kernel that is a program (User Mode Linux) or a virtual machine of QEMU. A
//! [`Boot`] has its files: from an [`image`], which is one file, or from a folder of `cargo xtask`.
//! [`guest::run`] boots a [`Guest`] and supervises it to its end; several can run at the same time.

pub mod console;
pub mod cpio;
pub mod failure;
pub mod follow;
pub mod guest;
pub mod image;
pub mod interrupt;
mod launch;
mod machine;
pub mod parallel;
pub mod place;
pub mod processor;
pub mod qemu;
pub mod terminal;
mod text;
pub mod transfer;
pub mod um;
pub mod watchdog;

pub use guest::{Boot, Guest, Outcome};
pub use launch::{Directly, Launcher};
pub use machine::{Clock, Machine, Terminal, clocks};
pub use text::last_lines;
pub use weft_guest::request;
