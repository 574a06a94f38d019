// SPDX-License-Identifier: MIT OR Apache-2.0

//! The results' file: this and other versions read what was written.

use proptest::prelude::*;
use weft_load::Error;
use weft_load::record::{
    Class, FORMAT, Flow, Gate, Header, Limit, Partial, PortSample, Reader, Record, Recorded,
    Summary, Workload, group_completion_times_ns, write,
};
use weft_load::statistics::Buckets;

fn header() -> Header {
    Header {
        format: FORMAT,
        weft: "0.1.0".into(),
        kernel: Some("7.2.12+deb14-amd64".into()),
        clock: Some("instructions".into()),
        seed: u64::MAX,
        topology: "fat-tree:k=4".into(),
        scheme: "pfabric".into(),
        parameters: [("buffer".to_owned(), "24".to_owned())].into(),
        workload: Workload {
            sizes: "web-search".into(),
            arrivals: "poisson".into(),
            pairs: "uniform".into(),
            load: Some("0.6 of host links (wire bytes)".into()),
            collective: None,
            incast: None,
            added: Vec::new(),
            deadline: None,
            priorities: None,
            flows: 3,
            warm_up: 0.1,
            no_cool_down: false,
        },
        dilation: 1000.0,
        buckets: vec![100_000],
        options: vec!["fat-tree:k=4".into(), "--dilation".into(), "1000".into()],
        inputs: std::collections::BTreeMap::new(),
        inherited: std::collections::BTreeMap::new(),
    }
}

fn flow(id: u64, size: u64, fct_ns: Option<u64>) -> Flow {
    Flow {
        id,
        src: 1,
        dst: 2,
        class: Class::Background,
        warm_up: false,
        start_ns: id * 1_000,
        size,
        fct_ns,
        deadline_ns: None,
        priority: None,
        slowdown: fct_ns.map(|fct| fct as f64 / 1_000.0),
        retransmissions: 3,
        spurious: None,
        timeouts: Some(1),
        hops: None,
        partial: None,
    }
}

fn sample() -> PortSample {
    PortSample {
        time_ns: 5,
        node: "edge0".into(),
        port: "h0".into(),
        backlog_packets: 2,
        backlog_bytes: 3_000,
        drops: 4,
        evictions: 1,
        busy_ns: 77,
        ..PortSample::default()
    }
}

fn gates() -> Vec<Gate> {
    vec![
        Gate::new("timer lateness", Some(900.0), Limit::AtMost(1_200.0), "ns"),
        Gate::new("idle share", Some(0.4), Limit::AtLeast(0.05), ""),
    ]
}

fn text(records: &[Record]) -> String {
    let mut bytes = Vec::new();
    for record in records {
        write(&mut bytes, record).unwrap();
    }
    String::from_utf8(bytes).unwrap()
}

fn head() -> String {
    text(&[Record::Header(Box::new(header()))])
}

#[test]
fn records_survive_encoding() {
    let incast = Class::Incast { event: 9 };
    let flows = vec![
        flow(0, 10, Some(5_000)),
        Flow {
            class: incast,
            ..flow(1, 20, None)
        },
    ];
    let summary = Summary::new(&flows, &Buckets::default(), gates(), Some(0.01));
    let text = text(&[
        Record::Header(Box::new(header())),
        Record::Flow(flows[0].clone()),
        Record::Port(sample()),
        Record::Flow(flows[1].clone()),
        Record::Summary(summary.clone()),
    ]);
    assert_eq!(text.lines().count(), 5);
    let run = Recorded::read("mine", text.as_bytes()).unwrap();
    let expected = Recorded {
        header: header(),
        flows,
        ports: vec![sample()],
        path: None,
        summary: Some(summary),
    };
    assert_eq!(run, expected);
}

