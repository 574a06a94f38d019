// SPDX-License-Identifier: GPL-2.0-only

//! `wire`: one wire's serialization and propagation, with any qdisc as the queue behind it.
//!
//! The law is in `line` (when a packet begins, ends and arrives) and `link` (which action to take
//! when). In this file a packet waits in the child, is launched onto the in-flight list, and leaves
//! by dequeue when its time has come. All of these packets count in the qdisc's backlog.

use core::num::NonZeroU64;

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(wire);

use crate::common::discipline::Next;
use crate::wire::line::Params;
use crate::wire::link::{self, Ends, Link};
use crate::wire::options::Config;
use crate::wire::stats::Stats;
use kapi::{
    admission::{Admission, Verdict},
    clock::now,
    qdisc::{Qdisc, Rtnl, Sch, Setup},
    registration::Registration,
    skb::{Fifo, Purge, Skb},
};

module! {
    type: Registration<Wire>,
    name: "sch_wire",
    authors: ["The weft developers"],
    description: "One wire: serialization at a rate, then a propagation delay",
    license: "GPL",
    alias: ["net-sch-wire"],
}

struct Wire {
    config: Config,
    link: Link,
    in_flight: Fifo,
    in_flight_bytes: u32,
}

/// The queue behind the wire and the packets on it, for [`Link`].
struct Line<'a, 's> {
    sch: &'a mut Sch<'s, Wire>,
    in_flight: &'a mut Fifo,
    in_flight_bytes: &'a mut u32,
}

impl Ends for Line<'_, '_> {
    #[inline]
    fn waiting(&self) -> u32 {
        self.sch.child_len()
    }

    #[inline]
    fn launch(&mut self, begin: impl FnOnce(u32, u32) -> u64) -> bool {
        let Some(skb) = self.sch.child_dequeue() else {
            return false;
        };
        let packet = skb.packet();
        *self.in_flight_bytes = self.in_flight_bytes.wrapping_add(packet.len);
        let delivery = begin(skb.wire_len(), packet.segments);
        self.in_flight.push(skb, delivery);
        true
    }

    #[inline]
    fn timeless(&self) -> bool {
        self.sch.child_is_timeless()
    }

    #[inline]
    fn owned(&self) -> bool {
        self.in_flight.last_has_owner()
    }

    #[inline]
    fn sent(&mut self) {
        self.in_flight.end_accounting_of_last();
    }

    #[inline]
    fn first_delivery(&self) -> Option<u64> {
        self.in_flight.first_stamp()
    }

    #[inline]
    fn in_flight(&self) -> u32 {
        *self.in_flight_bytes
    }
}

fn params(config: &Config) -> Params {
    Params {
        // Never 0, because a wire's options are checked.
        rate: NonZeroU64::new(config.rate).unwrap_or(NonZeroU64::MIN),
        delay: config.delay,
        overhead: config.overhead,
        mpu: config.mpu,
    }
}

#[vtable]
impl Qdisc for Wire {
    const KIND: &'static str = crate::wire::options::KIND;
    // Every packet takes its time.
    const CAN_BYPASS: bool = false;
    const CHILD: bool = true;
    const WATCHDOG: bool = true;
    type Shared = ();
    type Config = Config;
    type Prepared = ();
    type Stats = [u8; Stats::SIZE];
    type QueueStats = [u8; 0];

    fn prepare(_current: Option<&Config>, _config: &Config) -> Result<()> {
        Ok(())
    }

    fn new(config: Config, (): (), _setup: &mut Setup<'_, Self>) -> Result<Self> {
        Ok(Self {
            config,
            link: Link::new(params(&config), config.bytes_in_flight()),
            in_flight: Fifo::new(),
            in_flight_bytes: 0,
        })
    }

    fn apply(&mut self, sch: &mut Sch<'_, Self>, config: Config, (): (), _purge: &mut Purge<'_>) {
        let mut line = Line {
            sch,
            in_flight: &mut self.in_flight,
            in_flight_bytes: &mut self.in_flight_bytes,
        };
        let limit = config.bytes_in_flight();
        self.link
            .set_params(now(), params(&config), limit, &mut line);
        if let Some(at) = self.link.next_event(&line) {
            sch.wake_at(at, config.slack);
        }
        self.config = config;
    }

    fn config(&self) -> Config {
        self.config
    }

    fn stats(&mut self, sch: &mut Sch<'_, Self>) -> Self::Stats {
        // The child is dumped next.
        self.catch_up(sch);
        let lateness = self.link.lateness();
        Stats {
            busy_ns: self.link.busy_ns(),
            in_flight: self.in_flight.len(),
            in_flight_bytes: self.in_flight_bytes,
            late_count: lateness.count(),
            late_sum_ns: lateness.sum_ns(),
            late_max_ns: lateness.max_ns(),
            late_histogram: *lateness.buckets(),
            in_flight_limit: self.config.bytes_in_flight().into(),
            held: self.link.held(),
        }
        .to_bytes()
    }

    /// Processes packets that began without a timer: the child no longer holds them.
    fn catch_up(&mut self, sch: &mut Sch<'_, Self>) {
        let mut line = Line {
            sch,
            in_flight: &mut self.in_flight,
            in_flight_bytes: &mut self.in_flight_bytes,
        };
        self.link.advance(now(), &mut line);
        if let Some(at) = self.link.next_event(&line) {
            sch.wake_at(at, self.config.slack);
        }
    }

    #[inline(always)] // into the kernel's callback, its only caller
    fn enqueue<'a>(
        &mut self,
        sch: &mut Sch<'_, Self>,
        skb: Skb,
        admission: Admission<'a>,
    ) -> Verdict<'a> {
        let slack = self.config.slack;
        let arrival = match slack {
            0 => now(),
            slack => link::arrival(now(), skb.due(), slack),
        };
        if sch.len() != 0 {
            let mut line = Line {
                sch: &mut *sch,
                in_flight: &mut self.in_flight,
                in_flight_bytes: &mut self.in_flight_bytes,
            };
            self.link.advance(arrival, &mut line);
        }
        let first = sch.child_len() == 0;
        let verdict = sch.child_enqueue(skb, admission);
        if sch.child_len() != 0 {
            self.link.arrived(arrival, first);
        }
        verdict
    }

    #[inline(always)] // as enqueue
    fn dequeue(&mut self, sch: &mut Sch<'_, Self>) -> Next<Skb> {
        let mut line = Line {
            sch,
            in_flight: &mut self.in_flight,
            in_flight_bytes: &mut self.in_flight_bytes,
        };
        let now = now();
        self.link.advance(now, &mut line);
        if self.link.deliver(now, &line) {
            if let Some(mut skb) = line.in_flight.pop() {
                *line.in_flight_bytes = line.in_flight_bytes.wrapping_sub(skb.packet().len);
                if self.config.slack != 0 {
                    let due = skb.stamp();
                    skb.set_due(due);
                }
                return Next::Packet(skb);
            }
            invariant!("a packet is due and none is in flight");
        }
        match self.link.next_event(&line) {
            Some(until) => Next::Wait {
                until,
                slack: self.config.slack,
            },
            None => Next::Nothing,
        }
    }

    fn reset(&mut self, _rtnl: &mut Rtnl<'_, Self>, purge: &mut Purge<'_>) {
        purge.empty(&mut self.in_flight);
        self.in_flight_bytes = 0;
        self.link.reset();
    }
}
