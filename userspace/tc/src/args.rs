// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line behind the qdisc's name, and what is said of a wrong one.

use weft_mechanisms::common::nla::Refusal;

/// What is wrong with a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// `help`, which `tc` too counts as a failure.
    Help,
    /// A word that is no option.
    Unknown(String),
    /// A value that is not what the option takes.
    Illegal {
        /// The option.
        option: &'static str,
        /// What it is given.
        value: String,
        /// What it takes.
        expected: &'static str,
    },
    /// A value out of range, to be told in the words in which the kernel refuses it.
    Refused(Refusal),
    /// An option lacks its value: `tc`'s own `incomplete_command()` says so and exits with 255.
    Incomplete {
        /// The option.
        option: &'static str,
        /// What it takes.
        expected: &'static str,
    },
    /// An option is given again: `tc`'s own `duparg()` says so and exits with 255.
    Duplicate {
        /// The option that was given already.
        option: &'static str,
        /// What it is given now.
        value: String,
    },
}

impl Complaint {
    /// Whole lines for standard error, after which `tc` exits with status 1; `None` for those that
    /// `tc` itself tells.
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

/// The words behind the qdisc's name, one after the other.
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

    /// The word that is the value of `option`, and what `read` makes of it: `None` if it is not
    /// `expected`.
    ///
    /// # Errors
    ///
    /// A [`Complaint`] if there is no value, or it is illegal.
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
