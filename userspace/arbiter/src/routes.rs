// SPDX-License-Identifier: MIT OR Apache-2.0

//! Paths of a fabric of two or three layers, so that no two packets of a timeslot share a link.
//!
//! A host's switch (of its rack) has `edge` ways up, each to another switch of the pod, and each of these `core` ways up
//! to other pods. First each packet is given one of `edge` colours, such that a rack sends and receives no
//! two of one colour (as many as a link carries, where a rack has more hosts than ways). The packets of one colour meet at
//! one switch of each pod: they are a fabric of their own, of pods in the place of racks, and are given one of `core`
//! colours. A fabric of two layers is one in which pods do not matter, with one way up from there.

use weft_core::fastpass::address::Addresses;

use crate::paths::{MAX_COLOURS, Paths};
use crate::{Allocation, Invalid};

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
    /// By endpoint.
    pod: Vec<u16>,
    /// Those of one colour, and where each of them is in the timeslot.
    class: Vec<Allocation>,
    places: Vec<usize>,
    chosen: Vec<u8>,
}

impl Routes {
    /// Of a fabric with these endpoints.
    ///
    /// # Errors
    ///
    /// As of [`Paths::new`]; and [`Invalid::Paths`] if there are more than 256 paths.
    pub fn new(addresses: &Addresses, ways: Ways) -> Result<Self, Invalid> {
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
        Ok(Self {
            ways,
            racks: of_racks,
            pods: of_pods,
            pod: (0..endpoints)
                .map(|endpoint| (endpoint / (hosts * racks)) as u16)
                .collect(),
            class: Vec::new(),
            places: Vec::new(),
            chosen: Vec::new(),
        })
    }

    /// The path of each of a timeslot's packets, from 0: its way up from the host's switch, and `edge` times that from the
    /// next one. `timeslot` is a matching of these endpoints.
    pub fn select(&mut self, timeslot: &[Allocation]) -> &[u8] {
        self.chosen.clear();
        match &mut self.racks {
            Some(racks) => self.chosen.extend_from_slice(racks.select(timeslot)),
            None => self.chosen.resize(timeslot.len(), 0),
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
}
