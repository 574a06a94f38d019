// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The messages of hosts and arbitrators: a flow asks, an arbitrator answers; a child reports, its
//! parent shares.
//!
//! Between a host and the arbitrator at its switch a message is an Ethernet frame to the nearest
//! bridge's group address, which no bridge forwards, with the second EtherType for local
//! experiments (IEEE 802, clause 9.2.3): a process that cannot send frames cannot forge one.
//! Between arbitrators it is a UDP datagram. In network byte order:
//!
//! | byte  | field    | ask               | answer                | end      | report         | share |
//! |-------|----------|-------------------|-----------------------|----------|----------------|-------|
//! | 0–2   | protocol | `PAS`             | `PAS`                 | `PAS`    | `PAS`          | `PAS` |
//! | 3     | version  | 1                 | 1                     | 1        | 1              | 1     |
//! | 4     | kind     | 1                 | 2                     | 3        | 4              | 5     |
//! | 5     | queue    | 0                 | from 1                | 0        | 0              | 0     |
//! | 6–7   |          | 0                 | 0                     | 0        | 0              | 0     |
//! | 8–15  | sequence | higher in each    | of the ask            | as asks  | higher in each | higher in each |
//! | 16–19 | link     | its number        | its number            | number   | number         | number |
//! | 20–23 | hold     | 0                 | µs, 1 to 60,000,000   | 0        | 0              | µs    |
//! | 24–31 | about    | the flow          | the flow              | the flow | the child      | the child |
//! | 32–39 | urgency  | any               | 0                     | 0        | 0              | 0     |
//! | 40–47 | rate     | the demand        | the reference rate    | 0        | the demand     | of the virtual link |
//! | 48–63 | to       | the receiver      | 0                     | 0        | 0              | 0     |
//!
//! Rates are in bytes/s, to 2^43. Nothing else is a message: a field that a kind does not use is 0,
//! and a message has exactly these bytes.
//!
//! **link** is [`PATH`] if a host asks its switch's arbitrator, for all links of its flow's path
//! except its own. **to** is the receiver's address, of IPv6; an IPv4 address is mapped (RFC 4291,
//! 2.5.5.2).
//!
//! **sequence** starts at the time of day in ns when its sender does, so it also rises across
//! restarts. A message is late or a copy, and is ignored, if its sequence is not higher than that
//! of the last message of the same sender about the same flow or child ([`Sequence`]). **hold** is
//! the time for which the message is valid, unless a later one renews it. The effect of a lost
//! message is thus only an older answer, and an arbitrator that is gone is noticed when its answers
//! have expired.
//!
//! A message does not show whether its sender is authorised: the receiver checks where it came
//! from.

use super::{Flow, Verdict, MAX_RATE, TOP};
use crate::common::shared::Frames;

/// Bytes of each message.
pub const SIZE: usize = 64;

/// The identification of messages between a host and its switch: Local Experimental EtherType 2,
/// Nearest Bridge group address.
pub const FRAMES: Frames = Frames {
    ethertype: 0x88b6,
    group: [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e],
};

/// The link in a host's question: all links on its flow's path.
pub const PATH: u32 = 0;

/// The longest hold time in µs: a minute.
pub const MAX_HOLD: u32 = 60_000_000;

const PROTOCOL: [u8; 4] = *b"PAS\x01";

const ASK: u8 = 1;
const ANSWER: u8 = 2;
const END: u8 = 3;
const REPORT: u8 = 4;
const SHARE: u8 = 5;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number; an answer repeats that of its question.
    pub sequence: u64,
    /// The link that it concerns.
    pub link: u32,
    /// The contents.
    pub says: Says,
}

/// The contents of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// A flow begins, or continues.
    Ask {
        /// Its request.
        flow: Flow,
        /// Its receiver's address.
        to: [u8; 16],
    },
    /// A flow's queue and reference rate.
    Answer {
        /// Its number.
        flow: u64,
        /// Its verdict.
        verdict: Verdict,
        /// The time for which it is valid, in µs, 1 to [`MAX_HOLD`].
        hold: u32,
    },
    /// A flow has ended.
    End(u64),
    /// The demand of a child's flows of the top queues, in bytes/s.
    Report {
        /// Its number.
        child: u64,
        /// To [`MAX_RATE`].
        demand: u64,
    },
    /// The rate of a child's virtual link, in bytes/s.
    Share {
        /// Its number.
        child: u64,
        /// To [`MAX_RATE`].
        rate: u64,
        /// The time for which it is valid, in µs, 1 to [`MAX_HOLD`].
        hold: u32,
    },
}

/// The reason why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Too short, or too long.
    Length,
    /// Another protocol, or another version of this one.
    Protocol,
    /// An unknown kind, or an invalid value of a field.
    Field,
}

