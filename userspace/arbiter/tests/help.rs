// SPDX-License-Identifier: MIT OR Apache-2.0

//! A help text or a version that cannot be written.

use std::fs::File;
use std::process::Command;

#[test]
fn a_full_disk_is_an_error() {
    for word in ["--help", "--version"] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_weft-arbiter"))
            .arg(word)
            .stdout(full)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let begins = said.starts_with("weft-arbiter: writing to standard output: ");
        assert!(
            begins && said.contains("No space left on device"),
            "{word}: {said}"
        );
        assert_eq!(output.status.code(), Some(1), "{word}");
    }
}
