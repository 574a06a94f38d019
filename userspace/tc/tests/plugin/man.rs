// SPDX-License-Identifier: MIT OR Apache-2.0

//! The manual pages name each option, each field in JSON, and each refusal.

use crate::recorded_tc::{Message, complaint, shown, statistics};
use std::fs;
use std::path::Path;
use weft_mechanisms::QDISCS;
use weft_mechanisms::bfc::options as bfc;
use weft_mechanisms::bfc::stats::{QueueStats, Stats};
use weft_mechanisms::common::mechanism::Qdisc;
use weft_mechanisms::common::nla::Sink;
use weft_mechanisms::common::options::{Configuration, Row, Unit};
use weft_mechanisms::dibs::options as dibs;
use weft_mechanisms::expresspass::options as expresspass;
use weft_mechanisms::fastpass::options as fastpass;
use weft_mechanisms::int::options as int;
use weft_mechanisms::pfabric::options as pfabric;
use weft_mechanisms::port::options as port;
use weft_mechanisms::resend::options as resend;
use weft_mechanisms::wire::options as wire;

const BFC: &str = include_str!("../../../../kmod/bfc/tc-bfc.8");
const DIBS: &str = include_str!("../../../../kmod/dibs/tc-dibs.8");
const EXPRESSPASS: &str = include_str!("../../../../kmod/expresspass/tc-expresspass.8");
const PFABRIC: &str = include_str!("../../../../kmod/pfabric/tc-pfabric.8");
const INT: &str = include_str!("../../../../kmod/int/tc-int.8");
const PORT: &str = include_str!("../../../../kmod/port/tc-port.8");
const RESEND: &str = include_str!("../../../../kmod/resend/tc-resend.8");
const WIRE: &str = include_str!("../../../../kmod/wire/tc-wire.8");

/// The text of a section without macros, fonts, quotes around arguments, and escapes.
fn section(page: &str, title: &str) -> String {
    let start = format!("\n.SH {title}\n");
    let (_, rest) = page.split_once(&start).expect(title);
    let end = rest.find("\n.SH ").unwrap_or(rest.len());
    rest[..end]
        .lines()
        .map(|line| match line.split_once(' ') {
            Some((_macro, words)) if line.starts_with('.') => words.replace('"', ""),
            _ => line.to_owned(),
        })
        .collect::<Vec<_>>()
        .join(" ")
        .replace("\\(dq", "\"")
        .replace("\\fB", "")
        .replace("\\fP", "")
        .replace("\\-", "-")
}

/// Asserts that `text` has `word` as a whole word.
fn assert_names(text: &str, word: &str) {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-' && word.contains('-');
    assert!(
        text.split(|c| !part_of_word(c)).any(|other| other == word),
        "{word} is missing"
    );
}

/// The manual page of a qdisc.
fn page(qdisc: &Qdisc) -> String {
    let kmod = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kmod");
    let path = kmod.join(format!("{0}/tc-{0}.8", qdisc.kind));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn documented() -> impl Iterator<Item = &'static Qdisc> {
    QDISCS.iter().filter(|qdisc| !qdisc.for_tests)
}

/// The words of an option: its name, and words for values.
fn words(row: &Row) -> Vec<&'static str> {
    match row.unit {
        Unit::Switch(on, off) => vec![on, off],
        Unit::Devices(_, none, _) => vec![row.name, none],
        Unit::Choice(words) => [&[row.name], words].concat(),
        Unit::TimeOr(word, _) | Unit::Parts(_, word) => vec![row.name, word],
        _ => vec![row.name],
    }
}

/// The lines before an option's explanation: its name, and the form of its value.
fn terms(row: &Row) -> Vec<String> {
    let Row {
        name, metavariable, ..
    } = row;
    match row.unit {
        Unit::Switch(on, off) => vec![format!(".BR {on} \" | \" {off}")],
        Unit::Devices(_, none, _) => {
            vec![
                format!(".BI {name} \" {metavariable}\""),
                format!(".B {none}"),
            ]
        }
        Unit::Choice(words) => vec![format!(".BR {name} \" \" {}", words.join(" \" | \" "))],
        Unit::TimeOr(word, _) | Unit::Parts(_, word) => {
            vec![format!(".BR {name} \" \\fI{metavariable}\\fP | \" {word}")]
        }
        _ => vec![format!(".BI {name} \" {metavariable}\"")],
    }
}

