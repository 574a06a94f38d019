// SPDX-License-Identifier: MIT OR Apache-2.0

//! Network namespaces, and threads that go into them.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sched::{CloneFlags, setns, unshare};

use crate::error::{Error, Result};

/// The calling thread's network namespace.
pub(crate) const THIS: &str = "/proc/thread-self/ns/net";

/// Puts the calling thread into a new namespace, and gives a descriptor of it.
pub(crate) fn enter_new() -> Result<File> {
    unshare(CloneFlags::CLONE_NEWNET)
        .map_err(|errno| Error::system("making a network namespace", errno))?;
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

/// Does `work` for 0 to `count`, on threads that are nobody else's and end: they may go into any
/// namespace. After an error nothing new is begun, and the first in order is reported.
///
/// Two threads: while one is in the kernel's part that only one may be in at a time (the RTNL), the
/// other prepares, or is in a part that needs no such lock. More gain nothing.
pub(crate) fn on_threads<T: Send>(
    count: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    const THREADS: usize = 2;
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return done;
            }
            let result = work(index);
            if result.is_err() {
                next.store(count, Ordering::Relaxed);
            }
            done.push((index, result));
        }
    };
    let mut done: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(worker)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().flat_map(join).collect()
    });
    done.sort_by_key(|&(index, _)| index);
    done.into_iter().map(|(_, result)| result).collect()
}
