// SPDX-License-Identifier: GPL-2.0-only

//! `port`: a port of a switch whose ports share one memory, with priority flow control (IEEE
//! 802.1Qbb), above any qdisc as its queue.
//!
//! The other files of this folder make the decisions: a namespace is a `Switch`. A packet's ingress
//! port is the device through which it entered the namespace. This qdisc reports to the switch the
//! packets that it hands to its child and those that the child returns. What its child dropped
//! after it had accepted it is known only from this qdisc's backlog: after each packet, the bytes
//! reported to the switch are corrected if they differ from it.
//!
//! Pause frames go out through the root qdisc of their device, and wait here, ahead of the child.
//! A received pause frame changes the state of the switch; one that ends a pause also wakes the
//! qdisc.
//!
//! # Time
//!
//! A `wire` above asks this qdisc at the end of each packet, not only when the next packet arrives
//! (it is not `TIMELESS`): a packet that leaves makes room at all other ports at that time.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(port);

use crate::common::discipline::Next;
use crate::common::shared::{self, Frames, FRAME};
use crate::port::frame::{self, Frame};
use crate::port::options::Config;
use crate::port::stats::Stats;
use crate::port::switch::{Cause, Id, Refused, Room, Switch, Terms};
use kapi::{
    admission::{Admission, Verdict},
    clock::now,
    qdisc::{Qdisc, Rtnl, Sch, Setup},
    registration::Registration,
    skb::{Fifo, Purge, Skb},
    store::KernelStore,
};

module! {
    type: Registration<Port>,
    name: "sch_port",
    authors: ["The weft developers"],
    description: "A switch port: shared memory with dynamic thresholds, priority flow control",
    license: "GPL",
    alias: ["net-sch-port"],
}

/// The most bytes of waiting control frames: they are sent before anything else, so a longer
/// backlog is not congestion but a flood.
const CONTROL_LIMIT: u32 = 65_536;

/// The state that the ports of a namespace share.
struct Node(Switch<KernelStore>);

impl shared::Shared for Node {
    const FRAMES: Option<Frames> = Some(Frames {
        ethertype: frame::ETHERTYPE,
        group: frame::GROUP,
    });

    type Error = Error;

    fn new() -> Result<Self> {
        Ok(Self(Switch::new(Room::new(0)?)))
    }

    fn receive(&mut self, device: u32, _from: [u8; 6], payload: Option<&[u8]>, now: u64) -> bool {
        let Some(Ok(frame)) = payload.map(Frame::decode) else {
            self.0.hear_nonsense(device);
            return false;
        };
        self.0.hear(device, &frame, now)
    }

    #[inline]
    fn has_news(&self) -> bool {
        self.0.has_news()
    }

    fn tick(&mut self, now: u64) {
        self.0.tick(now);
    }

    fn next_frame(&mut self, now: u64, payload: &mut [u8; FRAME]) -> Option<(u32, usize)> {
        let sending = self.0.next_frame(now)?;
        *payload.first_chunk_mut()? = sending.frame.encode();
        Some((sending.device, frame::SIZE))
    }

    fn unsent(&mut self, device: u32, now: u64) {
        self.0.unsent(device, now);
    }

    fn next_event(&self) -> Option<u64> {
        self.0.next_event()
    }
}

struct Port {
    config: Config,
    /// The longest packet of the device, in bytes.
    mtu: u32,
    /// The port's number in its switch.
    number: u16,
    /// Control frames.
    control: Fifo,
    control_bytes: u32,
    dropped_control: u64,
    /// Bytes in the child that the switch knows of.
    inside: u32,
}

