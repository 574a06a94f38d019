// SPDX-License-Identifier: MIT OR Apache-2.0

//! Finds the link or switch that loses packets (§5.2).
//!
//! "Sporadic packet losses due to bit flips in the physical layer still occur, but persistent,
//! correlated packet loss is almost surely due to component failure. […] Endpoints report packet
//! drops to this fault isolation service, which correlates reports from multiple endpoints to
//! identify the malfunctioning component. The faulty component is then reported to the arbiter,
//! which avoids scheduling traffic through the component until the fault is cleared."
//!
//! # Data
//!
//! For each pair of endpoints and each path there is a **cell**: how many packets the sender has
//! sent, and how many of these did not arrive, from totals that both report
//! ([`ledger`](weft_mechanisms::fastpass::ledger)). A sample of the sender's total is compared with
//! a report of the receiver whose time is later by the time that packets may be under way.
//!
//! # When a decision is made
//!
//! The first loss begins a **trial**. Until then only totals are stored. A cell is **lossy** if in
//! a trial it lost [`FEW`] packets and a hundredth of its packets. From the first lossy cell on,
//! packets that arrive are counted as well: earlier arrivals say nothing about a component that has
//! failed since. When all relevant reports have arrived, the trial is judged; and again later, if
//! more is lost. It ends when a fault was found, or when it has become too long to show new losses.
//!
//! # The verdict
//!
//! A component **explains** the lossy cells that cross it. Four cells count against it for every
//! [`FEW`] packets that loss-free cells would have lost on it at the rate of the lossy ones. The
//! component that explains most is to blame (after SCORE, R. Kompella et al., NSDI 2005). If
//! several explain the same cells, it is the one with the fewest paths, because no report
//! distinguishes them. A link is judged in each direction and in both; it is avoided in both.
//!
//! **In doubt, two verdicts must agree.** While reports are missing, a link and its switch can
//! explain nearly the same cells: more reports are awaited, if there are cells whose reports can
//! distinguish them. And after a sporadic loss that begins a trial, packets can arrive before the
//! fault occurs, and then count against the faulty component. So another trial begins if much
//! speaks against the first choice, or if the trial was judged before without a result.
//!
//! **The reports of one endpoint do not suffice**: a component is to blame only if no single
//! endpoint is an end of all the lossy cells that it explains. An endpoint can report only on cells
//! of which it is an end, so a liar can blame only its own link, which no other endpoint uses and
//! which is not avoided. Two liars together can blame others. The paths that they can close are
//! limited, because every pair of endpoints keeps a path. A component that only one endpoint uses,
//! or whose fault affects only one endpoint, is not found.
//!
//! # Until the fault is cleared
//!
//! A faulty component is avoided until somebody declares it repaired ([`Faults::clear`]). If it is
//! not repaired, it is found again.

use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;

use weft_mechanisms::fastpass::frame::Entry;

pub use crate::evidence::FEW;
use crate::evidence::{Evidence, Key, Verdict};
use crate::fabric::{Component, Fabric};

/// The most cells, and the most cells of one sender, so that a sender that claims to use all paths
/// to all endpoints leaves room for others.
const MOST: usize = 1 << 20;
const MOST_OF_ONE: u32 = 1 << 16;

/// Above this number of cells, those that have not been compared for a while are removed.
const MANY: usize = 1 << 15;

/// That while, in trials. A trial takes at most 20, so no removed cell belongs to it.
const IDLE: u64 = 32;

/// The most that a trial takes from the first lossy cell on, in its minimum lengths. A verdict in
/// doubt can be confirmed for as long.
const LONGEST: u64 = 16;

/// Cells examined for removal with each report.
const SWEPT: usize = 4;

/// The cost allowed for one step of an inquiry, in suspects examined: some 25 us, which is less
/// than an arbiter may be late.
const COST: usize = 2048;

