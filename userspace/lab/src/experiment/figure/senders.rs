// SPDX-License-Identifier: MIT OR Apache-2.0

//! How evenly hosts send, from the samples of their ports.

use std::collections::{BTreeMap, BTreeSet};

use weft_load::record::{Flow, PortSample};

use super::end_ns;
use super::port::{Level, Place};
use super::subject::Subject;

/// For each interval between two samples: the bytes sent by each host that had a flow under way in
/// all of it, as their standard deviation over their mean, and the interval's length in ns.
/// Intervals are left out if fewer than two hosts had such a flow, if none of these sent anything,
/// or if a sample of one is missing.
pub(super) fn unevenness(subject: &Subject<'_>, place: Place<'_>) -> Vec<Level> {
    let topology = subject.topology;
    let hosts: BTreeMap<&str, u32> = (0..)
        .zip(topology.hosts())
        .map(|(number, host)| (topology.node(host).name.as_str(), number))
        .collect();
    let window = (place.after.unwrap_or(0), place.until.unwrap_or(u64::MAX));
    of(&hosts, &subject.run.flows, &subject.run.ports, window)
}

fn of(
    hosts: &BTreeMap<&str, u32>,
    flows: &[Flow],
    samples: &[PortSample],
    (after, until): (u64, u64),
) -> Vec<Level> {
    // For each time, how long each host had sent until then.
    let mut at: BTreeMap<u64, BTreeMap<u32, u64>> = BTreeMap::new();
    for sample in samples.iter().filter(|it| it.host) {
        if let Some(host) = hosts.get(sample.node.as_str()) {
            let sent = at.entry(sample.time_ns).or_default().entry(*host);
            *sent.or_default() += sample.busy_ns;
        }
    }
    let mut levels = Vec::new();
    for ((begin, before), (end, now)) in at.iter().zip(at.iter().skip(1)) {
        if *begin < after || *end > until {
            continue;
        }
        let under_way = flows
            .iter()
            .filter(|flow| flow.start_ns <= *begin && end_ns(flow) >= *end);
        let senders: BTreeSet<u32> = under_way.map(|flow| flow.src).collect();
        let sent = senders
            .iter()
            .map(|host| Some((now.get(host)? - before.get(host)?) as f64));
        // Without the missing host, the figure would be a different one.
        let Some(sent) = sent.collect::<Option<Vec<f64>>>() else {
            continue;
        };
        let n = sent.len() as f64;
        let mean = sent.iter().sum::<f64>() / n;
        if sent.len() >= 2 && mean > 0.0 {
            let variance = sent.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / n;
            levels.push((variance.sqrt() / mean, (end - begin) as f64));
        }
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(src: u32, start_ns: u64, fct_ns: Option<u64>) -> Flow {
        serde_json::from_value(serde_json::json!({
            "id": 0, "src": src, "dst": 9, "class": "added", "start_ns": start_ns, "size": 1, "fct_ns": fct_ns,
            "slowdown": null,
        }))
        .unwrap()
    }

    fn samples(time_ns: u64, sent: &[(&str, u64)]) -> Vec<PortSample> {
        let samples = sent.iter().map(|(node, busy_ns)| {
            serde_json::from_value(serde_json::json!({
                "time_ns": time_ns, "node": node, "port": "tor0", "host": *node != "tor0", "backlog_packets": 0,
                "backlog_bytes": 0, "drops": 0, "busy_ns": busy_ns,
            }))
            .unwrap()
        });
        samples.collect()
    }

    const ALL: (u64, u64) = (0, u64::MAX);

    #[test]
    fn a_host_counts_while_it_has_a_flow_all_the_time() {
        let hosts = BTreeMap::from([("h0", 0), ("h1", 1), ("h2", 2)]);
        let flows = [
            flow(0, 0, None),
            flow(1, 100, Some(200)),
            flow(2, 150, None),
        ];
        let samples = [
            samples(0, &[("h0", 0), ("h1", 0), ("tor0", 7)]),
            samples(100, &[("h0", 90), ("h1", 0), ("h2", 0), ("tor0", 100)]),
            samples(200, &[("h0", 120), ("h1", 10), ("h2", 50), ("tor0", 200)]),
            samples(300, &[("h0", 160), ("h1", 50), ("h2", 90)]),
            samples(320, &[("h0", 160), ("h1", 50), ("h2", 90)]),
        ]
        .concat();
        // h0 and h1 send 30 and 10, mean 20; then all three send 40 each; at last none sends.
        let levels = of(&hosts, &flows, &samples, ALL);
        assert_eq!(levels, [(0.5, 100.0), (0.0, 100.0)]);
        assert_eq!(
            of(&hosts, &flows, &samples, (150, 300)),
            [(0.0, 100.0)],
            "only what is within the time"
        );
    }

    #[test]
    fn no_figure_exists_while_a_sender_lacks_a_sample() {
        let hosts = BTreeMap::from([("h0", 0), ("h1", 1), ("h2", 2)]);
        let flows = [0, 1, 2].map(|src| flow(src, 0, None));
        let samples = [
            samples(0, &[("h0", 0), ("h1", 0), ("h2", 0)]),
            samples(100, &[("h0", 90), ("h1", 10)]),
        ]
        .concat();
        assert_eq!(of(&hosts, &flows, &samples, ALL), []);
    }

    #[test]
    fn one_sender_alone_has_no_figure() {
        let hosts = BTreeMap::from([("h0", 0), ("h1", 1)]);
        let samples = [
            samples(0, &[("h0", 0), ("h1", 0)]),
            samples(100, &[("h0", 90), ("h1", 10)]),
        ]
        .concat();
        assert_eq!(of(&hosts, &[flow(0, 0, None)], &samples, ALL), []);
    }
}