/// The keys of a JSON object.
fn keys(json: &str) -> Vec<&str> {
    json.split('"').skip(1).step_by(2).collect()
}

fn bytes(put: impl FnOnce(&mut Message)) -> Vec<u8> {
    let mut message = Message::default();
    put(&mut message);
    message.0
}

#[test]
fn the_options_are_explained() {
    for qdisc in documented() {
        let page = page(qdisc);
        for word in qdisc.options.iter().flat_map(words) {
            assert_names(&section(&page, "SYNOPSIS"), word);
            assert_names(&section(&page, "OPTIONS"), word);
        }
    }
}

/// In the order of their meaning, which may differ from the table's.
#[test]
fn the_list_of_options_matches_the_table() {
    for qdisc in documented() {
        let page = page(qdisc);
        let (_, list) = page.split_once("\n.SH OPTIONS\n").expect("a list");
        let list = &list[..list.find("\n.SH ").unwrap_or(list.len())];
        let after_tag = |pair: (&str, &str)| (pair.0 == ".TP").then(|| pair.1.to_owned());
        let lines = list.lines().zip(list.lines().skip(1));
        let mut found: Vec<String> = lines.filter_map(after_tag).collect();
        let mut expected: Vec<String> = qdisc.options.iter().flat_map(terms).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "tc-{}.8", qdisc.kind);
    }
}

/// Checks that the page explains each key that `tc -j -s` prints of a configuration and of
/// statistics; returns the number of keys of each.
fn explained(qdisc: &'static Qdisc, config: &impl Configuration, stats: &[&[u8]]) -> Vec<usize> {
    let (_, json) = shown(qdisc, &bytes(|message| config.put(message).unwrap()));
    let told = stats
        .iter()
        .map(|stats| statistics(qdisc, stats).unwrap().1);
    let explained = section(&page(qdisc), "STATISTICS");
    let printed: Vec<String> = std::iter::once(json).chain(told).collect();
    for key in printed.iter().flat_map(|json| keys(json)) {
        // An address is not a key.
        if !key.contains('.') {
            assert_names(&explained, key);
        }
    }
    printed.iter().map(|json| keys(json).len()).collect()
}

#[test]
fn the_fields_in_json_are_explained() {
    let config = pfabric::Config::new(&pfabric::Options::default()).unwrap();
    let stats = weft_mechanisms::pfabric::stats::Stats::default().to_bytes();
    let counts = explained(&weft_mechanisms::pfabric::QDISC, &config, &[&stats]);
    assert_eq!(counts, [3, 8]);

    let options = bfc::Options {
        th: Some(1),
        incast: Some(0),
        control: Some(1),
        ..bfc::Options::default()
    };
    let config = bfc::Config::new(&options).unwrap();
    let (stats, queue) = (
        Stats::default().to_bytes(),
        QueueStats::default().to_bytes(),
    );
    let counts = explained(&weft_mechanisms::bfc::QDISC, &config, &[&stats, &queue]);
    // 22 options; the values of five are words.
    assert_eq!(counts, [27, 33, 4]);

    let config = dibs::Config::new(&dibs::Options::default()).unwrap();
    let stats = weft_mechanisms::dibs::stats::Stats::default().to_bytes();
    let counts = explained(&weft_mechanisms::dibs::QDISC, &config, &[&stats]);
    // Ten options; the values of two are words.
    assert_eq!(counts, [12, 19]);

    let options = fastpass::Options {
        address: Some(1),
        first: Some(1),
        hosts: Some(2),
        arbiter: Some(1),
        rate: Some(1_250_000),
        ..fastpass::Options::default()
    };
    let config = fastpass::Config::new(&options).unwrap();
    let stats = [0; weft_mechanisms::fastpass::stats::Stats::SIZE];
    let counts = explained(&weft_mechanisms::fastpass::QDISC, &config, &[&stats]);
    // 25 options, of which four are addresses and one is a word.
    assert_eq!(counts, [30, 26]);

    let config = int::Config {
        rate: 1,
        rtt: 1,
        overhead: 0,
        mpu: 0,
    };
    let stats = weft_mechanisms::int::stats::Stats::default().to_bytes();
    let counts = explained(&weft_mechanisms::int::QDISC, &config, &[&stats]);
    assert_eq!(counts, [4, 9]);

    let config = port::Config::new(&port::Options::default()).unwrap();
    let stats = weft_mechanisms::port::stats::Stats::default().to_bytes();
    let counts = explained(&weft_mechanisms::port::QDISC, &config, &[&stats]);
    // Eleven options, one of them a word.
    assert_eq!(counts, [12, 25]);

    let options = expresspass::Options {
        rate: Some(1_250_000_000),
        ..expresspass::Options::default()
    };
    let config = expresspass::Config::new(&options).unwrap();
    let stats = weft_mechanisms::expresspass::stats::Stats::default().to_bytes();
    let counts = explained(&weft_mechanisms::expresspass::QDISC, &config, &[&stats]);
    // Sixteen options, one of them a word.
    assert_eq!(counts, [17, 23]);

    let config = resend::Config { keep: 1 };
    let stats = weft_mechanisms::resend::stats::Stats::default().to_bytes();
    let counts = explained(&weft_mechanisms::resend::QDISC, &config, &[&stats]);
    assert_eq!(counts, [1, 13]);

    let config = wire::Config {
        rate: 1,
        delay: 0,
        overhead: 0,
        mpu: 0,
        slack: 0,
        limit: 0,
    };
    let stats = weft_mechanisms::wire::stats::Stats::default().to_bytes();
    let counts = explained(&weft_mechanisms::wire::QDISC, &config, &[&stats]);
    assert_eq!(counts, [6, 10]);
}

