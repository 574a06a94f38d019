// SPDX-License-Identifier: GPL-2.0-only

//! `int`: measures a link, and writes its record or its utilisation into the packets that leave.
//!
//! Y. Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019; R. Ben Basat et al.,
//! "PINT: Probabilistic In-band Network Telemetry", SIGCOMM 2020. The measurement is in `meter`;
//! this file connects it to the packets, which wait in any qdisc as its child.
//!
//! The packet decides what it gets: a record if it has room for records, a stamp if it has a tag.
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
    records::Departure,
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
    tagged::{MaybeTagged, Recorded, Recording},
};

module! {
    type: Registration<Int>,
    name: "sch_int",
    authors: ["The weft developers"],
    description: "In-band telemetry: packets collect the state of links",
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
    recorded: u64,
    full: u64,
    returning: u64,
}

struct Int {
    config: Config,
    /// The device's index, by which a path's digest tells the ports of a switch apart.
    port: u32,
    meter: Meter,
    /// In 2^-20.
    highest: u32,
    counters: Counters,
}

fn count(counter: &mut u64) {
    *counter = counter.wrapping_add(1);
}

impl Int {
    /// Adds the link's record to the packet, if that has room for records.
    ///
    /// # Errors
    ///
    /// The packet, if it is none with records.
    #[inline]
    fn record(&mut self, skb: Skb, departure: Departure) -> Result<Skb, Skb> {
        let protocol = skb.protocol();
        let packet = Recording::find(skb, protocol)?;
        if packet.returns() {
            count(&mut self.counters.returning);
            return Ok(packet.into_skb());
        }
        let (counter, skb) = match packet.append(self.port, self.meter.rtt(), departure) {
            Recorded::Yes(skb) => (&mut self.counters.recorded, skb),
            Recorded::Full(skb) => (&mut self.counters.full, skb),
            Recorded::Unwritable(skb) => (&mut self.counters.unwritable, skb),
        };
        count(counter);
        Ok(skb)
    }

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

    fn new(config: Config, (): (), setup: &mut Setup<'_, Self>) -> Result<Self> {
        Ok(Self {
            config,
            port: setup.device(),
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
            recorded,
            full,
            returning,
        } = self.counters;
        Stats {
            utilisation: thousandths(self.meter.at(now()).into()),
            highest_utilisation: thousandths(self.highest.into()),
            stamped,
            kept,
            untagged,
            unwritable,
            recorded,
            full,
            returning,
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
        let now = now();
        let departure = self.meter.departure(now, queue);
        let utilisation = self.meter.depart(now, bytes, queue);
        self.highest = self.highest.max(utilisation);
        Next::Packet(match self.record(skb, departure) {
            Ok(skb) => skb,
            Err(skb) => self.stamp(skb, stamp::code_of(utilisation)),
        })
    }

    fn reset(&mut self, _rtnl: &mut Rtnl<'_, Self>, _purge: &mut Purge<'_>) {
        self.meter.reset();
    }
}
