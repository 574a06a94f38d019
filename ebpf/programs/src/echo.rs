// SPDX-License-Identifier: MIT OR Apache-2.0

//! Utilisations: a host stores those that its packets bring with their sockets. It sends the
//! largest one back with the socket's next packet, and a congestion control reads the last one that
//! came back. The codes are in [`weft_mechanisms`](weft_mechanisms::common::stamp).

use core::ptr;

use aya_ebpf::{bindings::bpf_sock, programs::TcContext};
use weft_ebpf_common::{
    Echo,
    counter::Counter,
    port::{Policy, Port},
};
use weft_mechanisms::common::stamp::Stamps;

use crate::{maps, packet::Version, socket};

/// Whether a host's tags carry utilisations.
#[inline(always)]
pub(crate) fn applies(port: &Port) -> bool {
    port.policy == Policy::Echo as u32
}

/// The rank of a packet that leaves: the echo of what its socket has received since its last
/// packet.
#[inline(always)]
pub(crate) fn rank(ctx: &TcContext) -> u32 {
    let sk = socket::own(ctx);
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
    // SAFETY: A full socket, as `store` passes.
    socket::store(ctx, version, |sk| unsafe { store_with(sk, stamps) });
}

/// Stores utilisations with a socket; not without memory.
///
/// # Safety
///
/// `sk` must be a full socket.
#[inline(always)]
unsafe fn store_with(sk: *mut bpf_sock, stamps: Stamps) -> bool {
    // SAFETY: A full socket (precondition).
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
