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

/// Its folder in the cache.
pub const STAGE: Stage = Stage {
    name: "ebpf",
    keep: 8,
};

/// The object's file in the stage.
const OBJECT: &str = "weft.o";

/// Folders with sources of the programs.
const SOURCES: [&str; 3] = ["ebpf/programs", "ebpf/common", "kmod"];

/// Folders in these that are not compiled into the programs.
const SKIPPED: [&str; 6] = ["target", "tests", "fuzz", "benches", "examples", "kapi"];

/// eBPF is an unsupported target, and its intrinsics are unstable: RUSTC_BOOTSTRAP.
const SCRIPT: &str = r#"
cd /mnt/weft/ebpf/programs
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=/mnt/build/target
cargo build --release --offline --locked --target bpfel-unknown-none
cp /mnt/build/target/bpfel-unknown-none/release/weft /mnt/build/weft.o
"#;

/// Options of rustc: the layout of the host's registers, which aya needs; BTF for the maps, from
/// debug information; the third instruction set, with 32-bit and atomic instructions.
const RUSTFLAGS: [&str; 4] = [
    "--cfg=bpf_target_arch=\"x86_64\"",
    "-Cdebuginfo=2",
    "-Clink-arg=--btf",
    "-Ctarget-cpu=v3",
];

/// The object, built if necessary.
///
/// # Errors
/// If the crates cannot be downloaded or the build fails.
pub fn ensure(cache: &Cache, rootfs: &Entry, tools: &Entry, workspace: &Path) -> Result<Entry> {
    let mut key = Key::new(SCRIPT).with_all(RUSTFLAGS).with(tools.hash());
    for folder in SOURCES {
        for (name, path) in modules::files_without(&workspace.join(folder), &SKIPPED)? {
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

/// The file of the object.
pub fn object(stage: &Entry) -> PathBuf {
    stage.path().join(OBJECT)
}

/// A copy of the object in cargo's target folder, for crates that embed it. Its path is constant
/// and it is written only when it changes, so that cargo recompiles these crates only then.
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
