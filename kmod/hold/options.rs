// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Options of the `hold` qdisc, which keeps a backlog in its child for tests and benchmarks.
//!
//! | type | attribute         | payload | meaning                                         |
//! |------|-------------------|---------|-------------------------------------------------|
//! | 1    | `BACKLOG`         | `u32`   | packets that stay in the child                  |
//! | 2    | `RANDOM_PRIORITY` | `u32`   | mask of pseudo-random priorities, 0: left alone |
//! | 3    | `TXTIME`          | `u64`   | ns from arrival to transmit time, 0: not set     |

use crate::common::nla::{self, NoRoom, Refusal, Sink};

/// The qdisc's name.
pub const KIND: &str = "hold";

/// Types of the attributes nested in `TCA_OPTIONS`.
pub mod attr {
    /// Packets that stay in the child, `u32`.
    pub const BACKLOG: u16 = 1;
    /// Mask of pseudo-random priorities, `u32`; 0 leaves priorities alone.
    pub const RANDOM_PRIORITY: u16 = 2;
    /// Transmit time that each packet is given, in ns after its arrival (`CLOCK_TAI`), `u64`; 0 gives
    /// none. For `etf`.
    pub const TXTIME: u16 = 3;
}

/// What a request says; `None` is not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Packets that stay in the child.
    pub backlog: Option<u32>,
    /// Mask of pseudo-random priorities.
    pub random_priority: Option<u32>,
    /// Transmit time, in ns after arrival.
    pub txtime: Option<u64>,
}

impl Options {
    /// Reads a request: the payload of `TCA_OPTIONS`.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] for bytes that are no attributes, an unknown attribute, one of the wrong size
    /// or given twice.
    pub fn parse(payload: &[u8]) -> Result<Self, Refusal> {
        let mut options = Self::default();
        nla::each(payload, |attr, value| {
            match attr {
                attr::BACKLOG => {
                    nla::say_once(&mut options.backlog, attr, nla::read_u32(attr, value)?)?;
                }
                attr::RANDOM_PRIORITY => {
                    let mask = nla::read_u32(attr, value)?;
                    nla::say_once(&mut options.random_priority, attr, mask)?;
                }
                attr::TXTIME => {
                    nla::say_once(&mut options.txtime, attr, nla::read_u64(attr, value)?)?;
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(options)
    }

    /// Writes the request: what is said, and nothing else.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the sink is full.
    pub fn put(&self, sink: &mut impl Sink) -> Result<(), NoRoom> {
        if let Some(backlog) = self.backlog {
            sink.put(attr::BACKLOG, &backlog.to_ne_bytes())?;
        }
        if let Some(mask) = self.random_priority {
            sink.put(attr::RANDOM_PRIORITY, &mask.to_ne_bytes())?;
        }
        if let Some(txtime) = self.txtime {
            sink.put(attr::TXTIME, &txtime.to_ne_bytes())?;
        }
        Ok(())
    }
}

/// A complete configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Packets that stay in the child.
    pub backlog: u32,
    /// Mask of pseudo-random priorities, 0: priorities are left alone.
    pub random_priority: u32,
    /// Transmit time, in ns after arrival; 0: none is set.
    pub txtime: u64,
}

impl Config {
    /// This configuration after a request; what is not said stays.
    #[must_use]
    pub fn updated(self, options: &Options) -> Self {
        Self {
            backlog: options.backlog.unwrap_or(self.backlog),
            random_priority: options.random_priority.unwrap_or(self.random_priority),
            txtime: options.txtime.unwrap_or(self.txtime),
        }
    }

    /// Writes all options.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the sink is full.
    pub fn put(&self, sink: &mut impl Sink) -> Result<(), NoRoom> {
        Options {
            backlog: Some(self.backlog),
            random_priority: Some(self.random_priority),
            txtime: Some(self.txtime),
        }
        .put(sink)
    }
}
