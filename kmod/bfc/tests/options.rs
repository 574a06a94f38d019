// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Options of the `bfc` qdisc: read, refused with a sentence, written, changed.

use super::message::{attribute, attributes, written};
use proptest::prelude::*;
use std::ffi::CStr;
use weft_mechanisms::bfc::options::{
    attr, Assign, Config, Devices, Options, Pushback, Scheduler, MAX_ALPHA, MAX_ENTRIES,
    STICKY_AUTO,
};
use weft_mechanisms::bfc::KIND;
use weft_mechanisms::common::nla::{Refusal, RefusalKind};
use weft_mechanisms::common::options::Configuration as _;

/// The minimal options of a qdisc: the paper's link, 100 Gbit/s and 2 µs.
fn least() -> Options {
    Options {
        rate: Some(12_500_000_000),
        hrtt: Some(2_000),
        ..Options::default()
    }
}

fn devices(indices: &[u32]) -> Devices {
    let mut devices = Devices::NONE;
    assert!(indices.iter().all(|index| devices.push(*index)));
    devices
}

fn everything() -> Options {
    Options {
        queues: Some(128),
        factor: Some(25),
        assign: Some(Assign::Stochastic),
        scheduler: Some(Scheduler::Fq),
        classes: Some(4),
        incast: Some(7),
        sample: Some(50),
        rate: Some(1_250_000),
        hrtt: Some(2_000_000),
        th: Some(3_000),
        sticky: Some(5_000_000),
        limit: Some(1_000_000),
        buffer: Some(2_000_000),
        refresh: Some(20_000_000),
        quantum: Some(1_514),
        elide: Some(devices(&[3, 9])),
        alpha: Some(64),
        hold: Some(400_000_000),
        watchdog: Some(2_000_000_000),
        pushback: Some(Pushback::Backlogged),
        scale: Some(150),
        control: Some(0),
    }
}

/// The attributes of `everything`, by hand.
fn all_attributes() -> Vec<(u16, Vec<u8>)> {
    let u32s = |value: u32| value.to_ne_bytes().to_vec();
    let u64s = |value: u64| value.to_ne_bytes().to_vec();
    vec![
        // In the order of a dump.
        (8, u64s(1_250_000)),
        (9, u64s(2_000_000)),
        (10, u32s(3_000)),
        (1, u32s(128)),
        (2, u32s(25)),
        (3, vec![1]),
        (4, vec![0]),
        (5, vec![4]),
        (6, u32s(7)),
        (7, vec![50]),
        (11, u64s(5_000_000)),
        (12, u32s(1_000_000)),
        (13, u32s(2_000_000)),
        (14, u64s(20_000_000)),
        (16, u32s(1_514)),
        (17, [u32s(3), u32s(9)].concat()),
        (18, u32s(64)),
        (19, u64s(400_000_000)),
        (20, u64s(2_000_000_000)),
        (21, vec![1]),
        (22, u32s(150)),
        (23, u32s(0)),
    ]
}

fn joined(list: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let list: Vec<(u16, &[u8])> = list
        .iter()
        .map(|(attr, payload)| (*attr, &payload[..]))
        .collect();
    attributes(&list)
}

fn range(message: &'static CStr, attr: u16) -> Refusal {
    Refusal {
        message,
        attr: Some(attr),
        kind: RefusalKind::Range,
    }
}

#[test]
fn the_numbers_of_the_netlink_interface_never_change() {
    assert_eq!(KIND, "bfc");
    let expected = joined(&all_attributes());
    assert_eq!(written(|message| everything().put(message)), expected);
    assert_eq!(Options::parse(&expected), Ok(everything()));
    let config = Config::new(&everything()).unwrap();
    assert_eq!(written(|message| config.put(message)), expected);
    let pad = joined(&[(attr::PAD, vec![])]);
    assert_eq!(Options::parse(&pad), Ok(Options::default()));
}

