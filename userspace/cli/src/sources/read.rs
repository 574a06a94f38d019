// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hashes of the source that decides a run's results, for the build script.
//! A hash covers tokens. It excludes comments, white space, tests and trailing commas, and, in
//! programs, strings with a space in them, which are messages. If several kernel modules share
//! code, a module's hash covers the files that it mentions, and the files that these mention: a
//! change to one qdisc's helper does not affect the others. In doubt the rule includes too many
//! files, which costs an unnecessary run; too few would hide a change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

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
fn are(tokens: &[Token], place: usize, expected: &[&str]) -> bool {
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
fn after_item(tokens: &[Token], mut place: usize) -> usize {
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

/// A Rust file.
pub(crate) struct Source {
    tokens: Vec<Token>,
    /// Words in it, except those that only declare modules.
    mentions: BTreeSet<String>,
    /// Those words that are part of a path, like a module's name where it is used.
    paths: BTreeSet<String>,
    /// Modules that it declares: names and files.
    declares: Vec<(String, PathBuf)>,
    /// Names that other files can use without mentioning this file: macros, and methods of other
    /// types.
    gives: BTreeSet<String>,
}

impl Source {
    pub(crate) fn parse(text: &str, path: &Path) -> Self {
        let tokens = plain(tokens(text));
        let folder = path.parent().unwrap_or(Path::new(""));
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let is_root = stem == "mod" || stem == "lib" || stem == "main" || is_module(&stem);
        let below = if is_root {
            folder.to_owned()
        } else {
            folder.join(&*stem)
        };
        let (mut mentions, mut paths) = (BTreeSet::new(), BTreeSet::new());
        let mut declares = Vec::new();
        let mut is_use = false;
        let mut gives = BTreeSet::new();
        let mut own = BTreeSet::new();
        let mut impls = Vec::new();
        let mut path_of_next = None;
        let mut place = 0;
        while place < tokens.len() {
            let word = |place: usize| tokens.get(place).map_or("", |it| it.text.as_str());
            match word(place) {
                "#" if are(&tokens, place, &["#", "[", "path", "="]) => {
                    path_of_next = Some(folder.join(word(place + 4).trim_matches('"')));
                    place += 6;
                    continue;
                }
                "mod" if word(place + 2) == ";" => {
                    let name = word(place + 1).to_owned();
                    let file = path_of_next.take().unwrap_or_else(|| {
                        let beside = below.join(format!("{name}.rs"));
                        if beside.exists() {
                            beside
                        } else {
                            below.join(&name).join("mod.rs")
                        }
                    });
                    declares.push((name, file));
                    place += 3;
                    continue;
                }
                "macro_rules" => {
                    gives.insert(word(place + 2).to_owned());
                }
                // The folder's mechanism, see kapi/head.rs.
                "mechanism" if are(&tokens, place + 1, &["!", "("]) => {
                    declares.push((word(place + 3).to_owned(), folder.join("mod.rs")));
                }
                "struct" | "enum" | "union" | "trait" | "type" => {
                    own.insert(word(place + 1).to_owned());
                }
                "impl" => impls.push(place),
                _ => {}
            }
            is_use = word(place) == "use" || (is_use && word(place) != ";");
            if tokens[place].kind == Kind::Word {
                mentions.insert(word(place).to_owned());
                let follows = place > 1 && are(&tokens, place - 2, &[":", ":"]);
                if is_use || follows || are(&tokens, place + 1, &[":", ":"]) {
                    paths.insert(word(place).to_owned());
                }
            }
            place += 1;
        }
        for place in impls {
            let head: Vec<&str> = tokens[place + 1..]
                .iter()
                .map(|it| it.text.as_str())
                .take_while(|it| *it != "{" && *it != ";")
                .collect();
            let names = |words: &[&str]| -> Vec<String> {
                let is_name = |it: &&&str| it.len() > 1 && it.starts_with(char::is_uppercase);
                words
                    .iter()
                    .filter(is_name)
                    .map(|it| (*it).to_owned())
                    .collect()
            };
            let (of, on) = match head.iter().position(|it| *it == "for") {
                Some(place) => (names(&head[..place]), names(&head[place + 1..])),
                None => (Vec::new(), names(&head)),
            };
            // A caller of a trait's methods mentions the trait, and a user of a type mentions the
            // type.
            if !of.iter().chain(&on).any(|name| own.contains(name)) {
                gives.extend(on);
            }
        }
        Self {
            tokens,
            mentions,
            paths,
            declares,
            gives,
        }
    }
}

/// Whether a file is a kernel module's, by its name.
fn is_module(stem: &str) -> bool {
    stem.starts_with("sch_") || stem.starts_with("tcp_")
}

/// Reads each file once.
#[derive(Default)]
pub(crate) struct Reader(BTreeMap<PathBuf, Rc<Source>>);

impl Reader {
    pub(crate) fn read(&mut self, path: &Path) -> io::Result<Rc<Source>> {
        if let Some(source) = self.0.get(path) {
            return Ok(Rc::clone(source));
        }
        let told =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let text = fs::read_to_string(path).map_err(told)?;
        let source = Rc::new(Source::parse(&text, path));
        self.0.insert(path.to_owned(), Rc::clone(&source));
        Ok(source)
    }

    /// Files and their dependencies: the modules that they declare, those of `candidates` (names
    /// and files) that they mention, and the dependencies of these.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(crate) fn closure(
        &mut self,
        roots: &[PathBuf],
        candidates: &[(String, PathBuf)],
    ) -> io::Result<BTreeMap<PathBuf, Rc<Source>>> {
        let mut found: BTreeMap<PathBuf, Rc<Source>> = BTreeMap::new();
        let mut others: BTreeMap<PathBuf, (String, Rc<Source>)> = BTreeMap::new();
        let (mut mentions, mut paths) = (BTreeSet::new(), BTreeSet::new());
        let mut declared = candidates.to_vec();
        let mut needed = Vec::new();
        for root in roots {
            needed.push((root.clone(), self.read(root)?));
        }
        while !needed.is_empty() {
            for (path, source) in needed.drain(..) {
                declared.extend(source.declares.iter().cloned());
                mentions.extend(source.mentions.iter().cloned());
                paths.extend(source.paths.iter().cloned());
                found.insert(path, source);
            }
            for (name, path) in declared.drain(..) {
                let path = normal(&path);
                if !found.contains_key(&path) && !others.contains_key(&path) {
                    let source = self.read(&path)?;
                    others.insert(path, (name, source));
                }
            }
            let is_needed = |name: &String, source: &Source| {
                paths.contains(name) || source.gives.iter().any(|it| mentions.contains(it))
            };
            let keys: Vec<PathBuf> = others
                .iter()
                .filter(|(_, (name, source))| is_needed(name, source))
                .map(|(path, _)| path.clone())
                .collect();
            for key in keys {
                if let Some((path, (_, source))) = others.remove_entry(&key) {
                    needed.push((path, source));
                }
            }
        }
        Ok(found)
    }
}

/// A path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir if plain.file_name().is_some() => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

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

/// Lines of a script, a configuration or a patch, without comments and without a patch's header.
pub(crate) fn lines(text: &str) -> String {
    let is_patch = text.lines().any(|line| line.starts_with("--- "));
    let lines = text
        .lines()
        .skip_while(|line| is_patch && !line.starts_with("--- "));
    let says = |line: &&str| {
        let line = line.trim();
        let is_comment =
            line.starts_with('#') && !line.starts_with("#!") && !line.ends_with("is not set");
        is_patch || !(line.is_empty() || is_comment)
    };
    lines.filter(says).collect::<Vec<_>>().join("\n")
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

/// The Rust files in a folder and below it, except tests and certain names of files and folders.
///
/// # Errors
/// If a folder cannot be read.
pub(crate) fn files(folder: &Path, without: &[&str]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in entries(folder)? {
        let stem = stem(&path);
        if without.contains(&stem.as_str()) || stem == "tests" {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path, without)?);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

/// The parts that decide results, each with the text that its hash covers.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn parts(root: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut reader = Reader::default();
    let mut parts = BTreeMap::new();
    let mut folders = entries(&root.join("kmod"))?;
    folders.retain(|folder| folder.is_dir() && !folder.ends_with("kapi"));
    for path in folders.iter().map(|folder| entries(folder)) {
        for path in path? {
            let stem = stem(&path);
            if is_module(&stem) && path.extension().is_some_and(|it| it == "rs") {
                parts.insert(stem, module(&mut reader, root, &path)?);
            }
        }
    }
    let mechanisms: Vec<(String, PathBuf)> = folders
        .iter()
        .map(|folder| (stem(folder), folder.join("mod.rs")))
        .filter(|(_, path)| path.exists())
        .collect();
    let mut program = |name: &str, roots: Vec<PathBuf>, candidates: &[(String, PathBuf)]| {
        let found = reader.closure(&roots, candidates)?;
        let texts = found.values().map(|source| text_of(&source.tokens, true));
        parts.insert(name.to_owned(), texts.collect::<String>());
        io::Result::Ok(())
    };
    let mut guest = files(
        &root.join("vm/guest/src"),
        &["session", "transfer", "output"],
    )?;
    guest.push(root.join("vm/machine/src/um.rs"));
    program("guest", guest, &[])?;
    let mut ebpf = files(&root.join("ebpf/programs/src"), &[])?;
    ebpf.extend(files(&root.join("ebpf/common/src"), &[])?);
    ebpf.extend(files(
        &root.join("ebpf/loader/src"),
        &["main", "lib", "counters"],
    )?);
    program("ebpf", ebpf, &mechanisms)?;
    for (name, folder) in [
        ("weft-pase", "userspace/pase/src"),
        ("weft-arbiter", "userspace/arbiter/src"),
    ] {
        program(name, files(&root.join(folder), &[])?, &mechanisms)?;
    }
    // The flows have a separate hash.
    let drawn = [
        "error",
        "lib",
        "sizes",
        "arrivals",
        "pairs",
        "generate",
        "incast",
        "deadlines",
        "collective",
        "trace",
        "hosts",
        "lines",
        "quantity",
        "random",
        "load",
    ];
    program(
        "engine",
        files(&root.join("userspace/load/src"), &drawn)?,
        &[],
    )?;
    // Topologies and schemes have separate hashes, and experiments only use results.
    let planned = [
        "error",
        "lib",
        "experiment",
        "results",
        "session",
        "live",
        "signals",
        "words",
        "number",
        "inputs",
        "parameter",
        "variables",
        "scheme",
        "topology",
        "shape",
        "traffic",
        "gates",
    ];
    program(
        "measuring",
        files(&root.join("userspace/lab/src"), &planned)?,
        &[],
    )?;
    let other = [
        "error", "lib", "commands", "down", "orphans", "probe", "rootless", "machine", "part",
        "layout", "follow",
    ];
    program(
        "weaving",
        files(&root.join("userspace/net/src"), &other)?,
        &[],
    )?;
    // Names of gates appear in results, and contain spaces.
    let gates = reader.read(&root.join("userspace/lab/src/gates.rs"))?;
    parts.insert("gates".to_owned(), text_of(&gates.tokens, false));
    let mut kernel = String::new();
    let recipe = ["vm/um/build.sh", "vm/um/config"].map(|it| root.join(it));
    for path in recipe
        .into_iter()
        .chain(entries(&root.join("vm/um/patches"))?)
    {
        kernel += &lines(&fs::read_to_string(path)?);
    }
    parts.insert("kernel".to_owned(), kernel);
    Ok(parts)
}

/// The source of a kernel module.
fn module(reader: &mut Reader, root: &Path, path: &Path) -> io::Result<String> {
    let found = reader.closure(&[path.to_owned()], &[])?;
    let words = found
        .values()
        .flat_map(|it| it.mentions.iter().cloned())
        .collect();
    let mut text: String = found
        .values()
        .map(|source| text_of(&source.tokens, false))
        .collect();
    let mut functions = String::new();
    for path in entries(&root.join("kmod/kapi"))? {
        if path.extension().is_some_and(|it| it == "c") {
            functions += &fs::read_to_string(path)?;
        }
    }
    let declarations = fs::read_to_string(root.join("kmod/kapi/bindings.h"))?;
    for source in [functions, declarations] {
        text += &text_of(&items_of_c(&source, &words), false);
    }
    Ok(text + &lines(&fs::read_to_string(root.join("kmod/Kbuild"))?))
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The entries of a folder, sorted.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut all: Vec<PathBuf> = entries.collect::<io::Result<_>>()?;
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text that the hash of a source covers.
    fn hashed(text: &str) -> String {
        text_of(&plain(tokens(text)), false)
    }

    #[test]
    fn comments_layout_and_tests_are_no_part_of_a_hash() {
        let one = "fn f(a: u8, b: u8) -> char { g(a, b); '\'' }";
        let other = "
            //! A module.
            /// A function. /* not closed
            fn f(
                a: u8, // the first
                b: u8,
            ) -> char {
                /* nested /* twice */ \" */
                g(a, b);
                '\''
            }
            #[cfg(test)]
            #[path = \"x.rs\"]
            mod tests;
            #[cfg(test)]
            mod more { fn f() -> [u8; 1] { [1] } }
        "
        .replace("\\\"", "\"");
        assert_eq!(hashed(one), hashed(&other));
    }

    #[test]
    fn what_changes_bytes_changes_a_hash() {
        let all = [
            "fn f() { g(1) }",
            "fn f() { g(2) }",
            "fn f() { g(\"//1\") }",
            "fn f() { g(\"//2\") }",
            "fn f() { g(r#\"/*\"1*/\"#) }",
            "fn f() { g(r#\"/*\"2*/\"#) }",
            "fn f<'a>() { g('a') }",
            "fn f<'a>() { g('b') }",
            "fn f() { g(b'\\'', c\"x\") }",
            "fn f() { g(b'\\'', c\"y\") }",
            "#[cfg(not(test))] fn f() { g(1) }",
        ];
        for (place, one) in all.iter().enumerate() {
            let others = all.iter().skip(place + 1);
            others.for_each(|other| assert_ne!(hashed(one), hashed(other)));
        }
    }

    #[test]
    fn messages_are_left_out_where_they_decide_nothing() {
        let hashed = |text| text_of(&tokens(text), true);
        assert_eq!(
            hashed("f(\"no such file\")"),
            hashed("f(\"there is none\")")
        );
        assert_ne!(hashed("f(\"tcp_rmem\")"), hashed("f(\"tcp_wmem\")"));
    }

    #[test]
    fn lines_without_effect_are_left_out() {
        let one = "# A clock.\nCONFIG_A=y\n# CONFIG_B is not set\n";
        assert_eq!(lines(one), lines("CONFIG_A=y\n\n# CONFIG_B is not set\n"));
        assert_ne!(lines(one), lines("CONFIG_A=y\n"));
        let patch = "why\n\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+#b\n";
        assert_eq!(lines(patch), lines(&patch.replace("why", "because")));
        assert_ne!(lines(patch), lines(&patch.replace("#b", "#c")));
    }

    #[test]
    fn of_c_there_is_what_is_mentioned() {
        let text = "#include <a.h>\nstatic int x;\nint a(int n)\n{\n\treturn b(n);\n}\nint b(int n) { return n; }\n\
                    int c(int n) { return n; }\n";
        let words = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect();
        let of = |word: &str| text_of(&items_of_c(text, &words(&[word])), false).replace('\n', " ");
        assert!(
            of("a").contains("int a (")
                && of("a").contains("int b (")
                && !of("a").contains("int c (")
        );
        assert!(
            of("c").contains("int c (") && !of("c").contains("int a ("),
            "{}",
            of("c")
        );
        assert!(of("c").contains("static int x ;"));
    }

    /// A folder of files that is removed on drop.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let folder =
                std::env::temp_dir().join(format!("weft-sources-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            for (file, text) in files {
                let path = folder.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(folder)
        }

        fn needed(&self, root: &str) -> Vec<String> {
            let found = Reader::default()
                .closure(&[self.0.join(root)], &[])
                .unwrap();
            let names = found
                .keys()
                .map(|it| it.strip_prefix(&self.0).unwrap().display().to_string());
            names.filter(|name| name != root).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_module_has_what_it_mentions_and_what_that_mentions() {
        let folder = Folder::new(
            "closure",
            &[
                (
                    "m/sch_m.rs",
                    "#[path = \"../kapi/mod.rs\"] mod kapi;\n#[path = \"mod.rs\"] mod m;\nuse kapi::{a::Alpha};\nuse m::X;",
                ),
                ("m/mod.rs", "pub mod law;\npub mod unused;"),
                ("m/law.rs", ""),
                ("m/unused.rs", ""),
                ("kapi/mod.rs", "pub mod a;\nmod b;\nmod c;\nmod d;\nmod e;"),
                (
                    "kapi/a.rs",
                    "pub struct Alpha;\nfn f(c: u8) { super::b::g(c); m!() }",
                ),
                ("kapi/b.rs", "pub struct B;"),
                // Only a variable has its name.
                ("kapi/c.rs", "pub struct C;"),
                // Its method is called without mentioning its name.
                ("kapi/d.rs", "impl super::a::Alpha { pub fn h(&self) {} }"),
                // The same holds for its macro.
                ("kapi/e.rs", "macro_rules! m { () => {} }"),
            ],
        );
        let expected = [
            "kapi/a.rs",
            "kapi/b.rs",
            "kapi/d.rs",
            "kapi/e.rs",
            "kapi/mod.rs",
            "m/mod.rs",
        ];
        let mut needed = folder.needed("m/sch_m.rs");
        assert_eq!(needed, expected);
        fs::write(
            folder.0.join("m/sch_m.rs"),
            "#[path = \"mod.rs\"] mod m;\nuse m::law::L;",
        )
        .unwrap();
        needed = folder.needed("m/sch_m.rs");
        assert_eq!(needed, ["m/law.rs", "m/mod.rs"]);
    }

    #[test]
    fn each_part_of_weft_has_a_hash_and_is_read_whole() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let parts = parts(&root).unwrap();
        for name in [
            "kernel",
            "guest",
            "engine",
            "measuring",
            "weaving",
            "gates",
            "ebpf",
            "weft-pase",
            "weft-arbiter",
        ] {
            assert!(parts[name].len() > 1000, "{name}");
        }
        for qdisc in weft_mechanisms::QDISCS {
            let module = &parts[&format!("sch_{}", qdisc.kind)];
            // Its root, its options, and the kernel's side.
            for said in [&format!("\"sch_{}\"", qdisc.kind), "TCA_OPTIONS", "weft_"] {
                assert!(module.contains(said), "{}: {said}", qdisc.kind);
            }
        }
        // The algorithm of one system is not in another one's part.
        assert!(
            parts["sch_bfc"].contains("\nElision\n")
                && !parts["sch_pfabric"].contains("\nElision\n")
        );
        assert!(parts["weft-pase"].contains("\nDelegation\n"));
    }
}
