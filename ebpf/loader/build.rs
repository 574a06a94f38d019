// SPDX-License-Identifier: MIT OR Apache-2.0

//! Embeds the eBPF object if the build names one, as `cargo xtask build` does. Any other build
//! takes the object from a file at run time.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-env-changed=WEFT_EBPF_OBJECT");
    println!("cargo::rustc-check-cfg=cfg(embedded_object)");
    let Some(object) = std::env::var_os("WEFT_EBPF_OBJECT").filter(|path| !path.is_empty()) else {
        return;
    };
    let path = Path::new(&object);
    println!("cargo::rerun-if-changed={}", path.display());
    match path.canonicalize() {
        Ok(path) => {
            println!("cargo::rustc-cfg=embedded_object");
            println!("cargo::rustc-env=WEFT_EBPF_OBJECT_PATH={}", path.display());
        }
        Err(error) => println!("cargo::error=WEFT_EBPF_OBJECT={}: {error}", path.display()),
    }
}
