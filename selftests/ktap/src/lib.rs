// SPDX-License-Identifier: MIT OR Apache-2.0

//! Test programs that report in KTAP, version 1 (Documentation/dev-tools/ktap.rst).
//!
//! ```no_run
//! use anyhow::{Result, ensure};
//! use weft_ktap::{Context, Program};
//!
//! mod sums {
//!     # use super::*;
//!     weft_ktap::tests![two_and_two_are_four];
//!
//!     fn two_and_two_are_four(cx: &Context) -> Result<()> {
//!         cx.note("2 + 2");
//!         ensure!(2 + 2 == 4);
//!         Ok(())
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     let program = Program {
//!         name: "sums-selftests",
//!         about: "Tests of sums.",
//!         parts: weft_ktap::parts![sums],
//!         ..Program::DEFAULT
//!     };
//!     program.main()
//! }
//! ```

pub mod bpf;
mod debug;
pub mod kmemleak;
mod kmsg;
mod netns;
mod program;
mod report;
mod run;
mod socket;

pub use kmsg::KernelLog;
pub use netns::Namespace;
pub use program::{Program, Subcommand};
pub use report::Report;
pub use run::{Context, Part, Skip, Test};
pub use socket::set_option;
