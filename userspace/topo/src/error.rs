// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is wrong with a specification.

use std::fmt;

/// Why a specification is refused: one sentence that names the word at fault, what is allowed and
/// the cure, without a period at its end.
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
