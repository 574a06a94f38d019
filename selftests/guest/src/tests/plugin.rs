// SPDX-License-Identifier: MIT OR Apache-2.0

//! `tc` with weft's plugin against the kernel: what it says is what netlink says.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use weft_mechanisms::bfc::frame::Message;
use weft_mechanisms::bfc::stats::Stats;

use crate::model::Packet;
use crate::netlink::Handle;
use crate::pause::{Neighbour, bitmap};
use crate::port::{INDEX, Port};
use weft_ktap::{Context, Skip, tests};

tests![
    options_are_shown_as_they_were_given,
    change_replace_and_delete_work,
    statistics_in_json_match_the_dump,
    bfc_statistics_in_json_match_the_dump,
    statistics_are_shown_in_words,
    wrong_options_are_refused_with_a_message,
    the_kernels_refusals_are_shown,
    help_is_shown,
];

fn port() -> Result<Port> {
    let port = Port::new()?;
    let output = port.try_tc("qdisc add dev {v} root pfabric help")?;
    if String::from_utf8_lossy(&output.stderr).contains("Unknown qdisc") {
        return Err(Skip("tc has no plugin for pfabric; is q_pfabric.so installed?".into()).into());
    }
    Ok(port)
}

/// `tc -j qdisc show` of the qdisc with a handle.
fn shown(port: &Port, flags: &str, handle: &str) -> Result<Value> {
    let text = port.tc(&format!("{flags} -j qdisc show dev {{v}}"))?;
    let all: Vec<Value> =
        serde_json::from_str(&text).with_context(|| format!("no JSON: {text}"))?;
    let found = all.into_iter().find(|qdisc| qdisc["handle"] == handle);
    found.with_context(|| format!("no qdisc {handle} in {text}"))
}

