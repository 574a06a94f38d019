// SPDX-License-Identifier: GPL-2.0-only

//! `resend`: a switch's port that tells senders of the packets that its child drops, and a host's
//! port that retransmits them.
//!
//! The other files of this folder make the decisions. A namespace is a `Host`, whose devices see
//! the packets that arrive; notices are addressed to it, so its ICMP discards them afterwards. A
//! copy goes through all qdiscs of its device, and waits here, ahead of the child.
//!
//! # Time
//!
//! A `wire` above asks this qdisc at the end of each packet (it is not `TIMELESS`), so a notice or
//! a copy waits for no more than the packet on the wire.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(resend);

use crate::common::discipline::Next;
use crate::common::shared;
use crate::resend::copies::Copies;
use crate::resend::host::{count, Counters, Host};
use crate::resend::notice;
use crate::resend::options::Config;
use crate::resend::segment::{Segment, HEADERS};
use crate::resend::stats::Stats;
use kapi::{
    admission::{Admission, Verdict},
    outbox::{self, Copied, Outlet},
    qdisc::{Qdisc, Rtnl, Sch, Setup},
    skb::{Fifo, Purge, Skb},
    store::KernelStore,
};

module! {
    type: outbox::Sending<Resend>,
    name: "sch_resend",
    authors: ["The weft developers"],
    description: "Ideal retransmission: switches report drops, and hosts retransmit the packets",
    license: "GPL",
    alias: ["net-sch-resend"],
}

/// The most bytes of waiting notices: they are sent before anything else, so a longer backlog is
/// not congestion but a flood.
const CONTROL_LIMIT: u32 = 65_536;

/// The longest packet that is copied, a jumbo frame: with the number of copies it bounds their
/// bytes.
const LONGEST: u32 = 9_216;

/// The copies of a device.
type Room = Copies<KernelStore, Copied>;

/// The host that is a namespace.
struct Node(Host<KernelStore, Copied, Outlet>);

impl shared::Shared for Node {
    const ARRIVALS: bool = true;

    type Error = Error;

    fn new() -> Result<Self> {
        Ok(Self(Host::new()))
    }

    fn arrived(&mut self, protocol: u16, header: &[u8], _now: u64) -> bool {
        self.0.hear(protocol, header, |outlet, copy| {
            copy.packet().is_some_and(|skb| outlet.send(skb))
        });
        // The outbox sends, not the namespace.
        false
    }
}

struct Resend {
    config: Config,
    /// The device's number in its host, if its packets are copied.
    number: Option<u8>,
    /// The way of notices, from the first packet on.
    outlet: Option<Outlet>,
    /// Whether the host has the way of copies.
    is_connected: bool,
    /// Notices.
    control: Fifo,
    control_bytes: u32,
    /// Copies that wait to be sent.
    waiting: Fifo,
    noticed: u64,
    unsent: u64,
    unnamed: u64,
    dropped_control: u64,
    uncopied: u64,
}

impl Resend {
    /// Copies a packet that leaves, if it is a segment of this host.
    #[inline]
    fn copy(&mut self, sch: &mut Sch<'_, Self>, number: u8, skb: &Skb) {
        if skb.ingress() != 0 {
            return;
        }
        let Some(segment) = Segment::read(skb.protocol(), skb.network_header()) else {
            return;
        };
        if !self.is_connected {
            let outlet = Outlet::of(sch);
            drop(sch.shared(|node| node.0.connect(number, outlet)));
            self.is_connected = true;
        }
        let packet = skb.packet();
        let is_one = packet.segments == 1 && packet.len <= LONGEST;
        let Some(copy) = is_one.then(|| Copied::of(skb)).flatten() else {
            return count(&mut self.uncopied);
        };
        let kept = sch.shared(|node| node.0.keep(number, segment, copy, packet.len));
        if kept.is_err() {
            count(&mut self.uncopied);
        }
    }
}

#[vtable]
impl Qdisc for Resend {
    const KIND: &'static str = crate::resend::KIND;
    // Each packet is copied.
    const CAN_BYPASS: bool = false;
    const CHILD: bool = true;
    type Shared = Node;
    type Config = Config;
    /// Room for copies, if it differs from before.
    type Prepared = Option<Room>;
    type Stats = [u8; Stats::SIZE];
    type QueueStats = [u8; 0];

    fn prepare(current: Option<&Config>, config: &Config) -> Result<Option<Room>> {
        let before = current.map_or(0, |current| current.keep);
        if config.keep == before {
            return Ok(None);
        }
        Copies::new(config.keep).map(Some)
    }

    fn sees_arrivals(config: &Config) -> bool {
        config.keep != 0
    }