#[test]
fn a_new_port_has_the_defaults_of_the_paper() {
    let config = Config::new(&least()).unwrap();
    let expected = Config {
        queues: 32,
        factor: 100,
        assign: Assign::Dynamic,
        scheduler: Scheduler::Fq,
        classes: 1,
        incast: None,
        sample: 100,
        rate: 12_500_000_000,
        hrtt: 2_000,
        th: 0,
        sticky: STICKY_AUTO,
        limit: 0,
        buffer: 12_000_000,
        refresh: 20_000,
        quantum: 0,
        elide: Devices::NONE,
        alpha: 8 * 128,
        hold: 1_000_000_000,
        watchdog: 0,
        pushback: Pushback::All,
        scale: 100,
        control: None,
    };
    assert_eq!(config, expected);
}

#[test]
fn a_threshold_is_required() {
    let required = Refusal::invalid(c"A threshold is required: rate and hrtt, or th");
    let (rate, hrtt, th) = (Some(1_000_000), Some(1_000), Some(1));
    for (options, accepted) in [
        (Options::default(), false),
        (
            Options {
                rate,
                ..Options::default()
            },
            false,
        ),
        (
            Options {
                hrtt,
                ..Options::default()
            },
            false,
        ),
        (
            Options {
                rate,
                hrtt: Some(0),
                ..Options::default()
            },
            false,
        ),
        (
            Options {
                rate: Some(0),
                hrtt,
                th: Some(0),
                ..Options::default()
            },
            false,
        ),
        (
            Options {
                rate,
                hrtt,
                ..Options::default()
            },
            true,
        ),
        (
            Options {
                th,
                ..Options::default()
            },
            true,
        ),
    ] {
        let result = Config::new(&options);
        if accepted {
            assert!(result.is_ok(), "{options:?}");
        } else {
            assert_eq!(result, Err(required), "{options:?}");
        }
    }
    // Nor can it be removed.
    let running = Config::new(&Options {
        th,
        ..Options::default()
    })
    .unwrap();
    let change = Options {
        th: Some(0),
        ..Options::default()
    };
    assert_eq!(running.updated(&change), Err(required));
    let change = Options {
        rate,
        hrtt,
        ..change
    };
    assert!(running.updated(&change).is_ok());
}

#[test]
fn the_refresh_is_ten_hrtt_by_default() {
    let refresh = |options: Options| Config::new(&options).unwrap().refresh;
    assert_eq!(refresh(least()), 20_000);
    assert_eq!(
        refresh(Options {
            hrtt: Some(10),
            ..least()
        }),
        10_000,
        "at least 10 µs"
    );
    let second = Options {
        hrtt: Some(10_000_000_000),
        ..least()
    };
    assert_eq!(refresh(second), 10_000_000_000, "at most 10 s");
    let unknown = Options {
        th: Some(1),
        ..Options::default()
    };
    assert_eq!(refresh(unknown), 1_000_000);
    assert_eq!(
        refresh(Options {
            refresh: Some(77_000),
            ..least()
        }),
        77_000
    );
}

#[test]
fn by_default_a_frame_is_obeyed_for_sixteen_refreshes_and_at_least_a_second() {
    let hold = |options: Options| Config::new(&options).unwrap().hold;
    let refresh = |refresh| Options {
        refresh: Some(refresh),
        ..least()
    };
    assert_eq!(hold(refresh(62_500_000)), 1_000_000_000);
    assert_eq!(hold(refresh(62_500_001)), 1_000_000_016);
    assert_eq!(hold(refresh(10_000_000_000)), 60_000_000_000, "at most");
    // Four times the hold time of a neighbour with the same options, whatever the fabric's times
    // are.
    let slow = Options {
        hrtt: Some(100_000_000),
        ..least()
    };
    assert_eq!(hold(slow), 4 * 4 * 10 * 100_000_000);
    let said = Options {
        hold: Some(77_000),
        ..slow
    };
    assert_eq!(hold(said), 77_000);
    // As with the refresh, a computed default does not change later.
    let config = Config::new(&least()).unwrap();
    assert_eq!(config.updated(&slow).unwrap().hold, 1_000_000_000);
}

