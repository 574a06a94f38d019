// SPDX-License-Identifier: GPL-2.0-only

//! Refuses to load if Rust and C disagree on the layout of a structure that both access.
//!
//! bindgen reads the headers with libclang, but GCC compiled the kernel: a flag that one of them
//! does not know could move a field. Each registration compares before anything is shared: every
//! field that Rust reads or writes, by its name.

use core::mem::{offset_of, size_of};

use kernel::prelude::*;

use super::{bindings::weft_layout, skb};

/// A size or an offset, its name, and the same name with a terminating zero for `weft_layout()` in
/// `layout.c`. Both are constants, because code that removes the zero could panic.
type Place = (&'static str, &'static str, usize);

/// The table in `layout.c`: sizes of structures, offsets of fields, and values of constants.
macro_rules! places {
    ($($kind:ident($($argument:tt)*),)*) => {
        const PLACES: &[Place] = &[$(places!(@$kind $($argument)*)),*];
    };
    (@SIZE $structure:ident, $($type:tt)*) => {
        (
            stringify!($structure),
            concat!(stringify!($structure), "\0"),
            size_of::<super::bindings::$structure>(),
        )
    };
    (@FIELD $structure:ident, $($field:ident).+) => {
        (
            concat!(stringify!($structure), $(".", stringify!($field)),+),
            concat!(stringify!($structure), $(".", stringify!($field)),+, "\0"),
            offset_of!(super::bindings::$structure, $($field).+),
        )
    };
    (@CONSTANT $constant:ident) => {
        (
            stringify!($constant),
            concat!(stringify!($constant), "\0"),
            super::bindings::$constant as usize,
        )
    };
}

include!("../places_generated.rs");

/// Compares all places; logs each that differs and returns `EINVAL` if one does. Also locates the
/// bit-fields, which have no offset.
pub(super) fn check() -> Result {
    let mut agreed = true;
    for &(name, ended_name, rust) in PLACES {
        // SAFETY: A zero ends the name.
        let c = unsafe { weft_layout(ended_name.as_ptr().cast()) };
        if c != rust {
            pr_err!("{}: {} in Rust, {} in C\n", name, rust, c);
            agreed = false;
        }
    }
    if agreed {
        skb::learn_hash_bits()
    } else {
        Err(EINVAL)
    }
}
