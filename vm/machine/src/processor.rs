// SPDX-License-Identifier: MIT OR Apache-2.0

//! The processor to which a guest of the model clock is bound.
//!
//! The guest's kernel and its processes never run at the same time, and wake each other at each
//! system call. Between different processors that costs from a fifth of the run to several times as
//! much, depending on the host. The host's scheduler would also often put two guests on one
//! processor while another is idle. So each guest is bound to a processor, of its own if possible:
//! guests share one only if all have a guest.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use nix::fcntl::{Flock, FlockArg};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// The folder of the cache with the processors' locks.
pub const PLACE: &str = "processors";

/// Guests that are bound to one processor at most.
const MOST: usize = 16;

/// A processor, held until this is dropped or the process ends for any reason.
pub struct Held {
    /// Its number.
    pub number: usize,
    _lock: Flock<File>,
}

/// A processor that this process may use, among those that the fewest guests hold. `None`: all are
/// held by as many guests as possible, so the host decides where the guest runs.
///
/// # Errors
/// If `folder` is not writable.
pub fn hold(folder: &Path) -> Result<Option<Held>> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let allowed = sched_getaffinity(Pid::this()).context("asking for the processors")?;
    let is_allowed = |&number: &usize| allowed.is_set(number) == Ok(true);
    for place in 0..MOST {
        for number in (0..CpuSet::count()).filter(is_allowed) {
            let path = folder.join(format!("{number}.{place}"));
            let file = File::create(&path).with_context(|| format!("making {}", path.display()))?;
            if let Ok(lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                return Ok(Some(Held {
                    number,
                    _lock: lock,
                }));
            }
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
    fn guests_share_a_processor_only_if_each_has_one() {
        let name = format!("weft-processors-{}", std::process::id());
        let folder = Temporary::new(std::env::temp_dir().join(name)).unwrap();
        let hold = || hold(folder.path()).unwrap();
        let processors = parallel::processors();
        let mut held: Vec<Held> = std::iter::from_fn(hold).collect();
        assert_eq!(held.len(), MOST * processors);
        for round in held.chunks(processors) {
            let mut numbers: Vec<usize> = round.iter().map(|held| held.number).collect();
            numbers.dedup();
            assert_eq!(numbers.len(), processors, "{numbers:?}");
        }
        // When a guest ends, the next one gets its place.
        let gone = held.swap_remove(processors / 2).number;
        let next = hold();
        assert_eq!(next.as_ref().map(|held| held.number), Some(gone));
        assert!(hold().is_none());
    }
}
