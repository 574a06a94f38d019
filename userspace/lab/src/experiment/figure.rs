// SPDX-License-Identifier: MIT OR Apache-2.0

//! The figures of a run, from its flows, its ports and its summary.

mod growth;
mod of;
mod port;
mod receiver;
mod senders;
mod subject;
mod table;

use weft_load::record::Flow;

pub(crate) use of::Of;
pub(super) use port::Place;
pub(super) use subject::Subject;
pub(super) use table::{Asked, Where};

/// When a flow ended, in ns since the run began; the end of time if it did not.
fn end_ns(flow: &Flow) -> u64 {
    flow.fct_ns.map_or(u64::MAX, |ns| flow.start_ns + ns)
}
