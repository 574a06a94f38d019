// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel's functions are still those that the comments of `kmod` describe.
//!
//! A module can replace a function of the kernel, or depend on when the kernel calls it. Its
//! comment then names that function. No compiler notices if the function's body changes, so
//! [`LIST`] has the hash of each such function's text, without comments and white space. A function
//! that has changed fails the test until somebody has read it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use weft_build::base::cache::Key;
use weft_build::base::{progress, workspace};
use weft_build::stages::chain::Built;
use weft_build::stages::{modules, source};

use crate::ktap::{self, Tally};

/// The test's name for `--filter`.
const NAME: &str = "kernel_assumptions";
/// The kept list: a file of the kernel, a function, and the hash of each of its texts that was
/// read. There are several if weft runs on kernels that differ in the function.
const LIST: &str = "vm/xtask/src/commands/test/assumptions.txt";
/// The beginning of the list.
const HEAD: &str = "\
# SPDX-License-Identifier: MIT OR Apache-2.0
# Functions of the kernel that comments of kmod describe, with the hash of each text that was read:
# see assumptions.rs.
";
/// The environment variable that accepts all changes and writes the list anew.
const BLESS: &str = "WEFT_BLESS";

/// A function of the kernel: its file, and its name.
type Function = (String, String);

/// Whether the test runs: with all tests, or if selected.
pub(super) fn is_selected(filter: Option<&str>) -> bool {
    ktap::selects(filter, NAME)
}

/// Compares the functions of the guests' kernel with the list.
///
/// # Errors
/// If the list or a source file cannot be read.
pub(super) fn run(built: &Built<'_>) -> Result<Tally> {
    let mut tally = Tally::default();
    let base = &built.base;
    let source = match source::ensure(built.cache, &base.resolution, &base.rootfs) {
        Ok(source) => source,
        Err(error) => {
            // The archive has only its newest kernels, and may be out of reach.
            progress::note(&format!("{NAME}: skipped, without source: {error:#}"));
            tally.skipped += 1;
            return Ok(tally);
        }
    };
    let workspace = workspace();
    let kernel = functions(&source::tree(&source))?;
    let described = Described::read(&workspace.join(modules::SOURCES))?;
    let path = workspace.join(LIST);
    let list = parse(&fs::read_to_string(&path).with_context(|| format!("reading {LIST}"))?);
    if std::env::var_os(BLESS).is_some() {
        fs::write(&path, text(&renewed(&list, &kernel, &described)))?;
        progress::note(&format!("{NAME}: {LIST} was written"));
    } else {
        let release = &base.resolution.kernel;
        for difference in differences(&list, &kernel, &described, release) {
            tally.fail(format!("{NAME}: {difference}"));
        }
    }
    if tally.failed == 0 {
        tally.pass();
    }
    Ok(tally)
}

/// The list's functions with their hashes.
type List = BTreeMap<Function, BTreeSet<String>>;

fn parse(list: &str) -> List {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some(((words.next()?, words.next()?), words.collect()))
    };
    lines.filter_map(row).collect()
}

fn text(list: &List) -> String {
    let mut text = HEAD.to_owned();
    for ((file, name), hashes) in list {
        let hashes: Vec<&str> = hashes.iter().map(String::as_str).collect();
        let _ = writeln!(text, "{file} {name} {}", hashes.join(" "));
    }
    text
}

/// The list with every function that comments describe, and its present hash.
fn renewed(list: &List, kernel: &BTreeMap<Function, String>, described: &Described) -> List {
    let mut renewed = List::new();
    for (function, hash) in kernel {
        let known = list.get(function);
        if described.requires(&function.1) || known.is_some() && described.has(&function.1) {
            let mut hashes = known.cloned().unwrap_or_default();
            hashes.insert(hash.clone());
            renewed.insert(function.clone(), hashes);
        }
    }
    renewed
}

/// The differences between the list, the comments and the kernel, a sentence each.
fn differences(
    list: &List,
    kernel: &BTreeMap<Function, String>,
    described: &Described,
    release: &str,
) -> Vec<String> {
    let cure = format!("then accept with {BLESS}=1 cargo xtask test --guest-only --filter {NAME}");
    let mut differences = Vec::new();
    for (function, hashes) in list {
        let (file, name) = function;
        let Some(places) = described.places.get(name) else {
            differences.push(format!(
                "no comment of kmod names {name}(), which {LIST} lists"
            ));
            continue;
        };
        let places = places.join(", ");
        match kernel.get(function) {
            None => differences.push(format!(
                "{file} of Linux {release} has no {name}(), which these comments describe: {places}"
            )),
            Some(hash) if !hashes.contains(hash) => differences.push(format!(
                "{name}() of {file} has changed in Linux {release}: read it and compare it with {places}, {cure}"
            )),
            Some(_) => {}
        }
    }
    let is_listed = |name: &str| list.keys().any(|(_, listed)| listed == name);
    for (file, name) in kernel.keys() {
        if described.requires(name) && !is_listed(name) {
            let places = described.places[name].join(", ");
            differences.push(format!(
                "{LIST} lacks {name}() of {file}, which these comments describe: {places}; compare them, {cure}"
            ));
        }
    }
    differences
}

