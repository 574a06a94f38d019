// SPDX-License-Identifier: GPL-2.0-only

//! `hold`: keeps a constant backlog in its child, for tests and benchmarks only.
//!
//! A device takes packets as fast as they arrive, so a qdisc under it is almost always empty.
//! `hold` asks its child only while the child has more packets than `backlog`: once filled, each
//! arrival sends one packet, and the child works at that backlog for the length of the measurement.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(hold);

use crate::common::discipline::Next;
use crate::common::xorshift::Xorshift32;
use crate::hold::options::Config;
use kapi::{
    admission::{Admission, Verdict},
    qdisc::{Qdisc, Rtnl, Sch, Setup},
    registration::Registration,
    skb::{Purge, Skb},
};

module! {
    type: Registration<Hold>,
    name: "sch_hold",
    authors: ["The weft developers"],
    description: "Keeps a constant backlog in its child, for tests and benchmarks",
    license: "GPL",
    alias: ["net-sch-hold"],
}

struct Hold {
    config: Config,
    /// Generator of priorities.
    random: Xorshift32,
}

#[vtable]
impl Qdisc for Hold {
    const KIND: &'static str = crate::hold::options::KIND;
    const CAN_BYPASS: bool = false;
    const CHILD: bool = true;
    type Shared = ();
    type Config = Config;
    type Prepared = ();
    type Stats = [u8; 0];
    type QueueStats = [u8; 0];

    fn prepare(_current: Option<&Config>, _config: &Config) -> Result<()> {
        Ok(())
    }

    fn new(config: Config, (): (), _setup: &mut Setup<'_, Self>) -> Result<Self> {
        Ok(Self {
            config,
            random: Xorshift32::new(1),
        })
    }

    fn apply(&mut self, _sch: &mut Sch<'_, Self>, config: Config, (): (), _purge: &mut Purge<'_>) {
        self.config = config;
    }

    fn config(&self) -> Config {
        self.config
    }

    fn stats(&mut self, _sch: &mut Sch<'_, Self>) -> Self::Stats {
        []
    }

    #[inline(always)] // into the kernel's callback, its only caller
    fn enqueue<'a>(
        &mut self,
        sch: &mut Sch<'_, Self>,
        mut skb: Skb,
        admission: Admission<'a>,
    ) -> Verdict<'a> {
        if self.config.random_priority != 0 {
            skb.set_priority(self.random.draw() & self.config.random_priority);
        }
        if self.config.txtime != 0 {
            skb.set_txtime(self.config.txtime);
        }
        sch.child_enqueue(skb, admission)
    }

    #[inline(always)] // as enqueue
    fn dequeue(&mut self, sch: &mut Sch<'_, Self>) -> Next<Skb> {
        if sch.child_len() <= self.config.backlog {
            return Next::Nothing;
        }
        sch.child_dequeue().map_or(Next::Nothing, Next::Packet)
    }

    fn reset(&mut self, _rtnl: &mut Rtnl<'_, Self>, _purge: &mut Purge<'_>) {}
}