#[test]
fn the_flow_table_has_at_most_131072_entries() {
    let entries = |queues, factor| {
        Config::new(&Options {
            queues: Some(queues),
            factor,
            ..least()
        })
    };
    let refused = Err(Refusal::invalid(
        c"Queues times factor must be at most 131072",
    ));
    // The default factor is valid with any number of queues, and the largest one with the default.
    for (queues, factor) in [
        (2, Some(1000)),
        (32, Some(1000)),
        (131, Some(1000)),
        (1024, Some(128)),
        (1024, None),
        (1024, Some(16)),
    ] {
        let config = entries(queues, factor).unwrap();
        assert!(config.queues * config.factor <= MAX_ENTRIES);
    }
    for (queues, factor) in [(1024, 129), (1024, 1000), (132, 1000), (500, 263)] {
        assert_eq!(entries(queues, Some(factor)), refused, "{queues}, {factor}");
    }
}

/// A value of an option, as a request.
type Say = fn(u64) -> Options;

#[test]
fn each_value_has_its_range() {
    let of = Options::default;
    let cases: [(Say, u16, u64, u64, &CStr); 13] = [
        (
            |n| Options {
                queues: Some(n as u32),
                ..Options::default()
            },
            attr::QUEUES,
            2,
            1024,
            c"Queues must be between 2 and 1024",
        ),
        (
            |n| Options {
                factor: Some(n as u32),
                ..Options::default()
            },
            attr::FACTOR,
            1,
            1000,
            c"Factor must be between 1 and 1000",
        ),
        (
            |n| Options {
                classes: Some(n as u8),
                ..Options::default()
            },
            attr::CLASSES,
            1,
            8,
            c"Classes must be between 1 and 8",
        ),
        (
            |n| Options {
                sample: Some(n as u8),
                ..Options::default()
            },
            attr::SAMPLE,
            1,
            100,
            c"Sample must be between 1 and 100 percent",
        ),
        (
            |n| Options {
                rate: Some(n),
                ..Options::default()
            },
            attr::RATE,
            125,
            50_000_000_000,
            c"Rate must be between 1 kbit/s and 400 Gbit/s",
        ),
        (
            |n| Options {
                hrtt: Some(n),
                ..Options::default()
            },
            attr::HRTT,
            0,
            10_000_000_000,
            c"HRTT must be at most 10 s",
        ),
        (
            |n| Options {
                sticky: Some(n),
                ..Options::default()
            },
            attr::STICKY,
            0,
            10_000_000_000,
            c"Sticky time must be at most 10 s",
        ),
        (
            |n| Options {
                refresh: Some(n),
                ..Options::default()
            },
            attr::REFRESH,
            10_000,
            10_000_000_000,
            c"Refresh must be between 10 us and 10 s",
        ),
        (
            |n| Options {
                quantum: Some(n as u32),
                ..Options::default()
            },
            attr::QUANTUM,
            0,
            1 << 20,
            c"Quantum must be at most 1048576 bytes",
        ),
        (
            |n| Options {
                alpha: Some(n as u32),
                ..Options::default()
            },
            attr::ALPHA,
            0,
            16_384,
            c"Alpha must be between 1/128 and 128, or off",
        ),
        (
            |n| Options {
                hold: Some(n),
                ..Options::default()
            },
            attr::HOLD,
            10_000,
            60_000_000_000,
            c"Hold must be between 10 us and 60 s",
        ),
        (
            |n| Options {
                watchdog: Some(n),
                ..Options::default()
            },
            attr::WATCHDOG,
            0,
            60_000_000_000,
            c"Watchdog must be at most 60 s",
        ),
        (
            |n| Options {
                scale: Some(n as u32),
                ..Options::default()
            },
            attr::SCALE,
            1,
            10_000,
            c"Scale must be between 1 and 10000 percent",
        ),
    ];
    for (say, attr, least, most, sentence) in cases {
        for value in [least, least + 1, most - 1, most] {
            let options = say(value);
            assert_eq!(options.check(), Ok(()), "{attr}: {value}");
            let bytes = written(|message| options.put(message));
            assert_eq!(Options::parse(&bytes), Ok(options));
        }
        let below = least.checked_sub(1).filter(|_| attr != attr::RATE);
        for value in [Some(most + 1), below].into_iter().flatten() {
            let options = say(value);
            let refused = Err(range(sentence, attr));
            assert_eq!(options.check(), refused, "{attr}: {value}");
            let bytes = written(|message| options.put(message));
            assert_eq!(Options::parse(&bytes), refused.map(|()| of()));
            assert_eq!(Config::new(&options), refused.map(|()| unreachable!()));
            let running = Config::new(&self::least()).unwrap();
            assert_eq!(running.updated(&options), refused.map(|()| running));
        }
    }
    // 0 means no rate; 1 to 124 are too low.
    let rate = |rate| {
        Options {
            rate: Some(rate),
            ..Options::default()
        }
        .check()
    };
    assert_eq!(rate(0), Ok(()));
    assert!(rate(1).is_err() && rate(124).is_err());
    let auto = Options {
        sticky: Some(STICKY_AUTO),
        ..Options::default()
    };
    assert_eq!(auto.check(), Ok(()));
}

