// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! port's options and statistics: numbers, defaults, boundaries, and each refusal's sentence.

use super::message::{attribute, attributes, written};
use std::ffi::CStr;
use weft_mechanisms::common::nla::{Refusal, RefusalKind};
use weft_mechanisms::common::options::Configuration as _;
use weft_mechanisms::port::options::{attr, pause_time, Config, Options, DEFAULT_ALPHA};
use weft_mechanisms::port::stats::Stats;
use weft_mechanisms::port::KIND;

const GBIT10: u64 = 1_250_000_000;

fn everything() -> Options {
    Options {
        memory: Some(12_000_000),
        alpha: Some(64),
        pfc: Some(true),
        rate: Some(GBIT10),
        hrtt: Some(2_000),
        headroom: Some(30_000),
        xoff: Some(20),
        xon: Some(6_000),
        quanta: Some(1_000),
        priority: Some(4),
        watchdog: Some(200_000_000),
    }
}

#[test]
fn the_numbers_of_the_netlink_interface_never_change() {
    assert_eq!(KIND, "port");
    let expected = attributes(&[
        (1, &12_000_000_u32.to_ne_bytes()),
        (2, &64_u32.to_ne_bytes()),
        (3, &[1]),
        (4, &GBIT10.to_ne_bytes()),
        (5, &2_000_u64.to_ne_bytes()),
        (6, &30_000_u32.to_ne_bytes()),
        (7, &20_u32.to_ne_bytes()),
        (8, &6_000_u32.to_ne_bytes()),
        (9, &1_000_u32.to_ne_bytes()),
        (10, &[4]),
        (11, &200_000_000_u64.to_ne_bytes()),
    ]);
    assert_eq!(written(|message| everything().put(message)), expected);
    let config = Config::new(&everything()).unwrap();
    assert_eq!(written(|message| config.put(message)), expected);
    assert_eq!(Config::parse(&expected), Ok(config));
}

#[test]
fn by_default_there_is_no_limit_and_no_flow_control() {
    let config = Config {
        memory: 0,
        alpha: DEFAULT_ALPHA,
        pfc: false,
        rate: 0,
        hrtt: 0,
        headroom: 0,
        xoff: 11,
        xon: 3_000,
        quanta: 65_535,
        priority: 3,
        watchdog: 0,
    };
    assert_eq!(Config::new(&Options::default()), Ok(config));
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
fn a_value_out_of_range_is_refused_with_its_range() {
    let u32 = |value: u32| value.to_ne_bytes();
    let alpha = c"Alpha must be between 1/128 and 128, or off";
    refused(attr::ALPHA, &u32(128 * 128 + 1), alpha);
    refused(attr::PFC, &[2], c"PFC must be 0 or 1");
    let rate = c"Rate must be between 1 kbit/s and 400 Gbit/s";
    for wrong in [124_u64, 50_000_000_001] {
        refused(attr::RATE, &wrong.to_ne_bytes(), rate);
    }
    let hrtt = 10_000_000_001_u64.to_ne_bytes();
    refused(attr::HRTT, &hrtt, c"HRTT must be at most 10 s");
    for wrong in [0, 101] {
        refused(
            attr::XOFF,
            &u32(wrong),
            c"Xoff must be between 1 and 100 percent",
        );
    }
    for wrong in [0, 65_536] {
        refused(
            attr::QUANTA,
            &u32(wrong),
            c"Quanta must be between 1 and 65535",
        );
    }
    refused(attr::PRIORITY, &[8], c"Priority must be at most 7");
    let watchdog = 60_000_000_001_u64.to_ne_bytes();
    refused(attr::WATCHDOG, &watchdog, c"Watchdog must be at most 60 s");
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let refused = |options: Options, sentence| {
        let refusal = Refusal::invalid(sentence);
        assert_eq!(Config::new(&options), Err(refusal), "{options:?}");
        // A change to the same options is refused, too.
        let config = Config::new(&Options::default()).unwrap();
        assert_eq!(config.updated(&options), Err(refusal));
        // Without flow control they mean nothing.
        let options = Options {
            pfc: Some(false),
            ..options
        };
        assert!(Config::new(&options).is_ok());
    };
    let pfc = Options {
        pfc: Some(true),
        ..Options::default()
    };
    refused(
        pfc,
        c"pfc needs the link's rate, because pauses are in bit times",
    );
    let pfc = Options {
        rate: Some(GBIT10),
        ..pfc
    };
    assert!(Config::new(&pfc).is_ok(), "a host");
    let short = Options {
        // 9984 ns.
        quanta: Some(195),
        ..pfc
    };
    refused(short, c"A pause must last at least 10 us: increase quanta");
    let pfc = Options {
        memory: Some(100_000),
        ..pfc
    };
    refused(pfc, c"pfc with memory needs hrtt or headroom");
    let large = Options {
        headroom: Some(100_000),
        ..pfc
    };
    refused(large, c"The headroom must be less than the memory");
    let far = Options {
        hrtt: Some(80_000),
        ..pfc
    };
    refused(far, c"The headroom must be less than the memory");
}

#[test]
fn a_change_of_the_priority_is_refused() {
    let config = Config::new(&everything()).unwrap();
    let of = |priority| Options {
        priority,
        ..Options::default()
    };
    let refusal = Refusal::invalid(c"Priority cannot be changed");
    assert_eq!(config.updated(&of(Some(5))), Err(refusal));
    assert_eq!(config.updated(&of(Some(4))), Ok(config));
    assert_eq!(config.updated(&of(None)), Ok(config));
}

#[test]
fn the_headroom_is_the_data_in_flight_and_two_frames() {
    let config = |headroom, hrtt| {
        let options = Options {
            headroom,
            hrtt,
            ..everything()
        };
        Config::new(&options).unwrap()
    };
    assert_eq!(
        config(Some(0), Some(2_000)).headroom_bytes(1514),
        2_500 + 3_028
    );
    // Not a byte too little.
    assert_eq!(
        config(Some(0), Some(2_001)).headroom_bytes(1514),
        2_502 + 3_028
    );
    assert_eq!(config(Some(9_000), None).headroom_bytes(1514), 9_000);
}

#[test]
fn a_pause_quantum_is_the_time_of_512_bits() {
    assert_eq!(pause_time(1, GBIT10), 52, "51.2 ns, rounded up");
    assert_eq!(pause_time(10, GBIT10), 512);
    assert_eq!(pause_time(65_535, GBIT10), 3_355_392);
    assert_eq!(pause_time(65_535, 125), 33_553_920_000_000);
    assert_eq!(pause_time(0, GBIT10), 0);
}

#[test]
fn statistics_have_no_padding_and_grow_at_the_end() {
    let stats = Stats {
        memory_backlog: 1,
        pausing: 2,
        malformed: 3,
        ..Stats::default()
    };
    let bytes = stats.to_bytes();
    assert_eq!(Stats::SIZE, 23 * 8 + 2 * 4);
    assert_eq!(bytes[..8], 1_u64.to_ne_bytes());
    assert_eq!(bytes[64..68], 2_u32.to_ne_bytes());
    assert_eq!(bytes[Stats::SIZE - 8..], 3_u64.to_ne_bytes());
    let mut longer = bytes.to_vec();
    longer.extend([9; 8]);
    assert_eq!(Stats::from_bytes(&longer), Some(stats));
    assert_eq!(Stats::from_bytes(&bytes[1..]), None);
}
