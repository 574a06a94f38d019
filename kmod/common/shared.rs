// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The state that the ports of one switch share, its frames to its neighbours or its datagrams to
//! more distant hosts, and the packets that move from one port to another.
//!
//! The caller keeps one value for each switch, under one lock. If the switch has frames, the caller
//! calls [`next_frame`](Shared::next_frame) whenever [`has_news`](Shared::has_news) is true, and
//! [`tick`](Shared::tick) when the time of [`next_event`](Shared::next_event) has come. It never
//! does so from the code that caused the news, because a frame goes out through a port like any
//! packet. [`next_datagram`](Shared::next_datagram) is the same for datagrams. The caller carries
//! packets that were handed over to go by another port one at a time, in their order: for each it
//! calls [`embark`](Shared::embark), gives the packet to the returned device, and then calls
//! [`landed`](Shared::landed).

/// Bytes of the longest frame, without its Ethernet header.
pub const FRAME: usize = 256;

/// The identification of a switch's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Their EtherType.
    pub ethertype: u16,
    /// The group address to which they are sent.
    pub group: [u8; 6],
}

/// Bytes of the longest datagram, without its headers.
pub const DATAGRAM: usize = 608;

/// The sender or receiver of a datagram: an IPv4 address and a UDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The address.
    pub address: u32,
    /// The port.
    pub port: u16,
}

/// The state that the ports of a switch share. All times are in ns of one clock.
pub trait Shared: Sized {
    /// Its frames, if it has any.
    const FRAMES: Option<Frames> = None;

    /// Whether it has datagrams.
    const DATAGRAMS: bool = false;

    /// Whether it sees each packet that arrives on a device with a qdisc of its kind that watches
    /// arrivals.
    const ARRIVALS: bool = false;

    /// The error for lack of memory.
    type Error;

    /// The state of a new switch.
    ///
    /// # Errors
    ///
    /// No memory.
    fn new() -> Result<Self, Self::Error>;

    /// A frame arrived on a device, from an address; `None` for one that is too long or not to the
    /// group. Returns whether to ask the device's ports for packets.
    fn receive(&mut self, _device: u32, _from: [u8; 6], _data: Option<&[u8]>, _now: u64) -> bool {
        false
    }

    /// Whether there is a frame to send at once.
    #[inline]
    fn has_news(&self) -> bool {
        false
    }

    /// The time has come: due events become news.
    fn tick(&mut self, _now: u64) {}

    /// Writes the next frame to send; returns the device by which it goes, and its length in bytes.
    fn next_frame(&mut self, _now: u64, _frame: &mut [u8; FRAME]) -> Option<(u32, usize)> {
        None
    }

    /// The device could not send the frame that was taken last.
    fn unsent(&mut self, _device: u32, _now: u64) {}

    /// A datagram arrived; `data` is empty for one that is too long. Returns the device whose ports
    /// to ask for packets, if any.
    fn receive_datagram(&mut self, _from: Peer, _data: &[u8], _now: u64) -> Option<u32> {
        None
    }

    /// A packet of this EtherType has arrived on a device: from its network header on, as far as it
    /// is in one piece. Others see it afterwards, unchanged. Returns whether there may be something
    /// to send because of it.
    fn arrived(&mut self, _protocol: u16, _header: &[u8], _now: u64) -> bool {
        false
    }

    /// Writes the next datagram to send; returns its receiver, and its length in bytes.
    fn next_datagram(&mut self, _now: u64, _data: &mut [u8; DATAGRAM]) -> Option<(Peer, usize)> {
        None
    }

    /// When to call `tick`, or when there is something to send, if ever.
    fn next_event(&self) -> Option<u64> {
        None
    }

    /// A packet of `len` bytes that was handed over to go by a port is about to be carried: returns
    /// the device by which it goes, or `None` to drop it. `takes`: whether a device can currently
    /// send it.
    fn embark(&mut self, _port: u16, _len: u32, _takes: impl FnMut(u32) -> bool) -> Option<u32> {
        None
    }

    /// That device has accepted or dropped it; not `sent`: no device accepted it.
    fn landed(&mut self, _sent: bool) {}
}
