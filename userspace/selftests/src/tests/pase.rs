// SPDX-License-Identifier: MIT OR Apache-2.0

//! PASE's scheme: its arbitrators at switches serve flows of several hosts; tests also cover
//! arbitrators that have failed or are unreachable.

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::Value;
use weft_ktap::{Context, Namespace, tests};
use weft_load::record::{Recorded, measured};
use weft_mechanisms::pase::message::{Message, PATH, Says};
use weft_mechanisms::pase::{Flow, Verdict};

use crate::folder::Folder;
use crate::machine::shell;
use crate::weft::{self, Up, weft};

tests![
    each_class_has_its_own_band_at_a_switch,
    #[once]
    the_shorter_flow_of_two_hosts_goes_first_except_while_the_arbitrators_are_gone,
    #[once]
    the_shorter_flow_goes_first_over_ipv6_and_between_racks,
    #[once]
    with_a_fifth_of_the_messages_lost_all_flows_end,
    with_arbitrators_that_are_killed_again_and_again_all_flows_end,
    unprivileged_messages_are_ignored,
];

/// 1 Gbit/s, slowed to 10 Mbit/s.
const FABRIC: &str = "rack:hosts=4,rate=1gbit,delay=20us --dilation 100";
const LOAD: &str = "--workload uniform:100kB-500kB --load 0.6 --flows 100 --warm-up 0 --seed 1";

fn each_class_has_its_own_band_at_a_switch(cx: &Context) -> Result<()> {
    weft::require_programs()?;
    let up = Up::new("pase", &format!("{FABRIC} --scheme pase"))?;
    let sender = Namespace::open(up.namespace("h0"))?;
    let counts = || -> Result<Vec<u64>> {
        let text = shell("tc -s -j -n weft-pase-tor0 qdisc show dev h1")?;
        let all: Vec<Value> = serde_json::from_str(&text).context("tc's JSON")?;
        let band = |number| {
            let handle = format!("1{number}:");
            let found = all.iter().find(|it| it["handle"] == handle.as_str());
            found.and_then(|it| it["packets"].as_u64())
        };
        (1..=8)
            .map(|number| band(number).context("no band"))
            .collect()
    };
    for to in ["10.0.0.3", "fd77:6566:7400::3"] {
        let to = SocketAddr::new(to.parse::<IpAddr>()?, 9);
        let before = counts()?;
        for queue in 1..=8_i32 {
            // The lower two bits are ECN marks; the bits between are arbitrary.
            let class = (queue - 1) << 5 | (queue % 8) << 2 | 2;
            sender.enter(|| -> Result<()> {
                let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(any)?;
                match to.is_ipv4() {
                    true => setsockopt(&socket, sockopt::Ipv4Tos, &class)?,
                    false => setsockopt(&socket, sockopt::Ipv6TClass, &class)?,
                }
                for _ in 0..queue {
                    socket.send_to(b"x", to)?;
                }
                Ok(())
            })??;
        }
        shell("sleep 1")?;
        let counted: Vec<u64> = counts()?
            .iter()
            .zip(before)
            .map(|(now, it)| now - it)
            .collect();
        cx.note(format!("{to}: {counted:?}"));
        ensure!(counted == [1, 2, 3, 4, 5, 6, 7, 8], "{to}: {counted:?}");
    }
    Ok(())
}

/// A trace: at each of these times (ms of fabric time) a long flow from `long` begins, and soon
/// after it a shorter one from `short`, both to `to`.
fn trace(folder: &Folder, times: &[u64], [long, short, to]: [u32; 3]) -> Result<PathBuf> {
    let line = |&ms: &u64| {
        let ns = ms * 1_000_000;
        let later = ns + 500_000;
        format!("{ns} {long} {to} 500000\n{later} {short} {to} 300000\n")
    };
    folder.write("trace", &times.iter().map(line).collect::<String>())
}

/// The slowdowns of the shorter flows of a trace, in order.
fn shorter(run: &Recorded) -> Result<Vec<f64>> {
    let mut flows: Vec<_> = run
        .flows
        .iter()
        .filter(|flow| flow.size == 300_000)
        .collect();
    flows.sort_by_key(|flow| flow.start_ns);
    let slowdowns = flows.iter().map(|flow| flow.slowdown);
    slowdowns.map(|it| it.context("it did not end")).collect()
}

