// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Packets, their lists, and a switch of a few ports.
#![allow(dead_code, reason = "tests, fuzz targets and examples each use a part")]

use std::collections::VecDeque;
use std::rc::Rc;
use weft_mechanisms::bfc::egress::{
    Arrival, Cause, Census, Egress, Memory, Pushback, QueueState, Scheduler, Shape, Threshold,
    Tuning,
};
use weft_mechanisms::bfc::elision::Elision;
use weft_mechanisms::bfc::fifo::{Fifo, Note};
use weft_mechanisms::bfc::flows::Assign;
use weft_mechanisms::bfc::ingress::Tell;
use weft_mechanisms::bfc::neighbour::{Heard, Rules, Treatment};
use weft_mechanisms::bfc::queue_set::QueueSet;
use weft_mechanisms::bfc::switch::{Frame, Link, PortMemory, Room};
use weft_mechanisms::common::share::Share;
use weft_mechanisms::heap::Heap;

/// An owned packet, neither `Copy` nor `Clone`: none can be duplicated, and the count of its `Rc`
/// reveals a lost one.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) id: u32,
    pub(crate) len: u32,
    pub(crate) rank: u32,
    /// The number written into it for the next hop.
    pub(crate) upstream_queue: u16,
    alive: Rc<()>,
}

/// A list of packets.
#[derive(Debug)]
pub(crate) struct List(VecDeque<(Packet, u64)>);

impl Fifo for List {
    type Packet = Packet;

    fn new() -> Self {
        Self(VecDeque::new())
    }

    fn push(&mut self, packet: Packet, note: Note) {
        self.0.push_back((packet, note.to_bits()));
    }

    fn pop(&mut self) -> Option<(Packet, Note)> {
        let (packet, note) = self.0.pop_front()?;
        Some((packet, Note::from_bits(note)))
    }

    fn first_len(&self) -> u32 {
        self.0.front().map_or(0, |(packet, _)| packet.len)
    }

    fn first_rank(&self) -> u32 {
        self.0.front().map_or(0, |(packet, _)| packet.rank)
    }
}

pub(crate) type Switch = weft_mechanisms::bfc::switch::Switch<Heap>;
pub(crate) type Port = Egress<List, Heap>;

/// The paper's link: 100 Gbit/s, 1-hop RTT 2 µs, so that a 1-hop BDP is 25,000 bytes.
pub(crate) const RATE: u64 = 12_500_000_000;
pub(crate) const HRTT: u64 = 2_000;
pub(crate) const BDP: u64 = 25_000;
pub(crate) const REFRESH: u64 = 20_000;
/// The paper's packets.
pub(crate) const MTU: u32 = 1_000;

pub(crate) const SHAPE: Shape = Shape {
    queues: 31,
    entries: 3_200,
    assign: Assign::Dynamic,
    scheduler: Scheduler::Fq,
    classes: 1,
    incast: None,
    control: None,
};

pub(crate) const TUNING: Tuning = Tuning {
    limit: u64::MAX,
    share: share(u64::MAX, 0),
    threshold: Threshold::OneHopBdp {
        rate: RATE,
        percent: 100,
    },
    pushback: Pushback::All,
    sticky: None,
    sample: 100,
    quantum: MTU,
    elision: Elision::NONE,
};

pub(crate) const TUNING_WITH_BUFFER: Tuning = Tuning {
    share: share(100_000, 0),
    ..TUNING
};

/// A share of a buffer.
pub(crate) const fn share(buffer: u64, alpha: u32) -> Share {
    Share::new(buffer, alpha)
}

pub(crate) const LINK: Link = Link {
    hrtt: HRTT,
    refresh: REFRESH,
    rules: Rules::NONE,
};

/// Makes room, as the kernel does, and joins.
pub(crate) fn join(
    switch: &mut Switch,
    device: u32,
    queues: u16,
    link: &Link,
    sequence: u64,
    now: u64,
) -> Result<weft_mechanisms::bfc::switch::Place, weft_mechanisms::bfc::switch::Refused> {
    if let Some(ports) = switch.wanted_room() {
        let Ok(room) = Room::new(ports);
        drop(switch.grow(room));
    }
    let Ok(mut memory) = PortMemory::new(switch.wanted_numbers(device, queues));
    switch.join(device, queues, link, sequence, now, &mut memory)
}

pub(crate) fn empty_switch() -> Switch {
    let Ok(room) = Room::new(0);
    Switch::new(room)
}

pub(crate) fn memory(shape: &Shape) -> Memory<List, Heap> {
    let Ok(memory) = Memory::new(shape);
    memory
}

/// A switch whose ports are devices 1, 2, …, and a clock.
pub(crate) struct Rig {
    pub(crate) switch: Switch,
    pub(crate) ports: Vec<Port>,
    pub(crate) now: u64,
    next_id: u32,
    sequence: u64,
    alive: Rc<()>,
}

impl Rig {
    pub(crate) fn new(ports: usize) -> Self {
        Self::with(&vec![(SHAPE, TUNING); ports])
    }

