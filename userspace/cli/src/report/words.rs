// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a page says about its runs.

/// The number of runs in words.
pub(super) fn seeds(runs: usize) -> Option<String> {
    match runs {
        0 => None,
        1 => Some("1 seed".to_owned()),
        more => Some(format!("{more} seeds")),
    }
}

/// The text as the beginning of a sentence, if its first letter is one of ASCII's.
pub(super) fn capitalized(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}

/// Places of runs as an attribute, if there are any.
pub(super) fn listed(runs: &[usize]) -> Option<String> {
    let runs: Vec<String> = runs.iter().map(usize::to_string).collect();
    (!runs.is_empty()).then(|| runs.join(","))
}
