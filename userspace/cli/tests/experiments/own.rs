// SPDX-License-Identifier: MIT OR Apache-2.0

//! An experiment of one's own, with a scheme of one's own.

use std::fs;
use std::path::Path;

/// A scheme without parameters: its results need not name any.
const SCHEME: [(&str, &str); 3] = [
    ("scheme.toml", "about = \"One wire.\"\n"),
    (
        "switch.tc",
        "qdisc add dev $dev root handle 1: wire rate $rate delay $delay\n",
    ),
    (
        "host.tc",
        "qdisc add dev $dev root handle 1: wire rate $rate delay $delay\n",
    ),
];

/// Adds the scheme `plain` and an experiment `mine.toml` to a folder.
pub(crate) fn write(folder: &Path, experiment: &str) {
    let plain = folder.join("plain");
    fs::create_dir(&plain).unwrap();
    for (file, content) in SCHEME {
        fs::write(plain.join(file), content).unwrap();
    }
    fs::write(folder.join("mine.toml"), experiment).unwrap();
}
