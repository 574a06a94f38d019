// SPDX-License-Identifier: MIT OR Apache-2.0

//! The processor to which a guest of the model clock is bound.
//!
//! The guest's kernel and its processes never run at the same time, and wake each other at each
//! system call. Between different processors that costs a fifth of the run. The host's scheduler
//! would also often put two guests on one processor while another is idle. So each guest gets a
//! processor of its own.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use nix::fcntl::{Flock, FlockArg};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// The folder of the cache with the processors' locks.
pub const PLACE: &str = "processors";

/// A processor, held until this is dropped or the process ends for any reason.
pub struct Held {
    /// Its number.
    pub number: usize,
    _lock: Flock<File>,
}

/// A processor that this process may use and that is not held. `None`: all are held, so the host
/// decides where the guest runs.
///
/// # Errors
/// If `folder` is not writable.
pub fn hold(folder: &Path) -> Result<Option<Held>> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let allowed = sched_getaffinity(Pid::this()).context("asking for the processors")?;
    for number in (0..CpuSet::count()).filter(|&number| allowed.is_set(number) == Ok(true)) {
        let path = folder.join(number.to_string());
        let file = File::create(&path).with_context(|| format!("making {}", path.display()))?;
        if let Ok(lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            return Ok(Some(Held {
                number,
                _lock: lock,
            }));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Temporary;
    use crate::parallel;

    #[test]
    fn each_guest_has_its_own_processor_until_it_ends() {
        let name = format!("weft-processors-{}", std::process::id());
        let folder = Temporary::new(std::env::temp_dir().join(name)).unwrap();
        let hold = || hold(folder.path()).unwrap();
        let mut held: Vec<Held> = std::iter::from_fn(hold).collect();
        assert_eq!(held.len(), parallel::processors());
        let mut numbers: Vec<usize> = held.iter().map(|held| held.number).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), held.len(), "{numbers:?}");
        // When a guest ends, the next one gets its processor.
        let gone = held.swap_remove(0).number;
        assert_eq!(hold().map(|held| held.number), Some(gone));
    }
}
