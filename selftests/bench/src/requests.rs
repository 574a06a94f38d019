// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a request about a qdisc costs: how much longer it takes for what waits there, and for what
//! its options reserve. Any user with an own network namespace can make it, and for as long as
//! it holds the qdisc's lock no packet of the device goes.
//!
//! Each figure is of a whole `tc` process, from fork to end, under a clock of which a nanosecond is
//! an instruction: what does not depend on the qdisc is the same in all of them.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::pktgen::Pktgen;
use crate::{DEVICE, Dummy, run, wanted};

/// What waits, in turn.
const WAITING: [u32; 2] = [0, 10_000];
/// Flows of the packets that wait.
const FLOWS: u32 = 1_000;
/// Bytes of each.
pub(crate) const SIZE: u32 = 1500;

/// A qdisc as an unprivileged user may have it.
struct Asked {
    name: &'static str,
    /// Its options so that it takes all that waits.
    roomy: &'static str,
    /// Options by which it may keep almost nothing, if there are such.
    narrow: Option<&'static str>,
    /// Its options that reserve the most.
    largest: Option<&'static str>,
}

const ASKED: &[Asked] = &[
    asked("pfifo", "limit 20000", Some("limit 1"), None),
    asked("netem", "limit 20000", None, None),
    asked(
        "fq",
        "limit 20000 flow_limit 20000 nopacing",
        Some("limit 1"),
        Some("buckets 262144"),
    ),
    asked(
        "fq_codel",
        "limit 20000 flows 1024 memory_limit 1gb target 100s interval 100s",
        Some("limit 1"),
        Some("flows 65536"),
    ),
    asked("cake", "memlimit 1gb", None, None),
    asked(
        "pfabric",
        "limit 20000",
        Some("limit 1"),
        Some("limit 65536"),
    ),
    asked(
        "bfc",
        "rate 400gbit hrtt 2us buffer 0",
        None,
        Some("rate 400gbit hrtt 2us buffer 0 queues 1024 factor 128"),
    ),
    asked("dibs", "limit 20000", Some("limit 1"), None),
    asked("wire", "rate 400gbit", None, None),
    asked(
        "fastpass",
        "address 10.0.0.3 first 10.0.0.0 hosts 16 arbiter 10.0.0.0 rate 10gbit limit 20000",
        None,
        Some("address 10.0.0.3 first 10.0.0.0 hosts 256 racks 16 arbiter 10.0.0.0 rate 10gbit"),
    ),
];

const fn asked(
    name: &'static str,
    roomy: &'static str,
    narrow: Option<&'static str>,
    largest: Option<&'static str>,
) -> Asked {
    Asked {
        name,
        roomy,
        narrow,
        largest,
    }
}

/// One figure.
#[derive(Serialize)]
pub(crate) struct Figure {
    qdisc: &'static str,
    options: &'static str,
    request: &'static str,
    /// Packets in it.
    waiting: u32,
    /// What the `tc` process took, in ns.
    ns: u64,
}

/// Measures all of them.
///
/// # Errors
/// If a qdisc cannot be added, or a request is refused.
pub(crate) fn measure(only: &[String]) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    println!(
        "{:<10}{:<66}{:>9}{:>9}{:>14}",
        "qdisc", "options", "request", "waiting", "instructions"
    );
    // The machine's own warm-up.
    one(&ASKED[0], ASKED[0].roomy, 1)?;
    for asked in ASKED {
        if !wanted(only, asked.name) {
            continue;
        }
        // Its module is loaded by then.
        one(asked, asked.roomy, 0)?;
        let roomy = WAITING.map(|waiting| (asked.roomy, waiting));
        let largest = asked.largest.map(|options| (options, 0));
        for (options, waiting) in roomy.into_iter().chain(largest) {
            for figure in one(asked, options, waiting)? {
                println!(
                    "{:<10}{:<66}{:>9}{:>9}{:>14}",
                    figure.qdisc, figure.options, figure.request, figure.waiting, figure.ns
                );
                figures.push(figure);
            }
        }
    }
    Ok(figures)
}

/// Adds, shows and deletes it; then adds and narrows it.
fn one(asked: &Asked, options: &'static str, waiting: u32) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let name = asked.name;
    let mut timed = |request, line: &str| -> Result<()> {
        let begun = Instant::now();
        run("tc", line.split_whitespace())?;
        figures.push(Figure {
            qdisc: name,
            options,
            request,
            waiting,
            ns: u64::try_from(begun.elapsed().as_nanos())?,
        });
        Ok(())
    };
    let place = format!("dev {DEVICE} parent 1:1");
    let add = format!("qdisc add {place} handle 2: {name} {options}");
    {
        let _device = holding(waiting)?;
        timed("add", &add)?;
        fill(waiting)?;
        timed("show", &format!("-s qdisc show dev {DEVICE}"))?;
        timed("delete", &format!("qdisc del {place}"))?;
    }
    if let Some(narrow) = asked.narrow.filter(|_| options == asked.roomy) {
        let _device = holding(waiting)?;
        run("tc", add.split_whitespace())?;
        fill(waiting)?;
        let change = format!("qdisc change {place} handle 2: {name} {narrow}");
        timed("narrow", &change)?;
    }
    Ok(figures)
}

/// A device with a qdisc that holds a number of packets of its child.
fn holding(packets: u32) -> Result<Dummy> {
    let device = Dummy::new(DEVICE)?;
    device.hold(packets, 0, 0)?;
    Ok(device)
}

fn fill(packets: u32) -> Result<()> {
    if packets > 0 {
        let sent = Pktgen::new(DEVICE, SIZE, FLOWS)?.send(packets.into())?;
        ensure!(sent.errors == 0, "{} packets were dropped", sent.errors);
    }
    Ok(())
}
