// SPDX-License-Identifier: MIT OR Apache-2.0

//! Network namespaces, and threads that go into them.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::error::{Error, Result, exhausted};

/// The calling thread's network namespace.
pub(crate) const THIS: &str = "/proc/thread-self/ns/net";

/// Puts the calling thread into new namespaces of the kinds in `flags`.
pub(crate) fn make(flags: CloneFlags) -> Result<()> {
    unshare(flags).map_err(|errno| match errno {
        Errno::ENOSPC => Error::Invalid(exhausted(flags)),
        _ => Error::system("making a namespace", errno),
    })
}

/// Puts the calling thread into a new network namespace, and gives a descriptor of it.
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

/// Puts the calling thread into `namespace` for good.
pub(crate) fn enter(namespace: &File) -> Result<()> {
    setns(namespace, CloneFlags::CLONE_NEWNET)
        .map_err(|errno| Error::system("entering a network namespace", errno))
}

/// Runs `f` inside; then the thread is where it was.
pub(crate) fn visit<T>(namespace: &File, f: impl FnOnce() -> T) -> Result<T> {
    let home = this().map_err(|error| Error::system("opening a network namespace", error))?;
    // Whoever may not come back, as from another user namespace, is not to go.
    enter(&home)?;
    let home = Home(home);
    enter(namespace)?;
    let result = f();
    drop(home);
    Ok(result)
}

/// Brings the thread back, also from a panic.
struct Home(File);

impl Drop for Home {
    fn drop(&mut self) {
        setns(&self.0, CloneFlags::CLONE_NEWNET).expect("returning to the first namespace");
    }
}

/// Lets the process open `files` more files, if its hard limit does.
pub(crate) fn allow_files(files: usize) -> Result<()> {
    /// What a process has open otherwise.
    const OTHERS: u64 = 64;
    let limit = |errno| Error::system("reading the limit of open files", errno);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(limit)?;
    let files = files as u64 + OTHERS;
    if soft >= files {
        return Ok(());
    }
    if hard < files {
        return Err(Error::Invalid(format!(
            "so many nodes need {files} open files and the limit is {hard}; raise it with \
             `ulimit -Hn {files}`"
        )));
    }
    setrlimit(Resource::RLIMIT_NOFILE, files, hard).map_err(limit)
}

/// Runs `f` on a thread that is nobody else's and ends: it may go into any namespace.
///
/// One thread is enough to build a testbed: the kernel does nearly all of the work, and most of
/// that in a part that only one may be in at a time (the RTNL). Two were no faster.
pub(crate) fn on_thread<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(f);
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
