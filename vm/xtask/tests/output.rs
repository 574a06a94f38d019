// SPDX-License-Identifier: MIT OR Apache-2.0

//! Standard output that cannot be written.

use std::fs::OpenOptions;
use std::io;
use std::process::{Command, Output, Stdio};

const PRINTING: [&[&str]; 4] = [
    &["bench", "weave", "--dry-run"],
    &["--help"],
    &["test", "--help"],
    &["bench", "weave", "--help"],
];

fn printed(words: &[&str], out: impl Into<Stdio>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weft-xtask"))
        .args(words)
        .stdout(out)
        .output()
        .unwrap()
}

/// Like `cargo xtask bench weave --dry-run | head -1`.
#[test]
fn a_closed_pipe_is_not_an_error() {
    for words in PRINTING {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = printed(words, writer);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
        assert!(output.status.success(), "{words:?}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    for words in PRINTING {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = printed(words, full);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("No space left on device"),
            "{words:?}: {said}"
        );
        assert_eq!(output.status.code(), Some(1), "{words:?}");
    }
}
