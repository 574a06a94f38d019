// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! By which paths control packets go.
//!
//! They wait for no timeslot, and nobody gives them a path. Were it that of their flow's hash, a
//! link that fails would cut off some endpoints from the arbiter for as long as it does. So a
//! packet goes to an endpoint by the path by which the latest control packet came from there: the
//! ways of a path are the same in both directions, so that one that has just carried something is
//! good. Where what was said has not been answered for a while, it goes by any path, another one
//! each time, until an answer comes.
//!
//! Of the two ends it is the endpoint that asks again; the arbiter's host answers by the way on
//! which it was asked.

use crate::common::store::Store;

/// So many packets are sent without an answer by a path that was good: an acknowledgement is not
/// answered.
const UNANSWERED: u8 = 2;

/// What is known of the way to an endpoint.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// By which the latest packet came from there.
    path: Option<u8>,
    /// Packets sent there since.
    unanswered: u8,
    /// When the first of them was, ns.
    since: u64,
}

/// The ways to all endpoints.
pub struct Ways<S: Store>(S::Of<Way>);

impl<S: Store> Ways<S> {
    /// Of so many endpoints.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(count: usize) -> Result<Self, S::Error> {
        let way = Way {
            path: None,
            unanswered: 0,
            since: 0,
        };
        Ok(Self(S::allocate(count, || way)?))
    }

    /// A control packet has come from an endpoint, by a path.
    pub fn heard(&mut self, from: u16, path: u8) {
        if let Some(way) = self.0.get_mut(usize::from(from)) {
            way.path = Some(path);
            way.unanswered = 0;
        }
    }

    /// The path of a control packet to an endpoint, of so many paths; `patience` is how long an
    /// answer may take, in ns. `None` if there is no such endpoint, or no path.
    pub fn choose(
        &mut self,
        now: u64,
        to: u16,
        paths: u16,
        patience: u64,
        random: u32,
    ) -> Option<u8> {
        let way = self.0.get_mut(usize::from(to))?;
        let any = random.checked_rem(paths.into())?;
        if way.unanswered == 0 {
            way.since = now;
        }
        let is_silent =
            way.unanswered >= UNANSWERED && now.saturating_sub(way.since) > patience / 2;
        way.unanswered = way.unanswered.saturating_add(1);
        match way.path {
            Some(path) if !is_silent => Some(path),
            _ => u8::try_from(any).ok(),
        }
    }
}
