// SPDX-License-Identifier: MIT OR Apache-2.0

//! pfabric's command line and its output.

use crate::recorded_tc::{Message, Printed, complaint, request, shown, statistics};
use weft_mechanisms::common::nla::Refusal;
use weft_mechanisms::common::options::Configuration as _;
use weft_mechanisms::pfabric::options::{Config, Options};
use weft_mechanisms::pfabric::stats::Stats;
use weft_tc::args::Complaint;

use weft_tc::statistics::TooShort;

fn usage() -> String {
    weft_tc::options::usage(&weft_mechanisms::pfabric::QDISC)
}

fn said(command: &str) -> Options {
    Options::parse(&request(&weft_mechanisms::pfabric::QDISC, command).unwrap()).unwrap()
}

fn dump(config: Config) -> Vec<u8> {
    let mut message = Message::default();
    config.put(&mut message).unwrap();
    message.0
}

#[test]
fn no_words_request_nothing() {
    assert_eq!(said(""), Options::default());
}

#[test]
fn options_are_encoded_in_any_order() {
    let everything = Options {
        limit: Some(100),
        limit_bytes: Some(36 * 1024),
        starvation_prevention: Some(false),
    };
    assert_eq!(said("limit 100 limit_bytes 36kb nostarvation"), everything);
    assert_eq!(said("nostarvation limit_bytes 36kb limit 100"), everything);
    let on = Options {
        starvation_prevention: Some(true),
        ..Options::default()
    };
    assert_eq!(said("starvation"), on);
}

#[test]
fn the_boundaries_of_each_range_are_accepted() {
    assert_eq!(said("limit 1").limit, Some(1));
    assert_eq!(said("limit 65536").limit, Some(65_536));
    assert_eq!(said("limit_bytes 0").limit_bytes, Some(0));
    assert_eq!(said("limit_bytes 4294967295").limit_bytes, Some(u32::MAX));
}

#[test]
fn a_limit_out_of_range_is_refused_in_the_kernels_words() {
    for limit in [
        "0",
        "65537",
        "4294967295",
        "4294967296",
        "4294967297",
        "18446744073709551615",
    ] {
        assert_eq!(
            complaint(&weft_mechanisms::pfabric::QDISC, &format!("limit {limit}")),
            "Error: Limit must be between 1 and 65536 packets.\n",
            "{limit}",
        );
    }
}

#[test]
fn an_illegal_value_is_named_with_what_is_expected() {
    assert_eq!(
        complaint(&weft_mechanisms::pfabric::QDISC, "limit many"),
        "Illegal \"limit\": \"many\" is not a number of packets\n",
    );
    assert_eq!(
        complaint(&weft_mechanisms::pfabric::QDISC, "limit_bytes 4294967296"),
        "Illegal \"limit_bytes\": \"4294967296\" is not a size of at most 4294967295 bytes\n",
    );
}

#[test]
fn help_in_the_place_of_an_option_prints_the_usage() {
    assert_eq!(complaint(&weft_mechanisms::pfabric::QDISC, "help"), usage());
    assert_eq!(
        complaint(&weft_mechanisms::pfabric::QDISC, "limit 5 help"),
        usage()
    );
    for option in [
        "limit PACKETS",
        "limit_bytes BYTES",
        "starvation | nostarvation",
    ] {
        assert!(usage().contains(option), "{option}");
    }
}

#[test]
fn an_unknown_word_is_quoted() {
    let what = |word| format!("What is \"{word}\"?\n{}", usage());
    assert_eq!(
        complaint(&weft_mechanisms::pfabric::QDISC, "foo"),
        what("foo")
    );
    assert_eq!(
        complaint(&weft_mechanisms::pfabric::QDISC, "limit 5 6"),
        what("6")
    );
    assert_eq!(
        complaint(&weft_mechanisms::pfabric::QDISC, "lim 5"),
        what("lim"),
        "no abbreviations"
    );
    assert_eq!(
        complaint(&weft_mechanisms::pfabric::QDISC, "Limit 5"),
        what("Limit")
    );
}

