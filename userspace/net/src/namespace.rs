// SPDX-License-Identifier: MIT OR Apache-2.0

//! Network namespaces, and threads that enter them.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::error::{Error, Result, exhausted};

/// The calling thread's network namespace.
pub(crate) const THIS: &str = "/proc/thread-self/ns/net";

/// Moves the calling thread into new namespaces of the kinds in `flags`.
pub(crate) fn make(flags: CloneFlags) -> Result<()> {
    unshare(flags).map_err(|errno| match errno {
        Errno::ENOSPC => Error::Invalid(exhausted(flags)),
        _ => Error::system("making a namespace", errno),
    })
}

/// Moves the calling thread into a new network namespace, and returns a descriptor of it.
pub(crate) fn enter_new() -> Result<File> {
    make(CloneFlags::CLONE_NEWNET)?;
    this().map_err(|error| Error::system("opening a network namespace", error))
}

pub(crate) fn this() -> io::Result<File> {
    File::open(THIS)
}

pub(crate) fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| Error::system(format!("opening {}", path.display()), error))
}

/// Moves the calling thread into `namespace` permanently.
pub(crate) fn enter(namespace: &File) -> Result<()> {
    setns(namespace, CloneFlags::CLONE_NEWNET)
        .map_err(|errno| Error::system("entering a network namespace", errno))
}

/// Runs `f` inside; then the thread returns.
pub(crate) fn visit<T>(namespace: &File, f: impl FnOnce() -> T) -> Result<T> {
    let home = this().map_err(|error| Error::system("opening a network namespace", error))?;
    // A thread that cannot return, for example from another user namespace, must not go.
    enter(&home)?;
    let home = Home(home);
    enter(namespace)?;
    let result = f();
    drop(home);
    Ok(result)
}

/// Brings the thread back, even after a panic.
struct Home(File);

impl Drop for Home {
    fn drop(&mut self) {
        setns(&self.0, CloneFlags::CLONE_NEWNET).expect("returning to the first namespace");
    }
}

/// Raises the number of open files by `files`, within the process's hard limit.
pub(crate) fn allow_files(files: usize) -> Result<()> {
    /// Files that a process otherwise has open.
    const OTHERS: u64 = 64;
    let limit = |errno| Error::system("reading the limit of open files", errno);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(limit)?;
    let files = files as u64 + OTHERS;
    if soft >= files {
        return Ok(());
    }
    if hard < files {
        return Err(Error::Invalid(format!(
            "this number of nodes needs {files} open files and the limit is {hard}; raise it with \
             `ulimit -Hn {files}`"
        )));
    }
    setrlimit(Resource::RLIMIT_NOFILE, files, hard).map_err(limit)
}

/// Runs `f` on a separate thread that then ends: it may enter any namespace.
///
/// One thread is enough to build a testbed: the kernel does nearly all of the work, most of it
/// under a lock that only one thread can hold (the RTNL). Two threads were no faster.
pub(crate) fn on_thread<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(f);
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
