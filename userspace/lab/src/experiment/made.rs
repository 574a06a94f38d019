// SPDX-License-Identifier: MIT OR Apache-2.0

//! The origin of results: their inputs, the time that they took, and their machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use weft_words::file::{MIB, SizeLimit};

use crate::inputs::hex;

/// The kernel's release, as a part of a fingerprint. The source does not contain it: a caller that
/// has a kernel adds it to the source's parts, or names it in the environment.
pub const RELEASE: &str = "release";

/// The largest file of an origin.
const FILE: SizeLimit = SizeLimit {
    kind: "the origin of results",
    bytes: MIB,
};

/// The inputs that decide a run, as a hash of each part.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(BTreeMap<String, String>);

impl Fingerprint {
    /// From parts and their hashes.
    pub(super) fn new(parts: BTreeMap<String, String>) -> Self {
        Self(parts)
    }

    /// Adds a part.
    pub(super) fn insert(&mut self, part: &str, hash: String) {
        self.0.insert(part.to_owned(), hash);
    }

    /// Whether it has no parts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Parts that differ, or that only one of the two has.
    pub fn changed(&self, other: &Self) -> Vec<String> {
        let names = self.0.keys().chain(other.0.keys());
        let differs = |name: &&String| {
            let both = (self.0.get(*name), other.0.get(*name));
            // Not every caller has a kernel.
            both.0 != both.1 && (*name != RELEASE || (both.0.is_some() && both.1.is_some()))
        };
        let mut changed: Vec<String> = names.filter(differs).cloned().collect();
        changed.sort();
        changed.dedup();
        changed
    }
}

/// Runs that were repeated in place of all whose inputs changed alike. They gave the kept bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sample {
    /// The number that were repeated,
    pub runs: u64,
    /// of this number.
    pub of: u64,
    /// The day that drew them, in days since 1970.
    pub day: u64,
}

/// The origin of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// Identifies the results: the hash of their file.
    pub sha256: String,
    /// The inputs that decided them; empty if they are not known.
    #[serde(default)]
    pub fingerprint: Fingerprint,
    /// The time that the run took, in whole seconds.
    pub seconds: u64,
    /// The hash of the image that weft's own machine booted, if the results come from such a guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Why the fingerprint is newer than the results, if these were not repeated themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
}

impl Made {
    /// For a file's content that was made just now, and took this long.
    pub fn new(results: &[u8], fingerprint: Option<&Fingerprint>, took: Duration) -> Self {
        Self {
            sha256: hex(&Sha256::digest(results)),
            fingerprint: fingerprint.cloned().unwrap_or_default(),
            seconds: took.as_secs() + 1,
            machine: None,
            sample: None,
        }
    }

    /// The path of this record, beside a file of results.
    pub fn path(results: &Path) -> PathBuf {
        results.with_extension("made")
    }

    /// The origin of the results in a file, if it is known.
    pub(crate) fn read(results: &Path, sha256: &str) -> Option<Self> {
        let text = FILE.read(Self::path(results)).ok()?;
        let made: Self = serde_json::from_slice(&text).ok()?;
        (made.sha256 == sha256).then_some(made)
    }
}

/// The place of a file of results: its folder among those of the experiment, and its name.
pub(super) fn place_of(file: &str) -> Option<(&str, &str)> {
    let path = Path::new(file);
    let folder = path.parent()?.file_name()?;
    folder.to_str().zip(path.file_name()?.to_str())
}
