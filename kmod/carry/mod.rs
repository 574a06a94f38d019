// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Gives packets the IPv4 option that the `int` qdisc fills, for benchmarks.
//!
//! It is not an option of the qdisc `hold`: a change of that source would make the kept results of
//! Fastpass stale, whose options have the word `hold`.

pub mod options;
pub mod telemetry;

#[cfg(test)]
mod tests;

crate::qdisc!(
    options::KIND,
    options,
    &[],
    for_tests: true
);
