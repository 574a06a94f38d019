// SPDX-License-Identifier: MIT OR Apache-2.0

//! The stages, each in the cache under a hash of its inputs.
//!
//! | stage                       | its result                                              |
//! |-----------------------------|---------------------------------------------------------|
//! | [`suite`], [`kernels`], [`archive`] | a kernel of a Debian suite, and the packages that fit it |
//! | [`rootfs`]                  | a root filesystem with the tools that build the rest    |
//! | [`metadata`]                | Rust metadata of the stock kernel                       |
//! | [`boot`]                    | the stock kernel and the initramfs that never changes   |
//! | [`um_kernel`], [`clang`]    | the kernels of the model clock and of the debug guests  |
//! | [`bpf_linker`], [`ebpf`]    | the eBPF programs                                       |
//! | [`modules`]                 | the kernel modules                                      |
//! | [`programs`]                | the guest's programs, built by the host's cargo         |
//! | [`packages`]                | Debian packages for a guest                             |
//! | [`image`]                   | the image of weft's machine                             |
//! | [`source`]                  | the part of the kernel's source that modules work with  |
//! | [`roots`], [`layer`]        | minimal roots of Debian's releases, and layers of packages |
//! | [`chain`]                   | all of them in order: the files that a guest boots      |

pub mod archive;
pub mod boot;
pub mod bpf_linker;
pub mod chain;
pub mod clang;
pub mod ebpf;
pub mod image;
pub mod kernels;
pub mod layer;
pub mod metadata;
pub mod modules;
pub mod packages;
pub mod programs;
pub mod rootfs;
pub mod roots;
pub mod source;
pub mod suite;
pub mod um_kernel;

use crate::base::cache::Stage;

/// All stages, with their folders in the cache.
pub const ALL: [&Stage; 17] = [
    &rootfs::STAGE,
    &metadata::STAGE,
    &boot::STAGE,
    &modules::STAGE,
    &um_kernel::MODEL.stage,
    &um_kernel::COUNTING.stage,
    &modules::MODEL_STAGE,
    &clang::STAGE,
    &um_kernel::DEBUG.stage,
    &modules::DEBUG_STAGE,
    &modules::CONTROL_STAGE,
    &bpf_linker::STAGE,
    &ebpf::STAGE,
    &packages::STAGE,
    &image::STAGE,
    &roots::STAGE,
    &source::STAGE,
];
