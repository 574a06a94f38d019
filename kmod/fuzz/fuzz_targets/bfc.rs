// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! `bfc` against the naive model.
//!
//! ```text
//! cargo install cargo-fuzz
//! cd kmod && RUSTC_BOOTSTRAP=1 cargo fuzz run bfc -- -max_len=1024
//! ```
//!
//! `cargo test` replays the corpus: `cargo fuzz cmin bfc` keeps it small.
#![no_main]

#[path = "../../bfc/tests/naive.rs"]
mod naive;
#[path = "../../bfc/tests/rig.rs"]
mod rig;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| naive::Scenario::decode(bytes).run());
