// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! wire's options and statistics: round trips, boundaries, and each refusal's sentence.

use super::message::{attribute, attributes, written, Message};
use proptest::prelude::*;
use std::ffi::CStr;

use weft_mechanisms::common::nla::{NoRoom, Refusal, RefusalKind};
use weft_mechanisms::common::options::Configuration as _;
use weft_mechanisms::wire::options::{
    attr, Config, Options, KIND, MAX_DELAY, MAX_LIMIT, MAX_MPU, MAX_OVERHEAD, MAX_RATE, MAX_SLACK,
    MIN_RATE,
};
use weft_mechanisms::wire::stats::{Stats, LATENESS_BUCKETS};

fn refusal(kind: RefusalKind, attr: Option<u16>, message: &'static CStr) -> Refusal {
    Refusal {
        message,
        attr,
        kind,
    }
}

/// A wire of 1 Gbit/s and nothing else.
fn plain() -> Config {
    Config {
        rate: 125_000_000,
        delay: 0,
        overhead: 0,
        mpu: 0,
        slack: 0,
        limit: 0,
    }
}

/// Parses, makes and updates with the one option `options`, which `bytes` encode: all are refused
/// in the same way.
fn assert_refused(options: Options, bytes: &[u8], expected: Refusal) {
    assert_eq!(Options::parse(bytes), Err(expected));
    assert_eq!(options.check(), Err(expected));
    let with_a_rate = Options {
        rate: options.rate.or(Some(MIN_RATE)),
        ..options
    };
    assert_eq!(Config::new(&with_a_rate), Err(expected));
    assert_eq!(plain().updated(&options), Err(expected));
}

/// Parses, makes and updates with the one option `options`, which `bytes` encode.
fn accepted(options: Options, bytes: &[u8]) -> Config {
    assert_eq!(Options::parse(bytes), Ok(options));
    let with_a_rate = Options {
        rate: options.rate.or(Some(plain().rate)),
        ..options
    };
    let config = Config::new(&with_a_rate).unwrap();
    assert_eq!(plain().updated(&options), Ok(config));
    config
}

#[test]
fn the_numbers_of_the_netlink_interface_never_change() {
    assert_eq!(KIND, "wire");
    assert_eq!((attr::RATE, attr::DELAY, attr::OVERHEAD), (1, 2, 3));
    assert_eq!((attr::MPU, attr::SLACK, attr::LIMIT), (4, 5, 6));
    assert_eq!(attr::PAD, 15);
    let everything = Options {
        rate: Some(1_250_000),
        delay: Some(200_000),
        overhead: Some(24),
        mpu: Some(84),
        slack: Some(60_000),
        limit: Some(1_000_000),
    };
    let expected = attributes(&[
        (1, &1_250_000_u64.to_ne_bytes()),
        (2, &200_000_u64.to_ne_bytes()),
        (3, &24_u32.to_ne_bytes()),
        (4, &84_u32.to_ne_bytes()),
        (5, &60_000_u32.to_ne_bytes()),
        (6, &1_000_000_u32.to_ne_bytes()),
    ]);
    assert_eq!(written(|message| everything.put(message)), expected);
    let config = Config::new(&everything).unwrap();
    assert_eq!(written(|message| config.put(message)), expected);
}

#[test]
fn a_new_wire_needs_a_rate_and_nothing_else() {
    let required = refusal(
        RefusalKind::Invalid,
        None,
        c"Rate is required, for example rate 10gbit",
    );
    assert_eq!(Config::new(&Options::default()), Err(required));
    let everything_else = Options {
        rate: None,
        delay: Some(1),
        overhead: Some(1),
        mpu: Some(1),
        slack: Some(1),
        limit: Some(1),
    };
    assert_eq!(Config::new(&everything_else), Err(required));
    let rate_only = Options {
        rate: Some(125_000_000),
        ..Options::default()
    };
    assert_eq!(Config::new(&rate_only), Ok(plain()));
}

#[test]
fn the_rate_is_between_1_kbit_and_400_gbit_per_second() {
    let out_of_range = refusal(
        RefusalKind::Range,
        Some(attr::RATE),
        c"Rate must be between 1 kbit/s and 400 Gbit/s",
    );
    let said = |rate: u64| {
        let options = Options {
            rate: Some(rate),
            ..Options::default()
        };
        (options, attribute(attr::RATE, &rate.to_ne_bytes()))
    };
    for rate in [0, 1, 124, 50_000_000_001, u64::MAX] {
        let (options, bytes) = said(rate);
        assert_refused(options, &bytes, out_of_range);
    }
    for rate in [125, 126, 49_999_999_999, 50_000_000_000] {
        let (options, bytes) = said(rate);
        assert_eq!(accepted(options, &bytes).rate, rate);
    }
    assert_eq!((MIN_RATE * 8, MAX_RATE * 8), (1_000, 400_000_000_000));
}

