// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! resend's options and statistics: round trips, boundaries, and each refusal's sentence.

use super::message::{attribute, attributes, written, Message};

use weft_mechanisms::common::nla::{NoRoom, Refusal, RefusalKind};
use weft_mechanisms::common::options::Configuration as _;
use weft_mechanisms::resend::options::{attr, Config, Options, MAX_KEEP};
use weft_mechanisms::resend::stats::Stats;
use weft_mechanisms::resend::KIND;

fn keeping(keep: u32) -> Options {
    Options { keep: Some(keep) }
}

#[test]
fn the_numbers_of_the_netlink_interface_never_change() {
    assert_eq!((KIND, attr::KEEP, attr::PAD), ("resend", 1, 15));
    let expected = attributes(&[(1, &2000_u32.to_ne_bytes())]);
    assert_eq!(written(|message| keeping(2000).put(message)), expected);
    let config = Config::new(&keeping(2000)).unwrap();
    assert_eq!(written(|message| config.put(message)), expected);
    assert_eq!(Config::parse(&expected), Ok(config));
}

#[test]
fn a_switch_keeps_nothing() {
    assert_eq!(Config::new(&Options::default()), Ok(Config { keep: 0 }));
}

#[test]
fn keep_has_its_range() {
    let keep = |value: u32| attribute(attr::KEEP, &value.to_ne_bytes());
    assert_eq!(Options::parse(&keep(MAX_KEEP)), Ok(keeping(MAX_KEEP)));
    let expected = Refusal {
        message: c"Keep must be at most 16384 packets",
        attr: Some(attr::KEEP),
        kind: RefusalKind::Range,
    };
    assert_eq!(Options::parse(&keep(MAX_KEEP + 1)), Err(expected));
}

#[test]
fn a_change_cannot_begin_or_end_keeping() {
    let expected = Refusal {
        message: c"A change cannot begin or end keeping: delete the qdisc and add it",
        attr: None,
        kind: RefusalKind::Invalid,
    };
    let (none, some) = (Config { keep: 0 }, Config { keep: 9 });
    assert_eq!(none.updated(&keeping(9)), Err(expected));
    assert_eq!(some.updated(&keeping(0)), Err(expected));
    assert_eq!(some.updated(&keeping(8)), Ok(Config { keep: 8 }));
    assert_eq!(some.updated(&Options::default()), Ok(some));
    assert_eq!(none.updated(&Options::default()), Ok(none));
}

#[test]
fn a_message_without_room_is_reported_not_cut_short() {
    let config = Config { keep: 9 };
    let size = written(|message| config.put(message)).len();
    for room in 0..size {
        assert_eq!(config.put(&mut Message::with_room(room)), Err(NoRoom));
    }
}

#[test]
fn statistics_have_a_fixed_layout() {
    let stats = Stats {
        noticed: 1,
        unsent: 2,
        unnamed: 3,
        dropped_control: 4,
        waiting: 5,
        copies: 6,
        copied: 7,
        uncopied: 8,
        received: 9,
        resent: 10,
        missed: 11,
        failed: 12,
        malformed: 13,
    };
    let mut bytes: Vec<u8> = (1_u64..=4).flat_map(u64::to_ne_bytes).collect();
    bytes.extend([5_u32, 6].iter().flat_map(|it| it.to_ne_bytes()));
    bytes.extend((7_u64..=13).flat_map(u64::to_ne_bytes));
    assert_eq!(stats.to_bytes()[..], bytes);
    assert_eq!(Stats::from_bytes(&bytes), Some(stats));
    assert_eq!(Stats::from_bytes(&bytes[1..]), None);
}
