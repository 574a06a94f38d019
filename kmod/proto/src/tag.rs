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
//! Both types are set aside for experiments ([RFC 4727], sections 3.2 and 3.4). A node that does
//! not know them passes over them; the copied flag makes a router repeat the option in each
//! fragment. The tag is the first option, or the extension header right after the IPv6 header.
//! The word, in network byte order:
//!
//! | bits  | field          | values                                                    |
//! |-------|----------------|-----------------------------------------------------------|
//! | 31    | version        | 0; 1 is reserved for another layout of the other 31 bits  |
//! | 30–23 | upstream queue | 1 to 255; 0 is none                                       |
//! | 22–0  | rank code      | 0 to 6,815,743; those above are reserved                  |
//!
//! A rank is 32 bits wide and IPv6 leaves the word 23 of them. What matters of a rank is its order,
//! so the code is a logarithmic one that keeps it: below 2^22 it is the rank itself, and each
//! octave above (2^22 to 2^23, …, 2^31 to 2^32) has 2^18 steps. A rank in bytes is thus exact up to
//! 4 MiB and beyond that at most 4 millionths too low.
//!
//! [RFC 4727]: https://www.rfc-editor.org/rfc/rfc4727

/// Size of the tag in bytes, in IPv4 as in IPv6.
pub const SIZE: usize = 8;

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

/// Largest rank code that stands for a rank.
pub const MAX_CODE: u32 = OCTAVES - 1 + (32 - 22) * STEPS;

/// Ranks below are their own code.
const EXACT: u32 = 1 << 22;
/// Codes of the first octave begin here.
const OCTAVES: u32 = EXACT;
/// Codes in each octave.
const STEPS: u32 = 1 << 18;

const VERSION_SHIFT: u32 = 31;
const QUEUE_SHIFT: u32 = 23;
const CODE_MASK: u32 = (1 << QUEUE_SHIFT) - 1;

/// What a packet carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// How urgent the packet is; 0 is the most urgent. On the wire as [`code_of_rank`] has it.
    pub rank: u32,
    /// The queue of the previous hop in which the packet waited, 1 to 255; 0 is none.
    pub upstream_queue: u8,
}

/// Why bytes that claim to be a tag are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A header, an option or the tag has an impossible length, or reaches beyond the packet.
    Length,
    /// Another version, a reserved rank code or a reserved byte.
    Reserved,
    /// A second tag, or one that is not the first option.
    Duplicate,
}

/// The code of a rank: order is kept, and the code of a smaller rank is never the larger one.
#[inline(always)]
pub const fn code_of_rank(rank: u32) -> u32 {
    if rank < EXACT {
        return rank;
    }
    // 22 to 31.
    let octave = 31_u32.wrapping_sub(rank.leading_zeros());
    let step = rank.wrapping_shr(octave.wrapping_sub(18)) & (STEPS - 1);
    OCTAVES
        .wrapping_add(octave.wrapping_sub(22).wrapping_mul(STEPS))
        .wrapping_add(step)
}

/// The smallest rank that has this code; `None` for a reserved code.
#[inline(always)]
pub const fn rank_of_code(code: u32) -> Option<u32> {
    if code < EXACT {
        return Some(code);
    }
    if code > MAX_CODE {
        return None;
    }
    let above = code.wrapping_sub(OCTAVES);
    let mantissa = STEPS | (above & (STEPS - 1));
    Some(mantissa.wrapping_shl(above.wrapping_shr(18).wrapping_add(4)))
}

impl Tag {
    /// The word.
    #[inline(always)]
    pub const fn to_word(self) -> [u8; 4] {
        let queue = (self.upstream_queue as u32) << QUEUE_SHIFT;
        (queue | code_of_rank(self.rank)).to_be_bytes()
    }

    /// Reads the word.
    ///
    /// # Errors
    ///
    /// [`Malformed::Reserved`] for another version or a reserved rank code.
    #[inline(always)]
    pub const fn from_word(word: [u8; 4]) -> Result<Self, Malformed> {
        let word = u32::from_be_bytes(word);
        if word >> VERSION_SHIFT != 0 {
            return Err(Malformed::Reserved);
        }
        match rank_of_code(word & CODE_MASK) {
            Some(rank) => Ok(Self {
                rank,
                upstream_queue: (word >> QUEUE_SHIFT) as u8,
            }),
            None => Err(Malformed::Reserved),
        }
    }

    /// The tag as it will be read: the rank loses what its code cannot hold.
    #[inline(always)]
    pub const fn on_the_wire(self) -> Self {
        match rank_of_code(code_of_rank(self.rank)) {
            Some(rank) => Self { rank, ..self },
            None => self,
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
    /// [`Malformed`] if the option is a tag by its type only.
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
    /// [`Malformed`] if the option is a tag by its type only.
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
/// [`Malformed`] if the options cannot be walked, hold a tag that is none, a tag that is not the
/// first option, or more than one.
#[inline(always)]
pub fn find_in_ipv4_options(
    options: &[u8; IPV4_OPTIONS_MAX],
    length: usize,
) -> Result<Option<Tag>, Malformed> {
    let [a, b, c, d, e, f, g, h, ..] = *options;
    // Shorter options hold no tag, but may hold the beginning of one.
    let first = match length {
        0 => return Ok(None),
        SIZE.. => Tag::from_ipv4([a, b, c, d, e, f, g, h])?,
        _ => None,
    };
    let rest = if first.is_some() { SIZE } else { 0 };
    check_ipv4_options(options, length, rest)?;
    Ok(first)
}

/// Checks that the options in `options`, `length` bytes, from the byte `start` on, are no tag.
///
/// # Errors
///
/// [`Malformed`] if they cannot be walked, or one of them claims to be a tag.
#[inline(always)]
pub fn check_ipv4_options(
    options: &[u8; IPV4_OPTIONS_MAX],
    length: usize,
    start: usize,
) -> Result<(), Malformed> {
    // One step per byte, rather than one per option: a loop that the eBPF verifier can follow.
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

/// Reads the tag of a whole packet that begins with its IP header, for readers who can take a
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

/// Whether the destination options header that follows a tag is one, too.
#[inline(always)]
pub fn is_second_tag(header: Option<[u8; 4]>) -> bool {
    matches!(header, Some([_, _, IPV6_OPTION, _]))
}

/// The fixed part of the IPv4 header of a packet that gets `tag` as its first option: header
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
        tag.to_ipv4(),
        [0; SIZE],
    ))
}

/// The fixed part of the IPv4 header of a packet that loses the tag that is its first option,
/// `option`.
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
        [0; SIZE],
        option,
    ))
}

#[inline(always)]
fn with_lengths(
    mut header: [u8; IPV4_HEADER],
    words: u8,
    length: u16,
    added: [u8; SIZE],
    removed: [u8; SIZE],
) -> [u8; IPV4_HEADER] {
    let [high, low] = length.to_be_bytes();
    let before = [header[0], header[1], header[2], header[3]];
    header[0] = (header[0] & 0xf0) | (words & 15);
    header[2] = high;
    header[3] = low;
    let after = [header[0], header[1], header[2], header[3]];
    // Sum of at most 13 words of 16 bits: no carry is lost in 32.
    let check = u16::from_be_bytes([header[10], header[11]]);
    let sum = u32::from(!check)
        .wrapping_add(sum_4(after))
        .wrapping_add(sum_4(complement_4(before)))
        .wrapping_add(sum_8(added))
        .wrapping_add(sum_8(removed.map(|byte| !byte)));
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    let [high, low] = (!(sum as u16)).to_be_bytes();
    header[10] = high;
    header[11] = low;
    header
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
