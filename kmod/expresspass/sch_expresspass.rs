// SPDX-License-Identifier: GPL-2.0-only

//! `expresspass`: a host of "Credit-Scheduled Delay-Bounded Congestion Control for Datacenters"
//! (SIGCOMM 2017).
//!
//! The other files of this folder make the decisions. This file holds the packets: a FIFO for each
//! flow, one for packets that need no credit, and one for messages, which goes first. An endpoint
//! is a member of its namespace. The namespace has the socket: it receives and sends the messages,
//! and when a credit arrives, it asks the endpoint's device for a packet.

use core::cell::Cell;

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(expresspass);

use crate::common::discipline::Next;
use crate::common::shared::{self, Peer, DATAGRAM};
use crate::common::store::Store;
use crate::expresspass::endpoint::{Endpoint, Received};
use crate::expresspass::message::{Kind, Message, SIZE};
use crate::expresspass::options::Config;
use crate::expresspass::receiver::count;
use crate::expresspass::segment::{self, Sort, HEADERS, NUMBERED};
use crate::expresspass::sender::Departure;
use crate::expresspass::stats::Stats;
use kapi::{
    admission::{Admission, Verdict},
    clock::{now, random},
    qdisc::{Qdisc, Rtnl, Sch, Setup},
    registration::Registration,
    skb::{Fifo, Purge, Skb},
    store::KernelStore,
};

module! {
    type: Registration<Port>,
    name: "sch_expresspass",
    authors: ["The weft developers"],
    description: "ExpressPass: packets leave when their receiver has sent credits",
    license: "GPL",
    alias: ["net-sch-expresspass"],
}

const _: () = assert!(SIZE <= DATAGRAM);

/// The most messages that wait: they go first, so a longer backlog is not congestion but a flood.
const CONTROL_LIMIT: u32 = 1024;

/// Credits that one call of dequeue processes, for packets that need several: bounds its time.
const WORK: u32 = 64;

// ---- A namespace ------------------------------------------------------------------------------

/// The most endpoints in a namespace.
const MEMBERS: usize = 64;

/// An endpoint.
struct Member {
    endpoint: Endpoint<KernelStore>,
    device: u32,
}

/// The endpoints of a namespace, usually one.
struct Node {
    members: KVVec<Option<Member>>,
    malformed: u64,
    /// The time for which the namespace's timer is set; the largest number if it is not.
    timer: Cell<u64>,
}

impl Node {
    fn members(&mut self) -> impl Iterator<Item = &mut Member> {
        self.members.iter_mut().flatten()
    }

    fn next(&self) -> Option<u64> {
        let members = self.members.iter().flatten();
        members.filter_map(|member| member.endpoint.next()).min()
    }
}

impl shared::Shared for Node {
    const DATAGRAMS: bool = true;
    const ARRIVALS: bool = true;
    type Error = Error;

    fn new() -> Result<Self> {
        let members = KernelStore::allocate(0, || None)?;
        Ok(Self {
            members,
            malformed: 0,
            timer: Cell::new(u64::MAX),
        })
    }

    fn receive_datagram(&mut self, from: Peer, data: &[u8], now: u64) -> Option<u32> {
        let Some(message) = Message::decode(data) else {
            count(&mut self.malformed);
            return None;
        };
        let first = self.members().next()?;
        if !first.endpoint.is_trusted(from, &message) {
            return None;
        }
        let is_request = matches!(message.kind, Kind::Request { .. });
        // A flow that has begun is not begun by another endpoint.
        if is_request && self.members().any(|it| it.endpoint.credits(&message.flow)) {
            return None;
        }
        for member in self.members() {
            match member.endpoint.receive(now, from, &message) {
                Received::Release => return Some(member.device),
                Received::Done => return None,
                Received::NotMine => {}
            }
        }
        if let (Kind::Credit { .. }, Some(first)) = (message.kind, self.members().next()) {
            first.endpoint.stop(from, message.flow);
        }
        None
    }

    #[inline]
    fn arrived(&mut self, protocol: u16, header: &[u8], now: u64) -> bool {
        if let Sort::Data {
            flow,
            number: Some(number),
        } = Sort::of(protocol, header)
        {
            // One endpoint sends the credits of a flow.
            let _ = self
                .members()
                .any(|it| it.endpoint.data(now, &flow, number));
        }
        // Each credit has its time, which the echo of an earlier one does not change.
        false
    }

