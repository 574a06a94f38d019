// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lines of `tc` files: the requests to the kernel, and errors.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fmt::Debug;

use weft_mechanisms::common::nla;
use weft_mechanisms::common::options::Configuration;
use weft_net::qdisc::{self, Command, QdiscCommand};

fn one(words: &str) -> QdiscCommand {
    let line = format!("qdisc add dev eth0 root handle 1: {words}");
    let mut commands = qdisc::parse("line", &line).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(commands.len(), 1);
    known(commands.remove(0))
}

/// Checks that the line goes to the kernel without `tc`.
fn known(command: Command) -> QdiscCommand {
    match command {
        Command::Qdisc(command) => command,
        Command::Tc(command) => panic!("{command} is left to tc"),
    }
}

/// The error of line 1.
fn refusal(line: &str) -> String {
    match qdisc::parse("file", line) {
        Ok(commands) => panic!("{line} was taken: {commands:?}"),
        Err(error) => error
            .to_string()
            .strip_prefix("file:1: ")
            .expect("a place")
            .to_owned(),
    }
}

fn attributes(payload: &[u8]) -> BTreeMap<u16, Vec<u8>> {
    let attributes = nla::Attributes::new(payload).map(|attribute| {
        let (kind, value) = attribute.expect("attributes");
        (kind, value.to_vec())
    });
    attributes.collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn options_are_encoded_as_tc_does() {
    let golden = include_str!("golden/tc.txt");
    let mut lines = golden
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut kinds = Vec::new();
    while let (Some(words), Some(bytes)) = (lines.next(), lines.next()) {
        let command = one(words);
        kinds.push(command.kind);
        let Some(ours) = command.options() else {
            assert_eq!(bytes, "-", "{words}");
            continue;
        };
        let theirs = if bytes == "empty" {
            Vec::new()
        } else {
            unhex(bytes)
        };
        match command.kind {
            // The options are not attributes, or not only.
            "pfifo" | "bfifo" | "prio" => assert_eq!(ours, theirs, "{words}"),
            "tbf" => {
                let (ours, mut theirs) = (attributes(ours), attributes(&theirs));
                // Fields of the omitted rate tables: cell_log and cell_align.
                for rate in [0, 12] {
                    let parms = theirs.get_mut(&1).unwrap();
                    parms[rate] = 0;
                    parms[rate + 4..rate + 6].fill(0);
                }
                assert_eq!(ours, theirs, "{words}");
            }
            _ => assert_eq!(attributes(ours), attributes(&theirs), "{words}"),
        }
    }
    kinds.dedup();
    let stock = qdisc::kinds().filter(|kind| weft_mechanisms::qdisc(kind).is_none());
    assert_eq!(stock.count(), kinds.len(), "{kinds:?} are not all");
}

#[test]
fn options_of_wire_and_pfabric_are_parsed_by_their_modules() {
    let wire = one("wire rate 10mbit delay 200us overhead 24 mpu 84 slack 60us limit 1mb");
    assert_eq!(
        weft_mechanisms::wire::options::Options::parse(wire.options().unwrap()),
        Ok(weft_mechanisms::wire::options::Options {
            rate: Some(1_250_000),
            delay: Some(200_000),
            overhead: Some(24),
            mpu: Some(84),
            slack: Some(60_000),
            limit: Some(1 << 20),
        })
    );
    let pfabric = one("pfabric limit 36 limit_bytes 48k nostarvation");
    assert_eq!(
        weft_mechanisms::pfabric::options::Options::parse(pfabric.options().unwrap()),
        Ok(weft_mechanisms::pfabric::options::Options {
            limit: Some(36),
            limit_bytes: Some(49_152),
            starvation_prevention: Some(false),
        })
    );
}

#[test]
fn options_of_bfc_are_parsed_by_its_module() {
    use weft_mechanisms::bfc::options::{Assign, Devices, Options, Pushback, Scheduler};
    let all = one(
        "bfc rate 10mbit hrtt 2ms th 3k queues 64 factor 25 assign stochastic classes 4 incast 9 \
         sample 50% sticky 5us limit 1k buffer 12m refresh 30us quantum 1514 alpha 1/8 hold 3ms watchdog 2s \
         pushback backlogged scale 150% control 0",
    );
    let srf =
        one("bfc th 1 assign single scheduler srf sticky auto noelide alpha off watchdog off");
    assert_eq!(
        Options::parse(all.options().unwrap()),
        Ok(Options {
            rate: Some(1_250_000),
            hrtt: Some(2_000_000),
            th: Some(3_072),
            queues: Some(64),
            factor: Some(25),
            assign: Some(Assign::Stochastic),
            scheduler: None,
            classes: Some(4),
            incast: Some(9),
            sample: Some(50),
            sticky: Some(5_000),
            limit: Some(1_024),
            buffer: Some(12 << 20),
            refresh: Some(30_000),
            quantum: Some(1_514),
            elide: None,
            alpha: Some(16),
            hold: Some(3_000_000),
            watchdog: Some(2_000_000_000),
            pushback: Some(Pushback::Backlogged),
            scale: Some(150),
            control: Some(0),
        })
    );
    assert_eq!(
        Options::parse(srf.options().unwrap()),
        Ok(Options {
            th: Some(1),
            assign: Some(Assign::Single),
            scheduler: Some(Scheduler::Srf),
            sticky: Some(u64::MAX),
            elide: Some(Devices::NONE),
            alpha: Some(0),
            watchdog: Some(0),
            ..Options::default()
        })
    );
}

#[test]
fn a_file_may_have_comments_and_continued_lines() {
    let text = "# a switch's port\n\
                qdisc replace dev p0 root handle 1: \\  # no end\n  qdisc";
    assert!(
        qdisc::parse("f", text).is_err(),
        "a comment ends the line, not the backslash in it"
    );
    let text = "\n# a switch's port\n\
                qdisc replace dev p0 root handle 1: \\\n  tbf rate 10mbit \\\n burst 15k limit 30k\n\
                \tqdisc add dev p0 parent 1:1 pfifo # and its queue\n";
    let commands = qdisc::parse("f", text).unwrap();
    let lines: Vec<_> = commands.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "qdisc replace dev p0 root handle 1: tbf rate 10mbit burst 15k limit 30k",
            "qdisc add dev p0 parent 1:1 pfifo",
        ]
    );
}

