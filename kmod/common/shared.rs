// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! What the ports of one switch share, and the frames by which it speaks to its neighbours.
//!
//! Whoever carries it out has one value for each switch, under one lock, and calls
//! [`next_frame`](Shared::next_frame) whenever [`has_news`](Shared::has_news), and
//! [`tick`](Shared::tick) when [`next_event`](Shared::next_event) has come: never from where the news
//! came up, as a frame goes out through a port like any packet.

/// Bytes of the longest frame, without its Ethernet header.
pub const FRAME: usize = 256;

/// The state that the ports of a switch share. All times are in ns of one clock.
pub trait Shared: Sized {
    /// The EtherType of the frames.
    const ETHERTYPE: u16;

    /// The group address to which they are sent.
    const GROUP: [u8; 6];

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
    fn receive(&mut self, device: u32, from: [u8; 6], payload: Option<&[u8]>, now: u64) -> bool;

    /// Whether there is a frame to be sent at once.
    fn has_news(&self) -> bool;

    /// The time has come: what is due comes up.
    fn tick(&mut self, now: u64);

    /// Writes the next frame to be sent; the device by which it goes, and its length in bytes.
    fn next_frame(&mut self, now: u64, frame: &mut [u8; FRAME]) -> Option<(u32, usize)>;

    /// The frame that was last taken could not be sent by its device.
    fn unsent(&mut self, device: u32, now: u64);

    /// When `tick` is to be called, if at all.
    fn next_event(&self) -> Option<u64>;
}
