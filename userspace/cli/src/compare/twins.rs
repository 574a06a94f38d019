// SPDX-License-Identifier: MIT OR Apache-2.0

//! The same flows under two clocks, as text.

use weft_lab::number::digits;
use weft_lab::results::{Agreement, Means, Twins};

use crate::output;

/// A row for each kind of run, and an explanation of the columns.
pub(super) fn text(all: &[Twins]) -> String {
    let head = [
        "",
        "seeds",
        "flows",
        "median",
        "P95",
        "bias",
        "slowdown",
        "",
        "±",
        "FCT",
        "±",
        "KS",
        "agreement",
    ];
    let mut text = String::new();
    if let Some([one, other]) = all.first().map(|twins| &twins.clocks) {
        text += &format!("{one} clock, and how far the {other} clock's results are from its\n\n");
    }
    text += &output::table(head, all.iter().map(row));
    let lost: Vec<String> = all
        .iter()
        .filter(|twins| twins.alone > 0)
        .map(|twins| {
            format!(
                "{}: {} flows ended under one clock only\n",
                twins.name, twins.alone
            )
        })
        .collect();
    text += "\n\n";
    text += &lost.concat();
    text
        + "median, P95: difference of the same flow's completion times, without its sign; bias: the median with its sign
slowdown: means of all flows, and their difference; FCT: difference of the mean completion times; ± over seeds, 95 %
KS: distance of the slowdowns' distributions, and its critical value at 5 %"
}

fn row(twins: &Twins) -> Vec<String> {
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let signed = |share: f64| format!("{:+.2} %", 100.0 * share);
    let difference = |means: &Means| signed(means.means[1] / means.means[0] - 1.0);
    let interval = |means: &Means| means.difference.half_width.map_or("-".into(), percent);
    let means = &twins.slowdown.means;
    vec![
        twins.name.clone(),
        twins.seeds.len().to_string(),
        twins.flows.to_string(),
        percent(twins.median),
        percent(twins.p95),
        signed(twins.bias),
        format!("{} {}", digits(means[0]), digits(means[1])),
        difference(&twins.slowdown),
        interval(&twins.slowdown),
        difference(&twins.fct_ns),
        interval(&twins.fct_ns),
        format!("{:.3} of {:.3}", twins.distance, twins.critical_distance),
        match twins.agreement {
            Agreement::FlowByFlow => "flow by flow",
            Agreement::InDistribution => "in distribution",
            Agreement::None => "NONE",
        }
        .to_owned(),
    ]
}