/// Makes a port a member of its namespace's switch, until it leaves; returns its number.
fn join(setup: &mut Setup<'_, Port>, config: &Config) -> Result<u16> {
    // Memory is reserved and freed outside of the lock. RTNL keeps others from joining meanwhile.
    if let Some(ports) = setup.shared(|node| node.0.wanted_room()) {
        let room = Room::new(ports)?;
        drop(setup.shared(|node| node.0.grow(room)));
    }
    let id = Id {
        device: setup.device(),
        priority: config.priority,
    };
    let terms = Terms::new(config, setup.mtu());
    let joined = setup.shared(|node| node.0.join(id, &terms));
    joined.map_err(|refused| match refused {
        Refused::Device => {
            setup.explain(c"The device's index must be less than 536870912");
            EINVAL
        }
        Refused::Full => {
            setup.explain(c"A namespace has at most 1024 ports with port");
            ENOSPC
        }
        Refused::Headroom => {
            setup.explain(c"The headrooms of the switch's ports must be less than its memory");
            EINVAL
        }
    })
}

impl Port {
    /// Bytes in the child.
    #[inline]
    fn backlog(&self, sch: &Sch<'_, Self>) -> u32 {
        // A child may count bytes although it has no packet: codel reports what it dropped later.
        match sch.child_len() {
            0 => 0,
            _ => sch.backlog().saturating_sub(self.control_bytes),
        }
    }

    /// Corrects the bytes that the switch knows of to those that are in the child. `device`: that
    /// of the packets that were dropped or cut into segments, if it is known.
    #[cold]
    fn correct(&mut self, sch: &mut Sch<'_, Self>, backlog: u32, device: Option<u32>) {
        let (number, inside) = (self.number, self.inside);
        sch.shared(|node| match backlog.checked_sub(inside) {
            Some(more) => node.0.gain(number, more.into(), device.unwrap_or(0)),
            None => node
                .0
                .lose(number, inside.wrapping_sub(backlog).into(), device),
        });
        self.inside = backlog;
    }

    /// The same, if they differ.
    #[inline]
    fn settle(&mut self, sch: &mut Sch<'_, Self>) {
        let backlog = self.backlog(sch);
        if backlog != self.inside {
            self.correct(sch, backlog, None);
        }
    }

    fn pop_control(&mut self) -> Option<Skb> {
        let skb = self.control.pop()?;
        self.control_bytes = self.control_bytes.wrapping_sub(skb.packet().len);
        Some(skb)
    }
}

#[vtable]
impl Qdisc for Port {
    const KIND: &'static str = crate::port::KIND;
    // Each packet is counted, and a paused port holds back packets.
    const CAN_BYPASS: bool = false;
    const CHILD: bool = true;
    const WATCHDOG: bool = true;
    type Shared = Node;
    type Config = Config;
    type Prepared = ();
    type Stats = [u8; Stats::SIZE];
    type QueueStats = [u8; 0];

    fn prepare(_current: Option<&Config>, _config: &Config) -> Result<()> {
        Ok(())
    }

    fn new(config: Config, (): (), setup: &mut Setup<'_, Self>) -> Result<Self> {
        let mtu = setup.mtu();
        let number = join(setup, &config)?;
        Ok(Self {
            config,
            mtu,
            number,
            control: Fifo::new(),
            control_bytes: 0,
            dropped_control: 0,
            inside: 0,
        })
    }

    fn apply(&mut self, sch: &mut Sch<'_, Self>, config: Config, (): (), _purge: &mut Purge<'_>) {
        let (number, now) = (self.number, now());
        let terms = Terms::new(&config, self.mtu);
        sch.shared(|node| {
            node.0.set_terms(number, &terms);
            if !config.pfc {
                node.0.forget(number, now);
            }
        });
        self.config = config;
        // A pause may have ended, or end earlier.
        sch.wake_at(now, 0);
    }

    fn config(&self) -> Config {
        self.config
    }

