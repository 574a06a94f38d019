// SPDX-License-Identifier: MIT OR Apache-2.0

//! A neighbour that pauses, as a test tells it to.

use anyhow::{Context as _, Result};
use weft_ktap::Namespace;
use weft_mechanisms::bfc::frame::{ETHERTYPE, Frame, GROUP, MAX_SIZE, Message, WORDS};

use crate::packets::{self, Receiver, Sender};

/// An Ethernet frame of bfc's type.
pub(crate) fn ethernet(to: [u8; 6], from: [u8; 6], payload: &[u8]) -> Vec<u8> {
    [&to[..], &from, &ETHERTYPE.to_be_bytes(), payload].concat()
}

/// The bytes of a frame.
pub(crate) fn encoded(frame: &Frame) -> Vec<u8> {
    let mut bytes = [0; MAX_SIZE];
    let size = frame.encode(&mut bytes);
    bytes[..size].to_vec()
}

/// Pauses these queues and resumes all others.
pub(crate) fn bitmap(queues: impl IntoIterator<Item = u16>) -> Message {
    let mut words = [0; WORDS];
    for queue in queues {
        words[usize::from(queue) / 64] |= 1 << (queue % 64);
    }
    Message::Bitmap(words)
}

/// One end of a link, which speaks to the other one.
pub(crate) struct Neighbour {
    sender: Sender,
    address: [u8; 6],
    pub(crate) sequence: u64,
    /// For how long what it says holds, in µs.
    pub(crate) hold: u32,
}

impl Neighbour {
    /// Speaks by a link of a namespace, from an address.
    pub(crate) fn new(namespace: &Namespace, index: u32, address: [u8; 6]) -> Result<Self> {
        Ok(Self {
            sender: Sender::open(namespace, index)?,
            address,
            sequence: 0,
            hold: 60_000_000,
        })
    }

    /// Says something.
    pub(crate) fn say(&mut self, message: Message) -> Result<()> {
        self.sequence += 1;
        let frame = Frame {
            sequence: self.sequence,
            hold: self.hold,
            message,
        };
        self.send(&ethernet(GROUP, self.address, &encoded(&frame)))
    }

    /// Sends any frame.
    pub(crate) fn send(&self, frame: &[u8]) -> Result<()> {
        self.sender.send_frame(frame).map(drop)
    }
}

/// The messages to a namespace.
pub(crate) struct Listener(Receiver);

/// A pause frame that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) frame: Frame,
    /// When, in ns of CLOCK_REALTIME.
    pub(crate) time: u64,
    /// Its sender.
    pub(crate) from: [u8; 6],
}

impl Listener {
    pub(crate) fn open(namespace: &Namespace) -> Result<Self> {
        Receiver::open_for(namespace, ETHERTYPE).map(Self)
    }

    /// All that was said since.
    pub(crate) fn heard(&self) -> Result<Vec<Told>> {
        let told = |frame: packets::Frame| {
            let bytes = frame.bytes();
            let payload = bytes.get(14..).context("a short frame")?;
            let decoded = Frame::decode(payload);
            Ok(Told {
                frame: decoded.map_err(|why| anyhow::anyhow!("{why:?}: {bytes:02x?}"))?,
                time: frame.time,
                from: *bytes[6..].first_chunk().context("a short frame")?,
            })
        };
        self.0.frames()?.into_iter().map(told).collect()
    }
}
