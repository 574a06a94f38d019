// SPDX-License-Identifier: MIT OR Apache-2.0

//! The component to blame for the lossy cells of a trial; the rule is at the head of
//! [`faults`](crate::faults).
//!
//! There are many cells, and the judge has timeslots to allocate meanwhile. So sums are kept for
//! each **suspect**, a component in one direction or in both, and updated by each report; judging
//! examines each suspect that explains something. The longer part, **excusing** cells that an
//! endpoint's own link explains, is done in steps.

use crate::fabric::{Component, Direction, Fabric};

/// The fewest packets that a lossy cell must have lost.
pub const FEW: u64 = 3;

/// A pair of endpoints and a path.
pub(crate) type Key = (u16, u16, u8);

/// The weight against a component, in lossy cells, of [`FEW`] packets that it should have lost and
/// did not.
const AGAINST: u128 = 4;

/// A suspect whose score is at least this share of the best one is its rival. Of the cells that
/// cross a switch with three ports, two thirds cross one of its links.
const RIVAL: Share = Share(4, 5);

/// A score below this share of the cells that a suspect explains is weak.
const WEAK: Share = Share(3, 4);

/// Suspects per component.
const DIRECTIONS: usize = 3;

/// A component and a direction.
type Name = (Component, Direction);

/// The cost of counting a cell, in suspects examined.
const CELL: usize = 16;

/// A fraction.
struct Share(i64, i64);

impl Share {
    fn is_reached(&self, part: i64, whole: i64) -> bool {
        part * self.1 >= whole * self.0
    }
}

/// A cell that was lossy at some time in this trial.
#[derive(Clone, Copy, Debug)]
struct Lossy {
    key: Key,
    sent: u64,
    lost: u64,
    /// Whether it is still lossy.
    is_lossy: bool,
    is_excused: bool,
}

impl Lossy {
    /// Whether it is included in the sums.
    fn is_counted(&self) -> bool {
        self.is_lossy && !self.is_excused
    }
}

/// The evidence for and against blaming a suspect.
#[derive(Debug, Default)]
struct Suspect {
    /// The trial of the following values.
    trial: u64,
    /// Cells that it explains, and their packets.
    cells: u32,
    sent: u64,
    lost: u64,
    /// Endpoints that are an end of all of these; possibly not all such endpoints, after cells were
    /// removed from the count.
    ends: Option<[Option<u16>; 2]>,
    has_shrunk: bool,
    /// All cells that it has explained in this trial, by their places.
    members: Vec<u32>,
}

impl Suspect {
    fn explains(&mut self, cell: &Lossy) {
        self.cells += 1;
        self.sent += cell.sent;
        self.lost += cell.lost;
        self.ends = Some(common(self.ends, cell.key));
    }

    fn explains_no_more(&mut self, cell: &Lossy) {
        self.cells -= 1;
        self.sent -= cell.sent;
        self.lost -= cell.lost;
        self.has_shrunk = self.cells > 0;
        if self.cells == 0 {
            self.ends = None;
        }
    }

    fn score(&self, clean: u64) -> i64 {
        let [lost, sent, clean] = [self.lost, self.sent.max(1), clean].map(u128::from);
        let against = AGAINST * lost * clean / (sent * u128::from(FEW));
        i64::from(self.cells).saturating_sub(i64::try_from(against).unwrap_or(i64::MAX))
    }
}

/// Packets of cells without loss that crossed a suspect in a trial.
#[derive(Clone, Copy, Debug, Default)]
struct Clean {
    trial: u64,
    packets: u64,
}

/// The given endpoints that are also an end of this cell; without given endpoints, both ends.
fn common(ends: Option<[Option<u16>; 2]>, (from, to, _): Key) -> [Option<u16>; 2] {
    let ends = ends.unwrap_or([Some(from), Some(to)]);
    ends.map(|end| end.filter(|end| *end == from || *end == to))
}

/// The result of an inquiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Blames(Component),
    /// It explains most, but another component explains nearly as much, and there are cells whose
    /// reports can distinguish them.
    Prefers(Component),
    /// It explains most, but the evidence against it counts for more than a quarter of that.
    Suspects(Component),
    BlamesNobody,
    /// It must continue.
    Unfinished,
}

