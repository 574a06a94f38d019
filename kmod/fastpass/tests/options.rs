// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! fastpass's options and statistics: numbers, defaults, boundaries, and each refusal's sentence.

use super::message::{attribute, attributes, written};
use std::ffi::CStr;
use weft_mechanisms::common::nla::{Refusal, RefusalKind};
use weft_mechanisms::common::options::Configuration as _;
use weft_mechanisms::fastpass::options::{attr, Config, Options};
use weft_mechanisms::fastpass::queues::Order;
use weft_mechanisms::fastpass::stats::Stats;
use weft_mechanisms::fastpass::KIND;

const FIRST: u32 = 0x0a00_0002;

fn needed() -> Options {
    Options {
        address: Some(FIRST),
        first: Some(FIRST),
        hosts: Some(2),
        arbiter: Some(FIRST + 1),
        rate: Some(1_250_000_000),
        ..Options::default()
    }
}

fn everything() -> Options {
    Options {
        address: Some(FIRST + 256),
        first: Some(FIRST),
        hosts: Some(2),
        racks: Some(3),
        pods: Some(4),
        arbiter: Some(FIRST),
        port: Some(9999),
        rate: Some(1_250_000),
        timeslot: Some(1_300_000),
        overhead: Some(20),
        mpu: Some(64),
        limit: Some(77),
        late: Some(5),
        interval: Some(6),
        timeout: Some(10_007),
        standby: Some(FIRST + 9),
        skew: Some(10),
        paths: Some(256),
        report: Some(10_012),
        gather: Some(21),
        small_queue: Some(22),
        hold: Some(23),
        order: Some(Order::Rank),
        classes: Some(3),
        urgent: Some(26),
    }
}

#[test]
fn the_numbers_of_the_netlink_interface_never_change() {
    assert_eq!(KIND, "fastpass");
    let expected = attributes(&[
        (1, &(FIRST + 256).to_ne_bytes()),
        (2, &FIRST.to_ne_bytes()),
        (3, &2_u32.to_ne_bytes()),
        (4, &3_u32.to_ne_bytes()),
        (5, &4_u32.to_ne_bytes()),
        (6, &FIRST.to_ne_bytes()),
        (7, &9999_u32.to_ne_bytes()),
        (8, &1_250_000_u64.to_ne_bytes()),
        (9, &1_300_000_u64.to_ne_bytes()),
        (10, &20_u32.to_ne_bytes()),
        (11, &64_u32.to_ne_bytes()),
        (12, &77_u32.to_ne_bytes()),
        (13, &5_u64.to_ne_bytes()),
        (14, &6_u64.to_ne_bytes()),
        (16, &10_007_u64.to_ne_bytes()),
        (17, &(FIRST + 9).to_ne_bytes()),
        (18, &10_u64.to_ne_bytes()),
        (19, &256_u32.to_ne_bytes()),
        (20, &10_012_u64.to_ne_bytes()),
        (21, &21_u64.to_ne_bytes()),
        (22, &22_u64.to_ne_bytes()),
        (23, &23_u64.to_ne_bytes()),
        (24, &[2]),
        (25, &3_u32.to_ne_bytes()),
        (26, &26_u32.to_ne_bytes()),
    ]);
    assert_eq!(written(|message| everything().put(message)), expected);
    let config = Config::new(&everything()).unwrap();
    assert_eq!(written(|message| config.put(message)), expected);
    assert_eq!(Config::parse(&expected), Ok(config));
}

