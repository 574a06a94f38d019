// SPDX-License-Identifier: MIT OR Apache-2.0

//! Random numbers that are the same on every machine and in every later version.
//!
//! ChaCha with 8 rounds (Bernstein 2008) in 64-bit-nonce form: the key is the seed, little-endian,
//! followed by zeros; the nonce is the [`Stream`]. So one seed gives any number of independent
//! streams, and drawing more from one does not change the others.
//!
//! Distributions are inverse transforms and Box–Muller, with a fixed number of draws per value,
//! using the logarithm and the cosine of the crate `libm`: the C library's differ in the last bit
//! between systems, and so does `rand_distr` as soon as anything in the build enables `std` of
//! `num-traits`. With a fixed number of draws, another load only stretches the same arrivals
//! (common random numbers), which narrows comparisons.

use std::f64::consts::TAU;
use std::num::NonZeroU32;

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng as _};

/// The purpose of a stream. The numbers are part of a seed's meaning: never change one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Flow sizes.
    Sizes = 1,
    /// Times between flows.
    Arrivals = 2,
    /// Pairs of sender and receiver.
    Pairs = 3,
    /// Times between incasts.
    IncastArrivals = 4,
    /// Receivers and senders of incasts.
    IncastHosts = 5,
    /// Samples of a bootstrap.
    Bootstrap = 6,
    /// Deadlines of flows outside incasts.
    Deadlines = 7,
    /// Deadlines of incasts' flows.
    IncastDeadlines = 8,
    /// Hosts that store a written block.
    Replicas = 9,
    /// Priorities of flows outside incasts.
    Priorities = 10,
    /// Priorities of incasts' flows.
    IncastPriorities = 11,
}

/// The generator of one stream of `seed`.
#[must_use]
pub fn stream(seed: u64, stream: Stream) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(stream as u64);
    rng
}

/// Uniform on [0, 1): 53 bits.
pub fn unit(rng: &mut impl Rng) -> f64 {
    const ULP: f64 = 1.0 / (1_u64 << 53) as f64;
    (rng.next_u64() >> 11) as f64 * ULP
}

/// Uniform on 0..`n`, without bias (Lemire, Fast Random Integer Generation in an Interval, 2019).
pub fn below(rng: &mut impl Rng, n: NonZeroU32) -> u32 {
    let threshold = n.get().wrapping_neg() % n;
    loop {
        let product = u64::from(rng.next_u32()) * u64::from(n.get());
        if product as u32 >= threshold {
            return (product >> 32) as u32;
        }
    }
}

/// Exponential with mean 1. One draw.
pub fn exponential(rng: &mut impl Rng) -> f64 {
    -libm::log(1.0 - unit(rng))
}

/// Normal with mean 0 and standard deviation 1. Two draws.
pub fn normal(rng: &mut impl Rng) -> f64 {
    let radius = libm::sqrt(2.0 * exponential(rng));
    radius * libm::cos(TAU * unit(rng))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draft-strombergson-chacha-test-vectors-01, TC1 (key and nonce 0), 8 rounds.
    #[test]
    fn seed_0_of_nonce_0_is_the_published_key_stream() {
        let mut bytes = [0; 16];
        ChaCha8Rng::from_seed([0; 32]).fill_bytes(&mut bytes);
        assert_eq!(
            bytes,
            [
                0x3e, 0x00, 0xef, 0x2f, 0x89, 0x5f, 0x40, 0xd6, 0x7f, 0x5b, 0xb8, 0xe8, 0x1f, 0x09,
                0xa5, 0xa1
            ]
        );
    }

    #[test]
    fn streams_and_seeds_differ() {
        let first = |seed, which| stream(seed, which).next_u64();
        let mut seen = vec![
            first(1, Stream::Sizes),
            first(2, Stream::Sizes),
            first(1, Stream::Arrivals),
            first(1, Stream::Pairs),
            first(1, Stream::IncastArrivals),
            first(1, Stream::IncastHosts),
            first(1, Stream::Deadlines),
            first(1, Stream::IncastDeadlines),
            first(1, Stream::Priorities),
            first(1, Stream::IncastPriorities),
        ];
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 10);
    }

    /// Chi-squared with 6 degrees of freedom is above 22.46 with probability 0.001.
    #[test]
    fn small_integers_are_uniform() {
        let mut rng = stream(7, Stream::Pairs);
        let mut counts = [0_u32; 7];
        for _ in 0..70_000 {
            counts[below(&mut rng, NonZeroU32::new(7).unwrap()) as usize] += 1;
        }
        let chi: f64 = counts
            .iter()
            .map(|&c| (f64::from(c) - 1e4).powi(2) / 1e4)
            .sum();
        assert!(chi < 22.46, "{chi} {counts:?}");
    }

    #[test]
    fn the_normal_has_its_moments() {
        let mut rng = stream(7, Stream::Arrivals);
        let n = 200_000;
        let draws: Vec<f64> = (0..n).map(|_| normal(&mut rng)).collect();
        let moment = |k| draws.iter().map(|x| x.powi(k)).sum::<f64>() / f64::from(n);
        // Standard errors: 0.0022, 0.0032, 0.0087, 0.022.
        for (k, expected, tolerance) in [
            (1, 0.0, 0.009),
            (2, 1.0, 0.013),
            (3, 0.0, 0.035),
            (4, 3.0, 0.09),
        ] {
            assert!(
                (moment(k) - expected).abs() < tolerance,
                "moment {k}: {}",
                moment(k)
            );
        }
    }
}