fn options_are_shown_as_they_were_given(_: &Context) -> Result<()> {
    let port = port()?;
    let pfabric = |limit: u32, limit_bytes: u32, starvation_prevention: bool| {
        json!({
            "limit": limit,
            "limit_bytes": limit_bytes,
            "starvation_prevention": starvation_prevention,
        })
    };
    let wire = |rate: u64, delay: u64, overhead: u32, mpu: u32, slack: u32, limit: u32| {
        json!({
            "rate": rate,
            "delay": delay,
            "overhead": overhead,
            "mpu": mpu,
            "slack": slack,
            "limit": limit,
        })
    };
    let bfc = |said: &Value| {
        let mut all = json!({
            "rate": 0, "hrtt": 0, "th": 0, "queues": 32, "factor": 100, "assign": "dynamic",
            "scheduler": "fq", "classes": 1, "sample": 100, "sticky": "auto", "limit": 0,
            "buffer": 12_000_000, "refresh": 1_000_000, "quantum": 0, "elide": [],
            "alpha": "8", "hold": 1_000_000_000, "watchdog": 0, "pushback": "all", "scale": 100,
        });
        for (name, value) in said.as_object().into_iter().flatten() {
            all[name] = value.clone();
        }
        all
    };
    // What is said, what is shown in words, what is shown in JSON.
    for (said, words, options) in [
        ("pfabric", "limit 24p starvation", pfabric(24, 0, true)),
        (
            "pfabric limit 1",
            "limit 1p starvation",
            pfabric(1, 0, true),
        ),
        (
            "pfabric limit 65536 nostarvation",
            "limit 65536p nostarvation",
            pfabric(65536, 0, false),
        ),
        (
            "pfabric limit 30 limit_bytes 36000 starvation",
            "limit 30p limit_bytes 36000b starvation",
            pfabric(30, 36_000, true),
        ),
        (
            "bfc rate 10mbit hrtt 2ms",
            "rate 10Mbit hrtt 2ms queues 32 factor 100 assign dynamic scheduler fq \
             buffer 12000000b refresh 20ms",
            bfc(&json!({ "rate": 1_250_000, "hrtt": 2_000_000, "refresh": 20_000_000 })),
        ),
        (
            "bfc th 3kb queues 64 factor 25 assign stochastic classes 4 incast 9 sample 50% \
             sticky 5us limit 1kb buffer 0 refresh 30us quantum 1514 elide v0 elide if77",
            "th 3Kb queues 64 factor 25 assign stochastic scheduler fq classes 4 incast 9 \
             sample 50% sticky 5us limit 1Kb buffer 0b refresh 30us quantum 1514b elide v0 \
             elide if77",
            bfc(&json!({
                "th": 3072, "queues": 64, "factor": 25, "assign": "stochastic", "classes": 4,
                "incast": 9, "sample": 50, "sticky": 5_000, "limit": 1024, "buffer": 0,
                "refresh": 30_000, "quantum": 1514, "elide": ["v0", "if77"],
            })),
        ),
        (
            "bfc th 1 alpha 3/8 hold 20us watchdog 3s",
            "th 1b queues 32 factor 100 assign dynamic scheduler fq buffer 12000000b refresh 1ms \
             alpha 3/8 hold 20us watchdog 3s",
            bfc(&json!({
                "th": 1, "alpha": "3/8", "hold": 20_000, "watchdog": 3_000_000_000_u64,
            })),
        ),
        (
            "bfc rate 10mbit hrtt 2ms sticky 6ms pushback backlogged scale 150% control 0",
            "rate 10Mbit hrtt 2ms queues 32 factor 100 assign dynamic scheduler fq sticky 6ms \
             buffer 12000000b refresh 20ms hold 1s pushback backlogged scale 150% control 0",
            bfc(&json!({
                "rate": 1_250_000, "hrtt": 2_000_000, "refresh": 20_000_000, "sticky": 6_000_000,
                "pushback": "backlogged", "scale": 150, "control": 0,
            })),
        ),
        (
            "bfc th 1 alpha off watchdog off",
            "th 1b queues 32 factor 100 assign dynamic scheduler fq buffer 12000000b refresh 1ms \
             alpha off",
            bfc(&json!({ "th": 1, "alpha": "off" })),
        ),
        (
            "bfc th 1 assign single scheduler srf",
            "th 1b queues 32 factor 100 assign single scheduler srf",
            bfc(&json!({ "th": 1, "assign": "single", "scheduler": "srf" })),
        ),
        (
            "wire rate 1kbit",
            "rate 1Kbit delay 0ns",
            wire(125, 0, 0, 0, 0, 0),
        ),
        (
            "wire rate 10gbit delay 200us overhead 24 mpu 84",
            "rate 10Gbit delay 200us overhead 24 mpu 84b",
            wire(1_250_000_000, 200_000, 24, 84, 0, 0),
        ),
        (
            "wire rate 400gbit delay 10s limit 1gb",
            "rate 400Gbit delay 10s limit 1Gb",
            wire(50_000_000_000, 10_000_000_000, 0, 0, 0, 1 << 30),
        ),
        (
            "wire rate 10mbit slack 60us",
            "rate 10Mbit delay 0ns slack 60us",
            wire(1_250_000, 0, 0, 0, 60_000, 0),
        ),
        (
            "wire rate 10mbit mpu 84 slack 1s",
            "rate 10Mbit delay 0ns mpu 84b slack 1s",
            wire(1_250_000, 0, 0, 84, 1_000_000_000, 0),
        ),
    ] {
        port.tc(&format!("qdisc add dev {{v}} root handle 1: {said}"))?;
        let text = port.tc("qdisc show dev {v}")?;
        let normal = text.split_whitespace().collect::<Vec<_>>().join(" ");
        ensure!(
            normal.contains(words),
            "`{said}` is shown as `{normal}`, not `{words}`"
        );
        let value = shown(&port, "", "1:")?;
        let kind = said.split(' ').next().unwrap_or_default();
        ensure!(value["kind"] == kind, "{value}");
        ensure!(
            value["options"] == options,
            "`{said}` is {}, not {options}",
            value["options"]
        );
        // What is shown can be said.
        let again = words.replace("p ", " ");
        port.tc(&format!(
            "qdisc change dev {{v}} root handle 1: {kind} {again}"
        ))?;
        ensure!(
            shown(&port, "", "1:")?["options"] == options,
            "`{again}` is not `{said}`"
        );
        port.tc("qdisc del dev {v} root")?;
    }
    Ok(())
}

