// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tokens of Rust and C, and those of them that decide results.

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    /// A string or character, with its quotes.
    Text,
    /// One character.
    Sign,
}

/// The tokens of Rust, and approximately those of C.
pub(crate) fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let at = |place: usize| chars.get(place).copied().unwrap_or('\0');
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut all = Vec::new();
    let mut place = 0;
    let mut push = |kind, from: usize, to: usize| {
        let text = chars[from..to.min(chars.len())].iter().collect();
        all.push(Token { kind, text });
    };
    while place < chars.len() {
        let begin = place;
        match at(place) {
            c if c.is_whitespace() => place += 1,
            '/' if at(place + 1) == '/' => {
                while place < chars.len() && at(place) != '\n' {
                    place += 1;
                }
            }
            '/' if at(place + 1) == '*' => place = after_block(&chars, place),
            '"' => {
                place = after_string(&chars, place);
                push(Kind::Text, begin, place);
            }
            '\'' if at(place + 1) == '\\' => {
                place += 3;
                while place < chars.len() && at(place) != '\'' {
                    place += 1;
                }
                place += 1;
                push(Kind::Text, begin, place);
            }
            '\'' if at(place + 2) == '\'' => {
                place += 3;
                push(Kind::Text, begin, place);
            }
            c if is_word(c) => {
                while is_word(at(place)) {
                    place += 1;
                }
                let word: String = chars[begin..place].iter().collect();
                let raw = matches!(word.as_str(), "r" | "br" | "cr");
                let hashes = (place..).take_while(|&it| at(it) == '#').count();
                if raw && at(place + hashes) == '"' {
                    place = after_raw(&chars, place + hashes, hashes);
                    push(Kind::Text, begin, place);
                } else if matches!(word.as_str(), "b" | "c") && at(place) == '"' {
                    place = after_string(&chars, place);
                    push(Kind::Text, begin, place);
                } else {
                    push(Kind::Word, begin, place);
                }
            }
            _ => {
                place += 1;
                push(Kind::Sign, begin, place);
            }
        }
    }
    all
}

fn after_block(chars: &[char], mut place: usize) -> usize {
    let mut depth = 0;
    while place < chars.len() {
        match (chars[place], chars.get(place + 1)) {
            ('/', Some('*')) => (depth, place) = (depth + 1, place + 2),
            ('*', Some('/')) => (depth, place) = (depth - 1, place + 2),
            _ => place += 1,
        }
        if depth == 0 {
            break;
        }
    }
    place
}

fn after_string(chars: &[char], quote: usize) -> usize {
    let mut place = quote + 1;
    while place < chars.len() && chars[place] != '"' {
        place += if chars[place] == '\\' { 2 } else { 1 };
    }
    place + 1
}

fn after_raw(chars: &[char], quote: usize, hashes: usize) -> usize {
    let mut place = quote + 1;
    while place < chars.len() {
        let end = &chars[place + 1..chars.len().min(place + 1 + hashes)];
        if chars[place] == '"' && end.len() == hashes && end.iter().all(|it| *it == '#') {
            return place + 1 + hashes;
        }
        place += 1;
    }
    place
}

/// Whether the tokens at a place are the expected ones.
pub(super) fn are(tokens: &[Token], place: usize, expected: &[&str]) -> bool {
    let there = tokens.get(place..place + expected.len());
    there.is_some_and(|there| {
        there
            .iter()
            .zip(expected)
            .all(|(it, text)| it.text == *text)
    })
}

/// The end of a group that begins with a bracket, after its last token.
fn after_group(tokens: &[Token], begin: usize) -> usize {
    let mut depth = 0;
    for (place, token) in tokens.iter().enumerate().skip(begin) {
        match (token.kind, token.text.as_str()) {
            (Kind::Sign, "(" | "[" | "{") => depth += 1,
            (Kind::Sign, ")" | "]" | "}") => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return place + 1;
        }
    }
    tokens.len()
}

/// The end of an item, after its `;` or its body.
pub(super) fn after_item(tokens: &[Token], mut place: usize) -> usize {
    while place < tokens.len() {
        match (tokens[place].kind, tokens[place].text.as_str()) {
            (Kind::Sign, ";") => return place + 1,
            (Kind::Sign, "{") => return after_group(tokens, place),
            (Kind::Sign, "(" | "[") => place = after_group(tokens, place),
            _ => place += 1,
        }
    }
    place
}

/// Removes items under `#[cfg(test)]`, and commas before a closing bracket, which depend on
/// rustfmt.
pub(crate) fn plain(tokens: Vec<Token>) -> Vec<Token> {
    const TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept: Vec<Token> = Vec::new();
    let mut place = 0;
    while place < tokens.len() {
        if are(&tokens, place, &TEST) {
            place += TEST.len();
            while are(&tokens, place, &["#", "["]) {
                place = after_group(&tokens, place + 1);
            }
            place = after_item(&tokens, place);
            continue;
        }
        let token = &tokens[place];
        let closes = token.kind == Kind::Sign && matches!(token.text.as_str(), ")" | "]" | "}");
        if closes
            && kept
                .last()
                .is_some_and(|it| it.kind == Kind::Sign && it.text == ",")
        {
            kept.pop();
        }
        kept.push(token.clone());
        place += 1;
    }
    kept
}

/// The text that a part's hash covers.
pub(crate) fn text_of(tokens: &[Token], has_messages: bool) -> String {
    let mut text = String::new();
    for token in tokens {
        let is_message = has_messages && token.kind == Kind::Text && token.text.contains(' ');
        text += if is_message { "\"\"" } else { &token.text };
        text.push('\n');
    }
    text
}
