// SPDX-License-Identifier: MIT OR Apache-2.0

//! The plugin in the real `tc`, without root and without weft's kernel modules. Wrong command lines
//! fail before `tc` calls the kernel, right ones fail at a device that does not exist, and output
//! comes from messages in a file, by `tc monitor file`.
//!
//! `WEFT_TC` names another `tc` to test.

use crate::recorded_tc::Message;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use weft_mechanisms::common::nla::Sink;
use weft_mechanisms::common::options::Configuration as _;
use weft_mechanisms::pfabric::options as pfabric;
use weft_mechanisms::wire::options as wire;

/// The `tc` to test. Users other than root often lack `/usr/sbin` in their path.
fn tc() -> &'static Path {
    static TC: OnceLock<PathBuf> = OnceLock::new();
    TC.get_or_init(|| {
        if let Some(tc) = std::env::var_os("WEFT_TC") {
            return tc.into();
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .chain(["/usr/sbin".into(), "/sbin".into()])
            .map(|folder| folder.join("tc"))
            .find(|tc| tc.is_file())
            .expect("these tests run the real tc: install iproute2, or name a tc in WEFT_TC")
    })
}

/// A folder with the library under the names that `tc` looks for.
fn plugins() -> &'static Path {
    static PLUGINS: OnceLock<PathBuf> = OnceLock::new();
    PLUGINS.get_or_init(|| {
        // Cargo puts the library and this test into the same folder.
        let test = std::env::current_exe().unwrap();
        let library = test.with_file_name("libweft_tc.so");
        assert!(library.is_file(), "{} is not built", library.display());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugins");
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["q_bfc.so", "q_hold.so", "q_pfabric.so", "q_wire.so"] {
            let link = folder.join(name);
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(&library, link).unwrap();
        }
        folder
    })
}