#[test]
fn lines_that_only_tc_can_parse_keep_their_place() {
    let text = "qdisc add dev p0 root handle 1: wire rate 10mbit delay 0ns\n\
                # shares\n\
                qdisc add dev p0 parent 1: handle 2: htb default 10\n\
                class add dev p0 parent 2: classid 2:10 \\\n  htb rate 1mbit\n\
                filter add dev p0 parent 2: protocol ip prio 1 matchall classid 2:10\n\
                qdisc add dev p0 parent 2:10 pfifo limit 9\n";
    let commands = qdisc::parse("mine/switch.tc", text).unwrap();
    let places: Vec<_> = commands
        .iter()
        .map(|command| match command {
            Command::Qdisc(_) => None,
            Command::Tc(command) => Some((command.place.1, command.to_string())),
        })
        .collect();
    let left = |line, text: &str| Some((line, text.to_owned()));
    assert_eq!(
        places,
        [
            None,
            left(3, "qdisc add dev p0 parent 1: handle 2: htb default 10"),
            left(4, "class add dev p0 parent 2: classid 2:10 htb rate 1mbit"),
            left(
                6,
                "filter add dev p0 parent 2: protocol ip prio 1 matchall classid 2:10"
            ),
            None,
        ]
    );
    let kinds: Vec<_> = commands.iter().filter_map(Command::qdisc).collect();
    assert_eq!(kinds, ["wire", "htb", "pfifo"]);
}

#[test]
fn handles_are_hexadecimal() {
    let line = "qdisc add dev p0 parent 1:a handle 10: pfifo";
    let command = known(qdisc::parse("f", line).unwrap().remove(0));
    assert_eq!((command.parent.0, command.handle.0), (0x1_000a, 0x10_0000));
    assert_eq!(command.to_string(), line);
}

#[test]
fn a_wrong_line_is_named_with_its_number() {
    let text = "qdisc add dev p0 root handle 1: pfifo\n\n# comment\nqdisc del dev p0 root";
    let error = qdisc::parse("tc-configs/mine/switch", text).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tc-configs/mine/switch:4: `qdisc delete` is not `add`, `replace` or `change` of a qdisc, class or \
         filter, which is all that a port takes"
    );
}

