// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The pause that one port asks of its upstream neighbour.
//!
//! ```text
//!  wanted   told
//!  no       no      nothing to send
//!  yes      no      a pause is due at once
//!  yes      yes     the pause is repeated when half of its time is over
//!  no       yes     a resume is due at once
//! ```
//!
//! A pause that is no longer wanted before it was sent is not sent, and neither is a resume. The
//! standard has no acknowledgement: a lost pause is repeated after half of its time, and after a
//! lost resume the neighbour's pause ends by itself.
//!
//! A frame that could not be sent is tried again after a time that doubles: a pause for as long as
//! it is wanted, a resume until the neighbour's pause has ended by itself. A device can send
//! nothing, for example, while its qdiscs are replaced.

/// At once.
const AT_ONCE: u64 = 0;

/// The shortest time in ns after which a frame that could not be sent is tried again.
pub const MIN_RETRY: u64 = 10_000;

/// What to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// Pause for the time of the option.
    Pause,
    /// Resume.
    Resume,
}

/// The pause of one upstream neighbour.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pausing {
    wanted: bool,
    /// Whether the last frame was a pause, sent or not.
    told: bool,
    /// When to repeat a pause, ns.
    refresh_at: u64,
    /// When to send a resume, ns.
    resume_at: u64,
    /// When the neighbour's pause ends by itself, ns.
    ends_at: u64,
    /// ns after which the last frame, which could not be sent, is tried again; 0 if it was sent.
    wait: u64,
    /// The same for the previous frame.
    waited: u64,
}

impl Pausing {
    /// Not paused.
    pub const fn new() -> Self {
        Self {
            wanted: false,
            told: false,
            refresh_at: AT_ONCE,
            resume_at: AT_ONCE,
            ends_at: AT_ONCE,
            wait: 0,
            waited: 0,
        }
    }

    /// Whether the neighbour should be paused.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Sets whether the neighbour should be paused.
    #[inline]
    pub fn want(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    /// When to call [`tell`](Self::tell), in ns, if ever; 0 is at once.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        match (self.wanted, self.told) {
            (false, false) => None,
            (true, false) => Some(AT_ONCE),
            (true, true) => Some(self.refresh_at),
            (false, true) => Some(self.resume_at),
        }
    }

    /// What to send at `now` ns, if anything. `refresh`: ns between two pauses, half of a pause's
    /// time.
    pub fn tell(&mut self, refresh: u64, now: u64) -> Option<Tell> {
        if self.next().is_none_or(|at| at > now) {
            return None;
        }
        self.told = self.wanted;
        self.waited = core::mem::replace(&mut self.wait, 0);
        if !self.wanted {
            return Some(Tell::Resume);
        }
        self.refresh_at = now.saturating_add(refresh);
        self.ends_at = self.refresh_at.saturating_add(refresh);
        self.resume_at = AT_ONCE;
        Some(Tell::Pause)
    }

    /// What was returned last could not be sent, at `now` ns.
    pub fn unsent(&mut self, refresh: u64, now: u64) {
        let wait = self.waited.saturating_mul(2).max(MIN_RETRY);
        if self.told {
            self.wait = wait.min(refresh.max(MIN_RETRY));
            self.refresh_at = now.saturating_add(self.wait);
        } else if now < self.ends_at {
            self.wait = wait;
            self.told = true;
            self.resume_at = now.saturating_add(wait);
        }
    }
}
