// SPDX-License-Identifier: MIT OR Apache-2.0

//! Who is to blame for the lossy cells of a trial; by which rule is at the head of
//! [`faults`](crate::faults).
//!
//! Cells are many, and who judges them has timeslots to give meanwhile. So sums are kept of each
//! **suspect**, a component in a direction or in both, and follow what is reported; to judge is to
//! look at each suspect that explains something. What takes longer, as cells are **excused** that
//! an endpoint's own link explains, is done a part at a time.

use crate::fabric::{Component, Direction, Fabric};

/// So many packets at least a cell must have lost.
pub const FEW: u64 = 3;

/// A pair of endpoints and a path.
pub(crate) type Key = (u16, u16, u8);

/// What [`FEW`] packets that should have been lost and were not have against a component, in lossy
/// cells.
const AGAINST: u128 = 4;

/// Suspects of a component.
const DIRECTIONS: usize = 3;

/// A component and a direction.
type Name = (Component, Direction);

/// What it costs to count a cell, in suspects looked at.
const CELL: usize = 16;

/// A cell that was lossy at some time in this trial.
#[derive(Clone, Copy, Debug)]
struct Lossy {
    key: Key,
    sent: u64,
    lost: u64,
    /// Whether it still is.
    is_lossy: bool,
    is_excused: bool,
}

impl Lossy {
    /// Whether it is among those of which sums are.
    fn is_counted(&self) -> bool {
        self.is_lossy && !self.is_excused
    }
}

/// What speaks for it that it is to blame, and what against it.
#[derive(Debug, Default)]
struct Suspect {
    /// The trial of which the following is.
    trial: u64,
    /// Cells that it explains, and their packets.
    cells: u32,
    sent: u64,
    lost: u64,
    /// Endpoints that are an end of all of these; not all such endpoints, if cells are no longer
    /// counted.
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

/// Packets of cells that lost none, which came by a suspect in a trial.
#[derive(Clone, Copy, Debug, Default)]
struct Clean {
    trial: u64,
    packets: u64,
}

/// Those of some endpoints that are an end of a cell as well; of all endpoints, if there are none.
fn common(ends: Option<[Option<u16>; 2]>, (from, to, _): Key) -> [Option<u16>; 2] {
    let ends = ends.unwrap_or([Some(from), Some(to)]);
    ends.map(|end| end.filter(|end| *end == from || *end == to))
}

/// What came of an inquiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Blames(Component),
    BlamesNobody,
    /// It is to go on.
    Unfinished,
}

/// What an inquiry is about to do.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// To count those again that were excused in the last one.
    Restore,
    /// To look at suspects, from this one on.
    Choose {
        next: usize,
        best: Option<(i64, Name)>,
    },
    /// To excuse members of this one, an endpoint's link, from this one on.
    Excuse { place: usize, next: usize },
}

impl Stage {
    const FIRST: Self = Self::Choose {
        next: 0,
        best: None,
    };
}

/// What is known of a trial.
#[derive(Debug)]
pub(crate) struct Evidence {
    fabric: Fabric,
    trial: u64,
    suspects: Vec<Suspect>,
    /// By suspect; apart from these, as nearly all that is reported is of it.
    clean: Vec<Clean>,
    /// Those that have explained something in this trial.
    named: Vec<Name>,
    cells: Vec<Lossy>,
    /// Cells that are counted; by endpoint, of how many of them it is an end.
    counted: u32,
    degrees: Vec<u32>,
    /// Cells, by their places.
    excused: Vec<u32>,
    stage: Option<Stage>,
}

