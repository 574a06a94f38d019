// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! `pfabric`.
//!
//! One step is one dequeue and one enqueue (`overload`: two enqueues) at a backlog of n packets,
//! after 10 n steps that do not count:
//!
//! - `equal`: all packets have the same rank, and each is a separate flow, like untagged traffic.
//! - `random`: random 32-bit ranks, each packet a separate flow. As urgent packets leave, the
//!   backlog ends up consisting of the least urgent ones.
//! - `sizes`: the same with ranks whose logarithm is uniform, like flow sizes.
//! - `remaining`: n flows whose ranks are their remaining sizes, as in the paper: many flows have
//!   several packets queued, and the earliest overtakes the most urgent one.
//! - `drain`: n random arrivals, then n departures, counted per packet.
//! - `overload`: as `remaining`, with two arrivals per departure at a full queue: evictions and
//!   rejections.
//!
//! Measured with rustc 1.95.0 on 2026-11-21:
//!
//! ```text
//! backlog           1       24    1,000   10,000   10,000 : 24
//! equal         177.0    217.8    220.1    212.6          0.98
//! random        177.0    269.6    255.5    257.9          0.96
//! sizes         177.0    237.3    242.7    284.4          1.20
//! remaining     177.0    240.9    241.3    251.0          1.04
//! drain         223.0    301.6    340.7    376.2          1.25
//! overload      484.8    631.6    657.1    794.5          1.26
//! ```
//!
//! In the first steps after the queue has been filled, when it still holds all sizes of flows, the
//! trie is deeper: without the 10 n steps, `sizes` takes 350 and `remaining` 381 at 10,000.

use crate::{Heap, Packet, Random, Table};
use std::hint::black_box;
use weft_mechanisms::pfabric::queue::{Limits, PFabric};

pub(crate) const TABLE: Table = Table {
    algorithm: "pfabric",
    scenarios: &["equal", "random", "sizes", "remaining", "drain", "overload"],
    run,
};

type Queue = PFabric<Packet, Heap>;

/// An arrival: rank and flow.
type Arrival = (u32, u32);

/// Each packet that leaves is followed by one of its flow: the number of flows stays the same.
#[inline(never)]
fn swap(queue: &mut Queue, ranks: &[Arrival]) {
    for &(rank, _) in ranks {
        if let Some(packet) = queue.dequeue() {
            let flow = packet.flow();
            let _ = queue.enqueue(packet, rank, flow, 1500, |packet, _| drop(packet));
        }
    }
}

/// Arriving packets are of any flow.
#[inline(never)]
fn replace(queue: &mut Queue, arrivals: &[Arrival]) {
    for &(rank, flow) in arrivals {
        std::mem::forget(queue.dequeue());
        let _ = queue.enqueue(Packet::new(flow), rank, flow, 1500, |packet, _| {
            drop(packet)
        });
    }
}

#[inline(never)]
fn measured_swap(queue: &mut Queue, ranks: &[Arrival]) {
    swap(black_box(queue), ranks);
}

#[inline(never)]
fn measured_replace(queue: &mut Queue, arrivals: &[Arrival]) {
    replace(black_box(queue), arrivals);
}

/// Two arrivals for each departure.
#[inline(never)]
fn measured_overload(queue: &mut Queue, arrivals: &[Arrival]) {
    for pair in arrivals.chunks_exact(2) {
        for &(rank, flow) in pair {
            let _ = queue.enqueue(Packet::new(flow), rank, flow, 1500, |packet, _| {
                drop(packet)
            });
        }
        std::mem::forget(queue.dequeue());
    }
}

/// First all arrivals, then all departures.
#[inline(never)]
fn measured_drain(queue: &mut Queue, arrivals: &[Arrival]) {
    for &(rank, flow) in arrivals {
        let _ = queue.enqueue(Packet::new(flow), rank, flow, 1500, |packet, _| {
            drop(packet)
        });
    }
    while let Some(packet) = queue.dequeue() {
        std::mem::forget(packet);
    }
}

/// Fills the queue to a backlog of `n`, off the record.
#[inline(never)]
fn fill(queue: &mut Queue, n: u32, arrivals: Vec<Arrival>) {
    for &(rank, flow) in &arrivals[..n as usize] {
        let _ = queue.enqueue(black_box(Packet::new(flow)), rank, flow, 1500, |_, _| ());
    }
}

/// Runs `steps` steps of a scenario at a backlog of `n`; returns how many were in fact made.
fn run(scenario: &str, n: u32, steps: u32) -> u32 {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let room = if scenario == "overload" { 0 } else { 1 };
    let limits = Limits {
        packets: n + room,
        bytes: 0,
        starvation_prevention: true,
    };
    let Ok(mut queue) = PFabric::new(limits);
    let flows: Vec<u32> = (0..n).map(|_| random.next() >> 1).collect();
    let mut left: Vec<u32> = flows.iter().map(|_| random.size()).collect();
    let mut arrivals = |count: u32| -> Vec<Arrival> {
        let arrival = |i: u32| match scenario {
            "equal" => (0, flows[(i % n) as usize]),
            "random" | "drain" => (random.next(), flows[(i % n) as usize]),
            "sizes" => (random.size(), flows[(i % n) as usize]),
            "remaining" | "overload" => {
                let flow = (random.next() % n) as usize;
                let rank = left[flow];
                left[flow] = rank.checked_sub(1460).unwrap_or_else(|| random.size());
                (rank, flows[flow])
            }
            _ => unreachable!("{scenario} is none of {:?}", TABLE.scenarios),
        };
        (0..count).map(arrival).collect()
    };
    let mut made = steps;
    match scenario {
        "equal" | "random" | "sizes" => {
            fill(&mut queue, n, arrivals(n));
            swap(&mut queue, &arrivals(10 * n));
            measured_swap(&mut queue, &arrivals(steps));
        }
        "remaining" => {
            fill(&mut queue, n, arrivals(n));
            replace(&mut queue, &arrivals(10 * n));
            measured_replace(&mut queue, &arrivals(steps));
        }
        "overload" => {
            fill(&mut queue, n, arrivals(n));
            measured_overload(&mut queue, &arrivals(2 * steps));
        }
        _ => {
            made = 0;
            while made < steps {
                measured_drain(&mut queue, &arrivals(n));
                made += n;
            }
        }
    }
    queue.clear(std::mem::forget);
    made
}
