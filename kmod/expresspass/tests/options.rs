// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! expresspass's options and statistics: round trips, boundaries, and each refusal's sentence.

use super::config;
use super::netlink::{attribute, written, Message};

use weft_mechanisms::common::nla::{NoRoom, Refusal, RefusalKind};
use weft_mechanisms::common::options::Configuration as _;
use weft_mechanisms::expresspass::options::{attr, Config, Options};
use weft_mechanisms::expresspass::rate::ONE;
use weft_mechanisms::expresspass::stats::Stats;
use weft_mechanisms::expresspass::KIND;

#[test]
fn the_numbers_of_the_netlink_interface_never_change() {
    let numbers = [
        attr::RATE,
        attr::FRAME,
        attr::ALPHA,
        attr::WINIT,
        attr::LOSS,
        attr::FULL,
        attr::CREDITS,
        attr::FLOWS,
        attr::LIMIT,
        attr::TIMEOUT,
        attr::GATHER,
        attr::LINGER,
        attr::EARLY,
        attr::SMALL_QUEUE,
    ];
    assert!(numbers.into_iter().eq(1..=14));
    assert_eq!((KIND, attr::PAD), ("expresspass", 15));
    assert_eq!((attr::PORT, attr::LAW), (16, 17));
}

/// 84 / (84 + 1538) of the link's rate; α and `w_init` 1/2; a target loss of 10 %.
#[test]
fn the_defaults_are_the_papers() {
    let config = config(Options::default());
    let law = config.law();
    assert_eq!(law.gap, 1622 * 8 * 256 / 10);
    assert_eq!((law.alpha, law.w_init), (ONE / 2, ONE / 2));
    assert_eq!(law.target, ONE / 10);
    assert_eq!((config.credits, config.full), (8, 40));
    assert_eq!((config.gather, config.linger), (1230, 2460));
    assert_eq!(config.timeout, 1_230_000);
}

#[test]
fn the_rate_is_required() {
    let expected = Refusal {
        message: c"Rate is required, for example rate 10gbit",
        attr: None,
        kind: RefusalKind::Invalid,
    };
    assert_eq!(Config::new(&Options::default()), Err(expected));
}

#[test]
fn numbers_have_their_ranges() {
    for (attr, least, most, message) in [
        (
            attr::FRAME,
            84,
            10_000,
            c"Frame must be between 84 and 10000 bytes",
        ),
        (
            attr::ALPHA,
            1,
            1000,
            c"Alpha must be between 1 and 1000 thousandths",
        ),
        (
            attr::WINIT,
            1,
            500,
            c"Winit must be between 1 and 500 thousandths",
        ),
        (
            attr::FULL,
            1,
            65_535,
            c"Full must be between 1 and 65535 packets",
        ),
        (attr::CREDITS, 1, 64, c"Credits must be between 1 and 64"),
        (attr::FLOWS, 1, 4096, c"Flows must be between 1 and 4096"),
        (
            attr::LIMIT,
            1,
            100_000,
            c"Limit must be between 1 and 100000 packets",
        ),
        (attr::PORT, 1, 1023, c"Port must be between 1 and 1023"),
        (attr::LOSS, 0, 50, c"Loss must be at most 50 percent"),
    ] {
        let parse = |value: u32| Options::parse(&attribute(attr, &value.to_ne_bytes()));
        let expected = Refusal {
            message,
            attr: Some(attr),
            kind: RefusalKind::Range,
        };
        assert!(parse(least).is_ok() && parse(most).is_ok());
        assert_eq!(parse(most + 1), Err(expected));
        if least > 0 {
            assert_eq!(parse(least - 1), Err(expected));
        }
    }
}

#[test]
fn times_have_their_ranges() {
    for (attr, least, message) in [
        (
            attr::TIMEOUT,
            10_000,
            c"Timeout must be between 10 us and 100 s",
        ),
        (attr::GATHER, 0, c"Gather must be at most 100 s"),
        (attr::LINGER, 0, c"Linger must be at most 100 s"),
        (attr::SMALL_QUEUE, 0, c"Smallqueue must be at most 100 s"),
    ] {
        let parse = |value: u64| Options::parse(&attribute(attr, &value.to_ne_bytes()));
        assert!(parse(least).is_ok() && parse(100_000_000_000).is_ok());
        assert_eq!(parse(100_000_000_001).unwrap_err().message, message);
        if least > 0 {
            assert_eq!(parse(least - 1).unwrap_err().message, message);
        }
    }
}

#[test]
fn flows_and_limit_stay() {
    let config = config(Options::default());
    let expected = Refusal {
        message: c"Flows and limit cannot be changed: delete the qdisc and add it",
        attr: None,
        kind: RefusalKind::Invalid,
    };
    for options in [
        Options {
            flows: Some(7),
            ..Options::default()
        },
        Options {
            limit: Some(7),
            ..Options::default()
        },
    ] {
        assert_eq!(config.updated(&options), Err(expected));
    }
    let options = Options {
        alpha: Some(64),
        early: Some(true),
        ..Options::default()
    };
    let expected = Config {
        alpha: 64,
        early: true,
        ..config
    };
    assert_eq!(config.updated(&options), Ok(expected));
}

#[test]
fn a_configuration_is_read_as_it_was_written() {
    let config = config(Options::default());
    let bytes = written(|message| config.put(message));
    assert_eq!(Config::parse(&bytes), Ok(config));
    for room in 0..bytes.len() {
        assert_eq!(config.put(&mut Message::with_room(room)), Err(NoRoom));
    }
}

#[test]
fn the_pacing_shift_covers_the_small_queue() {
    let shift = |small_queue| {
        config(Options {
            small_queue: Some(small_queue),
            ..Options::default()
        })
        .pacing_shift()
    };
    assert_eq!(shift(0), None);
    assert_eq!(shift(1_000_000), Some(9));
    assert_eq!(shift(100_000_000_000), Some(0));
}

#[test]
fn statistics_have_a_fixed_layout() {
    let bytes: Vec<u8> = (1_u32..=4).flat_map(u32::to_ne_bytes).collect();
    let bytes: Vec<u8> = bytes
        .into_iter()
        .chain((5_u64..=23).flat_map(u64::to_ne_bytes))
        .collect();
    let stats = Stats::from_bytes(&bytes).unwrap();
    assert_eq!(stats.to_bytes()[..], bytes);
    assert_eq!((stats.waiting, stats.queued, stats.used), (1, 4, 5));
    assert_eq!((stats.sent, stats.lost, stats.malformed), (12, 15, 23));
    assert_eq!(Stats::from_bytes(&bytes[1..]), None);
}
