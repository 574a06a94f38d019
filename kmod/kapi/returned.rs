// SPDX-License-Identifier: GPL-2.0-only

//! The hop records that acknowledgements bring back to a socket.
//!
//! An eBPF program (`ebpf/programs`, map `WEFT_TELEMETRY`) stores them in the socket's storage when
//! a packet arrives, before TCP sees the packet, see [`echo`](super::echo). The records that the
//! congestion control has seen last are kept there as well, because a flow's state has no room.

use core::mem::MaybeUninit;

use super::{
    bindings::{weft_sk_telemetry, weft_telemetry},
    socket::Socket,
};
use crate::common::records::Records;

/// The returned records of one socket.
#[derive(Clone, Copy)]
pub struct Returned {
    /// How many had come back at the last query; wraps.
    seen: u32,
}

/// Two successive sets of records.
pub struct Pair {
    /// The later one.
    pub now: Records,
    /// The earlier one.
    pub before: Records,
    /// Time in ns between their arrivals.
    pub elapsed: u64,
}

impl Returned {
    /// For a connection that is established: those that come back from now on.
    pub fn new(socket: &Socket<'_>) -> Self {
        let mut new = Self { seen: 0 };
        new.next(socket);
        new
    }

    /// How many had come back at the last query; wraps.
    pub fn count(&self) -> u32 {
        self.seen
    }

    /// The last records and those of the last call, if some have come back since. `None` also for
    /// the first ones.
    pub fn next(&mut self, socket: &Socket<'_>) -> Option<Pair> {
        let mut telemetry = MaybeUninit::<weft_telemetry>::zeroed();
        // SAFETY: Valid and locked (invariant of Socket); any bytes are a value of the structure,
        // and all-zero ones were there.
        let telemetry = unsafe {
            if !weft_sk_telemetry(socket.as_ptr(), self.seen, telemetry.as_mut_ptr()) {
                return None;
            }
            telemetry.assume_init_ref()
        };
        self.seen = telemetry.echoes;
        if telemetry.seen_at == 0 {
            return None;
        }
        Some(Pair {
            now: Records::from_block(&telemetry.echo),
            before: Records::from_block(&telemetry.seen),
            elapsed: telemetry.echo_at.saturating_sub(telemetry.seen_at),
        })
    }
}
