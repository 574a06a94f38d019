// SPDX-License-Identifier: MIT OR Apache-2.0

//! The output of `rust-metadata` if modules cannot be built.

use std::process::{Command, Output};

fn check(release: &str, tree: &str) -> Output {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../packaging/dkms/rust-metadata"
    );
    let mut command = Command::new("sh");
    command.args([script, "--check", release, tree]);
    command.output().unwrap()
}

/// DKMS skips a kernel if the exit status is 77.
#[test]
fn a_kernel_without_its_build_tree_is_reported() {
    let empty = std::env::temp_dir().join(format!("weft-no-kernel-{}", std::process::id()));
    std::fs::create_dir_all(&empty).unwrap();
    let below = |name: &str| empty.join(name).display().to_string();
    for tree in [below("build"), below("9.9.9-none/build")] {
        let output = check("9.9.9-none", &tree);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            said,
            format!(
                "weft has no modules for Linux 9.9.9-none: there is no build tree {tree}. Install the kernel's \
                 headers, with Debian: apt install linux-headers-9.9.9-none\n"
            )
        );
        assert_eq!(output.status.code(), Some(77), "{said}");
    }
    // The folder exists, but it is empty.
    let output = check("9.9.9-none", &empty.display().to_string());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("its configuration is neither in"), "{said}");
    assert_eq!(output.status.code(), Some(77), "{said}");
    std::fs::remove_dir(&empty).unwrap();
}
