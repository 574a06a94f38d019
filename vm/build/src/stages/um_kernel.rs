// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels that are programs (`ARCH=um`), from the source of the stock kernel's exact version: that
//! of the model clock, and the debug kernel. Their recipes are in `vm/um`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::base::cache::{Cache, Entry, Key, Stage};
use crate::base::enter::{self, Enter};
use crate::base::process::Log;
use crate::stages::clang::{self, Clang};
use crate::stages::suite::Resolution;
use crate::stages::{metadata, modules};

/// The stage's mount point inside the root filesystem, both for building and for use: the build
/// tree contains its own path.
pub const PLACE: &str = "/mnt/model";
/// The kernel's file in the stage.
pub const KERNEL: &str = "linux";
/// The file in the stage that has the kernel's release.
const RELEASE: &str = "release";
/// The recipe in the workspace: build scripts, and changes to the source.
pub const RECIPE: &str = "vm/um";
const SCRIPT: &str = "build.sh";
const CONFIG: &str = "config";
const PATCHES: &str = "patches";
/// The execution counts of the kernel's parts, in the recipe: `cargo xtask profile` writes them.
pub const PROFILE: &str = "profile.tar.xz";
/// The folder of the recipe for the debug kernel.
const DEBUG_RECIPE: &str = "debug";

/// The properties in which the kernels differ.
pub struct Variant {
    /// Its folder in the cache.
    pub stage: Stage,
    /// A short description.
    pub what: &'static str,
    /// The stage of weft's modules for it.
    pub modules: &'static Stage,
    /// Whether it has checks for errors. If so, the configuration and the patches of
    /// [`DEBUG_RECIPE`] are added to those of the model clock. clang compiles it, because in this
    /// version KASAN and Rust work together only with clang. Rust's debug assertions are compiled
    /// into its modules, and it has a module of deliberate errors.
    pub debug: bool,
    /// Whether it counts how often each part of it runs. Then only the kernel is built, not its
    /// modules.
    counts: bool,
    /// What to do if it cannot be built.
    cure: &'static str,
}

/// The kernel of the model clock.
pub const MODEL: Variant = Variant {
    stage: Stage {
        name: "model",
        keep: 2,
    },
    what: "kernel of the model clock",
    modules: &modules::MODEL_STAGE,
    debug: false,
    counts: false,
    cure: "--clock instructions does without this kernel",
};

/// The kernel of the model clock with counters for its parts.
pub const COUNTING: Variant = Variant {
    stage: Stage {
        name: "counting",
        keep: 1,
    },
    what: "kernel that counts what runs",
    counts: true,
    cure: "the profile that is kept does without this kernel",
    ..MODEL
};

/// The debug kernel.
pub const DEBUG: Variant = Variant {
    stage: Stage {
        name: "debug",
        keep: 2,
    },
    what: "debug kernel",
    modules: &modules::DEBUG_STAGE,
    debug: true,
    counts: false,
    cure: "without --kernel debug the stock kernel does",
};

/// Arguments for building weft's modules. The kernel's own code is below 2 GiB, but modules may be
/// at any address. Rust for this architecture would access symbols through a table of offsets,
/// which the module loader does not support.
const MODULE_ARGUMENTS: [&str; 2] = [
    "ARCH=um",
    "KRUSTFLAGS=-Crelocation-model=static -Ccode-model=large",
];

/// The kernel, built.
#[derive(Clone)]
pub struct Kernel {
    /// The stage that has it.
    pub entry: Entry,
    /// As `uname -r` prints it.
    pub release: String,
    /// The C compiler's command.
    pub compiler: String,
    clang: Option<Clang>,
}

impl Kernel {
    /// The kernel's file, which runs anywhere if it is linked statically.
    pub fn file(&self) -> PathBuf {
        self.entry.path().join(KERNEL)
    }

    /// The root filesystem with the stage mounted.
    pub fn enter(&self, rootfs: &Entry) -> Enter {
        tools(rootfs, self.clang.as_ref()).with(self.entry.path(), PLACE)
    }

    /// The arguments of make for building modules.
    pub fn module_arguments(&self) -> Vec<String> {
        let clang = self.clang.iter().map(Clang::setting);
        MODULE_ARGUMENTS
            .map(str::to_owned)
            .into_iter()
            .chain(clang)
            .collect()
    }
}

/// The root filesystem with the tools that compile the kernel.
fn tools(rootfs: &Entry, clang: Option<&Clang>) -> Enter {
    let root = rootfs.path().join("root");
    match clang {
        Some(clang) => Enter::below(&root, &[&clang.layer()]),
        None => Enter::new(&root),
    }
}

/// The patches in a folder of the recipe, in order, with their names in the recipe.
fn patches_of(folder: &Path, name: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut patches = Vec::new();
    let name = name.display();
    let listed = std::fs::read_dir(folder).with_context(|| format!("reading {RECIPE}/{name}"))?;
    for entry in listed {
        let entry = entry?;
        let file = entry.file_name().to_string_lossy().into_owned();
        if file.ends_with(".patch") {
            patches.push((format!("{name}/{file}"), entry.path()));
        }
    }
    patches.sort();
    Ok(patches)
}

/// The files of the recipe, in order, with their names in it.
fn recipe(workspace: &Path, variant: &Variant) -> Result<Vec<(String, PathBuf)>> {
    let folder = workspace.join(RECIPE);
    let mut files = vec![(SCRIPT.to_owned(), folder.join(SCRIPT))];
    // The profile is for one compiler, and lacks the debug kernel's own parts.
    let profile = folder.join(PROFILE);
    if !variant.debug && !variant.counts && profile.exists() {
        files.push((PROFILE.to_owned(), profile));
    }
    let over = variant.debug.then_some(Path::new(DEBUG_RECIPE));
    for part in std::iter::once(Path::new("")).chain(over) {
        let config = part.join(CONFIG);
        files.push((config.display().to_string(), folder.join(config)));
        let patches = part.join(PATCHES);
        files.extend(patches_of(&folder.join(&patches), &patches)?);
    }
    Ok(files)
}

