// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel modules in `kmod/`, built against the stock kernel's headers or against the kernel of
//! the model clock.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use object::{Object, ObjectSymbol};
use walkdir::WalkDir;

use crate::base::cache::{Cache, Entry, Key, Stage};
use crate::base::enter::Enter;
use crate::base::process::Log;

/// Modules for the stock kernel.
pub const STAGE: Stage = Stage {
    name: "modules",
    keep: 8,
};
/// Modules for the kernel of the model clock.
pub const MODEL_STAGE: Stage = Stage {
    name: "model-modules",
    keep: 8,
};

/// Modules for the debug kernel.
pub const DEBUG_STAGE: Stage = Stage {
    name: "debug-modules",
    keep: 8,
};
/// The debug kernel's module of deliberate errors.
pub const CONTROL_STAGE: Stage = Stage {
    name: "debug-control",
    keep: 2,
};

/// The folder of weft's modules in the workspace.
pub const SOURCES: &str = "kmod";
/// The folder of the module of deliberate errors.
pub const CONTROL_SOURCES: &str = "vm/um/debug/control";

/// A kernel to build modules for.
pub struct Target<'a> {
    /// The stage that keeps the modules.
    pub stage: &'a Stage,
    /// As `uname -r` prints it.
    pub release: &'a str,
    /// The C compiler's command.
    pub compiler: &'a str,
    /// Hashes of the stages with the kernel.
    pub inputs: [&'a str; 2],
    /// The root filesystem with these stages mounted.
    pub enter: Enter,
    /// The kernel's build tree inside it.
    pub build: String,
    /// The kernel's own modules and their index inside it.
    pub modules: String,
    /// Additional arguments of make.
    pub arguments: &'a [String],
    /// Whether a module may call Rust's panic machinery: with debug assertions it may.
    pub may_panic: bool,
}

/// Builds weft's modules, then indexes them together with the kernel's modules in the guest, so
/// that `modprobe` and the kernel's autoloading find both. The path is the same everywhere, so the
/// bytes are too. `$1` kernel release, `$2` C compiler, `$3` parallel jobs, `$4` the kernel's build
/// tree, `$5` its modules, then arguments of make.
const SCRIPT: &str = r#"
release=$1 compiler=$2 jobs=$3 build=$4 modules=$5
shift 5
make -C "$build" M=/mnt/build/kmod CC="$compiler" -j"$jobs" "$@" modules
tree=/mnt/build/tree/usr/lib/modules/$release
mkdir -p "${tree%/*}"
ln -s usr/lib /mnt/build/tree/lib
cp -r "$modules" "$tree"
mkdir -p "$tree/updates" /mnt/build/updates
for module in $(find /mnt/build/kmod -name '*.ko'); do
	cp "$module" "$tree/updates/"
	cp "$module" /mnt/build/updates/
done
depmod -b /mnt/build/tree "$release"
mkdir /mnt/build/index
cp "$tree"/modules.* /mnt/build/index/
rm -rf /mnt/build/tree /mnt/build/kmod
"#;

/// Lines in which Debian's present compiler may differ from the kernel's: the compiler's packages
/// were rebuilt since.
const HARMLESS: [&str; 2] = [
    "warning: the compiler differs from",
    "warning: pahole version differs from",
];

/// Files of a folder for a build, as (path in the folder, path on the host), sorted.
pub fn sources(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    files_without(folder, &["target", "tests", "fuzz", "benches"])
}

/// Like [`sources`], without files in folders with these names.
pub fn files_without(folder: &Path, skipped: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let walk = WalkDir::new(folder)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| {
            let name = entry.file_name().to_string_lossy();
            let directory = entry.file_type().is_dir();
            !name.starts_with('.') && (!directory || !skipped.contains(&name.as_ref()))
        });
    let mut files = Vec::new();
    for entry in walk {
        let entry = entry?;
        if entry.file_type().is_file() {
            let name = entry
                .path()
                .strip_prefix(folder)?
                .to_string_lossy()
                .into_owned();
            files.push((name, entry.into_path()));
        }
    }
    Ok(files)
}

/// The modules of a folder, built if necessary.
///
/// # Errors
/// If the build fails, warns, or leaves a call into Rust's panic machinery in a module.
pub fn ensure(cache: &Cache, target: &Target<'_>, folder: &Path) -> Result<Entry> {
    let files = sources(folder)?;
    ensure!(
        files.iter().any(|(name, _)| name == "Kbuild"),
        "{} is missing",
        folder.join("Kbuild").display()
    );
    let mut key = Key::new(SCRIPT)
        .with_all(target.inputs)
        .with_all(target.arguments);
    for (name, path) in &files {
        key = key.with_file(name, path)?;
    }
    let what = format!("kernel modules for {}", target.release);
    cache.ensure(target.stage, key, &what, |directory, log| {
        for (name, path) in &files {
            let target = directory.join("kmod").join(name);
            fs::create_dir_all(target.parent().context("no parent")?)?;
            fs::copy(path, target)?;
        }
        build(target, directory, log)
    })
}

fn build(target: &Target<'_>, directory: &Path, log: &Log) -> Result<()> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let enter = target.enter.clone();
    let mut command = enter.with_writable(directory, "/mnt/build").script(SCRIPT);
    command
        .args([target.release, target.compiler])
        .arg(jobs.to_string())
        .args([&target.build, &target.modules])
        .args(target.arguments);
    // Otherwise user, host and time would become part of the modules.
    command.envs([("KBUILD_BUILD_USER", "weft"), ("KBUILD_BUILD_HOST", "weft")]);
    command.env("KBUILD_BUILD_TIMESTAMP", "1970-01-01");
    log.run(&mut command)?;
    let text = log.text()?;
    if let Some(warning) = first_warning(&text) {
        bail!(
            "a warning in a kernel module counts as an error: {warning}\n{}",
            log.tail()
        );
    }
    if target.may_panic {
        return Ok(());
    }
    for module in files(directory)? {
        let calls = panic_calls(&fs::read(&module)?)?;
        ensure!(
            calls.is_empty(),
            "{} can panic (and a panic takes the machine down); it refers to\n    {}",
            module.file_name().unwrap_or_default().to_string_lossy(),
            calls.join("\n    ")
        );
    }
    Ok(())
}

/// The files of the modules.
pub fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory.join("updates"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    files.sort();
    Ok(files)
}

fn first_warning(log: &str) -> Option<&str> {
    log.lines()
        .find(|line| line.contains("warning: ") && !HARMLESS.iter().any(|text| line.contains(text)))
}

/// Undefined symbols of a module that belong to `core::panicking`.
fn panic_calls(module: &[u8]) -> Result<Vec<String>> {
    let file = object::File::parse(module)?;
    let undefined = file.symbols().filter(ObjectSymbol::is_undefined);
    let names = undefined.filter_map(|symbol| symbol.name().ok().map(str::to_owned));
    Ok(names.filter(|name| name.contains("panicking")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_found_and_a_note_about_a_rebuilt_compiler_is_not_one() {
        let log = "  CC [M]  a.o\n\
                   warning: the compiler differs from the one used to build the kernel\n\
                     The kernel was built by: gcc-16 (Debian 16.2.0-3)\n";
        assert_eq!(first_warning(log), None);
        let bad = format!("{log}kmod/a.c:3:1: warning: unused variable 'x' [-Wunused-variable]\n");
        assert!(first_warning(&bad).unwrap().contains("unused variable"));
    }
}
