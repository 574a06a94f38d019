// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is wrong with a specification, and the name that was probably meant.

use std::fmt;

/// Why a specification is refused: one sentence that names the word at fault, what is allowed and
/// the cure, without a period at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// The one of `names` that `word` begins, or else the nearest by Levenshtein distance, if at most
/// half of it is to be rewritten.
pub(crate) fn nearest<'a>(word: &str, names: &[&'a str]) -> Option<&'a str> {
    let begun = names
        .iter()
        .find(|name| word.len() > 1 && name.starts_with(word));
    let distances = names.iter().map(|&name| (distance(word, name), name));
    let close = distances.filter(|&(distance, name)| distance * 2 <= name.len());
    begun.copied().or_else(|| close.min().map(|(_, name)| name))
}

fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levenshtein_distance_of_known_pairs() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("rack", "rack"), 0);
    }

    #[test]
    fn a_beginning_is_near_however_short() {
        assert_eq!(
            nearest("bfc", &["rack", "bfc-testbed"]),
            Some("bfc-testbed")
        );
        assert_eq!(nearest("b", &["rack", "bfc-testbed"]), None);
    }

    #[test]
    fn nothing_is_near_to_a_word_of_another_kind() {
        assert_eq!(nearest("xyzzy", &["rack", "fat-tree"]), None);
        assert_eq!(nearest("fattree", &["rack", "fat-tree"]), Some("fat-tree"));
    }
}
