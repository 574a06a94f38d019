// SPDX-License-Identifier: MIT OR Apache-2.0

//! The heap of timers in the model clock's kernel is in the order of the kernel's tree: its code is
//! taken from the patch, compiled, and compared with a list.

use std::fs;
use std::path::Path;
use std::process::Command;

use weft_build::base::workspace;

const PATCH: &str = "vm/um/patches/0015-timers-in-a-heap.patch";
const TEST: &str = "vm/um/tests/timer_heap.c";

/// The lines that the patch adds from one that begins with `from` up to one that is `to`.
fn added(patch: &str, from: &str, to: &str) -> String {
    let added = patch.lines().filter_map(|line| line.strip_prefix('+'));
    let mut lines = added.skip_while(|line| !line.starts_with(from)).peekable();
    assert!(lines.peek().is_some(), "{PATCH} has no {from}");
    lines
        .take_while(|line| *line != to)
        .flat_map(|line| [line, "\n"])
        .collect()
}

#[test]
fn the_heap_has_the_order_of_the_tree() {
    let patch = fs::read_to_string(workspace().join(PATCH)).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("timer_heap");
    fs::create_dir_all(&folder).unwrap();
    let heap = added(&patch, "#define SLOT_BITS", "#else");
    fs::write(folder.join("heap.c"), heap).unwrap();
    let program = folder.join("timer_heap");
    let compiler = Command::new("cc")
        .args(["-O1", "-g", "-fsanitize=undefined", "-fno-sanitize-recover"])
        .arg("-I")
        .arg(&folder)
        .arg(workspace().join(TEST))
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&compiler.stderr);
    assert!(compiler.status.success(), "{errors}");
    let run = Command::new(&program).output().unwrap();
    let printed = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{printed}");
}
