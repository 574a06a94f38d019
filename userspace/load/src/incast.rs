// SPDX-License-Identifier: MIT OR Apache-2.0

//! Incast: many hosts answer one host at the same instant.
//!
//! DIBS (EuroSys 2014): 40 responders of 20 kB each, 300 queries a second on 128 hosts. BFC (NSDI
//! 2022): 100 senders, 20 MB in all, 5 % of the load.

use std::fmt;
use std::num::NonZeroU32;

use chacha20::ChaCha8Rng;

use crate::arrivals::{Clock, Process};
use crate::error::{Result, invalid};
use crate::framing::Framing;
use crate::load::Counted;
use crate::random::{self, Stream};

/// Bytes of an incast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncastBytes {
    /// In total, as evenly as whole bytes allow: the first flows have one byte more.
    Aggregate(u64),
    /// Per flow.
    PerSender(u64),
}

/// Repeated incasts.
#[derive(Clone, Debug, PartialEq)]
pub struct Incast {
    /// Flows of one incast, all to its receiver.
    pub fan_in: NonZeroU32,
    /// Number of different hosts that send them, none of them the receiver, in turn; at most as
    /// many as flows. `None`: each flow has another sender.
    pub senders: Option<NonZeroU32>,
    /// Payload.
    pub bytes: IncastBytes,
    /// The times between incasts.
    pub process: Process,
    /// Incasts per second. To compute it from a load, use `load.per_second(incast.bits(..))`, where
    /// each receiver's link has the share [`Incast::busiest_share`].
    pub rate: f64,
    /// The receiver; `None` draws a new one for each incast, uniformly.
    pub receiver: Option<u32>,
}

impl Incast {
    /// Bits per incast.
    #[must_use]
    pub fn bits(&self, counted: Counted, framing: &Framing) -> f64 {
        let senders = 0..self.fan_in.get();
        senders.map(|n| counted.bits(self.size(n), framing)).sum()
    }

    /// The share of incasts that the busiest of `hosts` links carries in full, as a receiver's
    /// link: receivers are never less busy than senders.
    #[must_use]
    pub fn busiest_share(&self, hosts: u32) -> f64 {
        match self.receiver {
            Some(_) => 1.0,
            None => 1.0 / f64::from(hosts),
        }
    }

    /// Bytes of flow `n`.
    #[must_use]
    pub fn size(&self, n: u32) -> u64 {
        match self.bytes {
            IncastBytes::PerSender(bytes) => bytes,
            IncastBytes::Aggregate(bytes) => {
                let senders = u64::from(self.fan_in.get());
                bytes / senders + u64::from(u64::from(n) < bytes % senders)
            }
        }
    }

    pub(crate) fn events(&self, hosts: u32, seed: u64) -> Result<Events> {
        let fan_in = self.fan_in.get();
        let senders = self.senders.unwrap_or(self.fan_in).get();
        if senders >= hosts {
            return invalid(format!(
                "an incast of {senders} senders needs {} hosts: the fabric has {hosts}",
                u64::from(senders) + 1
            ));
        }
        if senders > fan_in {
            return invalid(format!(
                "{senders} senders of {fan_in} flows: some have none"
            ));
        }
        if let Some(receiver) = self.receiver.filter(|receiver| *receiver >= hosts) {
            return invalid(format!(
                "there is no host h{receiver}: the fabric has {hosts}"
            ));
        }
        if self.size(fan_in - 1) == 0 {
            return invalid("each flow of an incast has at least 1 byte");
        }
        if self.process == Process::Balanced {
            return invalid("incasts have no balanced arrivals: take poisson or lognormal");
        }
        let clock = random::stream(seed, Stream::IncastArrivals);
        Ok(Events {
            incast: self.clone(),
            clock: Clock::new(self.process, self.rate, clock)?,
            rng: random::stream(seed, Stream::IncastHosts),
            others: (0..hosts - 1).collect(),
            senders,
            hosts,
        })
    }
}

impl fmt::Display for Incast {
    /// For example `40 x 20000 B, 300 per s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            IncastBytes::PerSender(bytes) => write!(f, "{} x {bytes} B", self.fan_in)?,
            IncastBytes::Aggregate(bytes) => write!(f, "{bytes} B from {}", self.fan_in)?,
        }
        if let Some(senders) = self.senders {
            write!(f, " by {senders} hosts")?;
        }
        write!(f, ", {:.6} per s, {}", self.rate, self.process)?;
        match self.receiver {
            Some(receiver) => write!(f, ", to h{receiver}"),
            None => Ok(()),
        }
    }
}

/// One incast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) start_ns: u64,
    pub(crate) receiver: u32,
    /// Sender and size of each flow.
    pub(crate) senders: Vec<(u32, u64)>,
}

#[derive(Debug)]
pub(crate) struct Events {
    incast: Incast,
    clock: Clock<ChaCha8Rng>,
    rng: ChaCha8Rng,
    /// 0 to hosts - 2 in some order: the hosts without the receiver.
    others: Vec<u32>,
    /// Number of senders.
    senders: u32,
    hosts: u32,
}

impl Iterator for Events {
    type Item = Event;

    /// The iterator is endless.
    fn next(&mut self) -> Option<Event> {
        let start_ns = self.clock.next_ns();
        // Drawn even if the receiver is fixed, so that the senders are the same in both cases.
        let drawn = random::below(&mut self.rng, NonZeroU32::new(self.hosts)?);
        let receiver = self.incast.receiver.unwrap_or(drawn);
        // The beginning of a Fisher-Yates shuffle, starting from the order that the last one left.
        for n in 0..self.senders {
            let left = NonZeroU32::new(self.hosts - 1 - n)?;
            let chosen = n + random::below(&mut self.rng, left);
            self.others.swap(n as usize, chosen as usize);
        }
        let chosen = self.others.iter().take(self.senders as usize).cycle();
        let flows = (0..self.incast.fan_in.get()).zip(chosen);
        let senders = flows
            .map(|(n, &index)| {
                let host = if index < receiver { index } else { index + 1 };
                (host, self.incast.size(n))
            })
            .collect();
        Some(Event {
            start_ns,
            receiver,
            senders,
        })
    }
}
