// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whether a flow's packets stay in their order where each flow has a queue.

use anyhow::{Result, ensure};
use weft_ktap::{Context, tests};

use crate::weft;

tests![
    #[once]
    what_bfc_holds_is_not_overtaken_by_what_is_sent_again,
];

/// Incasts wait for longer than TCP does. Nothing is lost, so all that a timeout sends again is the
/// segment that it is for: more of them were sent again where what came first, by another queue,
/// told the sender of a gap, and what came later was thrown away for its timestamp.
fn what_bfc_holds_is_not_overtaken_by_what_is_sent_again(cx: &Context) -> Result<()> {
    let run = weft::run(
        "rack:hosts=16,rate=10gbit,delay=3us --dilation 1000 --scheme bfc --set rto_min=200us --workload \
         fixed:200kB --pairs all-to-one:h0 --load 1 --flows 40 --incast 15:600kB@3000 --incast-to h0 \
         --warm-up 0 --no-cool-down --connection pair --patience 1s",
    )?;
    let flows = || run.flows.iter();
    let timeouts: u64 = flows().map(|flow| flow.timeouts.unwrap_or_default()).sum();
    let again: u64 = flows().map(|flow| flow.retransmissions).sum();
    cx.note(format!("{again} segments sent again, {timeouts} timeouts"));
    ensure!(timeouts > 100, "only {timeouts} timeouts");
    ensure!(
        again <= timeouts,
        "{again} segments sent again, {timeouts} timeouts, and nothing lost"
    );
    Ok(())
}
