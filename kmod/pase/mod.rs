// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! PASE: arbitrators say in which of few queues a flow's packets wait, and at which rate it is to
//! begin; switches have priority queues; hosts adjust themselves from there.
//!
//! A. Munir, G. Baig, S. M. Irteza, I. A. Qazi, A. X. Liu, F. R. Dogar: "Friends, not Foes –
//! Synthesizing Existing Transport Strategies for Data Center Networks", SIGCOMM 2014. No code of
//! it was published.
//!
//! # Vocabulary
//!
//! - **arbitrator**: what decides for one link, in one direction.
//! - **queue**: `PrioQue`, 1 for the most urgent, the **top** queue, to the number of queues a port
//!   has, the **lowest**. Those between are **intermediate**.
//! - **demand**: the most that a flow can send, in bytes/s of what counts on its link.
//! - **ADH**: the demands of all flows more urgent than one, on its link.
//! - **reference rate**: `Rref`, at which a flow of the top queue begins. The **base rate** is one
//!   packet in each round-trip time: here a rate of 0, which every window law makes one packet of.
//! - **lifetime**: for how long an arbitrator knows a flow that does not ask again.
//! - **half**: of a flow's path, the links from the sender up to the root of the tree, or those
//!   from there down to the receiver.
//!
//! # Structure
//!
//! | file | what it is | source |
//! |---|---|---|
//! | [`arbiter`] | one link: flows in order, queue and reference rate of each | §3.1.1, Algorithm 1 |
//! | [`criterion`] | by what flows are ordered | §3.1 |
//! | [`path`] | the links of a half, from the bottom up; early pruning | §1, §3.1, §4.3.1 |
//! | [`delegation`] | a link divided among those below it | §1, §4.3.1 |
//! | [`message`] | what hosts and arbitrators tell each other | |
//! | [`local`] | the arbitrator of a host's own link | §1, §4.2.2 |
//! | [`global`] | what the others say to a host's flows | §4.2.2 |
//! | [`window`] | how many packets a flow may have in flight | §3.2, Algorithm 2 |
//! | [`guard`] | no packet overtakes another of its flow | §3.2 |
//! | [`probe`] | what a timeout sends | §3.2 |
//! | [`host`] | these three, of one flow | §3.2 |
//!
//! # What the paper leaves open, or says twice
//!
//! - **The queue** is ⌈ADH/C⌉ as printed, of which ADH = 0 makes 0, and there is no such queue; and
//!   ADH = C makes the top queue, for a flow that has no share in it ("if ADH < C" does not hold).
//!   As most flows' demand is C, that would be the second of any two: one packet in each round-trip
//!   time, in a queue whose window never adjusts itself, whatever the first one leaves. Here it is
//!   ⌊ADH/C⌋ + 1: the same wherever ADH is no multiple of C; the top queue is of those who have a
//!   share, ADH < C. On a rack of 10 hosts at 60 % load (200 flows of 100 to 500 kB, one seed) the
//!   mean slowdown was 2.82, with the printed one 3.78.
//! - **A link without capacity** (C = 0), as a virtual link may be before it has its first share:
//!   every flow is in its lowest queue with the base rate.
//! - **Ties** are broken by the flows' numbers, and so in the same way at each link.
//! - **Of several links** a flow takes the lowest queue and the least rate ("the source can pick
//!   the minimum rate", §3.1).
//! - **A flow that is late** for its deadline has lost it: it comes behind those that can make
//!   theirs.
//! - §3.1.2, which has pruning and delegation, is not in the text at hand; §1 and §4.3.1 say what
//!   they are. See [`path`] and [`delegation`] for what was filled in.

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

use arbiter::Link;

/// The largest rate or demand, in bytes/s: 70 Tbit/s.
pub const MAX_RATE: u64 = 1 << 43;

/// The queue of the most urgent flows.
pub const TOP: u8 = 1;

/// What a flow asks its arbitrators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its number: no other flow's.
    pub id: u64,
    /// How urgent it is: the lowest is first. See [`criterion`].
    pub urgency: u64,
    /// What it could send, in bytes/s, to [`MAX_RATE`]; what is beyond is taken for that.
    pub demand: u64,
}

/// What arbitrators answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// `PrioQue`, from [`TOP`].
    pub queue: u8,
    /// `Rref` in bytes/s; 0 is the base rate.
    pub rate: u64,
}

impl Verdict {
    /// Of a flow whose links have no other.
    pub const FREE: Self = Self {
        queue: TOP,
        rate: MAX_RATE,
    };

    /// Algorithm 1, step 2: of a flow with so much demand ahead of it.
    pub fn of(ahead: u64, demand: u64, link: &Link) -> Self {
        let lowest = link.queues.max(TOP);
        let queue = match ahead.checked_div(link.rate) {
            // To 255.
            Some(full) => full.saturating_add(TOP.into()).min(lowest.into()) as u8,
            None => lowest,
        };
        Self {
            queue,
            rate: link.rate.saturating_sub(ahead).min(demand),
        }
    }

    /// Of a flow that goes by both links, or both halves.
    pub fn and(self, other: Self) -> Self {
        Self {
            queue: self.queue.max(other.queue),
            rate: self.rate.min(other.rate),
        }
    }
}

/// A quotient rounded up; `None` for a division by 0. The standard library's checks for overflow
/// where there can be none.
fn ceil_div(number: u64, by: u64) -> Option<u64> {
    let quotient = number.checked_div(by)?;
    let exact = quotient.wrapping_mul(by) == number;
    Some(quotient.saturating_add(u64::from(!exact)))
}
