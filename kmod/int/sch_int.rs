// SPDX-License-Identifier: GPL-2.0-only

//! `int`: measures the utilisation of a link, and stamps it on the packets that leave.
//!
//! Y. Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019; R. Ben Basat et al.,
//! "PINT: Probabilistic In-band Network Telemetry", SIGCOMM 2020. The measurement is in `meter`;
//! this file connects it to the packets, which wait in any qdisc as its child.
//!
//! # Time
//!
//! A `wire` above asks this qdisc at the end of each packet (it is not `TIMELESS`), so a packet is
//! measured when its serialization begins.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(int);

use crate::common::{
    discipline::Next,
    on_wire,
    stamp::{self, thousandths, Stamps},
};
use crate::int::meter::Meter;
use crate::int::options::Config;
use crate::int::stats::Stats;
use kapi::{
    admission::{Admission, Verdict},
    clock::now,
    qdisc::{Qdisc, Rtnl, Sch, Setup},
    registration::Registration,
    skb::{Purge, Skb},
    tagged::MaybeTagged,
};

module! {
    type: Registration<Int>,
    name: "sch_int",
    authors: ["The weft developers"],
    description: "In-band telemetry: packets collect the utilisation of links",
    license: "GPL",
    alias: ["net-sch-int"],
}

/// What has happened to packets.
#[derive(Clone, Copy, Default)]
struct Counters {
    stamped: u64,
    kept: u64,
    untagged: u64,
    unwritable: u64,
}

struct Int {
    config: Config,
    meter: Meter,
    /// In 2^-20.
    highest: u32,
    counters: Counters,
}

fn count(counter: &mut u64) {
    *counter = counter.wrapping_add(1);
}

impl Int {
    /// Raises the packet's stamp to `code`.
    #[inline]
    fn stamp(&mut self, skb: Skb, code: u16) -> Skb {
        let protocol = skb.protocol();
        let mut packet = match MaybeTagged::read(skb, protocol) {
            Ok(packet) => packet,
            Err(skb) => {
                count(&mut self.counters.unwritable);
                return skb;
            }
        };
        let MaybeTagged::Tagged { tag, .. } = &mut packet else {
            count(&mut self.counters.untagged);
            return packet.into_skb();
        };
        match Stamps::from_rank(tag.rank) {
            None => {
                count(&mut self.counters.untagged);
                packet.into_skb()
            }
            Some(stamps) if stamps.stamp >= code => {
                count(&mut self.counters.kept);
                packet.into_skb()
            }
            Some(stamps) => {
                count(&mut self.counters.stamped);
                tag.rank = Stamps {
                    stamp: code,
                    ..stamps
                }
                .to_rank();
                packet.written()
            }
        }
    }
}

#[vtable]
impl Qdisc for Int {
    const KIND: &'static str = crate::int::KIND;
    // Each packet is measured.
    const CAN_BYPASS: bool = false;
    const CHILD: bool = true;
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
            meter: Meter::new(config.link()),
            highest: 0,
            counters: Counters::default(),
        })
    }

    fn apply(&mut self, _sch: &mut Sch<'_, Self>, config: Config, (): (), _purge: &mut Purge<'_>) {
        self.meter.set_link(config.link());
        self.config = config;
    }

    fn config(&self) -> Config {
        self.config
    }

    fn stats(&mut self, _sch: &mut Sch<'_, Self>) -> Self::Stats {
        let Counters {
            stamped,
            kept,
            untagged,
            unwritable,
        } = self.counters;
        Stats {
            utilisation: thousandths(self.meter.at(now()).into()),
            highest_utilisation: thousandths(self.highest.into()),
            stamped,
            kept,
            untagged,
            unwritable,
        }
        .to_bytes()
    }

    #[inline(always)] // into the kernel's callback, its only caller
    fn enqueue<'a>(
        &mut self,
        sch: &mut Sch<'_, Self>,
        skb: Skb,
        admission: Admission<'a>,
    ) -> Verdict<'a> {
        sch.child_enqueue(skb, admission)
    }

    #[inline(always)] // as enqueue
    fn dequeue(&mut self, sch: &mut Sch<'_, Self>) -> Next<Skb> {
        let Some(skb) = sch.child_dequeue() else {
            return Next::Nothing;
        };
        let Config { overhead, mpu, .. } = self.config;
        let packet = skb.packet();
        let bytes = on_wire::bytes(skb.wire_len(), packet.segments, overhead, mpu);
        let queue = match sch.child_len() {
            // A child may count bytes although it has no packet.
            0 => 0,
            // The packet still counts in this qdisc's backlog.
            packets => on_wire::bytes(
                sch.backlog().saturating_sub(packet.len),
                packets,
                overhead,
                mpu,
            ),
        };
        let utilisation = self.meter.depart(now(), bytes, queue);
        self.highest = self.highest.max(utilisation);
        Next::Packet(self.stamp(skb, stamp::code_of(utilisation)))
    }

    fn reset(&mut self, _rtnl: &mut Rtnl<'_, Self>, _purge: &mut Purge<'_>) {
        self.meter.reset();
    }
}
