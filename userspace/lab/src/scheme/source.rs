// SPDX-License-Identifier: MIT OR Apache-2.0

//! A file of a scheme, read once: its text, and the lines with content, each with its number.

use anyhow::{Context as _, Result};

use crate::variables::Variables;

/// A file.
#[derive(Clone, Debug)]
pub struct Source {
    place: String,
    text: String,
    lines: Vec<Line>,
}

/// A line without its comment; one that ends in a backslash also has the words of the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Counted from 1.
    pub number: usize,
    /// Not empty.
    pub text: String,
}

impl Source {
    /// `place` is the file's name in messages: `pfabric/switch.tc`.
    pub(crate) fn new(place: String, text: String) -> Self {
        let mut lines = Vec::new();
        let mut all = (1..).zip(text.lines());
        while let Some((number, line)) = all.next() {
            // `sysctl -p` treats a line that begins with `;` as a comment.
            if place.ends_with(".sysctl") && line.trim_start().starts_with(';') {
                continue;
            }
            let mut line = without_comment(line).to_owned();
            // A backslash continues a line, as in `tc -b`.
            while let Some(begun) = line.strip_suffix('\\') {
                let next = all.next().map_or("", |(_, next)| without_comment(next));
                line = format!("{begun} {next}");
            }
            let text = line.trim().to_owned();
            if !text.is_empty() {
                lines.push(Line { number, text });
            }
        }
        Self { place, text, lines }
    }

    /// The file's name in messages.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its lines, with values in place of names.
    ///
    /// # Errors
    ///
    /// An unknown variable, with its line.
    pub(crate) fn filled(&self, variables: &Variables) -> Result<Vec<Line>> {
        let filled = self.lines.iter().map(|line| {
            Ok(Line {
                number: line.number,
                text: variables
                    .fill(&line.text)
                    .with_context(|| self.at(line.number))?,
            })
        });
        filled.collect()
    }

    /// Whether a line uses a variable or parameter.
    pub(super) fn uses(&self, name: &str) -> bool {
        self.lines.iter().any(|line| uses(&line.text, name))
    }

    /// A line, for messages.
    pub(crate) fn at(&self, number: usize) -> String {
        format!("{}, line {number}", self.place)
    }
}

/// Whether a text has `$name`, or `$name_us` and the like.
pub(super) fn uses(text: &str, name: &str) -> bool {
    let units = ["", "_ns", "_us", "_ms", "_kbit"];
    text.split('$').skip(1).any(|piece| {
        let end = piece.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let word = &piece[..end.unwrap_or(piece.len())];
        word.strip_prefix(name)
            .is_some_and(|unit| units.contains(&unit))
    })
}

fn without_comment(line: &str) -> &str {
    line.split_once('#').map_or(line, |(before, _)| before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(usize, String)> {
        let source = Source::new("x/switch.tc".to_owned(), text.to_owned());
        assert_eq!(source.text(), text);
        let lines = source.lines.into_iter();
        lines.map(|line| (line.number, line.text)).collect()
    }

    #[test]
    fn a_line_keeps_its_number() {
        let text = "# about\n\n one two\n   # more\n\tthree # $5\n#\nfour#five";
        let expected = [(3, "one two"), (5, "three"), (7, "four")];
        assert_eq!(lines(text), expected.map(|(n, it)| (n, it.to_owned())));
        assert_eq!(lines("# all\n"), []);
        assert_eq!(lines(""), []);
    }

    #[test]
    fn a_line_uses_a_variable_also_with_a_unit_and_not_in_a_comment() {
        let uses = |text: &str| Source::new("x/switch.tc".to_owned(), text.to_owned()).uses("rto");
        for text in ["a $rto", "$rto_us b", "a=$rto;", "$a$rto\n"] {
            assert!(uses(text), "{text}");
        }
        for text in ["a rto", "$rtos", "$rto_x", "$a_rto", "# $rto", ""] {
            assert!(!uses(text), "{text}");
        }
    }

    #[test]
    fn a_semicolon_begins_a_comment_of_a_sysctl_file() {
        let of = |file: &str| {
            let source = Source::new(
                format!("x/{file}"),
                "; $a comment\n a = 1;2\n\t;b\n".to_owned(),
            );
            let lines = source.lines.into_iter();
            lines
                .map(|line| (line.number, line.text))
                .collect::<Vec<_>>()
        };
        assert_eq!(of("host.sysctl"), [(2, "a = 1;2".to_owned())]);
        assert_eq!(of("switch.tc").len(), 3);
    }

    #[test]
    fn a_continued_line_is_one_line() {
        let text = "# about\none \\\n  two\\ # not a backslash at the end\nthree\\\nfour\nfive\\";
        let expected = [(2, "one    two\\"), (4, "three four"), (6, "five")];
        assert_eq!(lines(text), expected.map(|(n, it)| (n, it.to_owned())));
    }
}
