// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rust files: what they declare and mention, and the files that a file needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::tokens::{Kind, Token, are, plain, tokens};

/// A Rust file.
pub(crate) struct Source {
    /// Without declarations of modules: those that are needed count by themselves.
    pub(super) tokens: Vec<Token>,
    /// Words in it, except those that only declare modules.
    pub(super) mentions: BTreeSet<String>,
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
        let mut modules = Vec::new();
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
                    let visibility = match word(place.wrapping_sub(1)) {
                        "pub" => 1,
                        // `pub(crate)`
                        ")" => 4,
                        _ => 0,
                    };
                    modules.push(place.saturating_sub(visibility)..place + 3);
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
                // Not that of a type, as in `-> impl Iterator`.
                "impl"
                    if matches!(
                        word(place.wrapping_sub(1)),
                        "" | "{" | "}" | ";" | "]" | "unsafe"
                    ) =>
                {
                    impls.push(place);
                }
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
        let kept = tokens.into_iter().enumerate();
        let kept = kept.filter(|(place, _)| !modules.iter().any(|module| module.contains(place)));
        Self {
            tokens: kept.map(|(_, token)| token).collect(),
            mentions,
            paths,
            declares,
            gives,
        }
    }
}

/// Whether a file is a kernel module's, by its name.
pub(super) fn is_module(stem: &str) -> bool {
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
    /// and files) that they mention, and the dependencies of these. A candidate with the name of
    /// a module that `roots` declare does not count: the name means that module.
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
        let mut needed = Vec::new();
        for root in roots {
            needed.push((root.clone(), self.read(root)?));
        }
        let own = needed.iter().flat_map(|(_, source)| &source.declares);
        let own: BTreeSet<&String> = own.map(|(name, _)| name).collect();
        let candidates = candidates.iter().filter(|(name, _)| !own.contains(name));
        let mut declared: Vec<_> = candidates.cloned().collect();
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
