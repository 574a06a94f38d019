// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The packets of the Fastpass Control Protocol (§5.3): what an endpoint and the arbiter tell each other.
//!
//! In network byte order, as the payload of a datagram:
//!
//! | byte  | field    | what it is                                                                       |
//! |-------|----------|----------------------------------------------------------------------------------|
//! | 0–2   | protocol | `FCP`                                                                            |
//! | 3     | version  | 1                                                                                |
//! | 4     | kind     | 1 REQUEST, 2 ALLOC, 3 ACK of requests, 4 ACK of allocations, 5 RESET, 6 REPORT   |
//! | 5     | counts   | 0 to 64; of RESET 0; of REPORT the entries, 0 to 56                              |
//! | 6     | slots    | of ALLOC 0 to 64, otherwise 0                                                    |
//! | 7     |          | 0                                                                                |
//! | 8–9   | endpoint | to which the packet goes, or of which it comes                                   |
//! | 10–15 |          | 0                                                                                |
//! | 16–23 | word     | the endpoint's cookie in what it sends, and in RESET; ALLOC: the first timeslot  |
//! | 24–31 | check    | under the nonce, of all other bytes: see below                                   |
//! | 32–   | counts   | 6 bytes each: destination (2), total of timeslots modulo 2^32 (4)                |
//! | then  | slots    | 3 bytes each: timeslots after the first one, which of the counts, path           |
//!
//! The check is SipHash-2-4 of the bytes behind it, under a key of the nonce and of the same hash of the bytes
//! before it, under the nonce and `weft FCP`.
//!
//! RESET has the new nonce (8 bytes) in place of both, and is checked under the cookie.
//!
//! REPORT has the time at which it was true in ns of the endpoint's clock (8 bytes) in place of both, and entries of 10 bytes: another endpoint (2), a path (1), 0 (1),
//! and totals modulo 2^16: packets sent to it by this path (2), the latest number seen of it (2), and packets lost before that one (2). It is
//! not said again, as the next one says more, but answered by an ACK of requests: so its way is known to be good.
//!
//! A REQUEST says of destinations how many timeslots the endpoint has asked for so far in all, of none if it has only
//! taken up a nonce; its ACK repeats what the arbiter has heard of. An ALLOC says of destinations how many timeslots the arbiter has given in all, the slots that it
//! brings included; its ACK repeats that, whether the slots came or not.

use super::siphash;

/// Most destinations, and most slots, of a packet.
pub const MOST: usize = 64;

/// Most entries of a REPORT.
pub const ENTRIES: usize = 56;

/// Bytes of the longest packet.
pub const MAX_SIZE: usize = HEADER + MOST * COUNT + MOST * SLOT;

const HEADER: usize = 32;
const COUNT: usize = 6;
const SLOT: usize = 3;
const TIME: usize = 8;
const ENTRY: usize = 10;
const _: () = assert!(HEADER + TIME + ENTRIES * ENTRY <= MAX_SIZE);
const PROTOCOL: [u8; 4] = *b"FCP\x01";
/// The second half of the key; the first is the nonce.
const KEY: u64 = u64::from_be_bytes(*b"weft FCP");

/// What a packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An endpoint: so many timeslots have I asked for.
    Request,
    /// The arbiter: so many have I given, and these are some of them.
    Alloc,
    /// The arbiter: of so many requests do I know.
    AckRequest,
    /// An endpoint: of so many allocations do I know.
    AckAlloc,
    /// The arbiter: I know nothing of you, begin again with this nonce.
    Reset,
    /// An endpoint: so much have I sent by these paths, and so much has not come.
    Report,
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Self::Request => 1,
            Self::Alloc => 2,
            Self::AckRequest => 3,
            Self::AckAlloc => 4,
            Self::Reset => 5,
            Self::Report => 6,
        }
    }

    fn of(number: u8) -> Option<Self> {
        let all = [
            Self::Request,
            Self::Alloc,
            Self::AckRequest,
            Self::AckAlloc,
            Self::Reset,
            Self::Report,
        ];
        all.into_iter().find(|kind| kind.number() == number)
    }
}

/// A total of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The destination.
    pub destination: u16,
    /// Timeslots in all, modulo 2^32.
    pub total: u32,
}

/// A timeslot that is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Timeslots after the packet's first.
    pub offset: u8,
    /// Which of the packet's counts it is of.
    pub count: u8,
    /// The path to take.
    pub path: u8,
}

