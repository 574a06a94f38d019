// SPDX-License-Identifier: MIT OR Apache-2.0

//! Images of weft's machine: a kernel, and the files of its guests, in one file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use weft_machine::cpio::Archive;
use weft_machine::image::{self, FILE, Hash, Kind, Manifest};

use crate::base::cache::{Cache, Entry, Key, Stage};
use crate::base::enter::Enter;
use crate::base::process::Log;
use crate::stages::boot;
use crate::stages::chain::{self, Built, Kernel};

/// Its folder in the cache.
pub const STAGE: Stage = Stage {
    name: "image",
    keep: 3,
};

/// The level of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// For a file that is copied: level 19.
    Small,
    /// For the machine that builds it: level 1.
    Fast,
}

impl Compression {
    fn level(self) -> &'static str {
        match self {
            Self::Small => "-19",
            Self::Fast => "-1",
        }
    }
}

/// Change it when the way of writing an image changes.
const RECIPE: &str = "image 2";

/// Modules without debug information; then all licences. `/mnt/tree` has the files of Debian's
/// packages.
const GATHER: &str = r#"
mkdir /mnt/build/modules
for module in /mnt/modules/*.ko; do
	strip --strip-debug -o "/mnt/build/modules/${module##*/}" "$module"
done
cd /mnt/tree
packages=$(find usr -type f \( -path 'usr/bin/*' -o -name '*.so*' \) | sort | while read -r file; do
	for place in "/$file" "/${file#usr/}"; do
		dpkg-query -S "$place" 2>/dev/null && break
	done
done | sed 's/: .*//; s/,.*//' | sort -u)
for package in $packages; do
	dpkg-query -W -f '${Package} ${Version}, of the source package ${source:Package} ${source:Version}\n' "$package"
done >/mnt/build/packages
for package in $packages; do
	name=${package%%:*}
	copyright=/usr/share/doc/$name/copyright
	[ -e "$copyright" ] || continue
	printf '\n==== %s ====\n\n' "$name"
	cat "$copyright"
done >/mnt/build/copyrights
cat /usr/share/common-licenses/GPL-2 >/mnt/build/GPL-2
"#;

/// `$1`: the compression level.
const COMPRESS: &str = r#"zstd -q -T1 "$1" /mnt/build/tar -o /mnt/build/compressed"#;

/// Modules of the stock kernel, which the model clock's kernel has built in.
const STOCK_MODULES: &str = "usr/lib/modules/";

/// The image with the model clock's kernel, built if necessary.
///
/// # Errors
/// If a part was not built, or cannot be read.
pub fn ensure(built: &Built<'_>, compression: Compression) -> Result<Entry> {
    ensure_of(built, Kernel::Model, compression)
}

/// The image with this kernel, built if necessary.
///
/// # Errors
/// As [`ensure`].
pub fn ensure_of(built: &Built<'_>, kernel: Kernel, compression: Compression) -> Result<Entry> {
    let source = Source::of(built, kernel)?;
    let mut key = Key::new(RECIPE)
        .with(GATHER)
        .with(COMPRESS)
        .with(compression.level())
        .with(source.hash)
        .with(source.modules.hash())
        .with(built.base.boot.hash())
        .with(built.base.rootfs.hash());
    for path in programs(built)? {
        key = key.with_file(&name(path), path)?;
    }
    key = key.with_file("plugin", &built.programs.plugin)?;
    let what = match source.kind {
        Kind::Program => "image of weft's machine",
        Kind::Qemu => "image for --clock instructions",
    };
    built.cache.ensure(&STAGE, key, what, |directory, log| {
        build_in(built, &source, compression, directory, log)
    })
}

/// The parts of an image that depend on its kernel.
struct Source<'a> {
    kind: Kind,
    kernel: PathBuf,
    /// The hash of the kernel's stage.
    hash: &'a str,
    release: &'a str,
    /// weft's modules.
    modules: &'a Entry,
}

impl<'a> Source<'a> {
    fn of(built: &'a Built<'_>, kernel: Kernel) -> Result<Self> {
        let (release, modules) = built.modules(kernel)?;
        let (kind, file, hash) = if kernel.is_program() {
            let kernel = &built.program(kernel)?.kernel;
            (Kind::Program, kernel.file(), kernel.entry.hash())
        } else {
            let boot = &built.base.boot;
            (Kind::Qemu, boot.path().join(boot::KERNEL), boot.hash())
        };
        Ok(Self {
            kind,
            kernel: file,
            hash,
            release,
            modules,
        })
    }
}

/// The image's file.
pub fn file(entry: &Entry) -> PathBuf {
    entry.path().join(FILE)
}