#[test]
fn choices_are_numbers() {
    let parse = |attr, byte| Options::parse(&attribute(attr, &[byte]));
    for (byte, assign) in (0..).zip([Assign::Dynamic, Assign::Stochastic, Assign::Single]) {
        assert_eq!(parse(attr::ASSIGN, byte).unwrap().assign, Some(assign));
    }
    for (byte, scheduler) in (0..).zip([Scheduler::Fq, Scheduler::Srf]) {
        assert_eq!(
            parse(attr::SCHEDULER, byte).unwrap().scheduler,
            Some(scheduler)
        );
    }
    for (byte, pushback) in (0..).zip([Pushback::All, Pushback::Backlogged]) {
        assert_eq!(
            parse(attr::PUSHBACK, byte).unwrap().pushback,
            Some(pushback)
        );
    }
    for byte in 3..=u8::MAX {
        let refused = range(c"Assignment must be 0, 1 or 2", attr::ASSIGN);
        assert_eq!(parse(attr::ASSIGN, byte), Err(refused));
    }
    for byte in 2..=u8::MAX {
        let refused = range(c"Scheduler must be 0 or 1", attr::SCHEDULER);
        assert_eq!(parse(attr::SCHEDULER, byte), Err(refused));
        let refused = range(c"Pushback must be 0 or 1", attr::PUSHBACK);
        assert_eq!(parse(attr::PUSHBACK, byte), Err(refused));
    }
}

#[test]
fn up_to_64_devices_are_elided_and_none_has_index_0() {
    let parse = |indices: &[u32]| {
        let payload: Vec<u8> = indices
            .iter()
            .flat_map(|index| index.to_ne_bytes())
            .collect();
        Options::parse(&attribute(attr::ELIDE, &payload))
    };
    let all: Vec<u32> = (1..=64).collect();
    assert_eq!(parse(&all).unwrap().elide.unwrap().indices(), &all[..]);
    assert_eq!(parse(&[]).unwrap().elide.unwrap().indices(), &[] as &[u32]);
    let refused = range(c"At most 64 devices can be elided", attr::ELIDE);
    assert_eq!(parse(&(1..=65).collect::<Vec<_>>()), Err(refused));
    let refused = range(c"A device's index must not be 0", attr::ELIDE);
    assert_eq!(parse(&[5, 0]), Err(refused));
    let mut full = devices(&all);
    assert!(!full.push(65));
    assert_eq!(full.indices().len(), 64);
}

