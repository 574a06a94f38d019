// SPDX-License-Identifier: MIT OR Apache-2.0

//! The socket of a packet: the one that sends it, and the one at which it arrives.

use core::ptr;

use aya_ebpf::{
    EbpfContext as _,
    bindings::{__sk_buff, bpf_sock},
    helpers::generated::{bpf_sk_fullsock, bpf_sk_lookup_tcp, bpf_sk_release},
    programs::TcContext,
};
use weft_ebpf_common::counter::Counter;

use crate::{
    maps,
    packet::{self, ETHERNET_HEADER, TCP, Version},
};

/// The namespace of the packet's device.
const CURRENT_NETNS: u64 = -1_i64 as u64; // BPF_F_CURRENT_NETNS

const TCP_LISTEN: u32 = 10;

/// The full socket that sends the packet; null if there is none.
#[inline(always)]
pub(crate) fn own(ctx: &TcContext) -> *mut bpf_sock {
    let skb: *mut __sk_buff = ctx.as_ptr().cast();
    // SAFETY: The context is valid while the program runs.
    let sk = unsafe { (*skb).__bindgen_anon_2.sk };
    if sk.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: `sk` is the packet's own socket.
    unsafe { bpf_sk_fullsock(sk) }
}

/// Stores what a packet of TCP brings with the socket at which it arrives: `with` gets a full
/// socket, and returns whether there was memory. Not with a socket that listens.
#[inline(always)]
pub(crate) fn store(ctx: &TcContext, version: Version, with: impl Fn(*mut bpf_sock) -> bool) {
    let Some(transport) = packet::transport(ctx, version) else {
        return;
    };
    if transport.protocol != TCP || transport.later_fragment {
        return;
    }
    let Ok(ports) = ctx.load::<[u8; 4]>(transport.offset) else {
        return;
    };
    // The addresses and ports, as `struct bpf_sock_tuple` has them.
    match version {
        Version::V4 => {
            let Ok(addresses) = ctx.load::<[u8; 8]>(ETHERNET_HEADER + 12) else {
                return;
            };
            let mut tuple = [0; 12];
            tuple[..8].copy_from_slice(&addresses);
            tuple[8..].copy_from_slice(&ports);
            store_at(ctx, &mut tuple, with);
        }
        Version::V6 => {
            let Ok(addresses) = ctx.load::<[u8; 32]>(ETHERNET_HEADER + 8) else {
                return;
            };
            let mut tuple = [0; 36];
            tuple[..32].copy_from_slice(&addresses);
            tuple[32..].copy_from_slice(&ports);
            store_at(ctx, &mut tuple, with);
        }
    }
}

/// Stores something with the socket of these addresses and ports.
#[inline(always)]
fn store_at<const N: usize>(
    ctx: &TcContext,
    tuple: &mut [u8; N],
    with: impl Fn(*mut bpf_sock) -> bool,
) {
    // SAFETY: The context is valid while the program runs, and the tuple has `N` bytes.
    let sk = unsafe {
        bpf_sk_lookup_tcp(
            ctx.as_ptr(),
            tuple.as_mut_ptr().cast(),
            N as u32,
            CURRENT_NETNS,
            0,
        )
    };
    if sk.is_null() {
        maps::count(Counter::UntagStray);
        return;
    }
    // SAFETY: A full socket, to which the lookup gave a reference.
    let listens = unsafe { (*sk).state } == TCP_LISTEN;
    let stored = !listens && with(sk);
    // SAFETY: The reference is given back once.
    unsafe { bpf_sk_release(sk.cast()) };
    maps::count(if stored {
        Counter::UntagStored
    } else {
        Counter::UntagStray
    });
}
