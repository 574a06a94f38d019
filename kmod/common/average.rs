// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A moving average over a time.

/// The average over a time of `whole`, of which `new` holds for the last `part` (at most `whole`)
/// and `before` for the rest, rounded to the nearest. Where the products do not fit into 64 bits,
/// both times lose their last bits.
pub fn average(before: u64, new: u64, part: u64, whole: u64) -> u64 {
    let bits = |number: u64| u64::BITS.wrapping_sub(number.leading_zeros());
    let excess = bits(before | new).wrapping_add(bits(whole));
    let coarse = excess.saturating_sub(u64::BITS - 1).min(u64::BITS - 1);
    let whole = whole.wrapping_shr(coarse).max(1);
    let part = part.wrapping_shr(coarse).min(whole);
    let kept = before.wrapping_mul(whole.wrapping_sub(part));
    let sum = kept.wrapping_add(new.wrapping_mul(part));
    sum.wrapping_add(whole >> 1)
        .checked_div(whole)
        .unwrap_or(new)
}