fn change_replace_and_delete_work(_: &Context) -> Result<()> {
    let mut port = port()?;
    port.tc("qdisc add dev {v} root handle 1: wire rate 10mbit delay 1ms")?;
    port.tc("qdisc add dev {v} parent 1:1 handle 2: pfabric limit 10 nostarvation")?;
    port.tc("qdisc change dev {v} root handle 1: wire rate 20mbit")?;
    port.tc("qdisc change dev {v} parent 1:1 handle 2: pfabric limit 20")?;
    let (wire, _) = port.wire(Handle::new(1, 0))?;
    ensure!(
        (wire.rate, wire.delay) == (2_500_000, 1_000_000),
        "{wire:?}"
    );
    let (pfabric, _) = port.pfabric(Handle::new(2, 0))?;
    ensure!(
        (pfabric.limit, pfabric.starvation_prevention) == (20, false),
        "{pfabric:?}"
    );
    port.tc("qdisc replace dev {v} parent 1:1 handle 3: pfabric limit 30")?;
    ensure!(port.pfabric(Handle::new(3, 0))?.0.limit == 30);
    port.tc("qdisc del dev {v} root")?;
    ensure!(
        port.find(Handle::new(1, 0)).is_err(),
        "a deleted qdisc is there"
    );
    Ok(())
}

/// A port with a backlog and all kinds of drops behind it.
fn busy_port() -> Result<Port> {
    let port = port()?;
    port.tc("qdisc add dev {v} root handle 1: wire rate 100kbit delay 1s")?;
    port.tc("qdisc add dev {v} parent 1:1 handle 2: pfabric limit 5")?;
    let mut sender = port.sender()?;
    for id in 0..30_u64 {
        let (rank, flow) = ((id * 7 % 10) as u32, id as u32 % 3);
        sender.send(&Packet {
            id,
            rank,
            flow,
            len: 1000,
        })?;
    }
    // Two more are sent: the wire has been late, the queue has overtaken.
    std::thread::sleep(Duration::from_millis(1300));
    Ok(port)
}

/// What netlink says of a qdisc before and after `tc` was asked, and what `tc` said: starting `tc`
/// may take longer than a packet.
fn seen_both_ways<T: PartialEq>(
    port: &mut Port,
    handle: &str,
    mut dump: impl FnMut(&mut Port) -> Result<T>,
) -> Result<(T, Value)> {
    for _ in 0..20 {
        let before = dump(port)?;
        let value = shown(port, "-s", handle)?;
        if dump(port)? == before {
            return Ok((before, value));
        }
    }
    bail!("qdisc {handle} changed whenever tc looked at it")
}

fn statistics_in_json_match_the_dump(_: &Context) -> Result<()> {
    let mut port = busy_port()?;
    let ((_, stats), value) =
        seen_both_ways(&mut port, "2:", |port| port.pfabric(Handle::new(2, 0)))?;
    let expected = json!({
        "evicted": stats.evicted,
        "evicted_bytes": stats.evicted_bytes,
        "rejected": stats.rejected,
        "rejected_bytes": stats.rejected_bytes,
        "overtaken": stats.overtaken,
        "flows": stats.flows,
        "highest_backlog": stats.highest_backlog,
        "highest_backlog_bytes": stats.highest_backlog_bytes,
    });
    ensure_contains(&value, &expected)?;
    ensure!(
        stats.evicted > 0 && stats.rejected > 0 && stats.highest_backlog == 5,
        "{stats:?}"
    );
    let (((_, stats), qdisc), value) = seen_both_ways(&mut port, "1:", |port| {
        let wire = port.wire(Handle::new(1, 0))?;
        let qdisc = port.find(Handle::new(1, 0))?;
        Ok((wire, (qdisc.drops, qdisc.sent_packets)))
    })?;
    let expected = json!({
        "busy_ns": stats.busy_ns,
        "in_flight": stats.in_flight,
        "in_flight_bytes": stats.in_flight_bytes,
        "in_flight_limit": stats.in_flight_limit,
        "held": stats.held,
        "late_count": stats.late_count,
        "late_sum_ns": stats.late_sum_ns,
        "late_max_ns": stats.late_max_ns,
        "late_histogram": stats.late_histogram,
    });
    ensure_contains(&value, &expected)?;
    ensure!(stats.late_count > 0, "{stats:?}");
    // The generic ones come through, too.
    let (drops, packets) = qdisc;
    ensure_contains(&value, &json!({ "drops": drops, "packets": packets }))
}