#[test]
fn each_refusal_names_the_word_and_the_expected_one() {
    for (line, sentence) in [
        (
            "link add dev p0",
            "`link add` is not `add`, `replace` or `change` of a qdisc, class or filter, which is all \
             that a port takes",
        ),
        (
            "class add parent 1: classid 1:1 htb rate 1mbit",
            "`dev` and the port are missing",
        ),
        (
            "qdisc add dev p0 root handle 1: $kind",
            "`$kind` is no kind of qdisc",
        ),
        ("qdisc add root pfifo", "`dev` and the port are missing"),
        (
            "qdisc add root wire rate 1mbit",
            "`dev` and the port are missing",
        ),
        (
            "qdisc add dev p0 root wire delay 5us",
            "wire: Rate is required, for example rate 10gbit",
        ),
        (
            "qdisc add dev p0 root wire rate 500gbit",
            "wire: Rate must be between 1 kbit/s and 400 Gbit/s",
        ),
        (
            "qdisc add dev p0 root wire rate 10mb",
            "wire: `rate 10mb`: not a rate, for example 10gbit",
        ),
        (
            "qdisc add dev p0 root wire rate 1mbit delay 11s",
            "wire: Delay must be at most 10 s",
        ),
        (
            "qdisc add dev p0 root wire rate 1mbit slack 1.1s",
            "wire: Slack must be at most 1 s",
        ),
        // 2^32 ns and 1 ns: more than the attribute holds.
        (
            "qdisc add dev p0 root wire rate 1mbit slack 4294967297",
            "wire: Slack must be at most 1 s",
        ),
        (
            "qdisc add dev p0 root wire rate 1mbit slack some",
            "wire: `slack some`: not a time, for example 60us",
        ),
        (
            "qdisc add dev p0 root wire rate 1mbit slak 60us",
            "wire: `slak` is no option; options are rate, delay, overhead, mpu, slack, limit",
        ),
        (
            "qdisc add dev p0 root pfabric limit 0",
            "pfabric: Limit must be between 1 and 65536 packets",
        ),
        (
            "qdisc add dev p0 root bfc",
            "bfc: A threshold is required: rate and hrtt, or th",
        ),
        (
            "qdisc add dev p0 root bfc th 1k classes 300",
            "bfc: Classes must be between 1 and 8",
        ),
        (
            "qdisc add dev p0 root bfc th 1k sample 256",
            "bfc: Sample must be between 1 and 100 percent",
        ),
        (
            "qdisc add dev p0 root bfc th 1k assign random",
            "bfc: `assign random`: not dynamic, stochastic or single",
        ),
        (
            "qdisc add dev p0 root bfc th 1k alpha 1/3",
            "bfc: `alpha 1/3`: not a number or fraction, for example 8 or 1/2, or off",
        ),
        (
            "qdisc add dev p0 root bfc th 1k alpha 129",
            "bfc: Alpha must be between 1/128 and 128, or off",
        ),
        (
            "qdisc add dev p0 root bfc th 1k queues 1024 factor 129",
            "bfc: Queues times factor must be at most 131072",
        ),
        (
            "qdisc add dev p0 root bfc th 1k elide p1 noelide",
            "bfc: `elide` or `noelide`: say one",
        ),
        (
            "qdisc add dev p0 root bfc th 1k elide",
            "bfc: `elide` takes a device, which is missing",
        ),
        (
            "qdisc add dev p0 root pfabric starvation nostarvation",
            "pfabric: `starvation` or `nostarvation`: say one",
        ),
    ] {
        assert_eq!(refusal(line), sentence, "{line}");
    }
}

