// SPDX-License-Identifier: MIT OR Apache-2.0

//! How results came to be: what decided them, how long they took, and on which machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::inputs::hex;

/// The kernel's release, as a part of a fingerprint. The source does not say which: whoever has a
/// kernel adds it to the source's parts, or names it in the environment.
pub const RELEASE: &str = "release";

/// What decides a run, as a hash of each part.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(BTreeMap<String, String>);

impl Fingerprint {
    /// Of parts and their hashes.
    pub(super) fn new(parts: BTreeMap<String, String>) -> Self {
        Self(parts)
    }

    /// Adds a part.
    pub(super) fn insert(&mut self, part: &str, hash: String) {
        self.0.insert(part.to_owned(), hash);
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Parts that differ, or that only one has.
    pub fn changed(&self, other: &Self) -> Vec<String> {
        let names = self.0.keys().chain(other.0.keys());
        let differs = |name: &&String| {
            let both = (self.0.get(*name), other.0.get(*name));
            // Not everybody who asks has a kernel.
            both.0 != both.1 && (*name != RELEASE || (both.0.is_some() && both.1.is_some()))
        };
        let mut changed: Vec<String> = names.filter(differs).cloned().collect();
        changed.sort();
        changed.dedup();
        changed
    }
}

/// How results came to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// Which results: the hash of their file.
    pub sha256: String,
    /// What decided them; empty: that is not known.
    #[serde(default)]
    pub fingerprint: Fingerprint,
    /// How long it took, in whole seconds.
    pub seconds: u64,
    /// The hash of the image that weft's own machine booted, if they are of such a guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
}

impl Made {
    /// Of a file's content that was made just now, and took so long.
    pub fn new(results: &[u8], fingerprint: Option<&Fingerprint>, took: Duration) -> Self {
        Self {
            sha256: hex(&Sha256::digest(results)),
            fingerprint: fingerprint.cloned().unwrap_or_default(),
            seconds: took.as_secs() + 1,
            machine: None,
        }
    }

    /// Where it stands, beside a file of results.
    pub fn path(results: &Path) -> PathBuf {
        results.with_extension("made")
    }

    /// Of the results in a file, if it is known.
    pub(crate) fn read(results: &Path, sha256: &str) -> Option<Self> {
        let text = fs::read(Self::path(results)).ok()?;
        let made: Self = serde_json::from_slice(&text).ok()?;
        (made.sha256 == sha256).then_some(made)
    }
}

/// Where a file of results is: its folder among those of the experiment, and its name.
pub(super) fn place_of(file: &str) -> Option<(&str, &str)> {
    let path = Path::new(file);
    let folder = path.parent()?.file_name()?;
    folder.to_str().zip(path.file_name()?.to_str())
}