/// Suspects by which packets of a cell come.
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
            named: Vec::new(),
            cells: Vec::new(),
            counted: 0,
            degrees: vec![0; fabric.endpoints().into()],
            excused: Vec::new(),
            stage: None,
        }
    }

    /// Another trial begins, not the one numbered 0: nothing is known.
    pub(crate) fn begin(&mut self, trial: u64) {
        self.trial = trial;
        self.named.clear();
        self.cells.clear();
        self.counted = 0;
        self.degrees.fill(0);
        self.excused.clear();
        self.stage = None;
    }

    fn place(&self, (component, direction): Name) -> usize {
        self.fabric.place(component) * DIRECTIONS + direction as usize
    }

    /// Has something done with each suspect of a cell, which is of this trial then.
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

    /// A cell is lossy, and was not before in this trial; its place.
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

    /// More is known of the cell at this place.
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

    /// A cell that lost none had so many packets, and has so many now.
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

    /// Whether an inquiry is to go on.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.stage.is_some()
    }

    /// Goes on with an inquiry, or begins one, until that has cost so much: `left` is what it may
    /// cost, in suspects looked at, and is a little exceeded.
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
                    // It is the endpoint's own link, or the endpoint.
                    (None, Some((_, name @ (Component::Host(_), _)))) => Stage::Excuse {
                        place: self.place(name),
                        next: 0,
                    },
                    // Unless more has become known since it was looked at.
                    (None, Some((_, name))) => match self.better(name, None, left) {
                        Some((_, (component, _))) => return Verdict::Blames(component),
                        None => Stage::FIRST,
                    },
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

    /// Whether an endpoint is an end of all cells: then it is of all that a suspect explains.
    fn is_hopeless(&self, left: &mut usize) -> bool {
        spend(left, self.degrees.len() / CELL);
        self.degrees.contains(&self.counted)
    }

    /// This one if it explains more than the best one so far, or as much and is named first.
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
        // What speaks against it makes it less.
        if i64::from(suspect.cells) < most {
            return best;
        }
        let clean = Some(self.clean[place]).filter(|clean| clean.trial == self.trial);
        let score = suspect.score(clean.map_or(0, |clean| clean.packets));
        let is_worse = score < most || score == most && name > first;
        let is_own = matches!(name.0, Component::Host(_));
        if is_worse || !is_own && self.has_one_end(place, left) {
            return best;
        }
        Some((score, name))
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
    use std::collections::BTreeMap;

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

    /// All cells, each looked at again each time.
    struct Naive {
        fabric: Fabric,
        lossy: BTreeMap<Key, [u64; 2]>,
        clean: BTreeMap<Key, u64>,
    }

    impl Naive {
        fn blame(&self) -> Verdict {
            let mut lossy = self.lossy.clone();
            while let Some((component, direction)) = self.best(&lossy) {
                let Component::Host(_) = component else {
                    return Verdict::Blames(component);
                };
                lossy.retain(|key, _| {
                    !suspects(&self.fabric, *key).any(|it| it == (component, direction))
                });
            }
            Verdict::BlamesNobody
        }

        fn best(&self, lossy: &BTreeMap<Key, [u64; 2]>) -> Option<Name> {
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
            let mut best = None;
            for (name, (suspect, clean)) in all {
                let score = suspect.score(clean);
                let has_one_end = suspect
                    .ends
                    .is_none_or(|ends| ends.iter().any(Option::is_some));
                let is_own = matches!(name.0, Component::Host(_));
                if score > 0
                    && (is_own || !has_one_end)
                    && best.is_none_or(|(most, _)| score > most)
                {
                    best = Some((score, name));
                }
            }
            best.map(|(_, name)| name)
        }
    }

    /// A report: of which cell, and what of it is said then.
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
        fn who_is_to_blame_is_who_all_cells_looked_at_again_tell_of(
            rounds in prop::collection::vec(prop::collection::vec(said(), 1..60), 1..6), parts in 1..80_usize,
            hubs in prop::collection::vec(0..16_u16, 0..3),
        ) {
            let fabric = fabric([2, 2, 4], 2, 2);
            let mut evidence = Evidence::new(fabric);
            let mut places: BTreeMap<Key, u32> = BTreeMap::new();
            let mut naive = Naive { fabric, lossy: BTreeMap::new(), clean: BTreeMap::new() };
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
                    // In parts, each other time.
                    let mut left = if round % 2 == 0 { usize::MAX } else { parts };
                    verdict = evidence.inquire(&mut left);
                    prop_assert_eq!(verdict == Verdict::Unfinished, evidence.is_unfinished());
                }
                prop_assert_eq!(verdict, naive.blame());
            }
        }
    }

    /// Of 64 endpoints and 8 paths, all of which are in use.
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

    /// Looks at suspects, until it is finished, and how many in a part of a thousand at most.
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

    /// Not more than there are suspects, however many cells there are.
    #[test]
    fn a_link_that_loses_all_costs_a_look_at_each_suspect() {
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
        assert!(cost <= suspects, "{cost} of {suspects}");
    }

    /// Nobody else bears it out, whoever comes by the same switches.
    #[test]
    fn a_liar_costs_next_to_nothing() {
        let (mut evidence, _) = large(|_, (from, to, _)| from == 5 || to == 5);
        assert_eq!(evidence.cells.len(), 2 * 63 * 8);
        for _ in 0..3 {
            let (cost, verdict) = cost(&mut evidence);
            assert_eq!(verdict, Verdict::BlamesNobody);
            assert!(cost <= 20, "{cost}");
        }
    }

    /// Each cell is excused once, and once restored.
    #[test]
    fn a_liar_beside_who_loses_a_little_costs_a_few_looks_at_each_cell() {
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
