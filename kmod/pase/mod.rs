// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! PASE: arbitrators decide in which of a few queues a flow's packets wait, and at which rate the
//! flow starts; switches have priority queues; hosts adjust their rates from there.
//!
//! A. Munir, G. Baig, S. M. Irteza, I. A. Qazi, A. X. Liu, F. R. Dogar: "Friends, not Foes –
//! Synthesizing Existing Transport Strategies for Data Center Networks", SIGCOMM 2014. The authors
//! published no code.
//!
//! # Vocabulary
//!
//! - **arbitrator**: decides for one link, in one direction.
//! - **queue**: `PrioQue`, from 1 for the most urgent, the **top** queue, to a port's number of
//!   queues, the **lowest**. The queues in between are **intermediate**.
//! - **demand**: the most that a flow can send, in bytes/s as they count on its link.
//! - **ADH**: the demands of all flows more urgent than a given one, on its link.
//! - **reference rate**: `Rref`, at which a flow of the top queue begins. The **base rate** is one
//!   packet in each round-trip time: here a rate of 0, which every window law turns into one
//!   packet.
//! - **lifetime**: how long an arbitrator stores a flow that does not ask again.
//! - **half**: the links of a flow's path from the sender up to the root of the tree, or the links
//!   from there down to the receiver.
//!
//! # Structure
//!
//! | file | contents | source |
//! |---|---|---|
//! | [`arbiter`] | one link: flows in order, queue and reference rate of each | §3.1.1, Algorithm 1 |
//! | [`criterion`] | the criterion that orders flows | §3.1 |
//! | [`path`] | the links of a half, from the bottom up; early pruning | §1, §3.1, §4.3.1 |
//! | [`delegation`] | a link divided among those below it | §1, §4.3.1 |
//! | [`message`] | the messages of hosts and arbitrators | |
//! | [`local`] | the arbitrator of a host's own link | §1, §4.2.2 |
//! | [`global`] | the verdicts of the other arbitrators on a host's flows | §4.2.2 |
//! | [`window`] | how many packets a flow may have in flight | §3.2, Algorithm 2 |
//! | [`guard`] | no packet overtakes another of its flow | §3.2 |
//! | [`probe`] | the packet that a timeout sends | §3.2 |
//! | [`host`] | these three combined, for one flow | §3.2 |
//!
//! # Points that the paper leaves open, or contradicts itself on
//!
//! - **The queue** is printed as ⌈ADH/C⌉. For ADH = 0 this gives 0, which is not a queue. For ADH =
//!   C it gives the top queue, to a flow that has no share in it ("if ADH < C" does not hold). As
//!   most flows' demand is C, that flow would be the second of any two: it would send one packet in
//!   each round-trip time, in a queue whose window never adjusts itself, whatever the first one
//!   leaves. Here the queue is ⌊ADH/C⌋ + 1. This is the same wherever ADH is not a multiple of C,
//!   and the top queue is for flows with a share, ADH < C. On a rack of 10 hosts at 60 % load (200
//!   flows of 100 to 500 kB, one seed) the mean slowdown was 2.82, and 3.78 with the printed
//!   formula.
//! - **A link without capacity** (C = 0), such as a virtual link before it has its first share:
//!   every flow is in its lowest queue with the base rate.
//! - **Ties** are broken by the flows' numbers, and so in the same way at each link.
//! - **Of several links** a flow takes the lowest queue and the lowest rate ("the source can pick
//!   the minimum rate", §3.1).
//! - **A flow that is late** has lost its deadline: it comes after flows that can meet theirs.
//! - §3.1.2, about pruning and delegation, was not available; §1 and §4.3.1 define them. See
//!   [`path`] and [`delegation`] for our choices.

pub mod arbiter;
pub mod criterion;
pub mod delegation;
pub mod global;
pub mod guard;
pub mod host;
pub mod local;
pub mod message;
pub mod path;
pub mod probe;
pub mod window;

#[cfg(test)]
mod tests;

use crate::common::mechanism::OneClock;
use arbiter::Link;

crate::congestion_control!("pase", one_clock: Some(OneClock {
    // Flows of several hosts are ordered by their deadlines, which each host states by its clock.
    applies: |setting| {
        // Without the setting no arbitrator is asked.
        setting("criterion") == Some("1") && setting("ask_queues").is_some_and(|queues| queues != "0")
    },
    sentence: "PASE's arbitrators compare deadlines (criterion=1), which are times of each machine's own clock: on several \
               machines order flows by their size (criterion=0), or leave them to their host's own arbitrator (ask_queues=0, \
               as the scheme pase-local does)",
}));

/// The largest rate or demand, in bytes/s: 70 Tbit/s.
pub const MAX_RATE: u64 = 1 << 43;

/// The queue of the most urgent flows.
pub const TOP: u8 = 1;

/// A flow's request to its arbitrators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its number, different from all other flows'.
    pub id: u64,
    /// Its urgency: the lowest is first. See [`criterion`].
    pub urgency: u64,
    /// The rate that it could use, in bytes/s, to [`MAX_RATE`]; higher values are clamped.
    pub demand: u64,
}

/// The arbitrators' answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// `PrioQue`, from [`TOP`].
    pub queue: u8,
    /// `Rref` in bytes/s; 0 is the base rate.
    pub rate: u64,
}

impl Verdict {
    /// The verdict on a flow that is alone on its links.
    pub const FREE: Self = Self {
        queue: TOP,
        rate: MAX_RATE,
    };

    /// Algorithm 1, step 2: the verdict on a flow with this demand ahead of it.
    pub fn of(ahead: u64, demand: u64, link: &Link) -> Self {
        let lowest = link.queues.max(TOP);
        let queue = match ahead.checked_div(link.rate) {
            // At most 255.
            Some(full) => full.saturating_add(TOP.into()).min(lowest.into()) as u8,
            None => lowest,
        };
        Self {
            queue,
            rate: link.rate.saturating_sub(ahead).min(demand),
        }
    }

    /// The verdict on a flow that uses both links, or both halves.
    pub fn and(self, other: Self) -> Self {
        Self {
            queue: self.queue.max(other.queue),
            rate: self.rate.min(other.rate),
        }
    }
}

/// A quotient rounded up; `None` for a division by 0. Unlike the standard library's, it has no
/// overflow checks, which are not needed here.
fn ceil_div(number: u64, by: u64) -> Option<u64> {
    let quotient = number.checked_div(by)?;
    let exact = quotient.wrapping_mul(by) == number;
    Some(quotient.saturating_add(u64::from(!exact)))
}
