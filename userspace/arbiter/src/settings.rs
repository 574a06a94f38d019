// SPDX-License-Identifier: MIT OR Apache-2.0

//! The settings of an arbiter.

use weft_mechanisms::fastpass::address::Addresses;

use crate::Lags;
use crate::fabric::Ways;

/// Ports below this one require a privilege.
pub const UNPRIVILEGED: u16 = 1024;

/// Which pair gets a timeslot first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The pair that has waited longest.
    MaxMin,
    /// The pair that needs the fewest.
    MinFct,
}

/// The settings of an arbiter. Times in ns.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The addresses of the endpoints.
    pub addresses: Addresses,
    /// The number of ways up in the fabric.
    pub ways: Ways,
    /// Which pair gets a timeslot first.
    pub policy: Policy,
    /// Classes of urgency, 1 to [`MAX_CLASSES`](crate::MAX_CLASSES): endpoints request timeslots
    /// for streams.
    pub classes: u16,
    /// Timeslots that are allocated together.
    pub batch: usize,
    /// Length of a timeslot, not 0.
    pub timeslot: u64,
    /// The shortest time between a batch's allocation and its beginning.
    pub lead: u64,
    /// How long an ALLOC takes to the farthest endpoint at most, once the arbiter's link is free. A
    /// timeslot that begins later can be given to a request that comes after its batch was
    /// allocated.
    pub travel: u64,
    /// The most timeslots that are allocated ahead of the lead while no request has to wait, at
    /// most [`MAX_AHEAD`](crate::MAX_AHEAD); 0: none.
    pub ahead: u64,
    /// How long to wait for an acknowledgement before a message is repeated.
    pub timeout: u64,
    /// How much later packets on longer paths arrive.
    pub lags: Lags,
    /// The endpoint on whose host the arbiter is, if any: it keeps timeslots of its link free for
    /// its own packets.
    pub own: Option<u16>,
    /// Whether an endpoint's packets may come from unprivileged ports.
    pub any_port: bool,
}