fn assert_explains(page: &str, lines: &str) {
    let sentence = lines.lines().next().unwrap();
    assert!(section(page, "ERRORS").contains(sentence), "{sentence}");
}

#[test]
fn refusals_of_tc_are_explained() {
    for command in [
        "queues 1",
        "factor 0",
        "classes 0",
        "sample 0",
        "rate 1bps",
        "hrtt 11s",
        "sticky 11s",
        "refresh 1us",
        "quantum 1048577",
        "rate X",
        "hrtt X",
        "th X",
        "queues X",
        "factor X",
        "assign X",
        "scheduler X",
        "classes X",
        "incast X",
        "sample X",
        "sticky X",
        "limit X",
        "buffer X",
        "refresh X",
        "quantum X",
        "alpha 129",
        "hold 9us",
        "watchdog 61s",
        "scale 0",
        "alpha X",
        "hold X",
        "watchdog X",
        "pushback X",
        "scale X",
        "control X",
        "elide X",
        "X",
    ] {
        assert_explains(BFC, &complaint(&weft_mechanisms::bfc::QDISC, command));
    }
    for command in [
        "ttl 256",
        "alpha 129",
        "from 101",
        "limit X",
        "mark X",
        "limit_bytes X",
        "share X",
        "policy X",
        "ttl X",
        "alpha X",
        "from X",
        "ranks X",
        "X",
    ] {
        assert_explains(DIBS, &complaint(&weft_mechanisms::dibs::QDISC, command));
    }
    for command in [
        "rate 0bps",
        "rtt 0",
        "rtt 11s",
        "overhead 1001",
        "mpu 2001",
        "rate X",
        "rtt X",
        "overhead X",
        "mpu X",
        "X",
    ] {
        assert_explains(INT, &complaint(&weft_mechanisms::int::QDISC, command));
    }
    for command in ["limit 0", "limit X", "limit_bytes X", "X"] {
        assert_explains(
            PFABRIC,
            &complaint(&weft_mechanisms::pfabric::QDISC, command),
        );
    }
    for command in [
        "alpha 129",
        "rate 1bps",
        "hrtt 11s",
        "xoff 0",
        "quanta 0",
        "priority 8",
        "watchdog 61s",
        "memory X",
        "alpha X",
        "rate X",
        "hrtt X",
        "headroom X",
        "xoff X",
        "xon X",
        "quanta X",
        "priority X",
        "watchdog X",
        "X",
    ] {
        assert_explains(PORT, &complaint(&weft_mechanisms::port::QDISC, command));
    }
    for command in [
        "rate 0bps",
        "frame 10001",
        "alpha 1001",
        "winit 501",
        "loss 51",
        "full 0",
        "credits 65",
        "flows 4097",
        "limit 0",
        "timeout 9us",
        "gather 101s",
        "linger 101s",
        "smallqueue 101s",
        "port 1024",
        "rate X",
        "X",
    ] {
        let complaint = complaint(&weft_mechanisms::expresspass::QDISC, command);
        assert_explains(EXPRESSPASS, &complaint);
    }
    for command in ["keep 16385", "keep X", "X"] {
        assert_explains(RESEND, &complaint(&weft_mechanisms::resend::QDISC, command));
    }
    for command in [
        "rate 0bps",
        "delay 11s",
        "overhead 1001",
        "mpu 2001",
        "slack 2s",
        "limit 4294967295",
        "rate X",
        "delay X",
        "overhead X",
        "mpu X",
        "slack X",
        "limit X",
        "X",
    ] {
        assert_explains(WIRE, &complaint(&weft_mechanisms::wire::QDISC, command));
    }
}

