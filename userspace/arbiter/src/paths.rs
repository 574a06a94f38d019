// SPDX-License-Identifier: MIT OR Apache-2.0

//! Path selection: no two packets of a timeslot share a link between racks (Fastpass, §4).
//!
//! # The rule
//!
//! Racks are joined by core switches, each of which is a **path** between any two racks. A
//! timeslot's packets are edges of a bipartite multigraph, from their sources' racks to their
//! destinations'. If a rack of h hosts has h links to the core, no two packets from one rack may
//! take the same path, and no two packets to one rack. So paths are colours of edges, such that
//! edges that meet in a rack have different colours. h colours are enough, as no rack has more than
//! h edges on either side (D. König, 1916). If there are fewer paths, with correspondingly faster
//! links, a path stands for several colours.
//!
//! # The algorithm
//!
//! An edge gets the first colour that is free at both its racks, one operation on two words. If
//! there is none, there is a colour `a` that is free at the rack of departure, and another one `b`
//! that is free at the rack of arrival. The edges with either colour that are connected to the rack
//! of arrival form a path that does not contain the rack of departure: they exchange `a` and `b`
//! (A. Kempe, 1879), and `a` is then free at both.

use crate::{Allocation, Invalid, MAX_ENDPOINTS};

/// The most racks.
pub const MAX_RACKS: usize = 256;

/// The most packets that may leave a rack in a timeslot, and arrive at it: a bit of a word for
/// each.
pub const MAX_COLOURS: usize = 64;

/// Chooses paths.
#[derive(Clone, Debug)]
pub struct Paths {
    paths: usize,
    colours: usize,
    racks: usize,
    /// The rack of each endpoint.
    rack: Box<[u8; MAX_ENDPOINTS]>,
    out: Side,
    into: Side,
    /// The racks of departure and arrival of each packet.
    ends: Vec<(u8, u8)>,
    /// The path of each packet, or its colour until all packets have one.
    chosen: Vec<u8>,
}

/// One side of the bipartite graph.
#[derive(Clone, Debug)]
struct Side {
    /// The colours that no edge has at a rack.
    free: [u64; MAX_RACKS],
    /// By rack and colour: the edge with that colour, unless it is free.
    edges: Box<[u16; MAX_RACKS * MAX_COLOURS]>,
}

impl Side {
    fn new() -> Self {
        Self {
            free: [0; MAX_RACKS],
            edges: Box::new([0; MAX_RACKS * MAX_COLOURS]),
        }
    }

    #[inline(always)]
    fn edge(&mut self, rack: u8, colour: u32) -> &mut u16 {
        &mut self.edges[usize::from(rack) * MAX_COLOURS + colour as usize % MAX_COLOURS]
    }

    #[inline(always)]
    fn is_free(&self, rack: u8, colour: u32) -> bool {
        self.free[usize::from(rack)] >> colour & 1 != 0
    }

    #[inline(always)]
    fn toggle(&mut self, rack: u8, colours: u64) {
        self.free[usize::from(rack)] ^= colours;
    }
}

impl Paths {
    /// For `endpoints`, 1 to [`MAX_ENDPOINTS`], of which the first `hosts` are the first rack, and
    /// so on, with `paths` paths between racks. If there are fewer paths than hosts in a rack, each
    /// link takes the same number of several packets of a timeslot.
    ///
    /// # Errors
    /// [`Invalid::Endpoints`], [`Invalid::Racks`] and [`Invalid::Paths`].
    pub fn new(endpoints: usize, hosts: usize, paths: usize) -> Result<Self, Invalid> {
        Self::of_degree(endpoints, hosts, hosts, paths)
    }

