// SPDX-License-Identifier: MIT OR Apache-2.0

//! Timeslots that allocated batches have left over, for requests that come after them.
//!
//! A request waits for the next batch, and a batch is allocated before it begins. Meanwhile the
//! timeslots of earlier batches pass in which its sender and its receiver are free. So a request
//! may take some of them at once. (Ours: the paper allocates each timeslot once.)
//!
//! # The rule
//!
//! A stream that is owed no timeslot gets the earliest timeslots in which its sender is free to
//! send, its receiver free to receive, and a path free: up to [`MOST`] per request. The rest of the
//! request goes to the next batch. A timeslot must be
//!
//! - late enough that an ALLOC sent now arrives before it begins, and
//! - early enough that no batch can take it any more, nor the timeslot in which the packet arrives
//!   at its receiver's link.
//!
//! A path is free if it crosses no failed component and all its links have room: the packets of
//! batches are counted on each link in the timeslot in which they cross it. So a leftover never
//! collides with another packet. All classes of urgency may take leftovers, which would pass unused
//! otherwise, and allocation does not count them: a pair's turn in the next batch stays the same.
//!
//! # What a request costs
//!
//! Timeslots are bits of words, and so are the ways up from a switch. The search looks at
//! [`WORDS`] words at most, and a datagram's requests together try a path in [`TRIES`] timeslots.

use std::ops::Range;

use crate::detours::Detours;
use crate::fabric::{Component, Ways};
use crate::free::groups;
use crate::settings::Settings;
use crate::{Lags, MAX_BATCH};

/// The most leftovers for one request: the first packets of a long flow, or all of a short one.
pub(crate) const MOST: u16 = 8;

/// The most timeslots in which a datagram's requests try to find a path.
pub(crate) const TRIES: u32 = 64;

/// The most words of timeslots that are kept. With a longer lead the earliest timeslots are not
/// given.
const WORDS: u64 = 16;

/// Timeslots of a word.
const WORD: u64 = u64::BITS as u64;

/// The use of the links from one kind of switches in one direction.
#[derive(Clone, Debug)]
struct Links {
    switches: usize,
    ways: usize,
    /// The packets of a timeslot that a link carries.
    room: u8,
    /// By timeslot, switch and way: its packets.
    packets: Vec<u8>,
    /// By timeslot and switch: the ways without room, a bit for each.
    full: Vec<u64>,
    /// By switch: the closed ways.
    closed: Vec<u64>,
}

impl Links {
    fn new(timeslots: usize, switches: usize, ways: usize, room: usize) -> Self {
        Self {
            switches,
            ways,
            room: u8::try_from(room).unwrap_or(u8::MAX),
            packets: vec![0; timeslots * switches * ways],
            full: vec![0; timeslots * switches],
            closed: vec![0; switches],
        }
    }

    /// Removes the packets of these timeslots.
    fn clear(&mut self, timeslots: Range<usize>) {
        let Range { start, end } = timeslots;
        self.full[start * self.switches..end * self.switches].fill(0);
        let links = self.switches * self.ways;
        self.packets[start * links..end * links].fill(0);
    }

    #[inline]
    fn add(&mut self, timeslot: usize, switch: usize, way: usize) {
        let switch_at = timeslot * self.switches + switch;
        let packets = &mut self.packets[switch_at * self.ways + way];
        *packets = packets.saturating_add(1);
        self.full[switch_at] |= u64::from(*packets >= self.room) << (way % 64);
    }

    /// The open ways that have room, a bit for each.
    fn free(&self, timeslot: usize, switch: usize) -> u64 {
        let all = u64::MAX >> (64 - self.ways.clamp(1, 64));
        all & !(self.full[timeslot * self.switches + switch] | self.closed[switch])
    }

    fn close(&mut self, switch: usize, way: u16) {
        self.closed[switch] |= 1 << (way % 64);
    }
}

/// Two ends of a packet, and when it arrives.
struct Ends {
    ends: [usize; 2],
    racks: [usize; 2],
    pods: [usize; 2],
    /// How many timeslots after the sender's the receiver's link carries it.
    lag: u32,
}

