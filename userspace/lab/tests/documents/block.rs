// SPDX-License-Identifier: MIT OR Apache-2.0

//! A part of a document that a test compares or writes: it stands between the comments `NAME` and
//! `end`.

use std::fs;
use std::path::Path;

/// Compares the part with what it should be. With `WEFT_BLESS=1` in the environment, it writes the
/// part instead.
pub(crate) fn is_current(path: &Path, name: &str, current: &str) {
    let text = fs::read_to_string(path).unwrap();
    let (begin, end) = (format!("<!-- {name} -->\n"), "<!-- end -->");
    let (before, rest) = text.split_once(&begin).unwrap();
    let (written, after) = rest.split_once(end).unwrap();
    if std::env::var_os("WEFT_BLESS").is_some() {
        let text = format!("{before}{begin}{current}{end}{after}");
        fs::write(path, text).unwrap();
    } else {
        let path = path.display();
        assert_eq!(written, current, "{path}: WEFT_BLESS=1 writes it anew");
    }
}
