// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Replays the inputs that the fuzzers have kept: their corpora, and their past findings.

use std::path::Path;

/// Runs a fuzz target's test over all inputs of its corpus.
///
/// # Panics
///
/// If there is none, or the test panics.
pub(crate) fn replay(target: &str, run: impl Fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let corpus = corpus.join(target);
    let mut replayed = 0;
    for entry in std::fs::read_dir(&corpus).expect("the corpus is part of the repository") {
        let path = entry.expect("a readable directory").path();
        let bytes = std::fs::read(&path).expect("a readable file");
        println!("{}", path.display());
        run(&bytes);
        replayed += 1;
    }
    assert!(replayed > 0, "no input in {}", corpus.display());
}

#[test]
#[cfg_attr(miri, ignore = "reads files, which Miri's isolation does not allow")]
fn the_fuzz_corpus_of_formats_passes() {
    replay("decode", super::check::decode);
}
