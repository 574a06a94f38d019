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
    /// What packets carry for `int`, as in `carry`'s option `telemetry`.
    pub(crate) telemetry: Option<&'static str>,
    /// The counter of `int` that counts each packet of the measurement, if `int` is measured.
    pub(crate) counter: Option<&'static str>,
}

/// The handle of `carry`, which no subject's qdisc has.
pub(crate) const CARRY: &str = "f";

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
        // Within `delta` of the packet's arrival, so that etf gives it when asked.
        txtime_ns: 1_000_000_000,
        ..subject(
            "etf",
            &["etf clockid CLOCK_TAI delta 2000000000 skip_sock_check"],
        )
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
    // A child with room for all packets: the cost of a port that reports drops and has none.
    subject("resend + pfifo", &["resend", "pfifo limit {limit}"]),
    // Packets that need no credit: the cost of finding that out.
    subject(
        "expresspass",
        &["expresspass rate 400gbit limit {limit} flows 64"],
    ),
    // In-band telemetry: packets that carry nothing, and, each beside the same packets without
    // `int`, packets at their first hop, at a later one, at one for which there is no room, and
    // packets that get a stamp.
    int("int + pfifo", None, "untagged"),
    carrying("pfifo room", "room"),
    int("int + pfifo room", Some("room"), "recorded"),
    carrying("pfifo records", "records"),
    int("int + pfifo records", Some("records"), "recorded"),
    carrying("pfifo full", "full"),
    int("int + pfifo full", Some("full"), "full"),
    carrying("pfifo tag", "tag"),
    int("int + pfifo tag", Some("tag"), "stamped"),
];

const fn subject(name: &'static str, lines: &'static [&'static str]) -> Subject {
    Subject {
        name,
        lines,
        priorities: 0,
        txtime_ns: 0,
        full: None,
        telemetry: None,
        counter: None,
    }
}

/// A qdisc whose packets have ranks of 32 random bits.
const fn ranked(name: &'static str, lines: &'static [&'static str]) -> Subject {
    Subject {
        priorities: u32::MAX,
        ..subject(name, lines)
    }
}

/// `pfifo` for packets that carry something for `int`.
const fn carrying(name: &'static str, telemetry: &'static str) -> Subject {
    Subject {
        telemetry: Some(telemetry),
        ..subject(name, &["pfifo limit {limit}"])
    }
}

/// `int` above `pfifo`: each packet counts in `counter`.
const fn int(
    name: &'static str,
    telemetry: Option<&'static str>,
    counter: &'static str,
) -> Subject {
    Subject {
        telemetry,
        counter: Some(counter),
        ..subject(name, &["int rate 400gbit rtt 15us", "pfifo limit {limit}"])
    }
}

impl Subject {
    /// The arguments of `tc qdisc add` for `carry`, if packets carry something.
    pub(crate) fn carry(&self, device: &str, parent: &str) -> Option<String> {
        let command = |telemetry| {
            format!("qdisc add dev {device} {parent} handle {CARRY}: carry telemetry {telemetry}")
        };
        self.telemetry.map(command)
    }

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

    fn named(name: &str) -> &'static Subject {
        SUBJECTS.iter().find(|s| s.name == name).unwrap()
    }

    #[test]
    fn int_is_measured_beside_the_same_packets_without_it() {
        let columns: Vec<&str> = SUBJECTS
            .iter()
            .map(|subject| subject.name)
            .skip_while(|name| *name != "int + pfifo")
            .collect();
        assert_eq!(
            columns,
            [
                "int + pfifo",
                "pfifo room",
                "int + pfifo room",
                "pfifo records",
                "int + pfifo records",
                "pfifo full",
                "int + pfifo full",
                "pfifo tag",
                "int + pfifo tag",
            ]
        );
        for subject in SUBJECTS {
            let Some(without) = subject.name.strip_prefix("int + ") else {
                assert_eq!(subject.counter, None, "{}", subject.name);
                continue;
            };
            assert!(subject.counter.is_some(), "{}", subject.name);
            let without = named(without);
            let given = |subject: &Subject| (subject.priorities, subject.txtime_ns);
            assert_eq!(given(without), given(subject));
            let carry = |subject: &Subject| subject.carry("d0", "root");
            assert_eq!(carry(without), carry(subject));
            assert_eq!(without.lines, &subject.lines[1..]);
        }
    }

    #[test]
    fn packets_carry_telemetry_in_an_empty_queue_too() {
        assert_eq!(
            named("int + pfifo room").carry("d0", "root").as_deref(),
            Some("qdisc add dev d0 root handle f: carry telemetry room")
        );
        assert_eq!(named("int + pfifo").carry("d0", "root"), None);
        assert_ne!(named("etf").txtime_ns, 0);
        assert_eq!(named("pfabric ranked").txtime_ns, 0);
    }

    #[test]
    fn every_column_has_its_own_name_without_a_comma() {
        for (index, subject) in SUBJECTS.iter().enumerate() {
            // `--only` separates names by commas.
            assert!(!subject.name.contains(','), "{}", subject.name);
            let is_same = |other: &Subject| other.name == subject.name;
            assert_eq!(SUBJECTS.iter().position(is_same), Some(index));
        }
    }

    #[test]
    fn the_second_qdisc_is_the_first_ones_child() {
        let commands: Vec<String> = named("wire + pfifo")
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