/// The path at which `weft` finds the last image.
///
/// # Errors
/// If the link cannot be created.
pub fn publish(cache: &Cache, entry: &Entry) -> Result<()> {
    let link = cache.file(FILE);
    let half = cache.file(format!("{FILE}.{}", std::process::id()));
    let _ = fs::remove_file(&half);
    std::os::unix::fs::symlink(file(entry), &half)
        .and_then(|()| fs::rename(&half, &link))
        .with_context(|| format!("linking {}", link.display()))
}

/// The programs in the image, init first.
fn programs<'a>(built: &'a Built<'_>) -> Result<Vec<&'a Path>> {
    let all = &built.programs;
    let ebpf = all.ebpf.as_ref();
    let ebpf = ebpf.context("the suite has nothing to build the eBPF programs with")?;
    Ok(vec![
        &all.init,
        &all.weft,
        &all.pase,
        &all.arbiter,
        &ebpf.tag,
    ])
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn build_in(
    built: &Built<'_>,
    source: &Source<'_>,
    compression: Compression,
    directory: &Path,
    log: &Log,
) -> Result<()> {
    let tree = built.base.boot.path().join("tree");
    let updates = source.modules.path().join("updates");
    let enter = Enter::new(&built.base.rootfs.path().join("root"))
        .with(&updates, "/mnt/modules")
        .with(&tree, "/mnt/tree")
        .with_writable(directory, "/mnt/build");
    log.run(&mut enter.script(GATHER))?;

    let mut archive = Archive::default();
    archive.tree_without(&tree, "", &|name| {
        source.kind == Kind::Program && name.starts_with(STOCK_MODULES)
    })?;
    let all = programs(built)?;
    archive.file("init", 0o755, &fs::read(all[0])?)?;
    for path in &all[1..] {
        archive.file(&format!("usr/bin/{}", name(path)), 0o755, &fs::read(path)?)?;
    }
    built.add_plugin(&mut archive)?;
    let place = format!("usr/lib/modules/{}", source.release);
    archive.tree(&source.modules.path().join("index"), &format!("{place}/"))?;
    archive.tree(&directory.join("modules"), &format!("{place}/updates/"))?;

    let resolution = &built.base.resolution;
    let manifest = Manifest::new(
        env!("CARGO_PKG_VERSION"),
        source.kind,
        source.release,
        &format!("{} {}", resolution.source_package, resolution.version),
    );
    let read = |name: &str| fs::read_to_string(directory.join(name)).context(name.to_owned());
    let licences = licences(
        &manifest,
        &read("packages")?,
        &read("GPL-2")?,
        &read("copyrights")?,
    );
    let tar = image::pack(&manifest, &source.kernel, &archive.finish()?, &licences)?;
    fs::write(directory.join("tar"), &tar)?;
    let mut compress = enter.script(COMPRESS);
    log.run(compress.arg(compression.level()))?;
    let compressed = fs::read(directory.join("compressed"))?;
    let mut out = fs::File::create(directory.join(FILE))?;
    let _: Hash = image::write(&mut out, &tar, &compressed)?;
    for done in ["tar", "compressed", "packages", "copyrights", "GPL-2"] {
        fs::remove_file(directory.join(done))?;
    }
    Ok(fs::remove_dir_all(directory.join("modules"))?)
}

/// The content of the image, its licences, and where the sources are.
fn licences(manifest: &Manifest, packages: &str, gpl: &str, copyrights: &str) -> String {
    let Manifest {
        weft,
        release,
        source,
        kind,
        ..
    } = manifest;
    let built = match kind {
        Kind::Program => {
            "It is built with the configuration and the patches of weft's sources, vm/um."
        }
        Kind::Qemu => "It and its modules are as Debian has built them.",
    };
    let indented: String = packages.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "weft {weft} carries a machine. This is what is in it.\n\n\
         Linux {release}, of Debian's package {source}: GPL-2.0. {built}\n\
         weft's kernel modules and eBPF programs, kmod and ebpf of weft's sources: GPL-2.0.\n\
         weft's programs: MIT or Apache-2.0.\n\
         Programs and libraries of Debian's packages, as they are there:\n{indented}\n\
         Debian keeps the sources of all of its packages: apt-get source PACKAGE=VERSION, or \
         https://snapshot.debian.org. The kernel's configuration and patches and the modules' sources are in the \
         folder that comes with the program.\n\n\
         ==== GNU General Public License, version 2 ====\n\n{gpl}\n{copyrights}"
    )
}

/// Builds the stages for the model clock, and the image, and publishes it for `weft`.
///
/// # Errors
/// Those of the stages.
pub fn built<'a>(
    cache: &'a Cache,
    request: &crate::stages::suite::Request,
) -> Result<(Built<'a>, Entry)> {
    let built = chain::in_place(cache, request, &[Kernel::Model])?;
    let entry = ensure(&built, Compression::Fast)?;
    publish(cache, &entry)?;
    Ok((built, entry))
}