/// The next step of an inquiry.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Count the cells again that the last inquiry excused.
    Restore,
    /// Examine suspects, from this one on.
    Choose {
        next: usize,
        best: Option<(i64, Name)>,
    },
    /// Look for rivals of the best suspect, which has this score, from this suspect on.
    Compare { next: usize, best: (i64, Name) },
    /// Excuse members of this suspect, an endpoint's link, from this one on.
    Excuse { place: usize, next: usize },
}

impl Stage {
    const FIRST: Self = Self::Choose {
        next: 0,
        best: None,
    };
}

/// The evidence of a trial.
#[derive(Debug)]
pub(crate) struct Evidence {
    fabric: Fabric,
    trial: u64,
    suspects: Vec<Suspect>,
    /// By suspect; kept separately, because nearly all reports are about clean cells.
    clean: Vec<Clean>,
    /// By component: the cells that cross it.
    stored: Vec<u32>,
    /// The suspects that have explained something in this trial.
    named: Vec<Name>,
    cells: Vec<Lossy>,
    /// The number of counted cells; and, by endpoint, how many of them it is an end of.
    counted: u32,
    degrees: Vec<u32>,
    /// Cells, by their places.
    excused: Vec<u32>,
    stage: Option<Stage>,
}

/// The suspects that packets of a cell cross.
fn suspects(fabric: &Fabric, (from, to, path): Key) -> impl Iterator<Item = Name> + use<> {
    fabric
        .path(from, to, path)
        .flat_map(|(component, direction)| {
            let own = Some(direction).filter(|it| *it != Direction::Both);
            let all = [Some(Direction::Both), own].into_iter().flatten();
            all.map(move |direction| (component, direction))
        })
}

impl Evidence {
    pub(crate) fn new(fabric: Fabric) -> Self {
        let count = fabric.components() * DIRECTIONS;
        let mut suspects = Vec::new();
        suspects.resize_with(count, Suspect::default);
        Self {
            fabric,
            trial: 0,
            suspects,
            clean: vec![Clean::default(); count],
            stored: vec![0; fabric.components()],
            named: Vec::new(),
            cells: Vec::new(),
            counted: 0,
            degrees: vec![0; fabric.endpoints().into()],
            excused: Vec::new(),
            stage: None,
        }
    }

    /// Another trial begins, with a number other than 0: the evidence is empty.
    pub(crate) fn begin(&mut self, trial: u64) {
        self.trial = trial;
        self.named.clear();
        self.cells.clear();
        self.counted = 0;
        self.degrees.fill(0);
        self.excused.clear();
        self.stage = None;
    }

    /// A cell is stored from now on.
    pub(crate) fn store(&mut self, (from, to, path): Key) {
        for (component, _) in self.fabric.path(from, to, path) {
            self.stored[self.fabric.place(component)] += 1;
        }
    }

    /// A stored cell is removed.
    pub(crate) fn remove(&mut self, (from, to, path): Key) {
        for (component, _) in self.fabric.path(from, to, path) {
            self.stored[self.fabric.place(component)] -= 1;
        }
    }

    /// All stored cells are removed.
    pub(crate) fn clear(&mut self) {
        self.stored.fill(0);
    }

    fn place(&self, (component, direction): Name) -> usize {
        self.fabric.place(component) * DIRECTIONS + direction as usize
    }

    /// Calls `with` for each suspect of a cell, after moving it to this trial.
    fn each(&mut self, key: Key, mut with: impl FnMut(&mut Suspect)) {
        for name in suspects(&self.fabric, key) {
            let place = self.place(name);
            let suspect = &mut self.suspects[place];
            if suspect.trial != self.trial {
                let mut members = std::mem::take(&mut suspect.members);
                members.clear();
                *suspect = Suspect {
                    trial: self.trial,
                    members,
                    ..Suspect::default()
                };
            }
            with(suspect);
        }
    }

    /// A cell is lossy for the first time in this trial; returns its place.
    pub(crate) fn add(&mut self, key: Key, sent: u64, lost: u64) -> u32 {
        let place = self.cells.len() as u32;
        let cell = Lossy {
            key,
            sent,
            lost,
            is_lossy: true,
            is_excused: false,
        };
        self.cells.push(cell);
        let mut named = std::mem::take(&mut self.named);
        let mut names = suspects(&self.fabric, key);
        self.each(key, |suspect| {
            let name = names.next();
            named.extend(name.filter(|_| suspect.members.is_empty()));
            suspect.members.push(place);
        });
        self.named = named;
        self.count(cell);
        place
    }

