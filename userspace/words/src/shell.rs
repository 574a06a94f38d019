// SPDX-License-Identifier: MIT OR Apache-2.0

//! Words in shell syntax.

/// Quotes a word for a POSIX shell, if needed.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:,./@%+^".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_if_a_shell_would_change_them() {
        assert_eq!(quoted("fat-tree:k=4"), "fat-tree:k=4");
        assert_eq!(quoted("8x20kB@300"), "8x20kB@300");
        assert_eq!(quoted("my file"), "'my file'");
        assert_eq!(quoted("~"), "'~'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
