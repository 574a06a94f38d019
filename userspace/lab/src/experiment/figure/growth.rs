// SPDX-License-Identifier: MIT OR Apache-2.0

//! How much faster flows start than they end: 0 in a steady state.

use weft_load::record::{Flow, measured};

use super::end_ns;

/// The growth of what is under way from the first measured start to the last one, as a share of
/// what starts in between: flows if `weight` is 1, their bytes if it is their size. Flows of the
/// warm-up and the cool-down count as well. Until a flow ends, its whole weight counts. `None` if
/// nothing starts in between.
pub(super) fn growth(flows: &[Flow], weight: fn(&Flow) -> u64) -> Option<f64> {
    let starts = || measured(flows).map(|flow| flow.start_ns);
    let (first, last) = starts().min().zip(starts().max())?;
    let sum = |counts: &dyn Fn(&Flow) -> bool| {
        let counted = flows.iter().filter(|flow| counts(flow));
        counted.map(|flow| weight(flow) as f64).sum::<f64>()
    };
    let under_way = |at: u64| sum(&|flow| flow.start_ns <= at && end_ns(flow) > at);
    let started = sum(&|flow| first < flow.start_ns && flow.start_ns <= last);
    (started > 0.0).then(|| (under_way(last) - under_way(first)) / started)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(start_ns: u64, fct_ns: impl Into<Option<u64>>, size: u64, warm_up: bool) -> Flow {
        serde_json::from_value(serde_json::json!({
            "id": 0, "src": 1, "dst": 0, "class": "background", "warm_up": warm_up, "start_ns": start_ns, "size": size,
            "fct_ns": fct_ns.into(), "slowdown": null,
        }))
        .unwrap()
    }

    fn of_flows(flows: &[Flow]) -> Option<f64> {
        growth(flows, |_| 1)
    }

    #[test]
    fn nothing_grows_if_each_flow_ends_before_the_next() {
        let flows: Vec<Flow> = (0..10).map(|n| flow(100 * n, 50, 1, false)).collect();
        assert_eq!(of_flows(&flows), Some(0.0));
    }

    #[test]
    fn everything_that_starts_is_growth_if_nothing_ends() {
        let flows: Vec<Flow> = (0..10).map(|n| flow(100 * n, None, n, false)).collect();
        assert_eq!(of_flows(&flows), Some(1.0));
        assert_eq!(growth(&flows, |flow| flow.size), Some(1.0));
    }

    #[test]
    fn flows_that_are_not_measured_count_while_measured_ones_start() {
        let flows = [
            // Under way at both ends; at the first only; at neither.
            flow(0, None, 10, true),
            flow(0, 150, 20, true),
            flow(0, 100, 40, true),
            // The first measured start is at 100, the last at 200.
            flow(100, 50, 80, false),
            flow(150, None, 160, true),
            flow(200, 1, 320, false),
            flow(201, None, 640, true),
        ];
        // Three are under way at the first, and three at the last; two start in between.
        assert_eq!(of_flows(&flows), Some(0.0));
        let bytes = |flow: &Flow| flow.size;
        let (at_first, at_last) = (10.0 + 20.0 + 80.0, 10.0 + 160.0 + 320.0);
        assert_eq!(growth(&flows, bytes), Some((at_last - at_first) / 480.0));
    }

    #[test]
    fn one_start_has_no_growth() {
        assert_eq!(of_flows(&[flow(5, 1, 1, false)]), None);
        assert_eq!(of_flows(&[flow(5, 1, 1, true), flow(6, 1, 1, true)]), None);
        assert_eq!(of_flows(&[]), None);
    }
}
