// SPDX-License-Identifier: MIT OR Apache-2.0

//! The eBPF programs in `ebpf/programs`: one object for all kernels, which the loader embeds.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use weft_machine::transfer;

use crate::base::cache::{Cache, Entry, Key, Stage};
use crate::base::crates;
use crate::base::enter::{self, Enter};
use crate::stages::{bpf_linker, modules};

/// Its place in the cache.
pub const STAGE: Stage = Stage {
    name: "ebpf",
    keep: 8,
};

/// The object's file in the stage.
const OBJECT: &str = "weft.o";

/// Folders that the programs are compiled from.
const SOURCES: [&str; 3] = ["ebpf/programs", "ebpf/common", "kmod"];

/// Folders in these that the programs are not compiled from.
const SKIPPED: [&str; 6] = ["target", "tests", "fuzz", "benches", "examples", "kapi"];

/// eBPF is a target without guarantees, and its intrinsics are unstable: RUSTC_BOOTSTRAP.
const SCRIPT: &str = r#"
cd /mnt/weft/ebpf/programs
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=/mnt/build/target
cargo build --release --offline --locked --target bpfel-unknown-none
cp /mnt/build/target/bpfel-unknown-none/release/weft /mnt/build/weft.o
"#;

/// What rustc is told: the layout of the host's registers, which aya asks for; BTF for the maps,
/// made of debug information; the third instruction set, which has 32-bit and atomic instructions.
const RUSTFLAGS: [&str; 4] = [
    "--cfg=bpf_target_arch=\"x86_64\"",
    "-Cdebuginfo=2",
    "-Clink-arg=--btf",
    "-Ctarget-cpu=v3",
];

/// The object, built if need be.
///
/// # Errors
/// If the crates cannot be downloaded or the build fails.
pub fn ensure(cache: &Cache, rootfs: &Entry, tools: &Entry, workspace: &Path) -> Result<Entry> {
    let mut key = Key::new(SCRIPT).with_all(RUSTFLAGS).with(tools.hash());
    for folder in SOURCES {
        for (name, path) in modules::files_but(&workspace.join(folder), &SKIPPED)? {
            key = key.with_file(&format!("{folder}/{name}"), &path)?;
        }
    }
    cache.ensure(&STAGE, key, "eBPF programs", |directory, log| {
        crates::vendor(&workspace.join("ebpf/programs/Cargo.toml"), directory, log)?;
        let layer = directory.join("layer");
        let root = rootfs.path().join("root");
        let enter = Enter::layered(&root, &[&tools.path().join("data")], &layer)?
            .with(workspace, "/mnt/weft")
            .with_writable(directory, crates::PLACE);
        let mut command = enter.script(SCRIPT);
        command.env("CARGO_HOME", crates::CARGO_HOME);
        command.env("CARGO_ENCODED_RUSTFLAGS", RUSTFLAGS.join("\x1f"));
        command.env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", bpf_linker::LINKER);
        log.run(&mut command)?;
        for done in ["layer", "target", "vendor", "cargo"] {
            enter::remove_tree(&directory.join(done))?;
        }
        Ok(())
    })
}

/// The object itself.
pub fn object(stage: &Entry) -> PathBuf {
    stage.path().join(OBJECT)
}

/// A copy of the object in cargo's target folder, for crates that embed it. Its path is always the
/// same and it is written only if it changes, so that cargo compiles these crates only then.
///
/// # Errors
/// If a file cannot be read or written.
pub fn in_target(stage: &Entry, workspace: &Path) -> Result<PathBuf> {
    let object = object(stage);
    let content = fs::read(&object).with_context(|| format!("reading {}", object.display()))?;
    let copy = workspace.join("target/ebpf").join(OBJECT);
    if fs::read(&copy).is_ok_and(|old| old == content) {
        return Ok(copy);
    }
    transfer::write_whole(&copy, &content)?;
    Ok(copy)
}
