// SPDX-License-Identifier: MIT OR Apache-2.0

//! The components of a fabric that can fail, links and switches, and the components of a packet's
//! path.
//!
//! A packet goes up from its host's switch by one of `edge` ways, each to another switch of the
//! pod. If it goes to another pod it continues by one of `core` ways, and it comes down again by
//! the ways of the same numbers. So a path is identified by its number and its two ends.

use std::fmt;

use weft_mechanisms::fastpass::address::Addresses;

/// The number of ways up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// From a host's switch.
    pub edge: usize,
    /// From the switches above it.
    pub core: usize,
}

/// A link or a switch. The order decides which one is named if the evidence is equal: links first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The link of an endpoint.
    Host(u16),
    /// The link from a host's switch to the switch of its pod on this way.
    RackLink {
        /// The pod.
        pod: u16,
        /// The switch, of those of the pod that have hosts.
        rack: u16,
        /// The way.
        way: u16,
    },
    /// The link from such a switch of the pod to a core switch.
    PodLink {
        /// The pod.
        pod: u16,
        /// The way by which the switch is reached from below.
        way: u16,
        /// The next way up.
        core: u16,
    },
    /// A switch with hosts.
    Rack {
        /// The pod.
        pod: u16,
        /// The switch.
        rack: u16,
    },
    /// The switch of a pod on this way.
    Pod {
        /// The pod.
        pod: u16,
        /// The way.
        way: u16,
    },
    /// The core switch that all pods' switches of a way reach by this next way.
    Core {
        /// The way.
        way: u16,
        /// The next way up.
        core: u16,
    },
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Host(endpoint) => write!(f, "link of endpoint {endpoint}"),
            Self::RackLink { pod, rack, way } => {
                write!(f, "link of rack {pod}.{rack} by way {way}")
            }
            Self::PodLink { pod, way, core } => {
                write!(f, "link of pod {pod}, way {way}, to core {core}")
            }
            Self::Rack { pod, rack } => write!(f, "switch of rack {pod}.{rack}"),
            Self::Pod { pod, way } => write!(f, "switch of pod {pod}, way {way}"),
            Self::Core { way, core } => write!(f, "switch of way {way}, core {core}"),
        }
    }
}

impl Component {
    /// Whether it is a link between switches, and the other one is a switch at one of its ends: all
    /// packets that cross the link cross the switch.
    pub(crate) fn is_link_of(self, other: Self) -> bool {
        match (self, other) {
            (Self::RackLink { pod, rack, way }, other) => {
                other == Self::Rack { pod, rack } || other == Self::Pod { pod, way }
            }
            (Self::PodLink { pod, way, core }, other) => {
                other == Self::Pod { pod, way } || other == Self::Core { way, core }
            }
            _ => false,
        }
    }
}

/// The direction in which a packet crosses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From hosts to the core.
    Up,
    /// From the core to hosts.
    Down,
    /// Either direction.
    Both,
}

/// The most links and switches of a path.
pub const LONGEST: usize = 11;

/// A fabric.
#[derive(Clone, Copy, Debug)]
pub struct Fabric {
    hosts: u16,
    racks: u16,
    pods: u16,
    edge: u16,
    core: u16,
}

impl Fabric {
    /// A fabric of these endpoints, with these ways up: at most 256 paths.
    pub fn new(addresses: &Addresses, ways: Ways) -> Self {
        Self {
            hosts: addresses.hosts as u16,
            racks: addresses.racks as u16,
            pods: addresses.pods as u16,
            edge: ways.edge as u16,
            core: ways.core as u16,
        }
    }

    /// The number of endpoints.
    pub fn endpoints(&self) -> u16 {
        self.hosts * self.racks * self.pods
    }

    /// The number of paths.
    pub fn paths(&self) -> u16 {
        self.edge * self.core
    }

    /// The number of links and switches of each kind, in their order.
    fn kinds(&self) -> [usize; 6] {
        let Self { racks, pods, .. } = *self;
        let [racks, pods, edge, core] = [racks, pods, self.edge, self.core].map(usize::from);
        [
            self.endpoints().into(),
            pods * racks * edge,
            pods * edge * core,
            pods * racks,
            pods * edge,
            edge * core,
        ]
    }

