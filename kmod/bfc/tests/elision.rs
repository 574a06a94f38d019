// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The set of ingress ports whose packets cause no backpressure.

use proptest::prelude::*;
use weft_mechanisms::bfc::elision::{Elision, MAX_ELIDED};

#[test]
fn nothing_is_elided_by_default() {
    for device in [0, 1, 100, u32::MAX] {
        assert!(!Elision::NONE.contains(device));
        assert!(!Elision::default().contains(device));
    }
}

#[test]
fn the_first_devices_that_fit_are_elided() {
    let elision = Elision::new(1..=MAX_ELIDED as u32);
    assert!((1..=MAX_ELIDED as u32).all(|device| elision.contains(device)));
    assert!(!elision.contains(MAX_ELIDED as u32 + 1));
}

proptest! {
    #[test]
    fn an_elision_contains_its_devices_in_any_order(
        devices in prop::collection::vec(1..80_u32, 0..=MAX_ELIDED), other in 1..100_u32,
    ) {
        let elision = Elision::new(devices.iter().copied());
        prop_assert_eq!(elision.contains(other), devices.contains(&other));
        let mut sorted = devices.clone();
        sorted.sort_unstable();
        prop_assert_eq!(Elision::new(sorted.into_iter()), elision);
    }
}
