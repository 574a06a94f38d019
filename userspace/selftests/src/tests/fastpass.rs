// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fastpass's promise: queues at switches stay nearly empty; and a failed link is detected and
//! avoided.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use weft_ktap::{Context, tests};
use weft_load::record::measured;

use crate::folder::Folder;
use crate::weft;

tests![
    #[once]
    queues_at_switches_are_almost_empty_when_an_arbiter_schedules,
    #[once]
    queues_at_switches_grow_when_hosts_clocks_differ,
    no_buffer_limits_flows_of_any_size_on_open_connections,
    a_dead_link_is_found_avoided_and_used_again_when_it_is_cleared,
];

const DILATION: u64 = 20_000;
/// The scheme's default, in fabric time.
const TIMESLOT_NS: u64 = 1_267;

/// Size of a full frame.
const FRAME: u64 = 1514;
/// Maximum of waiting frames at a port; and the maximum percentage of samples with at least two of
/// them, and with three.
const MOST: u64 = 4;
const TWO: f64 = 1.5;
const THREE: f64 = 0.1;

/// The backlog at switches' ports, without the frame that is being sent and without control
/// messages between hosts and arbiter.
struct Waiting {
    /// Packets dropped at any port, according to the samples.
    drops: u64,
    /// Bytes at the port with the largest backlog.
    most: u64,
    /// The percentage of samples with a backlog in which at least two frames wait, and three.
    two: f64,
    three: f64,
}

impl Waiting {
    fn under(topology: &str, scheme: &str) -> Result<Self> {
        // The dilation is large enough that an arbiter's computation, where it takes time, is short
        // compared with a packet. Where packets are dropped, a flow's timeout may double a few
        // times.
        let run = weft::run(&format!(
            "{topology} --dilation {DILATION} --scheme {scheme} --workload fixed:30kB --load 0.9 --flows 300 --sample 5us \
             --patience 50ms"
        ))?;
        // Flows that only keep up the load may be unfinished when the others have ended.
        let mut measured = measured(&run.flows);
        ensure!(
            measured.all(|flow| flow.fct_ns.is_some()),
            "{scheme}: some flows did not end"
        );
        let drops = run.ports.iter().map(|port| port.drops).sum();
        let switches = run.ports.iter().filter(|port| !port.host);
        let bytes = switches.map(|port| port.backlog_bytes - port.first_band_bytes);
        let bytes: Vec<u64> = bytes.collect();
        let share = |frames: u64| {
            let many = bytes.iter().filter(|&&bytes| bytes >= frames * FRAME);
            100.0 * many.count() as f64 / bytes.len() as f64
        };
        Ok(Self {
            drops,
            most: bytes.iter().copied().max().context("no samples")?,
            two: share(2),
            three: share(3),
        })
    }
}

/// At 90 % of the capacity of hosts' links.
fn queues_at_switches_are_almost_empty_when_an_arbiter_schedules(cx: &Context) -> Result<()> {
    weft::require_programs()?;
    for scheme in ["fastpass", "droptail"] {
        let Waiting {
            drops,
            most,
            two,
            three,
        } = Waiting::under("fat-tree:k=4", scheme)?;
        cx.note(format!(
            "{scheme}: at most {most} B; two frames or more in {two:.2} % of samples, three in {three:.2} %"
        ));
        if scheme == "fastpass" {
            ensure!(
                most <= MOST * FRAME && two <= TWO && three <= THREE && drops == 0,
                "much waits at switches"
            );
        } else {
            ensure!(
                most > 10 * MOST * FRAME && two > 20.0 * TWO,
                "the load is too low to tell"
            );
        }
    }
    Ok(())
}

/// The scheme, of which every other host's clock is behind.
fn skewed(folder: &Folder, name: &str, ns: u64) -> Result<PathBuf> {
    let own = weft::description("fastpass")?;
    let (_, arbiter) = own.split_once("[[process]]").context("no arbiter")?;
    let set_back = format!(
        "for dev in /sys/class/net/*; do tc qdisc change dev ${{dev##*/}} handle 10: fastpass \
         skew $((${{1#h}} % 2 * {ns}))ns 2>/dev/null; done; exec sleep infinity"
    );
    let toml = format!(
        "extends = \"fastpass\"\nabout = \"Of a test.\"\n[[process]]{arbiter}\n[[process]]\non = \"hosts\"\n\
         run = \"\"\"sh -c '{set_back}' sh $node\"\"\"\n"
    );
    folder.scheme(name, &toml)
}

