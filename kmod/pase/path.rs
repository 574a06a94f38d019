// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The arbitrators of one half of a flow's path, asked from the bottom up, and early pruning.
//!
//! "We exploit the typical tree based data center topology features to make the arbitration
//! decisions in a bottom up fashion, starting from the endpoints and going up to the core" (§1):
//! decisions in a bottom up fashion, starting from the endpoints and going up to the core" (§1).
//! The sender's half and the receiver's are asked at the same time, each from its host's link to
//! the link below the root, or to the last one before both halves meet. So a flow within a rack
//! asks two arbitrators, both of them at hosts. The flow combines the answers of both halves
//! ([`Verdict::and`]).
//!
//! "Lower level arbitrators … can do early pruning by discarding flows that are unlikely to become
//! part of the top priority queue" (§1); "updates of only those flows are propagated that map to
//! the highest priority queues" (§4.3.1).
//!
//! # Choices that the paper leaves open
//!
//! - **A flow requests from the next link the rate that it got from the link below**, not its
//!   original demand: it cannot send more. On a tree whose flows all go to its root, each flow then
//!   gets the rate that strict priority over the whole tree would give it. With the original
//!   demand, flows that one link limits would count in full at all links above.
//! - **The lowest queue** from which a flow is sent further up is a setting, 1 for the top queue
//!   alone.
//! - **A pruned flow is withdrawn** from the links above that know it, with a message to each.
//!   Otherwise its demand would count there until its lifetime is over.
//! - Early pruning changes no reference rate: a flow that is not in the top queue has the base
//!   rate, and no demand at the links above. A pruned flow only does not learn of a lower queue
//!   there.

use super::{arbiter::Arbiter, Flow, Verdict, TOP};
use crate::common::store::Store;

/// The result of asking a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Climb {
    /// The verdict of the links that were asked.
    pub verdict: Verdict,
    /// How many links were asked.
    pub asked: u32,
    /// How many links above were informed that the flow no longer concerns them.
    pub withdrawn: u32,
}

/// A flow's request to the link above one with this answer; `None` if it is pruned, which happens
/// in any queue below `deepest` (at least [`TOP`]).
pub fn onward(flow: &Flow, answer: Verdict, deepest: u8) -> Option<Flow> {
    (answer.queue <= deepest.max(TOP)).then_some(Flow {
        demand: answer.rate,
        ..*flow
    })
}

/// A flow asks the links of a half, from its host's up.
pub fn climb<'a, S: Store + 'a>(
    half: impl IntoIterator<Item = &'a mut Arbiter<S>>,
    flow: &Flow,
    deepest: u8,
    now: u64,
) -> Climb {
    let mut climb = Climb {
        verdict: Verdict::FREE,
        asked: 0,
        withdrawn: 0,
    };
    let mut asks = Some(*flow);
    for link in half {
        match asks {
            Some(flow) => {
                let answer = link.update(&flow, now);
                climb.verdict = climb.verdict.and(answer);
                climb.asked = climb.asked.wrapping_add(1);
                asks = onward(&flow, answer, deepest);
            }
            None => {
                let withdrawn = u32::from(link.remove(flow.id));
                climb.withdrawn = climb.withdrawn.wrapping_add(withdrawn);
            }
        }
    }
    climb
}