fn bfc_statistics_in_json_match_the_dump(_: &Context) -> Result<()> {
    let mut port = port()?;
    port.tc("qdisc add dev {v} root handle 1: wire rate 10kbit")?;
    port.tc("qdisc add dev {v} parent 1:1 handle 2: bfc th 1kb limit 8kb elide v0 hold 60s")?;
    let mut far = Neighbour::new(&port.far, INDEX, [2, 0, 0, 0, 0, 2])?;
    far.say(bitmap([2, 3]))?;
    far.say(Message::Pause(9))?;
    let mut sender = port.sender()?;
    for id in 0..12 {
        sender.send(&Packet {
            id,
            rank: 0,
            flow: 1,
            len: 1000,
        })?;
    }
    // Queues are paused all the while.
    let mut paused_ns = Vec::new();
    let (stats, value) = seen_both_ways(&mut port, "2:", |port| {
        let stats = port.bfc(Handle::new(2, 0))?;
        paused_ns.push(stats.paused_ns);
        Ok(Stats {
            paused_ns: 0,
            ..stats
        })
    })?;
    let shown = value["paused_ns"].as_u64().unwrap_or(0);
    let between = paused_ns
        .last_chunk()
        .map(|[before, after]| *before..=*after);
    ensure!(
        shown > 0 && between.is_some_and(|between| between.contains(&shown)),
        "{shown} is not between what was seen before and after: {paused_ns:?}"
    );
    let expected = json!({
        "occupied": stats.occupied,
        "active": stats.active,
        "paused": stats.paused,
        "activations": stats.activations,
        "collisions": stats.collisions,
        "longest": stats.longest,
        "threshold": stats.threshold,
        "largest_hrtt": stats.hrtt,
        "congested": stats.congested,
        "elided": stats.elided,
        "unmarked": stats.unmarked,
        "dropped_limit": stats.dropped_limit,
        "dropped_buffer": stats.dropped_buffer,
        "dropped_memory": stats.dropped_memory,
        "dropped_control": stats.dropped_control,
        "dropped_share": stats.dropped_share,
        "highest_backlog": stats.highest_backlog,
        "buffer_backlog": stats.buffer_backlog,
        "highest_buffer_backlog": stats.highest_buffer_backlog,
        "pausing": stats.pausing,
        "pauses_sent": stats.pauses_sent,
        "resumes_sent": stats.resumes_sent,
        "bitmaps_sent": stats.bitmaps_sent,
        "unsent": stats.unsent,
        "pauses_received": stats.pauses_received,
        "resumes_received": stats.resumes_received,
        "bitmaps_received": stats.bitmaps_received,
        "lapsed": stats.lapsed,
        "released": stats.released,
        "malformed": stats.malformed,
        "foreign": stats.foreign,
        "replayed": stats.replayed,
    });
    ensure_contains(&value, &expected)?;
    ensure!(
        stats.paused == 3 && stats.congested > 0 && stats.dropped_limit > 0,
        "{stats:?}"
    );
    // Its queues, as classes.
    let text = port.tc("-s class show dev {v}")?;
    ensure!(text.contains("class bfc 2:2 parent 2:"), "{text}");
    ensure!(text.contains("queue 2 class 0 paused paused_for"), "{text}");
    let text = port.tc("-s -j class show dev {v}")?;
    let classes: Vec<Value> = serde_json::from_str(&text)?;
    let ninth = classes.iter().find(|class| class["handle"] == "2:9");
    ensure!(
        ninth.is_some_and(|it| it["stats"]["paused"] == true),
        "{text}"
    );
    Ok(())
}

fn ensure_contains(value: &Value, expected: &Value) -> Result<()> {
    for (name, expected) in expected.as_object().into_iter().flatten() {
        ensure!(
            &value[name] == expected,
            "{name} is {}, not {expected}: {value}",
            value[name]
        );
    }
    Ok(())
}