#[test]
fn the_timeslot_follows_from_the_rate_and_other_times_from_the_timeslot() {
    let config = Config::new(&needed()).unwrap();
    // 1538 bytes at 10 Gbit/s are 1230.4 ns.
    assert_eq!(config.timeslot, 1231);
    assert_eq!(config.terms().capacity, 1538);
    assert_eq!(config.late, 4 * 1231);
    assert_eq!(config.interval, 0);
    for (hosts, timeslots) in [(3, 16), (80, 16), (144, 28), (256, 51)] {
        let hosts = Some(hosts);
        let config = Config::new(&Options { hosts, ..needed() }).unwrap();
        assert_eq!(config.terms().interval, timeslots * 1231);
    }
    assert_eq!(config.timeout, 256 * 1231);
    assert_eq!(config.gather, 1231);
    assert_eq!((config.paths, config.report), (0, 512 * 1231));
    // However short a timeslot is, messages are not repeated without a pause.
    let quick = Options {
        rate: Some(50_000_000_000),
        ..needed()
    };
    assert_eq!(Config::new(&quick).unwrap().timeout, 10_000);
    let counted = [0, 1, 2, 256].map(|paths| {
        let paths = Some(paths);
        Config::new(&Options { paths, ..needed() })
            .unwrap()
            .counted_paths()
    });
    assert_eq!(counted, [0, 0, 2, 256]);
    assert_eq!((config.racks, config.pods, config.limit), (1, 1, 1000));
    let said = Options {
        timeslot: Some(2000),
        ..needed()
    };
    let config = Config::new(&said).unwrap();
    assert_eq!((config.late, config.terms().capacity), (8000, 2500));
    // The slowest link and the longest timeslot.
    let slow = Options {
        rate: Some(125),
        ..needed()
    };
    assert_eq!(Config::new(&slow).unwrap().timeslot, 1_000_000_000);
}

#[test]
fn a_packet_includes_the_ethernet_overhead_of_each_of_its_frames() {
    let config = Config::new(&needed()).unwrap();
    assert_eq!(config.cost(1514, 1), 1538);
    assert_eq!(config.cost(60, 1), 84);
    assert_eq!(config.cost(3000, 2), 3048);
    assert_eq!(config.cost(100, 2), 168);
    assert_eq!(config.cost(u32::MAX, u32::MAX), u32::MAX);
}

#[test]
fn missing_mandatory_options_are_refused_with_a_reason() {
    let without = [
        (
            Options {
                address: None,
                ..needed()
            },
            c"Address is required: the host's own",
        ),
        (
            Options {
                first: None,
                ..needed()
            },
            c"First is required: the address of endpoint 0",
        ),
        (
            Options {
                hosts: None,
                ..needed()
            },
            c"Hosts is required: how many a rack has",
        ),
        (
            Options {
                arbiter: None,
                ..needed()
            },
            c"Arbiter is required: its address",
        ),
        (
            Options {
                rate: None,
                ..needed()
            },
            c"Rate is required, for example rate 10gbit",
        ),
    ];
    for (options, sentence) in without {
        assert_eq!(Config::new(&options), Err(Refusal::invalid(sentence)));
    }
}

#[test]
fn endpoints_are_2_to_4096_and_the_host_is_one_of_them() {
    let refused = |options: Options, attr: u16, message: &'static CStr| {
        let refusal = Refusal {
            message,
            attr: Some(attr),
            kind: RefusalKind::Range,
        };
        assert_eq!(Config::new(&options), Err(refusal));
    };
    let with = |hosts, racks, pods| Options {
        hosts: Some(hosts),
        racks: Some(racks),
        pods: Some(pods),
        ..needed()
    };
    let count = c"Hosts times racks times pods must be between 2 and 4096";
    refused(with(1, 1, 1), attr::HOSTS, count);
    refused(with(256, 17, 1), attr::HOSTS, count);
    assert!(Config::new(&with(256, 16, 1)).is_ok());
    assert!(Config::new(&with(1, 2, 1)).is_ok());
    let elsewhere = Options {
        address: Some(FIRST + 2),
        ..needed()
    };
    let sentence = c"Address must be that of an endpoint, by first, hosts, racks and pods";
    refused(elsewhere, attr::ADDRESS, sentence);
    let beyond = Options {
        address: Some(u32::MAX),
        first: Some(u32::MAX),
        ..needed()
    };
    let sentence = c"The last endpoint would be beyond 255.255.255.255";
    refused(beyond, attr::FIRST, sentence);
    let short = Options {
        rate: Some(125),
        timeslot: Some(7_999_999),
        ..needed()
    };
    let sentence = c"In a timeslot the rate must send a byte at least";
    refused(short, attr::TIMESLOT, sentence);
    let same = Options {
        standby: needed().arbiter,
        ..needed()
    };
    let sentence = c"Standby must be another one than the arbiter";
    refused(same, attr::STANDBY, sentence);
}