/// The use of all links in the timeslots of the last batches.
#[derive(Clone, Debug)]
pub(crate) struct Leftovers {
    endpoints: usize,
    ways: Ways,
    lags: Lags,
    racks_of_pod: u16,
    /// By endpoint.
    rack: Vec<u16>,
    pod: Vec<u16>,
    /// The number of words that are kept. A timeslot's place is its number modulo theirs.
    words: u64,
    /// The first word that is not kept yet.
    next: u64,
    /// By word and endpoint: the timeslots in which it sends, and receives.
    sends: Vec<u64>,
    receives: Vec<u64>,
    rack_up: Links,
    rack_down: Links,
    /// Empty with a single pod.
    pod_up: Links,
    pod_down: Links,
}

impl Leftovers {
    pub(crate) fn new(settings: &Settings) -> Self {
        let Settings {
            addresses,
            ways,
            lags,
            ..
        } = *settings;
        let endpoints = addresses.count() as usize;
        // Two batches: the one that is allocated its lead ahead, or more, and the one before it.
        let ahead = settings.lead / settings.timeslot.max(1) + settings.ahead;
        let timeslots = ahead + 2 * MAX_BATCH as u64;
        let words = (timeslots / WORD + 2).min(WORDS);
        let [hosts, racks, pods] =
            [addresses.hosts, addresses.racks, addresses.pods].map(|it| it as usize);
        let kept = (words * WORD) as usize;
        let rack_room = hosts.div_ceil(ways.edge.max(1));
        let pod_room = (racks * rack_room).div_ceil(ways.core.max(1));
        let rack_links = || Links::new(kept, racks * pods, ways.edge, rack_room);
        let pod_links = || match pods {
            1 => Links::new(0, 0, 0, 0),
            _ => Links::new(kept, pods * ways.edge, ways.core, pod_room),
        };
        let ends = || vec![0; words as usize * endpoints];
        Self {
            endpoints,
            ways,
            lags,
            racks_of_pod: addresses.racks as u16,
            rack: groups(&addresses, addresses.hosts),
            pod: groups(&addresses, addresses.hosts * addresses.racks),
            words,
            next: 0,
            sends: ends(),
            receives: ends(),
            rack_up: rack_links(),
            rack_down: rack_links(),
            pod_up: pod_links(),
            pod_down: pod_links(),
        }
    }

    /// From now on no leftover crosses these components.
    pub(crate) fn avoid(&mut self, components: &[Component]) {
        for links in [
            &mut self.rack_up,
            &mut self.rack_down,
            &mut self.pod_up,
            &mut self.pod_down,
        ] {
            links.closed.fill(0);
        }
        let (edge, racks) = (self.ways.edge, usize::from(self.racks_of_pod));
        for component in components {
            match *component {
                Component::RackLink { pod, rack, way } => {
                    self.close_rack(usize::from(pod) * racks + usize::from(rack), way);
                }
                Component::Pod { pod, way } => {
                    for rack in 0..racks {
                        self.close_rack(usize::from(pod) * racks + rack, way);
                    }
                }
                Component::PodLink { pod, way, core } => {
                    self.close_pod(usize::from(pod) * edge + usize::from(way), core);
                }
                Component::Core { way, core } => {
                    for pod in 0..self.pod_up.switches / edge {
                        self.close_pod(pod * edge + usize::from(way), core);
                    }
                }
                // There is no other path.
                Component::Host(_) | Component::Rack { .. } => {}
            }
        }
    }

    fn close_rack(&mut self, switch: usize, way: u16) {
        self.rack_up.close(switch, way);
        self.rack_down.close(switch, way);
    }

    fn close_pod(&mut self, switch: usize, core: u16) {
        if switch < self.pod_up.switches {
            self.pod_up.close(switch, core);
            self.pod_down.close(switch, core);
        }
    }