/// What an endpoint says of another one and a path, modulo 2^16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The other endpoint.
    pub peer: u16,
    /// The path.
    pub path: u8,
    /// Packets sent to it.
    pub sent: u16,
    /// The number of the latest packet that came of it.
    pub seen: u16,
    /// Packets lost before that one.
    pub lost: u16,
}

/// Why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Too short, or too long.
    Length,
    /// Another protocol, or another version of this one.
    Protocol,
    /// An unknown kind, or a field that has no such value.
    Field,
}

/// A packet's first fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What it says.
    pub kind: Kind,
    /// The endpoint.
    pub endpoint: u16,
    /// Its cookie, or the first timeslot.
    pub word: u64,
}

/// A packet that has the right form; whether it is genuine, [`is_under`](Self::is_under) says.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Its first fields.
    pub head: Head,
    check: u64,
    bytes: &'a [u8],
    counts: &'a [u8],
    slots: &'a [u8],
    entries: &'a [u8],
    /// The nonce, or the time.
    number: u64,
}

impl<'a> Frame<'a> {
    /// Reads a packet.
    ///
    /// # Errors
    ///
    /// [`Malformed`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (protocol, rest) = bytes.split_first_chunk().ok_or(Malformed::Length)?;
        let (&[kind, counts, slots, zero], rest) =
            rest.split_first_chunk().ok_or(Malformed::Length)?;
        let (&[high, low, zeroes @ ..], rest) =
            rest.split_first_chunk::<8>().ok_or(Malformed::Length)?;
        let (word, rest) = rest.split_first_chunk().ok_or(Malformed::Length)?;
        let (check, rest) = rest.split_first_chunk().ok_or(Malformed::Length)?;
        if *protocol != PROTOCOL {
            return Err(Malformed::Protocol);
        }
        let kind = Kind::of(kind).ok_or(Malformed::Field)?;
        let most = |kind| match kind {
            Kind::Reset => (0, 0),
            Kind::Report => (ENTRIES, 0),
            Kind::Alloc => (MOST, MOST),
            _ => (MOST, 0),
        };
        let (n, m) = (usize::from(counts), usize::from(slots));
        if zero != 0 || zeroes != [0; 6] || n > most(kind).0 || m > most(kind).1 {
            return Err(Malformed::Field);
        }
        let mut rest = rest;
        let mut number = 0;
        if matches!(kind, Kind::Reset | Kind::Report) {
            let (bytes, after) = rest.split_first_chunk().ok_or(Malformed::Length)?;
            number = u64::from_be_bytes(*bytes);
            rest = after;
        }
        let (counted, listed) = match kind {
            Kind::Report => (0, n),
            _ => (n, 0),
        };
        let mut part = |count: usize, size| {
            let (part, after) = rest.split_at_checked(count.wrapping_mul(size))?;
            rest = after;
            Some(part)
        };
        let counts = part(counted, COUNT).ok_or(Malformed::Length)?;
        let entries = part(listed, ENTRY).ok_or(Malformed::Length)?;
        let slots = part(m, SLOT).ok_or(Malformed::Length)?;
        if !rest.is_empty() {
            return Err(Malformed::Length);
        }
        let frame = Self {
            head: Head {
                kind,
                endpoint: u16::from_be_bytes([high, low]),
                word: u64::from_be_bytes(*word),
            },
            check: u64::from_be_bytes(*check),
            bytes,
            counts,
            slots,
            entries,
            number,
        };
        let is_reserved = |entry: &[u8]| entry.get(3).is_some_and(|zero| *zero != 0);
        if entries.chunks_exact(ENTRY).any(is_reserved) {
            return Err(Malformed::Field);
        }
        if frame.slots().any(|slot| usize::from(slot.count) >= n) {
            return Err(Malformed::Field);
        }
        Ok(frame)
    }

    /// Whether it was made by somebody who knows the nonce.
    pub fn is_under(&self, nonce: u64) -> bool {
        self.check == check(nonce, self.bytes)
    }

    /// What a RESET brings.
    pub fn nonce(&self) -> u64 {
        self.number
    }

    /// When a REPORT was true, in ns of its endpoint's clock.
    pub fn time(&self) -> u64 {
        self.number
    }

    /// What a REPORT says.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + use<'a> {
        let entries = self.entries.chunks_exact(ENTRY);
        entries.filter_map(|bytes| match *bytes {
            [p0, p1, path, _, s0, s1, n0, n1, l0, l1] => Some(Entry {
                peer: u16::from_be_bytes([p0, p1]),
                path,
                sent: u16::from_be_bytes([s0, s1]),
                seen: u16::from_be_bytes([n0, n1]),
                lost: u16::from_be_bytes([l0, l1]),
            }),
            _ => None,
        })
    }

    /// Its totals.
    pub fn counts(&self) -> impl Iterator<Item = Count> + use<'a> {
        let counts = self.counts.chunks_exact(COUNT);
        counts.filter_map(|bytes| match *bytes {
            [d0, d1, t0, t1, t2, t3] => Some(Count {
                destination: u16::from_be_bytes([d0, d1]),
                total: u32::from_be_bytes([t0, t1, t2, t3]),
            }),
            _ => None,
        })
    }

    /// The timeslots that it brings.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + use<'a> {
        let slots = self.slots.chunks_exact(SLOT);
        slots.filter_map(|bytes| match *bytes {
            [offset, count, path] => Some(Slot {
                offset,
                count,
                path,
            }),
            _ => None,
        })
    }
}

