// SPDX-License-Identifier: MIT OR Apache-2.0

//! Foundations of stages and commands.

use std::path::{Path, PathBuf};

pub mod cache;
pub mod crates;
pub mod enter;
pub mod host;
pub mod output;
pub mod process;
pub mod progress;

/// The root of the workspace. cargo passes it at run time, because a shared target directory may
/// hold an xtask that was compiled in another clone.
pub fn workspace() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest
        .ancestors()
        .nth(2)
        .map_or(manifest.clone(), Path::to_path_buf)
}
