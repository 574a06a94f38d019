// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The packets of the Fastpass Control Protocol (§5.3), which endpoints and the arbiter exchange.
//!
//! A packet is the payload of a UDP datagram, in network byte order:
//!
//! | byte  | field    | meaning                                                                          |
//! |-------|----------|----------------------------------------------------------------------------------|
//! | 0–2   | protocol | `FCP`                                                                            |
//! | 3     | version  | 3                                                                                |
//! | 4     | kind     | 1 REQUEST, 2 ALLOC, 3 ACK of requests, 4 ACK of allocations, 5 RESET, 6 REPORT   |
//! | 5     | counts   | 0 to 64; RESET: 0; REPORT: number of entries, 0 to 56                            |
//! | 6     | slots    | ALLOC: 0 to 64; otherwise 0                                                      |
//! | 7     | runs     | ALLOC: 0 to 38, with the slots at most 192 bytes; otherwise 0                    |
//! | 8–9   | endpoint | the endpoint that sends or receives the packet                                   |
//! | 10–11 |          | 0                                                                                |
//! | 12–19 | word     | ALLOC: the first timeslot; otherwise the endpoint's cookie                       |
//! | 20–23 | proof    | keyed hash of bytes 0 to 19                                                      |
//! | 24–31 | check    | keyed hash of bytes 0 to 19 and of the body                                      |
//! | 32–   | counts   | 6 bytes each: destination (2), total of timeslots modulo 2^32 (4)                |
//! | then  | slots    | 3 bytes each: timeslots after the first one, index of a count, path              |
//! | then  | runs     | 5 bytes each: a slot, timeslots from each to the next, number of further ones    |
//!
//! # Authentication
//!
//! The key is the session's nonce (RESET: the endpoint's cookie). `h` is the SipHash-2-4 of bytes 0
//! to 19 under the key (nonce, `weft FCP`). The proof is the upper half of `h`. The check is the
//! SipHash-2-4 of the body under the key (nonce, `h`).
//!
//! The proof makes forged packets cheap to reject: it takes one hash of 20 bytes, however long the
//! packet is. Only a packet with a valid proof has its body read and its check computed. A sender
//! who does not know the nonce guesses a proof once in 2^32 packets, and then still fails the
//! check.
//!
//! # Bodies
//!
//! RESET carries the new nonce (8 bytes) in place of counts and slots.
//!
//! REPORT carries a time in ns of the endpoint's clock (8 bytes), then entries of 10 bytes: another
//! endpoint (2), a path (1), 0 (1), and three totals modulo 2^16: packets sent to that endpoint by
//! that path, the latest number seen from it, and packets lost before that number. A lost REPORT is
//! not retransmitted, because the next one supersedes it. The arbiter answers it with an ACK of
//! requests, which tells the endpoint that its path works.
//!
//! REQUEST carries, for each destination, how many timeslots the endpoint has requested in total.
//! Its ACK repeats the totals that the arbiter knows. ALLOC carries, for each destination, how many
//! timeslots the arbiter has given in total, including those in the packet. Its ACK repeats these
//! totals.
//!
//! With classes of urgency, a destination is a stream. REQUEST and ALLOC also carry
//! acknowledgements, as counts with the highest bit of the destination set, so few datagrams carry
//! acknowledgements alone.
//!
//! A long flow has timeslots at equal distances: all of them on an idle rack, each fourth one if
//! four flows share a link. A run names them in 5 bytes.

use super::siphash;

/// Most destinations, and most slots, of a packet. Runs take the place of slots.
pub const MOST: usize = 64;

/// Most timeslots of a packet: none is farther from the first than a byte can say.
pub const MOST_TIMESLOTS: usize = 256;

/// The bit of a count's destination that makes it an acknowledgement of the other end's totals.
/// Only in REQUEST and ALLOC, after the packet's own counts.
pub const ACK: u16 = 1 << 15;

/// Most entries of a REPORT.
pub const ENTRIES: usize = 56;

/// Bytes of the longest packet.
pub const MAX_SIZE: usize = HEADER + MOST * COUNT + TIMESLOTS;

const HEADER: usize = 32;
const COUNT: usize = 6;
const SLOT: usize = 3;
const RUN: usize = 5;
/// The most bytes of slots and runs together.
pub const TIMESLOTS: usize = MOST * SLOT;
/// The nonce of a RESET, or the time of a REPORT.
const NUMBER: usize = 8;
const ENTRY: usize = 10;
const _: () = assert!(HEADER + NUMBER + ENTRIES * ENTRY <= MAX_SIZE);
/// Bytes that the proof covers: everything before it.
const PROVED: usize = 20;
const PROTOCOL: [u8; 4] = *b"FCP\x03";
/// The second half of the key; the first is the nonce.
const KEY: u64 = u64::from_be_bytes(*b"weft FCP");

