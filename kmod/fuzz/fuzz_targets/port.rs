// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! `port` against the naive model of a switch.
//!
//! ```text
//! cargo install cargo-fuzz
//! cd kmod && RUSTC_BOOTSTRAP=1 cargo fuzz run port -- -max_len=1024
//! ```
//!
//! `cargo test` replays the corpus: `cargo fuzz cmin port` keeps it small.
#![no_main]

#[path = "../../port/tests/naive.rs"]
mod naive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| naive::Scenario::decode(bytes).run());
