// SPDX-License-Identifier: MIT OR Apache-2.0

//! weft's eBPF programs.
//!
//! | program                              | hook                    | module        |
//! |--------------------------------------|-------------------------|---------------|
//! | `weft_setsockopt`, `weft_getsockopt` | cgroup                  | [`flow_size`] |
//! | `weft_tag`                           | host, tc egress         | [`tag`]       |
//! | `weft_untag`                         | host, tc ingress        | [`ingress`]   |
//! | `weft_read`                          | switch, tc ingress      | [`ingress`]   |
//! | `weft_unspray`                       | spraying switch, egress | [`spray`]     |
//!
//! Programs check the fields of packets and the options of applications. They trust the loader's
//! settings ([`weft_ebpf_common::port`]), which the loader has checked.

#![no_std]
#![no_main]
// RUSTC_BOOTSTRAP=1 allows it; aya-ebpf needs it as well.
#![feature(asm_experimental_arch)]

mod echo;
mod flow_size;
mod ingress;
mod maps;
mod packet;
mod rank;
mod records;
mod socket;
mod spray;
mod tag;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // Unreachable: the verifier refuses a program with an endless loop.
    loop {}
}

/// Some helpers require a licence compatible with the GPL.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
