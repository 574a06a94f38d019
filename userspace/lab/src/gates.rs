// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tests that a credible run must pass.

use std::collections::BTreeMap;

use weft_load::record::{Gate, Limit};
use weft_mechanisms::wire::stats::LATENESS_BUCKETS;

/// The delays of the wires' timers: counts of log2 buckets, as in `wire`'s statistics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lateness {
    pub(crate) count: u64,
    pub(crate) sum_ns: u64,
    pub(crate) buckets: [u64; LATENESS_BUCKETS],
}

impl Lateness {
    pub(crate) fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// The upper end of the percentile's bucket.
    pub(crate) fn percentile_ns(&self, p: f64) -> Option<f64> {
        let total: u64 = self.buckets.iter().sum();
        let rank = (p * total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let place = self.buckets.iter().position(|count| {
            seen += count;
            total > 0 && seen >= rank
        })?;
        Some(if place == 0 {
            0.0
        } else {
            2_f64.powi(place as i32)
        })
    }
}

/// Measurements of the measurement itself; times are the machine's.
pub(crate) struct Measured<'a> {
    pub(crate) lateness: Lateness,
    /// The intentional maximum delay of timers: it does not add up over wires.
    pub(crate) slack_ns: f64,
    /// The time of a full packet on a host's link.
    pub(crate) packet_time_ns: f64,
    pub(crate) cpu_idle: Option<f64>,
    pub(crate) lag_mean_ns: Option<f64>,
    pub(crate) lag_p99_ns: Option<f64>,
    /// Flows that arrived sooner than is possible.
    pub(crate) impossible: u64,
    pub(crate) unfinished: u64,
    pub(crate) buffer_limited: Option<f64>,
    /// How often the memory of all sockets together became short.
    pub(crate) memory_shortages: u64,
    /// Variables of a tuned machine that nodes inherit.
    pub(crate) inherited: &'a BTreeMap<String, String>,
    /// The scheme's own limits of gates, by name.
    pub(crate) allow: &'a BTreeMap<String, f64>,
}

impl Measured<'_> {
    /// All gates, in packet times and per cent: units that mean the same on every fabric.
    pub(crate) fn gates(&self) -> Vec<Gate> {
        let packets = |ns: Option<f64>| ns.map(|ns| ns / self.packet_time_ns);
        let percent = |share: Option<f64>| share.map(|share| 100.0 * share);
        let mut gates = vec![
            Gate::new(
                "timer lateness, mean",
                packets(self.lateness.mean_ns()),
                Limit::AtMost(0.05 + self.slack_ns / self.packet_time_ns),
                "packet times",
            ),
            Gate::new(
                "timer lateness, 99th percentile",
                packets(self.lateness.percentile_ns(0.99)),
                Limit::AtMost(0.5),
                "packet times",
            ),
            Gate::new(
                "generator lag, mean",
                packets(self.lag_mean_ns),
                Limit::AtMost(0.5),
                "packet times",
            ),
            Gate::new(
                "generator lag, 99th percentile",
                packets(self.lag_p99_ns),
                Limit::AtMost(5.0),
                "packet times",
            ),
            Gate::new(
                "flows sooner than possible",
                Some(self.impossible as f64),
                Limit::AtMost(0.0),
                "",
            ),
            // The busiest processor decides: it may have delayed a packet.
            Gate::new(
                "idle processor",
                percent(self.cpu_idle),
                Limit::AtLeast(5.0),
                "%",
            ),
            Gate::new(
                "time limited by socket buffers",
                percent(self.buffer_limited),
                Limit::AtMost(1.0),
                "%",
            ),
            // The remedy: a larger guest (`--memory`), or `net.ipv4.tcp_mem` of this machine.
            Gate::new(
                "TCP's memory short",
                Some(self.memory_shortages as f64),
                Limit::AtMost(0.0),
                "times",
            ),
            Gate::new(
                "flows that did not end",
                Some(self.unfinished as f64),
                Limit::AtMost(0.0),
                "",
            ),
        ];
        // A machine that has not been tuned needs no gate, nor do results of earlier versions.
        if !self.inherited.is_empty() {
            let variables = self.inherited.iter();
            let variables: Vec<String> = variables.map(|(key, it)| format!("{key}={it}")).collect();
            gates.push(Gate::new(
                &format!("tuned settings of this machine ({})", variables.join(", ")),
                Some(self.inherited.len() as f64),
                Limit::AtMost(0.0),
                "",
            ));
        }
        for gate in &mut gates {
            if let Some(&limit) = self.allow.get(&gate.name) {
                *gate = gate.within(limit);
            }
        }
        gates
    }
}

