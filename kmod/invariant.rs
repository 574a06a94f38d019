// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Statements about this crate's own data that only an error in this crate can make false.

/// States that this place is not reached. The sentence says what is wrong.
///
/// With debug assertions, as in tests and under a fuzzer, reaching it panics. Otherwise programs
/// continue, so the caller handles that case. Kernel modules have a macro of the same name
/// (`kapi/invariant.rs`), which warns once.
///
/// It is not for input: what a packet, a peer or a user can cause is not an error of this crate.
macro_rules! invariant {
    ($sentence:literal) => {
        if cfg!(debug_assertions) {
            panic!($sentence)
        }
    };
}
