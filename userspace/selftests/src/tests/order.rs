// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets of a flow stay in order where each flow has a queue.

use anyhow::{Result, ensure};
use weft_ktap::{Context, tests};

use crate::weft;

tests![
    #[once]
    retransmissions_do_not_overtake_segments_that_bfc_holds,
];

/// Incasts wait longer than TCP's timeout. Nothing is lost, so a timeout retransmits only its own
/// segment. There were more retransmissions when the retransmitted segment overtook the original
/// through another queue: the sender then saw a gap, and the receiver discarded the original for
/// its old timestamp.
fn retransmissions_do_not_overtake_segments_that_bfc_holds(cx: &Context) -> Result<()> {
    let run = weft::run(
        "rack:hosts=16,rate=10gbit,delay=3us --dilation 1000 --scheme bfc --set rto_min=200us --workload \
         fixed:200kB --pairs all-to-one:h0 --load 1 --flows 40 --incast 15:600kB@3000 --incast-to h0 \
         --warm-up 0 --no-cool-down --connection pair --patience 1s",
    )?;
    let flows = || run.flows.iter();
    let timeouts: u64 = flows().map(|flow| flow.timeouts.unwrap_or_default()).sum();
    let again: u64 = flows().map(|flow| flow.retransmissions).sum();
    cx.note(format!(
        "{again} segments retransmitted, {timeouts} timeouts"
    ));
    ensure!(timeouts > 100, "only {timeouts} timeouts");
    ensure!(
        again <= timeouts,
        "{again} segments retransmitted, {timeouts} timeouts, and nothing lost"
    );
    Ok(())
}
