// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask clean`: removes what the cache holds. Nothing outside the cache is touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::boot;
use crate::bpf_linker;
use crate::cache::{self, Cache};
use crate::clang;
use crate::cli::Clean;
use crate::ebpf;
use crate::enter;
use crate::metadata;
use crate::modules;
use crate::package;
use crate::packages;
use crate::process;
use crate::rootfs;
use crate::um_kernel;
use crate::virtme;

/// Directories of the cache that are no stages and can be made anew at no great cost.
const OTHERS: [&str; 5] = ["apt", "log", "processors", "resolution", "run"];

/// Runs it.
///
/// # Errors
/// If something cannot be removed.
pub(crate) fn run(cache: &Cache, clean: &Clean) -> Result<u8> {
    let mut entries: Vec<(PathBuf, bool)> = Vec::new();
    let stages = [
        rootfs::STAGE,
        metadata::STAGE,
        boot::STAGE,
        modules::STAGE,
        um_kernel::MODEL.stage,
        modules::MODEL_STAGE,
        clang::STAGE,
        um_kernel::DEBUG.stage,
        modules::DEBUG_STAGE,
        modules::CONTROL_STAGE,
        bpf_linker::STAGE,
        ebpf::STAGE,
        packages::STAGE,
        virtme::STAGE,
    ];
    for stage in stages.iter().chain(package::STAGES) {
        let mut of_stage = stage_entries(&cache.file(stage.name))?;
        of_stage.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
        let kept = if clean.all { 0 } else { 1 };
        entries.extend(
            of_stage
                .into_iter()
                .skip(kept)
                .map(|(_, path)| (path, true)),
        );
    }
    if clean.all {
        entries.extend(OTHERS.map(|name| (cache.file(name), false)));
    }
    let mut total = 0;
    for (path, guarded) in entries {
        if !path.is_dir() {
            continue;
        }
        let size = size_of(&path);
        let name = path
            .strip_prefix(cache.root())
            .unwrap_or(&path)
            .display()
            .to_string();
        let gone = if clean.dry_run {
            println!("{:>9} {name}", mebibytes(size));
            true
        } else if guarded {
            cache::remove_unused(&path).with_context(|| format!("removing {name}"))?
        } else {
            enter::remove_tree(&path).map(|()| true)?
        };
        match (gone, clean.dry_run) {
            (true, false) => println!("{:>9} {name} removed", mebibytes(size)),
            (false, _) => println!("{:>9} {name} is in use and stays", mebibytes(size)),
            (true, true) => {}
        }
        total += if gone { size } else { 0 };
    }
    let what = if clean.dry_run {
        "could be removed"
    } else {
        "removed"
    };
    println!(
        "{:>9} {what} from {}",
        mebibytes(total),
        cache.root().display()
    );
    Ok(0)
}

fn stage_entries(home: &Path) -> Result<Vec<(SystemTime, PathBuf)>> {
    let mut entries = Vec::new();
    let Ok(directory) = fs::read_dir(home) else {
        return Ok(entries);
    };
    for entry in directory {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            entries.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    Ok(entries)
}

/// Bytes on disk, as `du` counts them; it also gets into what belongs to subordinate ids.
pub(crate) fn size_of(path: &Path) -> u64 {
    let mut command = enter::unshared();
    command.args(["du", "-s", "--block-size=1", "--"]).arg(path);
    let text = process::capture(&mut command).unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|bytes| bytes.parse().ok())
        .unwrap_or(0)
}

/// `1234 MiB`.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}
