// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rebuilds the crate when a file appears in a folder that is in the program, or leaves it:
//! `include_dir!` only watches the files that were there.

fn main() {
    let manifest = std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where");
    for folder in ["../../tc-configs", "../experiments"] {
        println!("cargo::rerun-if-changed={manifest}/{folder}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
