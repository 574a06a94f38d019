// SPDX-License-Identifier: MIT OR Apache-2.0

//! wire's command line and its output.

use crate::recorded_tc::{Message, Printed, complaint, request, shown, statistics};

use weft_mechanisms::common::nla::Refusal;
use weft_mechanisms::common::options::Configuration as _;
use weft_mechanisms::wire::options::{Config, Options};
use weft_mechanisms::wire::stats::{LATENESS_BUCKETS, Stats};
use weft_tc::args::Complaint;
use weft_tc::statistics::TooShort;

fn usage() -> String {
    weft_tc::options::usage(&weft_mechanisms::wire::QDISC)
}

fn said(command: &str) -> Options {
    Options::parse(&request(&weft_mechanisms::wire::QDISC, command).unwrap()).unwrap()
}

fn dump(config: Config) -> Vec<u8> {
    let mut message = Message::default();
    config.put(&mut message).unwrap();
    message.0
}

#[test]
fn the_kernel_decides_whether_a_rate_is_needed() {
    assert_eq!(said(""), Options::default());
    let delay_only = Options {
        delay: Some(200_000),
        ..Options::default()
    };
    assert_eq!(said("delay 200us"), delay_only);
}

#[test]
fn options_are_encoded_in_any_order() {
    let everything = Options {
        rate: Some(1_250_000),
        delay: Some(200_000),
        overhead: Some(24),
        mpu: Some(84),
        slack: Some(60_000),
        limit: Some(1_048_576),
    };
    assert_eq!(
        said("rate 10mbit delay 200us overhead 24 mpu 84 slack 60us limit 1024kb"),
        everything
    );
    assert_eq!(
        said("limit 1024kb slack 60us mpu 84 overhead 24 delay 200us rate 10mbit"),
        everything
    );
}

#[test]
fn the_boundaries_of_each_range_are_accepted() {
    assert_eq!(said("rate 125bps").rate, Some(125));
    assert_eq!(said("rate 400gbit").rate, Some(50_000_000_000));
    assert_eq!(said("delay 0").delay, Some(0));
    assert_eq!(said("delay 10s").delay, Some(10_000_000_000));
    assert_eq!(said("overhead 0").overhead, Some(0));
    assert_eq!(said("overhead 1000").overhead, Some(1000));
    assert_eq!(said("mpu 0").mpu, Some(0));
    assert_eq!(said("mpu 2000").mpu, Some(2000));
    assert_eq!(said("slack 0").slack, Some(0));
    assert_eq!(said("slack 1s").slack, Some(1_000_000_000));
    assert_eq!(said("limit 0").limit, Some(0));
    assert_eq!(said("limit 4000000000").limit, Some(4_000_000_000));
}

#[test]
fn a_value_out_of_range_is_refused_in_the_kernels_words() {
    let rate = "Error: Rate must be between 1 kbit/s and 400 Gbit/s.\n";
    let delay = "Error: Delay must be at most 10 s.\n";
    let overhead = "Error: Overhead must be at most 1000 bytes.\n";
    let mpu = "Error: MPU must be at most 2000 bytes.\n";
    let slack = "Error: Slack must be at most 1 s.\n";
    let limit = "Error: Limit must be at most 4000000000 bytes.\n";
    for (command, sentence) in [
        ("rate 0bps", rate),
        ("rate 124bps", rate),
        ("rate 50000000001bps", rate),
        ("rate 18446744073709551615bps", rate),
        ("delay 10000000001", delay),
        ("delay 18446744073709551615", delay),
        ("overhead 1001", overhead),
        ("overhead 4294967295", overhead),
        ("mpu 2001", mpu),
        ("mpu 4294967295", mpu),
        ("slack 1000000001", slack),
        // 2^32 ns and 1 ns: more than the attribute holds.
        ("slack 4294967296", slack),
        ("slack 4294967297", slack),
        ("slack 18446744073709551615", slack),
        ("limit 4000000001", limit),
        ("limit 4294967295", limit),
    ] {
        assert_eq!(
            complaint(&weft_mechanisms::wire::QDISC, command),
            sentence,
            "{command}"
        );
    }
}