    fn new(config: Config, room: Option<Room>, setup: &mut Setup<'_, Self>) -> Result<Self> {
        let number = match room {
            None => None,
            Some(room) => match setup.shared(|node| node.0.join(room)) {
                Ok(number) => Some(number),
                Err(_room) => {
                    setup.explain(c"A namespace keeps the packets of at most 16 devices");
                    return Err(ENOSPC);
                }
            },
        };
        Ok(Self {
            config,
            number,
            outlet: None,
            is_connected: false,
            control: Fifo::new(),
            control_bytes: 0,
            waiting: Fifo::new(),
            noticed: 0,
            unsent: 0,
            unnamed: 0,
            dropped_control: 0,
            uncopied: 0,
        })
    }

    fn apply(
        &mut self,
        sch: &mut Sch<'_, Self>,
        config: Config,
        room: Option<Room>,
        _purge: &mut Purge<'_>,
    ) -> Option<Room> {
        self.config = config;
        let (number, room) = self.number.zip(room)?;
        let (Ok(room) | Err(room)) = sch.shared(|node| node.0.replace(number, room));
        Some(room)
    }

    fn config(&self) -> Config {
        self.config
    }

    fn stats(&mut self, sch: &mut Sch<'_, Self>) -> Self::Stats {
        let number = self.number;
        let (counters, (copies, copied)) = match number {
            Some(number) => sch.shared(|node| (node.0.counters(), node.0.copies(number))),
            None => (Counters::default(), (0, 0)),
        };
        Stats {
            noticed: self.noticed,
            unsent: self.unsent,
            unnamed: self.unnamed,
            dropped_control: self.dropped_control,
            waiting: self.waiting.len(),
            copies,
            copied,
            uncopied: self.uncopied,
            received: counters.received,
            resent: counters.resent,
            missed: counters.missed,
            failed: counters.failed,
            malformed: counters.malformed,
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
        if notice::is_notice(skb.protocol(), skb.network_header()) {
            let bytes = self.control_bytes.saturating_add(skb.packet().len);
            if bytes > CONTROL_LIMIT {
                count(&mut self.dropped_control);
                return admission.refuse(sch, skb);
            }
            self.control_bytes = bytes;
            self.control.push(skb, 0);
            return admission.queued(sch);
        }
        if outbox::is_sent_later(&skb) {
            if self.waiting.len() >= self.config.keep {
                return admission.refuse(sch, skb);
            }
            self.waiting.push(skb, 0);
            return admission.queued(sch);
        }
        let outlet = &*self.outlet.get_or_insert_with(|| Outlet::of(sch));
        let (noticed, unsent, unnamed) = (&mut self.noticed, &mut self.unsent, &mut self.unnamed);
        outbox::child_enqueue(sch, skb, admission, |dropped| {
            // A packet of this host was refused to its own TCP, which knows.
            let is_one = dropped.ingress() != 0 && dropped.packet().segments == 1;
            let mut room = [0; HEADERS];
            let header = dropped.copy_network_header(&mut room);
            let segment = Segment::read(dropped.protocol(), header).filter(|_| is_one);
            let is_sent =
                segment.map(|segment| outlet.notify(segment.source, &notice::encode(&segment)));
            match is_sent {
                None => count(unnamed),
                Some(true) => count(noticed),
                Some(false) => count(unsent),
            }
        })
    }

    #[inline(always)] // as enqueue
    fn dequeue(&mut self, sch: &mut Sch<'_, Self>) -> Next<Skb> {
        if let Some(skb) = self.control.pop() {
            self.control_bytes = self.control_bytes.wrapping_sub(skb.packet().len);
            return Next::Packet(skb);
        }
        if let Some(skb) = self.waiting.pop() {
            return Next::Packet(skb);
        }
        let Some(skb) = sch.child_dequeue() else {
            return Next::Nothing;
        };
        if let Some(number) = self.number {
            self.copy(sch, number, &skb);
        }
        Next::Packet(skb)
    }

    fn reset(&mut self, rtnl: &mut Rtnl<'_, Self>, purge: &mut Purge<'_>) {
        purge.empty(&mut self.control);
        self.control_bytes = 0;
        purge.empty(&mut self.waiting);
        if let Some(number) = self.number {
            // As many as there is room for, at most.
            while let Some(copy) = rtnl.shared(|node| node.0.pop(number)) {
                purge.free(copy.into_skb());
            }
        }
    }

    fn destroy(&mut self, rtnl: &mut Rtnl<'_, Self>) {
        if let Some(number) = self.number {
            drop(rtnl.shared(|node| node.0.leave(number)));
        }
    }
}