/// Newer versions of `tc` may support more than this crate.
#[test]
fn an_unknown_line_of_a_stock_qdisc_is_passed_to_tc() {
    for (line, doubt) in [
        (
            "qdisc add dev p0 pfifo",
            "a line in which `root` or `parent` is missing",
        ),
        (
            "qdisc add dev p0 root parent 1: pfifo",
            "`root` or `parent`: say one, once",
        ),
        (
            "qdisc add dev p0 root",
            "a line in which the kind of qdisc is missing",
        ),
        (
            "qdisc add dev p0 root handle none pfifo",
            "`handle none`: not a number from 1: to fffe:",
        ),
        (
            "qdisc add dev p0 parent 0: pfifo",
            "`parent 0:`: not a qdisc or a class, for example 1: or 1:1",
        ),
        ("qdisc add dev p0 dev p1 root pfifo", "`dev` is given twice"),
        (
            "qdisc add dev p0 root pfifo limit",
            "pfifo: `limit` takes a number of packets, for example 24, which is missing",
        ),
        (
            "qdisc add dev p0 root pfifo limit 5x",
            "pfifo: `limit 5x`: not a number of packets, for example 24",
        ),
        (
            "qdisc add dev p0 root pfifo limit 5 limit 6",
            "pfifo: `limit` is given twice",
        ),
        (
            "qdisc add dev p0 root bfifo limt 5",
            "bfifo: `limt` is no option; options are limit",
        ),
        (
            "qdisc add dev p0 root red limit 100k avpkt 1000 qevent mark block 5",
            "red: `qevent` is no option; options are limit, min, max, avpkt, burst, bandwidth, \
             probability, ecn, harddrop, adaptive, nodrop",
        ),
        (
            "qdisc add dev p0 root prio bands 3 multiqueue",
            "prio: `multiqueue` is no option; options are bands, priomap",
        ),
        (
            "qdisc add dev p0 root fq limit 08",
            "fq: `limit 08`: not a number of packets, for example 24",
        ),
        (
            "qdisc add dev p0 root fq bands 4",
            "fq: `bands 4`: not 3 priomap and 16 bands",
        ),
        (
            "qdisc add dev p0 root fq bands 3 priomap 0 1 2",
            "fq: `priomap` takes 16 numbers, which is missing",
        ),
        (
            "qdisc add dev p0 root tbf rate 5mbit burst 5k limit 5k mpu 64k",
            "tbf: `mpu 64k`: not a size of at most 65535 bytes",
        ),
        (
            "qdisc add dev p0 root tbf burst 5k limit 5k",
            "tbf: `rate` is missing",
        ),
        (
            "qdisc add dev p0 root tbf rate 5mbit limit 5k",
            "tbf: `burst` is missing",
        ),
        (
            "qdisc add dev p0 root tbf rate 5mbit burst 5k",
            "tbf: say one of `limit` and `latency`",
        ),
        (
            "qdisc add dev p0 root tbf rate 5mbit burst 5k limit 5k latency 1ms",
            "tbf: say one of `limit` and `latency`",
        ),
        (
            "qdisc add dev p0 root tbf rate 5mbit burst 5k limit 5k peakrate 6mbit",
            "tbf: `peakrate` needs `mtu`, for example 1514",
        ),
        (
            "qdisc add dev p0 root red avpkt 1000",
            "red: `limit` is missing",
        ),
        (
            "qdisc add dev p0 root red limit 100k",
            "red: `avpkt` is missing, which `tc qdisc show` does not print",
        ),
        (
            "qdisc add dev p0 root red limit 100k avpkt 1000 min 5k max 4k",
            "red: `min` is 5120 bytes and `max` 4096, which is less",
        ),
        (
            "qdisc add dev p0 root red limit 400k min 30000 max 90000 avpkt 1500 burst 5",
            "red: a `burst` of 5 packets does not go with `min` and `avpkt`; try 21",
        ),
        (
            "qdisc add dev p0 root red limit 100k avpkt 1000 probability 2",
            "red: `probability 2`: not a probability from 0 to 1",
        ),
        (
            "qdisc add dev p0 root red limit 4000mb min 1k max 3000mb avpkt 1000 burst 9 probability 0.1",
            "red: `probability` is too small for the distance of `min` and `max`",
        ),
        (
            "qdisc add dev p0 root fq maxrate 40gbit",
            "fq: `maxrate 40gbit`: not a rate below 34 Gbit/s, for example 10mbit",
        ),
        (
            "qdisc add dev p0 root fq buckets 100",
            "fq: `buckets 100`: not a power of 2",
        ),
        (
            "qdisc add dev p0 root fq pacing nopacing",
            "fq: `pacing` or `nopacing`: say one",
        ),
        (
            "qdisc add dev p0 root fq_codel target soon",
            "fq_codel: `target soon`: not a time, for example 5ms",
        ),
        (
            "qdisc add dev p0 root fq_codel ecn noecn",
            "fq_codel: `ecn` or `noecn`: say one",
        ),
        (
            "qdisc add dev p0 root prio bands 17",
            "prio: `bands 17`: not a number from 2 to 16",
        ),
        (
            "qdisc add dev p0 root prio bands 2",
            "prio: the priority map names band 2, bands are 0 to 1",
        ),
        (
            "qdisc add dev p0 root prio priomap 0 1 9",
            "prio: the priority map names band 9, bands are 0 to 2",
        ),
    ] {
        let [Command::Tc(command)] = &qdisc::parse("file", line).unwrap()[..] else {
            panic!("{line} is understood");
        };
        assert_eq!(command.to_string(), line);
        assert_eq!(command.doubt.as_deref(), Some(doubt), "{line}");
    }
}

