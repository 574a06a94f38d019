// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel of the model clock: the source of the very version that the stock kernel has, built as
//! a program (`ARCH=um`). Its recipe is in `vm/um`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache::{Cache, Entry, Key, Stage};
use crate::enter::Enter;
use crate::metadata;
use crate::process::Log;
use crate::suite::Resolution;

pub(crate) const STAGE: Stage = Stage {
    name: "model",
    keep: 2,
};
/// Where the stage is shown inside the root filesystem, both when it is built and when it is used:
/// the build tree names its own place.
pub(crate) const PLACE: &str = "/mnt/model";
/// The kernel's file in the stage.
pub(crate) const KERNEL: &str = "linux";
/// The file in the stage that has the kernel's release.
const RELEASE: &str = "release";
/// The recipe, in the workspace: what is built how, and changes to the source.
const RECIPE: &str = "vm/um";
const SCRIPT: &str = "build.sh";
const CONFIG: &str = "config";
const PATCHES: &str = "patches";

/// What our modules are built with. The kernel's own code is at addresses below 2 GiB, modules are
/// anywhere; and Rust for this architecture would reach symbols through a table of offsets, of which
/// the module loader knows nothing.
pub(crate) const MODULE_ARGUMENTS: [&str; 2] = [
    "ARCH=um",
    "KRUSTFLAGS=-Crelocation-model=static -Ccode-model=large",
];

/// The kernel, built.
#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) entry: Entry,
    /// As `uname -r` prints it.
    pub(crate) release: String,
}

impl Kernel {
    /// The root filesystem with the stage shown.
    pub(crate) fn enter(&self, rootfs: &Entry) -> Enter {
        Enter::new(&rootfs.path().join("root")).with(self.entry.path(), PLACE)
    }
}

/// The files of the recipe in their order, with their names in it.
fn recipe(workspace: &Path) -> Result<Vec<(String, PathBuf)>> {
    let folder = workspace.join(RECIPE);
    let mut patches = Vec::new();
    let listed = std::fs::read_dir(folder.join(PATCHES));
    for entry in listed.with_context(|| format!("reading {RECIPE}/{PATCHES}"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".patch") {
            patches.push(format!("{PATCHES}/{name}"));
        }
    }
    patches.sort();
    let names = [SCRIPT, CONFIG].map(str::to_owned).into_iter();
    Ok(names
        .chain(patches)
        .map(|name| (name.clone(), folder.join(name)))
        .collect())
}

/// The kernel, built if need be.
///
/// # Errors
/// If the source cannot be downloaded, a patch does not fit it, or the build fails.
pub(crate) fn ensure(
    cache: &Cache,
    resolution: &Resolution,
    rootfs: &Entry,
    workspace: &Path,
) -> Result<Kernel> {
    let recipe = recipe(workspace)?;
    let mut key = Key::new(PLACE).with(rootfs.hash());
    for (name, path) in &recipe {
        key = key.with_file(name, path)?;
    }
    let what = format!(
        "kernel of the model clock from {}",
        resolution.source_package
    );
    let entry = cache
        .ensure(&STAGE, key, &what, |directory, log| {
            build(cache, resolution, rootfs, workspace, directory, log)
        })
        .context("--clock virtual does without this kernel")?;
    let release = std::fs::read_to_string(entry.path().join(RELEASE))?;
    let release = release.trim().to_owned();
    Ok(Kernel { entry, release })
}

fn build(
    cache: &Cache,
    resolution: &Resolution,
    rootfs: &Entry,
    workspace: &Path,
    directory: &Path,
    log: &Log,
) -> Result<()> {
    metadata::download_source(cache, resolution, directory, log)?;
    let recipe = workspace.join(RECIPE);
    let script = std::fs::read_to_string(recipe.join(SCRIPT))?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut command = Enter::new(&rootfs.path().join("root"))
        .with_writable(directory, PLACE)
        .with(&recipe, "/mnt/recipe")
        .script(&script);
    command.args([&resolution.source_package, &resolution.compiler]);
    // Otherwise user, host and time would be part of the bytes.
    command.envs([("KBUILD_BUILD_USER", "weft"), ("KBUILD_BUILD_HOST", "weft")]);
    command.env("KBUILD_BUILD_TIMESTAMP", "1970-01-01");
    log.run(command.arg(jobs.to_string()))
}
