// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The addresses of endpoints, and the classification of packets.

use crate::common::tag;

/// Endpoints that a fabric may have.
pub const MAX_ENDPOINTS: u32 = 4096;

/// The addresses of all endpoints: consecutive for the hosts of a rack, from the first one on, 256
/// apart for the racks of a pod, and 65,536 apart for pods. Endpoints are numbered in this order,
/// from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The address of endpoint 0.
    pub first: u32,
    /// Hosts per rack, 1 to 256.
    pub hosts: u32,
    /// Racks per pod, 1 to 256.
    pub racks: u32,
    /// Pods, 1 to 256.
    pub pods: u32,
}

impl Addresses {
    /// The number of endpoints.
    pub fn count(&self) -> u32 {
        let racks = self.racks.saturating_mul(self.pods);
        self.hosts.saturating_mul(racks)
    }

    /// The endpoint with this address, if there is one.
    #[inline]
    pub fn endpoint(&self, address: u32) -> Option<u16> {
        let distance = address.checked_sub(self.first)?;
        let (host, rack, pod) = (distance & 255, distance >> 8 & 255, distance >> 16);
        if host >= self.hosts || rack >= self.racks || pod >= self.pods {
            return None;
        }
        let rack = pod.wrapping_mul(self.racks).wrapping_add(rack);
        u16::try_from(rack.wrapping_mul(self.hosts).wrapping_add(host)).ok()
    }

    /// The address of an endpoint, if it exists.
    pub fn address(&self, endpoint: u16) -> Option<u32> {
        let endpoint = u32::from(endpoint);
        let rack = endpoint.checked_div(self.hosts)?;
        let host = endpoint.checked_rem(self.hosts)?;
        let (pod, rack) = (rack.checked_div(self.racks)?, rack.checked_rem(self.racks)?);
        if pod >= self.pods {
            return None;
        }
        let distance = pod.wrapping_shl(16) | rack.wrapping_shl(8);
        self.first.checked_add(distance)?.checked_add(host)
    }
}

/// The ends of the control protocol, as a host knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The host's own address.
    pub own: u32,
    /// The arbiter's address.
    pub arbiter: u32,
    /// The second arbiter's address; 0 if there is none.
    pub standby: u32,
    /// The arbiters' port.
    pub port: u16,
}

impl Ends {
    fn is_arbiter(&self, address: u32) -> bool {
        address == self.arbiter || (address == self.standby && self.standby != 0)
    }
}

/// The payload of a packet with a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// A TCP segment with payload, or with a flag that closes a connection.
    Tcp,
    /// A pure TCP acknowledgement.
    Ack,
    /// A TCP segment that opens a connection: SYN or SYN-ACK.
    Opening,
    /// Another protocol's packet.
    Other,
}

/// The class of a packet, which determines how the qdisc treats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// The packet waits for a timeslot to this address.
    To(u32, Load),
    /// A UDP packet to an arbiter at this address: a control packet if the kernel's own socket sent
    /// it, otherwise like [`To`](Self::To).
    ToArbiter(u32),
    /// A control packet from an arbiter on this host, to this address.
    OfArbiter(u32),
    /// Not an IPv4 packet.
    Other,
}

/// EtherType.
const IPV4: u16 = 0x0800;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Bytes of a packet, from its network header on, that are read: the longest IPv4 header, and TCP's
/// up to its flags.
pub const HEADERS: usize = 60 + 14;
/// TCP's flags.
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
const SYN_ACK: u8 = SYN | ACK;

/// Classifies an outgoing packet, from its network header on.
///
/// A port alone does not make a control packet, because a program can use any port. Both ends are
/// checked instead. Packets to an arbiter are control packets if the kernel sent them. Packets from
/// the arbiters' port are the arbiter's if its address is the host's own, because its socket has
/// that port.
#[inline]
pub fn sort(protocol: u16, header: &[u8], ends: &Ends) -> Sort {
    let Some(&[first, _, t0, t1, _, _, f0, f1, _, l4, _, _, s0, s1, s2, s3, d0, d1, d2, d3]) =
        header.first_chunk::<20>()
    else {
        return Sort::Other;
    };
    if protocol != IPV4 || first >> 4 != 4 {
        return Sort::Other;
    }
    let from = u32::from_be_bytes([s0, s1, s2, s3]);
    let to = u32::from_be_bytes([d0, d1, d2, d3]);
    let length = usize::from(first & 15).wrapping_mul(4);
    let payload = header.get(length..);
    // A later fragment has no ports.
    let is_first = f0 & 0x1f == 0 && f1 == 0;
    let load = match payload {
        Some(tcp) if l4 == TCP && is_first => {
            let total = usize::from(u16::from_be_bytes([t0, t1]));
            match total.checked_sub(length) {
                Some(segment) => load(tcp, segment),
                None => Load::Tcp,
            }
        }
        _ if l4 == TCP => Load::Tcp,
        _ => Load::Other,
    };
    let data = Sort::To(to, load);
    if l4 != UDP || !is_first {
        return data;
    }
    let Some(&[a, b, c, d]) = payload.and_then(<[u8]>::first_chunk) else {
        return data;
    };
    let [source, destination] = [[a, b], [c, d]].map(u16::from_be_bytes);
    if source == ends.port && from == ends.own && ends.is_arbiter(from) {
        Sort::OfArbiter(to)
    } else if destination == ends.port && ends.is_arbiter(to) {
        Sort::ToArbiter(to)
    } else {
        data
    }
}

/// The kind of a TCP segment of this many bytes, by its header.
#[inline]
fn load(header: &[u8], segment: usize) -> Load {
    let Some(&[.., offset, flags]) = header.first_chunk::<14>() else {
        return Load::Tcp;
    };
    let length = usize::from(offset >> 4).wrapping_mul(4);
    match flags & (ACK | SYN | FIN | RST) {
        ACK if segment == length => Load::Ack,
        SYN | SYN_ACK => Load::Opening,
        _ => Load::Tcp,
    }
}

/// The rank in the tag of a control packet. It is not a sequence number: those have 16 bits.
pub const NO_NUMBER: u32 = 1 << 16;

/// An arriving packet that carries a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its source address.
    pub from: u32,
    /// Its destination address.
    pub to: u32,
    /// Its path.
    pub path: u16,
    /// Its sequence number, modulo 2^16; `None` for a control packet.
    pub number: Option<u16>,
}

/// Reads an arriving packet, from its network header on; `None` if it carries no path.
#[inline]
pub fn arrival(protocol: u16, header: &[u8]) -> Option<Arrival> {
    let (_, tag) = tag::read(header)?;
    let path = tag.upstream_queue.checked_sub(1)?;
    let (first, addresses) = (header.first()?, header.get(12..)?);
    let &[s0, s1, s2, s3, d0, d1, d2, d3] = addresses.first_chunk()?;
    (protocol == IPV4 && first >> 4 == 4).then_some(Arrival {
        from: u32::from_be_bytes([s0, s1, s2, s3]),
        to: u32::from_be_bytes([d0, d1, d2, d3]),
        path,
        number: u16::try_from(tag.rank).ok(),
    })
}
