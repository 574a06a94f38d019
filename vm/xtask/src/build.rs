// SPDX-License-Identifier: MIT OR Apache-2.0

//! The chain of stages, from the archive to something that boots.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::boot;
use crate::bpf_linker;
use crate::cache::{Cache, Entry};
use crate::cpio;
use crate::ebpf;
use crate::enter::{self, Enter};
use crate::host;
use crate::metadata;
use crate::modules;
use crate::programs::{self, Programs};
use crate::rootfs;
use crate::suite::{self, Request, Resolution};

/// Where Debian's `tc` looks for plugins; `/usr/lib/tc` is a link to it in the guest.
const PLUGINS: &str = "usr/lib/x86_64-linux-gnu/tc";

/// The root of the workspace: cargo says where at run time, because a shared target directory may
/// hold an xtask that was compiled in another clone.
pub(crate) fn workspace() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest
        .ancestors()
        .nth(2)
        .map_or(manifest.clone(), Path::to_path_buf)
}

/// Everything that does not depend on our own source.
pub(crate) struct Base {
    pub(crate) resolution: Resolution,
    pub(crate) rootfs: Entry,
    pub(crate) metadata: Entry,
    pub(crate) boot: Entry,
    /// None where the suite has nothing to build eBPF with.
    pub(crate) bpf_linker: Option<Entry>,
}

impl Base {
    /// The root filesystem with the Rust metadata in its place.
    pub(crate) fn enter(&self) -> Enter {
        metadata::grafted(&self.resolution, &self.rootfs, &self.metadata)
    }
}

/// Host packages, kernel, root filesystem, metadata, boot image, bpf-linker.
///
/// # Errors
/// Those of the stages.
pub(crate) fn base(cache: &Cache, request: &Request) -> Result<Base> {
    let known = suite::recorded(cache, request).filter(|_| !request.refresh);
    let ready =
        known.is_some_and(|resolution| matches!(rootfs::find(cache, &resolution), Ok(Some(_))));
    // Once the root filesystem is there, nothing of the host's is needed but util-linux.
    if !ready {
        host::ensure(cache)?;
        enter::check()?;
    }
    let resolution = suite::resolve(cache, request)?;
    let rootfs = rootfs::ensure(cache, &resolution)?;
    let metadata = metadata::ensure(cache, &resolution, &rootfs)?;
    let boot = boot::ensure(cache, &resolution, &rootfs)?;
    let bpf_linker = bpf_linker::ensure(cache, &resolution, &rootfs)?;
    Ok(Base {
        resolution,
        rootfs,
        metadata,
        boot,
        bpf_linker,
    })
}

/// Everything a guest needs.
pub(crate) struct Built<'a> {
    pub(crate) cache: &'a Cache,
    pub(crate) base: Base,
    pub(crate) modules: Entry,
    pub(crate) ebpf: Option<Entry>,
    pub(crate) programs: Programs,
}

/// The base, the modules, the eBPF programs, the guest's programs.
///
/// # Errors
/// Those of the stages.
pub(crate) fn all<'a>(cache: &'a Cache, request: &Request) -> Result<Built<'a>> {
    let base = base(cache, request)?;
    let workspace = workspace();
    let modules = modules::ensure(
        cache,
        &base.resolution,
        &base.metadata,
        &base.boot,
        &base.enter(),
        &workspace,
    )?;
    let ebpf = match &base.bpf_linker {
        Some(tools) => Some(ebpf::ensure(cache, &base.rootfs, tools, &workspace)?),
        None => None,
    };
    let object = ebpf.as_ref().map(ebpf::object);
    let programs = programs::build(&workspace, object.as_deref(), &cache.log("programs")?)?;
    Ok(Built {
        cache,
        base,
        modules,
        ebpf,
        programs,
    })
}

impl Built<'_> {
    /// The root filesystem with the boot stage shown.
    pub(crate) fn with_boot(&self) -> Enter {
        Enter::new(&self.base.rootfs.path().join("root")).with(self.base.boot.path(), boot::PLACE)
    }

    /// Puts our own part into a directory tree: modules (without their index), plugin, programs.
    ///
    /// # Errors
    /// If a file cannot be copied.
    pub(crate) fn add_to_tree(&self, tree: &Path) -> Result<()> {
        let modules = tree.join(format!(
            "usr/lib/modules/{}/updates",
            self.base.resolution.kernel
        ));
        let (programs, plugins) = (tree.join("usr/bin"), tree.join(PLUGINS));
        for directory in [&modules, &programs, &plugins] {
            fs::create_dir_all(directory)?;
        }
        for module in modules::files(self.modules.path())? {
            fs::copy(
                &module,
                modules.join(module.file_name().unwrap_or_default()),
            )?;
        }
        for program in self.programs.in_path() {
            fs::copy(
                program,
                programs.join(program.file_name().unwrap_or_default()),
            )?;
        }
        // `tc` looks for a library of each name.
        for kind in weft_core::QDISCS.iter().map(|qdisc| qdisc.kind) {
            fs::copy(&self.programs.plugin, plugins.join(format!("q_{kind}.so")))?;
        }
        Ok(())
    }

    /// The part of the initramfs that never changes.
    pub(crate) fn base_initramfs(&self) -> PathBuf {
        self.base.boot.path().join(boot::INITRAMFS)
    }

    /// Adds our own part: modules with their index, plugin, programs.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(crate) fn add_to(&self, archive: &mut cpio::Archive) -> Result<()> {
        archive.file("init", 0o755, &fs::read(&self.programs.init)?)?;
        for program in self.programs.in_path() {
            let name = program.file_name().unwrap_or_default().to_string_lossy();
            archive.file(&format!("usr/bin/{name}"), 0o755, &fs::read(program)?)?;
        }
        let plugin = fs::read(&self.programs.plugin)?;
        // `tc` looks for a library of each name.
        for kind in weft_core::QDISCS.iter().map(|qdisc| qdisc.kind) {
            archive.file(&format!("{PLUGINS}/q_{kind}.so"), 0o755, &plugin)?;
        }
        let directory = format!("usr/lib/modules/{}", self.base.resolution.kernel);
        archive.tree(&self.modules.path().join("index"), &format!("{directory}/"))?;
        archive.tree(
            &self.modules.path().join("updates"),
            &format!("{directory}/updates/"),
        )
    }
}
