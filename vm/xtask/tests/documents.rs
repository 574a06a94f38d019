// SPDX-License-Identifier: MIT OR Apache-2.0

//! What documents say of the source.

use std::fs;
use std::path::Path;

/// The text of all of the project's source files in a folder.
fn source(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name == "target" || name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            source(&path, text);
        } else if name.ends_with(".rs") {
            *text += &fs::read_to_string(&path).unwrap();
        }
    }
}

/// A test is renamed more easily than a promise is read again.
#[test]
fn tests_that_the_account_of_security_names_are_there() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let account = fs::read_to_string(workspace.join("SECURITY.md")).unwrap();
    let mut text = String::new();
    source(&workspace, &mut text);
    let words = account.split('`').skip(1).step_by(2);
    let is_test = |word: &&str| {
        let of_names = |c: char| c.is_ascii_lowercase() || c == '_';
        word.matches('_').count() >= 2 && word.chars().all(of_names)
    };
    let mut named = 0;
    for word in words.filter(is_test) {
        // A test, a part of the guest's tests, or one of Linux's settings.
        let is_there = [format!("fn {word}("), format!("mod {word};")]
            .iter()
            .any(|it| text.contains(it.as_str()));
        assert!(is_there || word == "tcp_orphan_retries", "{word}");
        named += 1;
    }
    assert!(named > 10, "{named}");
}
