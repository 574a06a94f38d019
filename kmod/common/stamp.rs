// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The utilisation of a path: packets collect it on their way, and the receiver sends it back.
//!
//! R. Ben Basat, S. Ramanathan, Y. Li, G. Antichi, M. Yu, M. Mitzenmacher: "PINT: Probabilistic
//! In-band Network Telemetry", SIGCOMM 2020: a packet carries the largest utilisation among the
//! links of its path, quantised on a logarithmic scale.
//!
//! Both numbers are in the field of the [tag](super::tag) that other schemes use for the rank:
//!
//! | bits  | field | values                                                                     |
//! |-------|-------|----------------------------------------------------------------------------|
//! | 22    |       | 0, so that the rank is exact and the field has room for an upstream queue  |
//! | 21–11 | echo  | the largest stamp that has arrived at the packet's sender; 0 for none      |
//! | 10–0  | stamp | the largest utilisation among the links of the path so far; 0 for none     |
//!
//! A utilisation below 1/64 has steps of 2^-13. Above, each octave up to 512 has 128 steps, so a
//! code is at most 0.4 % off. The code preserves order: the largest code is that of the largest
//! utilisation.

/// Utilisations are counted in 2^-20: 1 is a link that is full and has no queue.
pub const FRACTION_BITS: u32 = 20;
/// The number 1 in that scale.
pub const ONE: u32 = 1 << FRACTION_BITS;
/// Utilisations are below this, and larger ones are coded as the largest one that is.
pub const LIMIT: u32 = 512 << FRACTION_BITS;

/// A utilisation in thousandths, below 2^44 in its own scale.
#[inline(always)]
pub const fn thousandths(utilisation: u64) -> u32 {
    (utilisation.wrapping_mul(1_000) >> FRACTION_BITS) as u32
}

/// Bits of a code.
pub const BITS: u32 = 11;
/// The largest code.
pub const MAX_CODE: u16 = (1 << BITS) - 1;

/// Bits of the steps in an octave.
const STEP_BITS: u32 = 7;
/// The smallest utilisation that is coded is 2^-13.
const UNIT_BITS: u32 = FRACTION_BITS - 13;

/// The code of a utilisation, at least 1.
#[inline(always)]
pub const fn code_of(utilisation: u32) -> u16 {
    let most = LIMIT.wrapping_sub(1);
    let utilisation = if utilisation < most {
        utilisation
    } else {
        most
    };
    // Below 2^22.
    let units = utilisation >> UNIT_BITS;
    if units < 1 << STEP_BITS {
        return if units == 0 { 1 } else { units as u16 };
    }
    // From 7 to 21.
    let octave = 31_u32.wrapping_sub(units.leading_zeros());
    let above = octave.wrapping_sub(STEP_BITS);
    let step = units.wrapping_shr(above) & ((1 << STEP_BITS) - 1);
    (above.wrapping_add(1) << STEP_BITS | step) as u16
}

/// The middle of the utilisations with this code, which is at most [`MAX_CODE`].
#[inline(always)]
pub const fn utilisation_of(code: u16) -> u32 {
    let code = (code & MAX_CODE) as u32;
    let octave = code >> STEP_BITS;
    let step = code & ((1 << STEP_BITS) - 1);
    let (mantissa, above) = match octave {
        0 => (step, 0),
        _ => (step | 1 << STEP_BITS, octave.wrapping_sub(1)),
    };
    // Below 2^9, shifted by at most 14 + 6.
    (mantissa << 1 | 1).wrapping_shl(above.wrapping_add(UNIT_BITS - 1))
}

/// A packet's stamp and echo, as codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// The largest utilisation on the packet's own path so far; 0 for none.
    pub stamp: u16,
    /// The largest utilisation that packets in the other direction have met; 0 for none.
    pub echo: u16,
}

impl Stamps {
    /// The rank in the packet's tag.
    #[inline(always)]
    pub const fn to_rank(self) -> u32 {
        ((self.echo & MAX_CODE) as u32) << BITS | (self.stamp & MAX_CODE) as u32
    }

    /// Reads the rank in a packet's tag; `None` if another scheme has written it.
    #[inline(always)]
    pub const fn from_rank(rank: u32) -> Option<Self> {
        if rank >> (2 * BITS) != 0 {
            return None;
        }
        Some(Self {
            stamp: rank as u16 & MAX_CODE,
            echo: (rank >> BITS) as u16,
        })
    }
}