/// The kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From an endpoint: the totals of requested timeslots.
    Request,
    /// From the arbiter: the totals of given timeslots, and some of these timeslots.
    Alloc,
    /// From the arbiter: the totals of requests that it knows.
    AckRequest,
    /// From an endpoint: the totals of allocations that it knows.
    AckAlloc,
    /// From the arbiter: there is no session; begin one with this nonce.
    Reset,
    /// From an endpoint: the packets sent by each path, and the packets that did not arrive.
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
    /// The total number of timeslots, modulo 2^32.
    pub total: u32,
}

/// An allocated timeslot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Timeslots after the packet's first.
    pub offset: u8,
    /// The index of its count in the packet.
    pub count: u8,
    /// The path to take.
    pub path: u8,
}

/// An allocated timeslot, and further ones at equal distances by the same path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The first of them.
    pub first: Slot,
    /// Timeslots from each to the next; 0 if there are no further ones.
    pub step: u8,
    /// The number of further ones.
    pub further: u8,
}

impl From<Slot> for Run {
    fn from(first: Slot) -> Self {
        Self {
            first,
            step: 0,
            further: 0,
        }
    }
}

impl Run {
    /// The run with a later timeslot, if that continues it: a second timeslot always does.
    #[inline]
    pub fn extended(self, slot: Slot) -> Option<Self> {
        let Self { first, further, .. } = self;
        if (slot.count, slot.path) != (first.count, first.path) {
            return None;
        }
        let distance = slot.offset.saturating_sub(first.offset);
        let step = match further {
            0 => distance,
            _ => self.step,
        };
        let further = further.wrapping_add(1);
        let continues = u32::from(step).wrapping_mul(further.into()) == u32::from(distance);
        (step > 0 && continues).then_some(Self {
            first,
            step,
            further,
        })
    }

    /// Its bytes in a packet.
    #[inline]
    pub fn size(self) -> usize {
        match self.further {
            0 => SLOT,
            _ => RUN,
        }
    }

    /// Its timeslots.
    fn slots(self) -> impl Iterator<Item = Slot> {
        (0..=self.further).map(move |index| Slot {
            offset: (self.first.offset).wrapping_add(self.step.wrapping_mul(index)),
            ..self.first
        })
    }

    /// Whether it has several timeslots, in order, and a byte can say how far the last one is from
    /// the packet's first.
    fn is_valid(self) -> bool {
        let length = u32::from(self.step).wrapping_mul(self.further.into());
        let last = u32::from(self.first.offset).wrapping_add(length);
        self.step > 0 && self.further > 0 && last < MOST_TIMESLOTS as u32
    }
}

/// An endpoint's report on another endpoint and a path, modulo 2^16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The other endpoint.
    pub peer: u16,
    /// The path.
    pub path: u8,
    /// Packets sent to it.
    pub sent: u16,
    /// The number of the latest packet that arrived from it.
    pub seen: u16,
    /// Packets lost before that one.
    pub lost: u16,
}

/// The reason why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Too short, or too long.
    Length,
    /// Another protocol, or another version of this one.
    Protocol,
    /// An unknown kind, or an invalid value of a field.
    Field,
}

/// A packet's first fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The kind of the packet.
    pub kind: Kind,
    /// The endpoint.
    pub endpoint: u16,
    /// Its cookie, or the first timeslot.
    pub word: u64,
}

/// Bytes that are hashed to compute a packet's proof.
pub const PROOF_COST: usize = PROVED;

/// A packet whose header has the right form and fits its length. Its body has not been read.
///
/// Reading it takes the same few steps for all inputs.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// Its first fields.
    pub head: Head,
    proof: u32,
    check: u64,
    proved: &'a [u8],
    body: &'a [u8],
    counts: usize,
    slots: usize,
}

/// Shows that a packet's proof is valid; needed to compute its check.
#[derive(Clone, Copy)]
pub struct Proved {
    nonce: u64,
    hash: u64,
}

