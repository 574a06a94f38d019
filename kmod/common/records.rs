// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Hop records: each link on a packet's path writes down its queue, the bytes that it has sent and
//! the time, and the receiver sends all of them back.
//!
//! Y. Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, §4: a header
//! with `nHop`, `pathID` and, for each link, its rate B, `TS`, `txBytes` and `qlen`.
//!
//! # Record
//!
//! A link divides its bytes by its rate, so B needs no place: a queue is the time that it takes to
//! send it, and the bytes sent are the time that the link was busy. These times and the clock are
//! in a common unit of 2^shift ns, which the first link of the path chooses ([`shift_for`]): its
//! base round-trip time T has 1,024 to 2,047 units. A record has 6 bytes in network byte order:
//!
//! | bits  | field | values                                                                     |
//! |-------|-------|----------------------------------------------------------------------------|
//! | 47–32 | queue | `qlen / B`; 65,535 stands for longer ones as well (at least 32 T)          |
//! | 31–16 | sent  | `txBytes / B`, modulo 2^16                                                 |
//! | 15–0  | time  | when the packet left the queue, modulo 2^16                                |
//!
//! # Block
//!
//! A block of 38 bytes has a word of 16 bits and room for the records of [`HOPS`] links:
//!
//! | bits  | field | values                                                                     |
//! |-------|-------|----------------------------------------------------------------------------|
//! | 15    | echo  | 1: the receiver sends the records back, and links leave them alone         |
//! | 14–12 | hops  | records; 7 stands for 6 and links that found no room                       |
//! | 11–7  | shift | the unit is 2^shift ns, 0 to 27; those above are reserved                  |
//! | 6–0   | path  | a digest of the links ("pathID"), which is another one on another path     |
//!
//! | byte  | IPv4: the only option  | byte  | IPv6: destination options header               |
//! |-------|------------------------|-------|------------------------------------------------|
//! | 0     | type `0xde`            | 0     | next header                                    |
//! | 1     | length 40              | 1     | header length 5 (48 bytes)                     |
//! |       |                        | 2     | option type `0x3e`                             |
//! |       |                        | 3     | option length 38                               |
//! | 2–39  | the block              | 4–41  | the block                                      |
//! |       |                        | 42–47 | padding (PadN)                                 |
//!
//! Both types are set aside for experiments ([RFC 4727], sections 3.2 and 3.4), and differ from
//! those of the [tag](super::tag): the IPv4 option is of the class "debugging and measurement", and
//! the IPv6 option may change en route. A host sends the whole block, empty, so packets keep their
//! length on the way. It is as long as IPv4's options can be.
//!
//! [RFC 4727]: https://www.rfc-editor.org/rfc/rfc4727

use super::tag::{
    updated_checksum, with_lengths, IPV4_HEADER, IPV6_DESTINATION_OPTIONS, IPV6_HEADER,
};

/// The most links of a path that have room, the sending host's own included.
pub const HOPS: usize = 6;

/// Size of a record in bytes.
const RECORD: usize = 6;

/// Size of the block in bytes.
pub const BLOCK: usize = WORD + HOPS * RECORD;

/// Size of the block's word in bytes.
const WORD: usize = 2;

/// Type of the IPv4 option: copied flag, class 2 (debugging and measurement), number 30.
pub const IPV4_OPTION: u8 = 0xde;

/// Size of the IPv4 option in bytes.
pub const IPV4_SIZE: usize = 2 + BLOCK;

/// Type of the IPv6 destination option: skip if unknown, may change en route, number 30.
pub const IPV6_OPTION: u8 = 0x3e;

/// Size of the IPv6 destination options header in bytes.
pub const IPV6_SIZE: usize = 48;

/// Offset of the block in the IPv6 header.
const IPV6_BLOCK: usize = 4;

/// The option that fills the IPv6 header, of this many bytes.
const PAD_N: [u8; IPV6_SIZE - IPV6_BLOCK - BLOCK] = [1, 4, 0, 0, 0, 0];

/// The largest shift of a unit: no time is longer than 2^43 ns.
const MAX_SHIFT: u8 = 27;

/// The field of the shift.
const SHIFT_FIELD: u8 = 31;

/// The largest digest of a path.
const MAX_PATH: u8 = 127;

/// [`Head::hops`] of a path with more links than records.
const MORE: u8 = HOPS as u8 + 1;

