// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The tag: 8 bytes at layer 3 by which a packet carries its rank and its upstream queue.
//!
//! | byte | IPv4: option 30 with the copied flag | IPv6: destination options header   |
//! |------|--------------------------------------|------------------------------------|
//! | 0    | type `0x9e`                          | next header                        |
//! | 1    | length 8                             | header length 0 (8 bytes)          |
//! | 2    | reserved, 0                          | option type `0x1e`                 |
//! | 3    | reserved, 0                          | option length 4                    |
//! | 4–7  | the word                             | the word                           |
//!
//! Both types are set aside for experiments ([RFC 4727], sections 3.2 and 3.4). Nodes that do not
//! know them skip them; the copied flag makes a router repeat the option in each fragment. The tag
//! is the first option, or the extension header right after the IPv6 header. The word, in network
//! byte order, has one of two layouts:
//!
//! | bits  | field, layout 0 | values                                                     |
//! |-------|-----------------|------------------------------------------------------------|
//! | 31    | layout          | 0                                                          |
//! | 30–23 | upstream queue  | 1 to 255; 0 is none                                        |
//! | 22–0  | rank code       | 0 to 6,815,743; those above are reserved                   |
//!
//! | bits  | field, layout 1 | values                                                     |
//! |-------|-----------------|------------------------------------------------------------|
//! | 31    | layout          | 1                                                          |
//! | 30–21 | upstream queue  | 256 to 1,023; those below are reserved                     |
//! | 20–0  | rank code       | 0 to 1,835,007; those above are reserved                   |
//!
//! A rank is 32 bits wide, and IPv6 leaves the word 23 of them, or 21. Only the order of ranks
//! matters, so the code is logarithmic and preserves it. In layout 0, below 2^22 it is the rank
//! itself, and each octave above (2^22 to 2^23, …, 2^31 to 2^32) has 2^18 steps. A rank in bytes is
//! thus exact up to 4 MiB and beyond that at most 4 millionths too low. In layout 1 it is exact up
//! to 1 MiB, and beyond that, with 2^16 steps per octave, at most 16 millionths too low.
//!
//! Schemes whose switches measure their links carry utilisations in place of the rank, see
//! [`stamp`](super::stamp).
//!
//! [RFC 4727]: https://www.rfc-editor.org/rfc/rfc4727

/// Size of the tag in bytes, in IPv4 as in IPv6.
pub const SIZE: usize = 8;

/// Size of the word in bytes.
pub const WORD: usize = 4;

/// Type of the IPv4 option: copied flag, class 0, number 30.
pub const IPV4_OPTION: u8 = 0x9e;

/// Type of the IPv6 destination option: skip if unknown, constant en route as far as security
/// headers are concerned, number 30.
pub const IPV6_OPTION: u8 = 0x1e;

/// The IPv6 next-header number of a destination options header.
pub const IPV6_DESTINATION_OPTIONS: u8 = 60;

/// Size in bytes of an IPv4 header without options.
pub const IPV4_HEADER: usize = 20;

/// Size in bytes of the IPv6 header.
pub const IPV6_HEADER: usize = 40;

/// Most bytes of options that an IPv4 header can have.
pub const IPV4_OPTIONS_MAX: usize = 40;

/// Largest rank code of layout 0 that stands for a rank.
pub const MAX_CODE: u32 = max_code(EXACT_BITS);

/// Largest number of an upstream queue.
pub const MAX_UPSTREAM_QUEUE: u16 = 1023;

/// Layout 0: ranks of up to this many bits are their own code.
const EXACT_BITS: u32 = 22;
const QUEUE_SHIFT: u32 = 23;
/// The largest number of an upstream queue.
const MAX_QUEUE: u16 = 255;

/// Layout 1.
const LAYOUT_1: u32 = 1 << 31;
const EXACT_BITS_1: u32 = 20;
const QUEUE_SHIFT_1: u32 = 21;

/// An octave above the exact ranks has 2^(exact bits - this) steps.
const STEP: u32 = 4;

