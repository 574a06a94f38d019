// SPDX-License-Identifier: MIT OR Apache-2.0

//! Ordinary programs on fabrics in virtual time: programs of Debian, and one that is built from
//! crates. `cargo xtask test` runs this twice and compares all bytes. In the guest, as KTAP.

#[allow(dead_code)] // The other program uses more of these.
mod folder;
mod slurm;
#[allow(dead_code)]
mod weft;

use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use weft_ktap::{Context, Program, Skip, tests};

use crate::folder::Folder;
use crate::weft::succeed;

/// Bit/s of each link, and the fabric's time dilation.
const RATE: f64 = 10e9;
const DILATION: f64 = 1000.0;
/// Payload of a full TCP segment, and its size on a wire, in bytes.
const PAYLOAD: f64 = 1448.0;
const FRAME: f64 = 1538.0;
/// A round trip between two pods of the fabric, in s: twice 6 links of 200 ns, and small frames.
const ROUND_TRIP: f64 = 13.6e-6;
/// Size of the transfer.
const BYTES: f64 = 1e6;

fn main() -> ExitCode {
    let program = Program {
        name: "weft-application-selftests",
        about: "\
Tests of Redis, iperf3, curl, tcpdump and a QUIC client and server on fabrics that weft weaves, and of Slurm, \
as KTAP: cargo xtask vm --clock model \
--package curl,iperf3,munge,python3,redis,slurm-client,slurmctld,slurmd,tcpdump -- weft-application-selftests",
        parts: weft_ktap::parts![applications, slurm],
        watch_kernel_log: true,
        settle: weft::none_is_up,
        ..Program::DEFAULT
    };
    program.main()
}

mod applications {
    pub(super) use super::TESTS;
}

tests![
    redis_is_faster_under_pfabric_where_a_bulk_transfer_shares_its_link,
    iperf3_gets_what_the_fabric_gives,
    curl_fetches_a_file_in_the_time_that_its_links_take,
    quic_from_crates_connects_and_fetches,
    tcpdump_sees_a_packet_at_both_ends_of_a_wire_at_once,
];

fn require(programs: &[&str]) -> Result<()> {
    for program in programs {
        let found = Command::new("sh")
            .args(["-c", &format!("command -v {program}")])
            .output()?;
        if !found.status.success() {
            return Err(Skip(format!("there is no {program}")).into());
        }
    }
    Ok(())
}

/// `weft lab` on a fat-tree, as JSON.
fn lab(words: &[&str]) -> Result<Value> {
    let mut command = Command::new("weft");
    command
        .args(["lab", "fat-tree:k=4", "--dilation", "1000", "--json"])
        .args(words);
    let text = succeed(&mut command).with_context(|| words.join(" "))?;
    serde_json::from_str(&text).context(text)
}

fn output(lab: &Value) -> Result<&str> {
    lab["output"].as_str().context("no output")
}

/// The duration of the command, in s of fabric time.
fn seconds(lab: &Value) -> Result<f64> {
    lab["seconds"].as_f64().context("no time")
}

fn ensure_about(what: &str, value: f64, least: f64, most: f64) -> Result<()> {
    ensure!(
        (least..=most).contains(&value),
        "{what}: {value}, expected {least} to {most}"
    );
    Ok(())
}

/// The server's link also carries a long transfer. pFabric serves the flow that has sent less
/// first; in a FIFO a request waits for the backlog.
fn redis_is_faster_under_pfabric_where_a_bulk_transfer_shares_its_link(cx: &Context) -> Result<()> {
    require(&["redis-server", "redis-benchmark"])?;
    weft::require_programs()?;
    let server = "redis-server --save '' --protected-mode no";
    let bulk = "sh -c 'sleep 0.2; exec iperf3 -c h3 -t 1000'";
    let mut medians = Vec::new();
    for scheme in ["droptail", "pfabric"] {
        let ports = ["--wait-for", "h3:6379", "--wait-for", "h3:5201"];
        let mut words = vec![
            "--scheme",
            scheme,
            "--on",
            "h3",
            server,
            "--on",
            "h3",
            "iperf3 -s",
        ];
        words.extend(["--on", "h5", bulk]);
        words.extend(ports);
        words.extend([
            "--from",
            "h7",
            "redis-benchmark",
            "-h",
            "h3",
            "-c",
            "1",
            "-n",
            "200",
        ]);
        words.extend(["-t", "get", "--csv"]);
        let lab = lab(&words)?;
        let row = output(&lab)?.lines().last().context("no row")?;
        cx.note(format!("{scheme}: {row}"));
        let columns: Vec<&str> = row.split(',').map(|it| it.trim_matches('"')).collect();
        // In ms of machine time.
        let median: f64 = columns.get(4).context("no median")?.parse()?;
        medians.push(median / 1e3 / DILATION);
    }
    let [droptail, pfabric] = medians[..] else {
        unreachable!("two schemes")
    };
    // At each of the few ports that both pass, at most the frame that is being sent comes first.
    let frame = FRAME * 8.0 / RATE;
    ensure_about(
        "pfabric's median",
        pfabric,
        ROUND_TRIP,
        ROUND_TRIP + 3.0 * frame,
    )?;
    ensure!(
        droptail > 1.5 * pfabric,
        "medians of {droptail} s and {pfabric} s"
    );
    Ok(())
}

