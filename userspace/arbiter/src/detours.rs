// SPDX-License-Identifier: MIT OR Apache-2.0

//! Detours: packets whose path crosses a failed component take another path, or wait.
//!
//! Paths are first chosen as if nothing had failed. No link then carries more than it can, and
//! packets that cross no failed component keep their paths. Each of the others takes a path whose
//! links all work and have room in this timeslot. If there is no such path, the packet gets none:
//! it must not be sent in this timeslot, because traffic beyond a link's capacity would wait at a
//! switch, and finally be lost.
//!
//! If there are fewer ways left than packets need, the packets that wait are drawn again in each
//! timeslot.

use weft_mechanisms::fastpass::address::Addresses;

use crate::Allocation;
use crate::fabric::{Component, Ways};
use crate::free::groups;

/// Paths around failed components.
#[derive(Clone, Debug)]
pub(crate) struct Detours {
    ways: Ways,
    /// The packets of a timeslot that a link of a host's switch carries, and that a link to a core
    /// switch carries.
    rack_room: u8,
    pod_room: u8,
    /// By endpoint.
    rack: Vec<u16>,
    pod: Vec<u16>,
    /// Whether packets within a pod come down in other timeslots than those from other pods.
    is_apart: bool,
    /// By rack and way, and by pod, way and core: whether it is closed, and how many packets of the
    /// timeslot it carries up and down. Down to racks, packets from their pod and from others are
    /// counted separately.
    rack_closed: Vec<bool>,
    pod_closed: Vec<bool>,
    rack_up: Vec<u8>,
    rack_down: [Vec<u8>; 2],
    pod_up: Vec<u8>,
    pod_down: Vec<u8>,
    /// Packets whose path is closed, and those that get none.
    closed: Vec<usize>,
    waiting: Vec<usize>,
}

/// A packet's links: of racks, and of pods if it goes to another pod.
struct Links {
    up: usize,
    down: usize,
    is_far: bool,
    pods: Option<[usize; 2]>,
}

impl Detours {
    /// Detours around these components.
    pub(crate) fn new(
        addresses: &Addresses,
        ways: Ways,
        is_apart: bool,
        avoided: &[Component],
    ) -> Self {
        let [hosts, racks, pods] =
            [addresses.hosts, addresses.racks, addresses.pods].map(|it| it as usize);
        let rack_links = racks * pods * ways.edge;
        let pod_links = pods * ways.edge * ways.core;
        let rack_room = hosts.div_ceil(ways.edge);
        let pod_room = (racks * rack_room).div_ceil(ways.core);
        let room = |it: usize| u8::try_from(it).unwrap_or(u8::MAX);
        let mut detours = Self {
            ways,
            rack_room: room(rack_room),
            pod_room: room(pod_room),
            rack: groups(addresses, addresses.hosts),
            pod: groups(addresses, addresses.hosts * addresses.racks),
            is_apart,
            rack_closed: vec![false; rack_links],
            pod_closed: vec![false; pod_links],
            rack_up: vec![0; rack_links],
            rack_down: [vec![0; rack_links], vec![0; rack_links]],
            pod_up: vec![0; pod_links],
            pod_down: vec![0; pod_links],
            closed: Vec::new(),
            waiting: Vec::new(),
        };
        for component in avoided {
            detours.close(*component, racks);
        }
        detours
    }

    fn close(&mut self, component: Component, racks: usize) {
        let Ways { edge, core: cores } = self.ways;
        let pod_link = |pod: usize, way: usize, core: usize| (pod * edge + way) * cores + core;
        let rack_link = |pod: usize, rack: usize, way: usize| (pod * racks + rack) * edge + way;
        match component {
            Component::RackLink { pod, rack, way } => {
                self.rack_closed[rack_link(pod.into(), rack.into(), way.into())] = true;
            }
            Component::PodLink { pod, way, core } => {
                self.pod_closed[pod_link(pod.into(), way.into(), core.into())] = true;
            }
            Component::Pod { pod, way } => {
                for rack in 0..racks {
                    self.rack_closed[rack_link(pod.into(), rack, way.into())] = true;
                }
            }
            Component::Core { way, core } => {
                for pod in 0..self.pod_closed.len() / (edge * cores) {
                    self.pod_closed[pod_link(pod, way.into(), core.into())] = true;
                }
            }
            // There is no other path.
            Component::Host(_) | Component::Rack { .. } => {}
        }
    }

