// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The power against floating point.

use weft_mechanisms::common::power::{power, EXPONENT_ONE, ONE};

fn naive(base: u32, exponent: u32) -> f64 {
    let base = f64::from(base) / f64::from(ONE);
    base.powf(f64::from(exponent) / f64::from(EXPONENT_ONE)) * f64::from(ONE)
}

/// Each possible α, and exponents from an eighth to 2.5: those of D2TCP and L2DCT.
#[test]
fn all_powers_of_alpha_are_accurate_to_1_in_65536() {
    let mut worst = 0.0_f64;
    for alpha in 0..=1024 {
        for exponent in 128..=2560 {
            let found = f64::from(power(alpha << 6, exponent));
            worst = worst.max((found - naive(alpha << 6, exponent)).abs());
        }
    }
    assert!(worst <= 1.0, "{worst}");
}

#[test]
fn powers_of_0_and_1_and_a_half_are_exact() {
    for exponent in [1, 512, 1024, 1500, 2048, u32::MAX] {
        assert_eq!(power(ONE, exponent), ONE);
        assert_eq!(power(u32::MAX, exponent), ONE);
        assert_eq!(power(0, exponent), 0);
    }
    for base in [0, 1, 77, ONE] {
        assert_eq!(power(base, 0), ONE);
        assert_eq!(power(base, EXPONENT_ONE), base);
    }
    assert_eq!(power(ONE / 2, 2048), ONE / 4);
    assert_eq!(power(ONE / 4, 512), ONE / 2);
    assert_eq!(power(ONE / 16, 1536), ONE / 64);
}

#[test]
fn it_grows_with_the_base_and_falls_with_the_exponent() {
    for exponent in (128..=2560).step_by(7) {
        let powers: Vec<u32> = (0..=ONE)
            .step_by(13)
            .map(|base| power(base, exponent))
            .collect();
        assert!(powers.is_sorted(), "{exponent}");
    }
    for base in (0..=ONE).step_by(977) {
        let powers: Vec<u32> = (128..=2560).rev().map(|it| power(base, it)).collect();
        // The exact ones in the middle may differ in the last bit from their neighbours.
        assert!(
            powers.windows(2).all(|pair| pair[0] <= pair[1] + 1),
            "{base}"
        );
    }
}

#[test]
fn no_number_is_too_large() {
    for base in [1, 2, ONE - 1, ONE, u32::MAX] {
        for exponent in [1, 127, 2561, 1 << 20, u32::MAX] {
            let found = f64::from(power(base, exponent));
            let expected = naive(base.min(ONE), exponent);
            assert!(
                (found - expected).abs() <= 2.0 + f64::from(ONE) / 256.0,
                "{base} {exponent}: {found} {expected}"
            );
        }
    }
}
