// SPDX-License-Identifier: GPL-2.0-only

//! `dibs`: the switch of "DIBS: Just-in-time Congestion Mitigation for Data Centers" (EuroSys
//! 2014).
//!
//! The other files of this folder make the decisions: a namespace is a `Switch`, and a device a
//! port of it. This file holds the waiting packets. A packet's rank is its `skb->priority`, its
//! flow the one of `kapi`'s `flow`.
//!
//! # A packet that is detoured
//!
//! ```text
//!   enqueue at a, under a's qdisc lock             the namespace's work, no lock          enqueue at b
//!   ┌ switch lock ────────────────────┐            ┌ switch lock ┐                        ┌ switch lock ┐
//!   │ a is full; b has room: a place  │ mark, TTL  │ embark: b,  │ header of b's link,    │ it is the   │
//!   │ at b is reserved                ├──▶ list ──▶│ or another  ├─▶ dev_queue_xmit() ───▶│ one: place  │
//!   └─────────────────────────────────┘            └─────────────┘                        └─────────────┘
//! ```
//!
//! The head of `kapi`'s `namespace`, which carries out detours, explains why this cannot deadlock,
//! lose or duplicate a packet, or exceed a port's limit. This module adds the count: all ports'
//! packets and the reserved places are counted under the switch lock, so every decision takes into
//! account all earlier ones, on whatever CPU. A packet is dropped for lack of room only if at that
//! moment no port had any. A packet that leaves a port is counted without the lock, and every
//! decision takes that into account, too (`Departures`).
//!
//! The address of the next switch comes from the kernel's neighbour tables for the link, IPv4's or
//! IPv6's. So it needs no option, nothing is learned from packets, and it follows a change of the
//! neighbour. Packets are not detoured to a port if nothing was ever sent to its neighbour.
//!
//! A hop is counted once, when the next switch forwards the packet.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(dibs);

use crate::common::discipline::Next;
use crate::common::shared;
use crate::common::store::Store;
use crate::dibs::ip::{self, Header};
use crate::dibs::options::{Config, Policy, TTL_AS_IT_IS};
use crate::dibs::stats::Stats;
use crate::dibs::switch::{
    places, Arrival, Cause, Decision, Departures, Exits, Reason, Switch, Terms,
};
use kapi::{
    admission::{Admission, Verdict},
    clock::random,
    flow::Flows,
    namespace::Arriving,
    qdisc::{Qdisc, Rtnl, Sch, Setup},
    registration::Registration,
    skb::{Fifo, Packet, Purge, Skb},
    store::KernelStore,
};

module! {
    type: Registration<Port>,
    name: "sch_dibs",
    authors: ["The weft developers"],
    description: "DIBS: packets are detoured by another port in place of being dropped",
    license: "GPL",
    alias: ["net-sch-dibs"],
}

/// The state that the ports of a namespace share.
struct Fabric(Switch<KernelStore>);

impl shared::Shared for Fabric {
    type Error = Error;

    fn new() -> Result<Self> {
        Switch::new(random()).map(Self)
    }

    fn embark(&mut self, port: u16, len: u32, takes: impl FnMut(u32) -> bool) -> Option<u32> {
        self.0.embark(port, len, takes)
    }

    fn landed(&mut self, sent: bool) {
        self.0.landed(sent);
    }
}

/// The ports by which an arriving packet can leave.
struct ArrivalExits<'a>(&'a Arriving<'a>);

impl Exits for ArrivalExits<'_> {
    fn is_routed(&mut self) -> bool {
        self.0.is_routed()
    }

    fn takes(&mut self, device: u32) -> bool {
        self.0.is_taken_by(device)
    }
}

struct Port {
    config: Config,
    flows: Flows,
    waiting: Fifo,
    /// The port's number in its switch.
    number: u16,
    departures: Shared<Departures>,
    unmarked: u64,
    dropped_change: u64,
}

/// A value with several owners.
type Shared<T> = <KernelStore as Store>::Shared<T>;

/// Makes a port a member of its namespace's switch, until it leaves; returns its number, and its
/// departures.
fn join(setup: &mut Setup<'_, Port>, config: &Config) -> Result<(u16, Shared<Departures>)> {
    // Memory is reserved and freed outside of the lock. RTNL keeps others from joining meanwhile.
    if let Some(wanted) = setup.shared(|fabric| fabric.0.wanted_places()) {
        let places = places(wanted)?;
        drop(setup.shared(|fabric| fabric.0.grow(places)));
    }
    let (device, terms) = (setup.device(), Terms::new(config));
    let departures = KernelStore::share(Departures::default())?;
    let joined = setup.shared(|fabric| fabric.0.join(device, &terms, departures));
    joined.ok_or_else(|| {
        setup.explain(c"A namespace has at most 1024 ports with dibs");
        ENOSPC
    })
}

/// Writes to a packet's header; returns the packet, and whether the header was writable.
fn write(skb: Skb, header: &Header, write: impl FnOnce(&mut [u8])) -> (Skb, bool) {
    match skb.with_header(header.len) {
        Ok(mut skb) => {
            write(skb.header());
            (skb.into_skb(), true)
        }
        Err(skb) => (skb, false),
    }
}

