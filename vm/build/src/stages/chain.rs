// SPDX-License-Identifier: MIT OR Apache-2.0

//! The chain of stages, from the archive to a guest that boots.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use weft_machine::cpio;
use weft_machine::interrupt::Temporary;

use crate::base::cache::{Cache, Entry};
use crate::base::enter::{self, Enter};
use crate::base::{host, workspace};
use crate::stages::programs::{self, Programs};
use crate::stages::suite::{self, Request, Resolution};
use crate::stages::um_kernel::{self, Variant};
use crate::stages::{boot, bpf_linker, ebpf, metadata, modules, packages, rootfs};

/// The folder of plugins for Debian's `tc`; `/usr/lib/tc` is a link to it in the guest.
const PLUGINS: &str = "usr/lib/x86_64-linux-gnu/tc";

/// Everything that does not depend on weft's own source.
#[derive(Clone)]
pub struct Base {
    /// The kernel, and the packages that fit it.
    pub resolution: Resolution,
    /// The root filesystem.
    pub rootfs: Entry,
    /// The stock kernel, and the constant part of the initramfs.
    pub boot: Entry,
}

/// A kernel that guests boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Debian's kernel.
    Stock,
    /// The same source as a program, for the model clock.
    Model,
    /// The same source as a program, with checks for errors.
    Debug,
}

impl Kernel {
    /// Whether it is a program, rather than booted by QEMU.
    pub fn is_program(self) -> bool {
        self != Self::Stock
    }
}

/// The stock kernel's results, besides its image.
#[derive(Clone)]
pub struct Stock {
    /// Its Rust metadata.
    pub metadata: Entry,
    /// weft's modules for it.
    pub modules: Entry,
}

/// A kernel that is a program.
#[derive(Clone)]
pub struct UmKernel {
    /// The kernel itself.
    pub kernel: um_kernel::Kernel,
    /// weft's modules for it.
    pub modules: Entry,
    /// The module of deliberate errors, for the debug kernel.
    control: Option<Entry>,
}

/// The folder of that module in the debug kernel's guests.
const CONTROL: &str = "usr/lib/weft-debug/";

/// Host packages, kernel, root filesystem, boot image.
///
/// # Errors
/// Those of the stages.
pub fn base(cache: &Cache, request: &Request) -> Result<Base> {
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
    let boot = boot::ensure(cache, &resolution, &rootfs)?;
    Ok(Base {
        resolution,
        rootfs,
        boot,
    })
}

/// Everything that a guest needs.
#[derive(Clone)]
pub struct Built<'a> {
    /// The cache with all of it.
    pub cache: &'a Cache,
    /// The parts that do not depend on weft's own source.
    pub base: Base,
    stock: Option<Stock>,
    model: Option<UmKernel>,
    debug: Option<UmKernel>,
    /// The eBPF programs, if the suite has the tools to build them.
    pub ebpf: Option<Entry>,
    /// The guest's programs.
    pub programs: Programs,
    /// The folder of the programs, if they are copies.
    copies: Option<Arc<Temporary>>,
    /// Packages that a command requested.
    packages: Option<Entry>,
    /// The folder in which weft's own packages were installed: guests use it instead of the built
    /// files.
    pub installed: Option<PathBuf>,
}

/// The base, the kernels and their modules, the eBPF programs, the guest's programs. Independent
/// stages are built in parallel. The programs are private copies, which later builds do not change.
///
/// # Errors
/// Those of the stages.
pub fn all<'a>(cache: &'a Cache, request: &Request, kernels: &[Kernel]) -> Result<Built<'a>> {
    static COPIES: AtomicU32 = AtomicU32::new(0);
    let mut built = in_place(cache, request, kernels)?;
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let name = format!("run/{}.programs.{number}", std::process::id());
    let copies = Temporary::new(cache.file(name))?;
    built.programs = built.programs.copied(copies.path())?;
    built.copies = Some(Arc::new(copies));
    Ok(built)
}