    #[inline]
    fn ends(&self, source: u16, destination: u16) -> Ends {
        let ends = [source, destination].map(usize::from);
        let racks = ends.map(|end| usize::from(self.rack[end]));
        let pods = ends.map(|end| usize::from(self.pod[end]));
        Ends {
            ends,
            racks,
            pods,
            lag: self.lags.of(racks[0] != racks[1], pods[0] != pods[1]),
        }
    }

    /// Where a word's endpoints begin.
    fn word(&self, word: u64) -> usize {
        (word % self.words) as usize * self.endpoints
    }

    /// A timeslot's place in the tables of links.
    fn place(&self, timeslot: u64) -> usize {
        (timeslot % (self.words * WORD)) as usize
    }

    /// Keeps the words up to this timeslot's, and forgets those before the kept ones.
    #[inline]
    fn advance(&mut self, timeslot: u64) {
        let last = timeslot / WORD;
        if last < self.next {
            return;
        }
        let first = self.next.max((last + 1).saturating_sub(self.words));
        for word in first..=last {
            let at = self.word(word);
            self.sends[at..at + self.endpoints].fill(0);
            self.receives[at..at + self.endpoints].fill(0);
            let place = self.place(word * WORD);
            let places = place..place + WORD as usize;
            self.rack_up.clear(places.clone());
            self.rack_down.clear(places.clone());
            if self.pod_up.switches > 0 {
                self.pod_up.clear(places.clone());
                self.pod_down.clear(places);
            }
        }
        self.next = last + 1;
    }

    /// The first word that is kept.
    fn oldest(&self) -> u64 {
        self.next.saturating_sub(self.words)
    }

    /// A packet is sent in this timeslot.
    #[inline]
    pub(crate) fn take(&mut self, timeslot: u64, source: u16, destination: u16, path: u8) {
        self.advance(timeslot + u64::from(self.lags.far));
        if timeslot / WORD < self.oldest() {
            return;
        }
        let Ends {
            ends,
            racks,
            pods,
            lag,
        } = self.ends(source, destination);
        let arrives = timeslot + u64::from(lag);
        let (out, into) = (self.word(timeslot / WORD), self.word(arrives / WORD));
        self.sends[out + ends[0]] |= 1 << (timeslot % WORD);
        self.receives[into + ends[1]] |= 1 << (arrives % WORD);
        if racks[0] == racks[1] {
            return;
        }
        let (sent, arrives) = (self.place(timeslot), self.place(arrives));
        let edge = self.ways.edge;
        let (way, core) = (usize::from(path) % edge, usize::from(path) / edge);
        self.rack_up.add(sent, racks[0], way);
        self.rack_down.add(arrives, racks[1], way);
        if pods[0] != pods[1] {
            // All packets between pods have the same lag, so their sender's timeslot tells them
            // apart on both links.
            self.pod_up.add(sent, pods[0] * edge + way, core);
            self.pod_down.add(sent, pods[1] * edge + way, core);
        }
    }

    /// Finds up to `most` leftovers for a pair, the earliest first, among the timeslots `range`: a
    /// packet must also arrive in one of them. Calls `found` with the timeslot and the path of
    /// each, and counts the timeslots tried down in `tries`.
    pub(crate) fn find(
        &mut self,
        (source, destination): (u16, u16),
        range: &Range<u64>,
        most: u16,
        tries: &mut u32,
        mut found: impl FnMut(u64, u8),
    ) {
        let ends = self.ends(source, destination);
        let lag = u64::from(ends.lag);
        let Range { start, end } = *range;
        let end = end.saturating_sub(lag);
        if most == 0 || start >= end {
            return;
        }
        self.advance(end + WORD);
        let mut left = most;
        for word in (start / WORD).max(self.oldest())..=(end - 1) / WORD {
            let busy = |word: u64| self.receives[self.word(word) + ends.ends[1]];
            let into = match lag {
                0 => busy(word),
                lag => busy(word) >> lag | busy(word + 1) << (WORD - lag),
            };
            let mut free = !(self.sends[self.word(word) + ends.ends[0]] | into);
            let first = word * WORD;
            free &= u64::MAX << start.saturating_sub(first);
            free &= u64::MAX >> (WORD - (end - first).min(WORD));
            while free != 0 {
                if *tries == 0 {
                    return;
                }
                *tries -= 1;
                let timeslot = first + u64::from(free.trailing_zeros());
                free &= free - 1;
                if let Some(path) = self.path(timeslot, &ends) {
                    found(timeslot, path);
                    left -= 1;
                    if left == 0 {
                        return;
                    }
                }
            }
        }
    }

