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
//! What a packet or an application says is checked here; what the loader says
//! ([`weft_ebpf_common::port`]) was checked by it.

#![no_std]
#![no_main]
// RUSTC_BOOTSTRAP=1 allows it; aya-ebpf needs it as well.
#![feature(asm_experimental_arch)]

mod flow_size;
mod ingress;
mod maps;
mod packet;
mod rank;
mod spray;
mod tag;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // No path leads here: the verifier would refuse a program with a loop that has no end.
    loop {}
}

/// Some helpers are for programs under the GPL only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
