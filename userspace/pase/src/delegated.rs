// SPDX-License-Identifier: MIT OR Apache-2.0

//! Trunks of several racks that are divided among them (§4.3.1: "higher-level arbitrators delegate some portion of
//! the bandwidth to lower level arbitrators"): each rack arbitrates its part, a virtual link, and no flow's message
//! goes to another rack of its pod.
//!
//! ```text
//!     leader's rack:  Delegation ──share──▶  each rack's virtual link
//!                         ▲────────report──────────┘
//! ```
//!
//! A period is a round of messages: each rack reports what its flows of the top queues ask for, the leader divides the
//! trunk by what was reported before, and says so. A share counts for a lifetime, as answers do, which is four periods; a
//! rack whose leader is not heard for longer has an equal part.

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
    /// The leader's last word, and until when it counts.
    pub(crate) rate: u64,
    pub(crate) until: u64,
    pub(crate) heard: Sequence,
}

/// A trunk's leader.
pub(crate) struct Divided {
    pub(crate) delegation: Delegation<Heap>,
    /// The racks, and what was heard of each.
    pub(crate) children: Vec<(usize, Sequence)>,
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
            until: 0,
            heard: Sequence::NONE,
        }
    }

    /// In bytes/s.
    pub(crate) fn now(&self, now: u64) -> u64 {
        if self.until > now {
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
            children: racks.map(|rack| (*rack, Sequence::NONE)).collect(),
        }
    }

    /// The number of a rack.
    pub(crate) fn child(&self, rack: usize) -> Option<usize> {
        self.children.iter().position(|(it, _)| *it == rack)
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
