// SPDX-License-Identifier: MIT OR Apache-2.0

//! Paths of a fabric of two or three layers, so that no two packets of a timeslot share a link.
//!
//! A host's switch (of its rack) has `edge` ways up, each to another switch of the pod, and each of
//! these `core` ways up to other pods. First each packet is given one of `edge` colours, such that
//! a rack sends and receives no two of one colour (as many as a link carries, where a rack has more
//! hosts than ways). The packets of one colour meet at one switch of each pod: they are a fabric of
//! their own, of pods in the place of racks, and are given one of `core` colours. A fabric of two
//! layers is one in which pods do not matter, with one way up from there.
//!
//! Where ways of different length have different [lags](Lags), packets of a pod's own meet others
//! on the links to hosts' switches that were sent in an earlier timeslot and have come from another
//! pod: [`meetings`](crate::meetings).
//!
//! Around what has failed, [`detours`](crate::detours) are made of these paths.

use weft_mechanisms::fastpass::address::Addresses;

use crate::detours::Detours;
use crate::fabric::{Component, Ways};
use crate::free::groups;
use crate::meetings::Meetings;
use crate::paths::{MAX_COLOURS, MAX_RACKS, Paths};
use crate::{Allocation, Invalid, Lags};

/// Chooses paths.
#[derive(Clone, Debug)]
pub struct Routes {
    ways: Ways,
    addresses: Addresses,
    /// If something has failed.
    detours: Option<Detours>,
    /// Unless there is one way.
    racks: Option<Paths>,
    /// Unless there is one way, or one pod.
    pods: Option<Paths>,
    /// If ways have different lags.
    meetings: Option<Meetings>,
    /// By endpoint.
    rack: Vec<u16>,
    pod: Vec<u16>,
    /// Those of one colour, and where each of them is in the timeslot.
    class: Vec<Allocation>,
    /// Those of short ways, and which ways up are free for each.
    short: Vec<(Allocation, u64)>,
    places: Vec<usize>,
    chosen: Vec<u8>,
}

impl Routes {
    /// Of a fabric with these endpoints.
    ///
    /// # Errors
    ///
    /// As of [`Paths::new`], and [`Invalid::Racks`] too if there are lags and more racks than half
    /// of [`MAX_RACKS`]; and [`Invalid::Paths`] if there are more than 256 paths.
    pub fn new(addresses: &Addresses, ways: Ways, lags: Lags) -> Result<Self, Invalid> {
        let endpoints = addresses.count() as usize;
        let [hosts, racks] = [addresses.hosts, addresses.racks].map(|it| it as usize);
        if !(1..=256).contains(&ways.edge.saturating_mul(ways.core)) {
            return Err(Invalid::Paths);
        }
        let of_racks = match ways.edge {
            1 => None,
            edge => Some(Paths::new(endpoints, hosts, edge)?),
        };
        let of_pods = match (ways.core, addresses.pods) {
            (1, _) | (_, 1) => None,
            (core, _) => {
                // What a switch of the pod gets in a timeslot: of each rack what one colour has.
                let degree = racks * hosts.div_ceil(ways.edge);
                if degree > MAX_COLOURS {
                    return Err(Invalid::Paths);
                }
                Some(Paths::of_degree(endpoints, hosts * racks, degree, core)?)
            }
        };
        let all_racks = racks * addresses.pods as usize;
        let meetings = match lags.are_there() {
            true if 2 * all_racks > MAX_RACKS => return Err(Invalid::Racks),
            true => Some(Meetings::new(all_racks, ways.edge, hosts, lags)),
            false => None,
        };
        Ok(Self {
            ways,
            addresses: *addresses,
            detours: None,
            racks: of_racks,
            pods: of_pods,
            meetings,
            rack: groups(addresses, addresses.hosts),
            pod: groups(addresses, addresses.hosts * addresses.racks),
            class: Vec::new(),
            short: Vec::new(),
            places: Vec::new(),
            chosen: Vec::new(),
        })
    }

    /// From now on no packet comes by these.
    pub fn avoid(&mut self, components: &[Component]) {
        let is_apart = self.meetings.as_ref().is_some_and(Meetings::is_apart);
        let detours = || Detours::new(&self.addresses, self.ways, is_apart, components);
        self.detours = (!components.is_empty()).then(detours);
    }

    /// What [`select`](Self::select) has selected last.
    pub fn selected(&self) -> &[u8] {
        &self.chosen
    }

    /// The packets of the timeslot that was last selected which have no path, by their places, in
    /// order: there is none that comes by nothing that is to be avoided and has room.
    pub fn waiting(&self) -> &[usize] {
        self.detours.as_ref().map_or(&[], Detours::waiting)
    }

    /// Whether packets of a pod's own meet others that were sent in another timeslot. Of a single
    /// pod all are alike.
    fn has_long(&self) -> bool {
        let is_apart = self.meetings.as_ref().is_some_and(Meetings::is_apart);
        is_apart && self.pod.last().is_some_and(|pod| *pod > 0)
    }

