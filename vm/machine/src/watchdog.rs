// SPDX-License-Identifier: MIT OR Apache-2.0

//! How long a guest has been silent, without the time for which it waited for a processor: on a
//! busy machine a guest that works may print nothing for long.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time since a guest's last sign of life.
pub struct Watchdog {
    process: u32,
    last: Instant,
    /// What its processes had waited at that time.
    waited: Duration,
}

impl Watchdog {
    /// For the guest that this process runs, with its descendants.
    #[must_use]
    pub fn new(process: u32) -> Self {
        Self {
            process,
            last: Instant::now(),
            waited: Duration::ZERO,
        }
    }

    /// The guest has shown a sign of life.
    pub fn seen(&mut self) {
        self.last = Instant::now();
        self.waited = self.waited_so_far();
    }

    /// Whether it has been silent for longer than this.
    #[must_use]
    pub fn is_silent_for(&self, time: Duration) -> bool {
        let elapsed = self.last.elapsed();
        // Most times need no look at its processes.
        elapsed > time && {
            let waited = self.waited_so_far().saturating_sub(self.waited);
            is_longer(elapsed, waited, time)
        }
    }

    fn waited_so_far(&self) -> Duration {
        waited(Path::new("/proc"), self.process)
    }
}

/// Whether a silence is longer than `time`, apart from what was `waited` in it.
fn is_longer(silence: Duration, waited: Duration, time: Duration) -> bool {
    silence.saturating_sub(waited) > time
}

/// The total time for which the threads of a process and of its descendants were ready to run but
/// had no processor. A total is right, because the threads of a guest take turns. It is zero if the
/// kernel does not count this time.
fn waited(proc: &Path, process: u32) -> Duration {
    let threads = fs::read_dir(proc.join(format!("{process}/task")));
    let threads = threads.into_iter().flatten().flatten();
    let waits = threads.map(|thread| {
        let read = |name: &str| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        // Time on a processor, time ready to run, and the number of turns; times in ns.
        let schedule = read("schedstat");
        let ready = schedule.split_whitespace().nth(1);
        let ready = ready.and_then(|ns| ns.parse().ok()).unwrap_or(0);
        let children = read("children");
        let children = children.split_whitespace().filter_map(|it| it.parse().ok());
        let descendants: Duration = children.map(|child| waited(proc, child)).sum();
        Duration::from_nanos(ready) + descendants
    });
    waits.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Temporary;

    #[test]
    fn the_wait_of_all_threads_and_descendants_counts() {
        let name = format!("weft-watchdog.{}", std::process::id());
        let proc = Temporary::new(std::env::temp_dir().join(name)).unwrap();
        let thread = |process: u32, number: u32, schedule: &str, children: &str| {
            let thread = proc.path().join(format!("{process}/task/{number}"));
            fs::create_dir_all(&thread).unwrap();
            fs::write(thread.join("schedstat"), schedule).unwrap();
            fs::write(thread.join("children"), children).unwrap();
        };
        thread(10, 10, "900 50 7\n", "12 ");
        thread(10, 14, "900 1000 7\n", "11 ");
        thread(11, 11, "0 6 1\n", "13 ");
        thread(13, 13, "5 100 1\n", "");
        // 12 has ended.
        assert_eq!(waited(proc.path(), 10), Duration::from_nanos(1156));
        assert_eq!(waited(proc.path(), 12), Duration::ZERO);
    }

    #[test]
    fn a_guest_that_waited_for_a_processor_was_not_silent() {
        let [limit, hour] = [600, 3600].map(Duration::from_secs);
        assert!(is_longer(hour, Duration::ZERO, limit));
        assert!(is_longer(
            hour,
            hour - limit - Duration::from_secs(1),
            limit
        ));
        assert!(!is_longer(hour, hour - limit, limit));
        // Several processes may wait at the same time.
        assert!(!is_longer(hour, 2 * hour, limit));
    }
}
