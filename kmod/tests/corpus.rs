// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Replays what the fuzzer has kept.

use std::path::Path;

#[test]
fn the_fuzzers_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/decode");
    let mut replayed = 0;
    for entry in std::fs::read_dir(&corpus).expect("the corpus is part of the repository") {
        let path = entry.expect("a readable directory").path();
        let bytes = std::fs::read(&path).expect("a readable file");
        println!("{}", path.display());
        super::check::decode(&bytes);
        replayed += 1;
    }
    assert!(replayed > 0, "no input in {}", corpus.display());
}