/// Like [`all`], with the programs at cargo's own path.
///
/// # Errors
/// Those of the stages.
pub fn in_place<'a>(cache: &'a Cache, request: &Request, kernels: &[Kernel]) -> Result<Built<'a>> {
    let base = base(cache, request)?;
    let workspace = workspace();
    let (stock, model, debug, programs) = std::thread::scope(|scope| {
        let wanted = |kernel| kernels.contains(&kernel);
        let (base, workspace) = (&base, &workspace);
        // The stage that takes longest comes first.
        let program = |kernel: Kernel, variant: &'static Variant| {
            wanted(kernel).then(|| scope.spawn(|| program(cache, base, workspace, variant)))
        };
        let debug = program(Kernel::Debug, &um_kernel::DEBUG);
        let model = program(Kernel::Model, &um_kernel::MODEL);
        let stock = wanted(Kernel::Stock).then(|| scope.spawn(|| stock(cache, base, workspace)));
        let programs = programs(cache, base, workspace);
        (
            stock.map(joined),
            model.map(joined),
            debug.map(joined),
            programs,
        )
    });
    let (stock, model) = (stock.transpose()?, model.transpose()?);
    let (debug, (ebpf, programs)) = (debug.transpose()?, programs?);
    Ok(Built {
        cache,
        base,
        stock,
        model,
        debug,
        ebpf,
        programs,
        copies: None,
        packages: None,
        installed: None,
    })
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The eBPF programs, if the suite has the tools to build them, and the guest's programs, in which
/// they are embedded.
///
/// # Errors
/// Those of the stages.
pub fn programs(cache: &Cache, base: &Base, workspace: &Path) -> Result<(Option<Entry>, Programs)> {
    let ebpf = match bpf_linker::ensure(cache, &base.resolution, &base.rootfs)? {
        Some(tools) => Some(ebpf::ensure(cache, &base.rootfs, &tools, workspace)?),
        None => None,
    };
    let object = ebpf.as_ref().map(|it| ebpf::in_target(it, workspace));
    let object = object.transpose()?;
    let programs = programs::build(workspace, object.as_deref(), &cache.log("programs")?)?;
    Ok((ebpf, programs))
}

/// The stock kernel's Rust metadata, and weft's modules for it.
fn stock(cache: &Cache, base: &Base, workspace: &Path) -> Result<Stock> {
    let (resolution, release) = (&base.resolution, &base.resolution.kernel);
    let metadata = metadata::ensure(cache, resolution, &base.rootfs)?;
    let target = modules::Target {
        stage: &modules::STAGE,
        release,
        compiler: &resolution.compiler,
        inputs: [metadata.hash(), base.boot.hash()],
        enter: metadata::grafted(resolution, &base.rootfs, &metadata)
            .with(base.boot.path(), boot::PLACE),
        build: format!("/usr/lib/modules/{release}/build"),
        modules: format!("{}/tree/usr/lib/modules/{release}", boot::PLACE),
        arguments: &["WEFT_UNION=y".to_owned()],
        may_panic: false,
    };
    let modules = modules::ensure(cache, &target, &workspace.join(modules::SOURCES))?;
    Ok(Stock { metadata, modules })
}

/// A kernel that is a program, and weft's modules for it.
fn program(cache: &Cache, base: &Base, workspace: &Path, variant: &Variant) -> Result<UmKernel> {
    let kernel = um_kernel::ensure(variant, cache, &base.resolution, &base.rootfs, workspace)?;
    let arguments = kernel.module_arguments();
    let target = |stage| modules::Target {
        stage,
        release: &kernel.release,
        compiler: &kernel.compiler,
        inputs: [kernel.entry.hash(), base.rootfs.hash()],
        enter: kernel.enter(&base.rootfs),
        build: format!("{}/object", um_kernel::PLACE),
        modules: format!("{}/modules", um_kernel::PLACE),
        arguments: &arguments,
        may_panic: variant.debug,
    };
    let build = |stage, folder| modules::ensure(cache, &target(stage), &workspace.join(folder));
    let modules = build(variant.modules, modules::SOURCES)?;
    let control = match variant.debug {
        true => Some(build(&modules::CONTROL_STAGE, modules::CONTROL_SOURCES)?),
        false => None,
    };
    Ok(UmKernel {
        kernel,
        modules,
        control,
    })
}