/// Bits of a base round-trip time in units, less one.
const UNIT_BITS: u32 = 10;

/// The unit of links whose base round-trip time is `rtt` ns: its logarithm to base 2, in ns.
pub const fn shift_for(rtt: u64) -> u8 {
    let octave = 63_u32.saturating_sub(rtt.leading_zeros());
    let shift = octave.saturating_sub(UNIT_BITS);
    if shift > MAX_SHIFT as u32 {
        MAX_SHIFT
    } else {
        shift as u8
    }
}

/// The word of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Whether the records are on their way back.
    pub echo: bool,
    /// The number of records, or `MORE`.
    hops: u8,
    /// The unit is 2^shift ns.
    shift: u8,
    /// A digest of the links so far, 7 bits.
    path: u8,
}

impl Head {
    /// The number of records.
    #[inline(always)]
    pub const fn hops(self) -> usize {
        if self.hops < HOPS as u8 {
            self.hops as usize
        } else {
            HOPS
        }
    }

    /// The same of records that the receiver sends back.
    #[inline(always)]
    pub const fn returned(self) -> Self {
        Self { echo: true, ..self }
    }

    /// The word.
    #[inline(always)]
    pub const fn to_word(self) -> [u8; WORD] {
        let hops = (self.hops & MORE) as u16;
        let shift = (self.shift & SHIFT_FIELD) as u16;
        let path = (self.path & MAX_PATH) as u16;
        ((self.echo as u16) << 15 | hops << 12 | shift << 7 | path).to_be_bytes()
    }

    /// Reads the word.
    #[inline(always)]
    pub const fn from_word(word: [u8; WORD]) -> Self {
        let word = u16::from_be_bytes(word);
        Self {
            echo: word >> 15 != 0,
            hops: (word >> 12) as u8 & MORE,
            shift: (word >> 7) as u8 & SHIFT_FIELD,
            path: word as u8 & MAX_PATH,
        }
    }

    /// Extends the digest by a link's number. Paths that differ in one link have different digests
    /// if the two links' numbers differ modulo 128.
    #[inline]
    const fn through(self, link: u32) -> u8 {
        // An odd factor, so that each step is reversible.
        let turned = (self.path as u32).wrapping_mul(45).wrapping_add(1);
        (turned ^ link) as u8 & MAX_PATH
    }
}

/// A link when a packet leaves its queue; times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The time to send the bytes that stay behind.
    pub queue: u64,
    /// The time that it took to send all bytes so far, without the packet's.
    pub sent: u64,
    /// When the packet left.
    pub time: u64,
}

/// A link's record, in units of [`Head`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Record {
    queue: u16,
    sent: u16,
    time: u16,
}

impl Record {
    #[inline]
    fn new(departure: Departure, shift: u8) -> Self {
        let unit = |ns: u64| ns.wrapping_shr(shift.into());
        Self {
            queue: unit(departure.queue).min(u16::MAX.into()) as u16,
            sent: unit(departure.sent) as u16,
            time: unit(departure.time) as u16,
        }
    }

    #[inline]
    const fn to_bytes(self) -> [u8; RECORD] {
        let [a, b] = self.queue.to_be_bytes();
        let [c, d] = self.sent.to_be_bytes();
        let [e, f] = self.time.to_be_bytes();
        [a, b, c, d, e, f]
    }

    #[inline]
    const fn from_bytes([a, b, c, d, e, f]: [u8; RECORD]) -> Self {
        Self {
            queue: u16::from_be_bytes([a, b]),
            sent: u16::from_be_bytes([c, d]),
            time: u16::from_be_bytes([e, f]),
        }
    }
}

/// The records of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Records {
    head: Head,
    links: [Record; HOPS],
}

/// What a link did between two packets of a flow; times in ns, below 2^43.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The time between the two, at least 1.
    pub interval: u64,
    /// The time that the link needed to send what it sent meanwhile.
    pub sent: u64,
    /// The queue behind the first packet.
    pub before: u64,
    /// The queue behind the second packet.
    pub queue: u64,
}

