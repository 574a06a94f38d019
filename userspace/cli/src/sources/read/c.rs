// SPDX-License-Identifier: MIT OR Apache-2.0

//! Items of C.

use std::collections::BTreeSet;

use super::tokens::{Token, after_item, tokens};

/// Items of C that `words` mention, and the items that these mention. Items other than functions
/// are always included.
pub(crate) fn items_of_c(text: &str, words: &BTreeSet<String>) -> Vec<Token> {
    let (directives, code): (Vec<&str>, Vec<&str>) = text
        .lines()
        .partition(|line| line.trim_start().starts_with('#'));
    let all = tokens(&code.join("\n"));
    let mut items: Vec<&[Token]> = Vec::new();
    let mut place = 0;
    while place < all.len() {
        let mut end = after_item(&all, place);
        // `struct x { … };` and `int x[] = { … };`
        if all.get(end).is_some_and(|it| it.text == ";") {
            end += 1;
        }
        items.push(&all[place..end]);
        place = end;
    }
    let name = |item: &[Token]| {
        let bracket = item.iter().position(|it| it.text == "(")?;
        let has_body = item.iter().any(|it| it.text == "{");
        (has_body && bracket > 0).then(|| item[bracket - 1].text.clone())
    };
    let mut words = words.clone();
    let mut kept = vec![false; items.len()];
    loop {
        let next = items.iter().enumerate().find(|(place, item)| {
            !kept[*place] && name(item).is_none_or(|name| words.contains(&name))
        });
        let Some((place, item)) = next else { break };
        kept[place] = true;
        words.extend(item.iter().map(|it| it.text.clone()));
    }
    let mut result: Vec<Token> = tokens(&directives.join("\n"));
    let chosen = items.iter().zip(kept).filter(|(_, is_kept)| *is_kept);
    result.extend(chosen.flat_map(|(item, _)| item.iter().cloned()));
    result
}
