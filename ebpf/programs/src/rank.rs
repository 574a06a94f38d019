// SPDX-License-Identifier: MIT OR Apache-2.0

//! The rank of a packet: determines which bytes of its flow the packet holds. The policy that turns
//! these into a rank is in [`weft_mechanisms`](weft_mechanisms::common::rank).

use core::ptr;

use aya_ebpf::{
    EbpfContext as _,
    bindings::{__sk_buff, bpf_sock},
    helpers::generated::{bpf_ktime_get_ns, bpf_sk_fullsock, bpf_skc_to_tcp_sock, bpf_tcp_sock},
    programs::TcContext,
};
use weft_mechanisms::common::rank::{self, Basis, Rules, Said};
use weft_ebpf_common::{
    Flow,
    counter::Counter,
    port::{Fallback, Policy, Port},
};

use crate::{
    maps,
    packet::{AF_INET, AF_INET6, TCP, Transport, UDP},
};

/// A packet with payload.
pub(crate) struct Packet {
    /// Offset of the payload from the start of the frame.
    pub(crate) payload: usize,
    /// Bytes of payload.
    pub(crate) length: usize,
    /// TCP: sequence number of the first byte.
    sequence: Option<u32>,
}

impl Packet {
    /// `None` if it is neither TCP nor UDP, or has no payload.
    #[inline(always)]
    pub(crate) fn read(ctx: &TcContext, transport: &Transport) -> Option<Self> {
        let (payload, sequence) = match transport.protocol {
            TCP if !transport.later_fragment => {
                let header: [u8; 16] = ctx.load(transport.offset).ok()?;
                let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                (
                    transport.offset + usize::from(header[12] >> 4) * 4,
                    Some(sequence),
                )
            }
            UDP if transport.later_fragment => (transport.offset, None),
            UDP => (transport.offset + 8, None),
            _ => return None,
        };
        match (ctx.len() as usize).checked_sub(payload) {
            None | Some(0) => None,
            Some(length) => Some(Self {
                payload,
                length,
                sequence,
            }),
        }
    }
}

/// The packet's rank; `None` if it does not belong to a socket of this host.
#[inline(always)]
pub(crate) fn rank(ctx: &TcContext, port: &Port, packet: &Packet) -> Option<u32> {
    let skb: *mut __sk_buff = ctx.as_ptr().cast();
    // SAFETY: The context is valid while the program runs.
    let sk = unsafe { (*skb).__bindgen_anon_2.sk };
    if sk.is_null() {
        return None;
    }
    // SAFETY: `sk` is the packet's own socket.
    let sk = unsafe { bpf_sk_fullsock(sk) };
    if sk.is_null() {
        return None;
    }
    // Excludes a packet socket that replays packets of others.
    // SAFETY: `sk` is a full socket.
    if !matches!(unsafe { (*sk).family }, AF_INET | AF_INET6) {
        return None;
    }
    // SAFETY: `sk` is a full socket.
    let flow = unsafe { maps::flow(sk, true) };
    let offset = match packet.sequence {
        // SAFETY: `sk` is a full socket.
        Some(sequence) => unsafe { stream_offset(sk, sequence)? },
        // SAFETY: Null or a value of the map, aligned as a `Flow` is.
        None => unsafe { datagram_offset(flow, packet.length) },
    };
    let described = if flow.is_null() {
        // No memory for a new value.
        Flow {
            base: offset,
            ..Flow::default()
        }
    } else {
        // SAFETY: A value of the map.
        unsafe { begin(flow, offset) }
    };
    let queued = || {
        let sequence = packet.sequence?;
        // SAFETY: `sk` is a full socket.
        unsafe { queued(sk, sequence) }
    };
    // SAFETY: The helper has no precondition.
    let now = || unsafe { bpf_ktime_get_ns() };
    let rules = Rules {
        policy: Policy::from_number(port.policy).unwrap_or(Policy::Fixed),
        fallback: Fallback::from_number(port.fallback).unwrap_or(Fallback::Sent),
        fixed: port.fixed,
    };
    let said = Said {
        size: described.size,
        deadline: described.deadline,
        class: described.class,
    };
    let sent = rank::before(described.base, offset);
    let ranked = rank::rank(rules, said, sent, now, queued);
    if ranked.basis == Basis::Beyond {
        maps::count(Counter::TagBeyondSize);
    }
    if ranked.basis != Basis::Policy {
        maps::count(Counter::TagFallback);
    }
    Some(ranked.rank)
}

/// Offset of a sequence number in the socket's stream: the number of acknowledged bytes, plus the
/// distance from there.
///
/// # Safety
///
/// `sk` must be a full socket.
#[inline(always)]
unsafe fn stream_offset(sk: *mut bpf_sock, sequence: u32) -> Option<u64> {
    // SAFETY: `sk` is a full socket (precondition).
    let tcp = unsafe { bpf_tcp_sock(sk) };
    if tcp.is_null() {
        return None;
    }
    // SAFETY: Not null, and valid as long as the socket.
    let (acked, first) = unsafe { ((*tcp).bytes_acked, (*tcp).snd_una) };
    Some(rank::stream_offset(acked, first, sequence))
}

/// Offset of a datagram: the number of bytes sent before it.
///
/// # Safety
///
/// `flow` must be null or a value of the map.
#[inline(always)]
unsafe fn datagram_offset(flow: *mut Flow, length: usize) -> u64 {
    if flow.is_null() {
        return 0;
    }
    // SAFETY: A value of the map (precondition), aligned.
    unsafe { maps::fetch_add(&raw mut (*flow).sent, length as u64) }
}

/// The declared flow; if its first byte was unknown, it is the first of this packet.
///
/// # Safety
///
/// `flow` must be a value of the map.
#[inline(always)]
unsafe fn begin(flow: *mut Flow, offset: u64) -> Flow {
    // SAFETY: A value of the map (precondition). If another CPU changes it at the same time, this
    // packet gets a rank between the old and the new one, which is harmless.
    unsafe {
        if (*flow).flags & Flow::BASE_KNOWN == 0 {
            (*flow).base = offset;
            (*flow).flags |= Flow::BASE_KNOWN;
        }
        ptr::read(flow)
    }
}

/// Bytes from `sequence` to the last byte that the application has written.
///
/// # Safety
///
/// `sk` must be a full socket.
#[inline(always)]
unsafe fn queued(sk: *mut bpf_sock, sequence: u32) -> Option<u64> {
    // SAFETY: `sk` is a full socket (precondition).
    let tcp = unsafe { bpf_skc_to_tcp_sock(sk.cast()) };
    if tcp.is_null() {
        return None;
    }
    let at = maps::write_seq_offset() as usize;
    // SAFETY: The kernel's BTF states that `write_seq`, a `u32`, is there.
    let write = unsafe { ptr::read_volatile(tcp.cast::<u8>().add(at).cast::<u32>()) };
    Some(u64::from(write.wrapping_sub(sequence)))
}