/// The format itself: scripts in other languages depend on these names.
#[test]
fn a_flow_and_a_gate_have_their_documented_form() {
    let incast = Flow {
        class: Class::Incast { event: 9 },
        ..flow(1, 20, None)
    };
    let added = Flow {
        class: Class::Added,
        partial: Some(Partial { bytes: 5, ns: 70 }),
        ..flow(2, 30, None)
    };
    assert_eq!(
        text(&[
            Record::Flow(flow(7, 1_460, Some(1_500))),
            Record::Flow(incast),
            Record::Flow(added),
        ]),
        concat!(
            r#"{"record":"flow","id":7,"src":1,"dst":2,"class":"background","warm_up":false,"#,
            r#""start_ns":7000,"size":1460,"fct_ns":1500,"slowdown":1.5,"retransmissions":3,"timeouts":1}"#,
            "\n",
            r#"{"record":"flow","id":1,"src":1,"dst":2,"class":"incast","event":9,"warm_up":false,"#,
            r#""start_ns":1000,"size":20,"fct_ns":null,"slowdown":null,"retransmissions":3,"timeouts":1}"#,
            "\n",
            r#"{"record":"flow","id":2,"src":1,"dst":2,"class":"added","warm_up":false,"#,
            r#""start_ns":2000,"size":30,"fct_ns":null,"slowdown":null,"retransmissions":3,"timeouts":1,"#,
            r#""partial":{"bytes":5,"ns":70}}"#,
            "\n",
        )
    );
    assert_eq!(
        serde_json::to_string(&gates()[0]).unwrap(),
        r#"{"name":"timer lateness","measured":900.0,"passes":"at_most","limit":1200.0,"unit":"ns","ok":true}"#
    );
}

