// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! IPv4 packets, as a switch or a host sees them.

use weft_mechanisms::resend::segment::Segment;

/// The segment number `number` of a flow, 1000 bytes each.
pub(crate) fn segment(flow: u16, number: u32) -> Segment {
    Segment {
        source: 0x0a00_0001,
        destination: 0x0a00_0002,
        source_port: 40_000 + flow,
        destination_port: 80,
        sequence: number.wrapping_mul(1000),
        acknowledgement: 77,
        length: 1000,
    }
}

/// An IPv4 packet with `options` bytes of options.
pub(crate) fn ipv4(protocol: u8, from: u32, to: u32, options: usize, payload: &[u8]) -> Vec<u8> {
    assert_eq!(options % 4, 0);
    let length = (20 + options + payload.len()) as u16;
    let mut packet = vec![0x45 + (options / 4) as u8, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 1, 0x40, 0, 64, protocol, 0, 0]);
    packet.extend(from.to_be_bytes());
    packet.extend(to.to_be_bytes());
    packet.resize(20 + options, 1);
    packet.extend(payload);
    packet
}

/// The packet of a segment: the flags SYN and FIN are part of its length. `options` bytes of IPv4
/// options and `tcp` bytes of TCP options.
pub(crate) fn tcp(segment: &Segment, flags: u8, options: usize, tcp: usize) -> Vec<u8> {
    let mut payload = segment.source_port.to_be_bytes().to_vec();
    payload.extend(segment.destination_port.to_be_bytes());
    payload.extend(segment.sequence.to_be_bytes());
    payload.extend(segment.acknowledgement.to_be_bytes());
    payload.extend([(((20 + tcp) / 4) << 4) as u8, flags, 0, 0, 0, 0, 0, 0]);
    let flagged = (flags & 3).count_ones();
    payload.resize(20 + tcp + (segment.length - flagged) as usize, 0);
    ipv4(6, segment.source, segment.destination, options, &payload)
}
