// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft experiments renew`: new fingerprints for results that a repetition reproduced.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use weft_lab::experiment::{self, Known, Made};
use weft_words::file::{MIB, SizeLimit, write_together};

use super::kept;

/// The most of fingerprints.
const FINGERPRINTS: SizeLimit = SizeLimit {
    kind: "fingerprints",
    bytes: 64 * MIB,
};

/// A run whose repetition was byte-identical to the kept results.
#[derive(Deserialize)]
struct Renewed {
    experiment: String,
    /// The name of its results.
    name: String,
    #[serde(flatten)]
    made: Made,
}

/// Writes the fingerprints from standard input.
///
/// # Errors
///
/// If a file cannot be read or written.
pub(crate) fn run(folder: &Path) -> Result<()> {
    let input = std::io::read_to_string(FINGERPRINTS.reader(std::io::stdin()));
    let input = input.context("reading standard input")?;
    let renewed: Vec<Renewed> = serde_json::from_str(&input).context("reading standard input")?;
    let mut all: BTreeMap<String, Known> = BTreeMap::new();
    for Renewed {
        experiment,
        name,
        made,
    } in renewed
    {
        all.entry(experiment).or_default().insert(name, made);
    }
    let mut files = Vec::new();
    for (experiment, renewed) in all {
        let path = kept::path(folder, "fingerprints", &experiment);
        // The current content of the file, which may be newer than this program.
        let known = kept::read(&FINGERPRINTS, &path, experiment::read)?;
        let mut known = known.unwrap_or_default();
        known.extend(renewed);
        files.push((path, experiment::text(&known)?.into_bytes()));
    }
    Ok(write_together(&files)?)
}
