// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The paths of control packets.
//!
//! Control packets wait for no timeslot, so no path is assigned to them. If they took the path of
//! their flow's hash, a failed link would cut off some endpoints from the arbiter until it is
//! repaired. So a packet to an endpoint takes the path by which the latest control packet from
//! there came. The links of a path are the same in both directions, so a path that has just carried
//! a packet works. If packets have not been answered for a while, each further one takes a random
//! path until an answer comes.
//!
//! Of the two ends, the endpoint is the one that repeats its requests; the arbiter's host answers
//! by the path of the request.

use crate::common::store::Store;

/// The number of unanswered packets that a working path may have, because an acknowledgement is not
/// answered.
const UNANSWERED: u8 = 2;

/// The state of the path to an endpoint.
#[derive(Clone, Copy, Debug)]
struct ControlPath {
    /// The path by which the latest packet from there came.
    path: Option<u8>,
    /// Packets sent there since.
    unanswered: u8,
    /// When the first of them was sent, ns.
    since: u64,
}

/// The paths to all endpoints.
pub struct ControlPaths<S: Store>(S::Of<ControlPath>);

impl<S: Store> ControlPaths<S> {
    /// For this many endpoints.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(count: usize) -> Result<Self, S::Error> {
        let known = ControlPath {
            path: None,
            unanswered: 0,
            since: 0,
        };
        Ok(Self(S::allocate(count, || known)?))
    }

    /// A control packet has arrived from an endpoint, by a path.
    pub fn heard(&mut self, from: u16, path: u8) {
        if let Some(known) = self.0.get_mut(usize::from(from)) {
            known.path = Some(path);
            known.unanswered = 0;
        }
    }

    /// The path of a control packet to an endpoint, out of `paths`; `patience` is how long an
    /// answer may take, in ns. `None` if there is no such endpoint, or no path.
    pub fn choose(
        &mut self,
        now: u64,
        to: u16,
        paths: u16,
        patience: u64,
        random: u32,
    ) -> Option<u8> {
        let known = self.0.get_mut(usize::from(to))?;
        let any = random.checked_rem(paths.into())?;
        if known.unanswered == 0 {
            known.since = now;
        }
        let is_silent =
            known.unanswered >= UNANSWERED && now.saturating_sub(known.since) > patience / 2;
        known.unanswered = known.unanswered.saturating_add(1);
        match known.path {
            Some(path) if !is_silent => Some(path),
            _ => u8::try_from(any).ok(),
        }
    }
}