#[test]
fn the_delay_is_at_most_10_seconds() {
    let out_of_range = refusal(
        RefusalKind::Range,
        Some(attr::DELAY),
        c"Delay must be at most 10 s",
    );
    let said = |delay: u64| {
        let options = Options {
            delay: Some(delay),
            ..Options::default()
        };
        (options, attribute(attr::DELAY, &delay.to_ne_bytes()))
    };
    for delay in [10_000_000_001, u64::MAX] {
        let (options, bytes) = said(delay);
        assert_refused(options, &bytes, out_of_range);
    }
    for delay in [0, 1, 9_999_999_999, 10_000_000_000] {
        let (options, bytes) = said(delay);
        assert_eq!(accepted(options, &bytes).delay, delay);
    }
}

#[test]
fn the_overhead_is_at_most_1000_bytes() {
    let out_of_range = refusal(
        RefusalKind::Range,
        Some(attr::OVERHEAD),
        c"Overhead must be at most 1000 bytes",
    );
    let said = |overhead: u32| {
        let options = Options {
            overhead: Some(overhead),
            ..Options::default()
        };
        (options, attribute(attr::OVERHEAD, &overhead.to_ne_bytes()))
    };
    for overhead in [1001, u32::MAX] {
        let (options, bytes) = said(overhead);
        assert_refused(options, &bytes, out_of_range);
    }
    for overhead in [0, 1, 999, 1000] {
        let (options, bytes) = said(overhead);
        assert_eq!(accepted(options, &bytes).overhead, overhead);
    }
}

#[test]
fn the_minimum_packet_unit_is_at_most_2000_bytes() {
    let out_of_range = refusal(
        RefusalKind::Range,
        Some(attr::MPU),
        c"MPU must be at most 2000 bytes",
    );
    let said = |mpu: u32| {
        let options = Options {
            mpu: Some(mpu),
            ..Options::default()
        };
        (options, attribute(attr::MPU, &mpu.to_ne_bytes()))
    };
    for mpu in [2001, u32::MAX] {
        let (options, bytes) = said(mpu);
        assert_refused(options, &bytes, out_of_range);
    }
    for mpu in [0, 1, 1999, 2000] {
        let (options, bytes) = said(mpu);
        assert_eq!(accepted(options, &bytes).mpu, mpu);
    }
}

#[test]
fn the_slack_is_at_most_1_second() {
    let out_of_range = refusal(
        RefusalKind::Range,
        Some(attr::SLACK),
        c"Slack must be at most 1 s",
    );
    let said = |slack: u32| {
        let options = Options {
            slack: Some(slack),
            ..Options::default()
        };
        (options, attribute(attr::SLACK, &slack.to_ne_bytes()))
    };
    for slack in [1_000_000_001, u32::MAX] {
        let (options, bytes) = said(slack);
        assert_refused(options, &bytes, out_of_range);
    }
    for slack in [0, 1, 999_999_999, 1_000_000_000] {
        let (options, bytes) = said(slack);
        assert_eq!(accepted(options, &bytes).slack, slack);
    }
}

#[test]
fn the_limit_is_at_most_4_billion_bytes() {
    let out_of_range = refusal(
        RefusalKind::Range,
        Some(attr::LIMIT),
        c"Limit must be at most 4000000000 bytes",
    );
    let said = |limit: u32| {
        let options = Options {
            limit: Some(limit),
            ..Options::default()
        };
        (options, attribute(attr::LIMIT, &limit.to_ne_bytes()))
    };
    for limit in [4_000_000_001, u32::MAX] {
        let (options, bytes) = said(limit);
        assert_refused(options, &bytes, out_of_range);
    }
    for limit in [0, 1, 3_999_999_999, 4_000_000_000] {
        let (options, bytes) = said(limit);
        assert_eq!(accepted(options, &bytes).limit, limit);
    }
}

/// A wire of this many bytes per second, ns of delay, and ns of slack.
fn long(rate: u64, delay: u64, slack: u32) -> Options {
    Options {
        rate: Some(rate),
        delay: Some(delay),
        slack: Some(slack),
        ..Options::default()
    }
}

