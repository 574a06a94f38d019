// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Drop notices: how a switch tells a sender which of its segments was dropped.
//!
//! A notice is an ICMP message (RFC 792) over IPv4, from the switch to the source address of the
//! dropped packet. Its type is one for experiments (RFC 4727), which hosts without this qdisc
//! discard silently. In network byte order:
//!
//! | byte  | field            | content                                                         |
//! |-------|------------------|-----------------------------------------------------------------|
//! | 0     | type             | 253                                                             |
//! | 1     | code             | 0                                                               |
//! | 2–3   | checksum         | of all 28 bytes                                                 |
//! | 4–7   | magic            | "weft": other experiments use the type as well                  |
//! | 8–11  | destination      | of the dropped packet; its source is the notice's destination   |
//! | 12–13 | source port      | of the dropped segment                                          |
//! | 14–15 | destination port | of the dropped segment                                          |
//! | 16–19 | sequence         | its first sequence number                                       |
//! | 20–23 | acknowledgement  | its acknowledgement number                                      |
//! | 24–27 | length           | how many sequence numbers it takes                              |

use super::segment::{Packet, Segment};

/// Protocol number of ICMP.
const ICMP: u8 = 1;

/// The type: RFC 4727's first one for experiments.
pub const TYPE: u8 = 253;

/// The word that distinguishes a notice from other experiments' messages.
pub const MAGIC: [u8; 4] = *b"weft";

/// Bytes of a notice.
pub const SIZE: usize = 28;

/// The reason why a notice is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It is shorter or longer than a notice.
    Length,
    /// Its code is not 0.
    Code,
    /// Its checksum is wrong.
    Checksum,
}

/// The ICMP message that a packet carries, if it looks like a notice.
fn message(protocol: u16, header: &[u8]) -> Option<Packet<'_>> {
    let packet = Packet::read(protocol, header).filter(|packet| packet.protocol == ICMP)?;
    let [kind, _, _, _, magic @ ..] = packet.rest.first_chunk::<8>()?;
    (*kind == TYPE && *magic == MAGIC).then_some(packet)
}

/// Whether a packet with this EtherType that begins with `header` is a notice, which may be
/// malformed.
#[inline]
pub fn is_notice(protocol: u16, header: &[u8]) -> bool {
    // Nearly all packets are of another protocol.
    header.get(9) == Some(&ICMP) && message(protocol, header).is_some()
}

/// Reads the notice that a packet carries; `None` if the packet is no notice.
///
/// # Errors
///
/// [`Malformed`] if it is a notice and wrong.
pub fn decode(protocol: u16, header: &[u8]) -> Option<Result<Segment, Malformed>> {
    let packet = message(protocol, header)?;
    // A short frame is padded at its end, so the slice may be longer than the packet.
    let Some(bytes) = packet
        .rest
        .first_chunk::<SIZE>()
        .filter(|_| packet.length == SIZE)
    else {
        return Some(Err(Malformed::Length));
    };
    let [_, code, _, _, _, _, _, _, d0, d1, d2, d3, p0, p1, q0, q1, rest @ ..] = *bytes;
    let [n0, n1, n2, n3, a0, a1, a2, a3, l0, l1, l2, l3] = rest;
    let segment = Segment {
        source: packet.destination,
        destination: u32::from_be_bytes([d0, d1, d2, d3]),
        source_port: u16::from_be_bytes([p0, p1]),
        destination_port: u16::from_be_bytes([q0, q1]),
        sequence: u32::from_be_bytes([n0, n1, n2, n3]),
        acknowledgement: u32::from_be_bytes([a0, a1, a2, a3]),
        length: u32::from_be_bytes([l0, l1, l2, l3]),
    };
    Some(if code != 0 {
        Err(Malformed::Code)
    } else if checksum(bytes) != 0 {
        Err(Malformed::Checksum)
    } else {
        Ok(segment)
    })
}

/// The notice of a dropped segment: a whole ICMP message, to the segment's source.
pub fn encode(segment: &Segment) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    let fields = [TYPE, 0, 0, 0]
        .into_iter()
        .chain(MAGIC)
        .chain(segment.destination.to_be_bytes())
        .chain(segment.source_port.to_be_bytes())
        .chain(segment.destination_port.to_be_bytes())
        .chain(segment.sequence.to_be_bytes())
        .chain(segment.acknowledgement.to_be_bytes())
        .chain(segment.length.to_be_bytes());
    for (byte, field) in bytes.iter_mut().zip(fields) {
        *byte = field;
    }
    [bytes[2], bytes[3]] = checksum(&bytes).to_be_bytes();
    bytes
}

/// The Internet checksum (RFC 1071); 0 for bytes that contain their own.
fn checksum(bytes: &[u8; SIZE]) -> u16 {
    let words = bytes.chunks_exact(2).filter_map(<[u8]>::first_chunk);
    let sum = words.fold(0_u32, |sum, word| {
        sum.wrapping_add(u16::from_be_bytes(*word).into())
    });
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    !(sum as u16)
}
