// SPDX-License-Identifier: MIT OR Apache-2.0

//! The places of a testbed in the file system, from which its state is derived.
//!
//! | path                           | what                                                       |
//! |--------------------------------|------------------------------------------------------------|
//! | `/run/weft/TESTBED`            | a separate tmpfs: one unmount removes everything           |
//! | `/run/weft/TESTBED/ns/NODE`    | the node's network namespace, mounted                      |
//! | `/run/weft/TESTBED/hosts`      | what its hosts see as `/etc/hosts`                         |
//! | `/run/weft/TESTBED/inside-HOST.sh` | the script for a host that is a separate machine       |
//! | `/run/weft/TESTBED/log/*.log`  | the output of its processes                                |
//! | `/run/weft/TESTBED/record.json`| its description; exists only when it is complete           |
//! | `/run/netns/weft-TESTBED-NODE` | a symbolic link to the namespace, for `ip netns`           |
//!
//! A namespace of that name mounted in `/run/netns` itself, as by `ip netns add`, also belongs to
//! the testbed.
//!
//! Reason for the tmpfs: an unmount makes the kernel wait for all processors, and a tree of mounts
//! takes no longer than one mount. The namespaces are then released at the same moment, so the
//! kernel, which removes all released ones at once, does that once.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MntFlags, umount2};
use weft_words::order::natural;

use crate::error::{Error, Result};
use crate::plan::{namespace, prefix};

const NAMESPACES: &str = "/run/netns";
const RUNTIME: &str = "/run/weft";

/// The paths of one testbed.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    testbed: String,
}

impl Layout {
    pub(crate) fn new(testbed: &str) -> Self {
        Self {
            testbed: testbed.to_owned(),
        }
    }

    pub(crate) fn directory(&self) -> PathBuf {
        Path::new(RUNTIME).join(&self.testbed)
    }

    pub(crate) fn namespaces(&self) -> PathBuf {
        self.directory().join("ns")
    }

    pub(crate) fn hosts(&self) -> PathBuf {
        self.directory().join("hosts")
    }

    /// The script for a host that is a separate machine.
    pub(crate) fn inside(&self, host: &str) -> PathBuf {
        self.directory().join(format!("inside-{host}.sh"))
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.directory().join("log")
    }

    pub(crate) fn testbed(&self) -> &str {
        &self.testbed
    }

    pub(crate) fn record(&self) -> PathBuf {
        self.directory().join("record.json")
    }

    /// The namespace's name for `ip netns`.
    pub(crate) fn name(&self, node: &str) -> PathBuf {
        Path::new(NAMESPACES).join(namespace(&self.testbed, node))
    }

    /// The nodes with named namespaces, sorted.
    pub(crate) fn nodes(&self) -> Result<Vec<String>> {
        let prefix = prefix(&self.testbed);
        let mut nodes: Vec<String> = entries(Path::new(NAMESPACES))?
            .iter()
            .filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned))
            .collect();
        nodes.sort_by(|a, b| natural(a).cmp(&natural(b)));
        Ok(nodes)
    }

    /// Whether any part of it exists.
    pub(crate) fn exists(&self) -> Result<bool> {
        Ok(self.directory().exists() || !self.nodes()?.is_empty())
    }

    /// Removes all names of the testbed; the kernel then removes unused objects. Any part of the
    /// testbed may be missing.
    pub(crate) fn remove(&self) -> Result<()> {
        let directory = self.directory();
        unmount(&directory)?;
        let tried = |path: &Path, result: io::Result<()>| match result {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::system(format!("removing {}", path.display()), error))
            }
            _ => Ok(()),
        };
        for node in self.nodes()? {
            let name = self.name(&node);
            if !name.is_symlink() {
                unmount(&name)?;
            }
            tried(&name, fs::remove_file(&name))?;
        }
        tried(&directory, fs::remove_dir_all(&directory))
    }
}

/// Detaches all mounts there, in use or not.
fn unmount(path: &Path) -> Result<()> {
    loop {
        match umount2(path, MntFlags::MNT_DETACH) {
            Ok(()) => {}
            // Not mounted, or does not exist.
            Err(Errno::EINVAL | Errno::ENOENT) => return Ok(()),
            Err(errno) => {
                return Err(Error::system(
                    format!("unmounting {}", path.display()),
                    errno,
                ));
            }
        }
    }
}

/// The names of all testbeds of which any part exists, sorted.
pub(crate) fn testbeds() -> Result<Vec<String>> {
    let mut names = entries(Path::new(RUNTIME))?;
    for name in entries(Path::new(NAMESPACES))? {
        if let Some((testbed, _)) = name
            .strip_prefix("weft-")
            .and_then(|rest| rest.split_once('-'))
        {
            names.push(testbed.to_owned());
        }
    }
    names.retain(|name| crate::plan::check_name(name).is_ok());
    names.sort();
    names.dedup();
    Ok(names)
}

pub(crate) fn entries(directory: &Path) -> Result<Vec<String>> {
    let reading = || format!("reading {}", directory.display());
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| Error::system(reading(), error))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Error::system(reading(), error))?;
        names.extend(entry.file_name().into_string());
    }
    Ok(names)
}

/// Creates a directory that everybody may read; it may already exist.
pub(crate) fn make_directory(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(Error::system(format!("making {}", path.display()), error))
        }
        _ => Ok(()),
    }
}

/// Creates the directory of named namespaces.
pub(crate) fn make_names() -> Result<()> {
    make_directory(Path::new(NAMESPACES))
}

/// As long as it lives, no other process builds or removes a testbed. It ends with the process.
pub(crate) struct Lock {
    _directory: Flock<File>,
}

impl Lock {
    /// Waits for the lock.
    pub(crate) fn acquire() -> Result<Self> {
        let path = Path::new(RUNTIME);
        let locking = |error: io::Error| Error::system(format!("locking {RUNTIME}"), error);
        loop {
            make_directory(path)?;
            let directory = match File::open(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                directory => directory.map_err(locking)?,
            };
            let directory = Flock::lock(directory, FlockArg::LockExclusive)
                .map_err(|(_, errno)| locking(errno.into()))?;
            // The last holder may have removed it meanwhile.
            let same = |there: fs::Metadata| {
                directory
                    .metadata()
                    .is_ok_and(|here| here.ino() == there.ino())
            };
            if fs::metadata(path).is_ok_and(same) {
                return Ok(Self {
                    _directory: directory,
                });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Fails as long as there are testbeds.
        let _ = fs::remove_dir(RUNTIME);
    }
}