/// Writes a packet of these counts and slots, of which more than [`MOST`] are left out; returns how many bytes it takes.
pub fn encode(
    bytes: &mut [u8; MAX_SIZE],
    head: Head,
    nonce: u64,
    counts: impl Iterator<Item = Count>,
    slots: &[Slot],
) -> usize {
    let mut writer = Writer { bytes, at: HEADER };
    let mut n = 0_u8;
    for count in counts.take(MOST) {
        writer.put(&count.destination.to_be_bytes());
        writer.put(&count.total.to_be_bytes());
        n = n.wrapping_add(1);
    }
    let mut m = 0_u8;
    for slot in slots.iter().take(MOST) {
        writer.put(&[slot.offset, slot.count, slot.path]);
        m = m.wrapping_add(1);
    }
    writer.finish(head, n, m, nonce)
}

/// Writes a RESET of an endpoint that has sent this cookie; returns how many bytes it takes.
pub fn encode_reset(bytes: &mut [u8; MAX_SIZE], endpoint: u16, cookie: u64, nonce: u64) -> usize {
    let mut writer = Writer { bytes, at: HEADER };
    writer.put(&nonce.to_be_bytes());
    let head = Head {
        kind: Kind::Reset,
        endpoint,
        word: cookie,
    };
    writer.finish(head, 0, 0, cookie)
}

/// Writes a REPORT of what was true at `time`, of which more than [`ENTRIES`] are left out; returns how many bytes it takes.
pub fn encode_report(
    bytes: &mut [u8; MAX_SIZE],
    head: Head,
    nonce: u64,
    time: u64,
    entries: &[Entry],
) -> usize {
    let mut writer = Writer { bytes, at: HEADER };
    writer.put(&time.to_be_bytes());
    let mut n = 0_u8;
    for entry in entries.iter().take(ENTRIES) {
        writer.put(&entry.peer.to_be_bytes());
        writer.put(&[entry.path, 0]);
        for total in [entry.sent, entry.seen, entry.lost] {
            writer.put(&total.to_be_bytes());
        }
        n = n.wrapping_add(1);
    }
    writer.finish(head, n, 0, nonce)
}

struct Writer<'a> {
    bytes: &'a mut [u8; MAX_SIZE],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let free = self.bytes.iter_mut().skip(self.at);
        for (place, byte) in free.zip(bytes) {
            *place = *byte;
        }
        self.at = self.at.wrapping_add(bytes.len());
    }

    /// Writes what comes first; returns the length of all.
    fn finish(mut self, head: Head, counts: u8, slots: u8, nonce: u64) -> usize {
        let size = self.at.min(MAX_SIZE);
        self.at = 0;
        self.put(&PROTOCOL);
        self.put(&[head.kind.number(), counts, slots, 0]);
        self.put(&head.endpoint.to_be_bytes());
        self.put(&[0; 6]);
        self.put(&head.word.to_be_bytes());
        let whole = self.bytes.get(..size).unwrap_or_default();
        let check = check(nonce, whole);
        self.put(&check.to_be_bytes());
        size
    }
}

/// The check of a packet, whatever it has in that place.
fn check(nonce: u64, bytes: &[u8]) -> u64 {
    let before = bytes.get(..HEADER.wrapping_sub(8)).unwrap_or_default();
    let behind = bytes.get(HEADER..).unwrap_or_default();
    // The first one's hash is a key of the second's: both, and where one ends, are in the result.
    let head = siphash::hash([nonce, KEY], before);
    siphash::hash([nonce, head], behind)
}
