// SPDX-License-Identifier: MIT OR Apache-2.0

//! Flows that start when other flows end.

/// Flows that must end before another flow begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Predecessors {
    /// The first flow.
    pub first: u64,
    /// Number of flows, at least 1.
    pub count: u64,
    /// Difference of two successive flow numbers, at least 1.
    pub step: u64,
}

impl Predecessors {
    /// A single flow.
    #[must_use]
    pub fn one(flow: u64) -> Self {
        Self {
            first: flow,
            count: 1,
            step: 1,
        }
    }

    /// The numbers of all flows.
    pub fn flows(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |place| self.first + place * self.step)
    }

    /// Whether there is a flow, and all flows come before `flow`.
    #[must_use]
    pub fn is_before(self, flow: u64) -> bool {
        let last = self.count.checked_sub(1);
        let last = last.and_then(|places| places.checked_mul(self.step));
        let last = last.and_then(|way| self.first.checked_add(way));
        last.is_some_and(|last| last < flow)
    }
}
