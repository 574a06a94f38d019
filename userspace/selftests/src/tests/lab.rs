// SPDX-License-Identifier: MIT OR Apache-2.0

//! Custom programs on a fabric: `weft lab`, `exec`, `top`, `capture`, `down --kill`. The programs
//! are in every guest.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use weft_ktap::{Context, tests};

use crate::machine::{Machine, shell};
use crate::weft::{Up, command, refusal, succeed, weft};

tests![
    the_command_finds_its_testbed_and_its_exit_status_is_passed_on,
    a_command_that_cannot_run_has_the_exit_status_of_a_shell,
    processes_on_nodes_end_with_the_fabric,
    a_signal_ends_the_command_and_the_fabric,
    a_process_that_ends_at_once_is_an_error,
    weft_waits_for_a_listening_port,
    processes_on_nodes_receive_the_given_signals,
    exec_replaces_itself_with_the_command,
    down_with_kill_ends_running_processes,
    #[exact = "judges what weft measures"]
    top_shows_the_rates_of_ports,
    a_capture_names_missing_ports_and_programs,
];

/// Runs a shell command; returns its standard output and error together, and its exit status.
fn told(line: &str) -> Result<(String, Option<i32>)> {
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {line}")])
        .stdin(Stdio::null())
        .output()
        .with_context(|| line.to_owned())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((text, output.status.code()))
}

fn the_command_finds_its_testbed_and_its_exit_status_is_passed_on(cx: &Context) -> Result<()> {
    let before = Machine::now()?;
    // Another testbed exists, so that there is a choice.
    let _other = Up::new("other", "rack:hosts=2")?;
    let script = "weft exec h0 ping -c 1 h1 >/dev/null && echo $WEFT_TESTBED $WEFT_DILATION; sleep 1; exit 7";
    let line = format!("weft lab rack:hosts=2 --dilation 1000 --testbed mine sh -c '{script}'");
    let (text, status) = told(&line)?;
    cx.note(text.trim_end());
    ensure!(
        status == Some(7) && text.starts_with("mine 1000\n"),
        "{status:?}: {text}"
    );
    let spent = "of the fabric (rack:hosts=2, droptail, 1000 times slower)";
    ensure!(text.contains("mine: 1.") && text.contains(spent), "{text}");
    drop(_other);
    before.ensure_unchanged()
}

fn a_command_that_cannot_run_has_the_exit_status_of_a_shell(_: &Context) -> Result<()> {
    for (place, program, expected) in [
        ("lab rack:hosts=2", "/no/such", 127),
        ("lab rack:hosts=2", "/etc/passwd", 126),
        ("lab rack:hosts=2 --from h0", "no-such", 127),
        ("lab rack:hosts=2 --from h0", "/etc", 126),
    ] {
        let (text, status) = told(&format!("weft {place} {program}"))?;
        ensure!(
            status == Some(expected),
            "{place} {program}: {status:?}, {text}"
        );
        ensure!(text.starts_with(&format!("weft: {program}: ")), "{text}");
    }
    let _up = Up::new("up", "rack:hosts=2")?;
    for (program, expected) in [
        ("no-such", 127),
        ("/etc/passwd", 126),
        ("false", 1),
        ("true", 0),
    ] {
        let (text, status) = told(&format!("weft exec h0 {program}"))?;
        ensure!(status == Some(expected), "{program}: {status:?}, {text}");
    }
    Ok(())
}

fn processes_on_nodes_end_with_the_fabric(_: &Context) -> Result<()> {
    let before = Machine::now()?;
    let script = "weft exec h0 sleep 77777 & weft exec h1 sh -c \"trap : TERM; while :; do sleep 88888; done\" & sleep 1";
    let line = format!("weft lab rack:hosts=2 --on h1 'sleep 99999' sh -c '{script}'");
    let (text, status) = told(&line)?;
    ensure!(status == Some(0), "{status:?}: {text}");
    let left = shell("ps -o args | grep '[s]leep [7-9]' || true")?;
    ensure!(left.is_empty(), "{left}");
    before.ensure_unchanged()
}

