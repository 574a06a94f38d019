// SPDX-License-Identifier: MIT OR Apache-2.0

//! What was in switches, over the time from the first start of a flow that is measured to the last
//! end. A port holds what it held at its last sample, before the first one nothing; all switches of
//! the fabric count, or all their ports, whether or not something was ever in them.

use std::collections::BTreeMap;

use weft_load::record::PortSample;

use super::Lasting;
use crate::experiments::results::Done;

/// From when to when, in ns since the run began.
type Window = (u64, u64);

/// `None`: no flow is measured.
fn window(done: &Done<'_>) -> Option<Window> {
    let flows = done.run.flows.iter().filter(|flow| !flow.warm_up);
    let times = flows.map(|flow| {
        let partial = flow.partial.map(|partial| partial.ns);
        let lasted = flow.fct_ns.or(partial).unwrap_or(0);
        (flow.start_ns, flow.start_ns + lasted)
    });
    times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// Names of switches, or the one that is meant if it is one, and how many ports each has.
fn switches<'a>(
    done: &'a Done<'_>,
    node: Option<&'a str>,
) -> impl Iterator<Item = (&'a str, usize)> {
    let topology = &done.planned.fabric.topology;
    let switches = topology.switches().map(|id| topology.node(id));
    switches
        .map(|switch| (switch.name.as_str(), switch.ports.len()))
        .filter(move |(name, _)| node.is_none_or(|node| node == *name))
}

/// The samples of each port of a switch, by time.
fn samples<'a>(done: &'a Done<'_>, switch: &str) -> BTreeMap<&'a str, Vec<&'a PortSample>> {
    let mut ports: BTreeMap<&str, Vec<&PortSample>> = BTreeMap::new();
    let all = done.run.ports.iter().filter(|it| !it.host);
    for sample in all.filter(|it| it.node == switch) {
        ports.entry(&sample.port).or_default().push(sample);
    }
    for samples in ports.values_mut() {
        samples.sort_by_key(|sample| sample.time_ns);
    }
    ports
}

/// Values that hold from a time on, of which the times increase; 0 before the first.
fn lasting(steps: impl IntoIterator<Item = (u64, f64)>, window: Window) -> Vec<Lasting> {
    let (begin, end) = window;
    let mut all = Vec::new();
    let (mut since, mut value) = (begin, 0.0);
    let mut last = |value, from: u64, to: u64| {
        all.push(Lasting {
            value,
            ns: to.saturating_sub(from),
        });
    };
    for (time, next) in steps {
        let time = time.clamp(begin, end);
        last(value, since, time);
        (since, value) = (time, next);
    }
    last(value, since, end);
    all
}

/// kB in all ports of a switch together.
pub(super) fn buffers_kb(done: &Done<'_>, node: Option<&str>) -> Vec<Lasting> {
    let Some(window) = window(done) else {
        return Vec::new();
    };
    let of_switch = |(switch, _)| {
        // What each sample changes.
        let mut changes: BTreeMap<u64, i128> = BTreeMap::new();
        for samples in samples(done, switch).values() {
            let mut before = 0;
            for sample in samples {
                let bytes = i128::from(sample.backlog_bytes);
                *changes.entry(sample.time_ns).or_default() += bytes - before;
                before = bytes;
            }
        }
        let steps = changes.into_iter().scan(0, |bytes, (time, change)| {
            *bytes += change;
            Some((time, *bytes as f64 / 1e3))
        });
        lasting(steps, window)
    };
    switches(done, node).flat_map(of_switch).collect()
}

/// Queues that have packets, of each port; none if ports do not tell.
pub(super) fn occupied_queues(done: &Done<'_>, node: Option<&str>) -> Vec<Lasting> {
    let (Some(window), true) = (window(done), tell(done)) else {
        return Vec::new();
    };
    let of_switch = |(switch, ports)| {
        let samples = samples(done, switch);
        let silent = std::iter::repeat_n(Vec::new(), ports - samples.len().min(ports));
        let all = samples.into_values().chain(silent);
        let of_port = move |samples: Vec<&PortSample>| {
            let steps = samples.into_iter().map(|sample| {
                let occupied = sample.backpressure.map_or(0, |it| it.occupied);
                (sample.time_ns, f64::from(occupied))
            });
            lasting(steps, window)
        };
        all.flat_map(of_port).collect::<Vec<_>>()
    };
    switches(done, node).flat_map(of_switch).collect()
}

/// Whether ports say how many of their queues have packets.
fn tell(done: &Done<'_>) -> bool {
    done.run.ports.iter().any(|it| it.backpressure.is_some())
}

/// Of flows that became active, the share whose queue had packets of another, 0 to 1, up to each
/// port's last sample.
pub(super) fn collisions(done: &Done<'_>, node: Option<&str>) -> Option<f64> {
    let (mut collisions, mut activations) = (0, 0);
    for (switch, _) in switches(done, node) {
        for samples in samples(done, switch).values() {
            let Some(last) = samples.last().and_then(|it| it.backpressure) else {
                continue;
            };
            collisions += last.collisions;
            activations += last.activations;
        }
    }
    (activations > 0).then(|| collisions as f64 / activations as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::measure::Statistic;

    #[test]
    fn a_value_lasts_until_the_next_within_the_window() {
        let of = |steps: &[(u64, f64)]| {
            let mut all = lasting(steps.iter().copied(), (100, 200));
            all.retain(|it| it.ns > 0);
            let pairs = all.iter().map(|it| (it.value, it.ns));
            pairs.collect::<Vec<_>>()
        };
        assert_eq!(of(&[]), [(0.0, 100)]);
        assert_eq!(of(&[(50, 7.0), (90, 5.0)]), [(5.0, 100)]);
        assert_eq!(
            of(&[(130, 5.0), (150, 2.0)]),
            [(0.0, 30), (5.0, 20), (2.0, 50)]
        );
        assert_eq!(of(&[(130, 5.0), (250, 2.0)]), [(0.0, 30), (5.0, 70)]);
    }

    #[test]
    fn figures_over_time_weigh_values_by_how_long_they_last() {
        let value = |value, ns| Lasting { value, ns };
        let values = || vec![value(9.0, 1), value(0.0, 90), value(4.0, 9), value(99.0, 0)];
        for (statistic, expected) in [
            (Statistic::Mean, 0.45),
            (Statistic::P50, 0.0),
            (Statistic::P95, 4.0),
            (Statistic::P99, 4.0),
            (Statistic::P999, 9.0),
            (Statistic::Max, 9.0),
        ] {
            assert_eq!(
                statistic.over_time(values()),
                Some(expected),
                "{statistic:?}"
            );
        }
        assert_eq!(Statistic::Mean.over_time(vec![value(3.0, 0)]), None);
        assert_eq!(Statistic::P99.over_time(Vec::new()), None);
    }
}
