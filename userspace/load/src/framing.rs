// SPDX-License-Identifier: MIT OR Apache-2.0

//! Bytes of a flow on the wire.

use std::num::NonZeroU32;

/// How a flow's payload is cut into packets, and what each packet adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Payload bytes in a full packet.
    pub mss: NonZeroU32,
    /// Bytes that each packet adds from layer 3 up: IP, TCP, their options, weft's tag.
    pub headers: u32,
    /// Bytes that each frame adds below layer 3, as the wire counts them (its `overhead` plus the
    /// link's header): 14 for Ethernet's header, or 38 with check sequence, preamble and gap.
    pub frame: u32,
    /// Bytes that the shortest frame takes on the wire, including `frame` (the wire's `mpu`).
    pub minimum: u32,
}

/// TCP's header with the timestamps that Linux sends.
const TCP_TIMESTAMPS: u32 = 20 + 12;
const IPV4: u32 = 20;
const IPV6: u32 = 40;
/// weft's tag: 8 bytes of IPv4 options, or a destination options header of IPv6.
const TAG: u32 = 8;

impl Framing {
    /// TCP with timestamps over IPv4, with or without weft's tag, on real Ethernet: an MTU of `mtu`
    /// bytes, 38 bytes per frame below it, 84 for the shortest frame. `None` if the MTU leaves no
    /// room for payload.
    #[must_use]
    pub fn ethernet_tcp(mtu: u32, tagged: bool) -> Option<Self> {
        Self::ethernet(mtu, IPV4 + TCP_TIMESTAMPS + if tagged { TAG } else { 0 })
    }

    /// Like [`Framing::ethernet_tcp`], over IPv6.
    #[must_use]
    pub fn ethernet_tcp_ipv6(mtu: u32, tagged: bool) -> Option<Self> {
        Self::ethernet(mtu, IPV6 + TCP_TIMESTAMPS + if tagged { TAG } else { 0 })
    }

    /// Each packet also adds these bytes, in a frame of the same length. `None` if they leave no
    /// room for payload.
    #[must_use]
    pub fn with_option(self, bytes: u32) -> Option<Self> {
        Some(Self {
            mss: NonZeroU32::new(self.mss.get().checked_sub(bytes)?)?,
            headers: self.headers.checked_add(bytes)?,
            ..self
        })
    }

    fn ethernet(mtu: u32, headers: u32) -> Option<Self> {
        Some(Self {
            mss: NonZeroU32::new(mtu.checked_sub(headers)?)?,
            headers,
            frame: 38,
            minimum: 84,
        })
    }

    /// Number of packets of a flow of `bytes`, at least one.
    #[must_use]
    pub fn packets(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.mss.get())).max(1)
    }

    /// Bytes on the wire of a packet with `payload` bytes.
    #[must_use]
    pub fn wire_bytes(&self, payload: u32) -> u64 {
        (u64::from(payload) + u64::from(self.headers) + u64::from(self.frame))
            .max(u64::from(self.minimum))
    }

    /// Bytes on the wire of a flow of `bytes`, in one direction, without retransmissions.
    #[must_use]
    pub fn flow_wire_bytes(&self, bytes: u64) -> u64 {
        let full = self.packets(bytes) - 1;
        full * self.wire_bytes(self.mss.get()) + self.wire_bytes(self.last_payload(bytes))
    }

    /// Payload bytes of a flow's last packet.
    #[must_use]
    pub(crate) fn last_payload(&self, bytes: u64) -> u32 {
        let full = self.packets(bytes) - 1;
        // At most the maximum segment size, a u32.
        (bytes - full * u64::from(self.mss.get())) as u32
    }
}