#[test]
fn an_illegal_value_is_named_with_what_is_expected() {
    for (command, sentence) in [
        (
            "rate 50%",
            "Illegal \"rate\": \"50%\" is not a rate, for example 10gbit\n",
        ),
        (
            "delay long",
            "Illegal \"delay\": \"long\" is not a time, for example 200us\n",
        ),
        (
            "overhead x",
            "Illegal \"overhead\": \"x\" is not a number of bytes\n",
        ),
        (
            "mpu -1",
            "Illegal \"mpu\": \"-1\" is not a number of bytes\n",
        ),
        (
            "slack some",
            "Illegal \"slack\": \"some\" is not a time, for example 60us\n",
        ),
        (
            "limit all",
            "Illegal \"limit\": \"all\" is not a number of bytes\n",
        ),
    ] {
        assert_eq!(
            complaint(&weft_mechanisms::wire::QDISC, command),
            sentence,
            "{command}"
        );
    }
}

#[test]
fn help_in_the_place_of_an_option_prints_the_usage() {
    assert_eq!(complaint(&weft_mechanisms::wire::QDISC, "help"), usage());
    assert_eq!(
        complaint(&weft_mechanisms::wire::QDISC, "rate 10gbit help"),
        usage()
    );
    for option in [
        "rate RATE",
        "delay TIME",
        "overhead BYTES",
        "mpu BYTES",
        "slack TIME",
        "limit BYTES",
    ] {
        assert!(usage().contains(option), "{option}");
    }
}

#[test]
fn an_unknown_word_is_quoted() {
    let what = |word| format!("What is \"{word}\"?\n{}", usage());
    assert_eq!(complaint(&weft_mechanisms::wire::QDISC, "foo"), what("foo"));
    assert_eq!(
        complaint(&weft_mechanisms::wire::QDISC, "rate 10gbit 5"),
        what("5")
    );
    assert_eq!(
        complaint(&weft_mechanisms::wire::QDISC, "10gbit"),
        what("10gbit")
    );
}

#[test]
fn an_option_without_its_value_is_incomplete() {
    for command in ["rate", "delay", "overhead", "rate 10gbit mpu", "slack"] {
        assert!(
            matches!(
                request(&weft_mechanisms::wire::QDISC, command),
                Err(Complaint::Incomplete { .. })
            ),
            "{command}"
        );
    }
}

#[test]
fn an_option_given_twice_is_refused() {
    for (command, option, value) in [
        ("rate 1gbit rate 2gbit", "rate", "2gbit"),
        ("delay 1us delay 1us", "delay", "1us"),
        ("overhead 0 overhead 0", "overhead", "0"),
        ("mpu 64 rate 1gbit mpu 84", "mpu", "84"),
        ("slack 0 slack 60us", "slack", "60us"),
        ("limit 0 limit 1kb", "limit", "1kb"),
    ] {
        let value = value.to_owned();
        let twice = Complaint::Duplicate { option, value };
        assert_eq!(
            request(&weft_mechanisms::wire::QDISC, command),
            Err(twice),
            "{command}"
        );
    }
}

#[test]
fn options_are_shown_as_given_and_zero_ones_only_in_json() {
    let config = Config {
        rate: 1_250_000,
        delay: 0,
        overhead: 0,
        mpu: 0,
        slack: 0,
        limit: 0,
    };
    let (text, json) = shown(&weft_mechanisms::wire::QDISC, &dump(config));
    assert_eq!(text, "rate 10000000bit delay 0ns ");
    assert_eq!(
        json,
        r#"{"rate":1250000,"delay":0,"overhead":0,"mpu":0,"slack":0,"limit":0}"#
    );

    let config = Config {
        delay: 200_000,
        overhead: 24,
        mpu: 1024,
        slack: 60_000,
        limit: 1 << 20,
        ..config
    };
    let (text, json) = shown(&weft_mechanisms::wire::QDISC, &dump(config));
    assert_eq!(
        text,
        "rate 10000000bit delay 200000ns overhead 24 mpu 1Kb slack 60000ns limit 1Mb "
    );
    assert_eq!(
        json,
        r#"{"rate":1250000,"delay":200000,"overhead":24,"mpu":1024,"slack":60000,"limit":1048576}"#
    );
}