#[test]
fn the_kernels_refusals_for_bfc_are_explained() {
    let th = bfc::Options {
        th: Some(1),
        ..bfc::Options::default()
    };
    let srf = bfc::Options {
        scheduler: Some(bfc::Scheduler::Srf),
        classes: Some(2),
        ..th
    };
    let classes = bfc::Options {
        queues: Some(2),
        classes: Some(2),
        ..th
    };
    let queues = bfc::Options {
        queues: Some(5),
        ..bfc::Options::default()
    };
    let elide = |payload: &[u8]| {
        let request = bytes(|message| message.put(bfc::attr::ELIDE, payload).unwrap());
        bfc::Options::parse(&request).unwrap_err()
    };
    let choice = |attr| {
        let request = bytes(|message| message.put(attr, &[9]).unwrap());
        bfc::Options::parse(&request).unwrap_err()
    };
    let entries = bfc::Options {
        factor: Some(1000),
        queues: Some(1000),
        ..th
    };
    let labels = bfc::Options {
        control: Some(1),
        incast: Some(1),
        ..th
    };
    let running = bfc::Config::new(&th).unwrap();
    for refusal in [
        bfc::Config::new(&bfc::Options::default()).unwrap_err(),
        bfc::Config::new(&labels).unwrap_err(),
        bfc::Config::new(&srf).unwrap_err(),
        bfc::Config::new(&classes).unwrap_err(),
        bfc::Config::new(&entries).unwrap_err(),
        running.updated(&queues).unwrap_err(),
        elide(&[0; 4]),
        elide(&[1; 260]),
        choice(bfc::attr::ASSIGN),
        choice(bfc::attr::SCHEDULER),
        choice(bfc::attr::PUSHBACK),
    ] {
        let sentence = refusal.message.to_str().unwrap();
        assert_explains(BFC, &format!("Error: {sentence}."));
    }
}

#[test]
fn the_kernels_refusals_for_port_are_explained() {
    let pfc = port::Options {
        pfc: Some(true),
        ..port::Options::default()
    };
    let switch = port::Options {
        rate: Some(port::MAX_RATE),
        memory: Some(1),
        ..pfc
    };
    let short = port::Options {
        quanta: Some(1),
        ..switch
    };
    let large = port::Options {
        headroom: Some(1),
        ..switch
    };
    for options in [pfc, switch, short, large] {
        let refusal = port::Config::new(&options).unwrap_err();
        let sentence = refusal.message.to_str().unwrap();
        assert_explains(PORT, &format!("Error: {sentence}."));
    }
    let request = bytes(|message| message.put(port::attr::PFC, &[2]).unwrap());
    let refusal = port::Options::parse(&request).unwrap_err();
    let sentence = refusal.message.to_str().unwrap();
    assert_explains(PORT, &format!("Error: {sentence}."));
}

