// SPDX-License-Identifier: MIT OR Apache-2.0

//! Items of C.

use std::collections::BTreeSet;

use super::tokens::{Token, after_item, tokens};

/// The C that a module with these words uses, from files of functions and from their declarations.
/// A file is left out if the module uses none of its functions.
pub(crate) fn used(files: &[String], declarations: &str, words: &BTreeSet<String>) -> Vec<Token> {
    let functions: Vec<BTreeSet<String>> = files.iter().map(|file| functions(file)).collect();
    let mut words = words.clone();
    loop {
        let is_used = |(_, names): &(&String, &BTreeSet<String>)| !names.is_disjoint(&words);
        let used: String = files
            .iter()
            .zip(&functions)
            .filter(is_used)
            .map(|(file, _)| file.as_str())
            .collect();
        let mut tokens = items_of_c(&used, &words);
        let before = words.len();
        words.extend(tokens.iter().map(|it| it.text.clone()));
        if words.len() == before {
            tokens.extend(items_of_c(declarations, &words));
            return tokens;
        }
    }
}

/// The names of a file's functions.
fn functions(file: &str) -> BTreeSet<String> {
    let (_, all) = code(file);
    items(&all).iter().filter_map(|item| name(item)).collect()
}

/// Directives, and the other lines.
fn code(text: &str) -> (Vec<Token>, Vec<Token>) {
    let (directives, code): (Vec<&str>, Vec<&str>) = text
        .lines()
        .partition(|line| line.trim_start().starts_with('#'));
    (tokens(&directives.join("\n")), tokens(&code.join("\n")))
}

fn items(all: &[Token]) -> Vec<Vec<Token>> {
    let mut items = Vec::new();
    let mut place = 0;
    while place < all.len() {
        let mut end = after_item(all, place);
        // `struct x { … };` and `int x[] = { … };`
        if all.get(end).is_some_and(|it| it.text == ";") {
            end += 1;
        }
        items.push(all[place..end].to_vec());
        place = end;
    }
    items
}

/// The name of a function with a body, or of one of weft's that is declared.
fn name(item: &[Token]) -> Option<String> {
    let bracket = item.iter().position(|it| it.text == "(")?;
    let name = &item[bracket.checked_sub(1)?].text;
    match item.iter().position(|it| it.text == "{") {
        // Not a `struct` that has pointers to functions.
        Some(body) => (bracket < body).then(|| name.clone()),
        None => name.starts_with("weft_").then(|| name.clone()),
    }
}

/// Items of C that `words` mention, and the items that these mention. Items other than functions
/// are always included.
pub(crate) fn items_of_c(text: &str, words: &BTreeSet<String>) -> Vec<Token> {
    let (mut result, all) = code(text);
    let items = items(&all);
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
    let chosen = items.into_iter().zip(kept).filter(|(_, is_kept)| *is_kept);
    result.extend(chosen.flat_map(|(item, _)| item));
    result
}
