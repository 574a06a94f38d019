// SPDX-License-Identifier: MIT OR Apache-2.0

//! Trunks of several racks that are divided among them (§4.3.1: "higher-level arbitrators delegate
//! some portion of the bandwidth to lower level arbitrators"): each rack arbitrates its part, a
//! virtual link, and no flow's message goes to another rack of its pod.
//!
//! ```text
//!     leader's rack:  Delegation ──share──▶  each rack's virtual link
//!                         ▲────────report──────────┘
//! ```
//!
//! A period is a round of messages: each rack reports what its flows of the top queues ask for, the
//! leader divides the trunk by what was reported before, and says so. A share counts for a
//! lifetime, as answers do, which is four periods; a rack whose leader is not heard for longer has
//! an equal part.

use std::collections::BTreeMap;

use weft_mechanisms::heap::Heap;
use weft_mechanisms::pase::delegation::Delegation;
use weft_mechanisms::pase::message::Sequence;

use crate::tree::{Half, Trunk};

/// A trunk's rack.
pub(crate) struct Share {
    /// Who divides it.
    pub(crate) leader: usize,
    /// This rack's number there.
    pub(crate) child: u32,
    /// An equal part, in bytes/s.
    pub(crate) equal: u64,
    /// The leader's last word.
    pub(crate) rate: u64,
    pub(crate) heard: Lasting,
}

/// The last word of somebody, for as long as it counts. Then anything is news: numbers begin with
/// the time of day, and who begins anew may have had a clock that went ahead.
pub(crate) struct Lasting {
    last: Sequence,
    /// In ns.
    until: u64,
}

impl Lasting {
    const NONE: Self = Self {
        last: Sequence::NONE,
        until: 0,
    };

    /// Notes a word that comes at `now` and would count `until` then; whether it is news.
    pub(crate) fn is_news(&mut self, sequence: u64, now: u64, until: u64) -> bool {
        if !self.counts(now) {
            self.last = Sequence::NONE;
        }
        let is_news = self.last.is_news(sequence);
        if is_news {
            self.until = until;
        }
        is_news
    }

    /// Whether the last word counts.
    fn counts(&self, now: u64) -> bool {
        self.until > now
    }
}

/// A rack that has a part of a trunk, as the leader knows it.
pub(crate) struct Reporting {
    pub(crate) rack: usize,
    pub(crate) heard: Lasting,
}

/// A trunk's leader.
pub(crate) struct Divided {
    pub(crate) delegation: Delegation<Heap>,
    /// By their numbers.
    pub(crate) children: Vec<Reporting>,
}

/// One rack's part in all of that, by the links' numbers in messages.
#[derive(Default)]
pub(crate) struct Delegated {
    pub(crate) shares: BTreeMap<u32, Share>,
    pub(crate) divided: BTreeMap<u32, Divided>,
}

impl Share {
    pub(crate) fn new(trunk: &Trunk, rack: usize) -> Self {
        let child = trunk.racks.iter().position(|it| *it == rack);
        let equal = trunk.rate / trunk.racks.len().max(1) as u64;
        Self {
            leader: trunk.leader(),
            child: child.unwrap_or(0) as u32,
            equal,
            rate: equal,
            heard: Lasting::NONE,
        }
    }

    /// In bytes/s.
    pub(crate) fn now(&self, now: u64) -> u64 {
        if self.heard.counts(now) {
            self.rate
        } else {
            self.equal
        }
    }
}

impl Divided {
    pub(crate) fn new(trunk: &Trunk) -> Self {
        let racks = trunk.racks.iter();
        let Ok(delegation) = Delegation::new(trunk.racks.len() as u32, trunk.rate);
        Self {
            delegation,
            children: racks
                .map(|&rack| Reporting {
                    rack,
                    heard: Lasting::NONE,
                })
                .collect(),
        }
    }

    /// The number of a rack.
    pub(crate) fn child(&self, rack: usize) -> Option<usize> {
        self.children.iter().position(|it| it.rack == rack)
    }
}

impl Delegated {
    /// A rack's: of each of its trunks that it shares with others, both halves.
    pub(crate) fn of(trunks: &[Trunk], rack: usize, number: impl Fn(usize, Half) -> u32) -> Self {
        let mut new = Self::default();
        for (place, trunk) in trunks.iter().enumerate() {
            if trunk.racks.len() < 2 {
                continue;
            }
            for half in [Half::Up, Half::Down] {
                let number = number(place + 1, half);
                new.shares.insert(number, Share::new(trunk, rack));
                if trunk.leader() == rack {
                    new.divided.insert(number, Divided::new(trunk));
                }
            }
        }
        new
    }
}
