// SPDX-License-Identifier: MIT OR Apache-2.0

//! Items of C.

use std::collections::BTreeSet;

use super::tokens::{Token, after_item, tokens};

/// What a module that mentions `words` uses of a folder's files of functions and of their
/// declarations. A file of which it uses no function has no part in it.
pub(crate) fn used(files: &[String], declarations: &str, words: &BTreeSet<String>) -> Vec<Token> {
    let mut words = words.clone();
    let mut is_used = vec![false; files.len()];
    loop {
        let next = (0..files.len()).find(|&file| {
            let functions = items(&code(&files[file]).1);
            let mut names = functions.iter().filter_map(|item| name(item));
            !is_used[file] && names.any(|name| words.contains(&name))
        });
        let Some(file) = next else { break };
        is_used[file] = true;
        let tokens = items_of_c(&files[file], &words);
        words.extend(tokens.into_iter().map(|it| it.text));
    }
    let files = files.iter().zip(is_used).filter(|(_, is_used)| *is_used);
    let functions: String = files.map(|(file, _)| file.as_str()).collect();
    let mut all = items_of_c(&functions, &words);
    all.extend(items_of_c(declarations, &words));
    all
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