/// The contents of a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// How urgent the packet is; 0 is the most urgent. On the wire it is encoded by
    /// [`code_of_rank`].
    pub rank: u32,
    /// The queue of the previous hop in which the packet waited, 1 to [`MAX_UPSTREAM_QUEUE`]; 0 for
    /// none.
    pub upstream_queue: u16,
}

/// The reason why bytes with the type of a tag are not a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A header, an option or the tag has an impossible length, or reaches beyond the packet.
    Length,
    /// A reserved queue number, rank code or byte.
    Reserved,
    /// A second tag, or one that is not the first option.
    Duplicate,
}

/// The code of a rank in layout 0. It preserves order: the code of a smaller rank is never larger.
#[inline(always)]
pub const fn code_of_rank(rank: u32) -> u32 {
    code(rank, EXACT_BITS)
}

/// The smallest rank that has this code in layout 0; `None` for a reserved code.
#[inline(always)]
pub const fn rank_of_code(code: u32) -> Option<u32> {
    rank(code, EXACT_BITS)
}

const fn max_code(exact_bits: u32) -> u32 {
    let octaves = 32_u32.wrapping_sub(exact_bits);
    let above = octaves.wrapping_shl(exact_bits.wrapping_sub(STEP));
    1_u32
        .wrapping_shl(exact_bits)
        .wrapping_sub(1)
        .wrapping_add(above)
}

#[inline(always)]
const fn code(rank: u32, exact_bits: u32) -> u32 {
    let exact = 1_u32.wrapping_shl(exact_bits);
    if rank < exact {
        return rank;
    }
    let step_bits = exact_bits.wrapping_sub(STEP);
    // From `exact_bits` to 31.
    let octave = 31_u32.wrapping_sub(rank.leading_zeros());
    let step = rank.wrapping_shr(octave.wrapping_sub(step_bits));
    let step = step & 1_u32.wrapping_shl(step_bits).wrapping_sub(1);
    let octaves = octave.wrapping_sub(exact_bits).wrapping_shl(step_bits);
    exact.wrapping_add(octaves).wrapping_add(step)
}

#[inline(always)]
const fn rank(code: u32, exact_bits: u32) -> Option<u32> {
    let exact = 1_u32.wrapping_shl(exact_bits);
    if code < exact {
        return Some(code);
    }
    if code > max_code(exact_bits) {
        return None;
    }
    let step_bits = exact_bits.wrapping_sub(STEP);
    let steps = 1_u32.wrapping_shl(step_bits);
    let above = code.wrapping_sub(exact);
    let mantissa = steps | (above & steps.wrapping_sub(1));
    Some(mantissa.wrapping_shl(above.wrapping_shr(step_bits).wrapping_add(STEP)))
}

impl Tag {
    /// The word, in layout 0 if that has room for the queue.
    #[inline(always)]
    pub const fn to_word(self) -> [u8; 4] {
        let queue = self.upstream_queue as u32;
        let word = if self.upstream_queue <= MAX_QUEUE {
            queue << QUEUE_SHIFT | code(self.rank, EXACT_BITS)
        } else {
            let queue = queue & MAX_UPSTREAM_QUEUE as u32;
            LAYOUT_1 | queue << QUEUE_SHIFT_1 | code(self.rank, EXACT_BITS_1)
        };
        word.to_be_bytes()
    }

    /// Reads the word.
    ///
    /// # Errors
    ///
    /// [`Malformed::Reserved`] for a reserved queue number or rank code.
    #[inline(always)]
    pub const fn from_word(word: [u8; 4]) -> Result<Self, Malformed> {
        let word = u32::from_be_bytes(word);
        let (upstream_queue, rank) = if word & LAYOUT_1 == 0 {
            let code = word & ((1 << QUEUE_SHIFT) - 1);
            ((word >> QUEUE_SHIFT) as u16, rank(code, EXACT_BITS))
        } else {
            let code = word & ((1 << QUEUE_SHIFT_1) - 1);
            let queue = (word & !LAYOUT_1) >> QUEUE_SHIFT_1;
            if queue <= MAX_QUEUE as u32 {
                return Err(Malformed::Reserved);
            }
            (queue as u16, rank(code, EXACT_BITS_1))
        };
        match rank {
            Some(rank) => Ok(Self {
                rank,
                upstream_queue,
            }),
            None => Err(Malformed::Reserved),
        }
    }