    pub(crate) fn with(ports: &[(Shape, Tuning)]) -> Self {
        let mut rig = Self {
            switch: empty_switch(),
            ports: Vec::new(),
            now: 1_000_000,
            next_id: 0,
            sequence: 0,
            alive: Rc::new(()),
        };
        for (shape, tuning) in ports {
            rig.add(rig.ports.len() as u32 + 1, shape, *tuning);
        }
        rig
    }

    /// Adds a port; returns its number.
    pub(crate) fn add(&mut self, device: u32, shape: &Shape, tuning: Tuning) -> usize {
        let place = join(&mut self.switch, device, shape.queues, &LINK, 0, self.now).unwrap();
        self.ports
            .push(Egress::new(memory(shape), tuning, place, 0x5eed));
        self.ports.len() - 1
    }

    pub(crate) fn packet(&mut self, arrival: &Arrival) -> Packet {
        self.next_id += 1;
        Packet {
            id: self.next_id,
            len: arrival.len,
            rank: arrival.rank,
            upstream_queue: 0,
            alive: Rc::clone(&self.alive),
        }
    }

    /// Packets that exist.
    pub(crate) fn alive(&self) -> usize {
        Rc::strong_count(&self.alive) - 1
    }

    /// A packet arrives at an egress port; returns its number and its queue.
    pub(crate) fn enqueue(&mut self, port: usize, arrival: &Arrival) -> Result<(u32, u16), Cause> {
        let packet = self.packet(arrival);
        let id = packet.id;
        let mut given = None;
        let result = self.ports[port].enqueue(
            &mut self.switch,
            packet,
            arrival,
            self.now,
            |mut packet, queue| {
                packet.upstream_queue = queue;
                given = Some(queue);
                packet
            },
        );
        match result {
            Ok(()) => Ok((id, given.expect("a queued packet is marked"))),
            Err((packet, cause)) => {
                assert_eq!(packet.id, id);
                assert_eq!(given, None, "a dropped packet is not marked");
                Err(cause)
            }
        }
    }

    /// The queue that a packet of a flow gets; the packet must be accepted.
    pub(crate) fn queue_of(&mut self, port: usize, arrival: &Arrival) -> u16 {
        self.enqueue(port, arrival).unwrap().1
    }

    pub(crate) fn dequeue(&mut self, port: usize) -> Option<Packet> {
        self.ports[port].dequeue(&mut self.switch, self.now)
    }

    /// Dequeues until there is nothing; returns the packets' numbers.
    pub(crate) fn drain(&mut self, port: usize) -> Vec<u32> {
        std::iter::from_fn(|| self.dequeue(port).map(|packet| packet.id)).collect()
    }

    /// The frames to send now.
    pub(crate) fn frames(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.switch.next_frame(self.now)).collect()
    }

    /// The messages to the neighbours now: device and message.
    pub(crate) fn told(&mut self) -> Vec<(u32, Tell)> {
        self.frames()
            .iter()
            .map(|frame| (frame.device, frame.tell))
            .collect()
    }

    /// A message arrives from the downstream neighbour of a port; it holds for a millisecond.
    pub(crate) fn hear(&mut self, device: u32, tell: Tell) {
        self.sequence += 1;
        let heard = Heard {
            from: [2, 0, 0, 0, 0, device as u8],
            sequence: self.sequence,
            hold: 1_000_000,
            tell,
        };
        let verdict = self.switch.hear(device, &heard, self.now);
        assert!(
            matches!(verdict, Some(Treatment::Taken { .. })),
            "{verdict:?}"
        );
    }

    /// The state of a queue.
    pub(crate) fn queue(&mut self, port: usize, queue: u16) -> Option<QueueState> {
        self.ports[port].queue(queue, &mut self.switch, self.now)
    }

    /// The total paused time of a port's queues until now.
    pub(crate) fn paused_ns(&mut self, port: usize) -> u64 {
        self.ports[port].paused_ns(&mut self.switch, self.now)
    }

    /// The number of queues of a port in each state.
    pub(crate) fn census(&mut self, port: usize) -> Census {
        self.ports[port].sync(&mut self.switch, self.now);
        self.ports[port].census()
    }

    pub(crate) fn check(&self) {
        for port in &self.ports {
            port.check_invariants().unwrap();
        }
    }
}

/// A full packet of a flow that arrived on a device.
pub(crate) fn from(device: u32, upstream_queue: u16, flow: u32) -> Arrival {
    Arrival {
        len: MTU,
        rank: 0,
        flow: hash(flow),
        device,
        upstream_queue,
    }
}

/// A full packet of a flow sent from this host.
pub(crate) fn local(flow: u32) -> Arrival {
    from(0, 0, flow)
}

/// Spreads flow numbers over the flow table, as the kernel's hash does.
pub(crate) fn hash(flow: u32) -> u32 {
    flow.wrapping_mul(0x9E37_79B9)
}

/// A set of queues.
pub(crate) fn set(queues: &[u16]) -> QueueSet {
    let mut set = QueueSet::EMPTY;
    queues.iter().for_each(|queue| set.insert(*queue));
    set
}
