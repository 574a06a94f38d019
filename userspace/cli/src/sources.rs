// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hashes of the source that decides a run's results, from the time when this program was built:
//! `build.rs` computes them.

#[cfg(test)]
mod read;

use weft_lab::experiment::{RELEASE, Sources};

/// Parts and their hashes.
const PARTS: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// The parts of this program.
pub(crate) fn own() -> Sources {
    let parts = PARTS.iter();
    parts
        .map(|(name, hash)| ((*name).to_owned(), (*hash).to_owned()))
        .collect()
}

/// The parts with the release of the kernel that runs use.
pub(crate) fn of_kernel(release: &str) -> Sources {
    let mut sources = own();
    // Without hashes no run has a fingerprint.
    if !sources.is_empty() {
        sources.insert(RELEASE.to_owned(), release.to_owned());
    }
    sources
}
