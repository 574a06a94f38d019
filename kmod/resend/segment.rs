// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The name of a TCP segment: what a switch reads in a packet that it drops, and a host in one that
//! it sends.

use crate::common::tag::IPV4_HEADER;

/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;

/// Protocol number of TCP.
const TCP: u8 = 6;

/// Bytes of a TCP header without options.
const TCP_HEADER: usize = 20;

/// The most bytes of a packet that are read: an IPv4 header with all options, and a TCP header.
pub const HEADERS: usize = 60 + TCP_HEADER;

/// The bits of the two flags that take a sequence number each.
const FIN: u8 = 1;
const SYN: u8 = 2;

/// A TCP packet. Its sequence number and its length alone would not distinguish acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// IPv4 address of the sender.
    pub source: u32,
    /// IPv4 address of the receiver.
    pub destination: u32,
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Its first sequence number.
    pub sequence: u32,
    /// Its acknowledgement number.
    pub acknowledgement: u32,
    /// How many sequence numbers it takes: its payload, SYN and FIN.
    pub length: u32,
}

/// An IPv4 packet that is not a fragment.
pub(super) struct Packet<'a> {
    pub(super) source: u32,
    pub(super) destination: u32,
    pub(super) protocol: u8,
    /// Bytes after its header, by the length that the header gives.
    pub(super) length: usize,
    /// What follows the header: as much of it as is known, and what follows the packet.
    pub(super) rest: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet with this EtherType that begins with `header`.
    #[inline]
    pub(super) fn read(protocol: u16, header: &'a [u8]) -> Option<Self> {
        let fixed: &[u8; IPV4_HEADER] = header.first_chunk()?;
        let [first, _, t0, t1, _, _, f0, f1, _, next, _, _, s0, s1, s2, s3, d0, d1, d2, d3] =
            *fixed;
        let size = usize::from(first & 15).wrapping_mul(4);
        // More fragments, or an offset.
        let is_fragment = u16::from_be_bytes([f0, f1]) & 0x3fff != 0;
        if protocol != IPV4 || first >> 4 != 4 || size < IPV4_HEADER || is_fragment {
            return None;
        }
        Some(Self {
            source: u32::from_be_bytes([s0, s1, s2, s3]),
            destination: u32::from_be_bytes([d0, d1, d2, d3]),
            protocol: next,
            length: usize::from(u16::from_be_bytes([t0, t1])).checked_sub(size)?,
            rest: header.get(size..)?,
        })
    }
}

impl Segment {
    /// Reads the segment from `header`, the first bytes of a packet with this EtherType;
    /// [`HEADERS`] bytes are always enough. `None` for other packets and fragments.
    #[inline]
    pub fn read(protocol: u16, header: &[u8]) -> Option<Self> {
        let packet = Packet::read(protocol, header).filter(|packet| packet.protocol == TCP)?;
        let tcp: &[u8; TCP_HEADER] = packet.rest.first_chunk()?;
        let [p0, p1, q0, q1, n0, n1, n2, n3, a0, a1, a2, a3, offset, flags, ..] = *tcp;
        let size = usize::from(offset >> 4).wrapping_mul(4);
        if size < TCP_HEADER {
            return None;
        }
        let payload = packet.length.checked_sub(size)? as u32;
        let length = payload
            .wrapping_add(u32::from(flags & SYN != 0))
            .wrapping_add(u32::from(flags & FIN != 0));
        Some(Self {
            source: packet.source,
            destination: packet.destination,
            source_port: u16::from_be_bytes([p0, p1]),
            destination_port: u16::from_be_bytes([q0, q1]),
            sequence: u32::from_be_bytes([n0, n1, n2, n3]),
            acknowledgement: u32::from_be_bytes([a0, a1, a2, a3]),
            length,
        })
    }

    /// A hash. It is not keyed: sequence numbers begin at random, and only the host's own flows
    /// could collide.
    #[inline]
    pub(super) fn hash(&self) -> u32 {
        let addresses = u64::from(self.source) << 32 | u64::from(self.destination);
        let ports = u64::from(self.source_port) << 16 | u64::from(self.destination_port);
        let ports = u64::from(self.length) << 32 | ports;
        let place = u64::from(self.sequence) << 32 | u64::from(self.acknowledgement);
        // 2^64 / φ, odd.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut hash = fold(addresses ^ GOLDEN, ports ^ GOLDEN.rotate_left(32));
        hash = fold(hash ^ place, GOLDEN);
        (hash ^ hash >> 32) as u32
    }
}

/// XORs the two halves of the product.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a).wrapping_mul(b.into());
    (product >> 64) as u64 ^ product as u64
}
