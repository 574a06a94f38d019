// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs commands inside the root filesystem, as root or as an unprivileged user.
//!
//! Both get their own mount and process namespaces, so that no mount and no process can remain. An
//! unprivileged user also gets a user namespace that maps the user to root, and the subordinate ids
//! (`/etc/subuid`) to the others.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::base::process;

const SCRIPT: &str = include_str!("enter.sh");

/// Whether this process is root.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// `unshare` with the namespaces for `arguments`; it ends with this process.
pub fn unshared() -> Command {
    // pdeathsig: if xtask itself is killed, its processes end.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare"]);
    command.args([
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "--kill-child",
    ]);
    if !is_root() {
        command.args(["--map-root-user", "--map-auto"]);
    }
    command.arg("--");
    command
}

/// A root filesystem and the files mounted in it.
#[derive(Clone)]
pub struct Enter {
    root: PathBuf,
    layers: OsString,
    binds: Vec<OsString>,
}

impl Enter {
    /// `root` itself is read-only; `/tmp`, `/run` and `/mnt` are empty and writable.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            layers: OsString::new(),
            binds: Vec::new(),
        }
    }

    /// Like [`new`](Self::new), but writable: changes go to `data` in the directory `upper`, and
    /// the directories `between` are layers over the root filesystem.
    ///
    /// # Errors
    /// If the directories in `upper` cannot be created.
    pub fn layered(root: &Path, between: &[&Path], upper: &Path) -> Result<Self> {
        let (data, work) = (upper.join("data"), upper.join("work"));
        std::fs::create_dir_all(&data)?;
        std::fs::create_dir_all(&work)?;
        let mut entered = Self::below(root, between);
        entered.layers.push(",upperdir=");
        entered.layers.push(data);
        entered.layers.push(",workdir=");
        entered.layers.push(work);
        Ok(entered)
    }

    /// Like [`new`](Self::new), with the directories `layers`, at least one, as layers over the
    /// root filesystem.
    pub fn below(root: &Path, layers: &[&Path]) -> Self {
        let mut options = OsString::new();
        if !is_root() {
            // An unprivileged overlay cannot store its metadata in trusted attributes.
            options.push("userxattr,");
        }
        options.push("lowerdir=");
        for layer in layers {
            options.push(layer);
            options.push(":");
        }
        options.push(root);
        Self {
            layers: options,
            ..Self::new(root)
        }
    }

    fn bind(mut self, how: &str, from: &Path, to: &str) -> Self {
        self.binds.extend([
            how.into(),
            from.as_os_str().to_owned(),
            to.trim_start_matches('/').into(),
        ]);
        self
    }

    /// Mounts a file or directory of the host at `to`, read-only.
    pub fn with(self, from: &Path, to: &str) -> Self {
        self.bind("ro", from, to)
    }

    /// Mounts a file or directory of the host at `to`, writable.
    pub fn with_writable(self, from: &Path, to: &str) -> Self {
        self.bind("rw", from, to)
    }

    /// A command that runs `program` inside; the caller appends its arguments.
    pub fn command(&self, program: &str) -> Command {
        let mut command = unshared();
        command
            .args(["sh", "-c", SCRIPT, "enter.sh"])
            .arg(&self.root)
            .arg(&self.layers)
            .args(&self.binds);
        command.args(["--", program]);
        // The host's environment must not influence builds. Only the terminal's name is passed on.
        let terminal = std::env::var_os("TERM").unwrap_or_default();
        command.env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.envs([("HOME", "/root"), ("LC_ALL", "C.UTF-8")]);
        command.env("TERM", terminal);
        command
    }

    /// Like [`command`](Self::command), for a shell script that stops at the first failure.
    pub fn script(&self, script: &str) -> Command {
        let mut command = self.command("/bin/sh");
        command.args(["-euc", script, "sh"]);
        command
    }
}

/// A path of /proc/self/mounts, where `\040` is a space.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| first == b'\\');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

/// A mount point at or below a path, according to /proc/self/mounts.
fn mounted_in(mounts: &str, path: &Path) -> Option<PathBuf> {
    let mut points = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .map(unescaped);
    points.find(|point| point.starts_with(path))
}

/// Removes a directory tree, even if its files belong to the user's subordinate ids.
///
/// # Errors
/// If something cannot be removed.
pub fn remove_tree(path: &Path) -> Result<()> {
    // A mount inside it belongs to another process.
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    if let Some(mount) = mounted_in(&mounts, path) {
        bail!("{} is a mount point; umount it first", mount.display());
    }
    let first = std::fs::remove_dir_all(path);
    match first {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) if is_root() => {
            return Err(error).with_context(|| format!("removing {}", path.display()));
        }
        Err(_) => {}
    }
    // Without `process`, because the interrupt handler calls this function.
    let output = unshared().args(["rm", "-rf", "--"]).arg(path).output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "removing {}: {complaint}",
        path.display()
    );
    Ok(())
}

/// Checks that an unprivileged user can create the namespaces.
///
/// # Errors
/// The kernel's error, with the cure.
pub fn check() -> Result<()> {
    let result = process::capture(unshared().arg("true"));
    match result {
        Ok(_) => Ok(()),
        Err(error) if is_root() => Err(error.context("this root may not make mount namespaces")),
        Err(error) => {
            let user = std::env::var("USER").unwrap_or_else(|_| "USER".into());
            bail!(
                "{error:#}\nAn unprivileged build needs user namespaces and subordinate ids. Check that\n\
                 `sysctl user.max_user_namespaces` is not 0 and that /etc/subuid and /etc/subgid have a\n\
                 line for you (`sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 \
                 {user}`), or run as root."
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_names_every_bind_before_the_program() {
        let enter = Enter::new(Path::new("/r"))
            .with(Path::new("/a"), "/mnt/a")
            .with_writable(Path::new("/b"), "/mnt/b");
        let command = enter.command("make");
        let words: Vec<_> = command
            .get_args()
            .map(|word| word.to_string_lossy())
            .collect();
        let tail = &words[words.len() - 11..];
        assert_eq!(
            tail,
            [
                "enter.sh", "/r", "", "ro", "/a", "mnt/a", "rw", "/b", "mnt/b", "--", "make"
            ]
        );
    }

    #[test]
    fn a_mount_with_any_name_is_found() {
        let mounts = "proc /proc proc rw 0 0\ntmpfs /a\\040b/c\\134d tmpfs rw 0 0\ntmpfs /\\303\\244/x tmpfs rw 0 0\n";
        let found = |path: &str| mounted_in(mounts, Path::new(path));
        assert_eq!(found("/proc"), Some("/proc".into()));
        assert_eq!(found("/a b"), Some(r"/a b/c\d".into()));
        assert_eq!(found("/ä"), Some("/ä/x".into()));
        assert_eq!(found("/a"), None);
        assert_eq!(unescaped(r"\0"), Path::new(r"\0"));
    }

    #[test]
    fn a_tree_is_removed_and_a_missing_one_is_no_error() {
        let path = std::env::temp_dir().join(format!("weft-tree-{}", std::process::id()));
        std::fs::create_dir_all(path.join("a/b")).unwrap();
        remove_tree(&path).unwrap();
        assert!(!path.exists());
        remove_tree(&path).unwrap();
    }
}
