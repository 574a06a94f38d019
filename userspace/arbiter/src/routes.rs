// SPDX-License-Identifier: MIT OR Apache-2.0

//! Paths of a fabric of two or three layers, so that no two packets of a timeslot share a link.
//!
//! A host's switch (of its rack) has `edge` ways up, each to another switch of the pod, and each of these `core` ways up
//! to other pods. First each packet is given one of `edge` colours, such that a rack sends and receives no
//! two of one colour (as many as a link carries, where a rack has more hosts than ways). The packets of one colour meet at
//! one switch of each pod: they are a fabric of their own, of pods in the place of racks, and are given one of `core`
//! colours. A fabric of two layers is one in which pods do not matter, with one way up from there.
//!
//! Where ways of different length have different [lags](Lags), packets of a pod's own meet others on the links to hosts' switches
//! that were sent in an earlier timeslot and have come from another pod: [`meetings`](crate::meetings).

use weft_core::fastpass::address::Addresses;

use crate::free::groups;
use crate::meetings::Meetings;
use crate::paths::{MAX_COLOURS, MAX_RACKS, Paths};
use crate::{Allocation, Invalid, Lags};

/// How many ways up there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// From a host's switch.
    pub edge: usize,
    /// From the switches above it.
    pub core: usize,
}

/// Chooses paths.
#[derive(Clone, Debug)]
pub struct Routes {
    ways: Ways,
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
    /// As of [`Paths::new`], and [`Invalid::Racks`] too if there are lags and more racks than half of [`MAX_RACKS`]; and [`Invalid::Paths`] if there are more than 256 paths.
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

    /// The path of each of a timeslot's packets, from 0: its way up from the host's switch, and `edge` times that from the
    /// next one. `timeslot` is as an [`Allocator`](crate::Allocator) makes them, of the same lags; its number is higher each time.
    pub fn select(&mut self, number: u64, timeslot: &[Allocation]) -> &[u8] {
        self.chosen.clear();
        match (&mut self.racks, &mut self.meetings) {
            (Some(_), Some(_)) => self.select_by_lag(number, timeslot),
            (Some(racks), None) => self.chosen.extend_from_slice(racks.select(timeslot)),
            (None, _) => self.chosen.resize(timeslot.len(), 0),
        }
        let Some(pods) = &mut self.pods else {
            return &self.chosen;
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
            for (place, core) in self.places.iter().zip(cores) {
                self.chosen[*place] = (way + self.ways.edge * usize::from(*core)) as u8;
            }
        }
        &self.chosen
    }

    /// The ways up from hosts' switches, those that have the longest lag and others.
    fn select_by_lag(&mut self, number: u64, timeslot: &[Allocation]) {
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
        // Of a single pod all are alike.
        let has_long = meetings.is_apart() && self.pod.last().is_some_and(|pod| *pod > 0);
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
                        self.short.push((*packet, meetings.free(to)));
                    }
                    false => self.class.push(*packet),
                }
            }
        }
        let ways = racks.select_two(&self.short, &self.class);
        for (place, way) in self.places.iter().zip(ways) {
            self.chosen[*place] = *way;
            let packet = &timeslot[*place];
            if !is_short(packet) {
                let [_, to] = ends(packet, &self.rack);
                meetings.long(to, *way);
            }
        }
    }
}
