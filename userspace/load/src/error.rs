// SPDX-License-Identifier: MIT OR Apache-2.0

//! What can be wrong with a description or a file, in sentences for a person.

use std::io;

/// A refusal: one sentence that says what is wrong and what would be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument or a combination of arguments.
    #[error("{0}")]
    Invalid(String),
    /// A line of a file.
    #[error("{file}:{line}: {message}")]
    Line {
        /// The file's name, as it was given.
        file: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// The file as a whole: empty, or cut off.
    #[error("{file}: {message}")]
    File {
        /// The file's name, as it was given.
        file: String,
        /// What is wrong with it.
        message: String,
    },
    /// The kernel refused something.
    #[error("{doing}: {error}")]
    System {
        /// What was to be done, and where a cure is known, what would help.
        doing: String,
        /// What the kernel says.
        error: io::Error,
    },
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// Says where it happened, if the kernel refused something.
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
