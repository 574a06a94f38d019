// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Pause, resume and bitmap: a switch's messages to its upstream neighbour.
//!
//! An Ethernet frame to the nearest bridge's group address, which no bridge forwards (IEEE 802.1Q,
//! table 8-1). It has the first EtherType for local experiments (IEEE 802, clause 9.2.3), which
//! requires a protocol identifier and a version: the first word. After the Ethernet header follow,
//! in network byte order:
//!
//! | byte  | field    | pause, resume                | bitmap                                     |
//! |-------|----------|------------------------------|--------------------------------------------|
//! | 0–2   | protocol | `BFC`                        | `BFC`                                      |
//! | 3     | version  | 1                            | 1                                          |
//! | 4     | kind     | 1 pause, 2 resume            | 3                                          |
//! | 5     | words    | 0                            | 0 to 16                                    |
//! | 6–7   | queue    | 1 to 1,023                   | 0                                          |
//! | 8–15  | sequence | higher in each frame         | higher in each frame                       |
//! | 16–19 | hold     | µs, 1 to 60,000,000          | µs, 1 to 60,000,000                        |
//! | 20–   |          |                              | the words, 64 queues each; others are 0    |
//!
//! Bit b of word w pauses queue 64 w + b; bit 0 of word 0 is 0. A frame shorter than Ethernet's
//! minimum payload of 46 bytes may be padded to that with zeroes; otherwise nothing follows.
//!
//! **hold** is the time for which the frame is obeyed, unless a later frame renews it. **sequence**
//! starts at the time of day in ns when the sender's port is created, so that it also rises across
//! restarts, and is one higher in each frame of the port.

/// Local Experimental EtherType 1.
pub const ETHERTYPE: u16 = 0x88b5;

/// Nearest Bridge group address.
pub const GROUP: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];

/// Bytes of the longest frame after its Ethernet header.
pub const MAX_SIZE: usize = HEADER + 8 * WORDS;

/// Words of a bitmap of all queues.
pub const WORDS: usize = 16;

/// Largest number of a queue.
pub const MAX_QUEUE: u16 = 1023;

/// The longest hold time in µs: a minute.
pub const MAX_HOLD: u32 = 60_000_000;

const HEADER: usize = 20;
const PADDED: usize = 46;
const PROTOCOL: [u8; 4] = *b"BFC\x01";

const PAUSE: u8 = 1;
const RESUME: u8 = 2;
const BITMAP: u8 = 3;

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its number.
    pub sequence: u64,
    /// The time for which it is obeyed, in µs, 1 to [`MAX_HOLD`].
    pub hold: u32,
    /// Its message.
    pub message: Message,
}

/// The message of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Pause this queue, 1 to [`MAX_QUEUE`].
    Pause(u16),
    /// Resume this queue, 1 to [`MAX_QUEUE`].
    Resume(u16),
    /// Pause these queues and resume all others.
    Bitmap([u64; WORDS]),
}

/// The reason why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Too short, or too long.
    Length,
    /// Another protocol, or another version of this one.
    Protocol,
    /// An unknown kind, or an invalid value of a field.
    Field,
}

impl Frame {
    /// Writes the frame; returns how many bytes it takes.
    pub fn encode(&self, bytes: &mut [u8; MAX_SIZE]) -> usize {
        let (kind, queue, bitmap) = match self.message {
            Message::Pause(queue) => (PAUSE, queue, [0; WORDS]),
            Message::Resume(queue) => (RESUME, queue, [0; WORDS]),
            Message::Bitmap(words) => (BITMAP, 0, words),
        };
        let mut words = 0_u8;
        for (count, word) in (1..=WORDS as u8).zip(bitmap) {
            if word != 0 {
                words = count;
            }
        }
        let [p, r, o, t] = PROTOCOL;
        let [queue_high, queue_low] = queue.to_be_bytes();
        let fixed = [p, r, o, t, kind, words, queue_high, queue_low];
        let hold = self.hold.to_be_bytes();
        let chunks = [fixed, self.sequence.to_be_bytes()];
        let bitmap = bitmap.map(u64::to_be_bytes);
        let content = chunks.iter().flatten().chain(&hold);
        let content = content.chain(bitmap.iter().flatten());
        for (byte, content) in bytes.iter_mut().zip(content) {
            *byte = *content;
        }
        HEADER.wrapping_add(usize::from(words).wrapping_mul(8))
    }

    /// Reads a frame: everything after the Ethernet header.
    ///
    /// # Errors
    ///
    /// [`Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (protocol, rest) = bytes.split_first_chunk().ok_or(Malformed::Length)?;
        let (&[kind, words, q0, q1], rest) = rest.split_first_chunk().ok_or(Malformed::Length)?;
        let (sequence, rest) = rest.split_first_chunk().ok_or(Malformed::Length)?;
        let (hold, rest) = rest.split_first_chunk().ok_or(Malformed::Length)?;
        if *protocol != PROTOCOL {
            return Err(Malformed::Protocol);
        }
        let size = usize::from(words).wrapping_mul(8);
        let (bitmap, padding) = rest.split_at_checked(size).ok_or(Malformed::Length)?;
        let is_padding = bytes.len() == PADDED && padding.iter().all(|byte| *byte == 0);
        if !padding.is_empty() && !is_padding {
            return Err(Malformed::Length);
        }
        let queue = u16::from_be_bytes([q0, q1]);
        let message = match kind {
            PAUSE | RESUME if words == 0 && (1..=MAX_QUEUE).contains(&queue) => {
                if kind == PAUSE {
                    Message::Pause(queue)
                } else {
                    Message::Resume(queue)
                }
            }
            BITMAP if queue == 0 && usize::from(words) <= WORDS => {
                let mut words = [0; WORDS];
                for (word, bytes) in words.iter_mut().zip(bitmap.chunks_exact(8)) {
                    if let Some(bytes) = bytes.first_chunk() {
                        *word = u64::from_be_bytes(*bytes);
                    }
                }
                if words.first().is_some_and(|word| word & 1 != 0) {
                    return Err(Malformed::Field);
                }
                Message::Bitmap(words)
            }
            _ => return Err(Malformed::Field),
        };
        let hold = u32::from_be_bytes(*hold);
        if !(1..=MAX_HOLD).contains(&hold) {
            return Err(Malformed::Field);
        }
        Ok(Self {
            sequence: u64::from_be_bytes(*sequence),
            hold,
            message,
        })
    }
}
