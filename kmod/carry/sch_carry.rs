// SPDX-License-Identifier: GPL-2.0-only

//! `carry`: gives each packet the IPv4 option that `int` fills, for benchmarks only.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(carry);

use crate::carry::options::{Config, Telemetry};
use crate::carry::telemetry;
use crate::common::discipline::Next;
use kapi::{
    admission::{Admission, Verdict},
    qdisc::{Qdisc, Rtnl, Sch, Setup},
    registration::Registration,
    skb::{Purge, Skb},
};

module! {
    type: Registration<Carry>,
    name: "sch_carry",
    authors: ["The weft developers"],
    description: "Gives packets an IPv4 option for telemetry, for benchmarks",
    license: "GPL",
    alias: ["net-sch-carry"],
}

struct Carry {
    config: Config,
}

/// The packet with an option for telemetry; unchanged if it has no room or there is no memory.
fn with_telemetry(skb: Skb, telemetry: Telemetry) -> Skb {
    match telemetry.links() {
        Some(links) => with_option(skb, telemetry::records_of(links)),
        None => with_option(skb, telemetry::UNSTAMPED),
    }
}

#[inline(always)] // each option has its own size
fn with_option<const N: usize>(skb: Skb, option: [u8; N]) -> Skb {
    match skb.with_header(telemetry::changed(N)) {
        Ok(mut skb) => {
            telemetry::insert(skb.header(), option);
            skb.into_skb()
        }
        Err(skb) => skb,
    }
}

#[vtable]
impl Qdisc for Carry {
    const KIND: &'static str = crate::carry::options::KIND;
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
        Ok(Self { config })
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
        if self.config.telemetry != Telemetry::None {
            skb = with_telemetry(skb, self.config.telemetry);
        }
        sch.child_enqueue(skb, admission)
    }

    #[inline(always)] // as enqueue
    fn dequeue(&mut self, sch: &mut Sch<'_, Self>) -> Next<Skb> {
        sch.child_dequeue().map_or(Next::Nothing, Next::Packet)
    }

    fn reset(&mut self, _rtnl: &mut Rtnl<'_, Self>, _purge: &mut Purge<'_>) {}
}