    /// The cell at this place has new values.
    pub(crate) fn change(&mut self, place: u32, sent: u64, lost: u64, is_lossy: bool) {
        let before = self.cells[place as usize];
        let after = Lossy {
            sent,
            lost,
            is_lossy,
            ..before
        };
        self.cells[place as usize] = after;
        match (before.is_counted(), after.is_counted()) {
            (true, true) => self.each(before.key, |suspect| {
                suspect.sent = suspect.sent - before.sent + sent;
                suspect.lost = suspect.lost - before.lost + lost;
            }),
            (true, false) => self.discount(before),
            (false, true) => self.count(after),
            (false, false) => {}
        }
    }

    /// A cell without loss had `before` packets, and has `now`.
    pub(crate) fn clean(&mut self, key: Key, before: u64, now: u64) {
        if before == now {
            return;
        }
        for name in suspects(&self.fabric, key) {
            let place = self.place(name);
            let clean = &mut self.clean[place];
            if clean.trial != self.trial {
                *clean = Clean {
                    trial: self.trial,
                    packets: 0,
                };
            }
            clean.packets = clean.packets - before + now;
        }
    }

    fn count(&mut self, cell: Lossy) {
        let (from, to, _) = cell.key;
        self.counted += 1;
        self.degrees[usize::from(from)] += 1;
        self.degrees[usize::from(to)] += 1;
        self.each(cell.key, |suspect| suspect.explains(&cell));
    }

    fn discount(&mut self, cell: Lossy) {
        let (from, to, _) = cell.key;
        self.counted -= 1;
        self.degrees[usize::from(from)] -= 1;
        self.degrees[usize::from(to)] -= 1;
        self.each(cell.key, |suspect| suspect.explains_no_more(&cell));
    }

