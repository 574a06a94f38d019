// SPDX-License-Identifier: MIT OR Apache-2.0

//! Several guests at a time.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;

/// Does `work` on all items, `workers` at a time, and returns what came of them in their order.
///
/// # Errors
/// The first item's that failed; no new one is begun then.
pub(crate) fn map<I: Sync, O: Send>(
    items: &[I],
    workers: usize,
    work: impl Fn(&I) -> Result<O> + Sync,
) -> Result<Vec<O>> {
    let next = AtomicUsize::new(0);
    let worker = || -> Result<Vec<(usize, O)>> {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else {
                return Ok(done);
            };
            match work(item) {
                Ok(outcome) => done.push((index, outcome)),
                Err(error) => {
                    // No use in more of the same.
                    next.store(items.len(), Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    };
    let mut done = std::thread::scope(|scope| {
        let workers = workers.clamp(1, items.len().max(1));
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        let mut all = Vec::new();
        for handle in handles {
            match handle.join() {
                Ok(done) => all.extend(done?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok::<_, anyhow::Error>(all)
    })?;
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, outcome)| outcome).collect())
}

/// How many guests at a time keep this machine busy.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_in_the_items_order() {
        let items: Vec<u64> = (0..50).collect();
        let squares = map(&items, 4, |item| Ok(item * item)).unwrap();
        assert_eq!(squares, items.iter().map(|n| n * n).collect::<Vec<_>>());
        assert!(map(&[], 4, |item: &u64| Ok(*item)).unwrap().is_empty());
    }

    #[test]
    fn after_a_failure_nothing_is_begun() {
        let begun = AtomicUsize::new(0);
        let result = map(&[1, 2, 3, 4], 1, |item| {
            begun.fetch_add(1, Ordering::Relaxed);
            anyhow::ensure!(*item != 2, "two");
            Ok(())
        });
        assert_eq!(result.unwrap_err().to_string(), "two");
        assert_eq!(begun.into_inner(), 2);
    }
}