/// The state of a pair of endpoints, by a path. Totals are modulo 2^16.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// The sessions of both ends.
    sessions: (u32, u32),
    /// The sender's oldest total that has not been compared yet, and its time.
    sample: Option<(u64, u16)>,
    /// The last comparison.
    base: Option<Base>,
    /// When the arbiter last compared it, or first heard of it.
    compared_at: u64,
    /// The trial of the following values.
    trial: u64,
    sent: u64,
    lost: u64,
    /// Packets sent since the first cell was lossy, if none of this cell's were lost.
    clean: u64,
    /// Its place in the evidence, if it was lossy.
    place: Option<u32>,
}

impl Cell {
    fn is_lossy(&self) -> bool {
        self.lost >= FEW && self.lost * 100 >= self.sent
    }

    /// Packets that are evidence against a fault on their path.
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
    /// Whether there is a loss that has not been judged.
    has_news: bool,
    judged: Option<u64>,
    /// Whether an inquiry had no result.
    was_in_vain: bool,
    /// Whether the last one preferred a component, so that more reports are awaited.
    is_in_doubt: bool,
}

/// The last verdict, if it was in doubt.
#[derive(Clone, Copy, Debug)]
struct Suspicion {
    component: Component,
    /// When persistent loss was first reported.
    since: u64,
    at: u64,
}

/// The time since the first cell was lossy.
#[derive(Clone, Copy, Debug)]
struct Lossy {
    /// The time before which it had suffered its losses, by its sender's clock.
    onset: u64,
    /// When that was reported.
    since: u64,
}

impl Trial {
    /// When to judge it, if ever; `shortest` is its minimum length.
    fn judge_at(&self, shortest: u64) -> Option<u64> {
        let lossy = self.lossy?;
        let last = self.judged.unwrap_or(lossy.since);
        (self.has_news || self.is_in_doubt).then_some(last + shortest)
    }

    fn is_over(&self, now: u64, shortest: u64) -> bool {
        match self.lossy {
            None => now > self.began + 4 * shortest,
            Some(lossy) => now > lossy.since + LONGEST * shortest,
        }
    }
}

/// A component found to be faulty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The component.
    pub component: Component,
    /// Whether packets can avoid it.
    pub is_avoided: bool,
    /// When the arbiter first heard of persistent loss, in ns.
    pub suspected_ns: u64,
    /// When it was found, in ns.
    pub found_ns: u64,
}

/// Time limits, in ns.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The longest time that packets are under way.
    pub settle: u64,
    /// How long a trial waits for all to report: at least two of their reports.
    pub trial: u64,
}

/// The faults found, and the inquiry in progress.
#[derive(Debug)]
pub struct Faults {
    fabric: Fabric,
    times: Times,
    cells: BTreeMap<Key, Cell>,
    /// By endpoint: cells of which it is the sender.
    held: Vec<u32>,
    /// The cell that was last examined for removal; `None`: the first one is next.
    swept: Option<Key>,
    /// By endpoint: the number of sessions it has begun, and the time of its latest report.
    sessions: Vec<u32>,
    latest: Vec<u64>,
    trial: Option<Trial>,
    trials: u64,
    suspicion: Option<Suspicion>,
    /// For the current trial, or the last one.
    evidence: Evidence,
    found: Vec<Fault>,
    /// The avoided components.
    avoided: Vec<Component>,
    lost: u64,
}

