// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors of descriptions and files, as sentences for people.

use std::io;

/// An error: one sentence that says what is wrong and what would be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument or a combination of arguments.
    #[error("{0}")]
    Invalid(String),
    /// A line of a file.
    #[error("{file}:{line}: {message}")]
    Line {
        /// The file's name, as given.
        file: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// The file as a whole: empty, or truncated.
    #[error("{file}: {message}")]
    File {
        /// The file's name, as given.
        file: String,
        /// What is wrong with it.
        message: String,
    },
    /// The kernel refused something.
    #[error("{doing}: {error}")]
    System {
        /// The operation that failed and, where known, a cure.
        doing: String,
        /// The kernel's error.
        error: io::Error,
    },
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// Adds the place to an error of the kernel.
    pub(crate) fn context(self, place: &str) -> Self {
        match self {
            Self::System { doing, error } => Self::System {
                doing: format!("{place}: {doing}"),
                error,
            },
            other => other,
        }
    }
}

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

pub(crate) fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::Invalid(message.into()))
}
