// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Which packets need credits, and the number that they carry.
//!
//! A packet needs a credit if it is a TCP segment with payload. It carries the number of its credit
//! in the identification field of the IPv4 header. A receiver does not need this field for a packet
//! that must not be fragmented: such a packet may have any value there (RFC 6864, §4.1).

use super::message::Flow;
use crate::common::tag::IPV4_HEADER;

/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;

/// Protocol numbers.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Bytes of a TCP header without options.
const TCP_HEADER: usize = 20;

/// The most bytes of a packet that are read: an IPv4 header with all options, and a TCP header.
pub const HEADERS: usize = 60 + TCP_HEADER;

/// Bytes of a packet that [`number`] writes to.
pub const NUMBERED: u32 = IPV4_HEADER as u32;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// A TCP segment with payload.
    Data {
        /// Its flow.
        flow: Flow,
        /// Its identification; `None` if the packet may be fragmented.
        number: Option<u16>,
    },
    /// A UDP datagram, which may be a message.
    Datagram,
    /// Any other packet.
    Other,
}

impl Sort {
    /// Sorts a packet with this EtherType that begins with `header`.
    #[inline]
    pub fn of(protocol: u16, header: &[u8]) -> Self {
        Self::read(protocol, header).unwrap_or(Self::Other)
    }

    #[inline]
    fn read(protocol: u16, header: &[u8]) -> Option<Self> {
        let fixed: &[u8; IPV4_HEADER] = header.first_chunk()?;
        let [first, _, t0, t1, i0, i1, f0, f1, _, next, _, _, s0, s1, s2, s3, d0, d1, d2, d3] =
            *fixed;
        let size = usize::from(first & 15).wrapping_mul(4);
        let fragment = u16::from_be_bytes([f0, f1]);
        // More fragments, or an offset.
        if protocol != IPV4 || first >> 4 != 4 || size < IPV4_HEADER || fragment & 0x3fff != 0 {
            return None;
        }
        if next == UDP {
            return Some(Self::Datagram);
        }
        if next != TCP {
            return None;
        }
        let tcp: &[u8; TCP_HEADER] = header.get(size..)?.first_chunk()?;
        let [p0, p1, q0, q1, _, _, _, _, _, _, _, _, offset, ..] = *tcp;
        let tcp_size = usize::from(offset >> 4).wrapping_mul(4);
        if tcp_size < TCP_HEADER {
            return None;
        }
        let total = usize::from(u16::from_be_bytes([t0, t1]));
        // A packet that is longer than its header can tell (BIG TCP) has the length 0.
        let has_payload = total == 0 || total > size.wrapping_add(tcp_size);
        let must_be_whole = fragment & 0x4000 != 0;
        has_payload.then_some(Self::Data {
            flow: Flow {
                source: u32::from_be_bytes([s0, s1, s2, s3]),
                destination: u32::from_be_bytes([d0, d1, d2, d3]),
                source_port: u16::from_be_bytes([p0, p1]),
                destination_port: u16::from_be_bytes([q0, q1]),
            },
            number: must_be_whole.then_some(u16::from_be_bytes([i0, i1])),
        })
    }
}

/// Writes a credit's number into a packet that begins with `header`, and updates the checksum. Does
/// nothing to a packet that may be fragmented.
pub fn number(header: &mut [u8], number: u16) {
    let Some([_, _, _, _, i0, i1, f0, _, _, _, c0, c1, ..]) =
        header.first_chunk_mut::<IPV4_HEADER>()
    else {
        return;
    };
    if *f0 & 0x40 == 0 {
        return;
    }
    let old = u16::from_be_bytes([*i0, *i1]);
    [*i0, *i1] = number.to_be_bytes();
    // HC' = ~(~HC + ~m + m') (RFC 1624, eqn 3), of three words, so with two folds.
    let sum = u32::from(!u16::from_be_bytes([*c0, *c1]))
        .wrapping_add(u32::from(!old))
        .wrapping_add(u32::from(number));
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    [*c0, *c1] = (!(sum as u16)).to_be_bytes();
}