    /// By how many the numbers of ways are turned in a timeslot, of so many: any of them is as good
    /// as another, but where one of them is closed, it is not to be the same packets' each time;
    /// nor where some meet others and cannot make room: what is too much for one way would be so in
    /// each timeslot in which the same hosts send, and what is left of another one of no use.
    fn turn(&self, number: u64, ways: usize) -> u8 {
        match self.detours.is_some() || self.has_long() {
            true => Detours::turn(number, ways) as u8,
            false => 0,
        }
    }

    /// The path of each of a timeslot's packets, from 0: its way up from the host's switch, and
    /// `edge` times that from the next one. `timeslot` is as an [`Allocator`](crate::Allocator)
    /// makes them, of the same lags; its number is higher each time.
    pub fn select(&mut self, number: u64, timeslot: &[Allocation]) -> &[u8] {
        self.select_colours(number, timeslot);
        if let Some(detours) = &mut self.detours {
            detours.apply(number, timeslot, &mut self.chosen);
        }
        &self.chosen
    }

    fn select_colours(&mut self, number: u64, timeslot: &[Allocation]) {
        self.chosen.clear();
        let Ways { edge, core } = self.ways;
        // Each by itself.
        let (turn, core_turn) = (self.turn(number, edge), self.turn(!number, core));
        match (&mut self.racks, &mut self.meetings) {
            (Some(_), Some(_)) => self.select_by_lag(number, timeslot),
            (Some(racks), None) => {
                let ways = racks.select(timeslot).iter();
                self.chosen.extend(ways.map(|way| turned(*way, turn, edge)));
            }
            (None, _) => self.chosen.resize(timeslot.len(), 0),
        }
        let Some(pods) = &mut self.pods else {
            return;
        };
        for way in 0..self.ways.edge {
            self.class.clear();
            self.places.clear();
            for (place, packet) in timeslot.iter().enumerate() {
                let ends = [packet.source(), packet.destination()];
                let [from, to] = ends.map(|end| self.pod[usize::from(end)]);
                if usize::from(self.chosen[place]) == way && from != to {
                    self.class.push(*packet);
                    self.places.push(place);
                }
            }
            let cores = pods.select(&self.class);
            for (place, chosen) in self.places.iter().zip(cores) {
                let chosen = turned(*chosen, core_turn, core);
                self.chosen[*place] = (way + edge * usize::from(chosen)) as u8;
            }
        }
    }

    /// The ways up from hosts' switches, those that have the longest lag and others.
    fn select_by_lag(&mut self, number: u64, timeslot: &[Allocation]) {
        let edge = self.ways.edge;
        let turn = self.turn(number, edge);
        let has_long = self.has_long();
        let (Some(racks), Some(meetings)) = (&mut self.racks, &mut self.meetings) else {
            return;
        };
        self.chosen.resize(timeslot.len(), 0);
        self.class.clear();
        self.short.clear();
        self.places.clear();
        let ends = |packet: &Allocation, of: &[u16]| {
            [packet.source(), packet.destination()].map(|end| of[usize::from(end)])
        };
        let is_between = |packet: &Allocation, of: &[u16]| {
            let [from, to] = ends(packet, of);
            from != to
        };
        let is_short = |packet: &Allocation| has_long && !is_between(packet, &self.pod);
        meetings.begin(number);
        for is_wanted in [true, false] {
            for (place, packet) in timeslot.iter().enumerate() {
                if !is_between(packet, &self.rack) || is_short(packet) != is_wanted {
                    continue;
                }
                self.places.push(place);
                match is_wanted {
                    true => {
                        let [_, to] = ends(packet, &self.rack);
                        let free = meetings.free(to);
                        self.short.push((*packet, turned_back(free, turn, edge)));
                    }
                    false => self.class.push(*packet),
                }
            }
        }
        let ways = racks.select_two(&self.short, &self.class);
        for (place, way) in self.places.iter().zip(ways) {
            let way = turned(*way, turn, edge);
            self.chosen[*place] = way;
            let packet = &timeslot[*place];
            if !is_short(packet) {
                let [_, to] = ends(packet, &self.rack);
                meetings.long(to, way);
            }
        }
    }
}

/// A way's number, turned by so many, of so many ways.
fn turned(way: u8, turn: u8, ways: usize) -> u8 {
    ((usize::from(way) + usize::from(turn)) % ways) as u8
}

/// Of which ways the numbers, turned, are among these: a bit for each.
fn turned_back(set: u64, turn: u8, ways: usize) -> u64 {
    if turn == 0 {
        return set;
    }
    let is_in = |way: &usize| set >> turned(*way as u8, turn, ways) & 1 != 0;
    let ways = (0..ways.min(64)).filter(is_in);
    ways.fold(0, |all, way| all | 1 << way)
}