#[test]
fn srf_has_one_class_and_no_label() {
    let srf = Options {
        scheduler: Some(Scheduler::Srf),
        ..least()
    };
    assert!(Config::new(&srf).is_ok());
    let sentence = c"srf takes the rank for a size: it has one class and no incast label";
    for options in [
        Options {
            classes: Some(2),
            ..srf
        },
        Options {
            incast: Some(0),
            ..srf
        },
    ] {
        assert_eq!(Config::new(&options), Err(Refusal::invalid(sentence)));
    }
}

#[test]
fn each_class_has_a_queue() {
    let sentence = c"Each class needs a queue, or two if there is an incast label";
    for classes in 1..=8 {
        for (incast, least_queues) in [(None, classes + 1), (Some(3), 2 * classes + 1)] {
            let options = |queues: u8| Options {
                queues: Some(queues.into()),
                classes: Some(classes),
                incast,
                ..least()
            };
            assert!(Config::new(&options(least_queues)).is_ok());
            if least_queues > 2 {
                let refused = Err(Refusal::invalid(sentence));
                assert_eq!(Config::new(&options(least_queues - 1)), refused);
            }
        }
    }
}

#[test]
fn options_that_decide_where_packets_are_cannot_be_changed() {
    let running = Config::new(&everything()).unwrap();
    assert_eq!(
        running.updated(&everything()),
        Ok(running),
        "the same may be said"
    );
    assert_eq!(running.updated(&Options::default()), Ok(running));
    let sentence =
        c"Queues, factor, assign, scheduler, classes, incast and control cannot be changed";
    for options in [
        Options {
            queues: Some(129),
            ..Options::default()
        },
        Options {
            factor: Some(26),
            ..Options::default()
        },
        Options {
            assign: Some(Assign::Dynamic),
            ..Options::default()
        },
        Options {
            scheduler: Some(Scheduler::Srf),
            ..Options::default()
        },
        Options {
            classes: Some(1),
            ..Options::default()
        },
        Options {
            incast: Some(8),
            ..Options::default()
        },
        Options {
            control: Some(1),
            ..Options::default()
        },
    ] {
        assert_eq!(running.updated(&options), Err(Refusal::invalid(sentence)));
    }
    let plain = Config::new(&least()).unwrap();
    let incast = Options {
        incast: Some(0),
        ..Options::default()
    };
    let control = Options {
        control: Some(0),
        ..Options::default()
    };
    for label in [incast, control] {
        assert_eq!(plain.updated(&label), Err(Refusal::invalid(sentence)));
    }
}

#[test]
fn a_rank_is_not_the_label_of_both_incasts_and_control_packets() {
    let both = |control, incast| {
        Config::new(&Options {
            control: Some(control),
            incast: Some(incast),
            ..least()
        })
    };
    let sentence = c"The ranks of control packets and of incasts must differ";
    assert!(both(0, 1).is_ok());
    for rank in [0, 7, u32::MAX] {
        assert_eq!(both(rank, rank), Err(Refusal::invalid(sentence)));
    }
    // Under srf no data has rank 0, the rank of packets without payload.
    let srf = Options {
        scheduler: Some(Scheduler::Srf),
        control: Some(0),
        ..least()
    };
    assert_eq!(Config::new(&srf).unwrap().control, Some(0));
}