impl<'a> Header<'a> {
    /// Reads the header of a packet.
    ///
    /// # Errors
    ///
    /// [`Malformed`].
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, body) = bytes
            .split_first_chunk::<HEADER>()
            .ok_or(Malformed::Length)?;
        let (proved, _) = header
            .split_first_chunk::<PROVED>()
            .ok_or(Malformed::Length)?;
        let &[p0, p1, p2, p3, kind, counts, slots, runs, e0, e1, z0, z1, word @ ..] = proved;
        let (_, checks) = header.split_at_checked(PROVED).ok_or(Malformed::Length)?;
        let (proof, check) = checks.split_first_chunk().ok_or(Malformed::Length)?;
        let check = check.first_chunk().ok_or(Malformed::Length)?;
        if [p0, p1, p2, p3] != PROTOCOL {
            return Err(Malformed::Protocol);
        }
        let kind = Kind::of(kind).ok_or(Malformed::Field)?;
        let [counts, slots, runs] = [counts, slots, runs].map(usize::from);
        let most = match kind {
            Kind::Reset => (0, 0),
            Kind::Report => (ENTRIES, 0),
            Kind::Alloc => (MOST, TIMESLOTS),
            _ => (MOST, 0),
        };
        // Of a byte each: nothing overflows.
        let timeslots = (slots.wrapping_mul(SLOT)).wrapping_add(runs.wrapping_mul(RUN));
        if [z0, z1] != [0; 2] || counts > most.0 || timeslots > most.1 {
            return Err(Malformed::Field);
        }
        let length = match kind {
            Kind::Reset => NUMBER,
            Kind::Report => NUMBER.wrapping_add(counts.wrapping_mul(ENTRY)),
            _ => counts.wrapping_mul(COUNT).wrapping_add(timeslots),
        };
        if body.len() != length {
            return Err(Malformed::Length);
        }
        Ok(Self {
            head: Head {
                kind,
                endpoint: u16::from_be_bytes([e0, e1]),
                word: u64::from_be_bytes(word),
            },
            proof: u32::from_be_bytes(*proof),
            check: u64::from_be_bytes(*check),
            proved,
            body,
            counts,
            slots,
        })
    }

    /// Whether the sender of the header knew the nonce. Hashes [`PROOF_COST`] bytes.
    pub fn prove(&self, nonce: u64) -> Option<Proved> {
        let hash = siphash::hash([nonce, KEY], self.proved);
        (proof(hash) == self.proof).then_some(Proved { nonce, hash })
    }

    /// Whether the sender of the whole packet knew the nonce. Hashes
    /// [`check_cost`](Self::check_cost) bytes.
    pub fn is_checked(&self, Proved { nonce, hash }: Proved) -> bool {
        siphash::hash([nonce, hash], self.body) == self.check
    }

    /// Bytes that are hashed to compute the check.
    pub fn check_cost(&self) -> usize {
        self.body.len()
    }

    /// Reads the body.
    ///
    /// # Errors
    ///
    /// [`Malformed::Field`].
    pub fn decode(self) -> Result<Frame<'a>, Malformed> {
        let (mut number, mut rest) = (0, self.body);
        let is_report = self.head.kind == Kind::Report;
        if is_report || self.head.kind == Kind::Reset {
            let (bytes, after) = rest.split_first_chunk().ok_or(Malformed::Length)?;
            number = u64::from_be_bytes(*bytes);
            rest = after;
        }
        let (entries, counted) = match is_report {
            true => (rest, &[][..]),
            false => (&[][..], rest),
        };
        let counts = match is_report {
            true => 0,
            false => self.counts.wrapping_mul(COUNT),
        };
        let (counts, rest) = counted.split_at_checked(counts).ok_or(Malformed::Length)?;
        let slots = self.slots.wrapping_mul(SLOT);
        let (slots, runs) = rest.split_at_checked(slots).ok_or(Malformed::Length)?;
        let frame = Frame {
            head: self.head,
            header: self,
            counts,
            slots,
            runs,
            entries,
            number,
        };
        let is_reserved = |entry: &[u8]| entry.get(3).is_some_and(|zero| *zero != 0);
        if entries.chunks_exact(ENTRY).any(is_reserved) {
            return Err(Malformed::Field);
        }
        let timeslots = frame
            .runs()
            .map(|run| usize::from(run.further).wrapping_add(1));
        if timeslots.fold(0, usize::wrapping_add) > MOST_TIMESLOTS
            || !frame.longer().all(Run::is_valid)
            || !frame
                .runs()
                .all(|run| usize::from(run.first.count) < self.counts)
        {
            return Err(Malformed::Field);
        }
        Ok(frame)
    }
}

