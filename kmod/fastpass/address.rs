// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Who is which endpoint, and which packets are scheduled.

use crate::common::tag;

/// Endpoints that a fabric may have.
pub const MAX_ENDPOINTS: u32 = 4096;

/// The addresses of all endpoints: hosts of a rack one after the other from the first one's on, the racks of a pod 256
/// addresses apart, pods 65,536. Endpoints are numbered in this order, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// That of endpoint 0.
    pub first: u32,
    /// Hosts of a rack, 1 to 256.
    pub hosts: u32,
    /// Racks of a pod, 1 to 256.
    pub racks: u32,
    /// Pods, 1 to 256.
    pub pods: u32,
}

impl Addresses {
    /// How many endpoints there are.
    pub fn count(&self) -> u32 {
        let racks = self.racks.saturating_mul(self.pods);
        self.hosts.saturating_mul(racks)
    }

    /// Whose address it is; of no endpoint if `None`.
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

    /// The address of an endpoint, if there is such.
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

/// What a packet is to the discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// It waits for a timeslot to this address. TCP or not: what TCP's window allows is bounded anyway.
    To(u32, bool),
    /// It is of the control protocol, to this address.
    Control(u32),
    /// It is no IPv4 packet.
    Other,
}

/// EtherType.
const IPV4: u16 = 0x0800;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Bytes of a packet, from its network header on, that are looked at: the longest IPv4 header, and ports.
pub const HEADERS: usize = 64;

/// Reads a packet from its network header on. `port` is that of the control protocol's UDP packets.
#[inline]
pub fn sort(protocol: u16, header: &[u8], port: u16) -> Sort {
    let Some(&[first, _, _, _, _, _, f0, f1, _, l4, .., d0, d1, d2, d3]) =
        header.first_chunk::<20>()
    else {
        return Sort::Other;
    };
    if protocol != IPV4 || first >> 4 != 4 {
        return Sort::Other;
    }
    let address = u32::from_be_bytes([d0, d1, d2, d3]);
    let to = Sort::To(address, l4 == TCP);
    // A later fragment has no ports.
    if l4 != UDP || f0 & 0x1f != 0 || f1 != 0 {
        return to;
    }
    let ports = header.get(usize::from(first & 15).wrapping_mul(4)..);
    match ports.and_then(<[u8]>::first_chunk) {
        Some(&[a, b, c, d]) => {
            let is_ours = [[a, b], [c, d]].map(u16::from_be_bytes).contains(&port);
            if is_ours {
                Sort::Control(address)
            } else {
                to
            }
        }
        None => to,
    }
}

/// A packet that has come, of those that carry a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The address that it says it is from.
    pub from: u32,
    /// That to which it is.
    pub to: u32,
    /// Its path.
    pub path: u16,
    /// Its number, modulo 2^16, unless it is of the control protocol.
    pub number: Option<u16>,
}

/// Reads a packet that has come, from its network header on; `None` for one that carries no path. `port` as in [`sort`].
#[inline]
pub fn arrival(protocol: u16, header: &[u8], port: u16) -> Option<Arrival> {
    let (_, tag) = tag::read(header)?;
    let path = tag.upstream_queue.checked_sub(1)?;
    let is_control = match sort(protocol, header, port) {
        Sort::Other => return None,
        Sort::Control(_) => true,
        Sort::To(..) => false,
    };
    let &[s0, s1, s2, s3, d0, d1, d2, d3] = header.get(12..)?.first_chunk()?;
    Some(Arrival {
        from: u32::from_be_bytes([s0, s1, s2, s3]),
        to: u32::from_be_bytes([d0, d1, d2, d3]),
        path,
        number: (!is_control).then_some(tag.rank as u16),
    })
}
