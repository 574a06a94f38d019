// SPDX-License-Identifier: GPL-2.0-only

//! `pfabric`: the switch of "pFabric: Minimal Near-Optimal Datacenter Transport" (SIGCOMM 2013),
//! §4.1.
//!
//! The algorithm, with the paper's Figure 2, is in `queue`. A packet's rank is its `skb->priority`
//! (lower is more urgent), its flow the one of `kapi`'s `flow`.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(pfabric);

use crate::common::discipline::{Discipline, Next};
use crate::pfabric::options::Config;
use crate::pfabric::queue::{Arrival, Limits, PFabric};
use crate::pfabric::stats::Stats;
use kapi::{
    admission::{Admission, Verdict},
    clock::now,
    flow::Flows,
    qdisc::{Qdisc, Rtnl, Sch, Setup},
    registration::Registration,
    skb::{Purge, Skb},
    store::KernelStore,
};

module! {
    type: Registration<Port>,
    name: "sch_pfabric",
    authors: ["The weft developers"],
    description: "pFabric: priority scheduling and dropping with starvation prevention",
    license: "GPL",
    alias: ["net-sch-pfabric"],
}

type Queue = PFabric<Skb, KernelStore>;

struct Port {
    config: Config,
    flows: Flows,
    queue: Queue,
}

#[vtable]
impl Qdisc for Port {
    const KIND: &'static str = crate::pfabric::options::KIND;
    // In an empty queue the arriving packet is the most urgent one.
    const CAN_BYPASS: bool = true;
    const TIMELESS: bool = true;
    type Shared = ();
    type Config = Config;
    type Prepared = Queue;
    type Stats = [u8; Stats::SIZE];
    type QueueStats = [u8; 0];

    fn prepare(_current: Option<&Config>, config: &Config) -> Result<Queue> {
        Queue::new(Limits {
            packets: config.limit,
            bytes: config.limit_bytes,
            starvation_prevention: config.starvation_prevention,
        })
    }

    fn new(config: Config, queue: Queue, _setup: &mut Setup<'_, Self>) -> Result<Self> {
        Ok(Self {
            config,
            flows: Flows::new(),
            queue,
        })
    }

    fn apply(
        &mut self,
        _sch: &mut Sch<'_, Self>,
        config: Config,
        mut queue: Queue,
        purge: &mut Purge<'_>,
    ) -> Queue {
        queue.take_over(&mut self.queue, |skb, _| purge.free(skb));
        self.config = config;
        core::mem::replace(&mut self.queue, queue)
    }

    fn config(&self) -> Config {
        self.config
    }

    fn stats(&mut self, _sch: &mut Sch<'_, Self>) -> Self::Stats {
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
    fn enqueue<'a>(
        &mut self,
        sch: &mut Sch<'_, Self>,
        mut skb: Skb,
        admission: Admission<'a>,
    ) -> Verdict<'a> {
        let packet = skb.packet();
        let arrival = Arrival {
            rank: packet.priority,
            flow: self.flows.of(sch, &mut skb),
            len: packet.len,
        };
        admission.by(sch, &mut self.queue, skb, &arrival)
    }

    #[inline(always)] // as enqueue
    fn dequeue(&mut self, _sch: &mut Sch<'_, Self>) -> Next<Skb> {
        Discipline::dequeue(&mut self.queue, &mut (), now)
    }

    fn peek(&self) -> Option<&Skb> {
        self.queue.peek()
    }

    fn reset(&mut self, _rtnl: &mut Rtnl<'_, Self>, purge: &mut Purge<'_>) {
        self.queue.clear(|skb| purge.free(skb));
    }
}