#[test]
fn without_a_limit_there_is_room_for_the_delay_for_late_timers_and_for_two_packets() {
    let room = |options: &Options| Config::new(options).unwrap().bytes_in_flight();
    // The minimum: 10 ms of lateness, and twice 512 KiB.
    assert_eq!(room(&long(125, 0, 0)), 1 + (1 << 20));
    // 10 Gbit/s: 12.5 MB of lateness; 1 s of delay; 100 ms of slack.
    let ten = 1_250_000_000;
    assert_eq!(room(&long(ten, 0, 0)), 12_500_000 + (1 << 20));
    assert_eq!(
        room(&long(ten, 1_000_000_000, 0)),
        1_262_500_000 + (1 << 20)
    );
    assert_eq!(room(&long(ten, 0, 100_000_000)), 137_500_000 + (1 << 20));
    // The extremes of requests do not overflow, and neither do those of dumps.
    let everything = long(MAX_RATE, MAX_DELAY, MAX_SLACK);
    let limit = Some(MAX_LIMIT);
    assert_eq!(
        room(&Options {
            limit,
            ..everything
        }),
        MAX_LIMIT
    );
    let most = Config {
        rate: u64::MAX,
        delay: u64::MAX,
        overhead: 0,
        mpu: 0,
        slack: u32::MAX,
        limit: 0,
    };
    assert_eq!(most.bytes_in_flight(), MAX_LIMIT);
    // A given limit is used as it is.
    let limit = Some(1);
    assert_eq!(
        room(&Options {
            limit,
            ..long(ten, 1_000_000_000, 0)
        }),
        1
    );
}

#[test]
fn more_in_flight_than_the_largest_limit_is_refused_unless_there_is_a_limit() {
    let too_much = refusal(
        RefusalKind::Invalid,
        None,
        c"More than 4 GB would be in flight: lower rate, delay or slack, or set a limit",
    );
    // 400 Gbit/s for 69 ms, 10 of them for timers.
    let room = long(MAX_RATE, 69_900_000, 0);
    assert!(Config::new(&room).is_ok());
    for options in [
        long(MAX_RATE, 70_000_000, 0),
        long(MAX_RATE, 0, 70_000_000),
        long(MAX_RATE, 35_000_000, 35_000_000),
        long(MAX_RATE, MAX_DELAY, MAX_SLACK),
        long(1_250_000_000, MAX_DELAY, 0),
    ] {
        assert_eq!(Config::new(&options), Err(too_much), "{options:?}");
        let limited = Options {
            limit: Some(1_000_000),
            ..options
        };
        let config = Config::new(&limited).unwrap();
        assert_eq!(config.bytes_in_flight(), 1_000_000);
        // Removing the limit is a change like any other.
        let unlimited = Options {
            limit: Some(0),
            ..Options::default()
        };
        assert_eq!(config.updated(&unlimited), Err(too_much));
        assert_eq!(plain().updated(&options), Err(too_much));
    }
}

#[test]
fn a_change_keeps_the_options_that_it_omits() {
    let running = Config {
        rate: 1_250_000,
        delay: 200_000,
        overhead: 24,
        mpu: 84,
        slack: 60_000,
        limit: 1_000_000,
    };
    assert_eq!(running.updated(&Options::default()), Ok(running));
    let nothing = Options::default();
    let one_at_a_time = [
        (
            Options {
                rate: Some(125),
                ..nothing
            },
            Config {
                rate: 125,
                ..running
            },
        ),
        (
            Options {
                delay: Some(0),
                ..nothing
            },
            Config {
                delay: 0,
                ..running
            },
        ),
        (
            Options {
                overhead: Some(0),
                ..nothing
            },
            Config {
                overhead: 0,
                ..running
            },
        ),
        (
            Options {
                mpu: Some(0),
                ..nothing
            },
            Config { mpu: 0, ..running },
        ),
        (
            Options {
                slack: Some(0),
                ..nothing
            },
            Config {
                slack: 0,
                ..running
            },
        ),
        (
            Options {
                limit: Some(0),
                ..nothing
            },
            Config {
                limit: 0,
                ..running
            },
        ),
    ];
    for (options, expected) in one_at_a_time {
        assert_eq!(running.updated(&options), Ok(expected));
    }
}