    #[inline]
    fn has_news(&self) -> bool {
        // An earlier time than the timer's is news too, because only the namespace's work sets the
        // timer. The clock is read only if there may be something to send.
        self.next()
            .is_some_and(|at| at < self.timer.get() || at <= now())
    }

    fn next_datagram(&mut self, now: u64, data: &mut [u8; DATAGRAM]) -> Option<(Peer, usize)> {
        let (peer, message) = self.members().find_map(|it| it.endpoint.poll(now))?;
        *data.first_chunk_mut()? = message.encode();
        Some((peer, SIZE))
    }

    fn next_event(&self) -> Option<u64> {
        let next = self.next();
        self.timer.set(next.unwrap_or(u64::MAX));
        next
    }
}

// ---- A port -----------------------------------------------------------------------------------

/// The packets of a flow.
struct Queue {
    packets: Fifo,
    /// Credits for the first packet, if it needs several.
    credits: u32,
}

impl Queue {
    fn new() -> Self {
        Self {
            packets: Fifo::new(),
            credits: 0,
        }
    }
}

struct Port {
    config: Config,
    /// By the flows' numbers.
    waiting: KVVec<Queue>,
    free: Fifo,
    control: Fifo,
    /// The number of this member in its namespace.
    member: usize,
    unnumbered: u64,
    dropped_control: u64,
}

/// The memory of a new qdisc.
struct Memory {
    waiting: KVVec<Queue>,
    endpoint: Endpoint<KernelStore>,
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
            setup.explain(c"A namespace has at most 64 qdiscs with expresspass");
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

/// Runs `f` with the endpoint of this number.
#[inline]
fn with<R>(
    sch: &mut Sch<'_, Port>,
    member: usize,
    f: impl FnOnce(&mut Endpoint<KernelStore>) -> R,
) -> Option<R> {
    sch.shared(|node| match node.members.get_mut(member) {
        Some(Some(member)) => Some(f(&mut member.endpoint)),
        _ => None,
    })
}

/// Sorts a packet by its headers.
#[inline]
fn sort(skb: &Skb) -> Sort {
    let header = skb.network_header();
    if header.len() < HEADERS {
        let mut copy = [0; HEADERS];
        return Sort::of(skb.protocol(), skb.copy_network_header(&mut copy));
    }
    Sort::of(skb.protocol(), header)
}

impl Port {
    /// A credit of a flow: its first packet, if it needs no more credits.
    fn granted(&mut self, flow: u16, credit: u16) -> Option<Skb> {
        let queue = self.waiting.get_mut(usize::from(flow))?;
        let segments = queue.packets.first_packet()?.segments.max(1);
        queue.credits = queue.credits.wrapping_add(1);
        if queue.credits < segments {
            return None;
        }
        queue.credits = 0;
        let skb = queue.packets.pop()?;
        // The kernel counts up from here when it cuts the packet into segments.
        let number = credit.wrapping_sub(segments.wrapping_sub(1) as u16);
        match skb.with_header(NUMBERED) {
            Ok(mut skb) => {
                segment::number(skb.header(), number);
                Some(skb.into_skb())
            }
            Err(skb) => {
                count(&mut self.unnumbered);
                Some(skb)
            }
        }
    }
}

#[vtable]
impl Qdisc for Port {
    const KIND: &'static str = crate::expresspass::KIND;
    // Packets wait for credits.
    const CAN_BYPASS: bool = false;
    // For a dequeue that has processed enough credits.
    const WATCHDOG: bool = true;
    type Shared = Node;
    type Config = Config;
    type Prepared = Option<Memory>;
    type Stats = [u8; Stats::SIZE];
    type QueueStats = [u8; 0];

    fn prepare(current: Option<&Config>, config: &Config) -> Result<Option<Memory>> {
        if current.is_some() {
            return Ok(None);
        }
        Ok(Some(Memory {
            waiting: KernelStore::allocate(config.flows as usize, Queue::new)?,
            endpoint: Endpoint::new(config, random())?,
        }))
    }

    fn new(config: Config, memory: Option<Memory>, setup: &mut Setup<'_, Self>) -> Result<Self> {
        let Memory { waiting, endpoint } = memory.ok_or(EINVAL)?;
        let device = setup.device();
        Ok(Self {
            config,
            waiting,
            free: Fifo::new(),
            control: Fifo::new(),
            member: join(setup, Member { endpoint, device })?,
            unnumbered: 0,
            dropped_control: 0,
        })
    }

