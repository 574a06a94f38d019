// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! By what flows are ordered: their remaining size, their deadline, or their task (§3.1: "their
//! priorities (e.g., deadline, flow-size)").
//!
//! Each makes of a flow one number, its **urgency**: the lowest is first. So an arbitrator compares
//! numbers, and knows nothing of what they mean.

/// Behind all flows that have a deadline, or a task.
const WITHOUT: u64 = 1 << 63;

/// What is known of a flow when it asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Bytes that are not yet acknowledged.
    pub remaining: u64,
    /// Whether these are all that will come; else what has been written so far.
    pub sized: bool,
    /// When it is to be done, in ns of the clock that all flows go by; 0: it has no deadline.
    pub deadline: u64,
    /// The number of its task, higher for one that began later; 0: it is of none.
    pub task: u64,
}

/// By what flows are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Criterion {
    /// The shortest remaining size first.
    #[default]
    Remaining,
    /// The earliest deadline first. Behind these come flows without one, and those that are late
    /// already, which cannot make it; by remaining size.
    Deadline,
    /// The task that began first. Behind these, flows of no task, by remaining size.
    Task,
}

impl Criterion {
    /// A flow's urgency at a time.
    pub fn urgency(self, about: &About, now: u64) -> u64 {
        let without = WITHOUT | about.remaining.min(WITHOUT.wrapping_sub(1));
        match self {
            Self::Remaining => about.remaining,
            Self::Deadline if about.deadline > now => about.deadline.min(WITHOUT.wrapping_sub(1)),
            Self::Task if about.task != 0 => about.task.min(WITHOUT.wrapping_sub(1)),
            Self::Deadline | Self::Task => without,
        }
    }
}
