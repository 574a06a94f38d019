// SPDX-License-Identifier: MIT OR Apache-2.0

//! `tc qdisc … bfc …`, and `tc -s class show`.

use crate::recorded_tc::{Message, Printed, complaint, request, shown, statistics};
use weft_mechanisms::bfc::options::{
    Assign, Config, Devices, Options, Pushback, STICKY_AUTO, Scheduler,
};
use weft_mechanisms::bfc::stats::{QueueStats, Stats};
use weft_mechanisms::common::nla::Refusal;
use weft_mechanisms::common::options::Configuration as _;
use weft_tc::args::Complaint;

use weft_tc::statistics::TooShort;

fn usage() -> String {
    weft_tc::options::usage(&weft_mechanisms::bfc::QDISC)
}

fn said(command: &str) -> Options {
    Options::parse(&request(&weft_mechanisms::bfc::QDISC, command).unwrap()).unwrap()
}

fn devices(indices: &[u32]) -> Option<Devices> {
    let mut devices = Devices::NONE;
    assert!(indices.iter().all(|index| devices.push(*index)));
    Some(devices)
}

fn dump(config: Config) -> Vec<u8> {
    let mut message = Message::default();
    config.put(&mut message).unwrap();
    message.0
}

#[test]
fn no_words_request_nothing() {
    assert_eq!(request(&weft_mechanisms::bfc::QDISC, ""), Ok(vec![]));
}

#[test]
fn each_option_is_encoded_as_its_attribute() {
    let of = Options::default;
    for (command, expected) in [
        (
            "rate 10mbit",
            Options {
                rate: Some(1_250_000),
                ..of()
            },
        ),
        (
            "hrtt 2us",
            Options {
                hrtt: Some(2_000),
                ..of()
            },
        ),
        (
            "th 25kb",
            Options {
                th: Some(25_600),
                ..of()
            },
        ),
        (
            "queues 128",
            Options {
                queues: Some(128),
                ..of()
            },
        ),
        (
            "factor 25",
            Options {
                factor: Some(25),
                ..of()
            },
        ),
        (
            "assign dynamic",
            Options {
                assign: Some(Assign::Dynamic),
                ..of()
            },
        ),
        (
            "assign stochastic",
            Options {
                assign: Some(Assign::Stochastic),
                ..of()
            },
        ),
        (
            "assign single",
            Options {
                assign: Some(Assign::Single),
                ..of()
            },
        ),
        (
            "scheduler fq",
            Options {
                scheduler: Some(Scheduler::Fq),
                ..of()
            },
        ),
        (
            "scheduler srf",
            Options {
                scheduler: Some(Scheduler::Srf),
                ..of()
            },
        ),
        (
            "classes 4",
            Options {
                classes: Some(4),
                ..of()
            },
        ),
        (
            "incast 4294967295",
            Options {
                incast: Some(u32::MAX),
                ..of()
            },
        ),
        (
            "sample 50",
            Options {
                sample: Some(50),
                ..of()
            },
        ),
        (
            "sample 50%",
            Options {
                sample: Some(50),
                ..of()
            },
        ),
        (
            "sticky 5us",
            Options {
                sticky: Some(5_000),
                ..of()
            },
        ),
        (
            "sticky auto",
            Options {
                sticky: Some(STICKY_AUTO),
                ..of()
            },
        ),
        (
            "limit 1kb",
            Options {
                limit: Some(1_024),
                ..of()
            },
        ),
        (
            "buffer 0",
            Options {
                buffer: Some(0),
                ..of()
            },
        ),
        (
            "refresh 20us",
            Options {
                refresh: Some(20_000),
                ..of()
            },
        ),
        (
            "quantum 1514",
            Options {
                quantum: Some(1_514),
                ..of()
            },
        ),
        (
            "alpha 8",
            Options {
                alpha: Some(1024),
                ..of()
            },
        ),
        (
            "alpha 1/16",
            Options {
                alpha: Some(8),
                ..of()
            },
        ),
        (
            "alpha off",
            Options {
                alpha: Some(0),
                ..of()
            },
        ),
        (
            "hold 20us",
            Options {
                hold: Some(20_000),
                ..of()
            },
        ),
        (
            "watchdog 2s",
            Options {
                watchdog: Some(2_000_000_000),
                ..of()
            },
        ),
        (
            "watchdog off",
            Options {
                watchdog: Some(0),
                ..of()
            },
        ),
        (
            "pushback backlogged",
            Options {
                pushback: Some(Pushback::Backlogged),
                ..of()
            },
        ),
        (
            "scale 150%",
            Options {
                scale: Some(150),
                ..of()
            },
        ),
        (
            "control 0",
            Options {
                control: Some(0),
                ..of()
            },
        ),
        (
            // A missing device in its printed form.
            "elide if4 elide eth3",
            Options {
                elide: devices(&[4, 3]),
                ..of()
            },
        ),
        (
            "elide eth3",
            Options {
                elide: devices(&[3]),
                ..of()
            },
        ),
        (
            "elide eth3 elide eth9",
            Options {
                elide: devices(&[3, 9]),
                ..of()
            },
        ),
        (
            "noelide",
            Options {
                elide: devices(&[]),
                ..of()
            },
        ),
    ] {
        assert_eq!(said(command), expected, "{command}");
    }
}

