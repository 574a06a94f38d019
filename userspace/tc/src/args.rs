// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line after the qdisc's name, and its errors.

use weft_mechanisms::common::nla::Refusal;

/// An error of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// `help`, which `tc` also counts as a failure.
    Help,
    /// A word that is not an option.
    Unknown(String),
    /// A value that the option does not accept.
    Illegal {
        /// The option.
        option: &'static str,
        /// The value.
        value: String,
        /// The values that it accepts.
        expected: &'static str,
    },
    /// A value out of range; the message is the kernel's.
    Refused(Refusal),
    /// An option lacks its value: `tc`'s own `incomplete_command()` reports it and exits with 255.
    Incomplete {
        /// The option.
        option: &'static str,
        /// The values that it accepts.
        expected: &'static str,
    },
    /// An option is repeated: `tc`'s own `duparg()` reports it and exits with 255.
    Duplicate {
        /// The option.
        option: &'static str,
        /// Its second value.
        value: String,
    },
}

impl Complaint {
    /// Complete lines for standard error, after which `tc` exits with status 1; `None` for errors
    /// that `tc` itself reports.
    pub fn lines(&self, usage: &str) -> Option<String> {
        Some(match self {
            Self::Help => usage.to_owned(),
            Self::Unknown(word) => format!("What is \"{word}\"?\n{usage}"),
            Self::Illegal {
                option,
                value,
                expected,
            } => format!("Illegal \"{option}\": \"{value}\" is not {expected}\n"),
            Self::Refused(refusal) => format!("Error: {}.\n", refusal.message.to_string_lossy()),
            Self::Incomplete { .. } | Self::Duplicate { .. } => return None,
        })
    }
}

impl From<Refusal> for Complaint {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The words after the qdisc's name, one after the other.
#[derive(Clone, Debug)]
pub struct Args<'a> {
    words: std::slice::Iter<'a, &'a str>,
}

impl<'a> Args<'a> {
    /// Starts at the first of `words`.
    pub fn new(words: &'a [&'a str]) -> Self {
        Self {
            words: words.iter(),
        }
    }

    /// The next option's name.
    pub fn option(&mut self) -> Option<&'a str> {
        self.words.next().copied()
    }

    /// The value of `option`, converted by `read`, which returns `None` if the word is not
    /// `expected`.
    ///
    /// # Errors
    ///
    /// A [`Complaint`] if the value is missing or illegal.
    pub fn value<T>(
        &mut self,
        option: &'static str,
        expected: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<(&'a str, T), Complaint> {
        let incomplete = Complaint::Incomplete { option, expected };
        let word = self.words.next().ok_or(incomplete)?;
        let value = read(word).ok_or_else(|| Complaint::Illegal {
            option,
            value: (*word).to_owned(),
            expected,
        })?;
        Ok((word, value))
    }
}
