// SPDX-License-Identifier: MIT OR Apache-2.0

//! Plain technical English in what people read: documents, comments and the subjects of commits.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Phrases that make a native reader stop, and what to write instead.
const PHRASES: [(&str, &str); 17] = [
    ("whoever", "name the host, the user or the packet"),
    ("of whom", "name the thing"),
    ("to whom", "name the thing"),
    ("is told", "use an active verb: reports, prints, receives"),
    ("are told", "use an active verb: report, print, receive"),
    ("is had", "use an active verb"),
    ("sent again", "retransmitted"),
    ("sends again", "retransmits"),
    ("hardly", "almost no, rarely, or a number"),
    ("but for", "except for"),
    ("so many", "give the number"),
    ("no end of", "unlimited"),
    ("without an end", "unlimited, long-lived"),
    ("comes to be", "name the event"),
    ("of before", "earlier, from before"),
    ("as well as not", "say what it does"),
    ("it is to be", "must be, is"),
];

/// The last commit before the rule for subjects.
const FIRST_RULED: &str = "26dc856";

/// An imperative subject fits in a line of `git log`.
const LONGEST_SUBJECT: usize = 72;

/// Maximum of columns for a comment.
const LONGEST_COMMENT: usize = 100;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn git(words: &[&str]) -> String {
    let mut command = Command::new("git");
    let output = command.args(words).current_dir(workspace()).output();
    let output = output.expect("git, to know what is under version control");
    assert!(
        output.status.success(),
        "git {words:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Whether a line of a comment is prose, and not a row of a table or of a diagram.
fn is_prose(line: &str) -> bool {
    let comment = line.trim_start();
    let is_comment = ["//", "/*", "* "].iter().any(|it| comment.starts_with(it));
    let is_drawn = |c: char| ('\u{2190}'..='\u{25ff}').contains(&c);
    is_comment && !comment.contains("   ") && !comment.contains('|') && !comment.contains(is_drawn)
}

/// Whether a phrase occurs in a text as whole words.
fn occurs(text: &str, phrase: &str) -> bool {
    let is_apart = |c: Option<char>| !c.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        is_apart(before) && is_apart(after)
    })
}

/// The phrases in a document, each with its line.
fn found(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_output = false;
    for (number, line) in (1..).zip(document.lines()) {
        if line.starts_with("```") {
            is_output = !is_output;
        }
        if is_output {
            continue;
        }
        let line = line.to_lowercase();
        for (phrase, instead) in PHRASES {
            if occurs(&line, phrase) {
                found.push(format!("{number}: “{phrase}”: {instead}"));
            }
        }
    }
    found
}

/// Generated pages have the words of their sources.
fn is_written_by_hand(path: &str) -> bool {
    !path.starts_with("docs/experiments/") || path.ends_with("README.md")
}

/// What people read: documents, manual pages, settings and scripts; and sources, for their
/// comments, `--help` and messages.
const READ: [&str; 11] = [
    "*.md", "*.7", "*.8", "*.toml", "*.tc", "*.route", "*.sysctl", "*.sh", "*.rs", "*.c", "*.h",
];

/// This list itself has the phrases.
const LIST: &str = "vm/xtask/tests/words.rs";

#[test]
fn the_project_uses_plain_words() {
    let mut complaints = Vec::new();
    for pattern in READ {
        let mut read = 0;
        for path in git(&["ls-files", pattern]).lines() {
            if path == LIST || !is_written_by_hand(path) {
                continue;
            }
            let text = fs::read_to_string(workspace().join(path)).unwrap();
            complaints.extend(found(&text).into_iter().map(|it| format!("{path}:{it}")));
            read += 1;
        }
        assert!(read > 0, "no {pattern}");
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn phrases_are_found_as_words_outside_of_output() {
    assert_eq!(found("Whoever sends.\n").len(), 1);
    assert_eq!(
        found("```console\nsent again\n```\nsent against\n"),
        [""; 0]
    );
}

#[test]
fn the_front_page_fits_in_120_lines() {
    let page = fs::read_to_string(workspace().join("README.md")).unwrap();
    assert!(page.lines().count() <= 120, "{}", page.lines().count());
}

#[test]
fn comments_fit_in_100_columns() {
    let mut long = Vec::new();
    for path in git(&["ls-files", "*.rs", "*.c", "*.h"]).lines() {
        let text = fs::read_to_string(workspace().join(path)).unwrap();
        for (number, line) in (1..).zip(text.lines()) {
            if is_prose(line) && line.chars().count() > LONGEST_COMMENT {
                long.push(format!("{path}:{number}"));
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// The licences of sources, as SPDX identifiers.
const LICENCES: [&str; 3] = ["MIT OR Apache-2.0", "GPL-2.0-only", "GPL-2.0-only OR MIT"];

#[test]
fn sources_state_their_licence_in_the_first_line() {
    let mut wrong = Vec::new();
    for path in git(&["ls-files", "*.rs", "*.c", "*.h", "*.7", "*.8"]).lines() {
        let text = fs::read_to_string(workspace().join(path)).unwrap();
        let first = text.lines().next().unwrap_or_default();
        let licence = first.split_once("SPDX-License-Identifier: ");
        let licence = licence.map(|(_, rest)| rest.trim_end_matches(" */"));
        if !licence.is_some_and(|it| LICENCES.contains(&it)) {
            wrong.push(format!("{path}: {first}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn subjects_of_commits_fit_in_a_line() {
    let range = format!("{FIRST_RULED}..HEAD");
    let subjects = git(&["log", "--no-merges", "--format=%s", &range]);
    let long: Vec<&str> = subjects
        .lines()
        .filter(|subject| subject.chars().count() > LONGEST_SUBJECT)
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}