#[test]
fn numbers_are_parsed_as_tc_does() {
    let u32_of = |words: &str, attribute: u16| {
        let value = &attributes(one(words).options().unwrap())[&attribute];
        u32::from_ne_bytes(value[..].try_into().unwrap())
    };
    // In C's notation of numbers.
    for (text, limit) in [("10", 10), ("010", 8), ("0x10", 16), ("24p", 24)] {
        assert_eq!(u32_of(&format!("fq limit {text}"), 1), limit, "{text}");
        assert_eq!(u32_of(&format!("pfabric limit {text}"), 1), limit, "{text}");
        assert_eq!(
            u32_of(&format!("fq_codel limit {text}"), 2),
            limit,
            "{text}"
        );
    }
    assert_eq!(u32_of("fq quantum 010", 3), 8);
    assert_eq!(u32_of("fq quantum 3028b", 3), 3028);
    // As a size.
    let pfifo = |text: &str| {
        let command = one(&format!("pfifo limit {text}"));
        u32::from_ne_bytes(command.options().unwrap().try_into().unwrap())
    };
    for (text, limit) in [("10", 10), ("010", 10), ("1k", 1024), ("1000p", 1000)] {
        assert_eq!(pfifo(text), limit, "{text}");
    }
    // In decimal digits.
    assert_eq!(one("prio bands 010 priomap 9").options().unwrap()[0], 10);
}

#[test]
fn handles_and_verbs_are_parsed_as_tc_does() {
    for (line, expected) in [
        (
            "qdisc add dev p0 root handle 2 pfifo",
            "qdisc add dev p0 root handle 2: pfifo",
        ),
        (
            "qdisc add dev p0 parent 10002 handle a:7 pfifo",
            "qdisc add dev p0 parent 1:2 handle a: pfifo",
        ),
        (
            "q a dev p0 root handle 1: pfifo",
            "qdisc add dev p0 root handle 1: pfifo",
        ),
        (
            "qdisc repl dev p0 root pfifo",
            "qdisc replace dev p0 root pfifo",
        ),
        (
            "c ch dev p0 parent 1: classid 1:1 htb rate 1mbit",
            "class change dev p0 parent 1: classid 1:1 htb rate 1mbit",
        ),
    ] {
        let commands = qdisc::parse("f", line).unwrap();
        assert_eq!(commands[0].to_string(), expected);
    }
    let line = "qdisc add dev p0 root handle 2 htb";
    let [Command::Tc(htb)] = &qdisc::parse("f", line).unwrap()[..] else {
        panic!("htb is known");
    };
    assert_eq!(htb.handle.unwrap().0, 0x2_0000);
}