    /// The tag as the receiver reads it: the rank loses the bits that its code cannot hold.
    #[inline(always)]
    pub const fn on_the_wire(self) -> Self {
        match Self::from_word(self.to_word()) {
            Ok(tag) => tag,
            Err(_) => self,
        }
    }

    /// The tag as an IPv4 option.
    #[inline(always)]
    pub const fn to_ipv4(self) -> [u8; SIZE] {
        let [a, b, c, d] = self.to_word();
        [IPV4_OPTION, SIZE as u8, 0, 0, a, b, c, d]
    }

    /// The tag as an IPv6 destination options header before `next_header`.
    #[inline(always)]
    pub const fn to_ipv6(self, next_header: u8) -> [u8; SIZE] {
        let [a, b, c, d] = self.to_word();
        [next_header, 0, IPV6_OPTION, 4, a, b, c, d]
    }

    /// Reads the first 8 bytes of an IPv4 header's options; `None` if they are another option.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the option has the type of a tag, but is not one.
    #[inline(always)]
    pub const fn from_ipv4(option: [u8; SIZE]) -> Result<Option<Self>, Malformed> {
        let [kind, length, reserved_0, reserved_1, a, b, c, d] = option;
        if kind != IPV4_OPTION {
            return Ok(None);
        }
        if length != SIZE as u8 {
            return Err(Malformed::Length);
        }
        if reserved_0 != 0 || reserved_1 != 0 {
            return Err(Malformed::Reserved);
        }
        match Self::from_word([a, b, c, d]) {
            Ok(tag) => Ok(Some(tag)),
            Err(malformed) => Err(malformed),
        }
    }

    /// Reads the first 8 bytes of a destination options header; `None` if its first option is
    /// another one. The next header is the first byte.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the option has the type of a tag, but is not one.
    #[inline(always)]
    pub const fn from_ipv6(header: [u8; SIZE]) -> Result<Option<Self>, Malformed> {
        let [_, header_length, kind, length, a, b, c, d] = header;
        if kind != IPV6_OPTION {
            return Ok(None);
        }
        if header_length != 0 || length != 4 {
            return Err(Malformed::Length);
        }
        match Self::from_word([a, b, c, d]) {
            Ok(tag) => Ok(Some(tag)),
            Err(malformed) => Err(malformed),
        }
    }
}

/// Reads the tag from the options of an IPv4 header, the first `length` bytes of `options`.
///
/// # Errors
///
/// [`Malformed`] if the options cannot be parsed, hold a malformed tag, a tag that is not the first
/// option, or more than one tag.
#[inline(always)]
pub fn find_in_ipv4_options(
    options: &[u8; IPV4_OPTIONS_MAX],
    length: usize,
) -> Result<Option<Tag>, Malformed> {
    let [a, b, c, d, e, f, g, h, ..] = *options;
    // Shorter options cannot hold a tag, but may hold the beginning of one.
    let first = match length {
        0 => return Ok(None),
        SIZE.. => Tag::from_ipv4([a, b, c, d, e, f, g, h])?,
        _ => None,
    };
    let rest = if first.is_some() { SIZE } else { 0 };
    check_ipv4_options(options, length, rest)?;
    Ok(first)
}

