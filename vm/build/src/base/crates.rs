// SPDX-License-Identifier: MIT OR Apache-2.0

//! Crates for the cargo inside the root filesystem, which has neither network nor registry; the
//! host's cargo downloads them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::base::enter;
use crate::base::process::Log;

/// The mount point inside the root filesystem for the directory that [`vendor`] filled.
pub const PLACE: &str = "/mnt/build";
/// `CARGO_HOME` inside the root filesystem.
pub const CARGO_HOME: &str = "/mnt/build/cargo";

/// The host's cargo: the one that runs this program, if any.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Downloads the crates in the `Cargo.lock` next to `manifest` into `directory`, with a
/// configuration for a cargo that has the directory at [`PLACE`].
///
/// # Errors
/// If cargo fails, for example without a network.
pub fn vendor(manifest: &Path, directory: &Path, log: &Log) -> Result<()> {
    let mut command = cargo();
    // The user's settings may name a mirror of the registry.
    command.args(["vendor", "--locked", "--respect-source-config"]);
    command.arg("--manifest-path").arg(manifest);
    log.run(command.arg(directory.join("vendor")))?;
    let settings = format!(
        "[source.crates-io]\nreplace-with = \"vendored\"\n\n[source.vendored]\ndirectory = \"{PLACE}/vendor\"\n"
    );
    fs::create_dir_all(directory.join("cargo"))?;
    fs::write(directory.join("cargo/config.toml"), settings).context("writing cargo's settings")
}

/// Downloads a crate's source into `target`, including its `Cargo.lock`.
///
/// # Errors
/// If cargo fails.
pub fn source(name: &str, version: &str, target: &Path, log: &Log) -> Result<()> {
    // cargo only downloads dependencies of a package, so this creates one.
    let package = target.with_extension("wanted");
    fs::create_dir_all(package.join("src"))?;
    fs::write(package.join("src/lib.rs"), "")?;
    let manifest = package.join("Cargo.toml");
    fs::write(
        &manifest,
        format!(
            "[package]\nname = \"wanted\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
             {name} = {{ version = \"={version}\", default-features = false }}\n"
        ),
    )?;
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--manifest-path"]);
    let metadata = log.run_piped(command.arg(&manifest))?;
    let place = place_of(&metadata, name)
        .with_context(|| format!("cargo did not say where {name} {version} is"))?;
    log.run(Command::new("cp").arg("-r").arg(place).arg(target))?;
    enter::remove_tree(&package)
}

/// The directory of a package in the output of `cargo metadata`.
fn place_of(metadata: &str, name: &str) -> Option<PathBuf> {
    let metadata: Value = serde_json::from_str(metadata).ok()?;
    let packages = metadata["packages"].as_array()?;
    let package = packages.iter().find(|package| package["name"] == name)?;
    let manifest = Path::new(package["manifest_path"].as_str()?);
    manifest.parent().map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_found_in_cargos_metadata() {
        let metadata = r#"{"packages": [
            {"name": "wanted", "manifest_path": "/c/wanted/Cargo.toml"},
            {"name": "bpf-linker", "manifest_path": "/r/bpf-linker-0.13.0/Cargo.toml"}]}"#;
        assert_eq!(
            place_of(metadata, "bpf-linker"),
            Some("/r/bpf-linker-0.13.0".into())
        );
        assert_eq!(place_of(metadata, "other"), None);
        assert_eq!(place_of("", "wanted"), None);
    }
}
