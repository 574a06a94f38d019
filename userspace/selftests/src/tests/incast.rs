// SPDX-License-Identifier: MIT OR Apache-2.0

//! The label of an incast's flows.

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, tests};
use weft_load::record::PortSample;

use crate::weft;

tests![
    #[once]
    flows_of_an_incast_are_labelled_and_share_a_queue_if_the_scheme_has_one,
];

/// Eight flows to one host at once: an incast's flows share one queue if they are labelled, and
/// only then.
fn flows_of_an_incast_are_labelled_and_share_a_queue_if_the_scheme_has_one(
    cx: &Context,
) -> Result<()> {
    weft::require_programs()?;
    let most = |scheme: &str, flows: &str| -> Result<u32> {
        let run = weft::run(&format!(
            "rack:hosts=9,rate=10gbit,delay=3us --dilation 1000 --scheme {scheme} --warm-up 0 \
             --sample 20us {flows}"
        ))?;
        let occupied = |port: &PortSample| {
            let is_receivers = !port.host && port.port == "h0";
            port.backpressure
                .filter(|_| is_receivers)
                .map(|it| it.occupied)
        };
        run.ports
            .iter()
            .filter_map(occupied)
            .max()
            .context("no samples")
    };
    let incast = "--only-incast --incast 8x200kB@1000 --incast-to h0 --incast-arrivals lognormal:0 \
                  --flows 8";
    let added: String = (1..9)
        .map(|host| format!("--add h{host}-h0:200kB "))
        .collect();
    let others = format!("--only-added {added}");
    let queues = [
        most("bfc", incast)?,
        most("bfc-label", incast)?,
        most("bfc-label", &others)?,
    ];
    cx.note(format!("queues with packets, at most: {queues:?}"));
    // A SYN precedes the declaration of its flow, so a sample may find it in a separate queue.
    let [alone, labelled, others] = queues;
    ensure!(
        alone == 8 && labelled <= 2 && others == 8,
        "queues with packets, at most: {queues:?}"
    );
    Ok(())
}
