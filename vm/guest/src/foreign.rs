// SPDX-License-Identifier: MIT OR Apache-2.0

//! Another tree as the root of the command: the host's files, or those of an unpacked container.
//!
//! hostfs shows them read-only; an overlay takes what is written into the guest's memory. The
//! guest's own root is in there as `/.weft`, and its programs are in the command's path, each with
//! the libraries that it was built for: the tree may have others.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use nix::mount::{MsFlags, mount};
use weft_guest::request::{Foreign, HANDED};

use crate::mounts::OUT;

/// Where the tree and what makes it writable are in the guest's own root.
const PLACE: &str = "/foreign";
/// The guest's own root in the tree.
const OWN: &str = "/.weft";
/// Programs of the guest's that a command finds before those of the tree.
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
/// What runs a program with its own libraries, and where these and the plugins of `tc` are.
const LOADER: &str = "/usr/lib64/ld-linux-x86-64.so.2";
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
/// The path of the command, behind [`PROGRAMS`].
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What of the guest's own root is the tree's, too.
const SHARED: [&str; 5] = ["/dev", "/proc", "/sys", "/run", OUT];

/// Makes the tree a root, and lets the command have it.
///
/// # Errors
/// Whatever the kernel refuses, with the step's name.
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
        // The host's own directory may be one that this guest cannot read.
        nix::unistd::chdir(directory.as_c_str()).or_else(|_| nix::unistd::chdir(c"/"))?;
        Ok(())
    };
    // SAFETY: between fork and exec there are only system calls on strings that were made before;
    // nothing is allocated and no lock is taken.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, change) };
    Ok(())
}

fn c_path(path: &Path) -> Result<std::ffi::CString> {
    Ok(std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?)
}

/// The tree with what belongs to the guest in it.
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
        // In the tree it may be a link to somewhere else.
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

/// Copies all that is below a folder.
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

/// The folder of what runs the guest's own programs, as the command sees it. `root`: the tree.
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
            // It needs no libraries.
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
