// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Gives UDP packets the IPv4 option that the `int` qdisc fills: pktgen cannot write options.
//!
//! A packet keeps its length: its payload loses as many bytes as the option has. So packets with
//! and without the option have one size.

use super::options::Telemetry;
use crate::common::records;
use crate::common::stamp::Stamps;
use crate::common::tag::{self, Tag, IPV4_HEADER};

/// First byte of an IPv4 header without options.
const PLAIN: u8 = 0x45;

/// Protocol number of UDP.
const UDP: u8 = 17;

/// Size of the UDP header in bytes.
const UDP_HEADER: usize = 8;

/// Bytes of a packet that [`insert`] changes for an option of `size` bytes.
pub const fn changed(size: usize) -> u32 {
    IPV4_HEADER.wrapping_add(size).wrapping_add(UDP_HEADER) as u32
}

impl Telemetry {
    /// The number of records that a packet carries, if it has room for records.
    ///
    /// There is no branch for each number, so each costs the same instructions.
    #[inline(always)]
    pub const fn links(self) -> Option<u8> {
        match self {
            Self::None | Self::Tag => None,
            Self::Room | Self::Records | Self::Full => {
                Some((self as u8).wrapping_sub(Self::Room as u8).wrapping_mul(3))
            }
        }
    }
}

/// An option that has room for six records. The first `links` (at most 6) are there, with all
/// fields zero.
#[inline(always)]
pub fn records_of(links: u8) -> [u8; records::IPV4_SIZE] {
    let mut block = [0; records::BLOCK];
    // The number of records: bits 14 to 12 of the block's word.
    block[0] = (links & 7) << 4;
    records::to_ipv4(block)
}

/// A tag with neither a stamp nor an echo.
pub const UNSTAMPED: [u8; tag::SIZE] = Tag {
    rank: Stamps { stamp: 0, echo: 0 }.to_rank(),
    upstream_queue: 0,
}
.to_ipv4();

/// Inserts `option` into the IPv4 header of a UDP packet without options. Returns `false`, and
/// leaves the packet as it is, if it is another packet or too short.
#[inline(always)]
pub fn insert<const N: usize>(packet: &mut [u8], option: [u8; N]) -> bool {
    let Some((header, rest)) = packet.split_first_chunk_mut::<IPV4_HEADER>() else {
        return false;
    };
    if header[0] != PLAIN || header[9] != UDP {
        return false;
    }
    let Some(mut udp) = rest.first_chunk::<UDP_HEADER>().copied() else {
        return false;
    };
    let Some((room, rest)) = rest.split_first_chunk_mut::<N>() else {
        return false;
    };
    let Some(moved) = rest.first_chunk_mut::<UDP_HEADER>() else {
        return false;
    };
    // The length, and no checksum.
    let length = u16::from_be_bytes([udp[4], udp[5]]).wrapping_sub(N as u16);
    [udp[4], udp[5]] = length.to_be_bytes();
    [udp[6], udp[7]] = [0, 0];
    *moved = udp;
    *room = option;
    header[0] = PLAIN.wrapping_add((N / 4) as u8);
    [header[10], header[11]] = [0, 0];
    let check = !folded(sum(header).wrapping_add(sum(room)));
    [header[10], header[11]] = check.to_be_bytes();
    true
}

/// The sum of 16-bit words.
#[inline(always)]
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(2).filter_map(<[u8]>::first_chunk);
    words.fold(0, |sum, word| {
        sum.wrapping_add(u16::from_be_bytes(*word).into())
    })
}

/// A sum of fewer than 2^16 words in one's complement.
#[inline(always)]
const fn folded(sum: u32) -> u16 {
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    sum as u16
}
