// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! How often endpoints and the arbiter communicate, by the number of endpoints: one rule for all
//! fabrics.
//!
//! # The rule
//!
//! A datagram of the control protocol takes about a tenth of a timeslot on a link: 150 bytes. For
//! each batch the arbiter sends one to each of the `n` endpoints that were given timeslots, and
//! receives one from each.
//!
//! - **batch**: `n / 5` timeslots, and at least 16. The arbiter's datagrams then take at most half
//!   of its link.
//! - **interval**: a batch. A host that asks more often gets no answer sooner, because there is one
//!   answer per batch.
//! - **lead**: `12 + n / 8` timeslots. The last of a batch's datagrams leaves the arbiter `n / 10`
//!   timeslots after the first. Twelve timeslots cover five hops, a processor's work at both ends
//!   and a host's own queue.
//!
//! | endpoints | batch, interval | lead | at 1.27 µs a timeslot |
//! |---|---|---|---|
//! | 16  | 16 | 14 | 20 µs, 18 µs |
//! | 144 | 28 | 30 | 36 µs, 38 µs |
//! | 256 | 51 | 44 | 65 µs, 56 µs; the paper's lead is 65 µs (§5.1) |

/// The fewest timeslots in a batch.
const LEAST_BATCH: u64 = 16;

/// Timeslots of a batch, and between two requests of a host.
pub const fn batch(endpoints: u32) -> u64 {
    let batch = endpoints as u64 / 5;
    if batch < LEAST_BATCH {
        return LEAST_BATCH;
    }
    batch
}

/// Timeslots between the time at which a batch is allocated and its first timeslot.
pub const fn lead(endpoints: u32) -> u64 {
    12_u64.wrapping_add(endpoints as u64 / 8)
}
