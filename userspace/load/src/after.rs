// SPDX-License-Identifier: MIT OR Apache-2.0

//! The order of flows that wait for others.

/// Flows that have to end before another begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct After {
    /// The first of them.
    pub first: u64,
    /// How many, at least 1.
    pub count: u64,
    /// From one of them to the next, at least 1.
    pub step: u64,
}

impl After {
    /// A single one.
    #[must_use]
    pub fn one(flow: u64) -> Self {
        Self {
            first: flow,
            count: 1,
            step: 1,
        }
    }

    /// All of them.
    pub fn flows(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |place| self.first + place * self.step)
    }

    /// Whether there are some, and all are before a flow.
    #[must_use]
    pub fn is_before(self, flow: u64) -> bool {
        let last = self.count.checked_sub(1);
        let last = last.and_then(|places| places.checked_mul(self.step));
        let last = last.and_then(|way| self.first.checked_add(way));
        last.is_some_and(|last| last < flow)
    }
}
