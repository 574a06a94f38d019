// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Where in a packet a header is, by the numbers that a network stack keeps of it.
//!
//! ```text
//!   head        data          header             data + linear
//!    ├── room ───┼── headers … ──┼── … ── bytes ──────┤ … bytes elsewhere …
//!                └───────────── in one piece ─────────┘
//! ```
//!
//! Nobody has checked the numbers: a header may be said to be in the room ahead of the packet,
//! where perhaps nobody has written, or beyond its end.

use core::ops::Range;

/// The bytes from a header on that are in one piece, counted from the packet's first byte.
///
/// `room` and `header`: bytes from the memory's first one to the packet's, and to the header.
/// `linear`: bytes of the packet in one piece. `None`: the header is not in that piece.
#[inline]
pub fn linear_from(room: usize, header: usize, linear: usize) -> Option<Range<usize>> {
    let start = header.checked_sub(room)?;
    (start <= linear).then_some(start..linear)
}

/// The first `len` bytes of a header, counted from the packet's first byte, wherever they are in
/// it; `packet`: bytes of the packet. `None`: not all of them are in the packet.
#[inline]
pub fn within(room: usize, header: usize, len: u32, packet: u32) -> Option<Range<u32>> {
    let start = u32::try_from(header.checked_sub(room)?).ok()?;
    let end = start.checked_add(len)?;
    (end <= packet).then_some(start..end)
}
