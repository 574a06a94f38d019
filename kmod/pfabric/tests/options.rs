// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! pfabric's options and statistics: round trips, boundaries, and each refusal's sentence.

use super::message::{attribute, attributes, written};
use proptest::prelude::*;
use std::ffi::CStr;
use weft_mechanisms::common::nla::{Refusal, RefusalKind};
use weft_mechanisms::common::options::Configuration as _;
use weft_mechanisms::pfabric::options::{attr, Config, Options, DEFAULT_LIMIT, KIND, MAX_LIMIT};
use weft_mechanisms::pfabric::stats::Stats;

fn refusal(kind: RefusalKind, attr: Option<u16>, message: &'static CStr) -> Refusal {
    Refusal {
        message,
        attr,
        kind,
    }
}

fn u32_attribute(attr: u16, value: u32) -> Vec<u8> {
    attribute(attr, &value.to_ne_bytes())
}

#[test]
fn the_numbers_of_the_netlink_interface_never_change() {
    assert_eq!(KIND, "pfabric");
    assert_eq!(
        (attr::LIMIT, attr::LIMIT_BYTES, attr::STARVATION_PREVENTION),
        (1, 2, 3)
    );
    let everything = Options {
        limit: Some(24),
        limit_bytes: Some(36_000),
        starvation_prevention: Some(true),
    };
    let expected = attributes(&[
        (1, &24_u32.to_ne_bytes()),
        (2, &36_000_u32.to_ne_bytes()),
        (3, &[1]),
    ]);
    assert_eq!(written(|message| everything.put(message)), expected);
    let config = Config::new(&everything).unwrap();
    assert_eq!(written(|message| config.put(message)), expected);
}

#[test]
fn a_new_queue_holds_24_packets_and_prevents_starvation() {
    let config = Config {
        limit: 24,
        limit_bytes: 0,
        starvation_prevention: true,
    };
    assert_eq!(Config::new(&Options::default()), Ok(config));
    assert_eq!(DEFAULT_LIMIT, 24);
}

#[test]
fn the_packet_limit_is_between_1_and_65536() {
    let out_of_range = refusal(
        RefusalKind::Range,
        Some(attr::LIMIT),
        c"Limit must be between 1 and 65536 packets",
    );
    for limit in [0, 65_537, u32::MAX] {
        let bytes = u32_attribute(attr::LIMIT, limit);
        assert_eq!(Options::parse(&bytes), Err(out_of_range), "{limit}");
        let options = Options {
            limit: Some(limit),
            ..Options::default()
        };
        assert_eq!(options.check(), Err(out_of_range));
        assert_eq!(Config::new(&options), Err(out_of_range));
        let running = Config::new(&Options::default()).unwrap();
        assert_eq!(running.updated(&options), Err(out_of_range));
    }
    for limit in [1, 2, 65_535, 65_536] {
        let options = Options::parse(&u32_attribute(attr::LIMIT, limit)).unwrap();
        assert_eq!(options.limit, Some(limit));
        assert_eq!(Config::new(&options).unwrap().limit, limit);
    }
    assert_eq!(MAX_LIMIT, 65_536);
}

#[test]
fn any_byte_limit_is_accepted() {
    for limit_bytes in [0, 1, 36_000, u32::MAX] {
        let options = Options::parse(&u32_attribute(attr::LIMIT_BYTES, limit_bytes)).unwrap();
        assert_eq!(options.limit_bytes, Some(limit_bytes));
        assert_eq!(Config::new(&options).unwrap().limit_bytes, limit_bytes);
    }
}

#[test]
fn a_byte_limit_alone_allows_as_many_of_the_smallest_frames_as_fill_it() {
    let packets = |bytes| {
        let options = Options {
            limit_bytes: Some(bytes),
            ..Options::default()
        };
        Config::new(&options).unwrap().limit
    };
    assert_eq!(packets(36_000), 600);
    assert_eq!(packets(1), 1, "at least one packet");
    assert_eq!(packets(59), 1);
    assert_eq!(packets(60), 1);
    assert_eq!(packets(119), 1);
    assert_eq!(packets(120), 2);
    assert_eq!(packets(60 * 65_536 - 1), 65_535);
    assert_eq!(packets(60 * 65_536), 65_536);
    assert_eq!(packets(u32::MAX), 65_536, "at most the largest queue");
    assert_eq!(packets(0), DEFAULT_LIMIT, "0 is no byte limit");
}

#[test]
fn both_limits_are_kept_as_given() {
    let options = Options {
        limit: Some(5),
        limit_bytes: Some(36_000),
        ..Options::default()
    };
    let config = Config::new(&options).unwrap();
    assert_eq!((config.limit, config.limit_bytes), (5, 36_000));
}