#[test]
fn the_kernels_refusals_are_explained() {
    let unknown = bytes(|message| message.put(9, &[]).unwrap());
    let wrong_size = bytes(|message| message.put(1, &[0]).unwrap());
    let truncated = unknown.iter().map(|byte| byte.wrapping_mul(2)).collect();
    let junk = vec![0];
    let twice = bytes(|message| {
        message.put(2, &[1; 4]).unwrap();
        message.put(2, &[1; 4]).unwrap();
    });
    let starvation = bytes(|message| message.put(3, &[2]).unwrap());
    for request in [
        &unknown,
        &wrong_size,
        &truncated,
        &junk,
        &twice,
        &starvation,
    ] {
        let refusal = pfabric::Options::parse(request).unwrap_err();
        let sentence = refusal.message.to_str().unwrap();
        assert_explains(PFABRIC, &format!("Error: {sentence}."));
    }

    let twice = bytes(|message| {
        message.put(3, &[0; 4]).unwrap();
        message.put(3, &[0; 4]).unwrap();
    });
    for request in [&unknown, &wrong_size, &truncated, &junk, &twice] {
        let refusal = int::Options::parse(request).unwrap_err();
        let sentence = refusal.message.to_str().unwrap();
        assert_explains(INT, &format!("Error: {sentence}."));
    }
    let rate = int::Options {
        rate: Some(int::MAX_RATE),
        ..int::Options::default()
    };
    for options in [int::Options::default(), rate] {
        let refusal = int::Config::new(&options).unwrap_err();
        let sentence = refusal.message.to_str().unwrap();
        assert_explains(INT, &format!("Error: {sentence}."));
    }
    let again = bytes(|message| {
        message.put(1, &[0; 4]).unwrap();
        message.put(1, &[0; 4]).unwrap();
    });
    for request in [&unknown, &wrong_size, &truncated, &junk, &again] {
        let refusal = resend::Options::parse(request).unwrap_err();
        let sentence = refusal.message.to_str().unwrap();
        assert_explains(RESEND, &format!("Error: {sentence}."));
    }
    for request in [&unknown, &wrong_size, &truncated, &junk, &again] {
        let refusal = expresspass::Options::parse(request).unwrap_err();
        let sentence = refusal.message.to_str().unwrap();
        assert_explains(EXPRESSPASS, &format!("Error: {sentence}."));
    }
    let refusal = expresspass::Config::new(&expresspass::Options::default()).unwrap_err();
    let sentence = refusal.message.to_str().unwrap();
    assert_explains(EXPRESSPASS, &format!("Error: {sentence}."));
    let keeping = resend::Config { keep: 1 };
    let refusal = keeping
        .updated(&resend::Options { keep: Some(0) })
        .unwrap_err();
    assert_explains(
        RESEND,
        &format!("Error: {}.", refusal.message.to_str().unwrap()),
    );
    for request in [&unknown, &wrong_size, &truncated, &junk, &twice] {
        let refusal = wire::Options::parse(request).unwrap_err();
        let sentence = refusal.message.to_str().unwrap();
        assert_explains(WIRE, &format!("Error: {sentence}."));
    }
    let long = wire::Options {
        rate: Some(wire::MAX_RATE),
        delay: Some(wire::MAX_DELAY),
        ..wire::Options::default()
    };
    for options in [wire::Options::default(), long] {
        let refusal = wire::Config::new(&options).unwrap_err();
        assert_explains(
            WIRE,
            &format!("Error: {}.", refusal.message.to_str().unwrap()),
        );
    }
}

#[test]
fn each_page_belongs_to_its_qdisc() {
    let pages = [
        (BFC, weft_mechanisms::bfc::KIND),
        (DIBS, weft_mechanisms::dibs::KIND),
        (INT, weft_mechanisms::int::KIND),
        (PFABRIC, pfabric::KIND),
        (PORT, weft_mechanisms::port::KIND),
        (WIRE, wire::KIND),
    ];
    for (page, kind) in pages {
        let heading = format!(".TH {} 8 ", kind.to_uppercase());
        assert_eq!(
            page.lines().nth(1).map(|line| line.starts_with(&heading)),
            Some(true)
        );
        assert_names(&section(page, "NAME"), kind);
        assert!(section(page, "FILES").contains(&format!("q_{kind}.so")));
    }
}