/// A packet in the right form; [`is_under`](Self::is_under) tells whether it is genuine.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Its first fields.
    pub head: Head,
    header: Header<'a>,
    counts: &'a [u8],
    slots: &'a [u8],
    runs: &'a [u8],
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
        Header::read(bytes)?.decode()
    }

    /// Whether its sender knows the nonce.
    pub fn is_under(&self, nonce: u64) -> bool {
        let header = &self.header;
        header
            .prove(nonce)
            .is_some_and(|proved| header.is_checked(proved))
    }

    /// The nonce of a RESET.
    pub fn nonce(&self) -> u64 {
        self.number
    }

    /// The time of a REPORT, in ns of its endpoint's clock.
    pub fn time(&self) -> u64 {
        self.number
    }

    /// The entries of a REPORT.
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

    /// Its timeslots, at most [`MOST_TIMESLOTS`]; they need not be in order.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + use<'a> {
        self.runs().flat_map(Run::slots)
    }

    /// Its timeslots as runs. Runs of a single timeslot come first.
    pub fn runs(&self) -> impl Iterator<Item = Run> + use<'a> {
        self.singles().map(Run::from).chain(self.longer())
    }

    /// Its timeslots that are not in runs.
    fn singles(&self) -> impl Iterator<Item = Slot> + use<'a> {
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

    /// Its runs of several timeslots.
    fn longer(&self) -> impl Iterator<Item = Run> + use<'a> {
        let runs = self.runs.chunks_exact(RUN);
        runs.filter_map(|bytes| match *bytes {
            [offset, count, path, step, further] => Some(Run {
                first: Slot {
                    offset,
                    count,
                    path,
                },
                step,
                further,
            }),
            _ => None,
        })
    }
}

/// Writes a packet of these counts and timeslots, omitting what is beyond [`MOST`] or does not fit;
/// returns its length.
pub fn encode(
    bytes: &mut [u8; MAX_SIZE],
    head: Head,
    nonce: u64,
    counts: impl Iterator<Item = Count>,
    runs: &[Run],
) -> usize {
    let mut writer = Writer { bytes, at: HEADER };
    let mut n = 0_u8;
    for count in counts.take(MOST) {
        writer.put(&count.destination.to_be_bytes());
        writer.put(&count.total.to_be_bytes());
        n = n.wrapping_add(1);
    }
    let [mut singles, mut longer] = [0_u8; 2];
    let mut left = TIMESLOTS;
    let mut fits = |size: usize| {
        let rest = left.checked_sub(size);
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    for Run { first, further, .. } in runs {
        if *further == 0 && fits(SLOT) {
            writer.put(&[first.offset, first.count, first.path]);
            singles = singles.wrapping_add(1);
        }
    }
    for Run {
        first,
        step,
        further,
    } in runs
    {
        if *further > 0 && fits(RUN) {
            writer.put(&[first.offset, first.count, first.path, *step, *further]);
            longer = longer.wrapping_add(1);
        }
    }
    writer.finish(head, [n, singles, longer], nonce)
}

/// Writes a RESET for an endpoint that has sent this cookie; returns its length.
pub fn encode_reset(bytes: &mut [u8; MAX_SIZE], endpoint: u16, cookie: u64, nonce: u64) -> usize {
    let mut writer = Writer { bytes, at: HEADER };
    writer.put(&nonce.to_be_bytes());
    let head = Head {
        kind: Kind::Reset,
        endpoint,
        word: cookie,
    };
    writer.finish(head, [0; 3], cookie)
}

/// Writes a REPORT of the state at `time`, omitting entries beyond [`ENTRIES`]; returns its length.
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
    writer.finish(head, [n, 0, 0], nonce)
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

    /// Writes the header; returns the total length.
    fn finish(mut self, head: Head, [counts, slots, runs]: [u8; 3], nonce: u64) -> usize {
        let size = self.at.min(MAX_SIZE);
        self.at = 0;
        self.put(&PROTOCOL);
        self.put(&[head.kind.number(), counts, slots, runs]);
        self.put(&head.endpoint.to_be_bytes());
        self.put(&[0; 2]);
        self.put(&head.word.to_be_bytes());
        let whole = self.bytes.get(..size).unwrap_or_default();
        let (proved, _) = whole.split_at_checked(PROVED).unwrap_or_default();
        let (_, body) = whole.split_at_checked(HEADER).unwrap_or_default();
        let hash = siphash::hash([nonce, KEY], proved);
        let check = siphash::hash([nonce, hash], body);
        self.put(&proof(hash).to_be_bytes());
        self.put(&check.to_be_bytes());
        size
    }
}

/// The part of a header's hash that is in its packet.
fn proof(hash: u64) -> u32 {
    (hash >> 32) as u32
}
