// SPDX-License-Identifier: GPL-2.0-only

//! `fastpass`: a host of "Fastpass: A Centralized 'Zero-Queue' Datacenter Network" (SIGCOMM 2014).
//!
//! The other files of this folder make the decisions. This file holds the packets: a FIFO for each
//! bin of each stream, one for packets that need no timeslot, and one for control packets, which
//! goes first. A `Host` is a member of its namespace, which has the socket: it receives the
//! arbiter's messages, and has this device asked for packets when a timeslot was given.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(fastpass);

use crate::common::discipline;
use crate::common::shared::{self, Peer, DATAGRAM};
use crate::common::store::Store;
use crate::common::tag::{self, Tag};
use crate::fastpass::address::{self, Addresses, Arrival, Ends, Load, Sort, NO_NUMBER};
use crate::fastpass::frame::MAX_SIZE;
use crate::fastpass::host::{Host, Next};
use crate::fastpass::options::Config;
use crate::fastpass::queues::{Head, Order};
use crate::fastpass::stats::Stats;
use kapi::{
    admission::{Admission, Verdict},
    clock::{now, random},
    flow::Flows,
    qdisc::{Qdisc, Rtnl, Sch, Setup},
    registration::Registration,
    skb::{Fifo, Purge, Skb},
    store::KernelStore,
    tagged::MaybeTagged,
};

module! {
    type: Registration<Port>,
    name: "sch_fastpass",
    authors: ["The weft developers"],
    description: "Fastpass: packets leave in the timeslots that an arbiter gives",
    license: "GPL",
    alias: ["net-sch-fastpass"],
}

const _: () = assert!(MAX_SIZE <= DATAGRAM);

// ---- A namespace ------------------------------------------------------------------------------

/// The most endpoints in a namespace.
const MEMBERS: usize = 64;

/// An endpoint.
struct Member {
    host: Host<KernelStore>,
    device: u32,
    arbiter: Peer,
    /// A second arbiter, which gets the same messages and is also obeyed: only the one that is not
    /// on standby sends any.
    standby: Option<Peer>,
    addresses: Addresses,
    own: u32,
    /// The last message to the first arbiter, still to be sent to the second.
    copy: [u8; MAX_SIZE],
    copied: usize,
}

impl Member {
    fn is_arbiter(&self, peer: Peer) -> bool {
        self.arbiter == peer || self.standby == Some(peer)
    }
}

/// The endpoints of a namespace, usually one.
struct Node {
    members: KVVec<Option<Member>>,
}

impl Node {
    fn members(&mut self) -> impl Iterator<Item = &mut Member> {
        self.members.iter_mut().flatten()
    }
}

impl shared::Shared for Node {
    const DATAGRAMS: bool = true;
    const ARRIVALS: bool = true;
    type Error = Error;

    fn new() -> Result<Self> {
        let members = KernelStore::allocate(0, || None)?;
        Ok(Self { members })
    }

    fn receive_datagram(&mut self, from: Peer, data: &[u8], now: u64) -> Option<u32> {
        for member in self.members().filter(|member| member.is_arbiter(from)) {
            // Another endpoint's: it is counted there, and here as foreign.
            if let Some(news) = member.host.receive(now, data) {
                return news.then_some(member.device);
            }
        }
        None
    }

    fn arrived(&mut self, protocol: u16, header: &[u8], now: u64) -> bool {
        let mut is_news = false;
        for member in self.members().filter(|it| it.host.counts_paths()) {
            let arrival = address::arrival(protocol, header);
            let Some(arrival) = arrival.filter(|it| it.to == member.own) else {
                continue;
            };
            if let Some(from) = member.addresses.endpoint(arrival.from) {
                let Arrival { path, number, .. } = arrival;
                member.host.arrived(now, from, path, number);
                is_news = true;
            }
        }
        is_news
    }