/// A copy of `pase` whose arbitrators are started by a script, which receives their command line as
/// "$@".
fn living(folder: &Folder, script: &str) -> Result<PathBuf> {
    let own = weft::description("pase")?;
    let (_, command) = own.split_once("run = \"").context("it has no process")?;
    let (command, _) = command.split_once('"').context("it has no process")?;
    let toml = format!(
        "extends = \"pase\"\nabout = \"Of a test.\"\n[[process]]\non = \"switches\"\n\
         run = '''sh -c \"{script}\" sh {command}'''\n"
    );
    folder.scheme("mine", &toml)
}

fn run_trace(scheme: &Path, fabric: &str, trace: &Path) -> Result<Recorded> {
    let (scheme, trace) = (scheme.display(), trace.display());
    weft::run(&format!(
        "{fabric} --scheme {scheme} --trace {trace} --warm-up 0"
    ))
}

/// Under the model clock the first flow begins about 5 s after the arbitrators start
/// (`randomness`), and the others at intervals of 6.5 s. The arbitrators are killed between the
/// first two flows, and back before the third.
fn the_shorter_flow_of_two_hosts_goes_first_except_while_the_arbitrators_are_gone(
    cx: &Context,
) -> Result<()> {
    weft::require_programs()?;
    let folder = Folder::new()?;
    let script = "\\$@ & sleep 9; kill -9 \\$!; sleep 5; exec \\$@";
    let scheme = living(&folder, script)?;
    let trace = trace(&folder, &[0, 65, 130], [0, 1, 2])?;
    let slowdowns = shorter(&run_trace(&scheme, FABRIC, &trace)?)?;
    cx.note(format!("there, gone, there again: {slowdowns:?}"));
    let [there, gone, again] = slowdowns[..] else {
        anyhow::bail!("{slowdowns:?}");
    };
    ensure!(there < 1.3 && again < 1.3, "{slowdowns:?}");
    ensure!(gone > 1.5, "{slowdowns:?}");
    Ok(())
}

/// In the second fabric both flows need the trunk of a rack. In the third they need that of a pod,
/// whose arbitrators are in another rack.
fn the_shorter_flow_goes_first_over_ipv6_and_between_racks(cx: &Context) -> Result<()> {
    weft::require_programs()?;
    for (fabric, flows) in [
        ("rack:hosts=4,rate=1gbit,delay=20us --ipv6", [0, 1, 2]),
        (
            "leaf-spine:leaves=2,spines=1,hosts=3,rate=1gbit,delay=10us",
            [0, 1, 3],
        ),
        ("fat-tree:k=4,rate=1gbit,delay=10us", [0, 4, 15]),
    ] {
        let folder = Folder::new()?;
        let trace = trace(&folder, &[0, 20, 40], flows)?;
        let fabric = format!("{fabric} --dilation 100");
        let slowdowns = shorter(&run_trace(Path::new("pase"), &fabric, &trace)?)?;
        let alone = shorter(&run_trace(Path::new("pase-local"), &fabric, &trace)?)?;
        cx.note(format!(
            "{fabric}: {slowdowns:?}, of hosts' own links alone {alone:?}"
        ));
        ensure!(
            slowdowns.iter().all(|&it| it < 1.35),
            "{fabric}: {slowdowns:?}"
        );
        ensure!(alone.iter().all(|&it| it > 1.5), "{fabric}: {alone:?}");
    }
    Ok(())
}

/// The mean slowdown of the measured flows, which must all end, and the share of lost packets.
fn ends(cx: &Context, scheme: &str) -> Result<(f64, f64)> {
    let run = weft::run(&format!("{FABRIC} --scheme {scheme} {LOAD}"))?;
    // The other flows only keep up the load.
    let measured = measured(&run.flows);
    let slowdowns: Option<Vec<f64>> = measured.map(|flow| flow.slowdown).collect();
    let slowdowns = slowdowns.context("a flow did not end")?;
    ensure!(slowdowns.len() == 100, "{} flows", slowdowns.len());
    let mean = slowdowns.iter().sum::<f64>() / slowdowns.len() as f64;
    let loss = run.summary.and_then(|it| it.loss).unwrap_or(0.0);
    cx.note(format!(
        "{scheme}: slowdown {mean:.2}, loss {:.2} %",
        100.0 * loss
    ));
    Ok((mean, loss))
}