impl Faults {
    /// For a fabric without faults.
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
            suspicion: None,
            evidence: Evidence::new(fabric),
            found: Vec::new(),
            avoided: Vec::new(),
            lost: 0,
        }
    }

    /// Begins with the faults that another one has found in the same fabric.
    pub fn keep(&mut self, found: &[Fault]) {
        self.found = found.to_vec();
        let avoided = found.iter().filter(|fault| fault.is_avoided);
        self.avoided = avoided.map(|fault| fault.component).collect();
    }

    /// The faults found and not cleared.
    pub fn found(&self) -> &[Fault] {
        &self.found
    }

    /// The components that packets must avoid.
    pub fn avoided(&self) -> &[Component] {
        &self.avoided
    }

    /// Packets lost, on paths that were not avoided.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// An endpoint begins a new session: its totals restart, too.
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

    /// All faults are repaired. Packets take all paths again.
    pub fn clear(&mut self) {
        self.found.clear();
        self.avoided.clear();
        // Packets sent on avoided paths were not examined.
        self.cells.clear();
        self.held.fill(0);
        self.evidence.clear();
        self.trial = None;
        self.suspicion = None;
    }

    /// Processes an endpoint's report on a time of its clock. False if it is ignored: it is from
    /// the future, out of date, about the endpoint itself or an unknown endpoint or path, or beyond
    /// the number of cells.
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
        // Before the sender's first report there is nothing to compare.
        let Some(cell) = self.cell(key) else {
            return true;
        };
        let sample = cell
            .sample
            .take_if(|(at, _)| at.saturating_add(settle) <= time);
        if let Some((at, sent)) = sample {
            cell.compared_at = now;
            // Packets that were sent and neither seen, nor known to be missing.
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

    /// Removes some cells that have not been compared for long, if there are many.
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
            self.evidence.remove(key);
        }
    }

    /// Whether a cell is stored, or can be stored from now on.
    fn has_room(&mut self, now: u64, key: Key) -> bool {
        let is_full = self.cells.len() >= MOST;
        let held = &mut self.held[usize::from(key.0)];
        match self.cells.entry(key) {
            btree_map::Entry::Occupied(_) => true,
            btree_map::Entry::Vacant(_) if is_full || *held >= MOST_OF_ONE => false,
            btree_map::Entry::Vacant(place) => {
                *held += 1;
                self.evidence.store(key);
                place.insert(Cell {
                    compared_at: now,
                    ..Cell::default()
                });
                true
            }
        }
    }

    /// A stored cell, of both ends' current sessions.
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

    /// Between two times `sent` packets were sent, and `lost` of them, or of the next few, were
    /// lost.
    fn compared(&mut self, now: u64, key: Key, (after, until): (u64, u64), sent: u64, lost: u64) {
        let (from, to, path) = key;
        let mut way = self.fabric.path(from, to, path);
        // Packets whose paths were assigned earlier may still go there.
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
                was_in_vain: false,
                is_in_doubt: false,
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

    /// When [`judge`](Self::judge) has work to do, if there are no further reports.
    pub fn next_event(&self) -> Option<u64> {
        let trial = self.trial?;
        match self.evidence.is_unfinished() {
            true => trial.judged,
            false => trial.judge_at(self.times.trial),
        }
    }

    /// Finds a faulty component, if there is enough evidence; or does one step of that, and
    /// [`next_event`](Self::next_event) then returns the time of the next. Call it until it returns
    /// nothing.
    pub fn judge(&mut self, now: u64) -> Option<Fault> {
        let trial = self.trial.as_mut()?;
        if !self.evidence.is_unfinished() {
            if trial.judge_at(self.times.trial)? > now {
                return None;
            }
            trial.has_news = false;
            trial.was_in_vain |= trial.judged.is_some() && !trial.is_in_doubt;
            trial.is_in_doubt = false;
            trial.judged = Some(now);
        }
        let verdict = self.evidence.inquire(&mut { COST });
        let component = match verdict {
            Verdict::Blames(it) | Verdict::Prefers(it) | Verdict::Suspects(it) => it,
            Verdict::BlamesNobody | Verdict::Unfinished => return None,
        };
        let since = trial.lossy?.since;
        let longest = self.times.trial.saturating_mul(LONGEST);
        let before = self
            .suspicion
            .filter(|before| now.saturating_sub(before.at) <= longest);
        let suspected_ns = before.map_or(since, |before| before.since);
        let is_certain = matches!(verdict, Verdict::Blames(_)) && !trial.was_in_vain;
        if !is_certain && before.is_none_or(|before| before.component != component) {
            self.suspicion = Some(Suspicion {
                component,
                since: suspected_ns,
                at: now,
            });
            match verdict {
                Verdict::Prefers(_) if !trial.was_in_vain => trial.is_in_doubt = true,
                _ => self.trial = None,
            }
            return None;
        }
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
        self.suspicion = None;
        Some(fault)
    }
}
