// SPDX-License-Identifier: MIT OR Apache-2.0

//! Many simultaneous flows to one host.

use std::num::NonZeroU32;

use anyhow::Result;
use weft_load::arrivals::Process;
use weft_load::incast::{Incast, IncastBytes};
use weft_load::quantity;
use weft_topo::Topology;

use super::{host, refuse};
use crate::error::usage;

/// Many simultaneous flows to one host.
#[derive(Clone, Debug)]
pub struct Incasts {
    /// The number of flows of one incast.
    pub fan_in: NonZeroU32,
    /// Their sizes.
    pub bytes: IncastBytes,
    /// Incasts per second of the fabric.
    pub rate: f64,
    /// The times between them.
    pub process: Process,
    /// The receiver of all; `None` for a new one each time.
    pub to: Option<String>,
    /// The number of sending hosts; `None` if each flow comes from a different host.
    pub senders: Option<NonZeroU32>,
}

impl Incasts {
    /// `text` is for example `40x20kB@300` or `100:20MB@5`, and `arrivals` gives the times between
    /// incasts in the form that [`Process`] reads. The receiver is any host, and each flow has a
    /// different sender.
    ///
    /// # Errors
    ///
    /// If one of them is invalid: one sentence.
    pub fn new(text: &str, arrivals: &str) -> Result<Self> {
        let parsed = text.split_once('@').and_then(|(what, rate)| {
            let (fan_in, bytes, all) = match what.split_once('x') {
                Some((fan_in, bytes)) => (fan_in, bytes, false),
                None => what
                    .split_once(':')
                    .map(|(fan_in, bytes)| (fan_in, bytes, true))?,
            };
            Some((
                fan_in.parse::<NonZeroU32>().ok()?,
                bytes,
                all,
                rate.parse::<f64>().ok()?,
            ))
        });
        let Some((fan_in, bytes, all, rate)) = parsed else {
            return usage(format!(
                "--incast {text}: expected SENDERSxSIZE@PER_SECOND or SENDERS:TOTAL@PER_SECOND, for example 40x20kB@300"
            ));
        };
        let bytes = refuse(quantity::bytes(bytes))?;
        Ok(Self {
            fan_in,
            bytes: if all {
                IncastBytes::Aggregate(bytes)
            } else {
                IncastBytes::PerSender(bytes)
            },
            rate,
            process: refuse(arrivals.parse())?,
            to: None,
            senders: None,
        })
    }

    pub(super) fn on(&self, topology: &Topology) -> Result<Incast> {
        let to = self.to.as_ref();
        Ok(Incast {
            fan_in: self.fan_in,
            bytes: self.bytes,
            senders: self.senders,
            process: self.process,
            rate: self.rate,
            receiver: to.map(|name| host(topology, name)).transpose()?,
        })
    }
}