/// Checks that no option in the first `length` bytes of `options`, from the byte `start` on, is a
/// tag.
///
/// # Errors
///
/// [`Malformed`] if they cannot be parsed, or one of them has the type of a tag.
#[inline(always)]
pub fn check_ipv4_options(
    options: &[u8; IPV4_OPTIONS_MAX],
    length: usize,
    start: usize,
) -> Result<(), Malformed> {
    // One step per byte, not per option, so that the eBPF verifier can follow the loop.
    let mut next = start;
    let mut at = 0;
    while at < IPV4_OPTIONS_MAX {
        if at >= length {
            break;
        }
        if at == next {
            match options.get(at).copied() {
                // End of the list.
                None | Some(0) => break,
                // No operation.
                Some(1) => next = at.wrapping_add(1),
                Some(IPV4_OPTION) if length < SIZE => return Err(Malformed::Length),
                Some(IPV4_OPTION) => return Err(Malformed::Duplicate),
                Some(_) => {
                    let size = options.get(at.wrapping_add(1)).copied().unwrap_or(0);
                    let size = usize::from(size);
                    next = at.wrapping_add(size);
                    if size < 2 || next > length {
                        return Err(Malformed::Length);
                    }
                }
            }
        }
        at = at.wrapping_add(1);
    }
    Ok(())
}

/// Reads the tag of a complete packet that begins with its IP header, for callers that have a
/// slice. `None` for a packet without a tag, and for one that is neither IPv4 nor IPv6.
///
/// # Errors
///
/// [`Malformed`] as [`find_in_ipv4_options`] and [`Tag::from_ipv6`], and for a packet shorter than
/// its headers.
pub fn find_in_packet(packet: &[u8]) -> Result<Option<Tag>, Malformed> {
    let first = packet.first().copied().unwrap_or(0);
    match first >> 4 {
        4 => {
            let size = usize::from(first & 15).wrapping_mul(4);
            let size = size.checked_sub(IPV4_HEADER).ok_or(Malformed::Length)?;
            let rest = packet.get(IPV4_HEADER..).ok_or(Malformed::Length)?;
            let rest = rest.get(..size).ok_or(Malformed::Length)?;
            let mut options = [0; IPV4_OPTIONS_MAX];
            for (to, from) in options.iter_mut().zip(rest) {
                *to = *from;
            }
            find_in_ipv4_options(&options, size)
        }
        6 => {
            if packet.get(6).copied() != Some(IPV6_DESTINATION_OPTIONS) {
                return Ok(None);
            }
            let header = packet.get(IPV6_HEADER..).and_then(<[u8]>::first_chunk);
            let tag = Tag::from_ipv6(*header.ok_or(Malformed::Length)?)?;
            let (Some(next), true) = (header.and_then(|header| header.first()), tag.is_some())
            else {
                return Ok(tag);
            };
            let after = packet.get(IPV6_HEADER.wrapping_add(SIZE)..);
            let after = after.and_then(<[u8]>::first_chunk);
            if *next == IPV6_DESTINATION_OPTIONS && is_second_tag(after.copied()) {
                return Err(Malformed::Duplicate);
            }
            Ok(tag)
        }
        _ => Ok(None),
    }
}

/// Whether the destination options header that follows a tag is also a tag.
#[inline(always)]
pub fn is_second_tag(header: Option<[u8; 4]>) -> bool {
    matches!(header, Some([_, _, IPV6_OPTION, _]))
}

/// The number of bytes, from the IP header on, that hold a packet's tag if it has one.
pub const READ: usize = IPV6_HEADER + SIZE;

/// The tag of a packet with these first bytes, at most [`READ`] of them, and the offset of its
/// word. `None` if it has none, or a malformed one.
///
/// For nodes that handle many packets: it reads only the tag's place, and does not look for a
/// second tag elsewhere.
#[inline]
pub fn read(header: &[u8]) -> Option<(usize, Tag)> {
    let first = *header.first()?;
    let (at, tag) = match first >> 4 {
        4 if first & 15 >= 7 => {
            let option = header.get(IPV4_HEADER..)?.first_chunk()?;
            (IPV4_HEADER, Tag::from_ipv4(*option))
        }
        6 if *header.get(6)? == IPV6_DESTINATION_OPTIONS => {
            let header = header.get(IPV6_HEADER..)?.first_chunk()?;
            (IPV6_HEADER, Tag::from_ipv6(*header))
        }
        _ => return None,
    };
    Some((at.wrapping_add(4), tag.ok()??))
}