#[test]
fn the_known_part_of_a_newer_kernels_dump_is_read() {
    let newer = attributes(&[
        (1, &u64::MAX.to_ne_bytes()),
        (16, &[1, 2, 3]),
        (2, &u64::MAX.to_ne_bytes()),
        (3, &u32::MAX.to_ne_bytes()),
        (15, &[]),
        (4, &u32::MAX.to_ne_bytes()),
        (7, &[]),
        (5, &u32::MAX.to_ne_bytes()),
        (6, &u32::MAX.to_ne_bytes()),
    ]);
    let config = Config {
        rate: u64::MAX,
        delay: u64::MAX,
        overhead: u32::MAX,
        mpu: u32::MAX,
        slack: u32::MAX,
        limit: u32::MAX,
    };
    assert_eq!(Config::parse(&newer), Ok(config));
}

#[test]
fn a_message_that_does_not_fit_is_reported_and_not_truncated() {
    let size = written(|message| plain().put(message)).len();
    for room in 0..size {
        assert_eq!(plain().put(&mut Message::with_room(room)), Err(NoRoom));
    }
    let mut message = Message::with_room(size);
    assert_eq!(plain().put(&mut message), Ok(()));
    assert_eq!(message.bytes().len(), size);
}

#[test]
fn statistics_have_a_fixed_layout() {
    let stats = Stats {
        busy_ns: 1,
        in_flight: 2,
        in_flight_bytes: 3,
        late_count: 4,
        late_sum_ns: 5,
        late_max_ns: 6,
        late_histogram: std::array::from_fn(|bucket| 7 + bucket as u64),
        in_flight_limit: 39,
        held: 40,
    };
    let mut expected = Vec::new();
    expected.extend(1_u64.to_ne_bytes());
    expected.extend(2_u32.to_ne_bytes());
    expected.extend(3_u32.to_ne_bytes());
    for field in 4..41_u64 {
        expected.extend(field.to_ne_bytes());
    }
    assert_eq!(stats.to_bytes(), expected[..]);
    assert_eq!((Stats::SIZE, LATENESS_BUCKETS), (312, 32));
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
    let rate = prop_oneof![Just(MIN_RATE), Just(MAX_RATE), MIN_RATE..=MAX_RATE];
    let delay = prop_oneof![Just(0), Just(MAX_DELAY), 0..=MAX_DELAY];
    let overhead = prop_oneof![Just(0), Just(MAX_OVERHEAD), 0..=MAX_OVERHEAD];
    let mpu = prop_oneof![Just(0), Just(MAX_MPU), 0..=MAX_MPU];
    let slack = prop_oneof![Just(0), Just(MAX_SLACK), 0..=MAX_SLACK];
    let limit = prop_oneof![Just(0), Just(MAX_LIMIT), 0..=MAX_LIMIT];
    (
        prop::option::of(rate),
        prop::option::of(delay),
        prop::option::of(overhead),
        prop::option::of(mpu),
        prop::option::of(slack),
        prop::option::of(limit),
    )
        .prop_map(|(rate, delay, overhead, mpu, slack, limit)| Options {
            rate,
            delay,
            overhead,
            mpu,
            slack,
            limit,
        })
}

/// Options in range that name a rate, and a limit if they need one.
fn config() -> impl Strategy<Value = Config> {
    (options(), MIN_RATE..=MAX_RATE, 1..=MAX_LIMIT).prop_map(|(options, rate, limit)| {
        let options = Options {
            rate: options.rate.or(Some(rate)),
            ..options
        };
        let limited = Options {
            limit: Some(limit),
            ..options
        };
        Config::new(&options).or(Config::new(&limited)).unwrap()
    })
}

proptest! {
    #[test]
    fn options_survive_encoding(options in options(), config in config()) {
        let bytes = written(|message| options.put(message));
        prop_assert_eq!(Options::parse(&bytes), Ok(options));
        let dump = written(|message| config.put(message));
        prop_assert_eq!(Config::parse(&dump), Ok(config));
    }

    #[test]
    fn a_restored_dump_makes_the_same_wire(config in config()) {
        let dump = written(|message| config.put(message));
        let restored = Options::parse(&dump).and_then(|options| Config::new(&options));
        prop_assert_eq!(restored, Ok(config));
    }

    #[test]
    fn a_change_to_everything_equals_a_new_wire(old in config(), new in config()) {
        let everything = Options {
            rate: Some(new.rate),
            delay: Some(new.delay),
            overhead: Some(new.overhead),
            mpu: Some(new.mpu),
            slack: Some(new.slack),
            limit: Some(new.limit),
        };
        prop_assert_eq!(old.updated(&everything), Ok(new));
    }

    #[test]
    fn statistics_are_read_back(bytes in prop::collection::vec(any::<u8>(), Stats::SIZE)) {
        let stats = Stats::from_bytes(&bytes).unwrap();
        prop_assert_eq!(&stats.to_bytes()[..], &bytes);
    }
}
