// SPDX-License-Identifier: MIT OR Apache-2.0

//! A person's mistakes, as distinct from failures.

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

/// Whether the chain of causes contains wrong usage.
pub fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<Usage>())
}
