// SPDX-License-Identifier: MIT OR Apache-2.0

//! Another file tree as the root of the command: the host's files, or those of an unpacked
//! container.
//!
//! hostfs shows the tree read-only; an overlay keeps writes in the guest's memory. The guest's own
//! root is in the tree as `/.weft`, and its programs are in the command's path. Each runs with its
//! own libraries, because the tree may have other versions.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use nix::mount::{MsFlags, mount};
use weft_guest::request::{Foreign, HANDED};

use crate::mounts::OUT;

/// The folder of the guest's own root for the tree and its writable layer.
const PLACE: &str = "/foreign";
/// The guest's own root in the tree.
const OWN: &str = "/.weft";
/// Programs of the guest that a command finds before those of the tree.
const PROGRAMS: [&str; 10] = [
    "weft",
    "weft-tag",
    "weft-pase",
    "weft-arbiter",
    "ip",
    "tc",
    "bridge",
    "ss",
    "ethtool",
    "modprobe",
];
/// The loader for the guest's own programs, and the folder of their libraries and `tc`'s plugins.
const LOADER: &str = "/usr/lib64/ld-linux-x86-64.so.2";
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
/// The path of the command, after [`PROGRAMS`].
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Folders of the guest's own root that also appear in the tree.
const SHARED: [&str; 5] = ["/dev", "/proc", "/sys", "/run", OUT];

/// Mounts the tree as a root, and makes it the root of the command.
///
/// # Errors
/// Errors of the kernel, with the step's name.
pub(crate) fn enter(foreign: &Foreign, command: &mut Command) -> Result<()> {
    let root = mounted(foreign)?;
    let programs = wrapped(&root)?;
    let path = format!("{}:{PATH}", programs.display());
    command
        .env("PATH", path)
        .env("TC_LIB_DIR", format!("{OWN}{LIBRARIES}/tc"));
    let directory = Path::new("/").join(&foreign.directory);
    let root = c_path(&root)?;
    let directory = c_path(&directory)?;
    let change = move || {
        nix::unistd::chroot(root.as_c_str())?;
        // The guest may have no permission to read the host's current directory.
        nix::unistd::chdir(directory.as_c_str()).or_else(|_| nix::unistd::chdir(c"/"))?;
        Ok(())
    };
    // SAFETY: between fork and exec there are only system calls on strings that were created
    // before; they allocate nothing and take no lock.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, change) };
    Ok(())
}

fn c_path(path: &Path) -> Result<std::ffi::CString> {
    Ok(std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?)
}

/// Mounts the tree together with the guest's own folders.
fn mounted(foreign: &Foreign) -> Result<PathBuf> {
    let [lower, memory, root] = ["lower", "memory", "root"].map(|it| Path::new(PLACE).join(it));
    for folder in [&lower, &memory, &root] {
        make(folder)?;
    }
    let shown = foreign.root.display().to_string();
    let what = || format!("mounting the host's {shown}");
    mounting("hostfs", &lower, MsFlags::MS_RDONLY, &shown).with_context(what)?;
    mounting("tmpfs", &memory, MsFlags::empty(), "mode=755")?;
    let [upper, work] = ["upper", "work"].map(|it| memory.join(it));
    for folder in [&upper, &work] {
        make(folder)?;
    }
    let [lower, upper, work] = [&lower, &upper, &work].map(|path| path.display());
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    mounting("overlay", &root, MsFlags::empty(), &options).with_context(what)?;
    let shared = SHARED.map(|from| (from, from));
    for (from, to) in shared.into_iter().chain([("/", OWN)]) {
        let place = root.join(to.trim_start_matches('/'));
        // In the tree it may be a link to another place.
        if place.is_symlink() || !place.is_dir() {
            let _ = fs::remove_file(&place);
            make(&place)?;
        }
        let deep = match to {
            OWN => MsFlags::empty(),
            _ => MsFlags::MS_REC,
        };
        let none: Option<&str> = None;
        mount(Some(from), &place, none, MsFlags::MS_BIND | deep, none)
            .with_context(|| format!("showing {from} as {}", place.display()))?;
    }
    let handed = Path::new("/").join(HANDED);
    if handed.exists() {
        copy(&handed, &root)?;
    }
    Ok(root)
}

/// Copies everything below a folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            make(&to)?;
            copy(&from, &to)?;
        } else {
            fs::copy(&from, &to).with_context(|| format!("writing {}", to.display()))?;
        }
    }
    Ok(())
}

fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))
}

fn mounting(kind: &str, place: &Path, flags: MsFlags, options: &str) -> Result<()> {
    mount(Some(kind), place, Some(kind), flags, Some(options))
        .with_context(|| format!("mounting {kind} on {}", place.display()))
}

/// The folder of wrappers for the guest's own programs, as the command sees it. `root`: the tree.
fn wrapped(root: &Path) -> Result<PathBuf> {
    let own = Path::new(OWN);
    let folder = Path::new(PLACE).join("bin");
    make(&folder)?;
    if !root.join("bin/sh").exists() {
        bail!(
            "this tree has no /bin/sh, which runs weft's own programs; --root none is weft's tree"
        );
    }
    for name in PROGRAMS {
        let program = Path::new("/usr/bin").join(name);
        if !program.exists() {
            continue;
        }
        let shown = own.join(format!("usr/bin/{name}"));
        let place = folder.join(name);
        if name == "weft" {
            // weft needs no libraries.
            symlink(&shown, &place)?;
            continue;
        }
        let script = format!(
            "#!/bin/sh\nexec {OWN}{LOADER} --library-path {OWN}{LIBRARIES} --argv0 {name} {} \"$@\"\n",
            shown.display()
        );
        fs::write(&place, script).with_context(|| format!("writing {}", place.display()))?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755))?;
    }
    Ok(own.join(folder.strip_prefix("/")?))
}