#[test]
fn a_malformed_dump_is_not_shown() {
    let printed = Printed::default();
    let lacking = Refusal::invalid(c"The dump lacks an attribute");
    assert_eq!(
        weft_tc::options::print(&weft_mechanisms::wire::QDISC, &[], &printed),
        Err(lacking)
    );
    assert_eq!(
        (printed.as_text().as_str(), printed.as_json().as_str()),
        ("", "{}")
    );
}

#[test]
fn a_wire_that_never_sent_has_no_lateness() {
    let (text, json) =
        statistics(&weft_mechanisms::wire::QDISC, &Stats::default().to_bytes()).unwrap();
    assert_eq!(
        text,
        "  busy 0ns in_flight 0b 0p\n  lateness count 0 mean 0ns max 0ns",
    );
    let zeros = vec!["0"; LATENESS_BUCKETS].join(",");
    assert_eq!(
        json,
        r#"{"busy_ns":0,"in_flight_bytes":0,"in_flight":0,"in_flight_limit":0,"held":0,"#
            .to_owned()
            + r#""late_count":0,"late_sum_ns":0,"#
            + r#""late_mean_ns":0,"late_max_ns":0,"late_histogram":["#
            + &zeros
            + "]}",
    );
}

#[test]
fn every_statistic_is_shown_and_nonempty_buckets_of_the_histogram() {
    let mut stats = Stats {
        busy_ns: 1_214_400,
        in_flight: 10,
        in_flight_bytes: 15_140,
        late_count: 13,
        late_sum_ns: 26_013,
        late_max_ns: 9000,
        in_flight_limit: 1_061_076,
        held: 3,
        ..Stats::default()
    };
    stats.late_histogram[0] = 5;
    stats.late_histogram[1] = 1;
    stats.late_histogram[14] = 7;
    let (text, json) = statistics(&weft_mechanisms::wire::QDISC, &stats.to_bytes()).unwrap();
    assert_eq!(
        text,
        "  busy 1214400ns in_flight 15140b 10p held 3\n  \
         lateness count 13 mean 2001ns max 9000ns 0ns 5 <2ns 1 <16384ns 7",
    );
    let mut histogram = vec!["0"; LATENESS_BUCKETS];
    (histogram[0], histogram[1], histogram[14]) = ("5", "1", "7");
    assert_eq!(
        json,
        r#"{"busy_ns":1214400,"in_flight_bytes":15140,"in_flight":10,"#.to_owned()
            + r#""in_flight_limit":1061076,"held":3,"late_count":13,"#
            + r#""late_sum_ns":26013,"late_mean_ns":2001,"late_max_ns":9000,"late_histogram":["#
            + &histogram.join(",")
            + "]}",
    );
}

#[test]
fn each_bucket_except_the_last_is_named_by_its_upper_bound() {
    for bucket in 0..LATENESS_BUCKETS {
        let mut stats = Stats::default();
        stats.late_histogram[bucket] = 1;
        let (text, _) = statistics(&weft_mechanisms::wire::QDISC, &stats.to_bytes()).unwrap();
        // A count in bucket i is at least 2^(i-1) ns, and less than 2^i ns.
        let name = match bucket {
            0 => "0ns".to_owned(),
            31 => ">=1073741824ns".to_owned(),
            _ => format!("<{}ns", 2_u64.pow(bucket.try_into().unwrap())),
        };
        assert!(text.ends_with(&format!(" max 0ns {name} 1")), "{text}");
    }
}

#[test]
fn statistics_without_a_field_are_refused_and_longer_ones_are_shown() {
    let whole = [1; Stats::SIZE + 8];
    let needed = Stats::SIZE;
    for length in [0, 1, Stats::SIZE - 1] {
        assert_eq!(
            statistics(&weft_mechanisms::wire::QDISC, &whole[..length]),
            Err(TooShort { needed })
        );
    }
    assert_eq!(
        statistics(&weft_mechanisms::wire::QDISC, &whole),
        statistics(&weft_mechanisms::wire::QDISC, &whole[..needed])
    );
    assert!(statistics(&weft_mechanisms::wire::QDISC, &whole).is_ok());
}