    /// Like `new`, for racks with at most `degree` packets of a timeslot, in either direction,
    /// whatever their hosts are: the input of [`select`](Self::select) must satisfy this.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_degree(
        endpoints: usize,
        hosts: usize,
        degree: usize,
        paths: usize,
    ) -> Result<Self, Invalid> {
        if !(1..=MAX_ENDPOINTS).contains(&endpoints) {
            return Err(Invalid::Endpoints);
        }
        let racks = match hosts {
            0 => return Err(Invalid::Racks),
            hosts => endpoints.div_ceil(hosts),
        };
        if racks > MAX_RACKS {
            return Err(Invalid::Racks);
        }
        if !(1..=MAX_COLOURS).contains(&paths) {
            return Err(Invalid::Paths);
        }
        let colours = degree.max(1).next_multiple_of(paths);
        if colours > MAX_COLOURS {
            return Err(Invalid::Paths);
        }
        let mut rack = Box::new([0; MAX_ENDPOINTS]);
        for (endpoint, rack) in rack[..endpoints].iter_mut().enumerate() {
            *rack = (endpoint / hosts) as u8;
        }
        Ok(Self {
            paths,
            colours,
            racks,
            rack,
            out: Side::new(),
            into: Side::new(),
            ends: Vec::new(),
            chosen: Vec::new(),
        })
    }

    /// Returns the path of each of a timeslot's packets, from 0. `timeslot` is a matching of these
    /// endpoints, as an [`Allocator`](crate::Allocator) makes it.
    pub fn select(&mut self, timeslot: &[Allocation]) -> &[u8] {
        self.begin(self.racks);
        self.ends.extend(timeslot.iter().map(|packet| {
            let [from, to] = [packet.source(), packet.destination()];
            (self.rack[usize::from(from)], self.rack[usize::from(to)])
        }));
        self.paint_all(|_| u64::MAX);
        &self.chosen
    }

    /// Like `select`, for packets `long` that arrive together, and packets `short` that leave with
    /// them and arrive earlier, together: the two share only ways out of racks. The result begins
    /// with those of `short`, each of which has a bit for each path that it should take if
    /// possible. There are at most half of [`MAX_RACKS`] racks.
    pub fn select_two(&mut self, short: &[(Allocation, u64)], long: &[Allocation]) -> &[u8] {
        // The same racks again are where the short ones arrive.
        self.begin(2 * self.racks);
        let racks = self.racks as u8;
        let ends = |packet: &Allocation| {
            [packet.source(), packet.destination()].map(|end| self.rack[usize::from(end)])
        };
        let early = short.iter().map(|(packet, _)| {
            let [from, to] = ends(packet);
            (from, racks.wrapping_add(to))
        });
        let late = long.iter().map(|packet| {
            let [from, to] = ends(packet);
            (from, to)
        });
        self.ends.extend(early.chain(late));
        let (paths, colours) = (self.paths, self.colours);
        self.paint_all(|edge| {
            let Some((_, wanted)) = short.get(edge) else {
                return u64::MAX;
            };
            let of = |colour: &usize| wanted >> (colour % paths) & 1 != 0;
            (0..colours).filter(of).fold(0, |all, it| all | 1 << it)
        });
        &self.chosen
    }

    /// Removes all colours, for this many racks of arrival.
    fn begin(&mut self, racks: usize) {
        let all = u64::MAX >> (MAX_COLOURS - self.colours);
        self.out.free[..self.racks].fill(all);
        self.into.free[..racks].fill(all);
        self.ends.clear();
    }

    /// Gives each edge a colour, a wanted one if one is free; and then the path.
    #[inline(always)]
    fn paint_all(&mut self, wanted: impl Fn(usize) -> u64) {
        self.chosen.clear();
        self.chosen.resize(self.ends.len(), 0);
        for edge in 0..self.ends.len() {
            let (from, to) = self.ends[edge];
            let out = self.out.free[usize::from(from)];
            let into = self.into.free[usize::from(to)];
            let both = out & into;
            let best = match both & wanted(edge) {
                0 => both,
                best => best,
            };
            let colour = match best.trailing_zeros() {
                // None is free at both.
                u64::BITS => {
                    let colour = out.trailing_zeros();
                    self.exchange(to, colour, into.trailing_zeros());
                    colour
                }
                colour => colour,
            };
            self.paint(edge, from, to, colour);
        }
        for chosen in &mut self.chosen {
            *chosen %= self.paths as u8;
        }
    }

    /// Gives an edge a colour that is free at both its racks.
    #[inline(always)]
    fn paint(&mut self, edge: usize, from: u8, to: u8, colour: u32) {
        self.out.toggle(from, 1 << colour);
        self.into.toggle(to, 1 << colour);
        *self.out.edge(from, colour) = edge as u16;
        *self.into.edge(to, colour) = edge as u16;
        self.chosen[edge] = colour as u8;
    }

    /// Frees colour `a` at rack `to`, where `b` is free, on the side of arrival: exchanges the two
    /// along the path of edges that have either.
    fn exchange(&mut self, to: u8, a: u32, b: u32) {
        let both = 1 << a | 1 << b;
        self.into.toggle(to, both);
        let mut edge = *self.into.edge(to, a);
        loop {
            // It arrives where `b` is now free, and leaves a rack where another edge may have it.
            let (from, to) = self.ends[usize::from(edge)];
            self.chosen[usize::from(edge)] = b as u8;
            *self.into.edge(to, b) = edge;
            let next = std::mem::replace(self.out.edge(from, b), edge);
            if self.out.is_free(from, b) {
                self.out.toggle(from, both);
                return;
            }
            *self.out.edge(from, a) = next;
            let (_, to) = self.ends[usize::from(next)];
            self.chosen[usize::from(next)] = a as u8;
            edge = std::mem::replace(self.into.edge(to, a), next);
            if self.into.is_free(to, a) {
                self.into.toggle(to, both);
                return;
            }
        }
    }
}
