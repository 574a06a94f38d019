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

/// A picture's choice as a person says it: the value of what there is to choose.
pub(super) fn choice_of(choose: Option<&str>, value: Option<&str>) -> String {
    let value = value.unwrap_or_default();
    match choose {
        None | Some("runs") => value.to_owned(),
        Some(name) => format!("{name} {value}"),
    }
}

/// The title of a picture of one choice.
pub(super) fn title_of(title: &str, choose: Option<&str>, value: Option<&str>) -> String {
    match value {
        Some(_) => format!("{title}: {}", choice_of(choose, value)),
        None => title.to_owned(),
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