/// What is wrong with limits of gates, by their names, in one sentence.
pub(crate) fn fault(limits: &BTreeMap<String, f64>) -> Option<String> {
    let gates = names();
    if let Some(name) = limits.keys().find(|name| !gates.contains(name)) {
        let gates = gates.join("; ");
        return Some(format!("there is no gate `{name}`: there is {gates}"));
    }
    let (name, limit) = limits.iter().find(|(_, limit)| !limit.is_finite())?;
    Some(format!("the limit of the gate `{name}` is {limit}"))
}

/// The names of all gates.
fn names() -> Vec<String> {
    let measured = Measured {
        lateness: Lateness::default(),
        slack_ns: 0.0,
        packet_time_ns: 1.0,
        cpu_idle: None,
        lag_mean_ns: None,
        lag_p99_ns: None,
        impossible: 0,
        unfinished: 0,
        buffer_limited: None,
        memory_shortages: 0,
        inherited: &BTreeMap::new(),
        allow: &BTreeMap::new(),
    };
    measured.gates().into_iter().map(|gate| gate.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    static NONE_INHERITED: BTreeMap<String, String> = BTreeMap::new();
    static NO_LIMITS: BTreeMap<String, f64> = BTreeMap::new();
    /// Nothing was measured.
    const NOTHING: Measured<'static> = Measured {
        lateness: Lateness {
            count: 0,
            sum_ns: 0,
            buckets: [0; LATENESS_BUCKETS],
        },
        slack_ns: 0.0,
        packet_time_ns: 1_230_400.0,
        cpu_idle: None,
        lag_mean_ns: None,
        lag_p99_ns: None,
        impossible: 0,
        unfinished: 0,
        buffer_limited: None,
        memory_shortages: 0,
        inherited: &NONE_INHERITED,
        allow: &NO_LIMITS,
    };

    #[test]
    fn a_percentile_is_the_upper_end_of_its_bucket() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.percentile_ns(0.99), None);
        lateness.buckets[0] = 50;
        lateness.buckets[11] = 49;
        lateness.buckets[20] = 1;
        assert_eq!(lateness.percentile_ns(0.5), Some(0.0));
        assert_eq!(lateness.percentile_ns(0.99), Some(2048.0));
        assert_eq!(lateness.percentile_ns(0.999), Some(1_048_576.0));
    }

    #[test]
    fn lateness_within_the_slack_passes() {
        let measured = |slack_ns| Measured {
            lateness: Lateness {
                count: 10,
                sum_ns: 2_000_000,
                ..Lateness::default()
            },
            slack_ns,
            ..NOTHING
        };
        let mean = |slack_ns| measured(slack_ns).gates().remove(0);
        assert!(!mean(0.0).ok && !mean(130_000.0).ok);
        assert!(mean(240_000.0).ok);
    }

    #[test]
    fn a_scheme_has_its_own_limit_of_a_gate() {
        let name = "time limited by socket buffers";
        let gate = |allow| {
            let measured = Measured {
                buffer_limited: Some(0.2),
                allow,
                ..NOTHING
            };
            let mut gates = measured.gates().into_iter();
            gates.find(|gate| gate.name == name).unwrap().to_string()
        };
        let is = "time limited by socket buffers: 20 %, expected at most";
        let (none, own) = (BTreeMap::new(), BTreeMap::from([(name.to_owned(), 30.0)]));
        assert_eq!(gate(&none), format!("{is} 1 %"));
        assert_eq!(gate(&own), format!("{is} 30 %"));
    }

    #[test]
    fn a_gate_without_a_measurement_does_not_pass() {
        let measured = Measured {
            impossible: 1,
            unfinished: 1,
            memory_shortages: 1,
            inherited: &BTreeMap::from([("net.core.netdev_max_backlog".into(), "1".into())]),
            ..NOTHING
        };
        let gates = measured.gates();
        assert!(gates.iter().all(|gate| !gate.ok));
        assert_eq!(
            gates.last().unwrap().to_string(),
            "tuned settings of this machine (net.core.netdev_max_backlog=1): 1, expected at most 0"
        );
    }
}
