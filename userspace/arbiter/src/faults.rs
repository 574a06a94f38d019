// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which link or switch it is that loses packets (§5.2).
//!
//! "Sporadic packet losses due to bit flips in the physical layer still occur, but persistent,
//! correlated packet loss is almost surely due to component failure. […] Endpoints report packet
//! drops to this fault isolation service, which correlates reports from multiple endpoints to
//! identify the malfunctioning component. The faulty component is then reported to the arbiter,
//! which avoids scheduling traffic through the component until the fault is cleared."
//!
//! # What is known
//!
//! Of each pair of endpoints and each path, a **cell**: how many packets the sender has sent, and
//! how many of these did not come, by totals that both say
//! ([`ledger`](weft_mechanisms::fastpass::ledger)). A sample of the sender's is compared with a
//! report of the receiver's whose time is later by what packets may be under way.
//!
//! # When somebody decides
//!
//! The first loss begins a **trial**. Until then nothing is remembered but totals. A cell is
//! **lossy** if in a trial it lost [`FEW`] packets and a hundredth. From the first lossy one on it
//! is gathered what is not lost: what came through before says nothing of what has failed since.
//! When all reports have come that may tell of it, the trial is judged; and again later, if more is
//! lost. It is over when something was found, or it has become too long to tell what is new.
//!
//! # Who is to blame
//!
//! A component **explains** the lossy cells that come by it, and has four against it for every
//! [`FEW`] packets that cells without any loss had lost on it at the rate of the lossy ones. Who
//! explains most is to blame (after SCORE, R. Kompella et al., NSDI 2005); where several explain
//! the same, the one of the fewest paths, as no report tells them apart. A link is judged in each
//! direction and in both; it is avoided in both.
//!
//! **The word of one endpoint does not suffice**: a component is to blame only if no single
//! endpoint is an end of all the lossy cells that it explains. An endpoint can tell of cells only
//! of which it is an end, so that a liar blames nobody but its own link, which is nobody else's and
//! is not avoided. Two that lie together can: what they can close is bounded by this, that every
//! pair of endpoints keeps a path. What only one endpoint comes by, or is hit by, is not found.
//!
//! # Until the fault is cleared
//!
//! What was found is avoided until somebody says that it is repaired ([`Faults::clear`]). If it is
//! not it is found again.

use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;

use weft_mechanisms::fastpass::frame::Entry;

pub use crate::evidence::FEW;
use crate::evidence::{Evidence, Key, Verdict};
use crate::fabric::{Component, Fabric};

/// Cells that are known at most, and those of one sender: who says that it has sent by all paths to
/// all leaves room for others.
const MOST: usize = 1 << 20;
const MOST_OF_ONE: u32 = 1 << 16;

/// Cells from which on such are forgotten as were not compared for a while.
const MANY: usize = 1 << 15;

/// That while, in trials. A trial takes 20 at most: it has nothing to do with what is forgotten.
const IDLE: u64 = 32;

/// Cells that are looked at for that with each that is reported.
const SWEPT: usize = 4;

/// What an inquiry may cost at a time, in suspects looked at: some 25 us, which is less than an
/// arbiter may be late.
const COST: usize = 2048;

/// What is known of a pair of endpoints, by a path. Totals are modulo 2^16.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// Of the sessions of both ends.
    sessions: (u32, u32),
    /// The sender's oldest total that was not compared yet, and when it was true.
    sample: Option<(u64, u16)>,
    /// What was compared last.
    base: Option<Base>,
    /// When the arbiter compared it last, or heard of it first.
    compared_at: u64,
    /// The trial of which the following is.
    trial: u64,
    sent: u64,
    lost: u64,
    /// Packets sent since the first cell was lossy, in the time of which nothing was lost.
    clean: u64,
    /// Its place in the evidence, if it was lossy.
    place: Option<u32>,
}