fn with_a_fifth_of_the_messages_lost_all_flows_end(cx: &Context) -> Result<()> {
    weft::require_programs()?;
    let folder = Folder::new()?;
    weft(&format!(
        "schemes export pase {}",
        folder.path().join("mine").display()
    ))?;
    for file in ["host.tc", "switch.tc"] {
        let path = folder.path().join("mine").join(file);
        let text = fs::read_to_string(&path)?;
        let kept = text.lines().filter(|line| !line.contains("0x88b6"));
        let mut text: String = kept.map(|line| format!("{line}\n")).collect();
        text += "filter add dev $dev parent 10: protocol 0x88b6 prio 9 matchall classid 10:1 \
                 action pass random netrand drop 5\n";
        fs::write(&path, text)?;
    }
    let (whole, none) = ends(cx, "pase")?;
    let (mean, loss) = ends(cx, &folder.path().join("mine").display().to_string())?;
    ensure!(none == 0.0 && loss > 0.0, "nothing was lost");
    ensure!(mean < 1.2 * whole, "{mean}, with all messages {whole}");
    Ok(())
}

fn with_arbitrators_that_are_killed_again_and_again_all_flows_end(cx: &Context) -> Result<()> {
    weft::require_programs()?;
    let folder = Folder::new()?;
    let script = "while :; do \\$@ & sleep 0.4; kill -9 \\$!; wait; sleep 0.2; done";
    let scheme = living(&folder, script)?;
    ends(cx, &scheme.display().to_string())?;
    Ok(())
}

/// Datagrams from an unprivileged port, with contents that are accepted from a privileged one.
fn unprivileged_messages_are_ignored(cx: &Context) -> Result<()> {
    weft::require_programs()?;
    let up = Up::new(
        "pase",
        "leaf-spine:leaves=2,spines=1,hosts=2,rate=1gbit,delay=10us --dilation 100 --scheme pase",
    )?;
    let to = "10.0.0.3"
        .parse::<std::net::Ipv4Addr>()?
        .to_ipv6_mapped()
        .octets();
    let flow = Flow {
        id: 3 << 32 | 1,
        urgency: 0,
        demand: 1,
    };
    let verdict = Verdict { queue: 8, rate: 0 };
    let messages = [
        Says::Ask { flow, to },
        Says::End(flow.id),
        Says::Answer {
            flow: flow.id,
            verdict,
            hold: 1,
        },
    ];
    let shown = || -> Result<Value> {
        let text = shell("ip netns exec weft-pase-leaf0 weft-pase show --json")?;
        serde_json::from_str(&text).context("JSON")
    };
    for (node, heard) in [("h0", false), ("leaf1", false), ("leaf1", true)] {
        let before = shown()?;
        let sender = Namespace::open(up.namespace(node))?;
        if heard {
            // The arbitrators use the port, so they are stopped first.
            shell("ip netns pids weft-pase-leaf1 | xargs kill; sleep 1")?;
        }
        sender.enter(|| -> Result<()> {
            let own = match (node, heard) {
                ("h0", _) => "10.0.0.2:0",
                (_, false) => "10.0.1.1:0",
                (_, true) => "10.0.1.1:797",
            };
            let socket = UdpSocket::bind(own)?;
            for (sequence, says) in (1..).zip(messages) {
                let message = Message {
                    sequence,
                    link: if heard { 2 } else { PATH + 2 },
                    says,
                };
                socket.send_to(&message.encode(), "10.0.0.1:797")?;
            }
            Ok(())
        })??;
        shell("sleep 1")?;
        let after = shown()?;
        let more = |name: &str| {
            let count = |shown: &Value| shown["counters"][name].as_u64().unwrap_or(0);
            count(&after) - count(&before)
        };
        let counts = [more("from_arbitrators"), more("ignored"), more("updates")];
        cx.note(format!("{node}, {heard}: {counts:?}"));
        // Of the accepted messages, one is an answer without a request; the first one asks two
        // links, the trunk down and the receiver's.
        let expected = if heard { [3, 1, 2] } else { [0, 3, 0] };
        ensure!(counts == expected, "{node}: {counts:?}");
    }
    Ok(())
}