/// Runs `tc`; returns exit status, standard output and standard error.
fn run(words: &str) -> (i32, String, String) {
    let output = Command::new(tc())
        .args(words.split_whitespace())
        .env("TC_LIB_DIR", plugins())
        .output()
        .unwrap();
    (
        output.status.code().expect("tc was killed by a signal"),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// Runs `tc` with a qdisc for a device that does not exist; returns exit status and standard error.
fn add(words: &str) -> (i32, String) {
    let (status, out, error) = run(&format!("qdisc add dev weft-none root {words}"));
    assert_eq!(out, "");
    (status, error)
}

/// Asserts that `tc` accepts every word up to the device.
fn assert_understood(words: &str) {
    let no_device = "Cannot find device \"weft-none\"\n".to_owned();
    assert_eq!(add(words), (1, no_device), "{words}");
}

fn assert_refused(words: &str, status: i32, error: &str) {
    assert_eq!(add(words), (status, error.to_owned()), "{words}");
}

#[test]
fn help_prints_the_usage_as_a_failure() {
    assert_refused(
        "pfabric help",
        1,
        &weft_tc::options::usage(&weft_mechanisms::pfabric::QDISC),
    );
    assert_refused(
        "wire help",
        1,
        &weft_tc::options::usage(&weft_mechanisms::wire::QDISC),
    );
    assert_refused(
        "hold help",
        1,
        &weft_tc::options::usage(&weft_mechanisms::hold::QDISC),
    );
    assert_refused(
        "bfc help",
        1,
        &weft_tc::options::usage(&weft_mechanisms::bfc::QDISC),
    );
}

#[test]
fn tc_reads_quantities_as_it_always_does() {
    assert_understood("pfabric");
    assert_understood("pfabric limit 24 limit_bytes 36kb starvation");
    assert_understood("pfabric limit 0x18 limit_bytes 36000 nostarvation");
    assert_understood("pfabric limit 65536 limit_bytes 4294967295");
    assert_understood("hold backlog 10000 random_priority 0xffff txtime 1ms");
    assert_understood("bfc rate 100gbit hrtt 2us th 25kb queues 0x20 elide lo elide if77");
    assert_understood("bfc th 1kb alpha 1/2 hold 20ms watchdog 3s elide if2147483647");
    assert_understood("bfc rate 10mbit hrtt 2us pushback backlogged scale 150% control 0");
    assert_understood("bfc sticky auto sample 50% incast 0xffffffff buffer 12mb noelide");
    assert_understood("wire");
    assert_understood("wire rate 10mbit delay 200us");
    assert_understood("wire rate 1kbit delay 0 overhead 1000 mpu 2000");
    assert_understood("wire rate 400gbit delay 10s overhead 24b mpu 84b");
    assert_understood("wire rate 1.25gbps delay 1.5ms");
    assert_understood("wire rate 50GBps delay 10000000000ns");
    assert_understood("wire rate 10mbit slack 60us");
    assert_understood("wire rate 10mbit slack 1s");
    assert_understood("wire rate 10mbit limit 1.5mb overhead 0x18");
    assert_understood("wire rate 400gbit delay 10s limit 4000000000");
    assert_understood("wire rate 10mbit delay 1.001us slack 0.000001s");
}

#[test]
fn values_out_of_range_are_refused() {
    let limit = "Error: Limit must be between 1 and 65536 packets.\n";
    assert_refused("pfabric limit 0", 1, limit);
    assert_refused("pfabric limit 65537", 1, limit);
    assert_refused("pfabric limit 0xffffffffff", 1, limit);
    assert_refused("pfabric limit -1", 1, limit);
    // 24 - 2^64, which C's functions read as 24.
    assert_refused("pfabric limit -18446744073709551592", 1, limit);
    let rate = "Error: Rate must be between 1 kbit/s and 400 Gbit/s.\n";
    assert_refused("wire rate 999bit", 1, rate);
    assert_refused("wire rate 401gbit", 1, rate);
    assert_refused("wire rate 0", 1, rate);
    let delay = "Error: Delay must be at most 10 s.\n";
    assert_refused("wire rate 1gbit delay 10.1s", 1, delay);
    assert_refused("wire rate 1gbit delay 10000000001", 1, delay);
    let overhead = "Error: Overhead must be at most 1000 bytes.\n";
    assert_refused("wire rate 1gbit overhead 1001", 1, overhead);
    assert_refused(
        "wire rate 1gbit mpu 2kb",
        1,
        "Error: MPU must be at most 2000 bytes.\n",
    );
    let slack = "Error: Slack must be at most 1 s.\n";
    assert_refused("wire rate 1gbit slack 1.1s", 1, slack);
    assert_refused("wire rate 1gbit slack 4294967297", 1, slack);
    let limit = "Error: Limit must be at most 4000000000 bytes.\n";
    // A value beyond the message's 32 bits is out of range, too.
    for value in ["4000000001", "4gb", "4294967296", "100gb"] {
        assert_refused(&format!("wire rate 1gbit limit {value}"), 1, limit);
    }
    assert_refused(
        "bfc th 1kb quantum 4gb",
        1,
        "Error: Quantum must be at most 1048576 bytes.\n",
    );
}

#[test]
fn malformed_values_are_illegal() {
    let illegal = |option: &str, value: &str, expected: &str| {
        format!("Illegal \"{option}\": \"{value}\" is not {expected}\n")
    };
    for value in ["many", "1k", "99999999999999999999"] {
        let error = illegal("limit", value, "a number of packets");
        assert_refused(&format!("pfabric limit {value}"), 1, &error);
    }
    for value in ["many", "4294967296", "5gb", "-1"] {
        let error = illegal("limit_bytes", value, "a size of at most 4294967295 bytes");
        assert_refused(&format!("pfabric limit_bytes {value}"), 1, &error);
    }
    for value in ["fast", "10mbi", "50%"] {
        let error = illegal("rate", value, "a rate, for example 10gbit");
        assert_refused(&format!("wire rate {value}"), 1, &error);
    }
    for value in ["long", "10m", "-1us"] {
        let error = illegal("delay", value, "a time, for example 200us");
        assert_refused(&format!("wire delay {value}"), 1, &error);
        let error = illegal("slack", value, "a time, for example 60us");
        assert_refused(&format!("wire slack {value}"), 1, &error);
    }
    // Values that tc's own functions would truncate or wrap around.
    for value in ["1.5", "1.0001kb", "0x1.8", "1e-1", "inf", "nan", "24x"] {
        for option in ["overhead", "mpu", "limit"] {
            let error = illegal(option, value, "a number of bytes");
            assert_refused(&format!("wire {option} {value}"), 1, &error);
        }
        for option in ["th", "limit", "buffer", "quantum"] {
            let error = illegal(option, value, "a size of at most 4294967295 bytes");
            assert_refused(&format!("bfc {option} {value}"), 1, &error);
        }
        let error = illegal("limit_bytes", value, "a size of at most 4294967295 bytes");
        assert_refused(&format!("pfabric limit_bytes {value}"), 1, &error);
    }
    for value in ["1.5", "0.0001us", "1e-10s", "inf", "nan", "1usx"] {
        let error = illegal("delay", value, "a time, for example 200us");
        assert_refused(&format!("wire delay {value}"), 1, &error);
        let error = illegal("slack", value, "a time, for example 60us");
        assert_refused(&format!("wire slack {value}"), 1, &error);
        let error = illegal("hrtt", value, "a time, for example 20us");
        assert_refused(&format!("bfc hrtt {value}"), 1, &error);
    }
    for option in ["th", "limit", "buffer"] {
        let error = illegal(option, "4294967296", "a size of at most 4294967295 bytes");
        assert_refused(&format!("bfc {option} 4294967296"), 1, &error);
    }
    for value in ["1.5", "24x"] {
        let error = illegal("limit", value, "a number of packets");
        assert_refused(&format!("pfabric limit {value}"), 1, &error);
        let error = illegal("queues", value, "a number of queues");
        assert_refused(&format!("bfc queues {value}"), 1, &error);
    }
    let error = illegal("elide", "weft-none", "a device");
    assert_refused("bfc elide weft-none", 1, &error);
    for option in ["overhead", "mpu"] {
        let error = illegal(option, "-1", "a number of bytes");
        assert_refused(&format!("wire {option} -1"), 1, &error);
    }
}

#[test]
fn unknown_words_are_quoted() {
    let what = |qdisc| format!("What is \"foo\"?\n{}", weft_tc::options::usage(qdisc));
    assert_refused("pfabric foo", 1, &what(&weft_mechanisms::pfabric::QDISC));
    assert_refused(
        "wire rate 1gbit foo",
        1,
        &what(&weft_mechanisms::wire::QDISC),
    );
}

#[test]
fn an_incomplete_or_duplicate_option_ends_tc() {
    let incomplete = "Command line is not complete. Try option \"help\"\n";
    assert_refused("pfabric limit", 255, incomplete);
    assert_refused("wire rate 1gbit delay", 255, incomplete);
    let twice = "Error: duplicate \"rate\": \"2gbit\" is the second value.\n";
    assert_refused("wire rate 1gbit rate 2gbit", 255, twice);
    let both = "Error: duplicate \"starvation\": \"nostarvation\" is the second value.\n";
    assert_refused("pfabric starvation nostarvation", 255, both);
}

#[test]
fn a_word_that_is_not_text_is_not_an_option() {
    use std::os::unix::ffi::OsStrExt;
    let output = Command::new(tc())
        .args("qdisc add dev weft-none root pfabric".split_whitespace())
        .arg(std::ffi::OsStr::from_bytes(b"\xff\xfe"))
        .env("TC_LIB_DIR", plugins())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.starts_with("What is \"\u{fffd}\u{fffd}\"?\n"),
        "{error}"
    );
}

/// `RTM_NEWQDISC` for a root qdisc of the loopback device, in the kernel's format.
fn dump(kind: &str, options: &[u8], statistics: &[u8]) -> Vec<u8> {
    const RTM_NEWQDISC: u16 = 36;
    const TCA_KIND: u16 = 1;
    const TCA_OPTIONS: u16 = 2;
    const TCA_STATS2: u16 = 7;
    const TCA_STATS_BASIC: u16 = 1;
    const TCA_STATS_QUEUE: u16 = 3;
    const TCA_STATS_APP: u16 = 4;
    const TC_H_ROOT: u32 = u32::MAX;

    let mut nested = Message::default();
    let mut basic = 4500_u64.to_ne_bytes().to_vec();
    basic.extend(3_u32.to_ne_bytes());
    nested.put(TCA_STATS_BASIC, &basic).unwrap();
    let [qlen, backlog, drops, requeues, overlimits] =
        [2_u32, 3000, 15, 0, 0].map(u32::to_ne_bytes);
    let queue = [qlen, backlog, drops, requeues, overlimits].concat();
    nested.put(TCA_STATS_QUEUE, &queue).unwrap();
    nested.put(TCA_STATS_APP, statistics).unwrap();

    let mut attributes = Message::default();
    attributes
        .put(TCA_KIND, format!("{kind}\0").as_bytes())
        .unwrap();
    attributes.put(TCA_OPTIONS, options).unwrap();
    attributes.put(TCA_STATS2, &nested.0).unwrap();

    // struct tcmsg: family and padding, device, handle, parent, information (references).
    let mut body = vec![0; 4];
    for field in [1, 0x0001_0000, TC_H_ROOT, 2] {
        body.extend(u32::to_ne_bytes(field));
    }
    body.extend(attributes.0);

    // struct nlmsghdr: length, type, flags, sequence, port.
    let mut message = u32::try_from(16 + body.len())
        .unwrap()
        .to_ne_bytes()
        .to_vec();
    message.extend(RTM_NEWQDISC.to_ne_bytes());
    message.extend([0; 10]);
    message.extend(body);
    message
}

/// Output of `tc FLAGS monitor file` for a message: standard output and standard error.
fn monitored(name: &str, flags: &str, message: &[u8]) -> (String, String) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, message).unwrap();
    let output = Command::new(tc())
        .args(flags.split_whitespace())
        .args(["monitor", "file"])
        .arg(&file)
        .env("TC_LIB_DIR", plugins())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn bytes_of(
    put: impl FnOnce(&mut Message) -> Result<(), weft_mechanisms::common::nla::NoRoom>,
) -> Vec<u8> {
    let mut message = Message::default();
    put(&mut message).unwrap();
    message.0
}

