// SPDX-License-Identifier: MIT OR Apache-2.0

//! The authors' way to allocate timeslots and to select paths, written anew: what weft's is
//! compared with.
//!
//! **Allocation**: batches of 16 timeslots, as bitmaps of an endpoint; a table of all pairs with
//! what each still needs and its last timeslot; pairs in bins by how long ago that was, exactly for
//! the last 16 timeslots and by ever longer periods before; each time it is asked a pair is looked
//! up, and given one timeslot.
//!
//! **Path selection**: the racks' multigraph is filled up until each rack has as many packets, then
//! split into halves along Euler circuits, and these again, for four paths.

use crate::demands::Request;

const BATCH: usize = 16;
const AGES: usize = 2 * BATCH;

/// Source and destination.
pub(crate) type Pair = (u16, u16);

/// The authors' allocation.
pub(crate) struct Allocation {
    nodes: usize,
    next: u64,
    known: Vec<Known>,
    newcomers: Vec<Pair>,
    bins: Vec<Vec<Pair>>,
    /// Pairs that come into the bins of this batch: by age, then by timeslot.
    coming: Vec<Vec<Pair>>,
    left: Vec<Vec<Pair>>,
    to_send: Vec<u64>,
    to_receive: Vec<u64>,
    /// What each timeslot of the batch was given to.
    pub(crate) given: Vec<Vec<Pair>>,
}

#[derive(Clone, Copy, Default)]
struct Known {
    slots: u32,
    last: u32,
}

impl Allocation {
    pub(crate) const BATCH: usize = BATCH;

    pub(crate) fn new(nodes: usize) -> Self {
        let bins = |count| (0..count).map(|_| Vec::with_capacity(nodes)).collect();
        Self {
            nodes,
            next: 1 << 20,
            known: vec![Known::default(); nodes * nodes],
            newcomers: Vec::new(),
            bins: bins(AGES),
            coming: bins(AGES + BATCH),
            left: bins(AGES),
            to_send: vec![0; nodes],
            to_receive: vec![0; nodes],
            given: bins(BATCH),
        }
    }

    pub(crate) fn request(&mut self, request: &Request) {
        let place = usize::from(request.source) * self.nodes + usize::from(request.destination);
        let known = &mut self.known[place];
        if known.slots == 0 {
            self.newcomers.push((request.source, request.destination));
        }
        known.slots += u32::from(request.slots);
    }

    pub(crate) fn allocate(&mut self) {
        self.to_send.fill((1 << BATCH) - 1);
        self.to_receive.fill((1 << BATCH) - 1);
        self.given.iter_mut().for_each(Vec::clear);
        for (source, destination) in std::mem::take(&mut self.newcomers) {
            let known = &self.known[usize::from(source) * self.nodes + usize::from(destination)];
            let age = (self.next - 1 - u64::from(known.last)) as usize;
            let bin = (AGES - 1 - age % BATCH).checked_shr((age / BATCH) as u32);
            self.coming[bin.unwrap_or(0)].push((source, destination));
        }
        for age in 0..AGES {
            let bin = std::mem::take(&mut self.bins[age]);
            self.ask(bin.iter().copied(), age / 2);
            self.bins[age] = bin;
            let mut bin = std::mem::take(&mut self.coming[age]);
            self.ask(bin.drain(..), age / 2);
            self.coming[age] = bin;
        }
        for slot in 0..BATCH {
            let mut bin = std::mem::take(&mut self.coming[AGES + slot]);
            self.ask(bin.drain(..), BATCH + slot);
            self.coming[AGES + slot] = bin;
        }
        std::mem::swap(&mut self.bins, &mut self.left);
        self.left.iter_mut().for_each(Vec::clear);
        self.next += BATCH as u64;
    }

    fn ask(&mut self, pairs: impl Iterator<Item = Pair>, left: usize) {
        for (source, destination) in pairs {
            let [from, to] = [source, destination].map(usize::from);
            let free = self.to_send[from] & self.to_receive[to];
            if free == 0 {
                self.left[left].push((source, destination));
                continue;
            }
            let slot = free.trailing_zeros() as usize;
            self.to_send[from] &= !(1 << slot);
            self.to_receive[to] &= !(1 << slot);
            self.given[slot].push((source, destination));
            let known = &mut self.known[from * self.nodes + to];
            known.last = (self.next + slot as u64) as u32;
            known.slots -= 1;
            if known.slots > 0 {
                self.coming[AGES + slot].push((source, destination));
            }
        }
    }
}

/// Racks, and hosts of each.
pub(crate) const RACKS: usize = 8;
pub(crate) const HOSTS: usize = 32;
/// Paths between racks; a link takes [`HOSTS`] / 4 packets of a timeslot.
pub(crate) const PATHS: usize = 4;

/// The authors' path selection.
#[derive(Default)]
pub(crate) struct Paths {
    /// Packets from rack to rack that have no path yet: their numbers.
    packets: [[Vec<u16>; RACKS]; RACKS],
}

/// How many packets there are from each rack to each, and a bit for where there are any.
#[derive(Clone, Copy, Default)]
struct Graph {
    edges: [[u8; RACKS]; RACKS],
    out: [u64; RACKS],
    into: [u64; RACKS],
}

impl Graph {
    fn add(&mut self, from: usize, to: usize) {
        self.edges[from][to] += 1;
        self.out[from] |= 1 << to;
        self.into[to] |= 1 << from;
    }

    fn take(&mut self, from: usize, to: usize) {
        self.edges[from][to] -= 1;
        if self.edges[from][to] == 0 {
            self.out[from] &= !(1 << to);
            self.into[to] &= !(1 << from);
        }
    }

    /// Takes all edges, along circuits: those that go forward, and those that go back.
    fn split(&mut self, mut take: impl FnMut(usize, usize, bool)) {
        for start in 0..RACKS {
            let mut from = start;
            while self.out[from] != 0 {
                let to = self.out[from].trailing_zeros() as usize;
                self.take(from, to);
                take(from, to, true);
                from = self.into[to].trailing_zeros() as usize;
                self.take(from, to);
                take(from, to, false);
            }
        }
    }
}

impl Paths {
    /// The path of each packet.
    pub(crate) fn select(&mut self, packets: &[Pair], chosen: &mut Vec<u8>) {
        chosen.clear();
        chosen.resize(packets.len(), 0);
        let mut whole = Graph::default();
        let (mut out, mut into) = ([0; RACKS], [0; RACKS]);
        for (number, (source, destination)) in packets.iter().enumerate() {
            let [from, to] = [source, destination].map(|node| usize::from(*node) / HOSTS);
            self.packets[from][to].push(number as u16);
            whole.add(from, to);
            out[from] += 1;
            into[to] += 1;
        }
        let degree = out.iter().chain(&into).copied().max().unwrap_or(0);
        let degree = usize::next_multiple_of(degree, PATHS);
        let mut to = 0;
        for (from, out) in out.iter().enumerate() {
            for _ in *out..degree {
                while into[to] == degree {
                    to += 1;
                }
                whole.add(from, to);
                into[to] += 1;
            }
        }
        let mut halves = [Graph::default(); 2];
        whole.split(|from, to, forward| halves[usize::from(forward)].add(from, to));
        for (half, mut graph) in halves.into_iter().enumerate() {
            graph.split(|from, to, forward| {
                // There is none of those that fill up.
                if let Some(number) = self.packets[from][to].pop() {
                    chosen[usize::from(number)] = (2 * half + usize::from(forward)) as u8;
                }
            });
        }
    }
}
