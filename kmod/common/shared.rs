// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! What the ports of one switch share, the frames by which it speaks to its neighbours, or the
//! datagrams by which it speaks to somebody farther away, and packets that go from one port to
//! another.
//!
//! Whoever carries it out has one value for each switch, under one lock. If it has frames, he calls
//! [`next_frame`](Shared::next_frame) whenever [`has_news`](Shared::has_news), and
//! [`tick`](Shared::tick) when [`next_event`](Shared::next_event) has come: never from where the
//! news came up, as a frame goes out through a port like any packet.
//! [`next_datagram`](Shared::next_datagram) is for datagrams what that is for frames. Packets that
//! were handed over to go by another port he carries one after the other, in their order: for each
//! he calls [`embark`](Shared::embark), gives it to the device that this says, and then calls
//! [`landed`](Shared::landed).

/// Bytes of the longest frame, without its Ethernet header.
pub const FRAME: usize = 256;

/// What tells a switch's frames from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Their EtherType.
    pub ethertype: u16,
    /// The group address to which they are sent.
    pub group: [u8; 6],
}

/// Bytes of the longest datagram, without its headers.
pub const DATAGRAM: usize = 608;

/// Whom a datagram comes from, or goes to: an IPv4 address and a UDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The address.
    pub address: u32,
    /// The port.
    pub port: u16,
}

/// The state that the ports of a switch share. All times are in ns of one clock.
pub trait Shared: Sized {
    /// Its frames, if it has such.
    const FRAMES: Option<Frames> = None;

    /// Whether it has datagrams.
    const DATAGRAMS: bool = false;

    /// Whether it sees each packet that comes to a device with a qdisc of its kind that looks at
    /// them.
    const ARRIVALS: bool = false;

    /// Why there is no memory.
    type Error;

    /// The state of a new switch.
    ///
    /// # Errors
    ///
    /// No memory.
    fn new() -> Result<Self, Self::Error>;

    /// A frame came in by a device, from an address; `None` for one that is too long or not to the
    /// group. Whether the device's ports are to be asked for packets.
    fn receive(&mut self, _device: u32, _from: [u8; 6], _data: Option<&[u8]>, _now: u64) -> bool {
        false
    }

    /// Whether there is a frame to be sent at once.
    #[inline]
    fn has_news(&self) -> bool {
        false
    }

    /// The time has come: what is due comes up.
    fn tick(&mut self, _now: u64) {}

    /// Writes the next frame to be sent; the device by which it goes, and its length in bytes.
    fn next_frame(&mut self, _now: u64, _frame: &mut [u8; FRAME]) -> Option<(u32, usize)> {
        None
    }

    /// The frame that was last taken could not be sent by its device.
    fn unsent(&mut self, _device: u32, _now: u64) {}

    /// A datagram came in; `data` is empty for one that is too long. The device whose ports are to
    /// be asked for packets, if any.
    fn receive_datagram(&mut self, _from: Peer, _data: &[u8], _now: u64) -> Option<u32> {
        None
    }

    /// A packet has come to a device, of this EtherType: from its network header on, as far as it
    /// is in one piece. Others see it afterwards, as it is. Whether there may be something to be
    /// sent for it.
    fn arrived(&mut self, _protocol: u16, _header: &[u8], _now: u64) -> bool {
        false
    }

    /// Writes the next datagram to be sent; to whom it goes, and its length in bytes.
    fn next_datagram(&mut self, _now: u64, _data: &mut [u8; DATAGRAM]) -> Option<(Peer, usize)> {
        None
    }

    /// When `tick` is to be called, or there is something to be sent, if at all.
    fn next_event(&self) -> Option<u64> {
        None
    }

    /// A packet of `len` bytes that was handed over to go by a port is about to be carried: the
    /// device by which it goes; `None`: it is dropped. `takes`: whether a device can send it, now.
    fn embark(&mut self, _port: u16, _len: u32, _takes: impl FnMut(u32) -> bool) -> Option<u32> {
        None
    }

    /// That device has it, or has dropped it; not `sent`: no device had it.
    fn landed(&mut self, _sent: bool) {}
}
