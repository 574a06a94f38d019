// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! What the downstream neighbour wants paused, and whether it is the neighbour who says so.
//!
//! ```text
//!  unknown ── any frame ──▶ known: its address, its last sequence number, what it wants paused
//!     ▲                        │  another address: foreign, ignored
//!     └── the link goes down ──┤  a sequence number no higher than the last: replayed, ignored
//!                              └─ nothing heard for the hold time: all pauses lapse
//! ```
//!
//! "Because fiber packets can be corrupted in flight, BFC ensures that pause and resume state is
//! maintained idempotently, in a manner resilient to packet loss" (§3.3). A pause is obeyed for as
//! long as its sender said with the last frame it sent, whatever that frame was about: the sender
//! repeats the whole state more often than that, so a neighbour that is silent is dead, and a dead
//! neighbour never blocks a queue for good.
//!
//! Whoever speaks first on a link is the neighbour until the link goes down. On a link there is
//! nobody else: what could come from farther away is kept out by the frame's address, which no
//! bridge forwards.

use super::ingress::Tell;
use super::queue_set::QueueSet;

/// A frame that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Its sender's hardware address.
    pub from: [u8; 6],
    /// Rises with each frame of a sender, also over its restarts.
    pub sequence: u64,
    /// For how long it holds, in ns.
    pub hold: u64,
    /// What it says.
    pub tell: Tell,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Obeyed; `changed`: what is to be paused is no longer the same.
    Taken {
        /// Whether the port has something to do.
        changed: bool,
    },
    /// Ignored: not the neighbour's.
    Foreign,
    /// Ignored: a frame of the neighbour that was received before, or was overtaken by a later one.
    Replayed,
}

/// The longest time for which a frame is obeyed, in ns: 60 s.
pub const MAX_HOLD: u64 = 60_000_000_000;

/// The downstream neighbour of one port.
#[derive(Clone, Debug)]
pub struct Neighbour {
    address: Option<[u8; 6]>,
    sequence: u64,
    paused: QueueSet,
    /// When the pauses lapse, ns; means something only where there is one.
    until: u64,
    /// Changes with `paused`.
    version: u32,
    lapsed: u64,
}

impl Neighbour {
    /// Nobody, who wants nothing paused.
    pub const fn new() -> Self {
        Self {
            address: None,
            sequence: 0,
            paused: QueueSet::EMPTY,
            until: 0,
            version: 0,
            lapsed: 0,
        }
    }

    /// Takes in a frame at `now` ns.
    pub fn hear(&mut self, heard: &Heard, now: u64) -> Verdict {
        match self.address {
            None => self.address = Some(heard.from),
            Some(address) if address != heard.from => return Verdict::Foreign,
            Some(_) if heard.sequence <= self.sequence => return Verdict::Replayed,
            Some(_) => {}
        }
        let before = self.version;
        self.lapse(now);
        self.sequence = heard.sequence;
        self.until = now.saturating_add(heard.hold.min(MAX_HOLD));
        match heard.tell {
            Tell::Pause(queue) if !self.paused.contains(queue) => {
                self.paused.insert(queue);
                self.changed();
            }
            Tell::Resume(queue) if self.paused.contains(queue) => {
                self.paused.remove(queue);
                self.changed();
            }
            Tell::State(state) if state != self.paused => {
                self.paused = state;
                self.changed();
            }
            _ => {}
        }
        Verdict::Taken {
            changed: self.version != before,
        }
    }

    /// Forgets who it is and what is paused: the link is down.
    pub fn forget(&mut self) {
        self.address = None;
        self.sequence = 0;
        self.clear();
    }

    /// Ends the pauses that were not refreshed until `now` ns.
    #[inline]
    pub fn lapse(&mut self, now: u64) {
        if !self.paused.is_empty() && self.until <= now {
            self.lapsed = self.lapsed.wrapping_add(self.paused.count().into());
            self.clear();
        }
    }

    fn clear(&mut self) {
        if !self.paused.is_empty() {
            self.paused = QueueSet::EMPTY;
            self.changed();
        }
    }

    fn changed(&mut self) {
        self.version = self.version.wrapping_add(1);
    }

    /// The queues that are to be paused.
    #[inline]
    pub fn paused(&self) -> &QueueSet {
        &self.paused
    }

    /// Changes whenever the queues that are to be paused do.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// When the pauses lapse, in ns, if there are any.
    #[inline]
    pub fn until(&self) -> Option<u64> {
        (!self.paused.is_empty()).then_some(self.until)
    }

    /// Pauses that have lapsed so far.
    pub fn lapsed(&self) -> u64 {
        self.lapsed
    }
}

impl Default for Neighbour {
    fn default() -> Self {
        Self::new()
    }
}
