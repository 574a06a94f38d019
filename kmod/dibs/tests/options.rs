// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! dibs's options and statistics: numbers, defaults, boundaries, and each refusal's sentence.

use super::message::{attribute, attributes, written};
use std::ffi::CStr;
use weft_mechanisms::common::nla::{Refusal, RefusalKind};
use weft_mechanisms::common::options::Configuration as _;
use weft_mechanisms::dibs::options::{attr, Config, Options, Policy, DEFAULT_ALPHA};
use weft_mechanisms::dibs::stats::Stats;
use weft_mechanisms::dibs::KIND;

fn everything() -> Options {
    Options {
        limit: Some(24),
        limit_bytes: Some(36_000),
        mark: Some(7),
        detour_to: Some(true),
        policy: Some(Policy::Flow),
        ttl: Some(48),
        share: Some(1_700_000),
        alpha: Some(64),
        from: Some(75),
        ranks: Some(7),
    }
}

#[test]
fn the_numbers_of_the_netlink_interface_never_change() {
    assert_eq!(KIND, "dibs");
    let expected = attributes(&[
        (1, &24_u32.to_ne_bytes()),
        (2, &36_000_u32.to_ne_bytes()),
        (3, &7_u32.to_ne_bytes()),
        (4, &[1]),
        (5, &[2]),
        (6, &48_u32.to_ne_bytes()),
        (7, &1_700_000_u32.to_ne_bytes()),
        (8, &64_u32.to_ne_bytes()),
        (9, &75_u32.to_ne_bytes()),
        (10, &7_u32.to_ne_bytes()),
    ]);
    assert_eq!(written(|message| everything().put(message)), expected);
    let config = Config::new(&everything()).unwrap();
    assert_eq!(written(|message| config.put(message)), expected);
    assert_eq!(Config::parse(&expected), Ok(config));
    for (number, policy) in (0_u8..).zip([
        Policy::Random,
        Policy::LoadAware,
        Policy::Flow,
        Policy::Probabilistic,
        Policy::Off,
    ]) {
        let options = Options::parse(&attribute(attr::POLICY, &[number])).unwrap();
        assert_eq!(options.policy, Some(policy));
    }
}

#[test]
fn the_defaults_are_those_of_the_paper() {
    let config = Config {
        limit: 100,
        limit_bytes: 0,
        mark: 20,
        detour_to: false,
        policy: Policy::Random,
        ttl: 0,
        share: 0,
        alpha: DEFAULT_ALPHA,
        from: 50,
        ranks: 15,
    };
    assert_eq!(Config::new(&Options::default()), Ok(config));
}

#[test]
fn a_limit_in_bytes_or_shares_replaces_the_limit_in_packets() {
    let limit = |limit_bytes, share| {
        let options = Options {
            limit_bytes,
            share,
            ..Options::default()
        };
        Config::new(&options).unwrap().limit
    };
    assert_eq!(limit(Some(1), None), 0);
    assert_eq!(limit(None, Some(1)), 0);
    assert_eq!(limit(Some(0), Some(0)), 100);
}

fn refused(attr: u16, value: &[u8], message: &'static CStr) {
    let refusal = Refusal {
        message,
        attr: Some(attr),
        kind: RefusalKind::Range,
    };
    assert_eq!(Options::parse(&attribute(attr, value)), Err(refusal));
}

#[test]
fn values_out_of_range_are_refused_with_a_reason() {
    let u32 = |value: u32| value.to_ne_bytes();
    refused(attr::TTL, &u32(256), c"TTL must be at most 255");
    let alpha = c"Alpha must be between 1/128 and 128, or off";
    refused(attr::ALPHA, &u32(128 * 128 + 1), alpha);
    refused(attr::FROM, &u32(101), c"From must be at most 100 percent");
    refused(attr::DETOUR_TO, &[2], c"Detour-to must be 0 or 1");
    let policy = c"Policy must be random, load-aware, flow, probabilistic or off";
    refused(attr::POLICY, &[5], policy);
    for (attr, most) in [
        (attr::TTL, 255),
        (attr::ALPHA, 128 * 128),
        (attr::FROM, 100),
    ] {
        assert!(Options::parse(&attribute(attr, &u32(most))).is_ok());
        assert!(Options::parse(&attribute(attr, &u32(0))).is_ok());
    }
}

#[test]
fn a_change_keeps_the_options_that_it_omits() {
    let config = Config::new(&everything()).unwrap();
    assert_eq!(config.updated(&Options::default()), Ok(config));
    let options = Options {
        mark: Some(9),
        ..Options::default()
    };
    assert_eq!(config.updated(&options), Ok(Config { mark: 9, ..config }));
    let wrong = Options {
        ttl: Some(256),
        ..Options::default()
    };
    assert!(config.updated(&wrong).is_err());
}

#[test]
fn statistics_have_no_padding_and_grow_at_the_end() {
    let stats = Stats {
        detoured_limit: 1,
        coming: 2,
        switch_diverted: 3,
        ..Stats::default()
    };
    let bytes = stats.to_bytes();
    assert_eq!(Stats::SIZE, 17 * 8 + 2 * 4);
    assert_eq!(bytes[..8], 1_u64.to_ne_bytes());
    assert_eq!(bytes[40..44], 2_u32.to_ne_bytes());
    assert_eq!(bytes[Stats::SIZE - 8..], 3_u64.to_ne_bytes());
    let mut longer = bytes.to_vec();
    longer.extend([9; 8]);
    assert_eq!(Stats::from_bytes(&longer), Some(stats));
    assert_eq!(Stats::from_bytes(&bytes[1..]), None);
}