    /// A number below `end`, a different one for each timeslot.
    pub(crate) fn turn(timeslot: u64, end: usize) -> usize {
        // SplitMix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014). Timeslots at a fixed distance must
        // not draw similar numbers, as they would with multiples alone.
        let hash = timeslot.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((hash ^ hash >> 31) % end.max(1) as u64) as usize
    }

    fn links(&self, packet: &Allocation, path: u8) -> Option<Links> {
        let ends = [packet.source(), packet.destination()].map(usize::from);
        let [from, to] = ends.map(|end| usize::from(self.rack[end]));
        if from == to {
            return None;
        }
        let Ways { edge, core: cores } = self.ways;
        let (way, core) = (usize::from(path) % edge, usize::from(path) / edge);
        let pods = ends.map(|end| usize::from(self.pod[end]));
        let is_far = pods[0] != pods[1];
        Some(Links {
            up: from * edge + way,
            down: to * edge + way,
            is_far,
            pods: is_far.then(|| pods.map(|pod| (pod * edge + way) * cores + core)),
        })
    }

    fn is_closed(&self, links: &Links) -> bool {
        self.rack_closed[links.up]
            || self.rack_closed[links.down]
            || links
                .pods
                .is_some_and(|pods| pods.iter().any(|it| self.pod_closed[*it]))
    }

    fn down(&mut self, is_far: bool) -> &mut Vec<u8> {
        &mut self.rack_down[usize::from(self.is_apart && is_far)]
    }

    fn has_room(&mut self, links: &Links) -> bool {
        let (rack_room, pod_room) = (self.rack_room, self.pod_room);
        self.rack_up[links.up] < rack_room
            && self.down(links.is_far)[links.down] < rack_room
            && links.pods.is_none_or(|[up, down]| {
                self.pod_up[up] < pod_room && self.pod_down[down] < pod_room
            })
    }

    fn take(&mut self, links: &Links) {
        self.rack_up[links.up] += 1;
        self.down(links.is_far)[links.down] += 1;
        if let Some([up, down]) = links.pods {
            self.pod_up[up] += 1;
            self.pod_down[down] += 1;
        }
    }

    /// Changes the closed paths of a timeslot's packets. [`waiting`](Self::waiting) then returns
    /// the packets that must wait.
    pub(crate) fn apply(&mut self, number: u64, timeslot: &[Allocation], chosen: &mut [u8]) {
        let [near, far] = &mut self.rack_down;
        for counts in [
            &mut self.rack_up,
            near,
            far,
            &mut self.pod_up,
            &mut self.pod_down,
        ] {
            counts.fill(0);
        }
        self.closed.clear();
        self.waiting.clear();
        for (place, (packet, path)) in timeslot.iter().zip(chosen.iter()).enumerate() {
            match self.links(packet, *path) {
                Some(links) if self.is_closed(&links) => self.closed.push(place),
                Some(links) => self.take(&links),
                None => {}
            }
        }
        let paths = self.ways.edge * self.ways.core;
        let closed = std::mem::take(&mut self.closed);
        let first = Self::turn(number, closed.len());
        for place in closed[first..].iter().chain(&closed[..first]) {
            let packet = &timeslot[*place];
            let own = usize::from(chosen[*place]);
            let open = (0..paths).find_map(|step| {
                let path = ((own + step) % paths) as u8;
                let links = self.links(packet, path)?;
                (!self.is_closed(&links) && self.has_room(&links)).then_some((path, links))
            });
            match open {
                Some((path, links)) => {
                    self.take(&links);
                    chosen[*place] = path;
                }
                None => self.waiting.push(*place),
            }
        }
        self.closed = closed;
        self.waiting.sort_unstable();
    }

    /// The packets that got no path, as indices into the timeslot, in order.
    pub(crate) fn waiting(&self) -> &[usize] {
        &self.waiting
    }
}