impl Records {
    /// Reads a block.
    pub fn from_block(block: &[u8; BLOCK]) -> Self {
        let (word, rest) = block.split_first_chunk().unwrap_or((&[0; WORD], &[]));
        let mut links = [Record::default(); HOPS];
        for (link, bytes) in links.iter_mut().zip(rest.chunks_exact(RECORD)) {
            if let Some(bytes) = bytes.first_chunk() {
                *link = Record::from_bytes(*bytes);
            }
        }
        Self {
            head: Head::from_word(*word),
            links,
        }
    }

    /// The number of links and its unit.
    pub fn head(&self) -> Head {
        self.head
    }

    /// What the links of the path did since `before`, the records of an earlier packet, which
    /// arrived `elapsed` ns before these did. Nothing if that packet took another path, if a link's
    /// numbers have wrapped since (after 32 to 64 base round-trip times), or if the unit is
    /// reserved.
    ///
    /// The interval at a link is the one nearest to `elapsed`, from which it differs by less than
    /// 2^15 units, or 16 base round-trip times. A link at which the packets changed places is left
    /// out.
    pub fn since<'a>(
        &'a self,
        before: &'a Self,
        elapsed: u64,
    ) -> impl Iterator<Item = Change> + 'a {
        let Head {
            hops, shift, path, ..
        } = before.head;
        let is_same = (hops, shift, path) == (self.head.hops, self.head.shift, self.head.path);
        let hops = match is_same && shift <= MAX_SHIFT {
            true => self.head.hops(),
            false => 0,
        };
        let ns = move |units: u16| u64::from(units).wrapping_shl(shift.into());
        let elapsed = elapsed.wrapping_shr(shift.into());
        let links = self.links.iter().zip(before.links.iter()).take(hops);
        links.filter_map(move |(link, before)| {
            let interval = link.time.wrapping_sub(before.time);
            let later = interval.wrapping_sub(elapsed as u16) as i16;
            let whole = elapsed.checked_add_signed(later.into())?;
            if whole == 0 || whole != u64::from(interval) {
                return None;
            }
            Some(Change {
                interval: ns(interval),
                sent: ns(link.sent.wrapping_sub(before.sent)),
                before: ns(before.queue),
                queue: ns(link.queue),
            })
        })
    }
}

/// The block of a packet with these first bytes: its offset, and its word. `None` if it has none.
#[inline]
pub fn find(header: &[u8]) -> Option<(usize, Head)> {
    let first = *header.first()?;
    let at = match first {
        0x4f => {
            let option = header.get(IPV4_HEADER..)?.first_chunk::<2>()?;
            if *option != [IPV4_OPTION, IPV4_SIZE as u8] {
                return None;
            }
            IPV4_HEADER.wrapping_add(2)
        }
        _ if first >> 4 == 6 && *header.get(6)? == IPV6_DESTINATION_OPTIONS => {
            let option = header.get(IPV6_HEADER..)?.first_chunk::<IPV6_BLOCK>()?;
            if !is_ipv6_option(*option) {
                return None;
            }
            IPV6_HEADER.wrapping_add(IPV6_BLOCK)
        }
        _ => return None,
    };
    let block = header.get(at..)?.first_chunk::<BLOCK>()?;
    let word = block.first_chunk()?;
    Some((at, Head::from_word(*word)))
}

#[inline(always)]
const fn is_ipv6_option([_, length, kind, size]: [u8; IPV6_BLOCK]) -> bool {
    length as usize == IPV6_SIZE / 8 - 1 && kind == IPV6_OPTION && size as usize == BLOCK
}

/// Adds the record of the link with the number `link` to a block that [`find`] found at `at`, and
/// updates IPv4's checksum. A wrong checksum stays wrong. `rtt`: the base round-trip time in ns.
/// Returns whether there was room.
#[inline]
pub fn append(
    header: &mut [u8],
    (at, head): (usize, Head),
    link: u32,
    rtt: u64,
    departure: Departure,
) -> bool {
    let mut new = head;
    new.path = head.through(link);
    if head.hops == 0 {
        new.shift = shift_for(rtt);
    }
    let is_full = usize::from(head.hops) >= HOPS;
    new.hops = if is_full {
        MORE
    } else {
        head.hops.wrapping_add(1)
    };
    let mut changes = replace(header, at, new.to_word());
    if !is_full {
        let record = Record::new(departure, new.shift).to_bytes();
        let at = at
            .wrapping_add(WORD)
            .wrapping_add(head.hops().wrapping_mul(RECORD));
        changes = changes.wrapping_add(replace(header, at, record));
    }
    if at < IPV6_HEADER {
        if let Some(check) = header.get_mut(10..).and_then(<[u8]>::first_chunk_mut) {
            *check = updated_checksum(*check, changes);
        }
    }
    !is_full
}

