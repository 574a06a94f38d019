// SPDX-License-Identifier: MIT OR Apache-2.0

//! A person's mistakes, as distinct from failures.

use std::fmt;

/// Wrong usage: exit status 2.
#[derive(Debug)]
pub enum Usage {
    /// A sentence.
    Sentence(String),
    /// An error of a fabric that a person can cure.
    Net(weft_net::Error),
}

impl Usage {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self::Sentence(sentence.into())
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sentence(sentence) => f.write_str(sentence),
            Self::Net(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Usage {}

/// # Errors
///
/// Always: with this sentence, and exit status 2.
pub fn usage<T>(sentence: impl Into<String>) -> anyhow::Result<T> {
    Err(Usage::new(sentence).into())
}

/// Whether the chain of causes contains wrong usage.
pub fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<Usage>())
}

/// Whether the chain of causes contains a lack of privileges that root has.
pub fn needs_root(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let net = match cause.downcast_ref() {
            Some(Usage::Net(error)) => Some(error),
            _ => cause.downcast_ref::<weft_net::Error>(),
        };
        matches!(net, Some(weft_net::Error::Privilege { .. }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_privileges_keeps_its_type() {
        let lack = || weft_net::Error::Privilege {
            what: "making a network namespace".to_owned(),
        };
        let explained = crate::testbed::explain(lack());
        assert!(is_usage(&explained) && needs_root(&explained));
        assert_eq!(explained.to_string(), lack().to_string());
        assert!(needs_root(&explained.context("weaving")));
        assert!(needs_root(&lack().into()));
        let other = crate::testbed::explain(weft_net::Error::Invalid("run as root".to_owned()));
        assert!(is_usage(&other) && !needs_root(&other));
    }
}
