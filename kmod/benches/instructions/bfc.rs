// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! `bfc`, with 32 queues and a flow table of 3,100 entries.
//!
//! One step is one dequeue and one enqueue at a backlog of n packets of n flows:
//!
//! - `host`: packets sent from this host, as at a host's port.
//! - `switch`: packets that arrived on another port and are below the threshold.
//! - `congested`: all packets are above the threshold, and count at their ingress port: from 31
//!   upstream queues, whose pause counters go from 0 to 1 and back if the backlog is short.
//! - `srf`: as `switch`, in order of the flows' remaining sizes.
//! - `new`: as `switch`, but each packet is of a new flow.
//!
//! And two scenarios of pauses, in which n is the number of ports, at most 1,024:
//!
//! - `pause`: one upstream queue is paused and resumed. Each time the switch is asked, as when its
//!   frames are sent, for due bitmaps, for its frames, and for the time of the next call. At every
//!   port a queue is always paused, so that each port has bitmaps to send.
//! - `bitmap`: one port's bitmap is due, and is sent. All ports send theirs in turn.

use crate::{Heap, Packet, Random, Table};
use std::collections::VecDeque;
use std::hint::black_box;
use weft_mechanisms::bfc::egress::{
    Arrival, Egress, Memory, Pushback, Scheduler, Shape, Threshold, Tuning,
};
use weft_mechanisms::bfc::elision::Elision;
use weft_mechanisms::bfc::fifo::{self, Note};
use weft_mechanisms::bfc::flows::Assign;
use weft_mechanisms::bfc::switch::{Link, PortMemory, Room, Switch};
use weft_mechanisms::common::ports::MAX_PORTS;
use weft_mechanisms::common::share::{Share, ALPHA_1};

pub(crate) const TABLE: Table = Table {
    algorithm: "bfc",
    scenarios: &[
        "host",
        "switch",
        "congested",
        "srf",
        "new",
        "pause",
        "bitmap",
    ],
    run,
};

/// 100 Gbit/s.
const RATE: u64 = 12_500_000_000;
const LEN: u32 = 1500;
/// A packet takes 120 ns.
const STEP_NS: u64 = 120;

/// Packets with the data that the kernel keeps in `skb->cb` and `skb->priority`.
struct List(VecDeque<(Packet, u64, u32)>);

impl fifo::Fifo for List {
    type Packet = (Packet, u32);

    fn new() -> Self {
        Self(VecDeque::new())
    }

    #[inline]
    fn push(&mut self, (packet, rank): (Packet, u32), note: Note) {
        self.0.push_back((packet, note.to_bits(), rank));
    }

    #[inline]
    fn pop(&mut self) -> Option<((Packet, u32), Note)> {
        let (packet, note, rank) = self.0.pop_front()?;
        Some(((packet, rank), Note::from_bits(note)))
    }

    #[inline]
    fn first_len(&self) -> u32 {
        self.0.front().map_or(0, |_| LEN)
    }

    #[inline]
    fn first_rank(&self) -> u32 {
        self.0.front().map_or(0, |(_, _, rank)| *rank)
    }
}

/// A switch of two ports; the second one sends.
struct Port {
    switch: Switch<Heap>,
    egress: Egress<List, Heap>,
    now: u64,
}

impl Port {
    fn new(scheduler: Scheduler, threshold: Threshold) -> Self {
        let Ok(room) = Room::new(2);
        let mut switch = Switch::new(room);
        let shape = Shape {
            queues: 31,
            entries: 3_100,
            assign: Assign::Dynamic,
            scheduler,
            classes: 1,
            incast: None,
            control: None,
        };
        let tuning = Tuning {
            limit: u64::MAX,
            share: Share::new(1 << 30, 8 * ALPHA_1),
            threshold,
            pushback: Pushback::All,
            sticky: None,
            sample: 100,
            quantum: LEN,
            elision: Elision::NONE,
        };
        let link = Link {
            hrtt: 2_000,
            refresh: 20_000,
            ..Link::default()
        };
        let [_, place] = [1, 2].map(|device| {
            let Ok(mut memory) = PortMemory::new(32);
            let place = switch.join(device, 31, &link, 0, 0, &mut memory);
            place.expect("there is room for both")
        });
        let Ok(memory) = Memory::new(&shape);
        Self {
            switch,
            egress: Egress::new(memory, tuning, place, 1),
            now: 0,
        }
    }

    #[inline]
    fn enqueue(&mut self, arrival: &Arrival) {
        let packet = Packet::new(arrival.flow >> 1);
        let mark = |packet, _| (packet, arrival.rank);
        let result = self
            .egress
            .enqueue(&mut self.switch, packet, arrival, self.now, mark);
        debug_assert!(result.is_ok());
    }