fn some_pfabric() -> Vec<u8> {
    let config = pfabric::Config {
        limit: 24,
        limit_bytes: 36 * 1024,
        starvation_prevention: true,
    };
    let stats = weft_mechanisms::pfabric::stats::Stats {
        evicted: 12,
        rejected: 3,
        overtaken: 7,
        evicted_bytes: 18_000,
        rejected_bytes: 4096,
        flows: 2,
        highest_backlog: 24,
        highest_backlog_bytes: 1 << 32,
    };
    dump(
        "pfabric",
        &bytes_of(|message| config.put(message)),
        &stats.to_bytes(),
    )
}

fn some_wire() -> Vec<u8> {
    let config = wire::Config {
        rate: 1_250_000,
        delay: 200_000,
        overhead: 24,
        mpu: 84,
        slack: 60_000,
        limit: 0,
    };
    let mut stats = weft_mechanisms::wire::stats::Stats {
        busy_ns: 3_645_000,
        in_flight: 2,
        in_flight_bytes: 3000,
        late_count: 3,
        late_sum_ns: 3001,
        late_max_ns: 2001,
        ..weft_mechanisms::wire::stats::Stats::default()
    };
    stats.late_histogram[0] = 1;
    stats.late_histogram[10] = 1;
    stats.late_histogram[11] = 1;
    dump(
        "wire",
        &bytes_of(|message| config.put(message)),
        &stats.to_bytes(),
    )
}