#[test]
fn values_out_of_range_are_refused_with_a_reason() {
    let u32 = |value: u32| value.to_ne_bytes().to_vec();
    let u64 = |value: u64| value.to_ne_bytes().to_vec();
    for (attr, bad, good, message) in [
        (
            attr::HOSTS,
            u32(0),
            u32(1),
            c"Hosts of a rack must be between 1 and 256",
        ),
        (
            attr::HOSTS,
            u32(257),
            u32(256),
            c"Hosts of a rack must be between 1 and 256",
        ),
        (
            attr::RACKS,
            u32(257),
            u32(256),
            c"Racks of a pod must be between 1 and 256",
        ),
        (
            attr::PODS,
            u32(257),
            u32(256),
            c"Pods must be between 1 and 256",
        ),
        (
            attr::PORT,
            u32(0),
            u32(1),
            c"Port must be between 1 and 65535",
        ),
        (
            attr::PORT,
            u32(65_536),
            u32(65_535),
            c"Port must be between 1 and 65535",
        ),
        (
            attr::RATE,
            u64(124),
            u64(125),
            c"Rate must be between 1 kbit/s and 400 Gbit/s",
        ),
        (
            attr::TIMESLOT,
            u64(9),
            u64(10),
            c"Timeslot must be between 10 ns and 1 s",
        ),
        (
            attr::OVERHEAD,
            u32(1001),
            u32(1000),
            c"Overhead must be at most 1000 bytes",
        ),
        (
            attr::MPU,
            u32(2001),
            u32(2000),
            c"MPU must be at most 2000 bytes",
        ),
        (
            attr::LIMIT,
            u32(0),
            u32(1),
            c"Limit must be between 1 and 1000000 packets",
        ),
        (
            attr::LATE,
            u64(100_000_000_001),
            u64(0),
            c"Late must be at most 100 s",
        ),
        (
            attr::INTERVAL,
            u64(100_000_000_001),
            u64(0),
            c"Interval must be at most 100 s",
        ),
        (
            attr::TIMEOUT,
            u64(9_999),
            u64(10_000),
            c"Timeout must be between 10 us and 100 s",
        ),
        (
            attr::SKEW,
            u64(100_000_000_001),
            u64(100_000_000_000),
            c"Skew must be at most 100 s",
        ),
        (attr::PATHS, u32(257), u32(0), c"Paths must be at most 256"),
        (
            attr::REPORT,
            u64(9_999),
            u64(10_000),
            c"Report must be between 10 us and 100 s",
        ),
    ] {
        let refusal = Refusal {
            message,
            attr: Some(attr),
            kind: RefusalKind::Range,
        };
        assert_eq!(Options::parse(&attribute(attr, &bad)), Err(refusal));
        assert!(Options::parse(&attribute(attr, &good)).is_ok(), "{attr}");
    }
}

#[test]
fn a_class_has_eight_times_the_ranks_of_the_one_before_it() {
    let config = |classes, urgent| {
        let options = Options {
            classes: Some(classes),
            urgent: Some(urgent),
            ..needed()
        };
        Config::new(&options).unwrap()
    };
    let four = config(4, 1000);
    let ranks = [0, 999, 1000, 7999, 8000, 63_999, 64_000, u32::MAX];
    assert_eq!(ranks.map(|rank| four.class(rank)), [0, 0, 1, 1, 2, 2, 3, 3]);
    assert_eq!(
        ranks.map(|rank| config(2, 1000).class(rank)).iter().max(),
        Some(&1)
    );
    assert_eq!(ranks.map(|rank| config(1, 1).class(rank)), [0; 8]);
    let wide = config(4, u32::MAX);
    assert_eq!(
        [0, u32::MAX - 1, u32::MAX].map(|rank| wide.class(rank)),
        [0, 0, 1]
    );
    assert_eq!(Config::new(&needed()).unwrap().class(u32::MAX), 0);
}