    #[inline]
    fn has_news(&self) -> bool {
        let members = self.members.iter().flatten();
        let mut due = members.filter_map(|member| member.host.next_poll());
        // The clock is read only if there may be something to send.
        due.any(|at| at <= now())
    }

    fn next_datagram(&mut self, now: u64, data: &mut [u8; DATAGRAM]) -> Option<(Peer, usize)> {
        let data = data.first_chunk_mut()?;
        for member in self.members() {
            let copied = core::mem::take(&mut member.copied);
            if let Some(standby) = member.standby.filter(|_| copied > 0) {
                *data = member.copy;
                return Some((standby, copied));
            }
            if let Some(len) = member.host.poll(now, data) {
                if member.standby.is_some() {
                    member.copy = *data;
                    member.copied = len;
                }
                return Some((member.arbiter, len));
            }
        }
        None
    }

    fn next_event(&self) -> Option<u64> {
        let members = self.members.iter().flatten();
        members.filter_map(|member| member.host.next_poll()).min()
    }
}

// ---- A port -----------------------------------------------------------------------------------

struct Port {
    config: Config,
    addresses: Addresses,
    /// The number of its endpoint.
    own: Option<u16>,
    /// By stream, and by bin. A stamp holds the rank in its upper half, and the cost.
    waiting: KVVec<Fifo>,
    unscheduled: Fifo,
    control: Fifo,
    flows: Flows,
    /// The number of this member in its namespace.
    member: usize,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    pathless: u64,
    unscheduled: u64,
    control: u64,
    control_bytes: u64,
    dropped_unscheduled: u64,
}

fn count(counter: &mut u64) {
    *counter = counter.wrapping_add(1);
}

/// The memory for a configuration: the queues, and the host of a new qdisc.
struct Memory {
    waiting: KVVec<Fifo>,
    host: Option<Host<KernelStore>>,
}

fn host(config: &Config) -> Result<Host<KernelStore>> {
    let addresses = config.addresses();
    let id = addresses.endpoint(config.address).ok_or(EINVAL)?;
    let seed = u64::from(random()) << 32 | u64::from(random());
    Host::new(config.shape(id), seed, config.terms())
}

/// Makes an endpoint a member of its namespace; returns its number.
fn join(setup: &mut Setup<'_, Port>, member: Member) -> Result<usize> {
    // Memory is reserved and freed outside of the lock. RTNL keeps others from joining meanwhile.
    let full = setup.shared(|node| {
        let is_full = node.members.iter().all(Option::is_some);
        is_full.then(|| node.members.len())
    });
    if let Some(len) = full {
        if len >= MEMBERS {
            setup.explain(c"A namespace has at most 64 qdiscs with fastpass");
            return Err(ENOSPC);
        }
        let mut room = KernelStore::allocate(len.wrapping_mul(2).max(1), || None)?;
        setup.shared(|node| {
            for (place, member) in room.iter_mut().zip(node.members.iter_mut()) {
                *place = member.take();
            }
            core::mem::swap(&mut room, &mut node.members);
        });
    }
    setup.listen().inspect_err(|error| {
        if *error == EACCES {
            setup.explain(
                c"The qdisc's socket has a port below 1024: CAP_NET_BIND_SERVICE is needed",
            );
        }
    })?;
    setup.shared(|node| {
        for number in 0..node.members.len() {
            if let Some(place @ None) = node.members.get_mut(number) {
                *place = Some(member);
                return Ok(number);
            }
        }
        Err(ENOSPC)
    })
}

/// Writes a path into a packet's tag, in the field for the upstream queue, and a sequence number in
/// the field for the rank. Requests the number only if there is a tag; without a number the rank
/// stays. Returns whether there is a tag.
fn direct(skb: Skb, path: u8, number: impl FnOnce() -> Option<u32>) -> (Skb, bool) {
    let protocol = skb.protocol();
    match MaybeTagged::read(skb, protocol) {
        Ok(MaybeTagged::Tagged { skb, at, tag }) => {
            let rank = number().unwrap_or(tag.rank);
            let upstream_queue = u16::from(path).wrapping_add(1);
            let tag = Tag {
                rank,
                upstream_queue,
            };
            (MaybeTagged::Tagged { skb, at, tag }.written(), true)
        }
        Ok(skb) => (skb.into_skb(), false),
        Err(skb) => (skb, false),
    }
}

