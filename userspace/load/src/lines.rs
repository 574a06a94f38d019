// SPDX-License-Identifier: MIT OR Apache-2.0

//! Text files of users: one entry per line, words separated by blanks, `#` begins a comment.

use crate::error::{Error, Result};
use crate::hosts::Hosts;

/// A line that is neither empty nor a comment.
pub(crate) struct Line<'a> {
    file: &'a str,
    number: usize,
    pub(crate) words: Vec<&'a str>,
}

/// The lines of `text` that are neither empty nor comments.
pub(crate) fn lines<'a>(file: &'a str, text: &'a str) -> impl Iterator<Item = Line<'a>> {
    text.lines().enumerate().filter_map(move |(index, line)| {
        let said = line.split('#').next().unwrap_or_default();
        let words: Vec<_> = said.split_whitespace().collect();
        let number = index + 1;
        (!words.is_empty()).then_some(Line {
            file,
            number,
            words,
        })
    })
}

impl Line<'_> {
    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        Error::Line {
            file: self.file.to_owned(),
            line: self.number,
            message: message.into(),
        }
    }

    /// The words, if their number is that of the names in `what`, which are separated by blanks.
    pub(crate) fn exactly<const N: usize>(&self, what: &str) -> Result<[&str; N]> {
        <[&str; N]>::try_from(self.words.as_slice())
            .map_err(|_| self.error(format!("expected {N} words, {what}")))
    }

    /// Parses `word` as a whole number.
    pub(crate) fn whole(&self, word: &str, what: &str) -> Result<u64> {
        word.parse()
            .map_err(|_| self.error(format!("{what} `{word}` is not a whole number")))
    }

    /// Parses the places of two different hosts.
    pub(crate) fn pair(&self, src: &str, dst: &str, hosts: &Hosts) -> Result<(u32, u32)> {
        let host = |word| hosts.find(word).map_err(|message| self.error(message));
        let pair = (host(src)?, host(dst)?);
        if pair.0 == pair.1 {
            return Err(self.error("a flow needs two different hosts"));
        }
        Ok(pair)
    }
}

pub(crate) fn empty(file: &str, wanted: &str) -> Error {
    Error::File {
        file: file.to_owned(),
        message: format!("holds no {wanted}"),
    }
}
