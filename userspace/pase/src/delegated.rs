// SPDX-License-Identifier: MIT OR Apache-2.0

//! Delegation: a trunk of several racks is divided among them (§4.3.1: "higher-level arbitrators
//! delegate some portion of the bandwidth to lower level arbitrators"). Each rack arbitrates its
//! share as a virtual link, and no flow's message goes to another rack of its pod.
//!
//! ```text
//!     leader's rack:  Delegation ──share──▶  each rack's virtual link
//!                         ▲────────report──────────┘
//! ```
//!
//! A period is a round of messages: each rack reports the demand of its flows in the top queues,
//! and the leader divides the trunk by the previous reports and announces the shares. A share
//! counts for a lifetime, as answers do, which is four periods. A rack that has not received a
//! share for longer uses an equal part.

use std::collections::BTreeMap;

use weft_mechanisms::heap::Heap;
use weft_mechanisms::pase::delegation::Delegation;
use weft_mechanisms::pase::message::Sequence;

use crate::tree::{Half, Trunk};

/// A rack's share of a trunk.
pub(crate) struct Share {
    /// The rack that divides the trunk.
    pub(crate) leader: usize,
    /// This rack's number at the leader.
    pub(crate) child: u32,
    /// An equal part of the trunk, in bytes/s.
    pub(crate) equal: u64,
    /// The leader's last share.
    pub(crate) rate: u64,
    pub(crate) heard: Lasting,
}

/// The last message of a sender until it expires. After that any sequence number is new: sequence
/// numbers begin with the time of day, and a restarted sender's clock may have been ahead before.
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

    /// Notes a message that arrives at `now` and counts until `until`; returns whether it is new.
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

    /// Whether the last message still counts.
    fn counts(&self, now: u64) -> bool {
        self.until > now
    }
}

/// A rack's state at its leader.
pub(crate) struct Reporting {
    pub(crate) rack: usize,
    pub(crate) heard: Lasting,
}

/// A trunk at its leader.
pub(crate) struct Divided {
    pub(crate) delegation: Delegation<Heap>,
    /// The racks, by their numbers.
    pub(crate) children: Vec<Reporting>,
}

/// One rack's part in delegation, by the links' numbers in messages.
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

    /// The current share in bytes/s.
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

    /// The number of a rack at this leader.
    pub(crate) fn child(&self, rack: usize) -> Option<usize> {
        self.children.iter().position(|it| it.rack == rack)
    }
}

impl Delegated {
    /// The state of a rack: for each trunk that it shares with other racks, both halves.
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
