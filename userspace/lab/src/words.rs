// SPDX-License-Identifier: MIT OR Apache-2.0

//! Words of a command line.

use anyhow::Result;

use crate::error::usage;

/// As a shell takes it for one word.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:,./@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// The words of a command line; between `'` and `'` space is of the word.
pub(crate) fn split(text: &str) -> Result<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let (mut quoted, mut within) = (false, false);
    for letter in text.chars() {
        if letter == '\'' {
            quoted = !quoted;
        } else if letter.is_whitespace() && !quoted {
            within = false;
            continue;
        }
        if !within {
            words.push(String::new());
            within = true;
        }
        if letter != '\''
            && let Some(word) = words.last_mut()
        {
            word.push(letter);
        }
    }
    match quoted {
        true => usage(format!("`{}`: a ' without another", text.trim())),
        false => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_part_them() {
        assert_eq!(quoted("fat-tree:k=4"), "fat-tree:k=4");
        assert_eq!(quoted("8x20kB@300"), "8x20kB@300");
        assert_eq!(quoted("my file"), "'my file'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

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
}