#[test]
fn options_come_in_any_order() {
    let one = "rate 10mbit hrtt 2us queues 64 elide eth1 classes 2";
    let other = "classes 2 elide eth1 hrtt 2us queues 64 rate 10mbit";
    assert_eq!(
        request(&weft_mechanisms::bfc::QDISC, one),
        request(&weft_mechanisms::bfc::QDISC, other)
    );
}

#[test]
fn values_out_of_range_are_refused_as_the_kernel_would() {
    for (command, sentence) in [
        ("queues 1", "Queues must be between 2 and 1024"),
        ("queues 1025", "Queues must be between 2 and 1024"),
        ("queues 4294967298", "Queues must be between 2 and 1024"),
        ("factor 0", "Factor must be between 1 and 1000"),
        ("classes 9", "Classes must be between 1 and 8"),
        ("classes 257", "Classes must be between 1 and 8"),
        ("sample 0", "Sample must be between 1 and 100 percent"),
        ("sample 101%", "Sample must be between 1 and 100 percent"),
        (
            "rate 124bps",
            "Rate must be between 1 kbit/s and 400 Gbit/s",
        ),
        ("hrtt 11s", "HRTT must be at most 10 s"),
        ("sticky 11s", "Sticky time must be at most 10 s"),
        ("refresh 9us", "Refresh must be between 10 us and 10 s"),
        ("quantum 1048577", "Quantum must be at most 1048576 bytes"),
        ("alpha 129", "Alpha must be between 1/128 and 128, or off"),
        (
            "alpha 18446744073709551615",
            "Alpha must be between 1/128 and 128, or off",
        ),
        ("hold 9us", "Hold must be between 10 us and 60 s"),
        ("hold 61s", "Hold must be between 10 us and 60 s"),
        ("watchdog 61s", "Watchdog must be at most 60 s"),
        ("scale 0", "Scale must be between 1 and 10000 percent"),
        ("scale 10001%", "Scale must be between 1 and 10000 percent"),
    ] {
        let error = format!("Error: {sentence}.\n");
        assert_eq!(
            complaint(&weft_mechanisms::bfc::QDISC, command),
            error,
            "{command}"
        );
    }
    let many: Vec<String> = (1..=65).map(|index| format!("elide eth{index}")).collect();
    let error = "Error: At most 64 devices can be elided.\n";
    assert_eq!(
        complaint(&weft_mechanisms::bfc::QDISC, &many.join(" ")),
        error
    );
    assert!(request(&weft_mechanisms::bfc::QDISC, &many[..64].join(" ")).is_ok());
}