    /// Whether an inquiry must continue.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.stage.is_some()
    }

    /// Continues an inquiry, or begins one, until its cost is used up: `left` is the allowed cost,
    /// in suspects examined, and is slightly exceeded.
    pub(crate) fn inquire(&mut self, left: &mut usize) -> Verdict {
        let mut stage = self.stage.take().unwrap_or(Stage::Restore);
        while *left > 0 {
            stage = match stage {
                Stage::Restore => match self.excused.pop() {
                    Some(place) => {
                        spend(left, CELL);
                        self.restore(place);
                        stage
                    }
                    None if self.is_hopeless(left) => return Verdict::BlamesNobody,
                    None => Stage::FIRST,
                },
                Stage::Choose { next, best } => match (self.named.get(next), best) {
                    (Some(name), _) => Stage::Choose {
                        next: next + 1,
                        best: self.better(*name, best, left),
                    },
                    (None, None) => return Verdict::BlamesNobody,
                    // The endpoint's own link, or the endpoint.
                    (None, Some((_, name @ (Component::Host(_), _)))) => Stage::Excuse {
                        place: self.place(name),
                        next: 0,
                    },
                    // Unless new reports have arrived since it was examined.
                    (None, Some((_, name))) => match self.better(name, None, left) {
                        Some(best) if self.is_weak(best) => return Verdict::Suspects(name.0),
                        Some(best) => Stage::Compare { next: 0, best },
                        None => Stage::FIRST,
                    },
                },
                Stage::Compare { next, best } => match self.named.get(next).copied() {
                    Some(name) if self.is_rival(name, best, left) => {
                        return Verdict::Prefers(best.1.0);
                    }
                    Some(_) => Stage::Compare {
                        next: next + 1,
                        best,
                    },
                    None => return Verdict::Blames(best.1.0),
                },
                Stage::Excuse { place, next } => match self.suspects[place].members.get(next) {
                    Some(cell) => {
                        spend(left, CELL);
                        self.excuse(*cell);
                        Stage::Excuse {
                            place,
                            next: next + 1,
                        }
                    }
                    None if self.is_hopeless(left) => return Verdict::BlamesNobody,
                    None => Stage::FIRST,
                },
            };
        }
        self.stage = Some(stage);
        Verdict::Unfinished
    }

    fn excuse(&mut self, place: u32) {
        let cell = &mut self.cells[place as usize];
        if cell.is_counted() {
            let before = *cell;
            cell.is_excused = true;
            self.excused.push(place);
            self.discount(before);
        }
    }

    fn restore(&mut self, place: u32) {
        let cell = &mut self.cells[place as usize];
        cell.is_excused = false;
        if cell.is_counted() {
            let cell = *cell;
            self.count(cell);
        }
    }

    /// Whether an endpoint is an end of all cells: then it is an end of all cells that any suspect
    /// explains.
    fn is_hopeless(&self, left: &mut usize) -> bool {
        spend(left, self.degrees.len() / CELL);
        self.degrees.contains(&self.counted)
    }

    /// This suspect if it explains more than the best one so far, or as much and comes first by
    /// name.
    fn better(
        &mut self,
        name: Name,
        best: Option<(i64, Name)>,
        left: &mut usize,
    ) -> Option<(i64, Name)> {
        spend(left, 1);
        let place = self.place(name);
        let suspect = &self.suspects[place];
        let (most, first) = best.unwrap_or((1, name));
        // Evidence against it can only lower its score.
        if i64::from(suspect.cells) < most {
            return best;
        }
        let score = self.score(place);
        let is_worse = score < most || score == most && name > first;
        let is_own = matches!(name.0, Component::Host(_));
        if is_worse || !is_own && self.has_one_end(place, left) {
            return best;
        }
        Some((score, name))
    }

    fn score(&self, place: usize) -> i64 {
        let clean = Some(self.clean[place]).filter(|clean| clean.trial == self.trial);
        self.suspects[place].score(clean.map_or(0, |clean| clean.packets))
    }

    fn is_weak(&self, (score, name): (i64, Name)) -> bool {
        let cells = self.suspects[self.place(name)].cells;
        !WEAK.is_reached(score, cells.into())
    }

    /// Whether a suspect explains nearly as much as the best one, and reports can distinguish them.
    fn is_rival(&mut self, name: Name, (most, best): (i64, Name), left: &mut usize) -> bool {
        spend(left, 1);
        let place = self.place(name);
        let is_other = name.0 != best.0 && !matches!(name.0, Component::Host(_));
        is_other
            && RIVAL.is_reached(self.score(place), most)
            && self.has_other_cells(name.0, best.0)
            && !self.has_one_end(place, left)
    }

    /// Whether there is a cell that crosses the first component and not the second one; if in
    /// doubt, there is.
    fn has_other_cells(&self, first: Component, second: Component) -> bool {
        let stored = |it| self.stored[self.fabric.place(it)];
        !second.is_link_of(first) || stored(first) != stored(second)
    }

    /// Whether an endpoint is an end of all cells that a suspect explains.
    fn has_one_end(&mut self, place: usize, left: &mut usize) -> bool {
        let suspect = &mut self.suspects[place];
        let is_one = |ends: &Option<[Option<u16>; 2]>| {
            ends.is_none_or(|ends| ends.iter().any(Option::is_some))
        };
        if suspect.has_shrunk && !is_one(&suspect.ends) {
            suspect.has_shrunk = false;
            suspect.ends = None;
            for member in &suspect.members {
                spend(left, 1);
                let cell = &self.cells[*member as usize];
                if cell.is_counted() {
                    suspect.ends = Some(common(suspect.ends, cell.key));
                }
                if !is_one(&suspect.ends) {
                    break;
                }
            }
        }
        is_one(&suspect.ends)
    }
}