/// Replaces bytes at an even offset; returns the change of the checksum's sum.
#[inline]
fn replace<const N: usize>(header: &mut [u8], at: usize, new: [u8; N]) -> u32 {
    match header.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<N>) {
        Some(bytes) => {
            let old = core::mem::replace(bytes, new);
            sum(&new).wrapping_add(sum(&old.map(|byte| !byte)))
        }
        None => 0,
    }
}

/// The sum of 16-bit words.
#[inline(always)]
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(2).filter_map(<[u8]>::first_chunk);
    words.fold(0, |sum, word| {
        sum.wrapping_add(u16::from_be_bytes(*word).into())
    })
}

/// An IPv4 option with this block.
#[inline(always)]
pub fn to_ipv4(block: [u8; BLOCK]) -> [u8; IPV4_SIZE] {
    let mut option = [0; IPV4_SIZE];
    if let Some((start, rest)) = option.split_first_chunk_mut() {
        *start = [IPV4_OPTION, IPV4_SIZE as u8];
        if let Some(rest) = rest.first_chunk_mut() {
            *rest = block;
        }
    }
    option
}

/// The block of an IPv4 option; `None` if it is another option.
#[inline(always)]
pub fn from_ipv4(option: &[u8; IPV4_SIZE]) -> Option<&[u8; BLOCK]> {
    match option.split_first_chunk::<2>() {
        Some(([IPV4_OPTION, size], block)) if usize::from(*size) == IPV4_SIZE => {
            block.first_chunk()
        }
        _ => None,
    }
}

/// An IPv6 destination options header with this block, before `next_header`.
#[inline(always)]
pub fn to_ipv6(block: [u8; BLOCK], next_header: u8) -> [u8; IPV6_SIZE] {
    const WORDS: u8 = (IPV6_SIZE / 8 - 1) as u8;
    let mut header = [0; IPV6_SIZE];
    if let Some((start, rest)) = header.split_first_chunk_mut() {
        *start = [next_header, WORDS, IPV6_OPTION, BLOCK as u8];
        if let Some((middle, rest)) = rest.split_first_chunk_mut() {
            *middle = block;
            if let Some(end) = rest.first_chunk_mut() {
                *end = PAD_N;
            }
        }
    }
    header
}

/// The block of a destination options header; `None` if its first option is another one. The next
/// header is the first byte.
#[inline(always)]
pub fn from_ipv6(header: &[u8; IPV6_SIZE]) -> Option<&[u8; BLOCK]> {
    let (start, rest) = header.split_first_chunk::<IPV6_BLOCK>()?;
    if !is_ipv6_option(*start) {
        return None;
    }
    rest.first_chunk()
}

/// The fixed part of the IPv4 header of a packet without options after adding `option`: header
/// length, total length and checksum. `None` if the packet has options, or would be longer than
/// 65,535 bytes.
#[inline(always)]
pub fn with_option(
    header: [u8; IPV4_HEADER],
    option: &[u8; IPV4_SIZE],
) -> Option<[u8; IPV4_HEADER]> {
    if header[0] != 0x45 {
        return None;
    }
    let length = u16::from_be_bytes([header[2], header[3]]).checked_add(IPV4_SIZE as u16)?;
    Some(with_lengths(header, 15, length, sum(option)))
}

/// The fixed part of the IPv4 header of a packet after removing `option`, its only one. `None` if
/// the header's lengths are not those of a packet with such an option.
#[inline(always)]
pub fn without_option(
    header: [u8; IPV4_HEADER],
    option: &[u8; IPV4_SIZE],
) -> Option<[u8; IPV4_HEADER]> {
    if header[0] != 0x4f {
        return None;
    }
    let length = u16::from_be_bytes([header[2], header[3]]).checked_sub(IPV4_SIZE as u16)?;
    if usize::from(length) < IPV4_HEADER {
        return None;
    }
    // The sum of the words' complements.
    const ONES: u32 = IPV4_SIZE as u32 / 2 * 0xffff;
    Some(with_lengths(
        header,
        5,
        length,
        ONES.wrapping_sub(sum(option)),
    ))
}
