// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Keeps a backlog in its child, for tests and benchmarks: a queue that never drains, with the
//! requested priorities or transmit times.

pub mod options;

#[cfg(test)]
mod tests;

crate::qdisc!(
    options::KIND,
    options,
    &[],
    for_tests: true
);
