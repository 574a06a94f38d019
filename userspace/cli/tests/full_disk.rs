// SPDX-License-Identifier: MIT OR Apache-2.0

//! Output that cannot be written: an error, exit status 1, and nothing that looks whole.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn help(words: &[&str], out: impl Into<Stdio>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(words)
        .stdout(out)
        .output()
        .unwrap()
}

const PRINTING: [&[&str]; 7] = [
    &["--help"],
    &["--version"],
    &["help"],
    &["run", "--help"],
    &["schemes", "export", "--help"],
    &["schemes"],
    &["completions", "bash"],
];

#[test]
fn a_full_disk_is_an_error() {
    for words in PRINTING {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = help(words, full);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        let begins = said.starts_with("weft: ");
        assert!(
            begins && said.contains("writing to standard output: No space left on device"),
            "{words:?}: {said}"
        );
    }
}

/// Like `weft --help | head -1`.
#[test]
fn a_closed_pipe_is_not_an_error() {
    for words in PRINTING {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = help(words, writer);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
        assert!(output.status.success(), "{words:?}");
    }
}

/// Runs `weft` where no file can be longer than a block; the error.
fn cramped(folder: &Path, words: &str) -> String {
    let script = format!(
        "trap '' XFSZ; ulimit -f 1; exec {} {words}",
        env!("CARGO_BIN_EXE_weft")
    );
    let mut command = Command::new("sh");
    let output = command.args(["-c", &script]).current_dir(folder).output();
    let output = output.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{words}: {said}");
    assert!(said.contains("File too large"), "{words}: {said}");
    said
}

#[test]
fn files_that_cannot_be_written_leave_nothing_that_looks_whole() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("full-disk");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for words in [
        "man pages/man1",
        "schemes export fastpass mine",
        "experiments export demo mine.toml",
        "run demo --kept --pictures pictures/demo",
        "run demo --kept --page demo.html",
    ] {
        let said = cramped(&folder, words);
        assert!(said.starts_with("weft: writing "), "{words}: {said}");
        // Fails if the folder is not empty.
        fs::remove_dir(&folder).unwrap_or_else(|error| panic!("{words}: {error}"));
        fs::create_dir(&folder).unwrap();
    }
    fs::remove_dir(&folder).unwrap();
}

#[test]
fn pages_that_cannot_be_written_leave_the_old_ones() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("old-pages");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for page in ["weft.1", "weft-run.1", "weft-down.1"] {
        fs::write(folder.join(page), "old").unwrap();
    }
    cramped(&folder, "man .");
    let pages = fs::read_dir(&folder).unwrap().map(|page| page.unwrap());
    let pages: Vec<_> = pages.map(|page| fs::read(page.path()).unwrap()).collect();
    assert_eq!(pages, [b"old", b"old", b"old"]);
    fs::remove_dir_all(&folder).unwrap();
}
