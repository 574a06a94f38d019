// SPDX-License-Identifier: MIT OR Apache-2.0

//! The ideal schedule of a run's flows, as a result like any other: `ideal-seedN.jsonl` beside it.

use std::fs::File;
use std::io::{BufWriter, Write as _};

use anyhow::{Context as _, Result, ensure};
use weft_load::ideal::{Demand, waits_ps};
use weft_load::record::{self, Flow, Record, Recorded, Summary};
use weft_load::statistics::Buckets;

use super::description::IDEAL;
use super::found::Done;
use crate::run;

const PS_PER_NS: u64 = 1_000;

/// Adds the ideal of every run that should have one, and writes its file.
///
/// # Errors
///
/// If a closed loop or a collective made the flows (because the start of a flow depends on the end
/// of others), or writing fails.
pub fn add(done: &mut Vec<Done<'_>>) -> Result<()> {
    let mut ideals = Vec::new();
    for run in done.iter() {
        let Some(values) = run.planned.values_of_ideal() else {
            continue;
        };
        let workload = &run.run.header.workload;
        for (made, what) in [
            (workload.arrivals.starts_with("closed"), "closed loop"),
            (workload.collective.is_some(), "collective"),
        ] {
            ensure!(
                !made,
                "{}: a {what} has no ideal, as its flows begin when others end: leave out `ideal` for it",
                run.planned.command()
            );
        }
        let ideal = of(run)?;
        let path = run::file(&run.planned.folder, IDEAL, run.planned.seed);
        write(
            &ideal,
            File::create(&path).with_context(|| path.display().to_string())?,
        )?;
        ideals.push(Done {
            planned: run.planned,
            values,
            run: ideal,
            sha256: String::new(),
            made: None,
        });
    }
    done.append(&mut ideals);
    Ok(())
}

/// The same flows, with the same start times, as the ideal schedule serves them.
fn of(done: &Done<'_>) -> Result<Recorded> {
    let framing = done.framing();
    let mut best = done.best();
    let rate = |host: u32| {
        done.subject()
            .rate(host)
            .context("a flow of a host that is not there")
    };
    let flows = &done.run.flows;
    let mut demands = Vec::with_capacity(flows.len());
    for flow in flows {
        let rate = rate(flow.src)?.min(rate(flow.dst)?);
        let bits = 8.0 * framing.flow_wire_bytes(flow.size) as f64;
        demands.push(Demand {
            start_ps: flow.start_ns.saturating_mul(PS_PER_NS),
            src: flow.src,
            dst: flow.dst,
            service_ps: (bits * 1e12 / rate as f64).round() as u64,
        });
    }
    let served = |(flow, wait): (&Flow, u64)| {
        let best = best.time_ns(flow.src, flow.dst, flow.size)?;
        let time = best + wait as f64 / PS_PER_NS as f64;
        Some(Flow {
            fct_ns: Some(time.round() as u64),
            slowdown: Some(time / best),
            retransmissions: 0,
            spurious: Some(0),
            timeouts: Some(0),
            hops: None,
            partial: None,
            ..flow.clone()
        })
    };
    let flows: Option<Vec<Flow>> = flows.iter().zip(waits_ps(&demands)).map(served).collect();
    let flows = flows.context("there is no way between two hosts")?;
    let mut header = done.run.header.clone();
    header.scheme = IDEAL.to_owned();
    header.parameters.clear();
    // No command runs it.
    header.options.clear();
    let buckets = Buckets::new(&header.buckets)?;
    Ok(Recorded {
        summary: Some(Summary::new(&flows, &buckets, Vec::new(), None)),
        header,
        flows,
        ports: Vec::new(),
        path: None,
    })
}

fn write(run: &Recorded, file: File) -> Result<()> {
    let mut out = BufWriter::new(file);
    record::write(&mut out, &Record::Header(Box::new(run.header.clone())))?;
    for flow in &run.flows {
        record::write(&mut out, &Record::Flow(flow.clone()))?;
    }
    if let Some(summary) = &run.summary {
        record::write(&mut out, &Record::Summary(summary.clone()))?;
    }
    Ok(out.flush()?)
}