/// The functions that comments of weft's modules name.
#[derive(Default)]
struct Described {
    /// The places of each name, as `kmod/FILE:LINE`.
    places: BTreeMap<String, Vec<String>>,
    /// All words of the code.
    code: BTreeSet<String>,
}

impl Described {
    fn read(folder: &Path) -> Result<Self> {
        let mut described = Self::default();
        for (name, path) in modules::files_without(folder, &["target", "fuzz"])? {
            if [".rs", ".c", ".h"].iter().any(|end| name.ends_with(end)) {
                described.add(&format!("{}/{name}", modules::SOURCES), &read(&path)?);
            }
        }
        Ok(described)
    }

    fn add(&mut self, file: &str, text: &str) {
        let (code, comments) = separated(text);
        self.code.extend(words(&code).map(str::to_owned));
        for (line, comment) in comments.lines().enumerate() {
            for name in named(comment) {
                let place = format!("{file}:{}", line + 1);
                self.places.entry(name.to_owned()).or_default().push(place);
            }
        }
    }

    /// Whether a comment names it.
    fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// Whether the list must have it, if it is a function of the kernel: a comment names it, and it
    /// is not just a function that the code calls.
    fn requires(&self, name: &str) -> bool {
        self.has(name) && !self.code.contains(name)
    }
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c| !is_of_word(c));
    words.filter(|word| !word.is_empty())
}

/// The names in a comment's line: in back quotes, or followed by `()`.
fn named(comment: &str) -> Vec<&str> {
    let quoted = comment.split('`').skip(1).step_by(2);
    let quoted = quoted.filter(|name| !name.is_empty() && name.chars().all(is_of_word));
    let called = comment.match_indices("()").filter_map(|(end, _)| {
        let before = &comment[..end];
        let start = before.trim_end_matches(is_of_word).len();
        (start < end).then(|| &before[start..])
    });
    quoted.chain(called).collect()
}

/// A file's code and its comments. Both have the lines of the file.
fn separated(text: &str) -> (String, String) {
    let (mut code, mut comments) = (String::new(), String::new());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (is_comment, length) = if rest.starts_with("//") {
            (true, rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            (true, rest.find("*/").map_or(rest.len(), |end| end + 2))
        } else if rest.starts_with("'\"'") {
            (false, 3)
        } else if first == '"' {
            (false, string(rest))
        } else {
            (false, first.len_utf8())
        };
        let (part, after) = rest.split_at(length);
        let lines = "\n".repeat(part.matches('\n').count());
        code.push_str(if is_comment { &lines } else { part });
        comments.push_str(if is_comment { part } else { &lines });
        rest = after;
    }
    (code, comments)
}

/// The length of the string with which a text begins.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            _ => escaped = c == '\\' && !escaped,
        }
    }
    text.len()
}

/// The functions of a source tree with their hashes.
fn functions(tree: &Path) -> Result<BTreeMap<Function, String>> {
    let mut functions = BTreeMap::new();
    for (file, path) in modules::files_without(tree, &[])? {
        if [".c", ".h"].iter().any(|end| file.ends_with(end)) {
            for (name, text) in definitions(&read(&path)?) {
                functions.insert((file.clone(), name), Key::new(&text).finish());
            }
        }
    }
    Ok(functions)
}

fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The functions that a C file defines, in the kernel's style, each from its first word to its
/// closing brace with single spaces. A function that is defined for several configurations has all
/// its definitions.
fn definitions(text: &str) -> BTreeMap<String, String> {
    let (code, _) = separated(text);
    let mut definitions: BTreeMap<String, String> = BTreeMap::new();
    let mut rest = code.as_str();
    while !rest.is_empty() {
        let line = rest.find('\n').map_or(rest.len(), |end| end + 1);
        // Everything else that begins a line there is a directive, a label or a closing brace.
        if !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            rest = &rest[line..];
            continue;
        }
        let end = rest.find(['{', ';']).unwrap_or(rest.len());
        let (head, body) = rest.split_at(end);
        let length = match body.starts_with('{') {
            true => end_of(body),
            false => body.len().min(1),
        };
        if body.starts_with('{') {
            let words: Vec<&str> = rest[..end + length].split_whitespace().collect();
            for name in callables(head) {
                let text = definitions.entry(name.to_owned()).or_default();
                text.push_str(&words.join(" "));
                text.push('\n');
            }
        }
        rest = &rest[end + length..];
    }
    definitions
}

/// The length of a block, which ends in its own line or with a brace that begins a line. Braces are
/// not counted over several lines, because `#ifdef` can double them.
fn end_of(block: &str) -> usize {
    let line = block.find('\n').unwrap_or(block.len());
    let count = |brace| block[..line].matches(brace).count();
    match count('{') == count('}') {
        true => line,
        false => block.find("\n}").map_or(block.len(), |at| at + 2),
    }
}

