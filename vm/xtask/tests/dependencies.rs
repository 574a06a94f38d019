// SPDX-License-Identifier: MIT OR Apache-2.0

//! Checks crates of others: their licences (`deny.toml` lists the allowed ones), their registry,
//! and that none needs a newer Rust than weft's crates do. `cargo deny` checks more, with a
//! network.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Each workspace has its own crates.
const WORKSPACES: [&str; 3] = [
    "Cargo.toml",
    "ebpf/programs/Cargo.toml",
    "kmod/fuzz/Cargo.toml",
];

/// The problems of a package in `cargo metadata`.
fn complaints(package: &Value, allowed: &[&str], rust: (u32, u32)) -> Vec<String> {
    let name = format!("{} {}", package["name"], package["version"]);
    let mut complaints = Vec::new();
    let licence = package["license"].as_str().unwrap_or_default();
    if !may(licence, allowed) {
        complaints.push(format!("{name}: licence {licence:?}"));
    }
    if package["source"]
        .as_str()
        .is_some_and(|source| !source.starts_with("registry+"))
    {
        complaints.push(format!("{name}: from {}", package["source"]));
    }
    let needed = package["rust_version"].as_str().and_then(minor);
    if needed.is_some_and(|needed| needed > rust) {
        complaints.push(format!("{name}: needs Rust {}", package["rust_version"]));
    }
    complaints
}

/// `(1, 88)` of `1.88` and of `1.88.0`.
fn minor(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Whether the allowed licences satisfy an SPDX expression. `/` is an old form of OR; an exception
/// (`WITH`) allows more, never less.
fn may(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any(&mut words, allowed) == Some(true) && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, allowed: &[&str]) -> Option<bool> {
    let mut met = all(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        met |= all(words, allowed)?;
    }
    Some(met)
}

fn all(words: &mut Words<'_>, allowed: &[&str]) -> Option<bool> {
    let mut met = one(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allowed)?;
    }
    Some(met)
}

fn one(words: &mut Words<'_>, allowed: &[&str]) -> Option<bool> {
    if words.next_if_eq(&"(").is_some() {
        let met = any(words, allowed)?;
        return words.next_if_eq(&")").map(|_| met);
    }
    let met = allowed.contains(&words.next()?);
    if words.next_if_eq(&"WITH").is_some() {
        words.next()?;
    }
    Some(met)
}

/// The words in quotes of `allow = […]`.
fn allowed(deny: &str) -> Vec<&str> {
    let list = deny
        .split_once("\nallow = [")
        .and_then(|(_, rest)| rest.split_once(']'));
    let words = list.map_or("", |(list, _)| list).split('"');
    words.skip(1).step_by(2).collect()
}

#[test]
fn dependencies_have_allowed_licences_registry_sources_and_our_rust() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let deny = std::fs::read_to_string(workspace.join("deny.toml")).unwrap();
    let allowed = allowed(&deny);
    let rust = minor(env!("CARGO_PKG_RUST_VERSION")).unwrap();
    for manifest in WORKSPACES {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args([
            "metadata",
            "--locked",
            "--format-version",
            "1",
            "--all-features",
        ]);
        command.arg("--manifest-path").arg(workspace.join(manifest));
        let output = command.output().unwrap();
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            let complaint = String::from_utf8_lossy(&output.stderr);
            panic!("{manifest}: {error}: {complaint}")
        });
        let packages = metadata["packages"].as_array().unwrap();
        assert!(
            packages.len() > 3,
            "{manifest}: {} packages",
            packages.len()
        );
        let complaints: Vec<String> = packages
            .iter()
            .flat_map(|package| complaints(package, &allowed, rust))
            .collect();
        assert!(complaints.is_empty(), "{manifest}: {complaints:#?}");
    }
}

#[test]
fn a_foreign_licence_a_foreign_source_and_a_newer_rust_are_reported() {
    let package = serde_json::json!({
        "name": "x", "version": "1.0.0", "license": "MIT AND SSPL-1.0", "source": "git+https://a.example/x",
        "rust_version": "1.99",
    });
    let complaints = complaints(&package, &["MIT"], (1, 88));
    assert_eq!(complaints.len(), 3, "{complaints:?}");
}

#[test]
fn a_licence_expression_is_met_by_allowed_licences() {
    let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"];
    for met in [
        "MIT",
        "GPL-2.0-only OR MIT",
        "Unlicense/MIT",
        "(MIT OR Zlib) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR X",
    ] {
        assert!(may(met, &allowed), "{met}");
    }
    for unmet in [
        "",
        "GPL-2.0-only",
        "MIT AND ISC",
        "(MIT OR Zlib) AND ISC",
        "MIT OR",
        "(MIT",
        "MIT MIT",
        "MIT OR Zlib AND",
    ] {
        assert!(!may(unmet, &allowed), "{unmet}");
    }
    let list = "x\nallow = [\n  \"A\",\n  \"B\",\n]\n";
    assert_eq!(self::allowed(list), ["A", "B"]);
}
