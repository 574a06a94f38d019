// SPDX-License-Identifier: GPL-2.0-only

//! `wire`: one wire's serialization and propagation, with any qdisc as the queue behind it.
//!
//! The law is in `line` (when a packet begins, ends and arrives) and `link` (what to
//! do when). Here a packet waits in the child, is launched onto the in-flight list, and leaves by
//! dequeue when its time has come. All of them count in the qdisc's backlog.

use core::num::NonZeroU64;

use kernel::prelude::*;

#[allow(dead_code, unreachable_pub)]
#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code, unreachable_pub)]
#[path = "../kapi/mod.rs"]
mod kapi;
#[allow(dead_code, unreachable_pub)]
#[path = "mod.rs"]
mod wire;

use crate::common::nla::{NoRoom, Refusal};
use crate::wire::line::Params;
use crate::wire::link::{self, Ends, Link};
use crate::wire::options::Config;
use crate::wire::stats::Stats;
use kapi::{
    child::Child,
    clock::now,
    netlink::Dump,
    qdisc::{Qdisc, Registration, Sch, Setup, Verdict},
    skb::{Fifo, Purge, Skb, ToFree},
    watchdog::Watchdog,
};

module! {
    type: Module,
    name: "sch_wire",
    authors: ["The weft developers"],
    description: "One wire: serialization at a rate, then a propagation delay",
    license: "GPL",
    alias: ["net-sch-wire"],
}

struct Module {
    _registration: Registration<Wire>,
}

impl kernel::Module for Module {
    fn init(module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _registration: Registration::register(module)?,
        })
    }
}

#[pin_data]
struct Wire {
    config: Config,
    link: Link,
    child: Child,
    in_flight: Fifo,
    in_flight_bytes: u32,
    #[pin]
    watchdog: Watchdog,
}

/// The queue behind the wire and the packets on it, for [`Link`].
struct Line<'a> {
    sch: &'a mut Sch,
    child: &'a mut Child,
    in_flight: &'a mut Fifo,
    in_flight_bytes: &'a mut u32,
}

