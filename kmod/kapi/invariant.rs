// SPDX-License-Identifier: GPL-2.0-only

//! Statements about our own data that only an error in our own code can make false.

use core::sync::atomic::{AtomicBool, Ordering};

use kernel::prelude::*;

use super::bindings::weft_warn;

/// As `invariant!` of the crate `weft-mechanisms`: where it is reached, the kernel warns, once for
/// each place in the source, and the caller continues.
macro_rules! invariant {
    ($sentence:literal) => {{
        static WARNED: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);
        $crate::kapi::invariant::broken(&WARNED, $sentence)
    }};
}

/// Warns with the sentence, unless that was done.
#[cold]
#[inline(never)]
pub(crate) fn broken(warned: &AtomicBool, sentence: &'static str) {
    if !warned.swap(true, Ordering::Relaxed) {
        let len = sentence.len() as c_int;
        // SAFETY: The text has this many bytes, and a warning may be given under any lock.
        unsafe { weft_warn(sentence.as_ptr().cast(), len) }
    }
}
