// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft top`.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use weft_lab::live::{Live, Moment, PortNow, columns};
use weft_lab::number::digits;
use weft_lab::testbed;

use crate::arguments::time;
use crate::output;

/// Clears the screen and moves the cursor to its top left.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Show what ports are doing: rates, queues, drops, marks, pauses, detours, flows
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Idle ports are omitted. Rates are in fabric time, from the qdiscs' byte counters. Queue lengths and numbers of
flows are current values; drops, marks and detours are since the last update. `pausing` counts the neighbours'
queues that a port keeps paused, `paused` its own queues that are paused. `detoured` counts packets that left
by another port instead of this one, `received` the packets that were detoured to it. A cell is empty if the
port's qdisc has no such statistic. Ctrl-C exits.

Examples:
  weft top
  weft top --interval 10us agg0 core0           of the fabric: 10 ms, if it is 1000 times slower
  weft top --once --json
  weft lab rack:hosts=3 --dilation 1000 --on h1 'iperf3 -s' --on h2 'iperf3 -t 60 -c h1' weft top --once")]
pub(crate) struct Args {
    /// Nodes to show (default: all)
    node: Vec<String>,
    /// Name of the testbed (default: as for weft exec)
    #[arg(long, value_name = "NAME")]
    testbed: Option<String>,
    /// Interval between updates, in fabric time (default: 1 s of this machine)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    interval: Option<Duration>,
    /// Update once, after one interval, and exit
    #[arg(long)]
    once: bool,
    /// Show idle ports too
    #[arg(long, short)]
    all: bool,
    /// Print JSON, one line per update with all ports
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let testbed = testbed::open(args.testbed.as_deref())?;
    for node in &args.node {
        // The error lists the nodes.
        testbed.namespace(node).map_err(testbed::explain)?;
    }
    let mut live = Live::new(&testbed)?;
    let interval = args
        .interval
        .map_or(Duration::from_secs(1), |time| time.mul_f64(live.dilation()));
    let redrawn = std::io::stdout().is_terminal() && !args.once && !args.json;
    loop {
        std::thread::sleep(interval);
        let mut moment = live.look()?;
        let asked = |port: &PortNow| args.node.is_empty() || args.node.contains(&port.node);
        moment.ports.retain(asked);
        if args.json {
            output::print(serde_json::to_string(&moment)?)?;
        } else {
            let clear = if redrawn { CLEAR } else { "" };
            let text = text(&moment, testbed.name(), live.dilation(), args.all);
            output::print(format!("{clear}{text}"))?;
        }
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn text(moment: &Moment, testbed: &str, dilation: f64, all: bool) -> String {
    let count = moment.ports.len();
    let mut ports: Vec<&PortNow> = moment.ports.iter().collect();
    ports.retain(|port| all || port.is_active());
    // The largest backlog first; equal ones in the order of nodes.
    ports.sort_by(|a, b| {
        let weight = |port: &PortNow| (port.value("backlog_bytes"), port.rate as u64);
        weight(b).cmp(&weight(a))
    });
    let shown = ports.len();
    let took = Duration::from_secs_f64(moment.seconds);
    let head = if dilation == 1.0 {
        format!("{testbed}: {shown} of {count} ports in {took:.3?}")
    } else {
        format!(
            "{testbed}: {shown} of {count} ports in {took:.3?} of the fabric, {dilation} times slower"
        )
    };
    if ports.is_empty() {
        return head;
    }
    let heads = columns().into_iter().map(|column| column.head);
    let heads = ["port", "Gbit/s", "busy %"].into_iter().chain(heads);
    let table = output::table(heads, ports.into_iter().map(row));
    format!("{head}\n{table}")
}

fn row(port: &PortNow) -> Vec<String> {
    let mut cells = vec![
        format!("{}:{}", port.node, port.port),
        digits(port.rate / 1e9),
        port.busy.map(|it| digits(100.0 * it)).unwrap_or_default(),
    ];
    let statistics = columns().into_iter().zip(&port.statistics);
    cells.extend(
        statistics.map(|(column, value)| match (column.head, value) {
            (_, None) => String::new(),
            ("kB", Some(bytes)) => digits(*bytes as f64 / 1e3),
            (_, Some(value)) => value.to_string(),
        }),
    );
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_load::record::statistic::Column;

    fn port(node: &str, rate: f64, backlog_bytes: u64) -> PortNow {
        let value = |column: Column| match column.key {
            "backlog_packets" => Some(backlog_bytes / 1500),
            "backlog_bytes" => Some(backlog_bytes),
            "drops" | "marks" => Some(0),
            _ => None,
        };
        PortNow {
            node: node.to_owned(),
            port: "tor0".to_owned(),
            rate,
            busy: Some(0.5),
            statistics: columns().into_iter().map(value).collect(),
            drops_in_all: 0,
        }
    }

    #[test]
    fn json_has_each_statistic_under_its_key() {
        let expected = r#"{"node":"h0","port":"tor0","rate":1.0,"busy":0.5,"backlog_packets":2,"backlog_bytes":3000,"flows":null,"drops":0,"marks":0,"pausing":null,"paused":null,"detoured":null,"received":null,"drops_in_all":0}"#;
        let json = serde_json::to_string(&port("h0", 1.0, 3000)).unwrap();
        assert_eq!(json, expected);
    }

    #[test]
    fn the_fullest_port_is_first_and_idle_ones_are_left_out() {
        let moment = Moment {
            seconds: 0.001,
            machine_seconds: 1.0,
            ports: vec![
                port("h0", 1e9, 0),
                port("h1", 0.0, 0),
                port("h2", 5e9, 3000),
            ],
        };
        let expected = "\
fabric: 2 of 3 ports in 1.000ms of the fabric, 1000 times slower
port     Gbit/s  busy %  packets  kB  flows  drops  marks  pausing  paused  detoured  received
h2:tor0       5      50        2   3             0      0
h0:tor0       1      50        0   0             0      0";
        let lines = |text: &str| -> Vec<String> {
            text.lines().map(|it| it.trim_end().to_owned()).collect()
        };
        assert_eq!(
            lines(&text(&moment, "fabric", 1000.0, false)),
            lines(expected)
        );
        assert_eq!(text(&moment, "fabric", 1000.0, true).lines().count(), 5);
    }
}