    #[inline]
    fn dequeue(&mut self) {
        self.now += STEP_NS;
        std::mem::forget(self.egress.dequeue(&mut self.switch, self.now));
    }
}

#[inline(never)]
fn swap(port: &mut Port, arrivals: &[Arrival]) {
    for arrival in arrivals {
        port.dequeue();
        port.enqueue(arrival);
    }
}

#[inline(never)]
fn measured_swap(port: &mut Port, arrivals: &[Arrival]) {
    swap(black_box(port), arrivals);
}

/// A switch in which each port pauses an upstream queue.
struct Ports {
    switch: Switch<Heap>,
    now: u64,
}

impl Ports {
    /// ns between two bitmaps of a port.
    const REFRESH: u64 = 1_000_000_000;

    fn new(ports: u32) -> Self {
        let ports = ports.min(MAX_PORTS.into()) as u16;
        let Ok(room) = Room::new(ports);
        let mut switch = Switch::new(room);
        let link = Link {
            hrtt: 2_000,
            refresh: Self::REFRESH,
            ..Link::default()
        };
        let mut this = Self {
            switch: {
                for device in 1..=u32::from(ports) {
                    let Ok(mut memory) = PortMemory::new(32);
                    let place = switch.join(device, 31, &link, 0, 0, &mut memory);
                    let place = place.expect("there is room for all");
                    assert!(switch.count(place.port, 1));
                }
                switch
            },
            now: 0,
        };
        // Their bitmaps are due one after the other.
        while this.switch.next_frame(this.now).is_some() {
            this.now += Self::REFRESH / u64::from(ports);
        }
        this
    }

    /// The work of sending frames; returns their number.
    #[inline]
    fn pump(&mut self) -> u32 {
        let mut frames = 0;
        self.switch.refresh(self.now);
        while let Some(frame) = self.switch.next_frame(self.now) {
            black_box(frame);
            frames += 1;
        }
        black_box(self.switch.next_refresh());
        frames
    }
}

#[inline(never)]
fn measured_pauses(ports: &mut Ports, steps: u32) -> u32 {
    let mut frames = 0;
    for _ in 0..steps {
        ports.switch.count(0, 2);
        frames += ports.pump();
        ports.switch.uncount(0, 2);
        frames += ports.pump();
    }
    frames
}

#[inline(never)]
fn measured_bitmaps(ports: &mut Ports, steps: u32) -> u32 {
    let mut frames = 0;
    for _ in 0..steps {
        ports.now = ports.switch.next_refresh().unwrap_or(ports.now);
        frames += ports.pump();
    }
    frames
}

/// Runs a scenario of pauses.
fn tell(scenario: &str, n: u32, steps: u32) -> u32 {
    let ports = &mut Ports::new(n);
    ports.pump();
    let (frames, steps) = match scenario {
        "pause" => (measured_pauses(ports, steps), 2 * steps),
        _ => (measured_bitmaps(ports, steps), steps),
    };
    assert!(frames >= steps, "{frames} frames in {steps} steps");
    steps
}

/// Runs `steps` steps of a scenario at a backlog of `n`.
fn run(scenario: &str, n: u32, steps: u32) -> u32 {
    if matches!(scenario, "pause" | "bitmap") {
        return tell(scenario, n, steps);
    }
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let scheduler = match scenario {
        "srf" => Scheduler::Srf,
        _ => Scheduler::Fq,
    };
    let threshold = match scenario {
        "congested" => Threshold::Fixed(0),
        "new" | "host" => Threshold::OneHopBdp {
            rate: RATE,
            percent: 100,
        },
        _ => Threshold::Fixed(u64::MAX),
    };
    let flows: Vec<(u32, u32)> = (0..n).map(|_| (random.next(), random.size())).collect();
    let mut arrival = |i: u32| {
        let (flow, rank) = flows[(i % n) as usize];
        let flow = match scenario {
            "new" => random.next(),
            _ => flow,
        };
        let (device, upstream_queue) = match scenario {
            "host" => (0, 0),
            _ => (1, 1 + (i % 31) as u16),
        };
        Arrival {
            len: LEN,
            rank,
            flow,
            device,
            upstream_queue,
        }
    };
    let mut port = Port::new(scheduler, threshold);
    for i in 0..n {
        port.enqueue(&arrival(i));
    }
    let warm: Vec<Arrival> = (0..10 * n).map(&mut arrival).collect();
    swap(&mut port, &warm);
    let arrivals: Vec<Arrival> = (0..steps).map(&mut arrival).collect();
    measured_swap(&mut port, &arrivals);
    port.egress
        .clear(&mut port.switch, port.now, std::mem::forget);
    steps
}
