// SPDX-License-Identifier: MIT OR Apache-2.0

//! From a Debian archive to a guest that boots: shared by `cargo xtask`, its benchmarks and its
//! packages.
//!
//! | module      | contents                                                                  |
//! |-------------|---------------------------------------------------------------------------|
//! | [`base`]    | the cache, processes, progress, the host's programs, namespaces           |
//! | [`stages`]  | one file per stage, cached under a hash of its inputs; `chain` runs them  |
//! | [`guests`]  | guests of the built stages                                                |
//! | [`options`] | options of several commands: kernel, clock, machine                       |

#![forbid(unsafe_code)]

pub mod base;
pub mod guests;
pub mod options;
pub mod stages;
