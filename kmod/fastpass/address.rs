// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Who is which endpoint, and which packets are scheduled.

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
    /// It is of the control protocol.
    Control,
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
    let to = Sort::To(u32::from_be_bytes([d0, d1, d2, d3]), l4 == TCP);
    // A later fragment has no ports.
    if l4 != UDP || f0 & 0x1f != 0 || f1 != 0 {
        return to;
    }
    let ports = header.get(usize::from(first & 15).wrapping_mul(4)..);
    match ports.and_then(<[u8]>::first_chunk) {
        Some(&[a, b, c, d]) => {
            let is_ours = [[a, b], [c, d]].map(u16::from_be_bytes).contains(&port);
            if is_ours {
                Sort::Control
            } else {
                to
            }
        }
        None => to,
    }
}