fn a_signal_ends_the_command_and_the_fabric(_: &Context) -> Result<()> {
    let before = Machine::now()?;
    for (from, signal) in [("", Signal::SIGTERM), ("--from h0", Signal::SIGTERM)] {
        let mut lab = command(&format!("lab rack:hosts=2 -q {from} sleep 100000")).spawn()?;
        let begun = Instant::now();
        while !shell("ps -o args")?.contains("\nsleep 100000") {
            ensure!(
                begun.elapsed() < Duration::from_secs(30),
                "it did not begin"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        kill(Pid::from_raw(i32::try_from(lab.id())?), signal)?;
        let status = lab.wait()?;
        ensure!(
            status.code() == Some(128 + signal as i32),
            "{signal}: {status}"
        );
        ensure!(begun.elapsed() < Duration::from_secs(60), "it slept on");
        before.ensure_unchanged()?;
    }
    Ok(())
}

fn a_process_that_ends_at_once_is_an_error(cx: &Context) -> Result<()> {
    let before = Machine::now()?;
    let (text, status) = told("weft lab rack:hosts=2 --on h1 'ls /no/such' true")?;
    cx.note(text.trim_end());
    ensure!(status == Some(2), "{status:?}");
    ensure!(
        text.starts_with("weft: h1: `ls /no/such` ended (exit status: "),
        "{text}"
    );
    ensure!(
        text.contains("No such file"),
        "what it said is missing: {text}"
    );
    // A later end is reported, and the command continues.
    let late = "weft lab rack:hosts=2 -q --on h0 'sh -c \"sleep 1; echo gone; exit 3\"' sleep 2";
    let (text, status) = told(late)?;
    ensure!(status == Some(0), "{status:?}: {text}");
    ensure!(text.contains("ended (exit status: 3): gone"), "{text}");
    before.ensure_unchanged()
}

fn weft_waits_for_a_listening_port(_: &Context) -> Result<()> {
    let line = "weft lab rack:hosts=2 -q --on h0 'sh -c \"sleep 3; exec iperf3 -s\"' --wait-for h0:5201 \
                weft exec h0 ss -Hltn sport = :5201";
    let (text, status) = told(line)?;
    ensure!(
        status == Some(0) && text.contains("LISTEN"),
        "{status:?}: {text}"
    );
    let (text, status) = told("weft lab rack:hosts=2 --wait-for h0:80 true")?;
    ensure!(status == Some(1), "{status:?}");
    ensure!(
        text.trim_end() == "weft: nothing listens at h0:80 after 30 s",
        "{text}"
    );
    Ok(())
}

/// weft blocks signals to clean up, and child processes would inherit that.
fn processes_on_nodes_receive_the_given_signals(_: &Context) -> Result<()> {
    // No shell, because some shells unblock all signals at first.
    let question = ["grep", "SigBlk", "/proc/self/status"];
    for from in [&[][..], &["--from", "h0"]] {
        let mut command = Command::new("weft");
        command.args(["lab", "rack:hosts=2", "-q"]).args(from);
        let text = succeed(command.args(question))?;
        ensure!(text == "SigBlk:\t0000000000000000\n", "{from:?}: {text}");
    }
    Ok(())
}

fn exec_replaces_itself_with_the_command(_: &Context) -> Result<()> {
    let _up = Up::new("up", "rack:hosts=2")?;
    let text = shell("echo $$; exec weft exec h0 sh -c 'echo $$'")?;
    let numbers: Vec<&str> = text.lines().collect();
    ensure!(
        numbers.len() == 2 && numbers[0] == numbers[1],
        "{numbers:?}"
    );
    // Words that look like options belong to the command, with and without --.
    for line in [
        "weft exec h0 echo -n --testbed x",
        "weft exec h0 -- echo -n --testbed x",
    ] {
        ensure!(shell(line)? == "--testbed x", "{line}");
    }
    ensure!(shell("weft exec --testbed up h0 echo 1")? == "1\n");
    Ok(())
}

fn down_with_kill_ends_running_processes(_: &Context) -> Result<()> {
    let before = Machine::now()?;
    weft("up rack:hosts=2 --testbed held")?;
    let mut sleeping = command("exec h0 sleep 100000").spawn()?;
    std::thread::sleep(Duration::from_millis(500));
    let said = weft("down --kill held")?;
    let status = sleeping.wait()?;
    ensure!(
        said == "held: 3 namespaces removed, 1 processes ended\n",
        "{said}"
    );
    ensure!(!status.success(), "{status}");
    before.ensure_unchanged()
}

fn top_shows_the_rates_of_ports(cx: &Context) -> Result<()> {
    let line = "weft lab rack:hosts=3,rate=10gbit --dilation 1000 -q --on h1 'iperf3 -s' --wait-for h1:5201 \
                sh -c 'weft exec h0 iperf3 -c h1 -t 30 >/dev/null & sleep 3; weft top --once; weft top --once --json'";
    let text = shell(line)?;
    cx.note(text.lines().take(4).collect::<Vec<_>>().join("\n"));
    let json = text.lines().last().context("nothing was printed")?;
    let moment: Value = serde_json::from_str(json).with_context(|| json.to_owned())?;
    let ports = moment["ports"].as_array().context("no ports")?;
    let of = |node: &str| {
        let port = ports.iter().find(|it| it["node"] == node);
        port.and_then(|port| port["rate"].as_f64())
    };
    let [sends, idle] = [of("h0"), of("h2")];
    let (sends, idle) = (sends.context("no h0")?, idle.context("no h2")?);
    // A full frame has 1514 bytes in its qdisc and 1538 on its wire.
    let expected = 10e9 * 1514.0 / 1538.0;
    ensure!(
        (sends / expected - 1.0).abs() < 0.01,
        "{sends} bit/s, {expected} expected"
    );
    ensure!(idle == 0.0, "{idle}");
    let table = text.lines().any(|row| row.starts_with("h0:tor0 "));
    ensure!(table && !text.contains("h2:tor0 "), "{text}");
    Ok(())
}

fn a_capture_names_missing_ports_and_programs(_: &Context) -> Result<()> {
    let _up = Up::new("up", "rack:hosts=2")?;
    let said = refusal("capture h0:eth7")?;
    ensure!(said == "h0 has no port `eth7`; its ports: tor0", "{said}");
    ensure!(refusal("capture h9")?.contains("has no node `h9`"));
    if shell("command -v tcpdump || true")?.is_empty() {
        let said = refusal("capture h0:tor0")?;
        ensure!(said.contains("apt install tcpdump"), "{said}");
    }
    Ok(())
}
