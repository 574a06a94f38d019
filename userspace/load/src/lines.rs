// SPDX-License-Identifier: MIT OR Apache-2.0

//! Text files of a person's: one thing a line, words between blanks, `#` begins a comment.

use crate::error::{Error, Result};

/// A line that says something.
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

    /// The words, if there are as many as `what` lists (itself words between blanks).
    pub(crate) fn exactly<const N: usize>(&self, what: &str) -> Result<[&str; N]> {
        <[&str; N]>::try_from(self.words.as_slice())
            .map_err(|_| self.error(format!("expected {N} words, {what}")))
    }

    /// `word` as a whole number.
    pub(crate) fn whole(&self, word: &str, what: &str) -> Result<u64> {
        word.parse()
            .map_err(|_| self.error(format!("{what} `{word}` is not a whole number")))
    }

    /// `word` as one of `hosts` hosts: `3` or `h3`.
    pub(crate) fn host(&self, word: &str, hosts: u32) -> Result<u32> {
        let number = word.strip_prefix('h').unwrap_or(word);
        match number.parse() {
            Ok(host) if host < hosts => Ok(host),
            Ok(_) => Err(self.error(format!(
                "there is no host `{word}`: the last is h{}",
                hosts.saturating_sub(1)
            ))),
            Err(_) => Err(self.error(format!(
                "`{word}` is not a host: expected a number from 0 or a name such as h3"
            ))),
        }
    }

    /// `[src, dst]`, two different hosts.
    pub(crate) fn pair(&self, src: &str, dst: &str, hosts: u32) -> Result<(u32, u32)> {
        let pair = (self.host(src, hosts)?, self.host(dst, hosts)?);
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
