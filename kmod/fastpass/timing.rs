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
//!   of its link. With few endpoints 8 would serve them sooner, and take twice the bytes: 2.4 % of
//!   a fabric's at 60 % load with web-search flows.
//! - **interval**: a batch. A host that asks for more of the same more often gets no answer sooner,
//!   because there is one answer per batch. The first packet of a burst may get a leftover at once,
//!   so its request waits for a quarter of the interval.
//! - **lead**: the time that a full frame takes to the farthest endpoint on an idle fabric, and
//!   `n / 8` timeslots. A datagram is shorter than a full frame, but may have to wait for one at
//!   each hop; the last of a batch's datagrams leaves the arbiter `n / 10` timeslots after the
//!   first. Where a processor's work at both ends takes longer than the links, as on real machines,
//!   the lead has to be set: the paper's is 65 µs (§5.1).
//! - **leftovers**: a request gets timeslots before the next batch at once, if its stream is owed
//!   nothing. They begin no earlier than a full frame takes to the farthest endpoint once the
//!   arbiter's link is free, so a batch's datagrams that leave first delay them. They make
//!   up to one more datagram for each request, which the arbiter's link has room for as long as
//!   hosts ask once in an interval on average.
//!
//! While no request has to wait, batches may be allocated earlier than that, and a datagram then
//! carries more of them (`ahead.rs` of the arbiter).
//!
//! With links of 10 Gbit/s and 200 ns and timeslots of 1.27 µs:
//!
//! | endpoints | links | batch, interval | lead |
//! |---|---|---|---|
//! | 16, a fat-tree | 6 | 16 timeslots, 20 µs | 8.6 µs and 2 timeslots: 11 µs |
//! | 144, a leaf-spine fabric | 4 | 28 timeslots, 36 µs | 5.7 µs and 18 timeslots: 29 µs |
//! | 256, four leaves | 4 | 51 timeslots, 65 µs | 5.7 µs and 32 timeslots: 46 µs |

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

/// Timeslots of a lead, besides the time to the farthest endpoint.
pub const fn lead(endpoints: u32) -> u64 {
    endpoints as u64 / 8
}

/// Timeslots for the way to the farthest endpoint where its time is not stated: six links of a
/// fat-tree, and some for a processor's work at both ends.
pub const TRAVEL: u64 = 12;
