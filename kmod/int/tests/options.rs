// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! int's options and statistics: round trips, boundaries, and each refusal's sentence.

use super::message::{attribute, attributes, written, Message};
use std::ffi::CStr;

use weft_mechanisms::common::nla::{NoRoom, Refusal, RefusalKind};
use weft_mechanisms::common::options::Configuration as _;
use weft_mechanisms::int::options::{attr, Config, Options};
use weft_mechanisms::int::stats::Stats;
use weft_mechanisms::int::KIND;

fn refusal(kind: RefusalKind, attr: Option<u16>, message: &'static CStr) -> Refusal {
    Refusal {
        message,
        attr,
        kind,
    }
}

/// 1 Gbit/s, 15 µs and nothing else.
fn plain() -> Config {
    Config {
        rate: 125_000_000,
        rtt: 15_000,
        overhead: 0,
        mpu: 0,
    }
}

fn needed() -> Options {
    Options {
        rate: Some(125_000_000),
        rtt: Some(15_000),
        ..Options::default()
    }
}

#[test]
fn the_numbers_of_the_netlink_interface_never_change() {
    assert_eq!(KIND, "int");
    assert_eq!((attr::RATE, attr::RTT), (1, 2));
    assert_eq!((attr::OVERHEAD, attr::MPU), (3, 4));
    assert_eq!(attr::PAD, 15);
    let everything = Options {
        overhead: Some(24),
        mpu: Some(84),
        ..needed()
    };
    let expected = attributes(&[
        (1, &125_000_000_u64.to_ne_bytes()),
        (2, &15_000_u64.to_ne_bytes()),
        (3, &24_u32.to_ne_bytes()),
        (4, &84_u32.to_ne_bytes()),
    ]);
    assert_eq!(written(|message| everything.put(message)), expected);
    let config = Config::new(&everything).unwrap();
    assert_eq!(written(|message| config.put(message)), expected);
    assert_eq!(Config::parse(&expected), Ok(config));
}

#[test]
fn a_new_qdisc_needs_a_rate_and_a_round_trip_time() {
    assert_eq!(Config::new(&needed()), Ok(plain()));
    for (options, sentence) in [
        (
            Options {
                rate: None,
                ..needed()
            },
            c"Rate is required, for example rate 10gbit",
        ),
        (
            Options {
                rtt: None,
                ..needed()
            },
            c"RTT is required, for example rtt 15us",
        ),
    ] {
        let expected = refusal(RefusalKind::Invalid, None, sentence);
        assert_eq!(Config::new(&options), Err(expected));
        assert_eq!(plain().updated(&options), Ok(plain()));
    }
}

#[test]
fn each_option_has_its_range() {
    const RATE: &CStr = c"Rate must be between 1 kbit/s and 400 Gbit/s";
    const RTT: &CStr = c"RTT must be between 1 ns and 10 s";
    const OVERHEAD: &CStr = c"Overhead must be at most 1000 bytes";
    const MPU: &CStr = c"MPU must be at most 2000 bytes";
    let wide = |attr, value: u64| attribute(attr, &value.to_ne_bytes());
    let narrow = |attr, value: u32| attribute(attr, &value.to_ne_bytes());
    for (attr, bytes, sentence) in [
        (attr::RATE, wide(attr::RATE, 0), RATE),
        (attr::RATE, wide(attr::RATE, 124), RATE),
        (attr::RATE, wide(attr::RATE, 50_000_000_001), RATE),
        (attr::RTT, wide(attr::RTT, 0), RTT),
        (attr::RTT, wide(attr::RTT, 10_000_000_001), RTT),
        (attr::OVERHEAD, narrow(attr::OVERHEAD, 1_001), OVERHEAD),
        (attr::MPU, narrow(attr::MPU, 2_001), MPU),
    ] {
        let expected = refusal(RefusalKind::Range, Some(attr), sentence);
        assert_eq!(Options::parse(&bytes), Err(expected));
    }
    for bytes in [
        wide(attr::RATE, 125),
        wide(attr::RATE, 50_000_000_000),
        wide(attr::RTT, 1),
        wide(attr::RTT, 10_000_000_000),
        narrow(attr::OVERHEAD, 1_000),
        narrow(attr::MPU, 2_000),
    ] {
        let options = Options::parse(&bytes).unwrap();
        assert!(plain().updated(&options).is_ok());
    }
}

#[test]
fn a_change_leaves_what_it_does_not_say() {
    let options = Options {
        rtt: Some(1),
        ..Options::default()
    };
    let expected = Config { rtt: 1, ..plain() };
    assert_eq!(plain().updated(&options), Ok(expected));
    assert_eq!(plain().updated(&Options::default()), Ok(plain()));
}

#[test]
fn a_message_without_room_is_reported_not_cut_short() {
    let size = written(|message| plain().put(message)).len();
    for room in 0..size {
        assert_eq!(plain().put(&mut Message::with_room(room)), Err(NoRoom));
    }
}

#[test]
fn statistics_have_a_fixed_layout() {
    let stats = Stats {
        utilisation: 1,
        highest_utilisation: 2,
        stamped: 3,
        kept: 4,
        untagged: 5,
        unwritable: 6,
        recorded: 7,
        full: 8,
        returning: 9,
    };
    let mut bytes = Vec::new();
    bytes.extend([1_u32, 2].iter().flat_map(|it| it.to_ne_bytes()));
    bytes.extend((3_u64..=9).flat_map(u64::to_ne_bytes));
    assert_eq!(stats.to_bytes()[..], bytes);
    assert_eq!(Stats::from_bytes(&bytes), Some(stats));
    assert_eq!(Stats::from_bytes(&bytes[1..]), None);
}
