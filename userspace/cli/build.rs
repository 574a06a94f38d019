// SPDX-License-Identifier: MIT OR Apache-2.0

//! Puts hashes into the program of what decides a run's results, as the source is when it is built.

use std::fmt::Write as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

#[path = "src/sources/read.rs"]
#[allow(dead_code)]
mod read;

/// Where the source of a part may be. Whole folders are watched: a new file counts at once.
const FOLDERS: [&str; 10] = [
    "kmod",
    "vm/build/src/stages/boot.sh",
    "vm/um",
    "vm/guest/src",
    "vm/machine/src/um.rs",
    "ebpf",
    "userspace/pase/src",
    "userspace/arbiter/src",
    "userspace/load/src",
    "userspace/net/src",
];

fn main() {
    let manifest = std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where");
    let root = Path::new(&manifest).join("../..");
    let mut text = "[".to_owned();
    // A package of this crate alone has no source of the others: then nothing is known to be
    // current.
    if root.join("kmod/lib.rs").exists() {
        let parts = read::parts(&root).unwrap_or_else(|error| panic!("reading sources: {error}"));
        for (name, source) in parts {
            let hash = Sha256::digest(source);
            let short = hash.iter().take(8).fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            });
            let _ = write!(text, "({name:?}, {short:?}),");
        }
        for folder in FOLDERS.into_iter().chain(["userspace/lab/src"]) {
            println!("cargo::rerun-if-changed={}", root.join(folder).display());
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/sources/read.rs");
    println!("cargo::rerun-if-changed=src/sources/read");
    let out = std::env::var("OUT_DIR").expect("cargo says where");
    std::fs::write(Path::new(&out).join("sources.rs"), text + "]").expect("a file");
}
