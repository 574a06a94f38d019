// SPDX-License-Identifier: MIT OR Apache-2.0

//! The qdiscs that are measured, and how each is set up so that it holds what it is to hold.

/// One qdisc under measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Its name in the results.
    pub(crate) name: &'static str,
    /// What makes it: the arguments of `tc qdisc add dev DEV PARENT`, one line a qdisc. The first
    /// stands where the measurement puts it, each other at `parent HANDLE:1` of the one before it.
    pub(crate) lines: &'static [&'static str],
    /// Mask of the random priorities that packets get under `hold`; 0: all have the same.
    pub(crate) priorities: u32,
    /// Transmit time that each packet is given, in ns after its arrival; 0 gives none.
    pub(crate) txtime_ns: u64,
    /// Whether the backlog is all that it may hold, so that each packet of the measurement finds it
    /// full; it goes by a second device, which has this qdisc.
    pub(crate) full: Option<&'static str>,
}

/// All, stock ones first. `{limit}` is a number of packets that is not reached, or, where it is to
/// be full, the backlog.
///
/// Stock qdiscs are given what they need to hold that many packets of that many flows without
/// dropping, pacing or sharing a flow's queue; nothing else is tuned.
pub(crate) const SUBJECTS: &[Subject] = &[
    subject("pfifo", &["pfifo limit {limit}"]),
    // Three pfifos as long as the device's transmit queue.
    subject("prio", &["prio"]),
    subject("skbprio", &["skbprio limit {limit}"]),
    subject(
        "fq",
        &["fq limit {limit} flow_limit {limit} nopacing orphan_mask 65535"],
    ),
    subject(
        "fq_codel",
        &["fq_codel limit {limit} flows 65535 memory_limit 1gb target 100s interval 100s"],
    ),
    Subject {
        name: "etf",
        lines: &["etf clockid CLOCK_TAI delta 2000000000 skip_sock_check"],
        priorities: 0,
        // Within `delta` of the packet's arrival, so that etf gives it when asked.
        txtime_ns: 1_000_000_000,
        full: None,
    },
    subject("pfabric", &["pfabric limit {limit}"]),
    ranked("pfabric ranked", &["pfabric limit {limit}"]),
    ranked(
        "pfabric ranked nostarvation",
        &["pfabric limit {limit} nostarvation"],
    ),
    // 32 queues, as it comes; a threshold, but nobody upstream.
    subject("bfc", &["bfc rate 400gbit hrtt 2us buffer 0"]),
    ranked(
        "bfc ranked srf",
        &["bfc rate 400gbit hrtt 2us buffer 0 scheduler srf"],
    ),
    subject("dibs", &["dibs limit {limit}"]),
    Subject {
        full: Some("dibs detour-to"),
        ..subject("dibs full", &["dibs limit {limit}"])
    },
    // So fast that the wire is free when the next packet comes: the wire's own cost.
    subject(
        "wire + pfifo",
        &["wire rate 400gbit", "pfifo limit {limit}"],
    ),
    subject(
        "wire + pfabric",
        &["wire rate 400gbit", "pfabric limit {limit}"],
    ),
    // Memory for all packets: the port's own cost, without and with priority flow control.
    subject(
        "port + pfifo",
        &["port memory 1gb alpha 8", "pfifo limit {limit}"],
    ),
    subject(
        "port pfc + pfifo",
        &[
            "port memory 1gb alpha 8 pfc rate 400gbit hrtt 2us",
            "pfifo limit {limit}",
        ],
    ),
];

const fn subject(name: &'static str, lines: &'static [&'static str]) -> Subject {
    Subject {
        name,
        lines,
        priorities: 0,
        txtime_ns: 0,
        full: None,
    }
}

/// A qdisc whose packets have ranks of 32 random bits.
const fn ranked(name: &'static str, lines: &'static [&'static str]) -> Subject {
    Subject {
        priorities: u32::MAX,
        ..subject(name, lines)
    }
}

impl Subject {
    /// The arguments of each `tc qdisc add` for packets up to `limit`, the first qdisc at `parent`
    /// (as in `root` or `parent 1:1`).
    #[must_use]
    pub(crate) fn commands(&self, device: &str, parent: &str, limit: u32) -> Vec<Vec<String>> {
        let mut parent = parent.to_owned();
        let mut commands = Vec::new();
        for (line, handle) in self.lines.iter().zip(2..) {
            let line = line.replace("{limit}", &limit.to_string());
            let command = format!("qdisc add dev {device} {parent} handle {handle}: {line}");
            commands.push(command.split_whitespace().map(str::to_owned).collect());
            parent = format!("parent {handle}:1");
        }
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_qdisc_is_the_first_ones_child() {
        let wire = SUBJECTS.iter().find(|s| s.name == "wire + pfifo").unwrap();
        let commands: Vec<String> = wire
            .commands("d0", "root", 24)
            .iter()
            .map(|c| c.join(" "))
            .collect();
        assert_eq!(
            commands,
            [
                "qdisc add dev d0 root handle 2: wire rate 400gbit",
                "qdisc add dev d0 parent 2:1 handle 3: pfifo limit 24"
            ]
        );
    }
}
