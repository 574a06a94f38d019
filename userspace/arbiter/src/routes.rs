// SPDX-License-Identifier: MIT OR Apache-2.0

//! Paths of a fabric of two or three layers, so that no two packets of a timeslot share a link.
//!
//! A host's switch (of its rack) has `edge` ways up, each to another switch of the pod, and each of
//! these has `core` ways up to other pods. First each packet is given one of `edge` colours, such
//! that a rack sends and receives no two packets of one colour (or as many as a link carries, if a
//! rack has more hosts than ways). The packets of one colour meet at one switch of each pod. They
//! form a separate fabric, with pods in place of racks, and are given one of `core` colours. A
//! fabric of two layers is one in which pods do not matter, with one way up from there.
//!
//! If paths of different length have different [lags](Lags), packets within a pod meet other
//! packets on the links to hosts' switches, which were sent in an earlier timeslot and have come
//! from another pod: [`meetings`](crate::meetings).
//!
//! Around failed components, [`detours`](crate::detours) replace these paths.

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
    /// If a component has failed.
    detours: Option<Detours>,
    /// Unless there is only one way.
    racks: Option<Paths>,
    /// Unless there is only one way, or one pod.
    pods: Option<Paths>,
    /// If paths have different lags.
    meetings: Option<Meetings>,
    /// By endpoint.
    rack: Vec<u16>,
    pod: Vec<u16>,
    /// The packets of one colour, and the index of each in the timeslot.
    class: Vec<Allocation>,
    /// The packets on short paths, and the free ways up for each.
    short: Vec<(Allocation, u64)>,
    places: Vec<usize>,
    chosen: Vec<u8>,
}

impl Routes {
    /// For a fabric with these endpoints.
    ///
    /// # Errors
    ///
    /// As for [`Paths::new`]; also [`Invalid::Racks`] if there are lags and more racks than half of
    /// [`MAX_RACKS`], and [`Invalid::Paths`] if there are more than 256 paths.
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
                // The packets that a switch of the pod gets in a timeslot: those of one colour of
                // each rack.
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

    /// From now on no packet crosses these.
    pub fn avoid(&mut self, components: &[Component]) {
        let is_apart = self.meetings.as_ref().is_some_and(Meetings::is_apart);
        let detours = || Detours::new(&self.addresses, self.ways, is_apart, components);
        self.detours = (!components.is_empty()).then(detours);
    }

    /// The result of the last [`select`](Self::select).
    pub fn selected(&self) -> &[u8] {
        &self.chosen
    }

    /// The packets of the last timeslot that have no path, as indices in order: no path that avoids
    /// the failed components has room for them.
    pub fn waiting(&self) -> &[usize] {
        self.detours.as_ref().map_or(&[], Detours::waiting)
    }

    /// Whether packets within a pod meet others that were sent in another timeslot. In a single pod
    /// all paths are alike.
    fn has_long(&self) -> bool {
        let is_apart = self.meetings.as_ref().is_some_and(Meetings::is_apart);
        is_apart && self.pod.last().is_some_and(|pod| *pod > 0)
    }

    /// The rotation of the ways' numbers in a timeslot, for this many ways. Any rotation is equally
    /// good. But if one way is closed, it should not affect the same packets each time. And if
    /// packets on long and short paths meet and cannot make room, the same way would be overloaded
    /// in each timeslot in which the same hosts send, while another has unused room.
    fn turn(&self, number: u64, ways: usize) -> u8 {
        match self.detours.is_some() || self.has_long() {
            true => Detours::turn(number, ways) as u8,
            false => 0,
        }
    }

    /// Returns the path of each of a timeslot's packets, from 0: its way up from the host's switch,
    /// plus `edge` times that from the next switch. `timeslot` comes from an
    /// [`Allocator`](crate::Allocator) with the same lags; its number increases each time.
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
        // Each one separately.
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

    /// Chooses the ways up from hosts' switches, for packets with the longest lag and for others.
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

/// A way's number, rotated by `turn` among `ways` ways.
fn turned(way: u8, turn: u8, ways: usize) -> u8 {
    ((usize::from(way) + usize::from(turn)) % ways) as u8
}

/// The ways whose rotated numbers are in this set: a bit for each.
fn turned_back(set: u64, turn: u8, ways: usize) -> u64 {
    if turn == 0 {
        return set;
    }
    let is_in = |way: &usize| set >> turned(*way as u8, turn, ways) & 1 != 0;
    let ways = (0..ways.min(64)).filter(is_in);
    ways.fold(0, |all, way| all | 1 << way)
}
