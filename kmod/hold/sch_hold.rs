// SPDX-License-Identifier: GPL-2.0-only

//! `hold`: keeps a constant backlog in its child, for tests and benchmarks only.
//!
//! A device takes packets as fast as they come, so a qdisc under it is nearly always empty. `hold`
//! asks its child only while that has more packets than `backlog`: once filled, each arrival sends
//! one packet, and the child works at that backlog for as long as one likes to measure.

use kernel::prelude::*;

#[allow(dead_code, unreachable_pub)]
#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code, unreachable_pub)]
#[path = "../kapi/mod.rs"]
mod kapi;
#[allow(dead_code, unreachable_pub)]
#[path = "mod.rs"]
mod hold;

use crate::common::nla::{NoRoom, Refusal};
use crate::common::xorshift::Xorshift32;
use crate::hold::options::Config;
use kapi::{
    child::Child,
    netlink::Dump,
    qdisc::{Qdisc, Registration, Sch, Setup, Verdict},
    skb::{Purge, Skb, ToFree},
};

module! {
    type: Module,
    name: "sch_hold",
    authors: ["The weft developers"],
    description: "Keeps a constant backlog in its child, for tests and benchmarks",
    license: "GPL",
    alias: ["net-sch-hold"],
}

struct Module {
    _registration: Registration<Hold>,
}

impl kernel::Module for Module {
    fn init(module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _registration: Registration::register(module)?,
        })
    }
}

#[pin_data]
struct Hold {
    config: Config,
    child: Child,
    /// Generator of priorities.
    random: Xorshift32,
}

#[vtable]
impl Qdisc for Hold {
    const KIND: &'static str = crate::hold::options::KIND;
    const CAN_BYPASS: bool = false;
    type Config = Config;
    type Prepared = ();
    type Stats = [u8; 0];
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
            child: Child::new(setup)?,
            random: Xorshift32::new(1),
        })
    }

    fn apply(self: Pin<&mut Self>, _sch: &mut Sch, config: Config, (): (), _purge: &mut Purge) {
        *self.project().config = config;
    }

    fn config(&self) -> Config {
        self.config
    }

    fn dump(config: &Config, dump: &mut Dump) -> Result<(), NoRoom> {
        config.put(dump)
    }

    fn stats(self: Pin<&mut Self>, _sch: &mut Sch) -> Self::Stats {
        []
    }

    #[inline(always)] // into the kernel's callback, its only caller
    fn enqueue(
        self: Pin<&mut Self>,
        sch: &mut Sch,
        mut skb: Skb,
        to_free: &mut ToFree<'_>,
    ) -> Verdict {
        let this = self.project();
        if this.config.random_priority != 0 {
            skb.set_priority(this.random.draw() & this.config.random_priority);
        }
        if this.config.txtime != 0 {
            skb.set_txtime(this.config.txtime);
        }
        let len = skb.packet().len;
        this.child.enqueue(sch, skb, len, to_free)
    }

    #[inline(always)] // as enqueue
    fn dequeue(self: Pin<&mut Self>, sch: &mut Sch) -> Option<Skb> {
        let this = self.project();
        if this.child.len() <= this.config.backlog {
            return None;
        }
        let skb = this.child.dequeue(sch)?;
        sch.dequeued(&skb);
        Some(skb)
    }

    fn reset(self: Pin<&mut Self>, _purge: &mut Purge) {
        self.project().child.reset();
    }

    fn child(self: Pin<&mut Self>) -> &mut Child {
        self.project().child
    }
}
