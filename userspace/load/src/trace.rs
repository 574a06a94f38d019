// SPDX-License-Identifier: MIT OR Apache-2.0

//! Flows from a file.

use weft_ebpf_common::sockopt::MAX_FLOW_SIZE;

use crate::error::Result;
use crate::hosts::Hosts;
use crate::lines::{empty, lines};

/// A flow of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceFlow {
    /// ns since the beginning.
    pub start_ns: u64,
    /// Sender.
    pub src: u32,
    /// Receiver, another host.
    pub dst: u32,
    /// Bytes, 1 to 2^40.
    pub size: u64,
}

/// The flows of a file by start; flows that start together are in the file's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    name: String,
    flows: Vec<TraceFlow>,
}

impl Trace {
    /// Lines `START_NS SRC DST SIZE`: whole ns since the run began, hosts by name or by place (from
    /// 0), bytes; `#` begins a comment. `name` is the trace's name in errors and results.
    ///
    /// # Errors
    ///
    /// With the line's number: not four words, not a number, not one of `hosts`, a flow to itself,
    /// a size of 0 or above 2^40. Also if there is no flow.
    pub fn parse(name: &str, text: &str, hosts: &Hosts) -> Result<Self> {
        let mut flows = Vec::new();
        for line in lines(name, text) {
            let [start, src, dst, size] = line.exactly("`START_NS SRC DST SIZE`")?;
            let start_ns = line.whole(start, "start")?;
            let (src, dst) = line.pair(src, dst, hosts)?;
            let size = line.whole(size, "size")?;
            if !(1..=MAX_FLOW_SIZE).contains(&size) {
                return Err(line.error(format!("a flow of {size} bytes: expected 1 byte to 1 TiB")));
            }
            flows.push(TraceFlow {
                start_ns,
                src,
                dst,
                size,
            });
        }
        if flows.is_empty() {
            return Err(empty(name, "flows: expected lines `START_NS SRC DST SIZE`"));
        }
        flows.sort_by_key(|flow| flow.start_ns);
        Ok(Self {
            name: name.to_owned(),
            flows,
        })
    }

    /// Its name in errors and results.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The flows by start, at least one.
    #[must_use]
    pub fn flows(&self) -> &[TraceFlow] {
        &self.flows
    }
}
