// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A link's capacity divided among the arbitrators below it.
//!
//! "Higher level arbitrators (those closer to the root) can delegate their arbitration decisions to
//! lower level arbitrators" (§1): "higher-level arbitrators delegate some portion of the bandwidth
//! to lower level arbitrators, which significantly reduces the control overhead on ToR-Aggregation
//! links" (§4.3.1). Each child then has its own [`Arbiter`](super::arbiter::Arbiter) for its part
//! of the parent's link: a **virtual link**. No flow's message goes to the parent.
//!
//! # Choices that the paper leaves open
//!
//! - **A child reports** the demand of the flows that reached its virtual link: those of its top
//!   queues, with the rates that they got below. **Periodically** the parent renews the shares in
//!   proportion to the reports.
//! - **One sixteenth of the capacity is divided equally**, so that a child that had nothing to send
//!   finds room for its first flow.
//! - **A report counts for three renewals**, so that a lost message does not remove a child's
//!   share, and a child that is gone does not keep it.
//! - If no child reports any demand, the whole capacity is divided equally.
//!
//! The shares never add up to more than the link's rate. Between two renewals they do not change,
//! and the urgency of flows of different children is not compared (§1: "at the cost of potentially
//! less accurate decisions").

use super::MAX_RATE;
use crate::common::store::Store;

/// The number of renewals for which a report counts.
const REPORT_COUNTS_FOR: u8 = 3;

/// The most children.
pub const MAX_CHILDREN: u32 = 1 << 12;

/// The part of the capacity that is divided equally is 1 / 2^this.
const EQUAL_SHIFT: u32 = 4;

/// A child's part is computed in 2^-20 of the capacity.
const PART_BITS: u32 = 20;

#[derive(Clone, Copy, Default)]
struct Child {
    /// The demand that it reported, in bytes/s.
    demand: u64,
    /// The number of further renewals for which that counts.
    counts_for: u8,
    /// The rate of its virtual link, in bytes/s.
    share: u64,
}

/// A parent's link.
pub struct Delegation<S: Store> {
    children: S::Of<Child>,
    rate: u64,
}

impl<S: Store> Delegation<S> {
    /// A link with this rate in bytes/s (to [`MAX_RATE`]) and this many children (to
    /// [`MAX_CHILDREN`]), all of which have equal shares.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(children: u32, rate: u64) -> Result<Self, S::Error> {
        let children = children.min(MAX_CHILDREN) as usize;
        let mut new = Self {
            children: S::allocate(children, Child::default)?,
            rate: rate.min(MAX_RATE),
        };
        new.renew();
        Ok(new)
    }

    /// The rate of a child's virtual link, in bytes/s.
    pub fn share(&self, child: u32) -> Option<u64> {
        Some(self.children.get(child as usize)?.share)
    }

    /// Stores a child's report of its top queues' demand, in bytes/s. Returns whether the child
    /// exists.
    pub fn report(&mut self, child: u32, demand: u64) -> bool {
        let Some(child) = self.children.get_mut(child as usize) else {
            return false;
        };
        child.demand = demand.min(MAX_RATE);
        child.counts_for = REPORT_COUNTS_FOR;
        true
    }

    /// A period is over: divides the capacity anew.
    pub fn renew(&mut self) {
        let count = (self.children.len() as u64).max(1);
        let mut total = 0_u64;
        for child in self.children.iter_mut() {
            match child.counts_for.checked_sub(1) {
                Some(more) => child.counts_for = more,
                None => child.demand = 0,
            }
            // At most MAX_CHILDREN times MAX_RATE, 2^55.
            total = total.wrapping_add(child.demand);
        }
        let equally = if total == 0 {
            self.rate
        } else {
            self.rate >> EQUAL_SHIFT
        };
        let by_demand = self.rate.wrapping_sub(equally);
        let equally = equally.checked_div(count).unwrap_or(0);
        for child in self.children.iter_mut() {
            // Both products are below 2^64: rates are at most 2^43, and no child's demand exceeds
            // the total.
            let scaled = child.demand.wrapping_shl(PART_BITS).checked_div(total);
            let part = by_demand.wrapping_mul(scaled.unwrap_or(0)) >> PART_BITS;
            child.share = equally.wrapping_add(part);
        }
    }
}
