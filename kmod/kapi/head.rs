// SPDX-License-Identifier: GPL-2.0-only

//! The head of each kernel module: the files that all kernel modules share. [`mechanism`] adds the
//! files of the module's own folder.
//!
//! A kernel module is one crate, so it contains all of `kapi` and `common`, and uses part of them.
//! `union.rs` puts all kernel modules into one crate, which declares these files itself. For that
//! crate the compiler warns of each part of `kapi` that no kernel module uses.

#[cfg(not(weft_union))]
#[allow(dead_code, unused_macros, reason = "a kernel module uses a part of it")]
#[expect(unreachable_pub, reason = "`pub` is for kernel modules")]
#[macro_use]
#[path = "mod.rs"]
pub(crate) mod kapi;

#[cfg(not(weft_union))]
#[allow(dead_code, reason = "a kernel module uses a part of it")]
#[expect(unreachable_pub, reason = "the same files are a library")]
#[path = "../common/mod.rs"]
pub(crate) mod common;

#[cfg(weft_union)]
pub(crate) use crate::{common, kapi};

/// Declares the mechanism of the kernel module's folder.
#[allow(unused_macros, reason = "a kernel module for tests has no mechanism")]
macro_rules! mechanism {
    ($name:ident) => {
        #[cfg(not(weft_union))]
        #[allow(dead_code, reason = "the rest is for user space")]
        #[expect(unreachable_pub, reason = "the same files are a library")]
        #[path = "mod.rs"]
        mod $name;
    };
}
