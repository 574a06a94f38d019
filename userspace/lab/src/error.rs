// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a person got wrong, told apart from what went wrong.

use std::fmt;

/// Wrong usage: exit status 2.
#[derive(Debug)]
pub struct Usage(String);

impl Usage {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// # Errors
///
/// Always: with this sentence, and exit status 2.
pub fn usage<T>(sentence: impl Into<String>) -> anyhow::Result<T> {
    Err(Usage(sentence.into()).into())
}

/// Whether somewhere in the chain of causes is wrong usage.
pub fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<Usage>())
}
