// SPDX-License-Identifier: GPL-2.0-only

//! `pfabric`: the switch of "pFabric: Minimal Near-Optimal Datacenter Transport" (SIGCOMM 2013),
//! §4.1.
//!
//! The algorithm, with the paper's Figure 2, is in `queue`. A packet's rank is its
//! `skb->priority` (lower is more urgent), its flow what `kapi`'s `flow` says.

use kernel::prelude::*;

#[allow(dead_code, unreachable_pub)]
#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code, unreachable_pub)]
#[path = "../kapi/mod.rs"]
mod kapi;
#[allow(dead_code, unreachable_pub)]
#[path = "mod.rs"]
mod pfabric;

use crate::common::nla::{NoRoom, Refusal};
use crate::pfabric::options::Config;
use crate::pfabric::queue::{Limits, PFabric};
use crate::pfabric::stats::Stats;
use kapi::{
    flow::Flows,
    netlink::Dump,
    qdisc::{Qdisc, Registration, Sch, Setup, Verdict},
    skb::{Purge, Skb, ToFree},
    store::KernelStore,
};

module! {
    type: Module,
    name: "sch_pfabric",
    authors: ["The weft developers"],
    description: "pFabric: priority scheduling and dropping with starvation prevention",
    license: "GPL",
    alias: ["net-sch-pfabric"],
}

struct Module {
    _registration: Registration<Switch>,
}

impl kernel::Module for Module {
    fn init(module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _registration: Registration::register(module)?,
        })
    }
}

type Queue = PFabric<Skb, KernelStore>;

#[pin_data]
struct Switch {
    config: Config,
    flows: Flows,
    queue: Queue,
}

#[vtable]
impl Qdisc for Switch {
    const KIND: &'static str = crate::pfabric::options::KIND;
    // In an empty queue the arriving packet is the most urgent one.
    const CAN_BYPASS: bool = true;
    type Config = Config;
    type Prepared = Queue;
    type Stats = [u8; Stats::SIZE];
    type QueueStats = [u8; 0];

    fn parse(current: Option<Config>, payload: &[u8]) -> Result<Config, Refusal> {
        Config::requested(current, payload)
    }

    fn prepare(_current: Option<&Config>, config: &Config) -> Result<Queue> {
        Queue::new(Limits {
            packets: config.limit,
            bytes: config.limit_bytes,
            starvation_prevention: config.starvation_prevention,
        })
    }

    fn new(config: Config, queue: Queue, _setup: &Setup) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            config,
            flows: Flows::new(),
            queue,
        })
    }

    fn apply(
        self: Pin<&mut Self>,
        sch: &mut Sch,
        config: Config,
        mut queue: Queue,
        purge: &mut Purge,
    ) -> Queue {
        let this = self.project();
        let mut evicted = Evicted::default();
        queue.take_over(this.queue, |skb, len| {
            evicted.count(len);
            purge.drop(sch, skb);
        });
        evicted.report(sch);
        *this.config = config;
        core::mem::replace(this.queue, queue)
    }

    fn config(&self) -> Config {
        self.config
    }

    fn dump(config: &Config, dump: &mut Dump) -> Result<(), NoRoom> {
        config.put(dump)
    }

    fn stats(self: Pin<&mut Self>, _sch: &mut Sch) -> Self::Stats {
        let counters = self.queue.counters();
        Stats {
            evicted: counters.evicted,
            evicted_bytes: counters.evicted_bytes,
            rejected: counters.rejected,
            rejected_bytes: counters.rejected_bytes,
            overtaken: counters.overtaken,
            flows: self.queue.flows(),
            highest_backlog: counters.highest_len,
            highest_backlog_bytes: counters.highest_bytes,
        }
        .to_bytes()
    }

    #[inline(always)] // into the kernel's callback, its only caller
    fn enqueue(
        self: Pin<&mut Self>,
        sch: &mut Sch,
        mut skb: Skb,
        to_free: &mut ToFree<'_>,
    ) -> Verdict {
        let this = self.project();
        let packet = skb.packet();
        let flow = this.flows.of(&mut skb);
        let mut evicted = Evicted::default();
        let result = this
            .queue
            .enqueue(skb, packet.priority, flow, packet.len, |skb, len| {
                evicted.count(len);
                // Counts as dropped here; the parents are told below.
                let _ = to_free.drop(sch, skb);
            });
        match result {
            Ok(()) => {
                sch.queued(packet.len);
                evicted.report(sch);
                Verdict::QUEUED
            }
            Err(skb) => {
                evicted.report(sch);
                to_free.drop(sch, skb).into()
            }
        }
    }

    #[inline(always)] // as enqueue
    fn dequeue(self: Pin<&mut Self>, sch: &mut Sch) -> Option<Skb> {
        let skb = self.project().queue.dequeue()?;
        sch.dequeued(&skb);
        Some(skb)
    }

    fn peek(&self) -> Option<&Skb> {
        self.queue.peek()
    }

    fn reset(self: Pin<&mut Self>, purge: &mut Purge) {
        self.project().queue.clear(|skb| purge.free(skb));
    }
}

/// What was dropped from inside the queue in one operation.
#[derive(Default)]
struct Evicted {
    packets: u32,
    bytes: u32,
}

impl Evicted {
    fn count(&mut self, bytes: u32) {
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(bytes);
    }

    fn report(self, sch: &mut Sch) {
        sch.evicted(self.packets, self.bytes);
    }
}