#[test]
fn priorities_survive_encoding_and_are_left_out_without_any() {
    let mut header = header();
    header.workload.priorities = Some(4);
    let flows = vec![
        Flow {
            priority: Some(3),
            ..flow(0, 10, Some(5_000))
        },
        flow(1, 20, None),
    ];
    let records = [
        Record::Header(Box::new(header.clone())),
        Record::Flow(flows[0].clone()),
        Record::Flow(flows[1].clone()),
    ];
    let with = text(&records);
    let run = Recorded::read("mine", with.as_bytes()).unwrap();
    assert_eq!((run.header, run.flows), (header, flows));
    let lines: Vec<&str> = with.lines().collect();
    assert!(lines[0].contains(r#""priorities":4"#), "{}", lines[0]);
    assert!(
        lines[1].contains(r#""fct_ns":5000,"priority":3,"slowdown""#),
        "{}",
        lines[1]
    );
    assert!(!lines[2].contains("priorit"), "{}", lines[2]);
    assert!(!head().contains("priorit"), "{}", head());
}

#[test]
fn fields_and_kinds_of_a_newer_version_are_skipped() {
    let newer = head().replacen('{', r#"{"colour":"blue","#, 1)
        + r#"{"record":"flow","id":1,"src":1,"dst":2,"class":"background","start_ns":3,"size":4,"fct_ns":5,"slowdown":1.5,"hops":[1,2]}"#
        + "\n\n"
        + r#"{"record":"link","name":"x","nested":{"record":"flow"}}"#
        + "\n";
    let run = Recorded::read("mine", newer.as_bytes()).unwrap();
    assert_eq!(run.header, header());
    assert_eq!(run.flows.len(), 1);
    // Fields that an older version did not write.
    assert_eq!((run.flows[0].timeouts, run.flows[0].warm_up), (None, false));
    assert_eq!(run.summary, None);
}

#[test]
fn a_file_that_is_not_a_result_is_refused_with_the_line() {
    let flow = text(&[Record::Flow(flow(0, 1, None))]);
    let summary = Record::Summary(Summary::new(&[], &Buckets::default(), vec![], None));
    let summary = text(&[summary]);
    let head = head();
    for (text, expected) in [
        (String::new(), "mine: holds no result"),
        ("\n\n".into(), "mine: holds no result"),
        (
            "{}\n".into(),
            "mine:1: missing field `record`: is this a weft result?",
        ),
        (
            "hello\n".into(),
            "mine:1: expected value: is this a weft result?",
        ),
        (
            flow.clone(),
            "mine:1: expected the header first: is this a weft result?",
        ),
        (
            format!("{head}{head}"),
            "mine:2: there is a second header: a file has one run",
        ),
        (
            format!("{head}\n{flow}{{\"record\":\"flow\",\"id\":1}}\n"),
            "mine:4: missing field `src`",
        ),
        (
            format!("{head}{}", &flow[..40]),
            "mine:2: the line is cut off: was the run interrupted?",
        ),
        (
            format!("{head}{summary}{flow}"),
            "mine:3: there is a record after the summary, which must be the last",
        ),
        (
            head.replace("\"format\":1", "\"format\":2"),
            "mine:1: written by a newer weft: this one reads format 1 and older",
        ),
        (
            "{\"record\":\"header\",\"format\":7}\n".into(),
            "mine:1: written by a newer weft: this one reads format 1 and older",
        ),
        (
            format!("{head}{}", flow.replace("\"size\":1", "\"size\":-1")),
            "mine:2: invalid value: integer `-1`, expected u64",
        ),
    ] {
        let error = Recorded::read("mine", text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
    }
}

#[test]
fn a_reader_ends_after_its_first_error() {
    let text = head() + "nonsense\n" + &head();
    let records: Vec<_> = Reader::new("mine", text.as_bytes()).collect();
    assert_eq!(records.len(), 2);
    assert!(matches!(records[1], Err(Error::Line { line: 2, .. })));
}

#[test]
fn a_line_without_an_end_is_an_error() {
    let zero = std::io::BufReader::new(std::fs::File::open("/dev/zero").unwrap());
    let error = Recorded::read("mine", zero).unwrap_err();
    assert_eq!(
        error.to_string(),
        "mine:1: it is longer than 16 MiB, the limit for a line of results"
    );
}

#[test]
fn bytes_that_are_not_text_are_an_error() {
    let error = Recorded::read("mine", &b"\xff\xfe\n"[..]).unwrap_err();
    assert!(matches!(error, Error::Io(_)), "{error}");
}

#[test]
fn a_run_is_valid_if_it_passes_every_gate() {
    let summary = |gates| Summary::new(&[], &Buckets::default(), gates, None);
    assert!(summary(gates()).valid);
    assert_eq!(summary(gates()).reasons().count(), 0);

    let mut gates = gates();
    gates.push(Gate::new(
        "timer lateness",
        Some(3_100.0),
        Limit::AtMost(1_200.0),
        "ns",
    ));
    gates.push(Gate::new(
        "idle share",
        Some(0.01),
        Limit::AtLeast(0.05),
        "",
    ));
    gates.push(Gate::new("generator lag", None, Limit::AtMost(1.0), "ns"));
    gates.push(Gate::new(
        "unfinished",
        Some(f64::NAN),
        Limit::AtMost(0.0),
        "",
    ));
    let lag = Some(4.177_303_912);
    gates.push(Gate::new("lag", lag, Limit::AtMost(0.5), "packet times"));
    let summary = summary(gates);
    assert!(!summary.valid);
    let reasons: Vec<String> = summary.reasons().collect();
    assert_eq!(
        reasons,
        [
            "timer lateness: 3100 ns, expected at most 1200 ns",
            "idle share: 0.01, expected at least 0.05",
            "generator lag: not measured, expected at most 1 ns",
            "unfinished: not measured, expected at most 0",
            "lag: 4.177 packet times, expected at most 0.5 packet times",
        ]
    );
}

/// Four measured flows with a deadline: met to the nanosecond, too late, never ended, and in time.
#[test]
fn a_deadline_is_met_to_the_nanosecond_and_missed_by_an_unfinished_flow() {
    let due = |id, fct_ns, deadline_ns| Flow {
        deadline_ns,
        ..flow(id, 10, fct_ns)
    };
    let mut flows = vec![
        due(0, Some(5_000), Some(5_000)),
        due(1, Some(5_001), Some(5_000)),
        due(2, None, Some(5_000)),
        due(3, Some(1), Some(5_000)),
        due(4, Some(9_000), None),
    ];
    flows.push(Flow {
        warm_up: true,
        ..due(5, Some(1), Some(5_000))
    });
    let met: Vec<_> = flows.iter().map(Flow::in_time).collect();
    let expected = [Some(true), Some(false), Some(false), Some(true), None];
    assert_eq!(met[..5], expected);
    let summary = |flows: &[Flow]| Summary::new(flows, &Buckets::default(), vec![], None);
    assert_eq!(summary(&flows).deadlines_met, Some(0.5));
    assert_eq!(summary(&flows[4..5]).deadlines_met, None);
    let line = text(&[Record::Flow(flows.swap_remove(0))]);
    assert!(
        line.contains(r#""fct_ns":5000,"deadline_ns":5000,"slowdown""#),
        "{line}"
    );
}

/// By hand: the warm-up is excluded, the unfinished flow is counted, 4 flows have their buckets.
#[test]
fn a_summary_covers_the_measured_flows() {
    let flows = [
        Flow {
            warm_up: true,
            ..flow(0, 50, Some(900_000))
        },
        flow(1, 100_000, Some(2_000)),
        flow(2, 1_000, Some(4_000)),
        flow(3, 100_001, Some(8_000)),
        flow(4, 20_000_000, Some(16_000)),
        flow(5, 7, None),
    ];
    let summary = Summary::new(&flows, &Buckets::default(), vec![], Some(0.25));
    assert_eq!(
        (summary.flows, summary.unfinished, summary.loss),
        (5, 1, Some(0.25))
    );
    // From 1,000 ns to 4,000 + 16,000 ns.
    assert_eq!(summary.duration_ns, 19_000);
    assert_eq!(summary.goodput, Some(20_201_001.0 * 8e9 / 19_000.0));
    let by_bucket: Vec<_> = summary
        .buckets
        .iter()
        .map(|b| {
            (
                b.bucket.as_str(),
                b.slowdown.count,
                b.slowdown.mean,
                b.fct_ns.max,
            )
        })
        .collect();
    assert_eq!(
        by_bucket,
        [
            ("0-100 kB", 2, 3.0, 4_000.0),
            ("100 kB-1 MB", 1, 8.0, 8_000.0),
            (">10 MB", 1, 16.0, 16_000.0),
            ("all", 4, 7.5, 16_000.0),
        ]
    );
}

proptest! {
    #[test]
    fn every_number_survives(slowdown in prop::num::f64::NORMAL, start_ns: u64, fct_ns: u64) {
        let flow = Flow { slowdown: Some(slowdown), start_ns, fct_ns: Some(fct_ns), ..flow(0, 1, None) };
        let text = head() + &text(&[Record::Flow(flow.clone())]);
        prop_assert_eq!(&Recorded::read("mine", text.as_bytes()).unwrap().flows, &[flow]);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, cut in 0..500_usize) {
        let _ = Recorded::read("mine", bytes.as_slice());
        let whole = head() + &text(&[Record::Port(sample())]);
        let cut = cut.min(whole.len());
        let result = Recorded::read("mine", &whole.as_bytes()[..cut]);
        // A line without a newline is complete if its whole object is there.
        let whole_lines = cut >= head().len() - 1 && (cut <= head().len() || cut >= whole.len() - 1);
        prop_assert_eq!(result.is_ok(), whole_lines, "{}", cut);
    }
}

#[test]
fn an_incast_or_a_round_lasts_from_the_first_start_to_the_last_end() {
    let of = |class, start_ns, fct_ns| Flow {
        class,
        start_ns,
        ..flow(0, 1000, fct_ns)
    };
    let incast = |event, start_ns, fct_ns| of(Class::Incast { event }, start_ns, fct_ns);
    let mut flows = vec![
        incast(1, 100, Some(50)),
        incast(1, 90, Some(20)),
        incast(2, 200, Some(5)),
        incast(3, 300, Some(5)),
        incast(3, 300, None),
        of(Class::Background, 0, Some(9999)),
        of(Class::Round { round: 1 }, 7, Some(8)),
        incast(4, 0, Some(1)),
    ];
    flows[7].warm_up = true;
    let together = |number| group_completion_times_ns(&flows, number).collect::<Vec<_>>();
    assert_eq!(together(Class::incast), [60, 5]);
    assert_eq!(together(Class::round), [8]);
}