/// Lines of `tc qdisc show` from iproute2 6.1 and 7.1, and from weft's plugin.
#[test]
fn the_output_of_tc_is_parsed() {
    for (shown, expected) in [
        (
            "qdisc pfifo 10: dev p0 parent 1: limit 24p",
            "qdisc add dev p0 parent 1: handle 10: pfifo limit 24p",
        ),
        (
            "qdisc bfifo 1: dev p0 root refcnt 2 limit 15Kb",
            "qdisc add dev p0 root handle 1: bfifo limit 15Kb",
        ),
        (
            "qdisc prio 1: dev p0 root refcnt 2 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1",
            "qdisc add dev p0 root handle 1: prio bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1",
        ),
        (
            "qdisc fq 8001: dev p0 root refcnt 2 limit 10000p flow_limit 100p buckets 1024 orphan_mask 1023 \
             bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1 weights 589824 196608 65536 quantum 3028b \
             initial_quantum 15140b low_rate_threshold 550Kbit refill_delay 40ms timer_slack 10us horizon 10s \
             horizon_drop offload_horizon 0us",
            "qdisc add dev p0 root handle 8001: fq limit 10000p flow_limit 100p buckets 1024 orphan_mask 1023 \
             bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1 weights 589824 196608 65536 quantum 3028b \
             initial_quantum 15140b low_rate_threshold 550Kbit refill_delay 40ms timer_slack 10us horizon 10s \
             horizon_drop offload_horizon 0us",
        ),
        (
            "qdisc fq_codel 0: dev p0 parent 2:1 limit 10240p flows 1024 quantum 1514 target 5ms ce_threshold 1ms \
             ce_threshold_selector 0x1/0x3 interval 100ms memory_limit 32Mb ecn drop_batch 64",
            "qdisc add dev p0 parent 2:1 fq_codel limit 10240p flows 1024 quantum 1514 target 5ms ce_threshold 1ms \
             ce_threshold_selector 0x1/0x3 interval 100ms memory_limit 32Mb ecn drop_batch 64",
        ),
        (
            "qdisc tbf 1: dev p0 root refcnt 2 rate 10Mbit burst 15Kb peakrate 20Mbit minburst 1514b lat 50ms \
             overhead 24 linklayer atm",
            "qdisc add dev p0 root handle 1: tbf rate 10Mbit burst 15Kb peakrate 20Mbit minburst 1514b lat 50ms \
             overhead 24 linklayer atm",
        ),
        (
            "qdisc tbf 1: dev p0 root refcnt 2 rate 10Mbit burst 15Kb/8 mpu 64b lat 50ms linklayer ethernet",
            "qdisc add dev p0 root handle 1: tbf rate 10Mbit burst 15Kb/8 mpu 64b lat 50ms linklayer ethernet",
        ),
        (
            "qdisc wire 1: dev p0 root refcnt 2 rate 10Mbit delay 200us overhead 24 mpu 84b",
            "qdisc add dev p0 root handle 1: wire rate 10Mbit delay 200us overhead 24 mpu 84b",
        ),
        (
            "qdisc pfabric 10: dev p0 parent 1: limit 24p limit_bytes 36Kb starvation",
            "qdisc add dev p0 parent 1: handle 10: pfabric limit 24p limit_bytes 36Kb starvation",
        ),
        (
            "qdisc dibs 10: dev p0 parent 1: limit 100p mark 20p detour-to policy random",
            "qdisc add dev p0 parent 1: handle 10: dibs limit 100p mark 20p detour-to policy random",
        ),
        (
            "qdisc bfc 10: dev p0 parent 1: rate 10Mbit hrtt 3.23ms queues 32 factor 100 assign dynamic \
             scheduler fq buffer 12Mb refresh 6.46ms",
            "qdisc add dev p0 parent 1: handle 10: bfc rate 10Mbit hrtt 3.23ms queues 32 factor 100 assign dynamic \
             scheduler fq buffer 12Mb refresh 6.46ms",
        ),
        (
            "qdisc port 10: dev p0 parent 1: memory 12Mb pfc rate 10Mbit hrtt 3.23ms xoff 11%",
            "qdisc add dev p0 parent 1: handle 10: port memory 12Mb pfc rate 10Mbit hrtt 3.23ms xoff 11%",
        ),
        (
            "qdisc fastpass 10: dev p0 parent 1: address 10.0.0.2 first 10.0.0.2 hosts 4 racks 1 pods 1 \
             arbiter 10.0.0.2 port 56555 rate 10Mbit timeslot 1.23ms overhead 24 mpu 84b limit 1000p late 12.3ms \
             timeout 300ms standby 0.0.0.0 skew 0ns paths 0 report 600ms gather 1.23ms smallqueue 0ns hold 0ns \
             order fifo classes 1 urgent 16Kb",
            "qdisc add dev p0 parent 1: handle 10: fastpass address 10.0.0.2 first 10.0.0.2 hosts 4 racks 1 pods 1 \
             arbiter 10.0.0.2 port 56555 rate 10Mbit timeslot 1.23ms overhead 24 mpu 84b limit 1000p late 12.3ms \
             timeout 300ms standby 0.0.0.0 skew 0ns paths 0 report 600ms gather 1.23ms smallqueue 0ns hold 0ns \
             order fifo classes 1 urgent 16Kb",
        ),
        (
            "qdisc dualpi2 10: dev p0 parent 1: limit 10000p memlimit 15140000B target 15ms tupdate 16ms \
             alpha 0.160156 beta 3.199219 step_thresh 1ms min_qlen_step 0p coupling_factor 2 drop_on_overload \
             drop_dequeue classic_protection 10% l4s_ect split_gso",
            "qdisc add dev p0 parent 1: handle 10: dualpi2 limit 10000p memlimit 15140000B target 15ms tupdate 16ms \
             alpha 0.160156 beta 3.199219 step_thresh 1ms min_qlen_step 0p coupling_factor 2 drop_on_overload \
             drop_dequeue classic_protection 10% l4s_ect split_gso",
        ),
    ] {
        let command = qdisc::parse("f", shown).unwrap().remove(0);
        assert_eq!(known(command).to_string(), expected);
    }
}