    /// A path whose links have room and work.
    fn path(&self, timeslot: u64, ends: &Ends) -> Option<u8> {
        let Ends {
            racks, pods, lag, ..
        } = ends;
        if racks[0] == racks[1] {
            return Some(0);
        }
        let (sent, arrives) = (self.place(timeslot), self.place(timeslot + u64::from(*lag)));
        let ways = self.rack_up.free(sent, racks[0]) & self.rack_down.free(arrives, racks[1]);
        // They begin with another way each time, so that none gets more packets than others.
        let turn = Detours::turn(timeslot, self.ways.edge.min(64)) as u32;
        let edge = self.ways.edge;
        bits(ways.rotate_right(turn)).find_map(|way| {
            let way = ((way + turn) % u64::BITS) as usize;
            if pods[0] == pods[1] {
                return u8::try_from(way).ok();
            }
            let [from, to] = pods.map(|pod| pod * edge + way);
            let cores = self.pod_up.free(sent, from) & self.pod_down.free(sent, to);
            let core = bits(cores).next()? as usize;
            u8::try_from(way + edge * core).ok()
        })
    }
}

/// The places of a word's bits, from the lowest.
fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros());
        word &= word.wrapping_sub(1);
        bit
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use weft_mechanisms::common::xorshift::Xorshift32;
    use weft_mechanisms::fastpass::address::Addresses;

    use super::*;
    use crate::fabric::{Direction, Fabric};
    use crate::settings::Policy;
    use crate::stages::{OneThread, Order, Stages as _};

    /// A link, and the timeslot in which it carries a packet.
    type Crossing = (Component, Direction, u64);

    /// Packets of batches, and leftovers.
    type Load = [u32; 2];

    /// A naive model: all packets on all links, one by one.
    struct Model {
        settings: Settings,
        fabric: Fabric,
        load: HashMap<Crossing, Load>,
        avoided: Vec<Component>,
    }

    impl Model {
        fn room(&self, component: Component) -> u32 {
            let Addresses { hosts, racks, .. } = self.settings.addresses;
            let Ways { edge, core } = self.settings.ways;
            let rack = hosts.div_ceil(edge as u32);
            match component {
                Component::Host(_) => 1,
                Component::RackLink { .. } => rack,
                _ => (racks * rack).div_ceil(core as u32),
            }
        }

        fn lag(&self, from: u16, to: u16) -> u64 {
            let [from, to] = [from, to].map(|it| self.fabric.rack(it));
            let Lags { near, far } = self.settings.lags;
            u64::from(match (from == to, from.0 == to.0) {
                (true, _) => 0,
                (_, true) => near,
                _ => far,
            })
        }

        fn crossings(&self, timeslot: u64, from: u16, to: u16, path: u8) -> Vec<Crossing> {
            let arrives = timeslot + self.lag(from, to);
            let path = self.fabric.path(from, to, path);
            let links = path.filter(|(_, direction)| *direction != Direction::Both);
            let crossing = |(link, direction)| {
                let is_last = matches!(link, Component::Host(_) | Component::RackLink { .. });
                match direction == Direction::Down && is_last {
                    true => (link, direction, arrives),
                    false => (link, direction, timeslot),
                }
            };
            links.map(crossing).collect()
        }

        fn is_free(&self, timeslot: u64, from: u16, to: u16, path: u8) -> bool {
            let mut components = self.fabric.path(from, to, path);
            let crossings = self.crossings(timeslot, from, to, path);
            let load = |it| self.load.get(it).map_or(0, |load| load.iter().sum());
            components.all(|(it, _)| !self.avoided.contains(&it))
                && crossings.iter().all(|it| load(it) < self.room(it.0))
        }

        fn first(&self, range: Range<u64>, from: u16, to: u16) -> Option<u64> {
            let mut range = range;
            range.end = range.end.saturating_sub(self.lag(from, to));
            let paths = 0..self.fabric.paths() as u8;
            let is_free = |timeslot: &u64| {
                let mut paths = paths.clone();
                paths.any(|path| self.is_free(*timeslot, from, to, path))
            };
            range.into_iter().find(is_free)
        }

        fn add(&mut self, timeslot: u64, from: u16, to: u16, path: u8, kind: usize) {
            for crossing in self.crossings(timeslot, from, to, path) {
                let load = self.load.entry(crossing).or_default();
                load[kind] += 1;
                if kind == 0 {
                    assert_eq!(load[1], 0, "a batch meets a leftover: {crossing:?}");
                }
                if matches!(crossing.0, Component::Host(_)) {
                    assert_eq!(load.iter().sum::<u32>(), 1, "{crossing:?}");
                }
            }
        }
    }

    /// Requests between random batches. Returns how many leftovers were found, and how many
    /// requests found too few.
    fn run(settings: Settings, seed: u32) -> [u32; 2] {
        let mut random = Xorshift32::new(seed);
        let mut draw = |end: u64| u64::from(random.below(end as u32));
        let endpoints = settings.addresses.count() as u64;
        let mut stages = OneThread::new(&settings).unwrap();
        let mut leftovers = Leftovers::new(&settings);
        let fabric = Fabric::new(&settings.addresses, settings.ways);
        let mut model = Model {
            settings,
            fabric,
            load: HashMap::new(),
            avoided: Vec::new(),
        };
        let (mut next, mut all, mut short) = (1 << 33, 0, 0);
        for round in 0..150 {
            if draw(10) == 0 {
                model.avoided.clear();
                for _ in 0..draw(4) {
                    let pod = draw(settings.addresses.pods.into()) as u16;
                    let rack = draw(settings.addresses.racks.into()) as u16;
                    let way = draw(settings.ways.edge as u64) as u16;
                    let core = draw(settings.ways.core as u64) as u16;
                    let one_more = match draw(4) {
                        0 => Component::RackLink { pod, rack, way },
                        1 => Component::PodLink { pod, way, core },
                        2 => Component::Pod { pod, way },
                        _ => Component::Core { way, core },
                    };
                    if fabric.can_avoid(&model.avoided, one_more) {
                        model.avoided.push(one_more);
                    }
                }
                stages.avoid(&model.avoided);
                leftovers.avoid(&model.avoided);
            }
            for _ in 0..draw(endpoints * settings.batch as u64 / 3) {
                let [from, to] = [(); 2].map(|()| draw(endpoints) as u16);
                let _ = stages.request(from, to, 1 + draw(3) as u16);
            }
            let skipped = match draw(8) {
                0 => draw(200),
                _ => 0,
            };
            let first = next + skipped;
            next = first + settings.batch as u64;
            stages.order(Order {
                first,
                skipped,
                ..Order::default()
            });
            stages.collect(0, &mut |timeslot| {
                let packets = timeslot.packets.iter().zip(timeslot.paths);
                for (place, (packet, path)) in packets.enumerate() {
                    if !timeslot.pathless.contains(&place) {
                        let (from, to) = (packet.source(), packet.destination());
                        leftovers.take(timeslot.number, from, to, *path);
                        model.add(timeslot.number, from, to, *path, 0);
                    }
                }
            });
            for _ in 0..draw(60) {
                let [from, to] = [(); 2].map(|()| draw(endpoints) as u16);
                if from == to {
                    continue;
                }
                let most = draw(9) as u16;
                let start = next - draw(settings.lead + settings.batch as u64);
                let mut tries = u32::MAX;
                let mut found = Vec::new();
                leftovers.find(
                    (from, to),
                    &(start..next),
                    most,
                    &mut tries,
                    |slot, path| {
                        found.push((slot, path));
                    },
                );
                assert!(found.len() <= usize::from(most));
                let mut begin = start;
                for (timeslot, path) in &found {
                    let first = model.first(begin..next, from, to);
                    assert_eq!(first, Some(*timeslot), "{from} to {to}, round {round}");
                    assert!(model.is_free(*timeslot, from, to, *path));
                    begin = timeslot + 1;
                }
                if found.len() < usize::from(most) {
                    assert_eq!(model.first(begin..next, from, to), None);
                    short += 1;
                }
                for (timeslot, path) in found {
                    leftovers.take(timeslot, from, to, path);
                    model.add(timeslot, from, to, path, 1);
                    all += 1;
                }
            }
        }
        [all, short]
    }

    const SETTINGS: Settings = Settings {
        addresses: Addresses {
            first: 1,
            hosts: 2,
            racks: 2,
            pods: 4,
        },
        ways: Ways { edge: 2, core: 2 },
        policy: Policy::MaxMin,
        classes: 1,
        batch: 16,
        timeslot: 1,
        lead: 10,
        travel: 1,
        ahead: 0,
        timeout: 1,
        lags: Lags { near: 0, far: 0 },
        own: None,
        any_port: false,
    };

    #[test]
    fn leftovers_are_the_first_timeslots_with_room_on_every_link() {
        let addresses = |hosts, racks, pods| Addresses {
            first: 1,
            hosts,
            racks,
            pods,
        };
        let lags = [
            Lags { near: 0, far: 0 },
            Lags { near: 2, far: 5 },
            Lags { near: 3, far: 3 },
            Lags { near: 0, far: 48 },
        ];
        for (addresses, edge, core) in [
            (SETTINGS.addresses, 2, 2),
            (addresses(4, 2, 2), 2, 2),
            (addresses(6, 3, 1), 4, 1),
            (addresses(3, 2, 3), 2, 4),
            (addresses(9, 1, 1), 1, 1),
            (addresses(4, 3, 2), 1, 5),
        ] {
            for (number, lags) in lags.into_iter().enumerate() {
                let batch = [1, 16, 33, 13][number];
                let settings = Settings {
                    addresses,
                    ways: Ways { edge, core },
                    lags,
                    batch,
                    lead: 10 + 80 * number as u64,
                    ..SETTINGS
                };
                let [all, short] = run(settings, 7);
                assert!(all > 50 && short > 50, "{all}, {short}: {settings:?}");
            }
        }
    }

    #[test]
    fn timeslots_that_are_no_longer_kept_are_not_given() {
        let mut leftovers = Leftovers::new(&Settings {
            lead: 1 << 40,
            ..SETTINGS
        });
        let kept = WORDS * WORD;
        leftovers.take(1 << 40, 0, 2, 0);
        let mut found = Vec::new();
        let range = (1 << 40) - 4 * kept..1 << 40;
        leftovers.find((0, 2), &range, 1, &mut 1000, |slot, _| found.push(slot));
        let [first] = found[..] else {
            panic!("{found:?}");
        };
        assert!(first >= range.end - kept && first < range.end - kept / 2);
        // A packet of an older timeslot changes nothing.
        leftovers.take(first - 2 * kept, 0, 2, 0);
        let mut again = Vec::new();
        leftovers.find((0, 2), &range, 1, &mut 1000, |slot, _| again.push(slot));
        assert_eq!(found, again);
    }

    #[test]
    fn a_datagram_tries_a_bounded_number_of_timeslots() {
        let mut leftovers = Leftovers::new(&SETTINGS);
        // Both ways down to the receiver's switch are full in all timeslots.
        for timeslot in 1000..1100 {
            leftovers.take(timeslot, 4, 2, 0);
            leftovers.take(timeslot, 5, 3, 1);
            leftovers.take(timeslot, 6, 2, 1);
        }
        let mut tries = TRIES;
        let mut count = 0;
        leftovers.find((0, 8), &(1000..1100), 4, &mut tries, |_, _| count += 1);
        assert_eq!((count, tries), (4, TRIES - 4));
        leftovers.receives.fill(0);
        leftovers.find((0, 3), &(1000..1100), 4, &mut tries, |_, _| count += 1);
        assert_eq!((count, tries), (4, 0));
    }
}
