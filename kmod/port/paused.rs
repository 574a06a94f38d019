// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The pause of one port by its downstream neighbour.
//!
//! ```text
//!           pause                     pause: the time begins anew
//!  sending ───────▶ paused ◀──────────┐
//!     ▲  ▲            │  └────────────┘
//!     │  └── resume, or the time is over
//!     │               │ paused for the watchdog's time without interruption
//!     │               ▼
//!     └────────── released: sends, and ignores pauses
//!        resume, or the time of the last pause is over
//! ```
//!
//! # Watchdog
//!
//! A neighbour that is broken, or a cycle of pauses, may pause a port for ever. Switches have a
//! watchdog against that. Its two actions are to drop the packets of the paused priority, or to
//! forward them regardless of pauses; this one forwards. It ends when the pauses do.

/// The pause of one port.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paused {
    /// ns of uninterrupted pause after which pauses are ignored; 0 for never.
    watchdog: u64,
    /// When the pause began, ns.
    since: Option<u64>,
    /// When the last pause is over, ns.
    until: u64,
    /// Pauses are ignored until `until`.
    released: bool,
    paused_ns: u64,
    lapsed: u64,
    releases: u64,
    ignored: u64,
}

impl Paused {
    /// Sets the time in ns of uninterrupted pause after which pauses are ignored, from now on; 0
    /// for never.
    pub fn set_watchdog(&mut self, watchdog: u64) {
        self.watchdog = watchdog;
    }

    /// The neighbour pauses the port for `time` ns from `now` on; 0 resumes it. Returns whether
    /// the port may now send although it could not before.
    pub fn hear(&mut self, time: u64, now: u64) -> bool {
        self.lapse(now);
        if time == 0 {
            return self.forget(now);
        }
        self.until = now.saturating_add(time);
        if self.released {
            self.ignored = self.ignored.wrapping_add(1);
        } else if self.since.is_none() {
            self.since = Some(now);
        }
        false
    }

    /// Ends the pause at `now` ns: by a resume, or because the link is down. Returns whether there
    /// was one.
    pub fn forget(&mut self, now: u64) -> bool {
        self.lapse(now);
        self.released = false;
        self.until = now;
        let since = self.since.take();
        if let Some(since) = since {
            self.count(since, now);
        }
        since.is_some()
    }

    /// Whether the port is paused at `now` ns: until when, in ns, unless something changes
    /// earlier.
    #[inline]
    pub fn until(&mut self, now: u64) -> Option<u64> {
        self.since?;
        self.lapse(now);
        self.since.map(|since| self.end(since))
    }

    /// When a pause that began at a time ends by itself.
    fn end(&self, since: u64) -> u64 {
        match self.watchdog {
            0 => self.until,
            watchdog => self.until.min(since.saturating_add(watchdog)),
        }
    }

    /// Ends what has ended by `now` ns. A pause ended at its time, however late this runs.
    fn lapse(&mut self, now: u64) {
        if let Some(since) = self.since {
            let end = self.end(since);
            if end <= now {
                self.since = None;
                self.count(since, end);
                if end < self.until {
                    self.released = true;
                    self.releases = self.releases.wrapping_add(1);
                } else {
                    self.lapsed = self.lapsed.wrapping_add(1);
                }
            }
        }
        if self.until <= now {
            self.released = false;
        }
    }

    fn count(&mut self, since: u64, end: u64) {
        let time = end.saturating_sub(since);
        self.paused_ns = self.paused_ns.saturating_add(time);
    }

    /// ns for which the port has been paused, up to `now`.
    pub fn paused_ns(&mut self, now: u64) -> u64 {
        self.lapse(now);
        let current = self.since.map_or(0, |since| now.saturating_sub(since));
        self.paused_ns.saturating_add(current)
    }

    /// Pauses that ended because their time was over.
    pub fn lapsed(&self) -> u64 {
        self.lapsed
    }

    /// Pauses that the watchdog ended.
    pub fn releases(&self) -> u64 {
        self.releases
    }

    /// Pauses ignored since then.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }
}
