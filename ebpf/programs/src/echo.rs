// SPDX-License-Identifier: MIT OR Apache-2.0

//! Utilisations: a host stores those that its packets bring with their sockets. It sends the
//! largest one back with the socket's next packet, and a congestion control reads the last one that
//! came back. The codes are in [`weft_mechanisms`](weft_mechanisms::common::stamp).

use core::ptr;

use aya_ebpf::{
    EbpfContext as _,
    bindings::{__sk_buff, bpf_sock},
    helpers::generated::{bpf_sk_fullsock, bpf_sk_lookup_tcp, bpf_sk_release},
    programs::TcContext,
};
use weft_ebpf_common::{
    Echo,
    counter::Counter,
    port::{Policy, Port},
};
use weft_mechanisms::common::stamp::Stamps;

use crate::{
    maps,
    packet::{self, ETHERNET_HEADER, TCP, Version},
};

/// The namespace of the packet's device.
const CURRENT_NETNS: u64 = -1_i64 as u64; // BPF_F_CURRENT_NETNS

const TCP_LISTEN: u32 = 10;

/// Whether a host's tags carry utilisations.
#[inline(always)]
pub(crate) fn applies(port: &Port) -> bool {
    port.policy == Policy::Echo as u32
}

/// The rank of a packet that leaves: the echo of what its socket has received since its last
/// packet.
#[inline(always)]
pub(crate) fn rank(ctx: &TcContext) -> u32 {
    let skb: *mut __sk_buff = ctx.as_ptr().cast();
    // SAFETY: The context is valid while the program runs.
    let sk = unsafe { (*skb).__bindgen_anon_2.sk };
    if sk.is_null() {
        return 0;
    }
    // SAFETY: `sk` is the packet's own socket.
    let sk = unsafe { bpf_sk_fullsock(sk) };
    if sk.is_null() {
        return 0;
    }
    // SAFETY: `sk` is a full socket.
    let echo = unsafe { maps::echo(sk, false) };
    if echo.is_null() {
        return 0;
    }
    // SAFETY: A value of the map. If another CPU stores a stamp between the two, it is lost, as it
    // would be with a lost packet.
    let stamp = unsafe { ptr::replace(&raw mut (*echo).stamp, 0) };
    if stamp == 0 {
        return 0;
    }
    maps::count(Counter::TagEchoed);
    Stamps {
        stamp: 0,
        echo: stamp as u16,
    }
    .to_rank()
}

/// Stores the utilisations of a packet that arrived, and that has lost its tag, with its socket.
#[inline(always)]
pub(crate) fn store(ctx: &TcContext, version: Version, rank: u32) {
    let Some(stamps) = Stamps::from_rank(rank) else {
        return;
    };
    if rank == 0 {
        return;
    }
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
            store_at(ctx, &mut tuple, stamps);
        }
        Version::V6 => {
            let Ok(addresses) = ctx.load::<[u8; 32]>(ETHERNET_HEADER + 8) else {
                return;
            };
            let mut tuple = [0; 36];
            tuple[..32].copy_from_slice(&addresses);
            tuple[32..].copy_from_slice(&ports);
            store_at(ctx, &mut tuple, stamps);
        }
    }
}

/// Stores utilisations with the socket of these addresses and ports.
#[inline(always)]
fn store_at<const N: usize>(ctx: &TcContext, tuple: &mut [u8; N], stamps: Stamps) {
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
    let stored = unsafe { store_with(sk, stamps) };
    // SAFETY: The reference is given back once.
    unsafe { bpf_sk_release(sk.cast()) };
    maps::count(if stored {
        Counter::UntagStored
    } else {
        Counter::UntagStray
    });
}

/// Stores utilisations with a socket; not with one that listens, or without memory.
///
/// # Safety
///
/// `sk` must be a full socket.
#[inline(always)]
unsafe fn store_with(sk: *mut bpf_sock, stamps: Stamps) -> bool {
    // SAFETY: A full socket (precondition).
    if unsafe { (*sk).state } == TCP_LISTEN {
        return false;
    }
    // SAFETY: As above.
    let echo = unsafe { maps::echo(sk, true) };
    if echo.is_null() {
        return false;
    }
    let (stamp, said) = (u32::from(stamps.stamp), u32::from(stamps.echo));
    // SAFETY: A value of the map. Another CPU may change it at the same time: one of two
    // utilisations may be lost.
    unsafe {
        if stamp > (*echo).stamp {
            (*echo).stamp = stamp;
        }
        if said != 0 {
            (*echo).echo = said;
            (*echo).echoes = (*echo).echoes.wrapping_add(1);
        }
        (*echo).key = Echo::KEY;
    }
    true
}