    fn stats(&mut self, sch: &mut Sch<'_, Self>) -> Self::Stats {
        self.settle(sch);
        let (number, now) = (self.number, now());
        let (state, bytes, highest) = sch.shared(|node| {
            let switch = &mut node.0;
            (switch.state(number, now), switch.bytes(), switch.highest())
        });
        let counters = state.counters;
        Stats {
            memory_backlog: bytes,
            highest_memory_backlog: highest,
            share: state.share.unwrap_or(0),
            highest_backlog: counters.highest,
            dropped_share: counters.dropped[Cause::Share as usize],
            dropped_memory: counters.dropped[Cause::Memory as usize],
            dropped_headroom: counters.dropped[Cause::Headroom as usize],
            dropped_control: self.dropped_control,
            pausing: state.pausing.into(),
            ingress_backlog: state.ingress,
            highest_ingress_backlog: counters.highest_ingress,
            threshold: state.threshold.unwrap_or(0),
            headroom_backlog: state.headroom,
            highest_headroom_backlog: counters.highest_headroom,
            pauses_sent: counters.pauses_sent,
            resumes_sent: counters.resumes_sent,
            unsent: counters.unsent,
            paused: state.paused.into(),
            paused_ns: state.paused_ns,
            pauses_received: counters.pauses_received,
            resumes_received: counters.resumes_received,
            lapsed: state.lapsed,
            released: state.released,
            ignored: state.ignored,
            malformed: counters.malformed,
        }
        .to_bytes()
    }

    fn child_replaced(&mut self, sch: &mut Sch<'_, Self>) {
        self.settle(sch);
    }

    #[inline(always)] // into the kernel's callback, its only caller
    fn enqueue<'a>(
        &mut self,
        sch: &mut Sch<'_, Self>,
        skb: Skb,
        admission: Admission<'a>,
    ) -> Verdict<'a> {
        let len = skb.packet().len;
        if skb.protocol() == frame::ETHERTYPE {
            let bytes = self.control_bytes.saturating_add(len);
            if bytes > CONTROL_LIMIT {
                self.dropped_control = self.dropped_control.wrapping_add(1);
                return admission.refuse(sch, skb);
            }
            self.control_bytes = bytes;
            self.control.push(skb, 0);
            return admission.queued(sch);
        }
        let (number, device) = (self.number, skb.ingress());
        let taken = sch.shared(|node| node.0.arrive(number, device, len));
        if taken.is_err() {
            return admission.refuse(sch, skb);
        }
        let verdict = sch.child_enqueue(skb, admission);
        self.inside = self.inside.wrapping_add(len);
        let backlog = self.backlog(sch);
        if backlog != self.inside {
            // More bytes, or a drop, are this packet's; what was dropped for it may be any.
            let is_own = backlog > self.inside || verdict.is_drop();
            self.correct(sch, backlog, is_own.then_some(device));
        }
        verdict
    }

    #[inline(always)] // as enqueue
    fn dequeue(&mut self, sch: &mut Sch<'_, Self>) -> Next<Skb> {
        if let Some(skb) = self.pop_control() {
            return Next::Packet(skb);
        }
        let number = self.number;
        if self.config.pfc {
            let until = sch.shared(|node| node.0.paused_until(number, now()));
            if let Some(until) = until {
                return Next::Wait { until, slack: 0 };
            }
        }
        let Some(skb) = sch.child_dequeue() else {
            self.settle(sch);
            return Next::Nothing;
        };
        let (len, device) = (skb.packet().len, skb.ingress());
        sch.shared(|node| node.0.depart(number, device, len));
        self.inside = self.inside.saturating_sub(len);
        // The packet still counts in this qdisc's backlog.
        let backlog = self.backlog(sch).saturating_sub(len);
        if backlog != self.inside {
            self.correct(sch, backlog, None);
        }
        Next::Packet(skb)
    }

    fn reset(&mut self, rtnl: &mut Rtnl<'_, Self>, purge: &mut Purge<'_>) {
        purge.empty(&mut self.control);
        self.control_bytes = 0;
        let (number, inside) = (self.number, core::mem::take(&mut self.inside));
        rtnl.shared(|node| {
            node.0.lose(number, inside.into(), None);
            node.0.forget(number, now());
        });
    }

    fn destroy(&mut self, rtnl: &mut Rtnl<'_, Self>) {
        rtnl.shared(|node| node.0.leave(self.number));
    }
}