impl Cell {
    fn is_lossy(&self) -> bool {
        self.lost >= FEW && self.lost * 100 >= self.sent
    }

    /// Packets that speak against it that what they came by is faulty.
    fn innocent(&self) -> u64 {
        match self.lost {
            0 => self.clean,
            _ => 0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Base {
    at: u64,
    sent: u16,
    lost: u16,
}

/// The time since the first loss.
#[derive(Clone, Copy, Debug)]
struct Trial {
    began: u64,
    lossy: Option<Lossy>,
    /// Whether something was lost that has not been judged.
    has_news: bool,
    judged: Option<u64>,
}

/// The time since the first cell was lossy.
#[derive(Clone, Copy, Debug)]
struct Lossy {
    /// It had lost what it had before then, by its sender's clock.
    onset: u64,
    /// When that was reported.
    since: u64,
}

impl Trial {
    /// When it is to be judged, if ever; `shortest` is how long it takes at least.
    fn judge_at(&self, shortest: u64) -> Option<u64> {
        let lossy = self.lossy.filter(|_| self.has_news)?;
        let last = self.judged.unwrap_or(lossy.since);
        Some(last + shortest)
    }

    fn is_over(&self, now: u64, shortest: u64) -> bool {
        match self.lossy {
            None => now > self.began + 4 * shortest,
            Some(lossy) => now > lossy.since + 16 * shortest,
        }
    }
}

/// A component that was found to be faulty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which it is.
    pub component: Component,
    /// Whether packets can do without it.
    pub is_avoided: bool,
    /// When the arbiter first heard of persistent loss, in ns.
    pub suspected_ns: u64,
    /// When it was found, in ns.
    pub found_ns: u64,
}

/// What time all takes, in ns.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Packets are under way so long at most.
    pub settle: u64,
    /// How long a trial waits for all to report: two of their reports at least.
    pub trial: u64,
}

/// What was found, and what is about to be.
#[derive(Debug)]
pub struct Faults {
    fabric: Fabric,
    times: Times,
    cells: BTreeMap<Key, Cell>,
    /// By endpoint: cells of which it is the sender.
    held: Vec<u32>,
    /// The cell that was last looked at for whether it is to be forgotten; `None`: the first is the
    /// next.
    swept: Option<Key>,
    /// By endpoint: how many sessions it has begun, and when its latest report was true.
    sessions: Vec<u32>,
    latest: Vec<u64>,
    trial: Option<Trial>,
    trials: u64,
    /// Of the present trial, or the last one.
    evidence: Evidence,
    found: Vec<Fault>,
    /// Those that are avoided.
    avoided: Vec<Component>,
    lost: u64,
}

impl Faults {
    /// Of a fabric without faults.
    pub fn new(fabric: Fabric, times: Times) -> Self {
        let endpoints = usize::from(fabric.endpoints());
        Self {
            fabric,
            times,
            cells: BTreeMap::new(),
            held: vec![0; endpoints],
            swept: None,
            sessions: vec![0; endpoints],
            latest: vec![0; endpoints],
            trial: None,
            trials: 0,
            evidence: Evidence::new(fabric),
            found: Vec::new(),
            avoided: Vec::new(),
            lost: 0,
        }
    }

    /// It begins with what another one has found, of the same fabric.
    pub fn keep(&mut self, found: &[Fault]) {
        self.found = found.to_vec();
        let avoided = found.iter().filter(|fault| fault.is_avoided);
        self.avoided = avoided.map(|fault| fault.component).collect();
    }

    /// What was found and has not been cleared.
    pub fn found(&self) -> &[Fault] {
        &self.found
    }

    /// What of it packets are to avoid.
    pub fn avoided(&self) -> &[Component] {
        &self.avoided
    }

