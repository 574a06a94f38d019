// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Pause frames of priority flow control: IEEE 802.3, Annex 31D, and IEEE 802.1Q, clause 36.
//!
//! An Ethernet frame to the group address of MAC Control, which no bridge forwards. After the
//! Ethernet header follow, in network byte order:
//!
//! | byte  | field           | content                                           |
//! |-------|-----------------|---------------------------------------------------|
//! | 0–1   | opcode          | 0x0101                                            |
//! | 2     | –               | 0; ignored in a received frame                    |
//! | 3     | priority enable | bit n: the frame is about priority n              |
//! | 4–19  | time            | of each priority from 0 on, in pause quanta       |
//! | 20–45 | padding         | zeros, up to Ethernet's minimum                   |
//!
//! A pause quantum is 512 bit times of the link. A time of 0 resumes the priority.

/// MAC Control.
pub const ETHERTYPE: u16 = 0x8808;

/// The group address of MAC Control.
pub const GROUP: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];

/// The opcode of priority flow control.
pub const OPCODE: u16 = 0x0101;

/// Priorities of a link.
pub const PRIORITIES: usize = 8;

/// Bits that a link sends in one pause quantum.
pub const QUANTUM_BITS: u64 = 512;

/// Bytes of a frame after its Ethernet header: Ethernet's minimum.
pub const SIZE: usize = 46;

/// Bytes of its fields.
const FIELDS: usize = 20;

/// A frame: the time of each priority that it is about, in pause quanta.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// By priority; `None` if the frame is not about it.
    pub times: [Option<u16>; PRIORITIES],
}

/// The reason why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Too short.
    Length,
    /// Another operation of MAC Control.
    Opcode,
}

impl Frame {
    /// A frame about one priority.
    pub fn about(priority: u8, time: u16) -> Self {
        let mut frame = Self::default();
        if let Some(slot) = frame.times.get_mut(usize::from(priority)) {
            *slot = Some(time);
        }
        frame
    }

    /// The time of a priority; `None` if the frame is not about it.
    pub fn time(&self, priority: u8) -> Option<u16> {
        self.times.get(usize::from(priority)).copied().flatten()
    }

    /// The frame's bytes.
    pub fn encode(&self) -> [u8; SIZE] {
        let mut enable = 0_u8;
        for (bit, time) in self.times.iter().enumerate() {
            enable |= u8::from(time.is_some()).wrapping_shl(bit as u32);
        }
        let [high, low] = OPCODE.to_be_bytes();
        let head = [high, low, 0, enable];
        let times = self.times.iter().flat_map(|time| {
            let time = time.unwrap_or(0);
            time.to_be_bytes()
        });
        let mut bytes = [0; SIZE];
        for (byte, content) in bytes.iter_mut().zip(head.into_iter().chain(times)) {
            *byte = content;
        }
        bytes
    }

    /// Reads a frame: everything after the Ethernet header. The bytes after its fields are ignored.
    ///
    /// # Errors
    ///
    /// [`Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let fields = bytes.get(..FIELDS).ok_or(Malformed::Length)?;
        let (&[high, low, _, enable], times) =
            fields.split_first_chunk().ok_or(Malformed::Length)?;
        if u16::from_be_bytes([high, low]) != OPCODE {
            return Err(Malformed::Opcode);
        }
        let mut frame = Self::default();
        let slots = frame.times.iter_mut().zip(times.chunks_exact(2));
        for (bit, (slot, time)) in slots.enumerate() {
            if let Some(time) = time.first_chunk() {
                let is_enabled = enable.wrapping_shr(bit as u32) & 1 != 0;
                *slot = is_enabled.then_some(u16::from_be_bytes(*time));
            }
        }
        Ok(frame)
    }
}