fn iperf3_gets_what_the_fabric_gives(cx: &Context) -> Result<()> {
    require(&["iperf3"])?;
    let words = [
        "--on",
        "h3",
        "iperf3 -s",
        "--from",
        "h7",
        "iperf3",
        "-c",
        "h3",
        "-t",
        "20",
        "-J",
    ];
    let lab = lab(&words)?;
    let told: Value = serde_json::from_str(output(&lab)?)?;
    let got = told["end"]["sum_received"]["bits_per_second"]
        .as_f64()
        .context("no rate")?;
    let (got, expected) = (got * DILATION, RATE * PAYLOAD / FRAME);
    cx.note(format!(
        "{:.4} Gbit/s, {:.4} expected",
        got / 1e9,
        expected / 1e9
    ));
    ensure_about("goodput", got, 0.99 * expected, expected)
}

fn curl_fetches_a_file_in_the_time_that_its_links_take(cx: &Context) -> Result<()> {
    require(&["curl", "python3"])?;
    let folder = Folder::new()?;
    let content: String = (0..).map(|n: u32| format!("{n}\n")).take(200_000).collect();
    folder.write("sent", &content[..BYTES as usize])?;
    let (path, got) = (folder.path().display(), folder.path().join("got"));
    let server = format!("python3 -m http.server 8000 --directory {path}");
    let got = got.to_str().context("a path")?;
    let words = [
        "--on",
        "h3",
        &server,
        "--wait-for",
        "h3:8000",
        "--from",
        "h7",
    ];
    let curl = [
        "curl",
        "-sS",
        "-o",
        got,
        "-w",
        "%{size_download} %{time_total}",
    ];
    let lab = lab(&[&words[..], &curl, &["http://h3:8000/sent"]].concat())?;
    cx.note(format!(
        "{} s of the guest, {:.6} s of the fabric",
        output(&lab)?,
        seconds(&lab)?
    ));
    ensure!(
        std::fs::read(got)? == content.as_bytes()[..BYTES as usize],
        "another file"
    );
    // One round trip to connect, and one to request; then the window grows from 10 segments until
    // it fills the pipe.
    let links = BYTES / PAYLOAD * FRAME * 8.0 / RATE;
    ensure_about(
        "time",
        seconds(&lab)?,
        links + 2.0 * ROUND_TRIP,
        links + 5.0 * ROUND_TRIP,
    )
}

fn quic_from_crates_connects_and_fetches(cx: &Context) -> Result<()> {
    require(&["quic-example"])?;
    let server = "quic-example serve 0.0.0.0:4433";
    let words = [
        "--on",
        "h3",
        server,
        "--wait-for",
        "h3:4433",
        "--from",
        "h7",
    ];
    let lab = lab(&[&words[..], &["quic-example", "get", "h3:4433", "1000000"]].concat())?;
    let said = output(&lab)?;
    cx.note(said.trim_end());
    let numbers: Vec<f64> = said
        .split([' ', ','])
        .filter_map(|word| word.parse().ok())
        .collect();
    let [bytes, connected, took] = numbers[..] else {
        anyhow::bail!("not three numbers: {said}")
    };
    ensure!(bytes == BYTES, "{bytes} bytes");
    // The handshake: a round trip and a few full frames.
    let connected = connected / DILATION;
    ensure_about("connected after", connected, ROUND_TRIP, 2.5 * ROUND_TRIP)?;
    // QUIC carries less per packet than TCP, and starts with a smaller window.
    let links = BYTES / PAYLOAD * FRAME * 8.0 / RATE;
    ensure_about("time", took / DILATION, links, 1.25 * links)
}

fn tcpdump_sees_a_packet_at_both_ends_of_a_wire_at_once(cx: &Context) -> Result<()> {
    require(&["tcpdump"])?;
    let script = "weft capture tor0:h1 -c 1 icmp & weft capture h1:tor0 -c 1 -w /tmp/weft.pcap icmp & sleep 1; \
                  weft exec h0 ping -q -c 1 h1 >/dev/null; wait; tcpdump --time-stamp-precision=nano -nr /tmp/weft.pcap; rm /tmp/weft.pcap";
    let mut command = Command::new("weft");
    command.args([
        "lab",
        "rack:hosts=2",
        "--dilation",
        "1000",
        "-q",
        "sh",
        "-c",
        script,
    ]);
    let text = succeed(&mut command)?;
    cx.note(text.trim_end());
    let times: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once(" IP "))
        .map(|it| it.0)
        .collect();
    let [one, other] = times[..] else {
        anyhow::bail!("not two packets: {text}")
    };
    ensure!(one == other, "at {one} and {other}");
    Ok(())
}