#[test]
fn an_option_without_its_value_is_incomplete() {
    for command in ["limit", "limit_bytes", "nostarvation limit 5 limit_bytes"] {
        assert!(
            matches!(
                request(&weft_mechanisms::pfabric::QDISC, command),
                Err(Complaint::Incomplete { .. })
            ),
            "{command}"
        );
    }
}

#[test]
fn an_option_given_twice_is_refused() {
    for (command, option, value) in [
        ("limit 5 limit 5", "limit", "5"),
        ("limit_bytes 1kb limit_bytes 2kb", "limit_bytes", "2kb"),
        ("starvation starvation", "starvation", "starvation"),
        ("starvation nostarvation", "starvation", "nostarvation"),
        ("nostarvation starvation", "starvation", "starvation"),
    ] {
        let value = value.to_owned();
        let twice = Complaint::Duplicate { option, value };
        assert_eq!(
            request(&weft_mechanisms::pfabric::QDISC, command),
            Err(twice),
            "{command}"
        );
    }
}

#[test]
fn options_are_shown_as_given_and_a_missing_byte_limit_only_in_json() {
    let config = Config {
        limit: 24,
        limit_bytes: 0,
        starvation_prevention: true,
    };
    let (text, json) = shown(&weft_mechanisms::pfabric::QDISC, &dump(config));
    assert_eq!(text, "limit 24p starvation ");
    assert_eq!(
        json,
        r#"{"limit":24,"limit_bytes":0,"starvation_prevention":true}"#
    );

    let config = Config {
        limit: 600,
        limit_bytes: 36 * 1024,
        starvation_prevention: false,
    };
    let (text, json) = shown(&weft_mechanisms::pfabric::QDISC, &dump(config));
    assert_eq!(text, "limit 600p limit_bytes 36Kb nostarvation ");
    assert_eq!(
        json,
        r#"{"limit":600,"limit_bytes":36864,"starvation_prevention":false}"#
    );
}

#[test]
fn a_malformed_dump_is_not_shown() {
    let printed = Printed::default();
    let lacking = Refusal::invalid(c"The dump lacks an attribute");
    assert_eq!(
        weft_tc::options::print(&weft_mechanisms::pfabric::QDISC, &[], &printed),
        Err(lacking)
    );
    assert_eq!(
        (printed.as_text().as_str(), printed.as_json().as_str()),
        ("", "{}")
    );
}

#[test]
fn every_statistic_is_shown() {
    let stats = Stats {
        evicted: 12,
        rejected: 3,
        overtaken: 7,
        evicted_bytes: 18_000,
        rejected_bytes: 4096,
        flows: 4,
        highest_backlog: 24,
        highest_backlog_bytes: 35 * 1024,
    };
    let (text, json) = statistics(&weft_mechanisms::pfabric::QDISC, &stats.to_bytes()).unwrap();
    assert_eq!(
        text,
        "  evicted 18000b 12p rejected 4Kb 3p overtaken 7p\n  flows 4 highest_backlog 35Kb 24p",
    );
    assert_eq!(
        json,
        r#"{"evicted_bytes":18000,"evicted":12,"rejected_bytes":4096,"rejected":3,"overtaken":7,"#
            .to_owned()
            + r#""flows":4,"highest_backlog_bytes":35840,"highest_backlog":24}"#,
    );
}

#[test]
fn statistics_without_a_field_are_refused_and_longer_ones_are_shown() {
    let whole = [1; Stats::SIZE + 8];
    let needed = Stats::SIZE;
    for length in [0, 1, Stats::SIZE - 1] {
        assert_eq!(
            statistics(&weft_mechanisms::pfabric::QDISC, &whole[..length]),
            Err(TooShort { needed })
        );
    }
    assert_eq!(
        statistics(&weft_mechanisms::pfabric::QDISC, &whole),
        statistics(&weft_mechanisms::pfabric::QDISC, &whole[..needed])
    );
    assert!(statistics(&weft_mechanisms::pfabric::QDISC, &whole).is_ok());
}