fn statistics_are_shown_in_words(cx: &Context) -> Result<()> {
    let port = busy_port()?;
    let text = port.tc("-s qdisc show dev {v}")?;
    cx.note(text.clone());
    for word in [
        "evicted",
        "rejected",
        "overtaken",
        "flows",
        "highest_backlog 5000b 5p",
    ] {
        ensure!(text.contains(word), "`{word}` is not shown: {text}");
    }
    for word in ["busy", "in_flight", "lateness"] {
        ensure!(text.contains(word), "`{word}` is not shown: {text}");
    }
    Ok(())
}

/// Checks that `tc qdisc add` refuses in these words and leaves nothing.
fn refuses(port: &Port, said: &str, words: &str) -> Result<()> {
    let output = port.try_tc(&format!("qdisc add dev {{v}} root {said}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.code().is_some_and(|code| code > 0),
        "`{said}`: {}",
        output.status
    );
    ensure!(
        stderr.contains(words),
        "`{said}` is refused with `{}`, not `{words}`",
        stderr.trim()
    );
    let text = port.tc("-j qdisc show dev {v}")?;
    let mut kinds = weft_mechanisms::QDISCS.iter().map(|qdisc| qdisc.kind);
    ensure!(
        !kinds.any(|kind| text.contains(&format!("\"{kind}\""))),
        "`{said}` left {text}"
    );
    Ok(())
}

fn wrong_options_are_refused_with_a_message(_: &Context) -> Result<()> {
    let port = port()?;
    refuses(
        &port,
        "pfabric limit 0",
        "Limit must be between 1 and 65536 packets",
    )?;
    refuses(
        &port,
        "pfabric limit 65537",
        "Limit must be between 1 and 65536 packets",
    )?;
    refuses(&port, "pfabric limit many", "limit")?;
    refuses(&port, "bfc queues 1", "Queues must be between 2 and 1024")?;
    refuses(
        &port,
        "bfc th 1 elide nowhere",
        "\"nowhere\" is not a device",
    )?;
    refuses(&port, "pfabric limit", "Command line is not complete")?;
    refuses(&port, "pfabric limit 1 limit 2", "limit")?;
    refuses(&port, "pfabric colour blue", "colour")?;
    refuses(
        &port,
        "wire rate 1bit",
        "Rate must be between 1 kbit/s and 400 Gbit/s",
    )?;
    refuses(
        &port,
        "wire rate 401gbit",
        "Rate must be between 1 kbit/s and 400 Gbit/s",
    )?;
    refuses(&port, "wire rate fast", "rate")?;
    refuses(
        &port,
        "wire rate 1mbit delay 11s",
        "Delay must be at most 10 s",
    )?;
    refuses(
        &port,
        "wire rate 1mbit overhead 1001",
        "Overhead must be at most 1000 bytes",
    )?;
    refuses(
        &port,
        "wire rate 1mbit mpu 2001",
        "MPU must be at most 2000 bytes",
    )?;
    refuses(
        &port,
        "wire rate 1mbit slack 2s",
        "Slack must be at most 1 s",
    )?;
    refuses(
        &port,
        "wire rate 400gbit delay 10s",
        "More than 4 GB would be in flight: lower rate, delay or slack, or set a limit",
    )?;
    refuses(&port, "wire rate 1mbit length 5", "length")
}

fn the_kernels_refusals_are_shown(_: &Context) -> Result<()> {
    let port = port()?;
    refuses(
        &port,
        "bfc rate 10mbit",
        "A threshold is required: rate and hrtt, or th",
    )?;
    refuses(
        &port,
        "wire delay 1ms",
        "Rate is required, for example rate 10gbit",
    )
}

fn help_is_shown(_: &Context) -> Result<()> {
    let port = port()?;
    for (kind, words) in [
        ("pfabric", "limit PACKETS"),
        ("wire", "rate RATE"),
        ("bfc", "hrtt TIME"),
    ] {
        let output = port.try_tc(&format!("qdisc add dev {{v}} root {kind} help"))?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        ensure!(
            text.contains("Usage:") && text.contains(words),
            "{kind} help: {text}"
        );
        // As for the kinds that iproute2 has built in.
        ensure!(!output.status.success(), "{kind} help: {}", output.status);
    }
    Ok(())
}
