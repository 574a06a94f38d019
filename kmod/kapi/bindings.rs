// SPDX-License-Identifier: GPL-2.0-only

//! Declarations that bindgen generates from `bindings.h` at build time (see `Kbuild`).

#![allow(
    clippy::all,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    // Some kernels' compilers do not know these.
    unknown_lints,
    unnecessary_transmutes,
    unused_imports,
    clippy::undocumented_unsafe_blocks,
    reason = "generated code follows C's names and bindgen's habits"
)]

type __kernel_size_t = usize;
type __kernel_ssize_t = isize;
type __kernel_ptrdiff_t = isize;

include!("../bindings_generated.rs");
