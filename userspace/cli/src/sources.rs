// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hashes of the source of what decides a run's results, as it was when this program was built:
//! `build.rs` makes them.

#[cfg(test)]
mod read;

use weft_lab::experiment::{RELEASE, Sources};

/// Parts and their hashes.
const PARTS: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// Those of this program.
pub(crate) fn own() -> Sources {
    let parts = PARTS.iter();
    parts
        .map(|(name, hash)| ((*name).to_owned(), (*hash).to_owned()))
        .collect()
}

/// The same with the release of the kernel that runs are made on.
pub(crate) fn of_kernel(release: &str) -> Sources {
    let mut sources = own();
    // Without sources nothing is known of what decides a run.
    if !sources.is_empty() {
        sources.insert(RELEASE.to_owned(), release.to_owned());
    }
    sources
}