#[test]
fn starvation_prevention_is_0_or_1() {
    for (byte, on) in [(0, false), (1, true)] {
        let options = Options::parse(&attribute(attr::STARVATION_PREVENTION, &[byte])).unwrap();
        assert_eq!(options.starvation_prevention, Some(on));
        assert_eq!(Config::new(&options).unwrap().starvation_prevention, on);
    }
    let out_of_range = refusal(
        RefusalKind::Range,
        Some(attr::STARVATION_PREVENTION),
        c"Starvation prevention must be 0 or 1",
    );
    for byte in 2..=u8::MAX {
        let bytes = attribute(attr::STARVATION_PREVENTION, &[byte]);
        assert_eq!(Options::parse(&bytes), Err(out_of_range));
    }
}

#[test]
fn a_change_keeps_the_options_that_it_omits() {
    let running = Config {
        limit: 100,
        limit_bytes: 36_000,
        starvation_prevention: false,
    };
    assert_eq!(running.updated(&Options::default()), Ok(running));
    let one_at_a_time = [
        (
            Options {
                limit: Some(50),
                ..Options::default()
            },
            Config {
                limit: 50,
                ..running
            },
        ),
        (
            Options {
                limit_bytes: Some(0),
                ..Options::default()
            },
            Config {
                limit_bytes: 0,
                ..running
            },
        ),
        (
            Options {
                starvation_prevention: Some(true),
                ..Options::default()
            },
            Config {
                starvation_prevention: true,
                ..running
            },
        ),
    ];
    for (options, expected) in one_at_a_time {
        assert_eq!(running.updated(&options), Ok(expected));
    }
}

#[test]
fn statistics_have_a_fixed_layout() {
    let stats = Stats {
        evicted: 1,
        rejected: 2,
        overtaken: 3,
        evicted_bytes: 4,
        rejected_bytes: 5,
        flows: 6,
        highest_backlog: 7,
        highest_backlog_bytes: 8,
    };
    let mut expected = Vec::new();
    for field in [1_u64, 2, 3, 4, 5] {
        expected.extend(field.to_ne_bytes());
    }
    expected.extend(6_u32.to_ne_bytes());
    expected.extend(7_u32.to_ne_bytes());
    expected.extend(8_u64.to_ne_bytes());
    assert_eq!(stats.to_bytes(), expected[..]);
    assert_eq!(Stats::SIZE, 56);
    assert_eq!(Stats::from_bytes(&expected), Some(stats));
}

#[test]
fn statistics_may_be_longer_in_a_newer_kernel_and_never_shorter() {
    let bytes = [0xff; Stats::SIZE + 9];
    let stats = Stats::from_bytes(&bytes[..Stats::SIZE]);
    assert!(stats.is_some());
    assert_eq!(Stats::from_bytes(&bytes), stats);
    for length in 0..Stats::SIZE {
        assert_eq!(Stats::from_bytes(&bytes[..length]), None);
    }
}

/// Options in range, with their boundaries as likely as the rest.
fn options() -> impl Strategy<Value = Options> {
    let limit = prop_oneof![Just(1), Just(MAX_LIMIT), 1..=MAX_LIMIT];
    let limit_bytes = prop_oneof![Just(0), Just(u32::MAX), any::<u32>()];
    (
        prop::option::of(limit),
        prop::option::of(limit_bytes),
        any::<Option<bool>>(),
    )
        .prop_map(|(limit, limit_bytes, starvation_prevention)| Options {
            limit,
            limit_bytes,
            starvation_prevention,
        })
}

proptest! {
    #[test]
    fn options_survive_encoding(options in options()) {
        let bytes = written(|message| options.put(message));
        prop_assert_eq!(Options::parse(&bytes), Ok(options));
        let config = Config::new(&options).unwrap();
        let dump = written(|message| config.put(message));
        prop_assert_eq!(Config::parse(&dump), Ok(config));
    }

    #[test]
    fn a_restored_dump_makes_the_same_queue(options in options()) {
        let config = Config::new(&options).unwrap();
        let dump = written(|message| config.put(message));
        let restored = Options::parse(&dump).and_then(|options| Config::new(&options));
        prop_assert_eq!(restored, Ok(config));
    }

    #[test]
    fn a_change_to_everything_equals_a_new_queue(old in options(), new in options()) {
        let old = Config::new(&old).unwrap();
        let new = Config::new(&new).unwrap();
        let everything = Options {
            limit: Some(new.limit),
            limit_bytes: Some(new.limit_bytes),
            starvation_prevention: Some(new.starvation_prevention),
        };
        prop_assert_eq!(old.updated(&everything), Ok(new));
    }

    #[test]
    fn statistics_are_read_back(bytes in prop::array::uniform32(any::<u8>()), more in any::<[u8; 24]>()) {
        let bytes = [&bytes[..], &more].concat();
        let stats = Stats::from_bytes(&bytes).unwrap();
        prop_assert_eq!(&stats.to_bytes()[..], &bytes);
    }
}