/// The fields after the protocol, as they are on the wire.
#[derive(Clone, Copy, Default)]
struct Fields {
    kind: u8,
    queue: u8,
    hold: u32,
    about: u64,
    urgency: u64,
    rate: u64,
    to: [u8; 16],
}

impl Fields {
    /// Fields that the kind does not use are 0.
    fn of(says: &Says) -> Self {
        match *says {
            Says::Ask { flow, to } => Self {
                kind: ASK,
                to,
                about: flow.id,
                urgency: flow.urgency,
                rate: flow.demand,
                ..Self::default()
            },
            Says::Answer {
                flow,
                verdict,
                hold,
            } => Self {
                kind: ANSWER,
                queue: verdict.queue,
                hold,
                about: flow,
                rate: verdict.rate,
                ..Self::default()
            },
            Says::End(flow) => Self {
                kind: END,
                about: flow,
                ..Self::default()
            },
            Says::Report { child, demand } => Self {
                kind: REPORT,
                about: child,
                rate: demand,
                ..Self::default()
            },
            Says::Share { child, rate, hold } => Self {
                kind: SHARE,
                hold,
                about: child,
                rate,
                ..Self::default()
            },
        }
    }

    fn says(&self) -> Option<Says> {
        let &Self {
            kind,
            queue,
            hold,
            about,
            urgency,
            rate,
            to,
        } = self;
        let held = (1..=MAX_HOLD).contains(&hold);
        let rated = rate <= MAX_RATE && (kind == ASK || to == [0; 16]);
        match (kind, queue, hold, urgency) {
            (ASK, 0, 0, _) if rated => Some(Says::Ask {
                flow: Flow {
                    id: about,
                    urgency,
                    demand: rate,
                },
                to,
            }),
            (ANSWER, TOP.., _, 0) if held && rated => Some(Says::Answer {
                flow: about,
                verdict: Verdict { queue, rate },
                hold,
            }),
            (END, 0, 0, 0) if rated && rate == 0 => Some(Says::End(about)),
            (REPORT, 0, 0, 0) if rated => Some(Says::Report {
                child: about,
                demand: rate,
            }),
            (SHARE, 0, _, 0) if held && rated => Some(Says::Share {
                child: about,
                rate,
                hold,
            }),
            _ => None,
        }
    }
}

impl Message {
    /// Writes the message. A value out of range is written unchanged, and the result is then not a
    /// valid message.
    pub fn encode(&self) -> [u8; SIZE] {
        let fields = Fields::of(&self.says);
        let [p, a, s, version] = PROTOCOL;
        let head = [p, a, s, version, fields.kind, fields.queue, 0, 0];
        let pair = u64::from(self.link) << 32 | u64::from(fields.hold);
        let words = [
            u64::from_be_bytes(head),
            self.sequence,
            pair,
            fields.about,
            fields.urgency,
            fields.rate,
        ];
        let mut bytes = [0; SIZE];
        let content = words.into_iter().flat_map(u64::to_be_bytes);
        let content = content.chain(fields.to);
        for (place, byte) in bytes.iter_mut().zip(content) {
            *place = byte;
        }
        bytes
    }

    /// Reads the content of a frame or a datagram.
    ///
    /// # Errors
    ///
    /// [`Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let bytes: &[u8; SIZE] = bytes.try_into().map_err(|_| Malformed::Length)?;
        let mut words = [0; SIZE / 8 - 2];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            if let Some(bytes) = bytes.first_chunk() {
                *word = u64::from_be_bytes(*bytes);
            }
        }
        let [head, sequence, pair, about, urgency, rate] = words;
        let [p, a, s, version, kind, queue, zero, zeroes] = head.to_be_bytes();
        if [p, a, s, version] != PROTOCOL {
            return Err(Malformed::Protocol);
        }
        let fields = Fields {
            kind,
            queue,
            hold: pair as u32,
            about,
            urgency,
            rate,
            to: bytes.last_chunk().copied().unwrap_or_default(),
        };
        let says = fields.says().filter(|_| (zero, zeroes) == (0, 0));
        Ok(Self {
            sequence,
            link: (pair >> 32) as u32,
            says: says.ok_or(Malformed::Field)?,
        })
    }
}

/// The last sequence number heard from one sender about one flow, or one child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence(u64);

impl Sequence {
    /// Nothing heard.
    pub const NONE: Self = Self(0);

    /// Whether a message is new: later than all earlier ones.
    pub fn is_news(&mut self, sequence: u64) -> bool {
        let news = sequence > self.0;
        self.0 = self.0.max(sequence);
        news
    }
}