    /// Packets lost, on paths that were not avoided.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// An endpoint begins again: its totals, too.
    pub fn forget(&mut self, endpoint: u16) {
        let endpoint = usize::from(endpoint);
        if let (Some(session), Some(latest)) = (
            self.sessions.get_mut(endpoint),
            self.latest.get_mut(endpoint),
        ) {
            *session = session.wrapping_add(1);
            *latest = 0;
        }
    }

    /// All is repaired. Packets take all paths again.
    pub fn clear(&mut self) {
        self.found.clear();
        self.avoided.clear();
        // What was sent by paths that were avoided is not looked at.
        self.cells.clear();
        self.held.fill(0);
        self.trial = None;
    }

    /// An endpoint says that this was true at that time of its clock. False if it is not heeded: of
    /// the future, out of date, of itself, of nobody and no path, or of more than is kept.
    pub fn report(&mut self, now: u64, from: u16, time: u64, entry: Entry) -> bool {
        let Entry { peer, path, .. } = entry;
        let endpoints = self.fabric.endpoints();
        let is_known = from != peer
            && from < endpoints
            && peer < endpoints
            && u16::from(path) < self.fabric.paths();
        if !is_known || time > now.saturating_add(self.times.settle) {
            return false;
        }
        let latest = &mut self.latest[usize::from(from)];
        if time < *latest {
            return false;
        }
        *latest = time;
        self.sweep(now);
        let own = (from, peer, path);
        if !self.has_room(now, own) {
            return false;
        }
        if let Some(cell) = self.cell(own) {
            cell.sample.get_or_insert((time, entry.sent));
        }
        let key = (peer, from, path);
        let settle = self.times.settle;
        // Before its sender has said something there is nothing to compare.
        let Some(cell) = self.cell(key) else {
            return true;
        };
        let sample = cell
            .sample
            .take_if(|(at, _)| at.saturating_add(settle) <= time);
        if let Some((at, sent)) = sample {
            cell.compared_at = now;
            // As many as were sent and have not been seen, nor seen to be missing.
            let behind = sent.wrapping_sub(entry.seen) as i16;
            let lost = entry.lost.wrapping_add(behind.max(0) as u16);
            let base = cell.base.replace(Base { at, sent, lost });
            if let Some(base) = base {
                let new = lost.wrapping_sub(base.lost) as i16;
                let sent = u64::from(sent.wrapping_sub(base.sent));
                self.compared(now, key, (base.at, at), sent, new.max(0) as u64);
            }
        }
        true
    }

    /// Forgets some cells that were not compared for long, where there are many.
    fn sweep(&mut self, now: u64) {
        if self.cells.len() <= MANY {
            return;
        }
        let idle = self.times.trial.saturating_mul(IDLE);
        let after = self.swept.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.cells.range((after, Bound::Unbounded)).take(SWEPT);
        let mut forgotten = [None; SWEPT];
        self.swept = None;
        for (place, (key, cell)) in forgotten.iter_mut().zip(next) {
            *place = Some(*key).filter(|_| now.saturating_sub(cell.compared_at) > idle);
            self.swept = Some(*key);
        }
        for key in forgotten.into_iter().flatten() {
            self.cells.remove(&key);
            self.held[usize::from(key.0)] -= 1;
        }
    }

    /// Whether a cell is kept from now on, or was before.
    fn has_room(&mut self, now: u64, key: Key) -> bool {
        let is_full = self.cells.len() >= MOST;
        let held = &mut self.held[usize::from(key.0)];
        match self.cells.entry(key) {
            btree_map::Entry::Occupied(_) => true,
            btree_map::Entry::Vacant(_) if is_full || *held >= MOST_OF_ONE => false,
            btree_map::Entry::Vacant(place) => {
                *held += 1;
                place.insert(Cell {
                    compared_at: now,
                    ..Cell::default()
                });
                true
            }
        }
    }

