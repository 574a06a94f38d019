// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads packets, only with `bpf_skb_load_bytes`, which refuses offsets beyond the packet.

use aya_ebpf::{
    EbpfContext as _, bindings::bpf_adj_room_mode::BPF_ADJ_ROOM_NET,
    helpers::generated::bpf_skb_load_bytes, programs::TcContext,
};
use weft_mechanisms::common::tag::{IPV4_HEADER, IPV6_HEADER};

/// The loader attaches to Ethernet devices only.
pub(crate) const ETHERNET_HEADER: usize = 14;

/// Continues with the other programs on the hook and the rest of the kernel.
pub(crate) const NEXT: i32 = -1; // TCX_NEXT

pub(crate) const AF_INET: u32 = 2;
pub(crate) const AF_INET6: u32 = 10;

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
/// IPv6's hop-by-hop options, which come before all other headers.
pub(crate) const HOP_BY_HOP: u8 = 0;
const IPV6_FRAGMENT: u8 = 44;

const ETH_P_IP: u32 = 0x0800_u16.to_be() as u32;
const ETH_P_IPV6: u32 = 0x86dd_u16.to_be() as u32;

/// An IP version, according to the device or the VLAN; the header must agree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V4,
    V6,
}

impl Version {
    /// `None` if the packet is not IP.
    #[inline(always)]
    pub(crate) fn of(ctx: &TcContext) -> Option<Self> {
        match ctx.skb.protocol() {
            ETH_P_IP => Some(Self::V4),
            ETH_P_IPV6 => Some(Self::V6),
            _ => None,
        }
    }

    /// Offset of the bytes after the fixed header.
    #[inline(always)]
    pub(crate) const fn after_header(self) -> usize {
        ETHERNET_HEADER
            + match self {
                Self::V4 => IPV4_HEADER,
                Self::V6 => IPV6_HEADER,
            }
    }
}

/// The location of a packet's transport header.
pub(crate) struct Transport {
    /// The protocol number; TCP, UDP or another one.
    pub(crate) protocol: u8,
    /// Offset of the header from the start of the frame; in a later fragment, offset of the
    /// payload.
    pub(crate) offset: usize,
    /// Not the first fragment of a packet.
    pub(crate) later_fragment: bool,
}

/// Finds the transport header; `None` if the packet cannot be tagged.
#[inline(always)]
pub(crate) fn transport(ctx: &TcContext, version: Version) -> Option<Transport> {
    match version {
        Version::V4 => {
            let header: [u8; IPV4_HEADER] = ctx.load(ETHERNET_HEADER).ok()?;
            let length = usize::from(header[0] & 15) * 4;
            if header[0] >> 4 != 4 || length < IPV4_HEADER {
                return None;
            }
            let fragment = u16::from_be_bytes([header[6], header[7]]);
            Some(Transport {
                protocol: header[9],
                offset: ETHERNET_HEADER + length,
                later_fragment: fragment & 0x1fff != 0,
            })
        }
        Version::V6 => {
            let header: [u8; 8] = ctx.load(ETHERNET_HEADER).ok()?;
            if header[0] >> 4 != 6 {
                return None;
            }
            let offset = version.after_header();
            if header[6] != IPV6_FRAGMENT {
                return Some(Transport {
                    protocol: header[6],
                    offset,
                    later_fragment: false,
                });
            }
            let fragment: [u8; 8] = ctx.load(offset).ok()?;
            let position = u16::from_be_bytes([fragment[2], fragment[3]]);
            Some(Transport {
                protocol: fragment[0],
                offset: offset + fragment.len(),
                later_fragment: position & 0xfff8 != 0,
            })
        }
    }
}

/// Makes room for `change` bytes right after the fixed IP header, or removes them. The segments of
/// a GSO packet keep their size. A transport checksum stays valid, because the bytes that it covers
/// do not change.
#[inline(always)]
pub(crate) fn resize(ctx: &TcContext, change: i32) -> bool {
    const FIXED_GSO: u64 = 1 << 0; // BPF_F_ADJ_ROOM_FIXED_GSO
    const NO_CSUM_RESET: u64 = 1 << 5; // BPF_F_ADJ_ROOM_NO_CSUM_RESET
    ctx.adjust_room(change, BPF_ADJ_ROOM_NET, FIXED_GSO | NO_CSUM_RESET)
        .is_ok()
}

/// Reads bytes to a place that is not on the stack. Returns whether the packet has them.
#[inline(always)]
pub(crate) fn load_to(ctx: &TcContext, offset: usize, to: &mut [u8]) -> bool {
    // SAFETY: The context is valid while the program runs, and the helper writes as many bytes as
    // there are.
    let result = unsafe {
        bpf_skb_load_bytes(
            ctx.as_ptr(),
            offset as u32,
            to.as_mut_ptr().cast(),
            to.len() as u32,
        )
    };
    result == 0
}

/// Writes bytes, and updates a checksum that the device computed over the packet.
#[inline(always)]
pub(crate) fn store<const N: usize>(ctx: &TcContext, offset: usize, bytes: &[u8; N]) -> bool {
    const RECOMPUTE_CSUM: u64 = 1 << 0; // BPF_F_RECOMPUTE_CSUM
    ctx.store(offset, bytes, RECOMPUTE_CSUM).is_ok()
}
