// SPDX-License-Identifier: MIT OR Apache-2.0

//! hold's command line and its output.

use crate::recorded_tc::{Message, complaint, request, shown, statistics};
use weft_mechanisms::common::options::Configuration as _;
use weft_mechanisms::hold::options::{Config, Options};
use weft_tc::args::Complaint;

fn usage() -> String {
    weft_tc::options::usage(&weft_mechanisms::hold::QDISC)
}

fn said(command: &str) -> Options {
    Options::parse(&request(&weft_mechanisms::hold::QDISC, command).unwrap()).unwrap()
}

fn dump(config: Config) -> Vec<u8> {
    let mut message = Message::default();
    config.put(&mut message).unwrap();
    message.0
}

#[test]
fn options_are_encoded_in_any_order() {
    assert_eq!(said(""), Options::default());
    let everything = Options {
        backlog: Some(10_000),
        random_priority: Some(65_535),
        txtime: Some(200_000),
    };
    assert_eq!(
        said("backlog 10000 random_priority 65535 txtime 200us"),
        everything
    );
    assert_eq!(
        said("txtime 200us random_priority 65535 backlog 10000"),
        everything
    );
    assert_eq!(said("backlog 4294967295").backlog, Some(u32::MAX));
}

#[test]
fn mistakes_are_named() {
    for (command, lines) in [
        (
            "backlog x",
            "Illegal \"backlog\": \"x\" is not a number of packets\n",
        ),
        (
            "backlog 4294967296",
            "Illegal \"backlog\": \"4294967296\" is not a number of packets\n",
        ),
        (
            "random_priority 4294967296",
            "Illegal \"random_priority\": \"4294967296\" is not a mask of 32 bits\n",
        ),
        ("txtime x", "Illegal \"txtime\": \"x\" is not a time\n"),
    ] {
        assert_eq!(
            complaint(&weft_mechanisms::hold::QDISC, command),
            lines,
            "{command}"
        );
    }
    assert_eq!(complaint(&weft_mechanisms::hold::QDISC, "help"), usage());
    assert_eq!(
        complaint(&weft_mechanisms::hold::QDISC, "foo"),
        format!("What is \"foo\"?\n{}", usage())
    );
    for option in ["backlog", "random_priority", "txtime"] {
        assert!(usage().contains(option), "{option}");
        assert!(
            matches!(
                request(&weft_mechanisms::hold::QDISC, option),
                Err(Complaint::Incomplete { .. })
            ),
            "{option}"
        );
        let value = "2".to_owned();
        let twice = Complaint::Duplicate { option, value };
        assert_eq!(
            request(
                &weft_mechanisms::hold::QDISC,
                &format!("{option} 1 {option} 2")
            ),
            Err(twice)
        );
    }
}

#[test]
fn options_are_shown_as_given_and_those_without_effect_only_in_json() {
    let (text, json) = shown(
        &weft_mechanisms::hold::QDISC,
        &dump(Config::new(&Options::default()).unwrap()),
    );
    assert_eq!(text, "backlog 0p ");
    assert_eq!(json, r#"{"backlog":0,"random_priority":0,"txtime":0}"#);

    let config = Config {
        backlog: 24,
        random_priority: 0xffff,
        txtime: 1000,
    };
    let (text, json) = shown(&weft_mechanisms::hold::QDISC, &dump(config));
    assert_eq!(text, "backlog 24p random_priority 0xffff txtime 1000ns ");
    assert_eq!(
        json,
        r#"{"backlog":24,"random_priority":65535,"txtime":1000}"#
    );
}

#[test]
fn there_are_no_statistics() {
    let nothing = (String::new(), "{}".to_owned());
    assert_eq!(
        statistics(&weft_mechanisms::hold::QDISC, &[1; 100]),
        Ok(nothing)
    );
}