fn some_bfc(statistics: &[u8]) -> Vec<u8> {
    use weft_mechanisms::bfc::options::{Config, Devices, Options};
    let mut devices = Devices::NONE;
    // The loopback device, and a missing one.
    assert!(devices.push(1) && devices.push(1 << 30));
    let options = Options {
        rate: Some(12_500_000_000),
        hrtt: Some(2_000),
        elide: Some(devices),
        ..Options::default()
    };
    let config = Config::new(&options).unwrap();
    dump("bfc", &bytes_of(|message| config.put(message)), statistics)
}

#[test]
fn tc_shows_a_bfc_qdisc_and_its_statistics() {
    let stats = weft_mechanisms::bfc::stats::Stats {
        threshold: 25_000,
        hrtt: 2_000,
        paused_ns: 1_500_000,
        ..Default::default()
    };
    let (out, error) = monitored("bfc-s", "-s", &some_bfc(&stats.to_bytes()));
    assert_eq!(error, "");
    assert_eq!(
        out,
        "\
qdisc bfc 1: dev lo root refcnt 2 rate 100Gbit hrtt 2us queues 32 factor 100 assign dynamic \
scheduler fq buffer 12000000b refresh 20us elide lo elide if1073741824 hold 1s 
 Sent 4500 bytes 3 pkt (dropped 15, overlimits 0 requeues 0) 
 backlog 3000b 2p requeues 0
  queues occupied 0 active 0 paused 0 for 1.5ms flows 0 collisions 0
  longest 0b threshold 25000b hrtt 2us congested 0p elided 0p unmarked 0p
  dropped limit 0p buffer 0p memory 0p control 0p share 0p highest_backlog 0b buffer 0b highest 0b
  upstream pausing 0 sent pauses 0 resumes 0 bitmaps 0 unsent 0
  downstream received pauses 0 resumes 0 bitmaps 0 lapsed 0 released 0 ignored malformed 0 foreign 0 replayed 0
",
    );
}

#[test]
fn tc_shows_a_pfabric_qdisc() {
    let (out, error) = monitored("pfabric", "", &some_pfabric());
    assert_eq!(error, "");
    assert_eq!(
        out,
        "qdisc pfabric 1: dev lo root refcnt 2 limit 24p limit_bytes 36Kb starvation \n",
    );
}

