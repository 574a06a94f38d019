// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors of specifications.

use std::fmt;

/// The error of a specification: one sentence that names the wrong word, the allowed values and the
/// cure, without a final period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
