// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! `pfabric` against the naive model.
//!
//! ```text
//! cargo install cargo-fuzz
//! cd kmod && RUSTC_BOOTSTRAP=1 cargo fuzz run pfabric -- -max_len=512
//! ```
//!
//! `cargo test` replays the corpus: `cargo fuzz cmin pfabric` keeps it small.
#![no_main]

#[path = "../../pfabric/tests/naive.rs"]
mod naive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| naive::Scenario::decode(bytes).run());
