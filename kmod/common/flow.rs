// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The flow of a packet that has no flow hash yet: a keyed hash of its 5-tuple, read from the
//! headers.
//!
//! The kernel's flow dissector knows all protocols and takes some 600 instructions with its
//! SipHash. Nearly every packet of a datacenter is plain TCP or UDP, for which this takes a tenth
//! of that. The dissector handles all others, so every packet has a flow: fragments (the ports are
//! in the first one only), tunnels, extension headers other than the [`tag`](super::tag).
//!
//! The hash is two rounds of "multiply, and fold the product" (W. Yi, "wyhash", 2019), keyed:
//! without the key nobody can choose flows that share a queue. It is not a cryptographic hash.

use super::tag::{IPV4_HEADER, IPV4_OPTIONS_MAX, IPV6_DESTINATION_OPTIONS, IPV6_HEADER, SIZE};

/// EtherTypes.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// Protocol numbers.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Bytes of both ports, which TCP's header and UDP's begin with.
const PORTS: usize = 4;

/// The most bytes of a packet that are read.
pub const HEADERS: usize = IPV4_HEADER + IPV4_OPTIONS_MAX + PORTS;
const _: () = assert!(HEADERS >= IPV6_HEADER + SIZE + PORTS);

/// 2^64 / φ, odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A qdisc's key, which makes its hashes differ from another qdisc's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key([u64; 2]);

impl Key {
    /// A key of random bits.
    pub const fn new(random: [u64; 2]) -> Self {
        Self(random)
    }

    /// The flow, as 32 bits, of a packet with this EtherType that begins with `header`.
    ///
    /// `None` if it is not plain TCP or UDP, or not complete. [`HEADERS`] bytes are always enough.
    #[inline]
    pub fn flow(&self, protocol: u16, header: &[u8]) -> Option<u32> {
        match protocol {
            IPV4 => self.ipv4(header),
            IPV6 => self.ipv6(header),
            _ => None,
        }
    }

    #[inline(always)]
    fn ipv4(&self, header: &[u8]) -> Option<u32> {
        let fixed: &[u8; IPV4_HEADER] = header.first_chunk()?;
        let [first, .., s0, s1, s2, s3, d0, d1, d2, d3] = *fixed;
        let [_, _, _, _, _, _, f0, f1, _, protocol, ..] = *fixed;
        let length = usize::from(first & 15).wrapping_mul(4);
        // More fragments, or an offset.
        let is_fragment = u16::from_be_bytes([f0, f1]) & 0x3fff != 0;
        if first >> 4 != 4 || length < IPV4_HEADER || is_fragment {
            return None;
        }
        let ports = ports(protocol, header.get(length..)?)?;
        let addresses = u64::from_be_bytes([s0, s1, s2, s3, d0, d1, d2, d3]);
        Some(self.hash(addresses, ports))
    }

    #[inline(never)] // seldom, and long
    fn ipv6(&self, header: &[u8]) -> Option<u32> {
        let (fixed, rest) = header.split_first_chunk::<IPV6_HEADER>()?;
        let [first, ..] = *fixed;
        let [_, _, _, _, _, _, next, ..] = *fixed;
        if first >> 4 != 6 {
            return None;
        }
        let ports = match next {
            // The tag, or a header of the same size.
            IPV6_DESTINATION_OPTIONS => match rest.split_first_chunk::<SIZE>()? {
                ([next, 0, ..], rest) => ports(*next, rest)?,
                _ => return None,
            },
            _ => ports(next, rest)?,
        };
        let mut folded = 0;
        for word in fixed.get(8..)?.chunks_exact(8) {
            let word: &[u8; 8] = word.first_chunk()?;
            folded = fold(folded ^ u64::from_be_bytes(*word), self.0[0] ^ GOLDEN);
        }
        Some(self.hash(folded, ports))
    }

    #[inline(always)]
    fn hash(&self, addresses: u64, ports: u64) -> u32 {
        let [a, b] = self.0;
        let folded = fold(addresses ^ a, ports ^ b);
        fold(folded ^ b, GOLDEN) as u32
    }
}

/// Both ports and the protocol.
#[inline(always)]
fn ports(protocol: u8, header: &[u8]) -> Option<u64> {
    if protocol != TCP && protocol != UDP {
        return None;
    }
    let ports = u32::from_be_bytes(*header.first_chunk::<PORTS>()?);
    Some(u64::from(ports) << 8 | u64::from(protocol))
}

/// XORs the two halves of the product.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a).wrapping_mul(b.into());
    (product >> 64) as u64 ^ product as u64
}
