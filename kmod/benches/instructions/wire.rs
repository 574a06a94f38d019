// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! `wire`.
//!
//! One step is a packet's way through a link, from its arrival at a queue of n packets to its
//! delivery, including the timers that the kernel would run for it, after n packets that do not
//! count:
//!
//! - `owned`: a timer ends each serialization, as for packets that a socket accounts for.
//! - `forwarded`: each delivery also starts the next packet.
//! - `long`: on a wire that holds all n, each arrival also handles the packet before.
//! - `late`: one late call starts all n packets at once; then all are delivered.
//!
//! Measured with rustc 1.95.0 on 2026-11-22:
//!
//! ```text
//! backlog           1       24    1,000   10,000   10,000 : 24
//! owned         341.0    293.0    293.0    293.0          1.00
//! forwarded     347.0    299.0    327.0    327.0          1.09
//! long          291.0    291.0    291.0    291.0          1.00
//! late          312.0    189.4    182.2    182.0          0.96
//! ```

use crate::Table;
use std::collections::VecDeque;
use std::hint::black_box;
use std::num::NonZeroU64;
use weft_mechanisms::wire::line::Params;
use weft_mechanisms::wire::link::{Ends, Link};

pub(crate) const TABLE: Table = Table {
    algorithm: "wire",
    scenarios: &["owned", "forwarded", "long", "late"],
    run,
};

/// The length of each packet, in bytes, without overhead.
const LEN: u32 = 1_476;
/// The time of each packet in ns, at 10 Gbit/s.
const TIME: u64 = 1_200;

/// A FIFO of equal packets, and the packets in flight.
struct Fifos {
    waiting: u32,
    in_flight: VecDeque<u64>,
    owned: bool,
}

impl Ends for Fifos {
    #[inline]
    fn waiting(&self) -> u32 {
        self.waiting
    }

    #[inline]
    fn launch(&mut self, begin: impl FnOnce(u32, u32) -> u64) -> bool {
        if self.waiting == 0 {
            return false;
        }
        self.waiting -= 1;
        self.in_flight.push_back(begin(LEN, 1));
        true
    }

    #[inline]
    fn timeless(&self) -> bool {
        true
    }

    #[inline]
    fn owned(&self) -> bool {
        self.owned
    }

    #[inline]
    fn sent(&mut self) {
        black_box(self.owned);
    }

    #[inline]
    fn first_delivery(&self) -> Option<u64> {
        self.in_flight.front().copied()
    }

    #[inline]
    fn in_flight(&self) -> u32 {
        self.in_flight.len() as u32 * LEN
    }
}

/// Link, queues and time.
struct Bench {
    link: Link,
    ends: Fifos,
    now: u64,
}

impl Bench {
    fn new(delay: u64, owned: bool) -> Self {
        let params = Params {
            rate: NonZeroU64::new(1_250_000_000).unwrap(),
            delay,
            overhead: 24,
            mpu: 84,
        };
        Self {
            link: Link::new(params, u32::MAX),
            ends: Fifos {
                waiting: 0,
                in_flight: VecDeque::with_capacity(1 << 16),
                owned,
            },
            now: 0,
        }
    }

    #[inline]
    fn arrive(&mut self) {
        self.link.advance(self.now, &mut self.ends);
        let first = self.ends.waiting == 0;
        self.ends.waiting += 1;
        self.link.arrived(self.now, first);
    }

    /// Runs the link until there is nothing more to deliver; returns the time of the next call.
    #[inline]
    fn poll(&mut self) -> Option<u64> {
        self.link.advance(self.now, &mut self.ends);
        while self.link.deliver(self.now, &self.ends) {
            self.ends.in_flight.pop_front();
            self.link.advance(self.now, &mut self.ends);
        }
        self.link.next_event(&self.ends)
    }

    /// Packets arrive as fast as they leave, and timers are in time.
    #[inline(never)]
    fn steps(&mut self, steps: u32) {
        let mut timer = self.poll();
        for _ in 0..steps {
            let arrival = self.now + TIME;
            while let Some(at) = timer.filter(|&at| at < arrival) {
                self.now = at;
                timer = self.poll();
            }
            self.now = arrival;
            self.arrive();
            timer = self.poll();
        }
    }

    #[inline(never)]
    fn rounds(&mut self, rounds: u32, n: u32) {
        for _ in 0..rounds {
            for _ in 0..n {
                self.arrive();
            }
            self.now += u64::from(n) * 2 * TIME;
            self.poll();
        }
    }
}

#[inline(never)]
fn measured_steps(bench: &mut Bench, steps: u32) {
    black_box(bench).steps(steps);
}

#[inline(never)]
fn measured_rounds(bench: &mut Bench, rounds: u32, n: u32) {
    black_box(bench).rounds(rounds, n);
}

fn run(scenario: &str, n: u32, steps: u32) -> u32 {
    let (delay, owned) = match scenario {
        "owned" => (500, true),
        "long" => (u64::from(n) * TIME, false),
        _ => (500, false),
    };
    let mut bench = Bench::new(delay, owned);
    if scenario == "late" {
        let rounds = (steps / n).max(1);
        bench.rounds(1, n);
        measured_rounds(&mut bench, rounds, n);
        return rounds * n;
    }
    if scenario != "long" {
        for _ in 0..n {
            bench.arrive();
        }
    }
    bench.steps(2 * n);
    measured_steps(&mut bench, steps);
    steps
}