#[test]
fn a_change_keeps_the_options_that_it_omits() {
    let running = Config::new(&least()).unwrap();
    let change = |options: Options| running.updated(&options).unwrap();
    let of = Options::default;
    for (options, expected) in [
        (
            Options {
                sample: Some(9),
                ..of()
            },
            Config {
                sample: 9,
                ..running
            },
        ),
        (
            Options {
                rate: Some(125),
                ..of()
            },
            Config {
                rate: 125,
                ..running
            },
        ),
        (
            Options {
                hrtt: Some(9),
                ..of()
            },
            Config { hrtt: 9, ..running },
        ),
        (
            Options {
                th: Some(9),
                ..of()
            },
            Config { th: 9, ..running },
        ),
        (
            Options {
                sticky: Some(9),
                ..of()
            },
            Config {
                sticky: 9,
                ..running
            },
        ),
        (
            Options {
                limit: Some(9),
                ..of()
            },
            Config {
                limit: 9,
                ..running
            },
        ),
        (
            Options {
                buffer: Some(0),
                ..of()
            },
            Config {
                buffer: 0,
                ..running
            },
        ),
        (
            Options {
                refresh: Some(10_000),
                ..of()
            },
            Config {
                refresh: 10_000,
                ..running
            },
        ),
        (
            Options {
                quantum: Some(9),
                ..of()
            },
            Config {
                quantum: 9,
                ..running
            },
        ),
        (
            Options {
                elide: Some(devices(&[5])),
                ..of()
            },
            Config {
                elide: devices(&[5]),
                ..running
            },
        ),
        (
            Options {
                alpha: Some(0),
                ..of()
            },
            Config {
                alpha: 0,
                ..running
            },
        ),
        (
            Options {
                hold: Some(20_000),
                ..of()
            },
            Config {
                hold: 20_000,
                ..running
            },
        ),
        (
            Options {
                watchdog: Some(9),
                ..of()
            },
            Config {
                watchdog: 9,
                ..running
            },
        ),
    ] {
        assert_eq!(change(options), expected);
    }
}

#[test]
fn a_dump_has_all_attributes_except_an_absent_label() {
    let lacking = Refusal::invalid(c"The dump lacks an attribute");
    for missing in 0..all_attributes().len() {
        let mut rest = all_attributes();
        let (attr, _) = rest.remove(missing);
        let parsed = Config::parse(&joined(&rest));
        match attr {
            attr::INCAST => assert_eq!(parsed.map(|config| config.incast), Ok(None)),
            attr::CONTROL => assert_eq!(parsed.map(|config| config.control), Ok(None)),
            _ => assert_eq!(parsed, Err(lacking), "{attr}"),
        }
    }
    // From a newer kernel.
    let newer = [all_attributes(), vec![(99, vec![1, 2, 3])]].concat();
    assert_eq!(Config::parse(&joined(&newer)), Config::new(&everything()));
}

proptest! {
    #[test]
    fn a_restored_dump_makes_the_same_port(
        queues in 17..=1024_u32, factor in 1..=1000_u32, classes in 1..=8_u8, incast: Option<u32>,
        sample in 1..=100_u8, th in 1..=u32::MAX, limit: u32, buffer: u32,
        elide in prop::collection::vec(1..=u32::MAX, 0..=64), quantum in 0..=1_u32 << 20,
        alpha in 0..=MAX_ALPHA, hold in 10_000..=60_000_000_000_u64, watchdog in 0..=60_000_000_000_u64,
        scale in 1..=10_000_u32, control: Option<u32>,
    ) {
        let options = Options {
            queues: Some(queues),
            factor: Some(factor.min(MAX_ENTRIES / queues)),
            alpha: Some(alpha),
            hold: Some(hold),
            watchdog: Some(watchdog),
            classes: Some(classes),
            incast,
            sample: Some(sample),
            th: Some(th),
            limit: Some(limit),
            buffer: Some(buffer),
            quantum: Some(quantum),
            elide: Some(devices(&elide)),
            pushback: Some([Pushback::All, Pushback::Backlogged][usize::from(sample & 1)]),
            scale: Some(scale),
            control: control.filter(|control| incast != Some(*control)),
            ..Options::default()
        };
        let config = Config::new(&options).unwrap();
        let dump = written(|message| config.put(message));
        prop_assert_eq!(Config::parse(&dump), Ok(config));
        let restored = Options::parse(&dump).and_then(|options| Config::new(&options));
        prop_assert_eq!(restored, Ok(config));
        prop_assert_eq!(config.updated(&Options::parse(&dump).unwrap()), Ok(config));
    }
}
