// SPDX-License-Identifier: MIT OR Apache-2.0

//! Words of a command line.
//!
//! This does not use shlex: whether a name is filled in depends on the quoting of its letters,
//! which complete words no longer show, and the error for a wrong line has to name the mistake.

use anyhow::Result;

use crate::error::usage;

/// Splits a command line into words, as a shell does: every letter between `'` and `'`, between `"`
/// and `"`, or behind `\` belongs to the word.
pub(crate) fn split(text: &str) -> Result<Vec<String>> {
    split_and_fill(text, |piece| Ok(piece.to_owned()))
}

/// The same, but `fill` also replaces names by values: as in a shell, not between `'` and `'`, and
/// not where `\` is before the name. The values are not split.
pub(crate) fn split_and_fill(
    text: &str,
    fill: impl Fn(&str) -> Result<String>,
) -> Result<Vec<String>> {
    let mut words = Words {
        all: Vec::new(),
        word: None,
        piece: String::new(),
        fill,
    };
    let mut letters = text.chars();
    let mut quote = None;
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\'' | '"', None) => {
                words.fill()?;
                words.begun();
                quote = Some(letter);
            }
            (_, Some(begun)) if letter == begun => {
                words.fill()?;
                quote = None;
            }
            (_, Some('\'')) => words.literal(letter)?,
            ('\\', _) => match (letters.next(), quote) {
                (None, _) => return usage(format!("`{}`: a \\ at the end", text.trim())),
                // Between `"`, a `\` before an ordinary letter is itself a letter.
                (Some(next), Some(_)) if !"\"\\$`".contains(next) => {
                    words.literal('\\')?;
                    words.literal(next)?;
                }
                (Some(next), _) => words.literal(next)?,
            },
            _ if letter.is_whitespace() && quote.is_none() => words.end()?,
            _ => words.piece.push(letter),
        }
    }
    if let Some(quote) = quote {
        return usage(format!("`{}`: a {quote} without another", text.trim()));
    }
    words.end()?;
    Ok(words.all)
}

/// The words read so far.
struct Words<F> {
    all: Vec<String>,
    /// `None`: between two words.
    word: Option<String>,
    /// The end of the word, in which names are still to be filled in.
    piece: String,
    fill: F,
}

impl<F: Fn(&str) -> Result<String>> Words<F> {
    fn begun(&mut self) -> &mut String {
        self.word.get_or_insert_default()
    }

    fn fill(&mut self) -> Result<()> {
        let piece = std::mem::take(&mut self.piece);
        if !piece.is_empty() {
            let filled = (self.fill)(&piece)?;
            self.begun().push_str(&filled);
        }
        Ok(())
    }

    fn literal(&mut self, letter: char) -> Result<()> {
        self.fill()?;
        self.begun().push(letter);
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.fill()?;
        self.all.extend(self.word.take());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_word_has_its_space() {
        let words = split(" rack  --fault '1us tor0 ip link'\n--load 0.5 '' a'b c'd ").unwrap();
        let expected = [
            "rack",
            "--fault",
            "1us tor0 ip link",
            "--load",
            "0.5",
            "",
            "ab cd",
        ];
        assert_eq!(words, expected);
        assert_eq!(split("  \n ").unwrap(), Vec::<String>::new());
        let error = split("rack --fault '1us tor0").unwrap_err().to_string();
        assert!(error.ends_with("a ' without another"), "{error}");
    }

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        for text in [
            r#"a "b c" 'd e' f\ g"#,
            r#"x"y"'z'w"#,
            r#""a\"b\\c\$d\e" 'f\g' \\ \' \""#,
            r#""" '' a"#,
            "one\n two\tthree ",
            r#""it's" 'say "so"'"#,
        ] {
            let mut shell = std::process::Command::new("sh");
            let script = format!("printf '%s\\n' {}", text.replace(['\n', '\t'], " "));
            let output = shell.args(["-c", &script]).output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            let expected: Vec<&str> = said.lines().collect();
            assert_eq!(split(text).unwrap(), expected, "{text}");
        }
        for (text, wrong) in [
            ("a 'b", "`a 'b`: a ' without another"),
            ("\"it's", "`\"it's`: a \" without another"),
            ("a\\", "`a\\`: a \\ at the end"),
        ] {
            assert_eq!(split(text).unwrap_err().to_string(), wrong);
        }
    }

    #[test]
    fn names_are_filled_in_unless_they_are_quoted() {
        let fill = |piece: &str| Ok(piece.replace("$x", "1 2").replace("$y", "'3'"));
        let words = split_and_fill(r#"a$x "b $y" '$x' \$x $x'$x'"$x""#, fill).unwrap();
        let expected = ["a1 2", "b '3'", "$x", "$x", "1 2$x1 2"];
        assert_eq!(words, expected);
        assert!(split_and_fill("a $z", |_| usage("no")).is_err());
        assert!(split_and_fill("a '$z'", |piece| usage(piece)).is_err());
    }
}
