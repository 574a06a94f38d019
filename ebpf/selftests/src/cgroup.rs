// SPDX-License-Identifier: MIT OR Apache-2.0

//! A cgroup for one test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::mount::{MsFlags, mount};

const PATIENCE_MS: u32 = 1000;

/// A cgroup that is removed on drop; this process is in it after [`enter`](Self::enter) until then.
pub(crate) struct Cgroup {
    root: PathBuf,
    path: PathBuf,
}

impl Cgroup {
    pub(crate) fn new() -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let root = root()?;
        let number = NUMBER.fetch_add(1, Relaxed);
        let path = root.join(format!(
            "weft-ebpf-selftests-{}-{number}",
            std::process::id()
        ));
        std::fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Self { root, path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A descriptor of its directory.
    pub(crate) fn directory(&self) -> Result<File> {
        Ok(File::open(&self.path)?)
    }

    /// Moves this process into it: sockets created from now on belong to it.
    pub(crate) fn enter(&self) -> Result<()> {
        move_to(&self.path)
    }

    /// Moves this process out of it.
    pub(crate) fn leave(&self) -> Result<()> {
        move_to(&self.root)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let gone = self.leave().and_then(|()| {
            // A thread that has just ended may still be in it.
            for _ in 0..PATIENCE_MS {
                if std::fs::remove_dir(&self.path).is_ok() {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(std::fs::remove_dir(&self.path)?)
        });
        if let Err(error) = gone {
            eprintln!("# {} is left behind: {error:#}", self.path.display());
        }
    }
}

fn move_to(cgroup: &Path) -> Result<()> {
    let path = cgroup.join("cgroup.procs");
    std::fs::write(&path, std::process::id().to_string())
        .with_context(|| format!("writing {}", path.display()))
}

/// The mount point of cgroup2; mounts it if necessary.
fn root() -> Result<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    let mounted = mounts.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (at, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(at))
    });
    if let Some(root) = mounted {
        return Ok(root);
    }
    let root = std::env::temp_dir().join("weft-cgroup2");
    std::fs::create_dir_all(&root)?;
    mount(
        Some("cgroup2"),
        &root,
        Some("cgroup2"),
        MsFlags::empty(),
        None::<&str>,
    )
    .context("mounting cgroup2")?;
    Ok(root)
}