#[test]
fn an_illegal_value_is_named_with_what_is_expected() {
    for (command, expected) in [
        ("rate X", "a rate, for example 10gbit"),
        ("hrtt X", "a time, for example 20us"),
        ("th X", "a size of at most 4294967295 bytes"),
        ("queues X", "a number of queues"),
        ("factor X", "a number"),
        ("assign X", "dynamic, stochastic or single"),
        ("scheduler X", "fq or srf"),
        ("classes X", "a number"),
        ("incast 4294967296", "a rank"),
        ("sample X", "a percentage"),
        ("sticky X", "a time, for example 20us, or auto"),
        ("limit X", "a size of at most 4294967295 bytes"),
        ("buffer X", "a size of at most 4294967295 bytes"),
        ("refresh X", "a time, for example 20us"),
        ("quantum X", "a size of at most 4294967295 bytes"),
        ("elide X", "a device"),
        ("elide if0", "a device"),
        ("elide if", "a device"),
        ("elide ifX", "a device"),
        ("elide if4294967296", "a device"),
        (
            "alpha 1/3",
            "a number or fraction, for example 8 or 1/2, or off",
        ),
        (
            "alpha 1/",
            "a number or fraction, for example 8 or 1/2, or off",
        ),
        (
            "alpha 1/0",
            "a number or fraction, for example 8 or 1/2, or off",
        ),
        ("hold X", "a time, for example 20us"),
        ("watchdog X", "a time, for example 20us, or off"),
        ("pushback X", "all or backlogged"),
        ("scale X", "a percentage"),
        ("control X", "a rank"),
    ] {
        let (option, value) = command.split_once(' ').unwrap();
        let error = format!("Illegal \"{option}\": \"{value}\" is not {expected}\n");
        assert_eq!(complaint(&weft_mechanisms::bfc::QDISC, command), error);
    }
}

#[test]
fn help_prints_the_usage_and_an_unknown_word_is_quoted() {
    assert_eq!(complaint(&weft_mechanisms::bfc::QDISC, "help"), usage());
    assert_eq!(
        complaint(&weft_mechanisms::bfc::QDISC, "th 1 help"),
        usage()
    );
    for word in ["foo", "queue", "Queues", "5"] {
        assert_eq!(
            complaint(&weft_mechanisms::bfc::QDISC, word),
            format!("What is \"{word}\"?\n{}", usage())
        );
    }
}

#[test]
fn an_option_without_its_value_is_incomplete() {
    for option in [
        "rate",
        "hrtt",
        "th",
        "queues",
        "factor",
        "assign",
        "scheduler",
        "classes",
        "incast",
        "sample",
        "sticky",
        "limit",
        "buffer",
        "refresh",
        "quantum",
        "elide",
        "alpha",
        "hold",
        "watchdog",
        "pushback",
        "scale",
        "control",
    ] {
        assert!(
            matches!(
                request(&weft_mechanisms::bfc::QDISC, option),
                Err(Complaint::Incomplete { .. })
            ),
            "{option}"
        );
    }
}

#[test]
fn an_option_given_twice_is_refused_except_elide() {
    for (command, option, value) in [
        ("rate 1mbit rate 2mbit", "rate", "2mbit"),
        ("queues 5 queues 5", "queues", "5"),
        ("assign single assign dynamic", "assign", "dynamic"),
        ("noelide noelide", "noelide", "noelide"),
        ("elide eth1 noelide", "noelide", "noelide"),
    ] {
        let value = value.to_owned();
        let twice = Complaint::Duplicate { option, value };
        assert_eq!(
            request(&weft_mechanisms::bfc::QDISC, command),
            Err(twice),
            "{command}"
        );
    }
}