/// The names before parentheses that are not themselves in parentheses: of a function, and of
/// attributes with arguments.
fn callables(head: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    let mut names = Vec::new();
    for (at, c) in head.char_indices() {
        match c {
            '(' => {
                let before = head[..at].trim_end();
                let start = before.trim_end_matches(is_of_word).len();
                if depth == 0 && start < before.len() {
                    names.push(&before[start..]);
                }
                depth += 1;
            }
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "\
#include <net/tcp.h>
/* As in foo(): { */
struct table { int (*call)(int); } table = {
\t.call = foo,
};
static inline bool
bar(struct sock *sk)
{
#ifdef A
\tif (a) {
#else
\tif (b) {
#endif
\t\treturn '\"' == \"/* \\\" */\"[0]; // {
\t}
}
EXPORT_SYMBOL(bar);
int foo(int a);
int __must_hold(&lock) foo(int a)
{
\treturn a;
}
#ifdef B
static void empty(void) { }
#else
static void empty(void) { call(); }
#endif
";

    fn described(comments: &str) -> Described {
        let mut described = Described::default();
        described.add("kmod/a.c", comments);
        described
    }

    fn kernel(text: &str) -> BTreeMap<Function, String> {
        let functions = definitions(text).into_iter();
        let hashed = |(name, text): (String, String)| (("net/a.c".into(), name), text);
        functions.map(hashed).collect()
    }

    #[test]
    fn definitions_are_found_and_prototypes_are_not() {
        let found = definitions(KERNEL);
        let names: Vec<_> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["__must_hold", "bar", "empty", "foo"]);
        assert_eq!(
            found["foo"],
            "int __must_hold(&lock) foo(int a) { return a; }\n"
        );
        assert_eq!(
            found["bar"],
            "static inline bool bar(struct sock *sk) { #ifdef A if (a) { #else if (b) { #endif \
             return '\"' == \"/* \\\" */\"[0]; } }\n"
        );
        assert_eq!(
            found["empty"],
            "static void empty(void) { }\nstatic void empty(void) { call(); }\n"
        );
    }

    #[test]
    fn a_comment_and_white_space_do_not_change_a_function() {
        let other = KERNEL.replace("\treturn a;", "\t/* The same. */\n\n\treturn  a; // }");
        assert_eq!(definitions(KERNEL), definitions(&other));
        let other = KERNEL.replace("return a;", "return -a;");
        assert_ne!(definitions(KERNEL), definitions(&other));
    }

    #[test]
    fn a_function_that_changed_or_is_gone_is_reported_with_the_comments_that_describe_it() {
        let described =
            described("/* As foo()\n * of `bar`, and empty(). */\nvoid f() { empty(); }");
        let kernel = kernel(KERNEL);
        let list = renewed(&List::new(), &kernel, &described);
        let names: Vec<_> = list.keys().map(|(_, name)| name.as_str()).collect();
        // `empty` is only called.
        assert_eq!(names, ["bar", "foo"]);
        assert_eq!(parse(&text(&list)).len(), 2);
        let found = |text| differences(&list, &text, &described, "7.2");
        assert!(found(kernel).is_empty());
        let changed = self::kernel(&KERNEL.replace("return a;", "return -a;"));
        let report = found(changed);
        assert_eq!(report.len(), 1, "{report:?}");
        assert!(
            report[0].starts_with("foo() of net/a.c has changed in Linux 7.2"),
            "{report:?}"
        );
        assert!(report[0].contains("kmod/a.c:1"), "{report:?}");
        let report = found(self::kernel(&KERNEL.replace("bar(", "baz(")));
        assert_eq!(
            report,
            ["net/a.c of Linux 7.2 has no bar(), which these comments describe: kmod/a.c:2"]
        );
    }

    #[test]
    fn each_function_that_comments_describe_must_be_listed_and_no_other() {
        let kernel = kernel(KERNEL);
        let report = differences(&List::new(), &kernel, &described("// As `foo`."), "7.2");
        assert_eq!(report.len(), 1, "{report:?}");
        assert!(report[0].contains("lacks foo() of net/a.c"), "{report:?}");
        let list = renewed(&List::new(), &kernel, &described("// As `foo`."));
        let report = differences(&list, &kernel, &described("// No name."), "7.2");
        assert_eq!(report.len(), 1, "{report:?}");
        assert!(
            report[0].contains("no comment of kmod names foo()"),
            "{report:?}"
        );
    }

    #[test]
    fn an_accepted_change_leaves_the_earlier_text_accepted() {
        let described = described("// As `foo`.");
        let before = kernel(KERNEL);
        let after = kernel(&KERNEL.replace("return a;", "return -a;"));
        let list = renewed(&List::new(), &before, &described);
        let list = renewed(&list, &after, &described);
        for kernel in [&before, &after] {
            assert!(differences(&list, kernel, &described, "7.2").is_empty());
        }
    }

    #[test]
    fn the_kept_list_names_functions_of_the_folders_that_are_unpacked() {
        let list = fs::read_to_string(workspace().join(LIST)).unwrap();
        let list = parse(&list);
        assert!(list.len() > 50, "{}", list.len());
        for (file, name) in list.keys() {
            let below = |folder: &&str| file.starts_with(&format!("{folder}/"));
            assert!(source::FOLDERS.iter().any(below), "{file} {name}");
        }
    }
}