    /// A cell that is kept, of both ends' present sessions.
    fn cell(&mut self, key: Key) -> Option<&mut Cell> {
        let (from, to, _) = key;
        let sessions = [from, to].map(|it| self.sessions.get(usize::from(it)).copied());
        let [Some(first), Some(second)] = sessions else {
            return None;
        };
        let cell = self.cells.get_mut(&key)?;
        if cell.sessions != (first, second) {
            if cell.trial == self.trials {
                self.evidence.clean(key, cell.innocent(), 0);
                if let Some(place) = cell.place {
                    self.evidence.change(place, 0, 0, false);
                }
            }
            *cell = Cell {
                sessions: (first, second),
                compared_at: cell.compared_at,
                ..Cell::default()
            };
        }
        Some(cell)
    }

    /// Between two times so many packets were sent, and so many of them, or a few after them, were
    /// lost.
    fn compared(&mut self, now: u64, key: Key, (after, until): (u64, u64), sent: u64, lost: u64) {
        let (from, to, path) = key;
        let mut way = self.fabric.path(from, to, path);
        // Packets that were given their paths before may still go there.
        if way.any(|(component, _)| self.is_found(component)) {
            return;
        }
        self.lost += lost;
        let shortest = self.times.trial;
        if self.trial.is_some_and(|trial| trial.is_over(now, shortest)) {
            self.trial = None;
        }
        if lost > 0 && self.trial.is_none() {
            self.trials += 1;
            self.evidence.begin(self.trials);
            self.trial = Some(Trial {
                began: now,
                lossy: None,
                has_news: false,
                judged: None,
            });
        }
        let (Some(trial), Some(cell)) = (&mut self.trial, self.cells.get_mut(&key)) else {
            return;
        };
        if cell.trial != self.trials {
            cell.trial = self.trials;
            (cell.sent, cell.lost, cell.clean) = (0, 0, 0);
            cell.place = None;
        }
        let (was_lossy, innocent) = (cell.is_lossy(), cell.innocent());
        cell.sent += sent;
        cell.lost += lost;
        trial.has_news |= lost > 0;
        if cell.is_lossy() && !was_lossy {
            let first = Lossy {
                onset: until,
                since: now,
            };
            trial.lossy.get_or_insert(first);
        } else if trial.lossy.is_some_and(|lossy| after >= lossy.onset) {
            cell.clean += sent;
        }
        let evidence = &mut self.evidence;
        evidence.clean(key, innocent, cell.innocent());
        match cell.place {
            Some(place) => evidence.change(place, cell.sent, cell.lost, cell.is_lossy()),
            None if cell.is_lossy() => {
                cell.place = Some(evidence.add(key, cell.sent, cell.lost));
            }
            None => {}
        }
    }

    fn is_found(&self, component: Component) -> bool {
        self.found.iter().any(|fault| fault.component == component)
    }

    /// When [`judge`](Self::judge) has something to do, if nothing more is reported.
    pub fn next_event(&self) -> Option<u64> {
        let trial = self.trial?;
        match self.evidence.is_unfinished() {
            true => trial.judged,
            false => trial.judge_at(self.times.trial),
        }
    }

    /// Finds what is faulty, if there is enough to tell; or does a part of that, as
    /// [`next_event`](Self::next_event) then tells. To be called until there is nothing.
    pub fn judge(&mut self, now: u64) -> Option<Fault> {
        let trial = self.trial.as_mut()?;
        if !self.evidence.is_unfinished() {
            if trial.judge_at(self.times.trial)? > now {
                return None;
            }
            trial.has_news = false;
            trial.judged = Some(now);
        }
        let Verdict::Blames(component) = self.evidence.inquire(&mut { COST }) else {
            return None;
        };
        let suspected_ns = trial.lossy?.since;
        let is_avoided = self.fabric.can_avoid(&self.avoided, component);
        let fault = Fault {
            component,
            is_avoided,
            suspected_ns,
            found_ns: now,
        };
        self.found.push(fault);
        if is_avoided {
            self.avoided.push(component);
        }
        self.trial = None;
        Some(fault)
    }
}