/// Replaces the tag that [`read`] found: the word, at `at`, and IPv4's checksum. A wrong checksum
/// stays wrong.
#[inline]
pub fn rewrite(header: &mut [u8], at: usize, tag: Tag) {
    let new = tag.to_word();
    let Some(word) = header.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<4>) else {
        return;
    };
    let old = core::mem::replace(word, new);
    if at < IPV6_HEADER {
        if let Some(check) = header.get_mut(10..).and_then(<[u8]>::first_chunk_mut) {
            *check = updated_checksum(*check, sum_4(complement_4(old)).wrapping_add(sum_4(new)));
        }
    }
}

/// The fixed part of the IPv4 header of a packet after adding `tag` as its first option: header
/// length, total length and checksum ([RFC 1624]). A wrong checksum stays wrong.
///
/// `None` if the options have no room for it, or the packet would be longer than 65,535 bytes.
///
/// [RFC 1624]: https://www.rfc-editor.org/rfc/rfc1624
#[inline(always)]
pub fn tagged_ipv4_header(header: [u8; IPV4_HEADER], tag: Tag) -> Option<[u8; IPV4_HEADER]> {
    let words = header[0] & 15;
    if words > 13 {
        return None;
    }
    let length = u16::from_be_bytes([header[2], header[3]]).checked_add(SIZE as u16)?;
    Some(with_lengths(
        header,
        words.wrapping_add(2),
        length,
        sum_8(tag.to_ipv4()),
    ))
}

/// The fixed part of the IPv4 header of a packet after removing its first option, the tag `option`.
///
/// `None` if the header's lengths leave no room for the option.
#[inline(always)]
pub fn untagged_ipv4_header(
    header: [u8; IPV4_HEADER],
    option: [u8; SIZE],
) -> Option<[u8; IPV4_HEADER]> {
    let words = header[0] & 15;
    if words < 7 {
        return None;
    }
    let length = u16::from_be_bytes([header[2], header[3]]).checked_sub(SIZE as u16)?;
    Some(with_lengths(
        header,
        words.wrapping_sub(2),
        length,
        sum_8(option.map(|byte| !byte)),
    ))
}

/// An IPv4 header with another header length, in words, and another total length. `options`: the
/// change of the checksum's sum by the options, of at most 20 words of 16 bits.
#[inline(always)]
pub(super) fn with_lengths(
    mut header: [u8; IPV4_HEADER],
    words: u8,
    length: u16,
    options: u32,
) -> [u8; IPV4_HEADER] {
    let [high, low] = length.to_be_bytes();
    let before = [header[0], header[1], header[2], header[3]];
    header[0] = (header[0] & 0xf0) | (words & 15);
    header[2] = high;
    header[3] = low;
    let after = [header[0], header[1], header[2], header[3]];
    let changes = sum_4(after)
        .wrapping_add(sum_4(complement_4(before)))
        .wrapping_add(options);
    let [high, low] = updated_checksum([header[10], header[11]], changes);
    header[10] = high;
    header[11] = low;
    header
}

/// A header's checksum after changes: the sum of the new words and of the complements of the old
/// words, which are few enough that no carry is lost in 32 bits.
#[inline(always)]
pub(super) const fn updated_checksum(check: [u8; 2], changes: u32) -> [u8; 2] {
    let sum = (!u16::from_be_bytes(check) as u32).wrapping_add(changes);
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    (!(sum as u16)).to_be_bytes()
}

#[inline(always)]
const fn complement_4([a, b, c, d]: [u8; 4]) -> [u8; 4] {
    [!a, !b, !c, !d]
}

#[inline(always)]
const fn sum_4([a, b, c, d]: [u8; 4]) -> u32 {
    (u16::from_be_bytes([a, b]) as u32).wrapping_add(u16::from_be_bytes([c, d]) as u32)
}

#[inline(always)]
const fn sum_8([a, b, c, d, e, f, g, h]: [u8; SIZE]) -> u32 {
    sum_4([a, b, c, d]).wrapping_add(sum_4([e, f, g, h]))
}
