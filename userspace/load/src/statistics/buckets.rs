// SPDX-License-Identifier: MIT OR Apache-2.0

//! Size buckets of flows, as in the papers.

use std::fmt;

use crate::error::{Result, invalid};

/// Sizes above `above` bytes up to and including `up_to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Lower bound in bytes, excluded.
    pub above: u64,
    /// Upper bound in bytes, included. `None`: no upper bound.
    pub up_to: Option<u64>,
}

/// Adjacent buckets, and one of all sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets(Vec<Bucket>);

impl Bucket {
    /// One bucket of all sizes.
    pub const ALL: Self = Self {
        above: 0,
        up_to: None,
    };

    /// Whether a flow of `size` bytes belongs to the bucket.
    #[must_use]
    pub fn contains(&self, size: u64) -> bool {
        size > self.above && self.up_to.is_none_or(|up_to| size <= up_to)
    }
}

impl Buckets {
    /// Buckets that end at these sizes in bytes, one for larger sizes, and one for all.
    ///
    /// # Errors
    ///
    /// If the sizes do not increase from above 0.
    pub fn new(ends: &[u64]) -> Result<Self> {
        let mut buckets = Vec::with_capacity(ends.len() + 2);
        let mut above = 0;
        for &end in ends {
            if end <= above {
                return invalid(format!(
                    "size buckets end at {above} and then at {end}: expected sizes that increase"
                ));
            }
            let up_to = Some(end);
            buckets.push(Bucket { above, up_to });
            above = end;
        }
        if !ends.is_empty() {
            let up_to = None;
            buckets.push(Bucket { above, up_to });
        }
        buckets.push(Bucket::ALL);
        Ok(Self(buckets))
    }

    /// By increasing size, all sizes last.
    pub fn iter(&self) -> impl Iterator<Item = &Bucket> {
        self.0.iter()
    }
}

impl Default for Buckets {
    /// Up to 100 kB, 1 MB, 10 MB, above, and all.
    fn default() -> Self {
        const ENDS: [u64; 4] = [0, 100_000, 1_000_000, 10_000_000];
        let bucket = |index: usize| Bucket {
            above: ENDS[index],
            up_to: ENDS.get(index + 1).copied(),
        };
        Self((0..ENDS.len()).map(bucket).chain([Bucket::ALL]).collect())
    }
}

/// `1 MB`, or `1500 B` if no larger unit gives a whole number.
fn human(bytes: u64) -> (u64, &'static str) {
    [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")]
        .into_iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit))
        .map_or((bytes, "B"), |(unit, name)| (bytes / unit, name))
}

impl fmt::Display for Bucket {
    /// `0-100 kB`, `100 kB-1 MB`, `1-10 MB`, `>10 MB`, `all`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (above, above_unit) = human(self.above);
        let Some(up_to) = self.up_to else {
            return match above {
                0 => f.write_str("all"),
                _ => write!(f, ">{above} {above_unit}"),
            };
        };
        let (up_to, unit) = human(up_to);
        if above == 0 || above_unit == unit {
            write!(f, "{above}-{up_to} {unit}")
        } else {
            write!(f, "{above} {above_unit}-{up_to} {unit}")
        }
    }
}