fn spend(left: &mut usize, cost: usize) {
    *left = left.saturating_sub(cost);
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;
    use weft_mechanisms::fastpass::address::Addresses;

    use super::*;
    use crate::fabric::Ways;

    fn fabric([hosts, racks, pods]: [u32; 3], edge: usize, core: usize) -> Fabric {
        let addresses = Addresses {
            first: 0x0a00_0002,
            hosts,
            racks,
            pods,
        };
        Fabric::new(&addresses, Ways { edge, core })
    }

    /// All cells, examined again each time.
    struct Naive {
        fabric: Fabric,
        lossy: BTreeMap<Key, [u64; 2]>,
        clean: BTreeMap<Key, u64>,
        stored: BTreeSet<Key>,
    }

    impl Naive {
        fn blame(&self) -> Verdict {
            let mut lossy = self.lossy.clone();
            while let Some((component, direction)) = self.best(&lossy) {
                let Component::Host(_) = component else {
                    return self.verdict(&lossy, (component, direction));
                };
                lossy.retain(|key, _| {
                    !suspects(&self.fabric, *key).any(|it| it == (component, direction))
                });
            }
            Verdict::BlamesNobody
        }

        fn verdict(&self, lossy: &BTreeMap<Key, [u64; 2]>, best: Name) -> Verdict {
            let crosses = |key: &Key, it: Component| {
                suspects(&self.fabric, *key).any(|(component, _)| component == it)
            };
            let scores = self.scores(lossy);
            let most = scores.iter().map(|(score, _)| *score).max().unwrap();
            let explains = |key: &&Key| suspects(&self.fabric, **key).any(|it| it == best);
            if most * 4 < lossy.keys().filter(explains).count() as i64 * 3 {
                return Verdict::Suspects(best.0);
            }
            let is_rival = |(score, (component, _)): &(i64, Name)| {
                let mut others = self.stored.iter();
                *component != best.0
                    && !matches!(component, Component::Host(_))
                    && score * 5 >= most * 4
                    && (!best.0.is_link_of(*component)
                        || others.any(|key| crosses(key, *component) && !crosses(key, best.0)))
            };
            match scores.iter().any(is_rival) {
                true => Verdict::Prefers(best.0),
                false => Verdict::Blames(best.0),
            }
        }

        fn best(&self, lossy: &BTreeMap<Key, [u64; 2]>) -> Option<Name> {
            let scores = self.scores(lossy);
            let most = scores.iter().map(|(score, _)| *score).max()?;
            let mut best = scores.iter().filter(|(score, _)| *score == most);
            best.next().map(|(_, name)| *name)
        }

        /// The positive scores of all suspects that may be to blame, by their names.
        fn scores(&self, lossy: &BTreeMap<Key, [u64; 2]>) -> Vec<(i64, Name)> {
            let mut all: BTreeMap<Name, (Suspect, u64)> = BTreeMap::new();
            for (key, [sent, lost]) in lossy {
                let cell = Lossy {
                    key: *key,
                    sent: *sent,
                    lost: *lost,
                    is_lossy: true,
                    is_excused: false,
                };
                for name in suspects(&self.fabric, *key) {
                    all.entry(name).or_default().0.explains(&cell);
                }
            }
            for (key, packets) in &self.clean {
                for name in suspects(&self.fabric, *key) {
                    if let Some((_, clean)) = all.get_mut(&name) {
                        *clean += packets;
                    }
                }
            }
            let mut scores = Vec::new();
            for (name, (suspect, clean)) in all {
                let score = suspect.score(clean);
                let has_one_end = suspect
                    .ends
                    .is_none_or(|ends| ends.iter().any(Option::is_some));
                let is_own = matches!(name.0, Component::Host(_));
                if score > 0 && (is_own || !has_one_end) {
                    scores.push((score, name));
                }
            }
            scores
        }
    }

    /// A report: its cell, and its content.
    type Said = (prop::sample::Index, prop::sample::Index, u8, u8, u64);

    fn said() -> impl Strategy<Value = Said> {
        (
            any::<prop::sample::Index>(),
            any::<prop::sample::Index>(),
            0..4_u8,
            0..10_u8,
            1..60_u64,
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn the_blamed_component_matches_a_naive_review_of_all_cells(
            rounds in prop::collection::vec(prop::collection::vec(said(), 1..60), 1..6), parts in 1..80_usize,
            hubs in prop::collection::vec(0..16_u16, 0..3),
        ) {
            let fabric = fabric([2, 2, 4], 2, 2);
            let mut evidence = Evidence::new(fabric);
            let mut places: BTreeMap<Key, u32> = BTreeMap::new();
            let mut naive =
                Naive { fabric, lossy: BTreeMap::new(), clean: BTreeMap::new(), stored: BTreeSet::new() };
            evidence.begin(1);
            for (round, reports) in rounds.iter().enumerate() {
                for (from, to, path, what, packets) in reports {
                    let (mut from, to) = (from.index(16) as u16, to.index(16) as u16);
                    // Most have an end in common, or one of two.
                    if let Some(hub) = hubs.get(usize::from(*what) % 2).filter(|_| *what != 5) {
                        from = *hub;
                    }
                    let key = if packets % 2 == 0 { (from, to, *path) } else { (to, from, *path) };
                    let before = naive.clean.get(&key).copied().unwrap_or(0);
                    if from != to && naive.stored.insert(key) {
                        evidence.store(key);
                    }
                    match what {
                        _ if from == to => {}
                        0..6 => {
                            naive.clean.remove(&key);
                            evidence.clean(key, before, 0);
                            naive.lossy.insert(key, [packets + 3, *packets]);
                            match places.get(&key) {
                                Some(place) => evidence.change(*place, packets + 3, *packets, true),
                                None => {
                                    places.insert(key, evidence.add(key, packets + 3, *packets));
                                }
                            }
                        }
                        6 if places.contains_key(&key) => {
                            naive.lossy.remove(&key);
                            evidence.change(places[&key], packets + 9, 1, false);
                        }
                        _ if !places.contains_key(&key) => {
                            naive.clean.insert(key, before + packets / 16);
                            evidence.clean(key, before, before + packets / 16);
                        }
                        _ => {}
                    }
                }
                let mut verdict = Verdict::Unfinished;
                while verdict == Verdict::Unfinished {
                    // In steps, every other time.
                    let mut left = if round % 2 == 0 { usize::MAX } else { parts };
                    verdict = evidence.inquire(&mut left);
                    prop_assert_eq!(verdict == Verdict::Unfinished, evidence.is_unfinished());
                }
                prop_assert_eq!(verdict, naive.blame());
            }
        }
    }

    /// A fabric with 64 endpoints and 8 paths, all in use.
    fn large(mut is_lossy: impl FnMut(&Fabric, Key) -> bool) -> (Evidence, usize) {
        let fabric = fabric([8, 8, 1], 8, 1);
        let mut evidence = Evidence::new(fabric);
        evidence.begin(1);
        for from in 0..64 {
            for to in (0..64).filter(|to| *to != from) {
                for path in 0..8 {
                    match is_lossy(&fabric, (from, to, path)) {
                        true => {
                            evidence.add((from, to, path), 20, 20);
                        }
                        false => evidence.clean((from, to, path), 0, 20),
                    }
                }
            }
        }
        (evidence, fabric.components() * DIRECTIONS)
    }

    /// Examines suspects until the inquiry is finished, at most a thousand in each step; returns
    /// the number.
    fn cost(evidence: &mut Evidence) -> (usize, Verdict) {
        for parts in 0.. {
            let mut left = 1000;
            let verdict = evidence.inquire(&mut left);
            if verdict != Verdict::Unfinished {
                return (parts * 1000 + 1000 - left, verdict);
            }
        }
        unreachable!()
    }

    /// However many cells there are.
    #[test]
    fn a_dead_link_costs_two_looks_at_each_suspect() {
        let link = Component::RackLink {
            pod: 0,
            rack: 3,
            way: 5,
        };
        let (mut evidence, suspects) =
            large(|fabric, (from, to, path)| fabric.path(from, to, path).any(|(it, _)| it == link));
        assert_eq!(evidence.cells.len(), 2 * 8 * 56);
        let (cost, verdict) = cost(&mut evidence);
        assert_eq!(verdict, Verdict::Blames(link));
        assert!(cost <= 2 * suspects, "{cost} of {suspects}");
    }

    /// No other endpoint confirms it, although others cross the same switches.
    #[test]
    fn a_liar_costs_almost_nothing() {
        let (mut evidence, _) = large(|_, (from, to, _)| from == 5 || to == 5);
        assert_eq!(evidence.cells.len(), 2 * 63 * 8);
        for _ in 0..3 {
            let (cost, verdict) = cost(&mut evidence);
            assert_eq!(verdict, Verdict::BlamesNobody);
            assert!(cost <= 20, "{cost}");
        }
    }

    /// Each cell is excused once, and restored once.
    #[test]
    fn a_liar_beside_a_small_loss_costs_a_few_looks_at_each_cell() {
        let (mut evidence, suspects) =
            large(|_, (from, to, path)| from == 5 || to == 5 || (from, to, path) == (9, 37, 3));
        for _ in 0..3 {
            let (cost, verdict) = cost(&mut evidence);
            assert_eq!(verdict, Verdict::BlamesNobody);
            let most = 2 * CELL * evidence.cells.len() + 4 * suspects;
            assert!(cost <= most, "{cost} of {most}");
        }
    }

    #[test]
    fn each_component_has_its_place_in_their_order() {
        for fabric in [
            fabric([2, 3, 4], 3, 2),
            fabric([3, 5, 1], 2, 1),
            fabric([5, 1, 1], 1, 1),
        ] {
            let mut places = BTreeMap::new();
            for from in 0..fabric.endpoints() {
                for to in (0..fabric.endpoints()).filter(|to| *to != from) {
                    for path in 0..fabric.paths() as u8 {
                        let way = fabric.path(from, to, path);
                        places.extend(way.map(|(it, _)| (it, fabric.place(it))));
                    }
                }
            }
            let places: Vec<_> = places.into_values().collect();
            assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
            assert!(
                places
                    .last()
                    .is_some_and(|last| *last < fabric.components())
            );
        }
    }
}