#[test]
fn a_small_queue_covers_its_time() {
    let shift = |small_queue| {
        let small_queue = Some(small_queue);
        let options = Options {
            small_queue,
            ..needed()
        };
        Config::new(&options).unwrap().pacing_shift()
    };
    assert_eq!(Config::new(&needed()).unwrap().pacing_shift(), None);
    assert_eq!(shift(0), None);
    // 2^-10 s is a little less than 1 ms.
    assert_eq!((shift(1_000_000), shift(976_562)), (Some(9), Some(10)));
    // 1 s and more: the slowest fabrics.
    let slow = [500_000_000, 1_000_000_000, 1_000_000_001, 100_000_000_000];
    assert_eq!(slow.map(shift), [Some(1), Some(0), Some(0), Some(0)]);
    for small_queue in (0..37).map(|power| 1 << power) {
        let shift = shift(small_queue).unwrap();
        let allowed = 1_000_000_000_u64 >> shift;
        assert!(allowed >= small_queue || shift == 0, "{small_queue}");
        assert!(allowed < 2 * small_queue + 1, "{small_queue}");
    }
}

#[test]
fn options_agreed_with_the_arbiter_cannot_be_changed() {
    let config = Config::new(&everything()).unwrap();
    assert_eq!(config.updated(&Options::default()), Ok(config));
    // The same again is no change.
    assert_eq!(config.updated(&everything()), Ok(config));
    let allowed = Options {
        limit: Some(1),
        late: Some(2),
        interval: Some(3),
        timeout: Some(10_004),
        skew: Some(5),
        report: Some(10_006),
        gather: Some(7),
        small_queue: Some(8),
        hold: Some(9),
        urgent: Some(10),
        ..Options::default()
    };
    let changed = Config {
        limit: 1,
        late: 2,
        interval: 3,
        timeout: 10_004,
        skew: 5,
        report: 10_006,
        gather: 7,
        small_queue: 8,
        hold: 9,
        urgent: 10,
        ..config
    };
    assert_eq!(config.updated(&allowed), Ok(changed));
    let sentence =
        c"Only limit, late, gather, interval, timeout, skew, report, smallqueue, hold and urgent can be changed";
    let other = Options {
        timeslot: Some(1),
        ..Options::default()
    };
    assert!(config.updated(&other).is_err());
    let other = Options {
        paths: Some(1),
        ..Options::default()
    };
    assert_eq!(config.updated(&other), Err(Refusal::invalid(sentence)));
    let other = Options {
        arbiter: Some(1),
        ..Options::default()
    };
    assert_eq!(config.updated(&other), Err(Refusal::invalid(sentence)));
}

#[test]
fn statistics_have_no_padding_and_grow_at_the_end() {
    let stats = Stats {
        synchronised: 1,
        scheduled: 2,
        lost_packets: 3,
        ..Stats::from_bytes(&[0; Stats::SIZE]).unwrap()
    };
    let bytes = stats.to_bytes();
    assert_eq!(Stats::SIZE, 4 * 4 + 21 * 8);
    assert_eq!(bytes[..4], 1_u32.to_ne_bytes());
    assert_eq!(bytes[16..24], 2_u64.to_ne_bytes());
    assert_eq!(bytes[Stats::SIZE - 8..], 3_u64.to_ne_bytes());
    assert_eq!(Stats::from_bytes(&bytes), Some(stats));
    assert_eq!(Stats::from_bytes(&bytes[..Stats::SIZE - 1]), None);
}
