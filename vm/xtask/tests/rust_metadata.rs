// SPDX-License-Identifier: MIT OR Apache-2.0

//! The output of `rust-metadata` if modules cannot be built.

use std::process::{Command, Output};

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../packaging/dkms/rust-metadata"
);

fn check(release: &str, tree: &str) -> Output {
    let mut command = Command::new("sh");
    command.args([SCRIPT, "--check", release, tree]);
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

#[test]
fn a_build_tree_with_a_space_in_its_path_is_refused() {
    let folder = std::env::temp_dir().join(format!("weft-kernel-{}", std::process::id()));
    let tree = folder.join("my  linux");
    std::fs::create_dir_all(&tree).unwrap();
    // As of a kernel that was built on this machine.
    let link = folder.join("build");
    std::os::unix::fs::symlink(&tree, &link).unwrap();
    let refused = |output: Output, shown: &str| {
        let said = String::from_utf8_lossy(&output.stderr);
        let sentence = format!(
            "weft has no modules for Linux 9.9.9: its build tree is {shown}, and Linux's makefiles take no path \
             with a space. Move it.\n"
        );
        assert_eq!(said, sentence);
        assert_eq!(output.status.code(), Some(77), "{said}");
    };
    let shown = tree.display().to_string();
    refused(check("9.9.9", &link.display().to_string()), &shown);
    // DKMS splits the command in its configuration into words.
    let conf = include_str!("../../../packaging/dkms/dkms.conf");
    let line = conf
        .lines()
        .find_map(|line| line.strip_prefix("PRE_BUILD="));
    let line = line.unwrap().trim_matches('"');
    let line = line.replace("$kernelver", "9.9.9");
    let line = line.replace("$kernel_source_dir", &tree.display().to_string());
    let (_, words) = line.split_once(' ').unwrap();
    let mut command = Command::new("sh");
    command.arg(SCRIPT).args(words.split_whitespace());
    refused(command.output().unwrap(), &shown.replace("  ", " "));
    std::fs::remove_dir_all(&folder).unwrap();
}
