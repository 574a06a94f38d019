// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs several guests at a time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;

/// Applies `work` to all items, `workers` at a time, and returns the results in the order of the
/// items.
///
/// `work` also receives a flag that is set when another item has failed: it may then stop early.
///
/// # Errors
/// That of the item that failed first; no new item begins then.
pub fn map<I: Sync, O: Send>(
    items: &[I],
    workers: usize,
    work: impl Fn(&I, &Arc<AtomicBool>) -> Result<O> + Sync,
) -> Result<Vec<O>> {
    let next = AtomicUsize::new(0);
    let failed = Arc::new(AtomicBool::new(false));
    let first_error = Mutex::new(None);
    let worker = || {
        let mut done = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else {
                break;
            };
            match work(item, &failed) {
                Ok(outcome) => done.push((index, outcome)),
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    let mut first = first_error.lock().unwrap_or_else(PoisonError::into_inner);
                    first.get_or_insert(error);
                }
            }
        }
        done
    };
    let mut done = std::thread::scope(|scope| {
        let workers = workers.clamp(1, items.len().max(1));
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        let mut all = Vec::new();
        for handle in handles {
            match handle.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    let first = first_error.into_inner();
    if let Some(error) = first.unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, outcome)| outcome).collect())
}

/// The number of concurrent guests that keeps this machine busy.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..50).collect();
        let squares = map(&items, 4, |item, _| Ok(item * item)).unwrap();
        assert_eq!(squares, items.iter().map(|n| n * n).collect::<Vec<_>>());
        assert!(map(&[], 4, |item: &u64, _| Ok(*item)).unwrap().is_empty());
    }

    #[test]
    fn after_a_failure_no_further_item_begins() {
        let begun = AtomicUsize::new(0);
        let result = map(&[1, 2, 3, 4], 1, |item, _| {
            begun.fetch_add(1, Ordering::Relaxed);
            anyhow::ensure!(*item != 2, "two");
            Ok(())
        });
        assert_eq!(result.unwrap_err().to_string(), "two");
        assert_eq!(begun.into_inner(), 2);
    }

    #[test]
    fn other_items_learn_of_a_failure_and_the_first_one_is_reported() {
        let result = map(&[1, 2], 2, |item, failed| {
            if *item == 1 {
                anyhow::bail!("the first");
            }
            while !failed.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            Err::<(), _>(anyhow::anyhow!("gave up"))
        });
        assert_eq!(result.unwrap_err().to_string(), "the first");
    }
}
