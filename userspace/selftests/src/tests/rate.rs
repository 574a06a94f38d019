// SPDX-License-Identifier: MIT OR Apache-2.0

//! Long flows from all hosts at once.

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, tests};
use weft_load::framing::Framing;

use crate::weft;

tests![a_permutation_fills_all_links_except_for_headers_and_acknowledgements];

/// Bit/s of each link.
const RATE: f64 = 10e9;
const MTU: u32 = 1500;

/// Each host sends one flow and receives another, so each link carries an acknowledgement in one
/// direction for each packet in the other.
fn a_permutation_fills_all_links_except_for_headers_and_acknowledgements(
    cx: &Context,
) -> Result<()> {
    let words = "rack:hosts=4,rate=10gbit,delay=2700ns --dilation 1000 --scheme droptail --workload fixed:3MB \
                 --pairs permutation --arrivals closed --flows 4 --warm-up 0 --sample 0ns";
    let run = weft::run(words)?;
    let framing = Framing::ethernet_tcp(MTU, false).context("headers fit")?;
    let (packet, acknowledgement) = (framing.wire_bytes(framing.mss.get()), framing.wire_bytes(0));
    let payload = f64::from(framing.mss.get());
    let expected = RATE * payload / (packet + acknowledgement) as f64;
    let most = RATE * payload / packet as f64;
    ensure!(run.flows.len() == 4, "{} flows", run.flows.len());
    for flow in &run.flows {
        let time = flow.fct_ns.context("it did not end")?;
        let goodput = flow.size as f64 * 8e9 / time as f64;
        let what = format!(
            "h{} to h{}: {:.3} Gbit/s of payload, {:.4} of what packets and acknowledgements leave",
            flow.src,
            flow.dst,
            goodput / 1e9,
            goodput / expected
        );
        cx.note(what.clone());
        ensure!(goodput >= 0.99 * expected && goodput <= most, "{what}");
    }
    Ok(())
}