    fn apply(
        &mut self,
        sch: &mut Sch<'_, Self>,
        config: Config,
        memory: Option<Memory>,
        _purge: &mut Purge<'_>,
    ) -> Option<Memory> {
        self.config = config;
        with(sch, self.member, |endpoint| endpoint.set(&config));
        memory
    }

    fn config(&self) -> Config {
        self.config
    }

    fn stats(&mut self, sch: &mut Sch<'_, Self>) -> Self::Stats {
        let (number, unnumbered) = (self.member, self.unnumbered);
        let dropped_control = self.dropped_control;
        sch.shared(|node| {
            let malformed = node.malformed;
            let Some(Some(Member { endpoint, .. })) = node.members.get(number) else {
                return [0; Stats::SIZE];
            };
            let (messages, sender, receiver) = endpoint.counters();
            Stats {
                waiting: endpoint.sender().packets(),
                sending: endpoint.sender().flows(),
                receiving: endpoint.receiver().flows(),
                queued: endpoint.receiver().credits(),
                used: sender.used,
                wasted: sender.wasted,
                unknown: messages.unknown,
                unnumbered,
                requests: sender.requests,
                repeated: sender.repeated,
                stops: sender.stops,
                sent: receiver.sent,
                dropped: receiver.dropped,
                echoed: receiver.echoed,
                lost: receiver.lost,
                begun: receiver.begun,
                refused: receiver.refused,
                abandoned: receiver.abandoned,
                dropped_full: sender.full,
                dropped_flowless: sender.flowless,
                dropped_control,
                foreign: messages.foreign,
                malformed,
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
        match sort(&skb) {
            // A forwarded packet is of another host, which has credits for it or needs none.
            Sort::Data { flow, .. } if skb.ingress() == 0 => {
                let segments = skb.packet().segments;
                let flow = with(sch, self.member, |endpoint| {
                    endpoint.arrive(now(), flow, segments)
                });
                let queue = flow.flatten();
                let queue = queue.and_then(|flow| self.waiting.get_mut(usize::from(flow)));
                let Some(queue) = queue else {
                    return admission.refuse(sch, skb);
                };
                if let Some(shift) = self.config.pacing_shift() {
                    skb.set_pacing_shift(shift);
                }
                queue.packets.push(skb, 0);
                return admission.queued(sch);
            }
            Sort::Datagram if sch.is_own_datagram(&skb) => {
                if self.control.len() >= CONTROL_LIMIT {
                    count(&mut self.dropped_control);
                    return admission.refuse(sch, skb);
                }
                self.control.push(skb, 0);
                return admission.queued(sch);
            }
            Sort::Data { .. } | Sort::Datagram | Sort::Other => {}
        }
        match with(sch, self.member, Endpoint::arrive_free) {
            Some(true) => {
                self.free.push(skb, 0);
                admission.queued(sch)
            }
            _ => admission.refuse(sch, skb),
        }
    }

    #[inline(always)] // as enqueue
    fn dequeue(&mut self, sch: &mut Sch<'_, Self>) -> Next<Skb> {
        if let Some(skb) = self.control.pop() {
            return Next::Packet(skb);
        }
        for _ in 0..WORK {
            let packet = match with(sch, self.member, Endpoint::depart).flatten() {
                None => return Next::Nothing,
                Some(Departure::Free) => self.free.pop(),
                Some(Departure::Granted { flow, credit }) => self.granted(flow, credit),
            };
            if let Some(skb) = packet {
                return Next::Packet(skb);
            }
        }
        Next::Wait {
            until: now(),
            slack: 0,
        }
    }

    fn reset(&mut self, rtnl: &mut Rtnl<'_, Self>, purge: &mut Purge<'_>) {
        purge.empty(&mut self.control);
        purge.empty(&mut self.free);
        for queue in self.waiting.iter_mut() {
            purge.empty(&mut queue.packets);
            queue.credits = 0;
        }
        let number = self.member;
        rtnl.shared(|node| {
            if let Some(Some(member)) = node.members.get_mut(number) {
                member.endpoint.clear();
            }
        });
    }

    fn destroy(&mut self, rtnl: &mut Rtnl<'_, Self>) {
        let number = self.member;
        // Freed outside of the lock.
        drop(rtnl.shared(|node| node.members.get_mut(number).and_then(Option::take)));
    }
}