    /// The number of links and switches.
    pub(crate) fn components(&self) -> usize {
        self.kinds().iter().sum()
    }

    /// The place of a component among all, in their order.
    pub(crate) fn place(&self, component: Component) -> usize {
        let place = |of: [u16; 3], [second, third]: [u16; 2]| {
            let [a, b, c] = of.map(usize::from);
            (a * usize::from(second) + b) * usize::from(third) + c
        };
        let (kind, place) = match component {
            Component::Host(endpoint) => (0, endpoint.into()),
            Component::RackLink { pod, rack, way } => {
                (1, place([pod, rack, way], [self.racks, self.edge]))
            }
            Component::PodLink { pod, way, core } => {
                (2, place([pod, way, core], [self.edge, self.core]))
            }
            Component::Rack { pod, rack } => (3, place([0, pod, rack], [self.pods, self.racks])),
            Component::Pod { pod, way } => (4, place([0, pod, way], [self.pods, self.edge])),
            Component::Core { way, core } => (5, place([0, way, core], [self.edge, self.core])),
        };
        self.kinds()[..kind].iter().sum::<usize>() + place
    }

    /// The pod of an endpoint, and the endpoint's switch in that pod.
    pub fn rack(&self, endpoint: u16) -> (u16, u16) {
        let rack = endpoint / self.hosts;
        (rack / self.racks, rack % self.racks)
    }

    /// The components that a packet crosses from an endpoint to another one, by a path.
    pub fn path(
        &self,
        from: u16,
        to: u16,
        path: u8,
    ) -> impl Iterator<Item = (Component, Direction)> + use<> {
        let (way, core) = (u16::from(path) % self.edge, u16::from(path) / self.edge);
        let [start, end] = [from, to].map(|endpoint| self.rack(endpoint));
        let mut all = [None; LONGEST];
        let mut places = all.iter_mut();
        let mut put = |component, direction| {
            if let Some(place) = places.next() {
                *place = Some((component, direction));
            }
        };
        put(Component::Host(from), Direction::Up);
        let rack = |(pod, rack)| Component::Rack { pod, rack };
        let rack_link = |(pod, rack)| Component::RackLink { pod, rack, way };
        let pod = |(pod, _)| Component::Pod { pod, way };
        let pod_link = |(pod, _)| Component::PodLink { pod, way, core };
        put(rack(start), Direction::Both);
        if start != end {
            put(rack_link(start), Direction::Up);
            put(pod(start), Direction::Both);
            if start.0 != end.0 {
                put(pod_link(start), Direction::Up);
                put(Component::Core { way, core }, Direction::Both);
                put(pod_link(end), Direction::Down);
                put(pod(end), Direction::Both);
            }
            put(rack_link(end), Direction::Down);
            put(rack(end), Direction::Both);
        }
        put(Component::Host(to), Direction::Down);
        all.into_iter().flatten()
    }

    /// Whether packets can avoid one more component: each pair of endpoints has another path, even
    /// without the components already avoided.
    pub fn can_avoid(&self, avoided: &[Component], one_more: Component) -> bool {
        // A host has one link and one switch.
        if matches!(one_more, Component::Host(_) | Component::Rack { .. }) {
            return false;
        }
        let is_closed = |it: Component| it == one_more || avoided.contains(&it);
        let racks: Vec<(u16, u16)> = (0..self.pods)
            .flat_map(|pod| (0..self.racks).map(move |rack| (pod, rack)))
            .collect();
        racks.iter().all(|&from| {
            racks.iter().filter(|to| **to != from).all(|&to| {
                let [from, to] =
                    [from, to].map(|(pod, rack)| (pod * self.racks + rack) * self.hosts);
                (0..self.paths()).any(|path| {
                    let mut components = self.path(from, to, path as u8);
                    !components.any(|(component, _)| is_closed(component))
                })
            })
        })
    }
}