/// "If all clocks are either accurate or one timeslot fast, at most two packets will arrive at any
/// egress" at a time (§6.3): while one is sent, the other waits.
fn queues_at_switches_grow_when_hosts_clocks_differ(cx: &Context) -> Result<()> {
    weft::require_programs()?;
    let folder = Folder::new()?;
    let mut most = Vec::new();
    for slots in [0, 1, 4, 16] {
        let scheme = skewed(&folder, &slots.to_string(), slots * TIMESLOT_NS * DILATION)?;
        let waiting = Waiting::under(
            "rack:hosts=8,rate=10gbit,delay=200ns",
            &scheme.display().to_string(),
        )?;
        cx.note(format!(
            "apart by {slots} timeslots: at most {} B; two frames or more in {:.2} % of samples",
            waiting.most, waiting.two
        ));
        ensure!(waiting.drops == 0, "{} packets dropped", waiting.drops);
        most.push(waiting.most);
    }
    // With clocks one timeslot apart there are two frames at most, plus acknowledgements (§6.3).
    ensure!(most[0] < 2 * FRAME && most[1] < 3 * FRAME, "{most:?}");
    // Further apart, senders meet by chance: more packets than that, but not more the further.
    let further = &most[2..];
    ensure!(further.iter().all(|it| *it > most[1]), "{most:?}");
    ensure!(further.iter().any(|it| *it > most[1] + FRAME), "{most:?}");
    Ok(())
}

/// The window in a SYN is 64 kB at most; a connection that is opened ahead has probed for more
/// before its first flow.
fn no_buffer_limits_flows_of_any_size_on_open_connections(cx: &Context) -> Result<()> {
    weft::require_programs()?;
    let run = weft::run(
        "rack:hosts=4,rate=10gbit,delay=200ns --dilation 20000 --scheme fastpass --add h1-h3:300kB@1ms --add h2-h3:300kB@2ms --only-added \
         --warm-up 0 --sample 0ns --connection pair",
    )?;
    // Otherwise the run is not valid.
    let gates = run.summary.context("no summary")?.gates.into_iter();
    let mut limited = gates.filter(|gate| gate.name == "time limited by socket buffers");
    let limited = limited.next().context("no such gate")?;
    cx.note(format!("{:?} %", limited.measured));
    ensure!(limited.ok && limited.measured.is_some(), "{limited:?}");
    Ok(())
}

/// The arbiter's findings in a line of its figures.
#[derive(Debug, Deserialize)]
struct Figures {
    lost: u64,
    faults: Vec<Found>,
}

#[derive(Debug, Deserialize)]
struct Found {
    what: String,
    avoided: bool,
    found_ns: u64,
}

/// Time dilation of the fabric with the failing link.
const SLOW: u64 = 5_000;