impl Built<'_> {
    /// The same with another kernel of the model clock, for which the same modules are.
    pub fn with_model_kernel(mut self, kernel: um_kernel::Kernel) -> Self {
        if let Some(model) = &mut self.model {
            model.kernel = kernel;
        }
        self
    }

    /// The stock kernel's results.
    ///
    /// # Errors
    /// If it was not requested.
    pub fn stock(&self) -> Result<&Stock> {
        self.stock
            .as_ref()
            .context("the stock kernel was not built for")
    }

    /// A kernel that is a program.
    ///
    /// # Errors
    /// If it was not requested.
    pub fn program(&self, kernel: Kernel) -> Result<&UmKernel> {
        let built = match kernel {
            Kernel::Stock => None,
            Kernel::Model => self.model.as_ref(),
            Kernel::Debug => self.debug.as_ref(),
        };
        built.with_context(|| format!("the kernel {kernel:?} was not built"))
    }

    /// A kernel's release.
    ///
    /// # Errors
    /// If the kernel was not built.
    pub fn release(&self, kernel: Kernel) -> Result<&str> {
        self.modules(kernel).map(|(release, _)| release)
    }

    /// A kernel's release and weft's modules for it.
    pub fn modules(&self, kernel: Kernel) -> Result<(&str, &Entry)> {
        if kernel == Kernel::Stock {
            return Ok((&self.base.resolution.kernel, &self.stock()?.modules));
        }
        let program = self.program(kernel)?;
        Ok((&program.kernel.release, &program.modules))
    }

    /// The root filesystem with the boot files mounted.
    ///
    /// # Errors
    /// If the kernel was not built.
    pub fn with_boot(&self, kernel: Kernel) -> Result<Enter> {
        let root = Enter::new(&self.base.rootfs.path().join("root"));
        Ok(match kernel {
            Kernel::Stock => root.with(self.base.boot.path(), boot::PLACE),
            Kernel::Model | Kernel::Debug => self.program(kernel)?.kernel.enter(&self.base.rootfs),
        })
    }

    /// Copies weft's own part into a directory tree: the stock kernel's modules (without their
    /// index), plugin, programs.
    ///
    /// # Errors
    /// If a file cannot be copied.
    pub fn add_to_tree(&self, tree: &Path) -> Result<()> {
        let modules = tree.join(format!(
            "usr/lib/modules/{}/updates",
            self.base.resolution.kernel
        ));
        let (programs, plugins) = (tree.join("usr/bin"), tree.join(PLUGINS));
        for directory in [&modules, &programs, &plugins] {
            fs::create_dir_all(directory)?;
        }
        for module in modules::files(self.stock()?.modules.path())? {
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
        // `tc` looks for a library with each name.
        for kind in weft_mechanisms::QDISCS.iter().map(|qdisc| qdisc.kind) {
            fs::copy(&self.programs.plugin, plugins.join(format!("q_{kind}.so")))?;
        }
        Ok(())
    }

    /// Adds Debian packages to guests that start from now on.
    ///
    /// # Errors
    /// Those of [`packages::ensure`].
    pub fn add_packages(&mut self, names: &[String]) -> Result<()> {
        if !names.is_empty() {
            let Base {
                resolution,
                rootfs,
                boot,
                ..
            } = &self.base;
            let packages = packages::ensure(self.cache, resolution, rootfs, boot, names)?;
            self.packages = Some(packages);
        }
        Ok(())
    }

    /// The parts of the initramfs that are not weft's, in order: the constant part, packages.
    pub fn foreign_initramfs(&self) -> Vec<PathBuf> {
        let packages = self.packages.as_ref().map(packages::initramfs);
        std::iter::once(self.base.boot.path().join(boot::INITRAMFS))
            .chain(packages)
            .collect()
    }

    /// Adds the plugin under each name that `tc` looks for.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn add_plugin(&self, archive: &mut cpio::Archive) -> Result<()> {
        let plugin = fs::read(&self.programs.plugin)?;
        for kind in weft_mechanisms::QDISCS.iter().map(|qdisc| qdisc.kind) {
            archive.file(&format!("{PLUGINS}/q_{kind}.so"), 0o755, &plugin)?;
        }
        Ok(())
    }

    /// Adds weft's own part: modules with their index, plugin, programs.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn add_to(&self, archive: &mut cpio::Archive, kernel: Kernel) -> Result<()> {
        archive.file("init", 0o755, &fs::read(&self.programs.init)?)?;
        if let Some(installed) = &self.installed {
            return archive.tree(installed, "");
        }
        for program in self.programs.in_path() {
            let name = program.file_name().unwrap_or_default().to_string_lossy();
            archive.file(&format!("usr/bin/{name}"), 0o755, &fs::read(program)?)?;
        }
        self.add_plugin(archive)?;
        let (release, modules) = self.modules(kernel)?;
        let directory = format!("usr/lib/modules/{release}");
        archive.tree(&modules.path().join("index"), &format!("{directory}/"))?;
        archive.tree(
            &modules.path().join("updates"),
            &format!("{directory}/updates/"),
        )?;
        if kernel == Kernel::Debug
            && let Some(control) = &self.program(kernel)?.control
        {
            archive.tree(&control.path().join("updates"), CONTROL)?;
        }
        Ok(())
    }
}
