// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A power of a fraction: by its logarithm and the inverse of the logarithm, bit by bit.

/// The value 1 of fractions and of their powers.
pub const ONE: u32 = 1 << 16;

/// The value 1 of exponents.
pub const EXPONENT_ONE: u32 = 1 << 10;

/// Bits after the point of a logarithm.
const LOG_BITS: u32 = 20;

/// 2^(-2^-n) in 2^-32, for n from 1 to [`LOG_BITS`].
const ROOTS: [u64; LOG_BITS as usize] = [
    0xb504_f334,
    0xd744_fccb,
    0xeac0_c6e8,
    0xf525_7d15,
    0xfa83_b2db,
    0xfd3e_0c0d,
    0xfe9e_115c,
    0xff4e_cb59,
    0xffa7_5652,
    0xffd3_a752,
    0xffe9_d2b3,
    0xfff4_e91c,
    0xfffa_747f,
    0xfffd_3a3b,
    0xfffe_9d1d,
    0xffff_4e8e,
    0xffff_a747,
    0xffff_d3a3,
    0xffff_e9d2,
    0xffff_f4e9,
];

/// `base` to the power of `exponent`. `base` and the result are in 2^-16; `base` is at most
/// [`ONE`], higher values are clamped. `exponent` is in 2^-10. The result is the nearest value or
/// one next to it, for exponents from an eighth to 2.5.
pub fn power(base: u32, exponent: u32) -> u32 {
    let base = base.min(ONE);
    match (base, exponent) {
        (_, 0) | (ONE, _) => return ONE,
        (0, _) => return 0,
        // Exact.
        (_, EXPONENT_ONE) => return base,
        _ => {}
    }
    let product = u64::from(below(base)).wrapping_mul(exponent.into());
    // From 2^-30, rounded to 2^-20.
    inverse(product.wrapping_add(1 << 9) >> 10)
}

/// The negated logarithm to base 2 of a fraction above 0, in 2^-20.
fn below(fraction: u32) -> u32 {
    // From 1 to below 2, in 2^-31; the fraction is 2^(16 - zeros) of it.
    let zeros = fraction.leading_zeros();
    let mut rest = u64::from(fraction.wrapping_shl(zeros));
    let mut log = 0_u32;
    for _ in 0..LOG_BITS {
        // Below 4, in 2^-31.
        rest = rest.wrapping_mul(rest) >> 31;
        let bit = u32::from(rest >= 1 << 32);
        rest >>= bit;
        log = log << 1 | bit;
    }
    // A fraction of 1 has 15 zeros, and smaller ones have more.
    (zeros.wrapping_sub(15) << LOG_BITS).wrapping_sub(log)
}

/// 2 to the power of minus `below`, which is in 2^-20; the result is in 2^-16.
fn inverse(below: u64) -> u32 {
    let mut product = 1_u64 << 32;
    for (place, root) in (1..).zip(ROOTS) {
        if below >> (LOG_BITS.wrapping_sub(place)) & 1 != 0 {
            product = product.wrapping_mul(root) >> 32;
        }
    }
    // Rounded to the nearest: 2^-32 is 2^16 times finer.
    let halves = u32::try_from(below >> LOG_BITS).unwrap_or(u32::MAX);
    let shift = halves.saturating_add(15);
    match product.checked_shr(shift) {
        Some(twice) => (twice.wrapping_add(1) >> 1) as u32,
        None => 0,
    }
}