/// The symbol that a line of a configuration sets or disables.
fn symbol(line: &str) -> Option<&str> {
    let line = line.strip_prefix("# ").unwrap_or(line);
    let symbol = line.starts_with("CONFIG_").then_some(line)?;
    symbol.split(['=', ' ']).next()
}

/// A configuration with another one applied over it.
fn laid_over(base: &str, over: &str) -> String {
    let set_anew: Vec<&str> = over.lines().filter_map(symbol).collect();
    let holds = |line: &&str| symbol(line).is_none_or(|symbol| !set_anew.contains(&symbol));
    base.lines()
        .filter(holds)
        .chain(over.lines())
        .flat_map(|line| [line, "\n"])
        .collect()
}

/// Writes the recipe into a folder, in the form that the script reads.
fn write_recipe(files: &[(String, PathBuf)], folder: &Path) -> Result<()> {
    let patches = folder.join(PATCHES);
    std::fs::create_dir_all(&patches)?;
    let mut config = String::new();
    for (name, path) in files {
        let file = path.file_name().unwrap_or_default();
        let copy = |to: &Path| {
            let copied = std::fs::copy(path, to.join(file));
            copied.with_context(|| format!("copying {}", path.display()))
        };
        if name.ends_with(".patch") {
            copy(&patches)?;
        } else if name == PROFILE {
            copy(folder)?;
        } else if file == CONFIG {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("reading {}", path.display()))?;
            config = laid_over(&config, &text);
        }
    }
    Ok(std::fs::write(folder.join(CONFIG), config)?)
}

/// The kernel, built if necessary.
///
/// # Errors
/// If the source or the compiler cannot be downloaded, a patch does not fit, or the build fails.
pub fn ensure(
    variant: &Variant,
    cache: &Cache,
    resolution: &Resolution,
    rootfs: &Entry,
    workspace: &Path,
) -> Result<Kernel> {
    let recipe = recipe(workspace, variant)?;
    let clang = match variant.debug {
        true => Some(clang::ensure(cache, resolution, rootfs)?),
        false => None,
    };
    let mut key = Key::new(PLACE).with(rootfs.hash());
    for (name, path) in &recipe {
        key = key.with_file(name, path)?;
    }
    if let Some(clang) = &clang {
        key = key.with(clang.hash());
    }
    let compiler = match &clang {
        Some(clang) => clang.compiler(),
        None => resolution.compiler.clone(),
    };
    let what = format!("{} from {}", variant.what, resolution.source_package);
    let entry = cache
        .ensure(&variant.stage, key, &what, |directory, log| {
            metadata::download_source(cache, resolution, directory, log)?;
            let folder = directory.join("recipe");
            write_recipe(&recipe, &folder)?;
            let enter = tools(rootfs, clang.as_ref())
                .with_writable(directory, PLACE)
                .with(&folder, "/mnt/recipe");
            let script = std::fs::read_to_string(workspace.join(RECIPE).join(SCRIPT))?;
            let mut command = enter.script(&script);
            command.args([&resolution.source_package, &compiler]);
            command.envs(clang.iter().map(Clang::variable));
            build(&mut command, variant, log)?;
            enter::remove_tree(&folder)
        })
        .context(variant.cure)?;
    let release = std::fs::read_to_string(entry.path().join(RELEASE))?;
    Ok(Kernel {
        entry,
        release: release.trim().to_owned(),
        compiler,
        clang,
    })
}

fn build(command: &mut std::process::Command, variant: &Variant, log: &Log) -> Result<()> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    // Otherwise user, host and time would become part of the kernel.
    command.envs([("KBUILD_BUILD_USER", "weft"), ("KBUILD_BUILD_HOST", "weft")]);
    command.env("KBUILD_BUILD_TIMESTAMP", "1970-01-01");
    command.arg(jobs.to_string());
    log.run(command.args(variant.counts.then_some("count")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::workspace;

    #[test]
    fn an_overlay_overrides_a_configuration() {
        let base = "# Says why.\nCONFIG_A=y\nCONFIG_AB=y\n# CONFIG_C is not set\nCONFIG_D=\"x\"\n";
        let over = "# CONFIG_A is not set\nCONFIG_C=y\nCONFIG_D=\"y z\"\nCONFIG_E=1\n";
        let expected = "# Says why.\nCONFIG_AB=y\n# CONFIG_A is not set\nCONFIG_C=y\n\
                        CONFIG_D=\"y z\"\nCONFIG_E=1\n";
        assert_eq!(laid_over(base, over), expected);
        assert_eq!(laid_over("", base), base);
    }

    #[test]
    fn the_debug_kernels_recipe_includes_the_model_clocks() {
        let workspace = workspace();
        let names = |variant| {
            let files = recipe(&workspace, variant).unwrap();
            files.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let (mut model, debug) = (names(&MODEL), names(&DEBUG));
        assert_eq!(model[..3], [SCRIPT, PROFILE, CONFIG]);
        assert_eq!(model.remove(1), PROFILE);
        assert_eq!(names(&COUNTING), model);
        assert_eq!(debug[..model.len()], model);
        assert_eq!(debug[model.len()], "debug/config");
        assert!(
            debug[model.len() + 1..]
                .iter()
                .all(|name| name.starts_with("debug/patches/"))
        );
    }
}
