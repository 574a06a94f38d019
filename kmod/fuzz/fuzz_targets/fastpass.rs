// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! `fastpass`'s calendar against its naive model.
//!
//! ```text
//! cargo install cargo-fuzz
//! cd kmod && RUSTC_BOOTSTRAP=1 cargo fuzz run fastpass -- -max_len=1024
//! ```
//!
//! `cargo test` replays the corpus: `cargo fuzz cmin fastpass` keeps it small.
#![no_main]

#[path = "../../fastpass/tests/naive.rs"]
mod naive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| naive::Scenario::decode(bytes).run());