/// The FIFO of a stream's bin.
#[inline]
fn place(order: Order, stream: u16, bin: u32) -> usize {
    let first = u32::from(stream).wrapping_mul(order.bins());
    first.wrapping_add(bin) as usize
}

impl Port {
    #[inline]
    fn place(&self, stream: u16, bin: u32) -> usize {
        place(self.config.order, stream, bin)
    }

    /// The bin of a packet, and its flow's hash; 0 if all flows have one bin.
    #[inline]
    fn bin(&mut self, sch: &mut Sch<'_, Self>, skb: &mut Skb, load: Load) -> (u32, u32) {
        let order = self.config.order;
        match (load, order) {
            (Load::Opening, _) => (order.openings(), 0),
            (Load::Ack, _) if self.config.hold > 0 => (order.acks(), 0),
            (_, Order::Fifo) => (0, 0),
            (_, Order::Drr | Order::Rank) => {
                let flow = self.flows.of(sch, skb);
                (order.bin(flow), flow)
            }
        }
    }

    /// The class of a packet, and its rank. Acknowledgements, packets that open a connection and
    /// packets without a rank are the most urgent.
    #[inline]
    fn urgency(&self, skb: &Skb, load: Load) -> (u16, u32) {
        let is_ranked = self.config.classes >= 2 || self.config.order == Order::Rank;
        if !is_ranked || matches!(load, Load::Ack | Load::Opening) {
            return (0, 0);
        }
        let header = skb.network_header();
        let rank = tag::read(header).map_or(0, |(_, tag)| tag.rank);
        (self.config.class(rank), rank)
    }

    /// Classifies a packet by its headers.
    #[inline]
    fn sort(&self, skb: &Skb) -> Sort {
        let header = skb.network_header();
        let ends = Ends {
            own: self.config.address,
            arbiter: self.config.arbiter,
            standby: self.config.standby,
            port: self.config.port as u16,
        };
        if header.len() < address::HEADERS {
            let mut copy = [0; address::HEADERS];
            return address::sort(skb.protocol(), skb.copy_network_header(&mut copy), &ends);
        }
        address::sort(skb.protocol(), header, &ends)
    }

    /// Gives a control packet a path, if there are several.
    fn direct_control(&self, sch: &mut Sch<'_, Self>, skb: Skb) -> Skb {
        if self.config.counted_paths() == 0 {
            return skb;
        }
        let to = match self.sort(&skb) {
            Sort::ToArbiter(address) | Sort::OfArbiter(address) => self.addresses.endpoint(address),
            _ => None,
        };
        let Some(to) = to else {
            return skb;
        };
        let path = sch.shared(|node| match node.members.get_mut(self.member) {
            Some(Some(member)) => member.host.control_path(now(), to, random()),
            _ => None,
        });
        match path {
            Some(path) => direct(skb, path, || Some(NO_NUMBER)).0,
            None => skb,
        }
    }
}

#[vtable]
impl Qdisc for Port {
    const KIND: &'static str = crate::fastpass::KIND;
    // Packets wait for their timeslots.
    const CAN_BYPASS: bool = false;
    const WATCHDOG: bool = true;
    type Shared = Node;
    type Config = Config;
    type Prepared = Memory;
    type Stats = [u8; Stats::SIZE];
    type QueueStats = [u8; 0];

    fn prepare(current: Option<&Config>, config: &Config) -> Result<Memory> {
        let (queues, host) = match current {
            Some(_) => (0, None),
            None => {
                let streams = config.addresses().count().wrapping_mul(config.classes);
                let queues = streams.wrapping_mul(config.order.bins());
                (queues, Some(host(config)?))
            }
        };
        let waiting = KernelStore::allocate(queues as usize, Fifo::new)?;
        Ok(Memory { waiting, host })
    }