impl Ends for Line<'_> {
    #[inline]
    fn waiting(&self) -> u32 {
        self.child.len()
    }

    #[inline]
    fn launch(&mut self, begin: impl FnOnce(u32, u32) -> u64) -> bool {
        let Some(skb) = self.child.dequeue(self.sch) else {
            return false;
        };
        let packet = skb.packet();
        *self.in_flight_bytes = self.in_flight_bytes.wrapping_add(packet.len);
        self.in_flight.push(skb, begin(packet.len, packet.segments));
        true
    }

    #[inline]
    fn timeless(&self) -> bool {
        self.child.is_timeless()
    }

    #[inline]
    fn owned(&self) -> bool {
        self.in_flight.last_has_owner()
    }

    #[inline]
    fn sent(&mut self) {
        self.in_flight.orphan_last();
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
        // Never 0, as a wire's options are checked.
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
    type Config = Config;
    type Prepared = ();
    type Stats = [u8; Stats::SIZE];
    type QueueStats = [u8; 0];

    fn parse(current: Option<Config>, payload: &[u8]) -> Result<Config, Refusal> {
        Config::requested(current, payload)
    }

    fn prepare(_current: Option<&Config>, _config: &Config) -> Result<()> {
        Ok(())
    }

    fn new(config: Config, (): (), setup: &Setup) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            config,
            link: Link::new(params(&config), config.bytes_in_flight()),
            child: Child::new(setup)?,
            in_flight: Fifo::new(),
            in_flight_bytes: 0,
            watchdog <- Watchdog::new(setup),
        })
    }

    fn apply(self: Pin<&mut Self>, sch: &mut Sch, config: Config, (): (), _purge: &mut Purge) {
        let this = self.project();
        let mut line = Line {
            sch,
            child: this.child,
            in_flight: this.in_flight,
            in_flight_bytes: this.in_flight_bytes,
        };
        let limit = config.bytes_in_flight();
        this.link
            .set_params(now(), params(&config), limit, &mut line);
        if let Some(at) = this.link.next_event(&line) {
            this.watchdog.schedule(at, config.slack);
        }
        *this.config = config;
    }

    fn config(&self) -> Config {
        self.config
    }

    fn dump(config: &Config, dump: &mut Dump) -> Result<(), NoRoom> {
        config.put(dump)
    }

    fn stats(self: Pin<&mut Self>, sch: &mut Sch) -> Self::Stats {
        let this = self.project();
        // What began and nobody needed to see: the child, which is dumped next, holds it no more.
        let mut line = Line {
            sch,
            child: this.child,
            in_flight: &mut *this.in_flight,
            in_flight_bytes: &mut *this.in_flight_bytes,
        };
        this.link.advance(now(), &mut line);
        if let Some(at) = this.link.next_event(&line) {
            this.watchdog.schedule(at, this.config.slack);
        }
        let lateness = this.link.lateness();
        Stats {
            busy_ns: this.link.busy_ns(),
            in_flight: this.in_flight.len(),
            in_flight_bytes: *this.in_flight_bytes,
            late_count: lateness.count(),
            late_sum_ns: lateness.sum_ns(),
            late_max_ns: lateness.max_ns(),
            late_histogram: *lateness.buckets(),
            in_flight_limit: this.config.bytes_in_flight().into(),
            held: this.link.held(),
        }
        .to_bytes()
    }

    #[inline(always)] // into the kernel's callback, its only caller
    fn enqueue(self: Pin<&mut Self>, sch: &mut Sch, skb: Skb, to_free: &mut ToFree<'_>) -> Verdict {
        let this = self.project();
        let slack = this.config.slack;
        let arrival = match slack {
            0 => now(),
            slack => link::arrival(now(), skb.due(), slack),
        };
        if sch.len() != 0 {
            let mut line = Line {
                sch: &mut *sch,
                child: &mut *this.child,
                in_flight: &mut *this.in_flight,
                in_flight_bytes: &mut *this.in_flight_bytes,
            };
            this.link.advance(arrival, &mut line);
        }
        let first = this.child.len() == 0;
        let len = skb.packet().len;
        let verdict = this.child.enqueue(sch, skb, len, to_free);
        if this.child.len() != 0 {
            this.link.arrived(arrival, first);
        }
        verdict
    }

    #[inline(always)] // as enqueue
    fn dequeue(self: Pin<&mut Self>, sch: &mut Sch) -> Option<Skb> {
        // The device asks until it gets nothing: once too often each time.
        if sch.len() == 0 {
            return None;
        }
        let this = self.project();
        let mut line = Line {
            sch: &mut *sch,
            child: this.child,
            in_flight: this.in_flight,
            in_flight_bytes: this.in_flight_bytes,
        };
        let now = now();
        this.link.advance(now, &mut line);
        if this.link.deliver(now, &line) {
            if let Some(mut skb) = line.in_flight.pop() {
                *line.in_flight_bytes = line.in_flight_bytes.wrapping_sub(skb.packet().len);
                if this.config.slack != 0 {
                    let due = skb.stamp();
                    skb.set_due(due);
                }
                sch.dequeued(&skb);
                return Some(skb);
            }
        }
        if let Some(at) = this.link.next_event(&line) {
            this.watchdog.schedule(at, this.config.slack);
            sch.overlimit();
        }
        None
    }

    fn reset(self: Pin<&mut Self>, purge: &mut Purge) {
        let this = self.project();
        this.watchdog.cancel();
        this.child.reset();
        while let Some(skb) = this.in_flight.pop() {
            purge.free(skb);
        }
        *this.in_flight_bytes = 0;
        this.link.reset();
    }

    fn child(self: Pin<&mut Self>) -> &mut Child {
        self.project().child
    }
}
