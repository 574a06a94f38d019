// SPDX-License-Identifier: MIT OR Apache-2.0

//! Statements of documents about the source.

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

/// Renaming a test must not leave a stale name in a document.
#[test]
fn tests_named_in_security_md_exist() {
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

/// The first and last cell of each row of the table of crates in `docs/architecture.md`.
fn documented_crates(workspace: &Path) -> Vec<(String, Vec<String>)> {
    let page = fs::read_to_string(workspace.join("docs/architecture.md")).unwrap();
    let table = page.split("## Crates").nth(1).unwrap();
    let table = table.split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let dependencies = cells[2].split(", ").filter(|cell| *cell != "–");
        (
            cells[0].trim_matches('`').to_owned(),
            dependencies.map(str::to_owned).collect(),
        )
    })
    .collect()
}

#[test]
fn the_table_of_crates_matches_their_manifests() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = std::process::Command::new(cargo)
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(&workspace)
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let root = Path::new(metadata["workspace_root"].as_str().unwrap());
    let folder = |path: &serde_json::Value| {
        let path = Path::new(path.as_str().unwrap());
        let path = path.strip_prefix(root).unwrap().to_str().unwrap();
        path.trim_end_matches("/Cargo.toml").to_owned()
    };
    let mut actual = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let dependencies = package["dependencies"].as_array().unwrap();
        let local = dependencies.iter().filter(|it| it["path"].is_string());
        let mut local: Vec<String> = local.map(|it| folder(&it["path"])).collect();
        local.sort();
        local.dedup();
        actual.push((folder(&package["manifest_path"]), local));
    }
    let mut documented = documented_crates(&workspace);
    for (_, dependencies) in &mut documented {
        dependencies.sort();
    }
    actual.sort();
    documented.sort();
    assert_eq!(documented, actual, "docs/architecture.md does not match");
}
