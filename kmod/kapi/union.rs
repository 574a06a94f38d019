// SPDX-License-Identifier: GPL-2.0-only

//! All kernel modules as one crate. It is compiled only for the compiler's warnings, which name the
//! parts of `kapi` that no kernel module uses.

#[expect(unreachable_pub, reason = "as in head.rs")]
#[macro_use]
#[path = "mod.rs"]
mod kapi;

#[allow(dead_code, reason = "the rest is for user space")]
#[expect(unreachable_pub, reason = "the same files are a library")]
#[path = "../common/mod.rs"]
mod common;

/// What `module!` declares in a kernel module's root.
const __LOG_PREFIX: &[u8] = b"weft\0";

// The folders' mechanisms and kernel modules, as Kbuild finds them.
include!("../union_generated.rs");
