// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The hosts of `expresspass` against their naive model.
//!
//! ```text
//! cargo install cargo-fuzz
//! cd kmod && RUSTC_BOOTSTRAP=1 cargo fuzz run expresspass -- -max_len=1024
//! ```
//!
//! `cargo test` replays the corpus: `cargo fuzz cmin expresspass` keeps it small.
#![no_main]

#[path = "../../expresspass/tests/naive.rs"]
mod naive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| naive::Scenario::decode(bytes).run());
