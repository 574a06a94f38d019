// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The fields of the IP header that a switch reads and writes when it detours a packet.

/// EtherTypes.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// Bytes of a header that are read and written: IPv4's first 20, IPv6's 40.
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;

/// IPv6's next header for ICMPv6.
const ICMPV6: u8 = 58;

/// The ECN field of a packet (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Not-ECT: it must not be marked.
    NotCapable,
    /// ECT(0) or ECT(1): it may be marked.
    Capable,
    /// CE: it is marked.
    Marked,
}

/// The nodes that can use a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Any node that forwards it.
    Routed,
    /// Only its addressee, if that is at the other end of this link: it has no hop left.
    Expires,
    /// Only nodes at the other end of this link.
    Link,
}

/// The properties of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its ECN field.
    pub ecn: Ecn,
    /// The nodes that can use the packet.
    pub reach: Reach,
    /// Its length in bytes, for [`set_ce`] and [`cap_ttl`].
    pub len: u32,
}

impl Header {
    /// An unknown header: the packet concerns only this link.
    pub const NONE: Self = Self {
        ecn: Ecn::NotCapable,
        reach: Reach::Link,
        len: 0,
    };

    /// Reads the header of a packet of this EtherType.
    #[inline]
    pub fn read(protocol: u16, header: &[u8]) -> Self {
        let read = match protocol {
            IPV4 => ipv4(header),
            IPV6 => ipv6(header),
            _ => None,
        };
        read.unwrap_or(Self::NONE)
    }
}

#[inline]
fn ecn(bits: u8) -> Ecn {
    match bits & 3 {
        0 => Ecn::NotCapable,
        3 => Ecn::Marked,
        _ => Ecn::Capable,
    }
}

#[inline]
fn reach(link: bool, ttl: u8) -> Reach {
    match (link, ttl) {
        (true, _) => Reach::Link,
        (false, 0 | 1) => Reach::Expires,
        (false, _) => Reach::Routed,
    }
}

#[inline]
fn ipv4(header: &[u8]) -> Option<Header> {
    let fixed: &[u8; IPV4_HEADER] = header.first_chunk()?;
    let [first, tos, _, _, _, _, _, _, ttl, ..] = *fixed;
    let [.., s0, s1, _, _, d0, d1, _, _] = *fixed;
    if first >> 4 != 4 {
        return None;
    }
    // Groups and broadcast, and link-local addresses (RFC 3927).
    let link = d0 >= 224 || (d0, d1) == (169, 254) || (s0, s1) == (169, 254);
    Some(Header {
        ecn: ecn(tos),
        reach: reach(link, ttl),
        len: IPV4_HEADER as u32,
    })
}

#[inline]
fn ipv6(header: &[u8]) -> Option<Header> {
    let fixed: &[u8; IPV6_HEADER] = header.first_chunk()?;
    let [first, second, _, _, _, _, next, limit, s0, s1, ..] = *fixed;
    let (_, to) = fixed.split_at_checked(24)?;
    let [d0, d1, ..] = *to else { return None };
    if first >> 4 != 6 {
        return None;
    }
    // ff00::/8 and fe80::/10 (RFC 4291, §2.4).
    let of_link = |a: u8, b: u8| a == 0xfe && b & 0xc0 == 0x80;
    let message = header.get(IPV6_HEADER).copied();
    let link = d0 == 0xff
        || of_link(d0, d1)
        || of_link(s0, s1)
        || (next == ICMPV6 && message.is_none_or(is_of_neighbours));
    Some(Header {
        ecn: ecn(second >> 4),
        reach: reach(link, limit),
        len: IPV6_HEADER as u32,
    })
}

/// Whether an ICMPv6 message of this type concerns neighbours only, even if its addresses are
/// routed ones: router and neighbour discovery (RFC 4861), inverse (RFC 3122) and secure (RFC 3971)
/// neighbour discovery.
#[inline]
fn is_of_neighbours(message: u8) -> bool {
    matches!(message, 133..=137 | 141 | 142 | 148 | 149)
}

/// Marks a packet with this header: sets CE, and updates IPv4's checksum. Does nothing if the
/// packet is not ECN-capable.
pub fn set_ce(header: &mut [u8]) {
    match header.first().map(|first| first >> 4) {
        Some(4) => {
            let Some([version, tos, ..]) = header.first_chunk_mut::<IPV4_HEADER>() else {
                return;
            };
            if *tos & 3 == 0 {
                return;
            }
            let old = u16::from_be_bytes([*version, *tos]);
            *tos |= 3;
            let new = u16::from_be_bytes([*version, *tos]);
            amend(header, old, new);
        }
        Some(6) => {
            if let Some([_, second, ..]) = header.first_chunk_mut::<IPV6_HEADER>() {
                if *second & 0x30 != 0 {
                    *second |= 0x30;
                }
            }
        }
        _ => {}
    }
}

/// Limits a packet with this header to `ttl` hops; updates IPv4's checksum.
pub fn cap_ttl(header: &mut [u8], ttl: u8) {
    match header.first().map(|first| first >> 4) {
        Some(4) => {
            let Some([_, _, _, _, _, _, _, _, hops, protocol, ..]) =
                header.first_chunk_mut::<IPV4_HEADER>()
            else {
                return;
            };
            if *hops <= ttl {
                return;
            }
            let old = u16::from_be_bytes([*hops, *protocol]);
            *hops = ttl;
            let new = u16::from_be_bytes([*hops, *protocol]);
            amend(header, old, new);
        }
        Some(6) => {
            if let Some([_, _, _, _, _, _, _, limit, ..]) = header.first_chunk_mut::<IPV6_HEADER>()
            {
                *limit = (*limit).min(ttl);
            }
        }
        _ => {}
    }
}

/// Updates the checksum after a 16-bit word changed from `old` to `new`: HC' = ~(~HC + ~m + m')
/// (RFC 1624, eqn 3).
fn amend(header: &mut [u8], old: u16, new: u16) {
    let Some([_, _, _, _, _, _, _, _, _, _, high, low, ..]) =
        header.first_chunk_mut::<IPV4_HEADER>()
    else {
        return;
    };
    let sum = u32::from(!u16::from_be_bytes([*high, *low]))
        .wrapping_add(u32::from(!old))
        .wrapping_add(u32::from(new));
    // Two folds: three words make at most 2 carries, and adding these makes one more.
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    [*high, *low] = (!(sum as u16)).to_be_bytes();
}