#[test]
fn options_are_shown_as_they_are_given() {
    let config = Config::new(&said("rate 10mbit hrtt 2us")).unwrap();
    let (text, json) = shown(&weft_mechanisms::bfc::QDISC, &dump(config));
    assert_eq!(
        text,
        "rate 10000000bit hrtt 2000ns queues 32 factor 100 assign dynamic scheduler fq \
         buffer 12000000b refresh 20000ns hold 1000000000ns ",
    );
    assert_eq!(
        json,
        r#"{"rate":1250000,"hrtt":2000,"th":0,"queues":32,"factor":100,"assign":"dynamic","#
            .to_owned()
            + r#""scheduler":"fq","classes":1,"sample":100,"sticky":"auto","limit":0,"#
            + r#""buffer":12000000,"refresh":20000,"quantum":0,"elide":[],"#
            + r#""alpha":"8","hold":1000000000,"watchdog":0,"pushback":"all","scale":100}"#,
    );

    let everything = "th 3kb queues 128 factor 25 assign stochastic classes 4 incast 7 sample 50 \
        sticky 5us limit 1kb buffer 2kb refresh 30us quantum 1514 elide eth3 elide eth9 alpha 3/4 hold 20us watchdog 7us \
        pushback backlogged scale 150% control 0";
    let config = Config::new(&said(everything)).unwrap();
    let (text, json) = shown(&weft_mechanisms::bfc::QDISC, &dump(config));
    assert_eq!(
        text,
        "th 3Kb queues 128 factor 25 assign stochastic scheduler fq classes 4 incast 7 sample 50% \
         sticky 5000ns limit 1Kb buffer 2Kb refresh 30000ns quantum 1514b elide eth3 elide eth9 \
         alpha 3/4 hold 20000ns watchdog 7000ns pushback backlogged scale 150% control 0 ",
    );
    assert_eq!(
        json,
        r#"{"rate":0,"hrtt":0,"th":3072,"queues":128,"factor":25,"assign":"stochastic","#
            .to_owned()
            + r#""scheduler":"fq","classes":4,"incast":7,"sample":50,"sticky":5000,"#
            + r#""limit":1024,"buffer":2048,"refresh":30000,"quantum":1514,"#
            + r#""elide":["eth3", "eth9"],"alpha":"3/4","hold":20000,"watchdog":7000,"#
            + r#""pushback":"backlogged","scale":150,"control":0}"#,
    );
    let off = Config::new(&said("th 3kb alpha off hold 1s")).unwrap();
    let (text, json) = shown(&weft_mechanisms::bfc::QDISC, &dump(off));
    assert!(
        text.ends_with("refresh 1000000ns alpha off hold 1000000000ns "),
        "{text}"
    );
    assert!(json.contains(r#""alpha":"off""#), "{json}");
}

#[test]
fn a_malformed_dump_is_not_shown() {
    let printed = Printed::default();
    let lacking = Refusal::invalid(c"The dump lacks an attribute");
    assert_eq!(
        weft_tc::options::print(&weft_mechanisms::bfc::QDISC, &[], &printed),
        Err(lacking)
    );
    assert_eq!(
        (printed.as_text().as_str(), printed.as_json().as_str()),
        ("", "{}")
    );
}

#[test]
fn every_statistic_of_a_port_is_shown() {
    let stats = Stats {
        occupied: 4,
        paused: 2,
        active: 3,
        threshold: 5_000,
        hrtt: 2_000,
        activations: 6,
        collisions: 7,
        congested: 8,
        elided: 9,
        unmarked: 10,
        dropped_limit: 11,
        dropped_buffer: 12,
        dropped_memory: 13,
        dropped_control: 14,
        highest_backlog: 15 << 10,
        paused_ns: 16,
        pausing: 17,
        pauses_sent: 18,
        resumes_sent: 19,
        bitmaps_sent: 20,
        unsent: 21,
        pauses_received: 22,
        resumes_received: 23,
        bitmaps_received: 24,
        lapsed: 25,
        malformed: 26,
        foreign: 27,
        replayed: 28,
        buffer_backlog: 29 << 10,
        highest_buffer_backlog: 30 << 20,
        longest: 31,
        dropped_share: 32,
        released: 33,
    };
    let (text, json) = statistics(&weft_mechanisms::bfc::QDISC, &stats.to_bytes()).unwrap();
    assert_eq!(
        text,
        "  queues occupied 4 active 3 paused 2 for 16ns flows 6 collisions 7\n  \
         longest 31b threshold 5000b hrtt 2000ns congested 8p elided 9p unmarked 10p\n  \
         dropped limit 11p buffer 12p memory 13p control 14p share 32p \
         highest_backlog 15Kb buffer 29Kb highest 30Mb\n  \
         upstream pausing 17 sent pauses 18 resumes 19 bitmaps 20 unsent 21\n  \
         downstream received pauses 22 resumes 23 bitmaps 24 lapsed 25 released 33 \
         ignored malformed 26 foreign 27 replayed 28",
    );
    assert_eq!(
        json,
        r#"{"occupied":4,"active":3,"paused":2,"paused_ns":16,"activations":6,"collisions":7,"#
            .to_owned()
            + r#""longest":31,"threshold":5000,"largest_hrtt":2000,"congested":8,"elided":9,"unmarked":10,"#
            + r#""dropped_limit":11,"dropped_buffer":12,"dropped_memory":13,"#
            + r#""dropped_control":14,"dropped_share":32,"highest_backlog":15360,"buffer_backlog":29696,"#
            + r#""highest_buffer_backlog":31457280,"pausing":17,"pauses_sent":18,"#
            + r#""resumes_sent":19,"bitmaps_sent":20,"unsent":21,"pauses_received":22,"#
            + r#""resumes_received":23,"bitmaps_received":24,"lapsed":25,"released":33,"malformed":26,"#
            + r#""foreign":27,"replayed":28}"#,
    );
}

#[test]
fn every_statistic_of_a_queue_is_shown() {
    let queue = QueueStats {
        number: 5,
        class: 1,
        paused: 1,
        paused_ns: 2_000,
    };
    let (text, json) = statistics(&weft_mechanisms::bfc::QDISC, &queue.to_bytes()).unwrap();
    assert_eq!(text, "  queue 5 class 1 paused paused_for 2000ns");
    assert_eq!(
        json,
        r#"{"number":5,"class":1,"paused":true,"paused_ns":2000}"#
    );
    let control = QueueStats::default();
    let (text, _) = statistics(&weft_mechanisms::bfc::QDISC, &control.to_bytes()).unwrap();
    assert_eq!(text, "  control frames paused_for 0ns");
}

#[test]
fn statistics_without_a_field_are_refused_and_longer_ones_are_shown() {
    let mut whole = [1; Stats::SIZE + 8];
    whole[..4].fill(0);
    let needed = Stats::SIZE;
    for length in [0, 1, Stats::SIZE - 1] {
        assert_eq!(
            statistics(&weft_mechanisms::bfc::QDISC, &whole[..length]),
            Err(TooShort { needed })
        );
    }
    assert_eq!(
        statistics(&weft_mechanisms::bfc::QDISC, &whole),
        statistics(&weft_mechanisms::bfc::QDISC, &whole[..needed])
    );
    assert!(statistics(&weft_mechanisms::bfc::QDISC, &whole).is_ok());
}

#[test]
fn alpha_is_a_number_or_a_fraction_in_lowest_terms_and_read_as_it_is_shown() {
    use weft_mechanisms::bfc::options::{ALPHA_1, DEFAULT_ALPHA, MAX_ALPHA};
    for (word, parts) in [
        ("1/128", 1),
        ("2/256", 1),
        ("3/8", 48),
        ("1/2", 64),
        ("1", ALPHA_1),
        ("2/1", 2 * ALPHA_1),
        ("128", MAX_ALPHA),
        ("off", 0),
    ] {
        assert_eq!(said(&format!("alpha {word}")).alpha, Some(parts), "{word}");
    }
    for word in [
        "1/3", "1/0", "0/0", "1/256", "1/", "/2", "1/2/2", "0.5", "-1",
    ] {
        let lines = complaint(&weft_mechanisms::bfc::QDISC, &format!("alpha {word}"));
        assert!(lines.starts_with("Illegal \"alpha\""), "{word}: {lines}");
    }
    let base = Config::new(&said("th 1")).unwrap();
    for alpha in (0..=MAX_ALPHA).filter(|&alpha| alpha != DEFAULT_ALPHA) {
        let (text, _) = shown(
            &weft_mechanisms::bfc::QDISC,
            &dump(Config { alpha, ..base }),
        );
        let (_, shown) = text.split_once("alpha ").unwrap();
        let word = shown.split(' ').next().unwrap();
        assert_eq!(said(&format!("alpha {word}")).alpha, Some(alpha), "{word}");
        let lowest = word
            .split_once('/')
            .is_none_or(|(numerator, _)| numerator.parse::<u32>().unwrap() % 2 == 1);
        assert!(lowest, "{word}");
    }
}
