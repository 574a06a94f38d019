// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Any bytes into every decoder of weft-mechanisms: `cd kmod && RUSTC_BOOTSTRAP=1 cargo fuzz run
//! decode`.

#![no_main]

#[path = "../../tests/check.rs"]
mod check;
#[path = "../../common/tests/message.rs"]
#[allow(dead_code)] // The tests use more of it.
mod message;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| check::decode(bytes));