/// 41 and 819 parts of 256, of which `tc` shows six decimals.
#[test]
fn the_gains_that_tc_shows_are_whole() {
    let shown = one("dualpi2 alpha 0.160156 beta 3.199219");
    let exact = one("dualpi2 alpha 0.16015625 beta 3.19921875");
    assert_eq!(shown.options(), exact.options());
    let other = one("dualpi2 alpha 0.16 beta 3.2");
    let alpha = |command: &QdiscCommand| attributes(command.options().unwrap())[&5].clone();
    assert_eq!(alpha(&other), 40_u32.to_ne_bytes());
    assert_eq!(alpha(&exact), 41_u32.to_ne_bytes());
}

/// A line of `tc qdisc show` that is left to `tc`, as it is given to it.
#[test]
fn what_tc_shows_of_other_kinds_is_a_line_for_tc() {
    for (shown, expected) in [
        (
            "qdisc codel 10: dev p0 parent 1: limit 1000p target 5ms interval 100ms ecn",
            "qdisc add dev p0 parent 1: handle 10: codel limit 1000 target 5ms interval 100ms ecn",
        ),
        (
            "qdisc htb 1: dev p0 root refcnt 2 r2q 10 default 0x10 direct_packets_stat 7 ver 3.17 direct_qlen 1000",
            "qdisc add dev p0 root handle 1: htb r2q 10 default 0x10 direct_qlen 1000",
        ),
        // The plugin of weft's qdiscs reads the `p`, too.
        (
            "qdisc hold 10: dev p0 parent 1: backlog 3p random_priority 0xff txtime 5us",
            "qdisc add dev p0 parent 1: handle 10: hold backlog 3 random_priority 0xff txtime 5us",
        ),
    ] {
        let command = qdisc::parse("f", shown).unwrap().remove(0);
        assert!(matches!(command, Command::Tc(_)), "{command}");
        assert_eq!(command.to_string(), expected);
    }
}

#[test]
fn what_tc_does_not_show_is_demanded() {
    let shown = "qdisc red 10: dev p0 parent 1: limit 150Kb min 30000b max 90000b ecn nodrop";
    let details = "ewma 5 probability 0.02 Scell_log 13";
    for shown in [shown.to_owned(), format!("{shown} {details}")] {
        assert_eq!(
            refusal(&shown),
            "red: `tc qdisc show` does not print `avpkt`, `burst` and `bandwidth`: add them, for example \
             `avpkt 1500 burst 30 bandwidth 10mbit`"
        );
        let cured = format!("{shown} avpkt 1500 burst 30 bandwidth 10mbit");
        let command = qdisc::parse("f", &cured).unwrap().remove(0);
        let written = one(
            "red limit 150kb min 30000 max 90000 ecn nodrop avpkt 1500 burst 30 bandwidth 10mbit",
        );
        assert_eq!(known(command).options(), written.options());
    }
}

/// Prints as `tc` does, but with as many digits as a quantity has.
#[derive(Default)]
struct TcText(std::cell::RefCell<String>);

impl weft_tc::tc::Output for TcText {
    fn text(&self, text: &str) {
        self.0.borrow_mut().push_str(text);
    }

    fn new_line(&self) {}

    fn time(&self, nanoseconds: u64) -> String {
        format!("{nanoseconds}ns")
    }

    fn rate(&self, _: &CStr, bytes_per_second: u64) {
        self.text(&format!("{}bit", 8 * bytes_per_second));
    }

