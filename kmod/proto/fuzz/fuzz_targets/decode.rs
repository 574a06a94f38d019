// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Any bytes into every decoder of weft-proto: `cargo +nightly fuzz run decode`.

#![no_main]

#[path = "../../tests/proto/check.rs"]
mod check;
#[path = "../../tests/proto/message.rs"]
#[allow(dead_code)] // The tests use more of it.
mod message;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| check::decode(bytes));