impl Port {
    fn mark(&mut self, skb: Skb, header: &Header) -> Skb {
        let (skb, marked) = write(skb, header, ip::set_ce);
        self.unmarked = self.unmarked.wrapping_add((!marked).into());
        skb
    }

    /// Takes the first packet that waits.
    #[inline]
    fn pop(&mut self) -> Option<Skb> {
        let skb = self.waiting.pop()?;
        self.departures.count(skb.packet().len);
        Some(skb)
    }
}

#[vtable]
impl Qdisc for Port {
    const KIND: &'static str = crate::dibs::KIND;
    // Each packet is counted, and each packet from another port has a place.
    const CAN_BYPASS: bool = false;
    type Shared = Fabric;
    type Config = Config;
    type Prepared = ();
    type Stats = [u8; Stats::SIZE];
    type QueueStats = [u8; 0];

    fn prepare(_current: Option<&Config>, _config: &Config) -> Result<()> {
        Ok(())
    }

    fn new(config: Config, (): (), setup: &mut Setup<'_, Self>) -> Result<Self> {
        let (number, departures) = join(setup, &config)?;
        Ok(Self {
            config,
            flows: Flows::new(),
            waiting: Fifo::new(),
            number,
            departures,
            unmarked: 0,
            dropped_change: 0,
        })
    }

    fn apply(&mut self, sch: &mut Sch<'_, Self>, config: Config, (): (), purge: &mut Purge<'_>) {
        self.config = config;
        sch.shared(|fabric| {
            fabric.0.set_terms(self.number, &Terms::new(&config));
            while fabric.0.is_over(self.number) {
                let Some(skb) = self.pop() else {
                    break;
                };
                self.dropped_change = self.dropped_change.wrapping_add(1);
                purge.free(skb);
            }
        });
    }

    fn config(&self) -> Config {
        self.config
    }

    fn stats(&mut self, sch: &mut Sch<'_, Self>) -> Self::Stats {
        let number = self.number;
        let (counters, switch, (_, coming), bytes) = sch.shared(|fabric| {
            let switch = &mut fabric.0;
            switch.settle_all();
            (
                switch.counters(number),
                switch.switch_counters(),
                switch.packets(number),
                switch.bytes(),
            )
        });
        Stats {
            detoured_limit: counters.detoured[Reason::Limit as usize],
            detoured_bytes: counters.detoured[Reason::Bytes as usize],
            detoured_share: counters.detoured[Reason::Share as usize],
            detoured_early: counters.detoured[Reason::Early as usize],
            received: counters.received,
            coming,
            marked: counters.marked.wrapping_sub(self.unmarked),
            unmarked: self.unmarked,
            dropped_full: counters.dropped[Cause::Full as usize],
            dropped_ttl: counters.dropped[Cause::Ttl as usize],
            dropped_link: counters.dropped[Cause::Link as usize],
            dropped_off: counters.dropped[Cause::Off as usize],
            dropped_change: self.dropped_change,
            highest_backlog: counters.highest,
            highest_backlog_bytes: counters.highest_bytes,
            switch_backlog: bytes,
            highest_switch_backlog: switch.highest_bytes,
            switch_dropped_lost: switch.lost,
            switch_diverted: switch.diverted,
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
        let flow = match self.config.policy {
            Policy::Flow => self.flows.of(sch, &mut skb),
            _ => 0,
        };
        let (number, Packet { len, priority, .. }) = (self.number, skb.packet());
        let (decision, header) = sch.arriving(&skb, |fabric, packet| {
            let carried = packet.is_carried();
            if !carried && fabric.0.admit(number, len) {
                return (Decision::Queue { mark: false }, Header::NONE);
            }
            let header = Header::read(skb.protocol(), skb.network_header());
            let arrival = Arrival {
                len,
                rank: priority,
                flow,
                ecn: header.ecn,
                reach: header.reach,
                carried,
            };
            (
                fabric.0.arrive(number, &arrival, ArrivalExits(packet)),
                header,
            )
        });
        match decision {
            Decision::Queue { mark } => {
                if mark {
                    skb = self.mark(skb, &header);
                }
                self.waiting.push(skb, 0);
                admission.queued(sch)
            }
            Decision::Detour { port, mark, .. } => {
                if mark {
                    skb = self.mark(skb, &header);
                }
                if self.config.ttl != TTL_AS_IT_IS {
                    let most = u8::try_from(self.config.ttl).unwrap_or(u8::MAX);
                    (skb, _) = write(skb, &header, |header| ip::cap_ttl(header, most));
                }
                admission.detour(sch, skb, port)
            }
            Decision::Drop(_) => admission.refuse(sch, skb),
        }
    }

    #[inline(always)] // as enqueue
    fn dequeue(&mut self, _sch: &mut Sch<'_, Self>) -> Next<Skb> {
        self.pop().map_or(Next::Nothing, Next::Packet)
    }

    fn peek(&self) -> Option<&Skb> {
        self.waiting.first_skb()
    }

    fn reset(&mut self, _rtnl: &mut Rtnl<'_, Self>, purge: &mut Purge<'_>) {
        while let Some(skb) = self.pop() {
            purge.free(skb);
        }
    }

    fn destroy(&mut self, rtnl: &mut Rtnl<'_, Self>) {
        drop(rtnl.shared(|fabric| fabric.0.leave(self.number)));
    }
}