    fn number(&self, _: &CStr, _: u64) {}
    fn boolean(&self, _: &CStr, _: bool) {}
    fn string(&self, _: &CStr, _: &str) {}
    fn array(&self, _: &CStr, _: &[u64]) {}
    fn strings(&self, _: &CStr, _: &[String]) {}

    fn device(&self, index: u32) -> String {
        format!("if{index}")
    }
}

#[derive(Default)]
struct Message(Vec<u8>);

impl nla::Sink for Message {
    fn put(&mut self, attr: u16, payload: &[u8]) -> Result<(), nla::NoRoom> {
        let length = (nla::HEADER + payload.len()) as u16;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(attr.to_ne_bytes());
        self.0.extend(payload);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        Ok(())
    }
}

/// Each of weft's qdiscs, with few options and with many.
#[test]
fn what_weft_qdiscs_print_is_the_same_qdisc() {
    use weft_mechanisms::{bfc, dibs, fastpass, pfabric, port, wire};
    fn read_back<C: Configuration + PartialEq + Debug>(words: &str) {
        let request = one(words);
        let config = C::requested(None, request.options().unwrap()).unwrap();
        let mut dump = Message::default();
        config.put(&mut dump).unwrap();
        let output = TcText::default();
        let qdisc = weft_mechanisms::qdisc(request.kind).unwrap();
        weft_tc::options::print(qdisc, &dump.0, &output).unwrap();
        let line = format!(
            "qdisc {} 1: dev p0 root refcnt 2 {}",
            qdisc.kind,
            output.0.borrow()
        );
        let again = known(qdisc::parse("f", &line).unwrap().remove(0));
        let again = C::requested(None, again.options().unwrap()).unwrap();
        assert_eq!(again, config, "{line}");
    }
    read_back::<wire::options::Config>("wire rate 10mbit");
    read_back::<wire::options::Config>(
        "wire rate 10mbit delay 200us overhead 24 mpu 84 slack 60us limit 1mb",
    );
    read_back::<pfabric::options::Config>("pfabric");
    read_back::<pfabric::options::Config>("pfabric limit_bytes 36kb nostarvation");
    read_back::<dibs::options::Config>("dibs");
    read_back::<dibs::options::Config>(
        "dibs limit_bytes 150kb mark 10 detour-to policy probabilistic ttl 9 from 70 ranks 1000",
    );
    read_back::<dibs::options::Config>("dibs share 1mb alpha 1/2 policy off");
    read_back::<dibs::options::Config>("dibs limit 0 mark 0");
    read_back::<port::options::Config>("port");
    read_back::<port::options::Config>(
        "port memory 12mb alpha off pfc rate 10mbit hrtt 3ms headroom 9kb xoff 20 xon 3kb quanta 999 priority 2 \
         watchdog 9ms",
    );
    read_back::<bfc::options::Config>("bfc rate 10mbit hrtt 3ms");
    read_back::<bfc::options::Config>(
        "bfc rate 10mbit hrtt 3ms th 20kb queues 16 factor 25 assign stochastic classes 4 incast 1 sample 50 \
         sticky 9us limit 1mb buffer 2mb refresh 7ms quantum 3000 alpha 8 hold 70ms watchdog 1s",
    );
    read_back::<bfc::options::Config>("bfc rate 10mbit hrtt 3ms scheduler srf alpha off sticky 0");
    const HOST: &str =
        "fastpass address 10.0.0.3 first 10.0.0.2 hosts 4 arbiter 10.0.0.2 rate 10mbit";
    read_back::<fastpass::options::Config>(HOST);
    read_back::<fastpass::options::Config>(&format!(
        "{HOST} racks 4 pods 2 port 99 timeslot 1ms overhead 0 mpu 60 limit 9 late 3ms interval 2ms timeout 40ms \
         standby 10.0.0.5 skew 5us paths 4 report 70ms gather 2ms smallqueue 3ms hold 1ms order rank classes 3 \
         urgent 9kb"
    ));
}

#[test]
fn clsact_is_added_beside_the_root_qdisc() {
    let command = QdiscCommand::clsact("p0");
    assert_eq!(command.to_string(), "qdisc add dev p0 clsact");
    // Like tc: TC_H_CLSACT, and its major number as the handle.
    assert_eq!(
        (command.parent.0, command.handle.0),
        (0xffff_fff1, 0xffff_0000)
    );
    assert_eq!(command.options(), None);
}
