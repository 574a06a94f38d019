// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hashes of the source of what decides a run's results, as it was when this program was built:
//! `build.rs` makes them.

#[cfg(test)]
mod read;

use weft_lab::experiment::Sources;

/// Parts and their hashes.
const PARTS: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// Those of this program.
pub(crate) fn own() -> Sources {
    let parts = PARTS.iter();
    parts
        .map(|(name, hash)| ((*name).to_owned(), (*hash).to_owned()))
        .collect()
}
