// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an arbiter is told when it starts.

use weft_mechanisms::fastpass::address::Addresses;

use crate::Lags;
use crate::fabric::Ways;

/// Ports below this one need a privilege.
pub const UNPRIVILEGED: u16 = 1024;

/// Who gets a timeslot first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Who has waited longest.
    MaxMin,
    /// Who needs the fewest.
    MinFct,
}

/// What an arbiter is told. Times in ns.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Who is which endpoint.
    pub addresses: Addresses,
    /// How many ways up the fabric has.
    pub ways: Ways,
    /// Who gets a timeslot first.
    pub policy: Policy,
    /// Classes of urgency, 1 to [`MAX_CLASSES`](crate::MAX_CLASSES): endpoints ask for streams.
    pub classes: u16,
    /// Timeslots that are allocated together.
    pub batch: usize,
    /// Length of a timeslot, not 0.
    pub timeslot: u64,
    /// How long before it begins a batch is allocated at least.
    pub lead: u64,
    /// Until what was not acknowledged is said again.
    pub timeout: u64,
    /// How much later packets of long ways are there.
    pub lags: Lags,
    /// The endpoint on whose host the arbiter is, if any: of its link it leaves what its own
    /// packets take.
    pub own: Option<u16>,
    /// Whether an endpoint's packets may come from ports that need no privilege.
    pub any_port: bool,
}
