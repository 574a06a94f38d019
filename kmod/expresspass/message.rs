// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The messages between the two hosts of a flow: the payload of a UDP datagram.
//!
//! With its headers a message is a frame of the minimum size, which takes 84 bytes of an Ethernet
//! link, as in the paper. In network byte order:
//!
//! | byte  | field            | content                                                    |
//! |-------|------------------|------------------------------------------------------------|
//! | 0     | kind             | 1: request, 2: credit, 3: stop                             |
//! | 1     | magic            | 0x58                                                       |
//! | 2–3   | number           | of a credit; 0 otherwise                                   |
//! | 4–7   | source           | of the flow's data                                         |
//! | 8–11  | destination      | of the flow's data                                         |
//! | 12–13 | source port      | of the flow's data                                         |
//! | 14–15 | destination port | of the flow's data                                         |
//! | 16–17 | waiting          | of a request: frames that wait at the sender; 0 otherwise  |

/// Bytes of a message.
pub const SIZE: usize = 18;

/// The second byte of each message.
pub const MAGIC: u8 = 0x58;

/// A flow, in the direction of its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// IPv4 address of the sender.
    pub source: u32,
    /// IPv4 address of the receiver.
    pub destination: u32,
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
}

impl Flow {
    /// A hash. It is not keyed: a host's own flows alone could collide, and a chain of flows has a
    /// limit.
    #[inline]
    pub(super) fn hash(&self) -> u32 {
        // 2^64 / φ, odd.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let addresses = u64::from(self.source) << 32 | u64::from(self.destination);
        let ports = u64::from(self.source_port) << 16 | u64::from(self.destination_port);
        let product = u128::from(addresses ^ GOLDEN).wrapping_mul((ports ^ GOLDEN >> 1).into());
        let folded = (product >> 64) as u64 ^ product as u64;
        (folded ^ folded >> 32) as u32
    }
}

/// The contents of a message besides its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From the sender: frames wait for credits, at most 65,535 of them are counted.
    Request {
        /// Frames that wait.
        waiting: u16,
    },
    /// From the receiver: the sender may send a frame.
    Credit {
        /// The frame echoes it.
        number: u16,
    },
    /// From the sender: no more frames wait.
    Stop,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The flow.
    pub flow: Flow,
    /// The rest.
    pub kind: Kind,
}

impl Message {
    /// The bytes of the message.
    pub fn encode(&self) -> [u8; SIZE] {
        let (kind, number, waiting) = match self.kind {
            Kind::Request { waiting } => (1, 0, waiting),
            Kind::Credit { number } => (2, number, 0),
            Kind::Stop => (3, 0, 0),
        };
        let [n0, n1] = u16::to_be_bytes(number);
        let [w0, w1] = u16::to_be_bytes(waiting);
        let [s0, s1, s2, s3] = self.flow.source.to_be_bytes();
        let [d0, d1, d2, d3] = self.flow.destination.to_be_bytes();
        let [p0, p1] = self.flow.source_port.to_be_bytes();
        let [q0, q1] = self.flow.destination_port.to_be_bytes();
        [
            kind, MAGIC, n0, n1, s0, s1, s2, s3, d0, d1, d2, d3, p0, p1, q0, q1, w0, w1,
        ]
    }

    /// Reads a message; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; SIZE] = bytes.try_into().ok()?;
        let [kind, magic, n0, n1, s0, s1, s2, s3, d0, d1, d2, d3, p0, p1, q0, q1, w0, w1] = *bytes;
        let number = u16::from_be_bytes([n0, n1]);
        let waiting = u16::from_be_bytes([w0, w1]);
        let kind = match (kind, number, waiting) {
            (1, 0, waiting) => Kind::Request { waiting },
            (2, number, 0) => Kind::Credit { number },
            (3, 0, 0) => Kind::Stop,
            _ => return None,
        };
        (magic == MAGIC).then_some(Self {
            flow: Flow {
                source: u32::from_be_bytes([s0, s1, s2, s3]),
                destination: u32::from_be_bytes([d0, d1, d2, d3]),
                source_port: u16::from_be_bytes([p0, p1]),
                destination_port: u16::from_be_bytes([q0, q1]),
            },
            kind,
        })
    }
}