    fn sees_arrivals(config: &Config) -> bool {
        config.counted_paths() > 0
    }

    fn new(config: Config, memory: Memory, setup: &mut Setup<'_, Self>) -> Result<Self> {
        let peer = |address| Peer {
            address,
            port: config.port as u16,
        };
        let member = Member {
            host: memory.host.ok_or(EINVAL)?,
            device: setup.device(),
            addresses: config.addresses(),
            own: config.address,
            arbiter: peer(config.arbiter),
            standby: (config.standby != 0).then(|| peer(config.standby)),
            copy: [0; MAX_SIZE],
            copied: 0,
        };
        Ok(Self {
            config,
            addresses: config.addresses(),
            own: config.addresses().endpoint(config.address),
            waiting: memory.waiting,
            unscheduled: Fifo::new(),
            control: Fifo::new(),
            flows: Flows::new(),
            member: join(setup, member)?,
            counts: Counts::default(),
        })
    }

    fn apply(
        &mut self,
        sch: &mut Sch<'_, Self>,
        config: Config,
        memory: Memory,
        _purge: &mut Purge<'_>,
    ) -> Memory {
        self.config = config;
        let number = self.member;
        sch.shared(|node| {
            if let Some(Some(member)) = node.members.get_mut(number) {
                member.host.set_terms(config.terms());
            }
        });
        memory
    }

    fn config(&self) -> Config {
        self.config
    }

    fn stats(&mut self, sch: &mut Sch<'_, Self>) -> Self::Stats {
        let number = self.member;
        let counts = &self.counts;
        sch.shared(|node| {
            let Some(Some(Member { host, .. })) = node.members.get(number) else {
                return [0; Stats::SIZE];
            };
            let counters = host.counters();
            Stats {
                synchronised: host.is_synchronised().into(),
                waiting: host.packets(),
                outstanding: host.outstanding(),
                ahead: host.ahead(),
                scheduled: counters.scheduled,
                pathless: counts.pathless,
                unscheduled: counts.unscheduled,
                control: counts.control,
                control_bytes: counts.control_bytes,
                dropped_full: counters.full,
                dropped_unscheduled: counts.dropped_unscheduled,
                used: counters.used,
                wasted: counters.wasted,
                missed: counters.missed,
                unkept: counters.unkept,
                lost: counters.lost,
                late_sum_ns: counters.late_sum,
                late_max_ns: counters.late_max,
                said: counters.said,
                heard: counters.heard,
                resets: counters.resets,
                foreign: counters.foreign,
                malformed: counters.malformed,
                reports: counters.reports,
                lost_packets: host.lost_packets(),
            }
            .to_bytes()
        })
    }