#[test]
fn tc_shows_a_pfabric_qdiscs_statistics() {
    let (out, error) = monitored("pfabric-s", "-s", &some_pfabric());
    assert_eq!(error, "");
    assert_eq!(
        out,
        "\
qdisc pfabric 1: dev lo root refcnt 2 limit 24p limit_bytes 36Kb starvation 
 Sent 4500 bytes 3 pkt (dropped 15, overlimits 0 requeues 0) 
 backlog 3000b 2p requeues 0
  evicted 18000b 12p rejected 4Kb 3p overtaken 7p
  flows 2 highest_backlog 4Gb 24p
",
    );
}

#[test]
fn tc_shows_a_wire_qdisc_with_its_own_units() {
    let (out, error) = monitored("wire", "", &some_wire());
    assert_eq!(error, "");
    assert_eq!(
        out,
        "qdisc wire 1: dev lo root refcnt 2 rate 10Mbit delay 200us overhead 24 mpu 84b slack 60us \n",
    );
    let (out, _) = monitored("wire-iec", "-iec", &some_wire());
    assert!(out.contains(" rate 9765Kibit delay 200us "), "{out}");
}

#[test]
fn tc_shows_a_wire_qdiscs_statistics() {
    let (out, error) = monitored("wire-s", "-s", &some_wire());
    assert_eq!(error, "");
    assert_eq!(
        out,
        "\
qdisc wire 1: dev lo root refcnt 2 rate 10Mbit delay 200us overhead 24 mpu 84b slack 60us 
 Sent 4500 bytes 3 pkt (dropped 15, overlimits 0 requeues 0) 
 backlog 3000b 2p requeues 0
  busy 3.65ms in_flight 3000b 2p
  lateness count 3 mean 1us max 2us 0ns 1 <1.02us 1 <2.05us 1
",
    );
}

#[test]
fn tc_does_not_color_the_output_of_a_plugin() {
    let (out, _) = monitored("pfabric-color", "-color=always", &some_pfabric());
    assert!(out.contains("\x1b["), "{out}");
    let own = "root refcnt 2 limit 24p limit_bytes 36Kb starvation \n";
    assert!(out.ends_with(own), "{out}");
}

#[test]
fn tc_prints_everything_in_one_line_if_requested() {
    let (out, _) = monitored("pfabric-o", "-s -o", &some_pfabric());
    assert!(
        out.ends_with(
            "\\ backlog 3000b 2p requeues 0\\  \
             evicted 18000b 12p rejected 4Kb 3p overtaken 7p\\  \
             flows 2 highest_backlog 4Gb 24p\\"
        ),
        "{out}",
    );
    let (out, _) = monitored("wire-o", "-s -o", &some_wire());
    assert!(
        out.ends_with(
            "\\ backlog 3000b 2p requeues 0\\  \
             busy 3.65ms in_flight 3000b 2p\\  \
             lateness count 3 mean 1us max 2us 0ns 1 <1.02us 1 <2.05us 1\\"
        ),
        "{out}",
    );
}

#[test]
fn a_dump_that_cannot_be_read_is_reported_on_standard_error() {
    for kind in ["pfabric", "wire"] {
        let file = format!("{kind}-malformed");
        let (out, error) = monitored(&file, "-s", &dump(kind, &[], &[0; 8]));
        assert!(
            out.starts_with(&format!("qdisc {kind} 1: dev lo root refcnt 2 \n")),
            "{out}"
        );
        let needed = match kind {
            "pfabric" => weft_mechanisms::pfabric::stats::Stats::SIZE,
            _ => weft_mechanisms::wire::stats::Stats::SIZE,
        };
        let same = format!("is q_{kind}.so of the same release as the kernel module?");
        assert_eq!(
            error,
            format!(
                "{kind}: cannot read the options: The dump lacks an attribute: {same}\n\
                 {kind}: 8 bytes of statistics instead of {needed}: {same}\n",
            ),
        );
    }
}

#[test]
fn the_known_part_of_a_newer_kernels_statistics_is_shown() {
    let options = bytes_of(|message| {
        pfabric::Config::new(&pfabric::Options::default())
            .unwrap()
            .put(message)
    });
    let (out, error) = monitored("newer", "-s", &dump("pfabric", &options, &[0; 64]));
    assert_eq!(error, "");
    assert!(out.ends_with("  flows 0 highest_backlog 0b 0p\n"), "{out}");
}
