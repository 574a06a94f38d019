// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The criterion that orders flows: their remaining size, their deadline, or their task (§3.1:
//! "their priorities (e.g., deadline, flow-size)").
//!
//! Each criterion computes one number for a flow, its **urgency**: the lowest is first. So an
//! arbitrator compares numbers, and does not know their meaning.

/// The start of urgencies for flows without a deadline, or without a task.
const WITHOUT: u64 = 1 << 63;

/// The properties of a flow when it asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Bytes not yet acknowledged.
    pub remaining: u64,
    /// Whether `remaining` is the flow's declared rest; otherwise it counts the data written so
    /// far.
    pub sized: bool,
    /// The deadline, in ns of the clock that all flows use; 0: none.
    pub deadline: u64,
    /// The number of its task, higher for a later task; 0: none.
    pub task: u64,
}

/// The criterion that orders flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Criterion {
    /// The shortest remaining size first.
    #[default]
    Remaining,
    /// The earliest deadline first. After these come flows without a deadline, and flows that are
    /// already late and cannot meet theirs; by remaining size.
    Deadline,
    /// The oldest task first. After these come flows without a task, by remaining size.
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