    #[inline(always)] // into the kernel's callback, its only caller
    fn enqueue<'a>(
        &mut self,
        sch: &mut Sch<'_, Self>,
        skb: Skb,
        admission: Admission<'a>,
    ) -> Verdict<'a> {
        let mut skb = skb;
        let sort = self.sort(&skb);
        let is_control = match sort {
            Sort::OfArbiter(_) => true,
            Sort::ToArbiter(_) => sch.is_own_datagram(&skb),
            Sort::To(..) | Sort::Other => false,
        };
        if is_control && self.control.len() < self.config.limit {
            self.control.push(skb, 0);
            return admission.queued(sch);
        }
        let load = match sort {
            Sort::To(_, load) => load,
            _ => Load::Other,
        };
        let destination = match sort {
            Sort::To(address, _) | Sort::ToArbiter(address) if !is_control => {
                let destination = self.addresses.endpoint(address);
                // An endpoint gets no timeslot to send to itself.
                destination.filter(|_| destination != self.own)
            }
            _ => None,
        };
        let segments = skb.packet().segments;
        let cost = self.config.cost(skb.wire_len(), segments);
        let number = self.member;
        if let Some(destination) = destination {
            let (bin, flow) = self.bin(sch, &mut skb, load);
            let (class, rank) = self.urgency(&skb, load);
            let stream = sch.shared(|node| match node.members.get_mut(number) {
                Some(Some(Member { host, .. })) => {
                    let stream = host.stream(destination, class, bin, flow);
                    host.arrive(now(), stream, bin, cost).then_some(stream)
                }
                _ => None,
            });
            let place = stream.map(|stream| self.place(stream, bin));
            return match place.and_then(|place| self.waiting.get_mut(place)) {
                Some(waiting) => {
                    let shift = self.config.pacing_shift();
                    if let Some(shift) = shift.filter(|_| load != Load::Other) {
                        skb.set_pacing_shift(shift);
                    }
                    waiting.push(skb, u64::from(rank) << 32 | u64::from(cost));
                    admission.queued(sch)
                }
                None => admission.refuse(sch, skb),
            };
        }
        if self.unscheduled.len() >= self.config.limit {
            count(&mut self.counts.dropped_unscheduled);
            return admission.refuse(sch, skb);
        }
        self.unscheduled.push(skb, 0);
        admission.queued(sch)
    }

    #[inline(always)] // as enqueue
    fn dequeue(&mut self, sch: &mut Sch<'_, Self>) -> discipline::Next<Skb> {
        if let Some(skb) = self.control.pop() {
            count(&mut self.counts.control);
            let bytes = self.counts.control_bytes;
            self.counts.control_bytes = bytes.wrapping_add(skb.packet().len.into());
            return discipline::Next::Packet(self.direct_control(sch, skb));
        }
        if let Some(skb) = self.unscheduled.pop() {
            count(&mut self.counts.unscheduled);
            return discipline::Next::Packet(skb);
        }
        let (number, waiting, order) = (self.member, &self.waiting, self.config.order);
        let first = |stream: u16, bin: u32| {
            let stamp = waiting.get(place(order, stream, bin))?.first_stamp()?;
            Some(Head {
                cost: stamp as u32,
                rank: (stamp >> 32) as u32,
            })
        };
        let next = sch.shared(|node| match node.members.get_mut(number) {
            Some(Some(member)) => member.host.next(now(), first),
            _ => Next::Nothing,
        });
        match next {
            Next::Send(entry, bin) => {
                let place = self.place(entry.destination, bin);
                let Some(skb) = self.waiting.get_mut(place).and_then(Fifo::pop) else {
                    return discipline::Next::Nothing;
                };
                let is_numbered = self.config.counted_paths() > 0;
                let (skb, has_path) = direct(skb, entry.path, || {
                    if !is_numbered {
                        return None;
                    }
                    sch.shared(|node| match node.members.get_mut(number) {
                        Some(Some(member)) => member.host.sent(now(), entry).map(u32::from),
                        _ => None,
                    })
                });
                if !has_path {
                    count(&mut self.counts.pathless);
                }
                discipline::Next::Packet(skb)
            }
            Next::Wait(until) => discipline::Next::Wait { until, slack: 0 },
            Next::Nothing => discipline::Next::Nothing,
        }
    }

    fn reset(&mut self, rtnl: &mut Rtnl<'_, Self>, purge: &mut Purge<'_>) {
        purge.empty(&mut self.control);
        purge.empty(&mut self.unscheduled);
        for waiting in self.waiting.iter_mut() {
            purge.empty(waiting);
        }
        let number = self.member;
        rtnl.shared(|node| {
            if let Some(Some(member)) = node.members.get_mut(number) {
                member.host.clear();
            }
        });
    }

    fn destroy(&mut self, rtnl: &mut Rtnl<'_, Self>) {
        let number = self.member;
        // Freed outside of the lock.
        drop(rtnl.shared(|node| node.members.get_mut(number).and_then(Option::take)));
    }
}