/// "Since packet errors can be detected quickly, failure detection and mitigation times can be made
/// extremely short, on the order of milliseconds" (§5.2). From the third to the eleventh
/// millisecond of fabric time a link loses all packets in both directions, and neither end reports
/// it.
fn a_dead_link_is_found_avoided_and_used_again_when_it_is_cleared(cx: &Context) -> Result<()> {
    weft::require_programs()?;
    let folder = Folder::new()?;
    let file = |name: &str| folder.path().join(name).display().to_string();
    let own = weft::description("fastpass")?;
    let (_, arbiter) = own.split_once("[[process]]").context("no arbiter")?;
    let figures = format!("--policy $policy --statistics {}", file("figures"));
    let arbiter = arbiter.replace("--policy $policy", &figures);
    ensure!(arbiter.contains("--statistics"), "{arbiter}");
    let scheme = folder.scheme(
        "told",
        &format!("extends = \"fastpass\"\nabout = \"Of a test.\"\n[[process]]{arbiter}"),
    )?;
    let drop = "tc filter add dev PORT ingress pref 1 protocol all matchall action drop";
    // Packets dropped, and packets received, until now.
    let look = |name: &str| {
        format!(
            "tc -s filter show dev agg0 ingress pref 1 > {0}.dropped; cat /sys/class/net/agg0/statistics/rx_packets > {0}.came",
            file(name)
        )
    };
    let repair = "tc filter del dev PORT ingress pref 1";
    let clear = "for p in /proc/[0-9]*; do if grep -qx weft-arbiter $p/comm && [ $p/ns/net -ef /proc/self/ns/net ]; then kill -USR1 ${p#/proc/}; fi; done";
    let faults = [
        (
            "3ms edge0",
            format!(
                "cat /proc/uptime > {}; {}",
                file("failed"),
                drop.replace("PORT", "agg0")
            ),
        ),
        ("3ms agg0", drop.replace("PORT", "edge0")),
        ("8ms edge0", look("avoided")),
        (
            "11ms edge0",
            format!("{}; {}", look("cleared"), repair.replace("PORT", "agg0")),
        ),
        ("11ms agg0", repair.replace("PORT", "edge0")),
        ("11200us h0", clear.to_owned()),
        ("14ms edge0", look("again")),
    ];
    let faults = faults.map(|(when, script)| format!("{when} run {script}"));
    let mut command = weft::command(&format!(
        "run fat-tree:k=4 --dilation {SLOW} --scheme {} --set counted=4 --workload fixed:30kB --load 0.15 --flows 1300 --warm-up 0 --sample 0ns --patience 200ms --quiet --out {}",
        scheme.display(),
        file("results")
    ));
    for fault in &faults {
        command.args(["--fault", fault]);
    }
    weft::succeed(&mut command)?;
    let mut results = std::fs::read_dir(file("results"))?;
    let results = results.next().context("no results")??.path();
    let read = |name: &str| {
        let path = folder.path().join(name);
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let run = weft::valid(&results)?;
    // Nothing hangs: lost packets are retransmitted on other paths.
    let mut flows = measured(&run.flows);
    ensure!(
        flows.all(|flow| flow.fct_ns.is_some()),
        "some flows did not end"
    );

    let figures = read("figures")?;
    cx.note(figures.trim().to_owned());
    let lines: Vec<Figures> = figures
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let found = lines.first().and_then(|line| line.faults.first());
    let found = found.context("nothing was found")?;
    ensure!(
        found.what == "link of rack 0.0 by way 0" && found.avoided,
        "{found:?}"
    );
    // At once, and at the end, when the fault has been cleared.
    ensure!(
        lines.len() == 2 && lines[1].faults.is_empty(),
        "{} lines",
        lines.len()
    );

    let failed = read("failed")?;
    let failed: f64 = failed
        .split_whitespace()
        .next()
        .context("no time")?
        .parse()?;
    let took_ms = (found.found_ns as f64 / 1e6 - failed * 1e3) / SLOW as f64;
    cx.note(format!(
        "found after {took_ms:.2} ms of the fabric; {} packets lost",
        lines[1].lost
    ));
    ensure!((0.5..4.0).contains(&took_ms), "it took {took_ms} ms");

    let dropped = |name: &str| -> Result<u64> {
        let text = read(&format!("{name}.dropped"))?;
        let mut words = text
            .split_whitespace()
            .map(|word| word.trim_matches(['(', ',', ')']));
        words
            .find(|word| *word == "dropped")
            .context("nothing was dropped")?;
        Ok(words.next().context("no number")?.parse()?)
    };
    let came = |name: &str| -> Result<u64> { Ok(read(&format!("{name}.came"))?.trim().parse()?) };
    let (then, later) = (dropped("avoided")?, dropped("cleared")?);
    let (before, after) = (came("cleared")?, came("again")?);
    cx.note(format!(
        "{then} packets dropped until 8 ms, {} more until 11 ms; {} came from then until 14 ms",
        later - then,
        after - before
    ));
    // A few control packets, which used this path until they got no answer.
    ensure!(then > 50 && later - then <= 10, "the link is not avoided");
    ensure!(after - before > 200, "it is not used again");
    Ok(())
}
