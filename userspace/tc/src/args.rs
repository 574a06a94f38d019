// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line behind the qdisc's name, and what is said of a wrong one.

use weft_core::common::nla::Refusal;

/// What is wrong with a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// Whole lines for standard error; `tc` then exits with status 1.
    Message(String),
    /// An option lacks its value: `tc`'s own `incomplete_command()` says so and exits with 255.
    Incomplete,
    /// An option is given again: `tc`'s own `duparg()` says so and exits with 255.
    Duplicate {
        /// The option that was given already.
        option: &'static str,
        /// What it is given now.
        value: String,
    },
}

impl Complaint {
    /// The answer to `help`, which `tc` too counts as a failure.
    pub fn help(usage: &str) -> Self {
        Self::Message(usage.to_owned())
    }

    /// A word that is no option.
    pub fn unknown(word: &str, usage: &str) -> Self {
        Self::Message(format!("What is \"{word}\"?\n{usage}"))
    }

    /// A value that is not what the option takes.
    pub fn illegal(option: &str, value: &str, expected: &str) -> Self {
        Self::Message(format!(
            "Illegal \"{option}\": \"{value}\" is not {expected}\n"
        ))
    }
}

/// A value out of range, in the words in which the kernel refuses it.
impl From<Refusal> for Complaint {
    fn from(refusal: Refusal) -> Self {
        let sentence = refusal.message.to_string_lossy();
        Self::Message(format!("Error: {sentence}.\n"))
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

    /// Reads the value of `option` into `slot`; `read` gives `None` if it is not `expected`.
    ///
    /// # Errors
    ///
    /// A [`Complaint`] if there is no value, it is illegal, or the option was given already.
    pub fn value<T>(
        &mut self,
        option: &'static str,
        slot: &mut Option<T>,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<(), Complaint> {
        let word = self.words.next().ok_or(Complaint::Incomplete)?;
        let value = read(word).ok_or_else(|| Complaint::illegal(option, word, expected))?;
        say_once(slot, option, word, value)
    }
}

/// Stores what `option` says as `word`, which may be said once.
///
/// # Errors
///
/// [`Complaint::Duplicate`] if `slot` is taken.
pub fn say_once<T>(
    slot: &mut Option<T>,
    option: &'static str,
    word: &str,
    value: T,
) -> Result<(), Complaint> {
    if slot.is_some() {
        return Err(Complaint::Duplicate {
            option,
            value: word.to_owned(),
        });
    }
    *slot = Some(value);
    Ok(())
}
