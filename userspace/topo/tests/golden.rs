// SPDX-License-Identifier: MIT OR Apache-2.0

//! The whole plan of one fabric of each kind, compared with `tests/golden`. To accept a change, run
//! with `WEFT_BLESS=1` and read the difference.

use std::path::Path;

use weft_topo::Spec;

const LICENCE: &str = "# SPDX-License-Identifier: MIT OR Apache-2.0\n\n";

fn compare(name: &str, spec: &Spec) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let plan = LICENCE.to_owned() + &spec.topology().describe();
    if std::env::var_os("WEFT_BLESS").is_some() {
        std::fs::write(&path, &plan).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    for (i, (is, was)) in plan.lines().zip(golden.lines()).enumerate() {
        assert_eq!(is, was, "line {} of {name}", i + 1);
    }
    assert_eq!(plan, golden, "{name}");
}

fn named(text: &str) -> Spec {
    text.parse().unwrap()
}

#[test]
fn fat_tree() {
    compare("fat-tree.txt", &named("fat-tree:k=4,oversubscription=4"));
}

#[test]
fn leaf_spine() {
    compare(
        "leaf-spine.txt",
        &named("leaf-spine:leaves=3,spines=2,hosts=2"),
    );
}

#[test]
fn pfabrics_leaf_spine() {
    compare("leaf-spine-pfabric.txt", &named("leaf-spine"));
}

#[test]
fn rack() {
    compare("rack.txt", &named("rack"));
}

#[test]
fn dumbbell() {
    compare(
        "dumbbell.txt",
        &named("dumbbell:left=2,right=3,bottleneck-rate=1gbit"),
    );
}

#[test]
fn bfc_testbed() {
    compare("bfc-testbed.txt", &named("bfc-testbed"));
}

#[test]
fn file() {
    compare(
        "file.txt",
        &Spec::from_toml(include_str!("golden/file.toml")).unwrap(),
    );
}
