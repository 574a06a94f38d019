// SPDX-License-Identifier: MIT OR Apache-2.0

//! Flows that share a link, compared with an exact computation for the same flows.

use std::collections::VecDeque;

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, tests};
use weft_load::framing::Framing;

use crate::weft;

tests![
    #[once]
    flows_take_the_times_of_processor_sharing,
];

/// Bit/s of each link.
const RATE: f64 = 10e9;
const MTU: u32 = 1500;

/// The times of flows with these arrivals, if a processor that needs `work` for one flow alone is
/// shared equally by all present ones (L. Kleinrock, Queueing Systems, volume II, 1976, §4.4). As
/// all flows have the same work, they leave in the order of arrival. All in ns; arrivals in order.
fn processor_sharing(arrivals: &[u64], work: f64) -> Vec<f64> {
    // The service that a flow present from the beginning would have received, and its value when
    // each present flow leaves.
    let (mut now, mut got) = (0.0, 0.0);
    let mut there: VecDeque<f64> = VecDeque::new();
    let mut times = Vec::new();
    let mut coming = arrivals.iter().map(|&at| at as f64).peekable();
    loop {
        let sharing = there.len() as f64;
        let goes = there.front().map(|end| now + (end - got) * sharing);
        match (coming.peek().copied(), goes) {
            (Some(comes), goes) if goes.is_none_or(|goes| comes <= goes) => {
                if sharing > 0.0 {
                    got += (comes - now) / sharing;
                }
                now = comes;
                there.push_back(got + work);
                coming.next();
            }
            (_, Some(goes)) => {
                now = goes;
                got = there.pop_front().unwrap_or(got);
                times.push(goes - arrivals[times.len()] as f64);
            }
            (_, None) => return times,
        }
    }
}

/// Like the experiment `mg1-ps`. Flows do not share the first packet's time on the first link, and
/// both delays.
fn flows_take_the_times_of_processor_sharing(cx: &Context) -> Result<()> {
    let words = "rack:hosts=5,rate=10gbit,delay=1us --dilation 1000 --scheme ideal-fq --workload fixed:100kB \
                 --pairs all-to-one:h0 --connection pair:16 --load 0.6 --flows 400 --sample 0ns";
    let mut run = weft::run(words)?;
    let framing = Framing::ethernet_tcp(MTU, false).context("headers fit")?;
    run.flows.sort_by_key(|flow| flow.start_ns);
    let arrivals: Vec<u64> = run.flows.iter().map(|flow| flow.start_ns).collect();
    let bytes = framing.flow_wire_bytes(100_000);
    let work = bytes as f64 * 8e9 / RATE;
    let shared = processor_sharing(&arrivals, work);
    let (mut measured, mut expected, mut farthest) = (0.0, 0.0, 0.0_f64);
    let mut flows = 0_u32;
    for (flow, shared) in run.flows.iter().zip(shared) {
        // Flows that only keep up the load need not end.
        let Some(time) = flow.fct_ns.map(|ns| ns as f64) else {
            continue;
        };
        flows += 1;
        let alone = time / flow.slowdown.context("no best time is known")?;
        let reckoned = (shared + alone - work) / alone;
        measured += time / alone;
        expected += reckoned;
        farthest = farthest.max((time / alone - reckoned).abs());
    }
    ensure!(flows >= 400, "{flows} flows ended");
    let (measured, expected) = (measured / f64::from(flows), expected / f64::from(flows));
    cx.note(format!(
        "{flows} flows: mean slowdown {measured:.4}, processor sharing {expected:.4}, each flow within {farthest:.3}"
    ));
    ensure!(expected > 1.5, "they shared next to nothing");
    ensure!(
        (measured / expected - 1.0).abs() < 0.002,
        "{measured} of {expected}"
    );
    Ok(())
}
