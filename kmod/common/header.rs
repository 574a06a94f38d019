// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The position of a header in a packet, from the offsets that a network stack keeps.
//!
//! ```text
//!   head        data          header             data + linear
//!    ├── room ───┼── headers … ──┼── … ── bytes ──────┤ … bytes elsewhere …
//!                └───────────── in one piece ─────────┘
//! ```
//!
//! The offsets are unchecked: a header may appear to be in the room ahead of the packet, which may
//! never have been written, or beyond its end.

use core::ops::Range;

/// The bytes from a header on that are in one piece, counted from the packet's first byte.
///
/// `room` and `header`: bytes from the memory's first byte to the packet's first byte, and to the
/// header. `linear`: bytes of the packet in one piece. `None`: the header is not in that piece.
#[inline]
pub fn linear_from(room: usize, header: usize, linear: usize) -> Option<Range<usize>> {
    let start = header.checked_sub(room)?;
    (start <= linear).then_some(start..linear)
}

/// The first `len` bytes of a header, counted from the packet's first byte, even if they are not in
/// one piece; `packet`: bytes of the packet. `None`: not all of them are in the packet.
#[inline]
pub fn within(room: usize, header: usize, len: u32, packet: u32) -> Option<Range<u32>> {
    let start = u32::try_from(header.checked_sub(room)?).ok()?;
    let end = start.checked_add(len)?;
    (end <= packet).then_some(start..end)
}
