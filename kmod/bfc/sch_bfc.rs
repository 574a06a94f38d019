// SPDX-License-Identifier: GPL-2.0-only

//! `bfc`: the switch of "Backpressure Flow Control" (NSDI 2022), §3.3.
//!
//! The other files of this folder contain the algorithm: a port is its `Egress`, a namespace its
//! `Switch`. This file provides a packet's properties. Its flow is the one of `kapi`'s `flow`, its
//! rank `skb->priority`, its ingress port the device through which it entered the namespace, and
//! its upstream queue the one in its tag (`common`'s `tag`). The tag is rewritten when the packet
//! is queued, because its queue is then known.
//!
//! Pause frames go out through the root qdisc of their device, and thus reach this qdisc's queue
//! for control frames. A received pause frame changes the state of the switch, and wakes the qdisc:
//! at its next dequeue, the qdisc applies the change.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(bfc);

use crate::bfc::{
    egress::{self, Arrival, Egress, Memory, Shape, Threshold, Tuning},
    elision::Elision,
    fifo::{self, Note},
    flows,
    ingress::Tell,
    neighbour::{Heard, Rules, Treatment},
    queue_set::QueueSet,
    switch::{Link, Place, PortMemory, Refused, Room, Switch},
};
use crate::bfc::{
    frame::{self, Frame, Message},
    options::{Assign, Config, Pushback, Scheduler, STICKY_AUTO},
    stats::{QueueStats, Stats},
};
use crate::common::discipline::Next;
use crate::common::share::Share;
use crate::common::shared::{self, Frames, FRAME};
use kapi::{
    admission::{Admission, Verdict},
    clock::{now, random, time_of_day},
    flow::Flows,
    qdisc::{Qdisc, QueueView, Rtnl, Sch, Setup},
    registration::Registration,
    skb::{Fifo, Purge, Skb},
    store::KernelStore,
    tagged::MaybeTagged,
};

module! {
    type: Registration<Port>,
    name: "sch_bfc",
    authors: ["The weft developers"],
    description: "Backpressure Flow Control: per-hop, per-flow pauses with bounded state",
    license: "GPL",
    alias: ["net-sch-bfc"],
}

// ---- A namespace ------------------------------------------------------------------------------

/// The state that the ports of a namespace share.
struct Node(Switch<KernelStore>);

const NS_PER_US: u64 = 1_000;

impl shared::Shared for Node {
    const FRAMES: Option<Frames> = Some(Frames {
        ethertype: frame::ETHERTYPE,
        group: frame::GROUP,
    });

    type Error = Error;

    fn new() -> Result<Self> {
        Ok(Self(Switch::new(Room::new(0)?)))
    }

    fn receive(&mut self, device: u32, from: [u8; 6], payload: Option<&[u8]>, now: u64) -> bool {
        let Some(Ok(frame)) = payload.map(Frame::decode) else {
            self.0.hear_nonsense(device);
            return false;
        };
        let heard = Heard {
            from,
            sequence: frame.sequence,
            hold: u64::from(frame.hold).wrapping_mul(NS_PER_US),
            tell: match frame.message {
                Message::Pause(queue) => Tell::Pause(queue),
                Message::Resume(queue) => Tell::Resume(queue),
                Message::Bitmap(words) => Tell::State(QueueSet::from_words(words)),
            },
        };
        self.0.hear(device, &heard, now) == Some(Treatment::Taken { changed: true })
    }

    #[inline]
    fn has_news(&self) -> bool {
        self.0.has_news()
    }

    fn tick(&mut self, now: u64) {
        self.0.refresh(now);
    }

    fn next_frame(&mut self, now: u64, payload: &mut [u8; FRAME]) -> Option<(u32, usize)> {
        let next = self.0.next_frame(now)?;
        let hold = next
            .hold
            .div_ceil(NS_PER_US)
            .clamp(1, frame::MAX_HOLD.into());
        let frame = Frame {
            sequence: next.sequence,
            hold: hold as u32,
            message: match next.tell {
                Tell::Pause(queue) => Message::Pause(queue),
                Tell::Resume(queue) => Message::Resume(queue),
                Tell::State(queues) => Message::Bitmap(*queues.words()),
            },
        };
        let len = frame.encode(payload.first_chunk_mut()?);
        Some((next.device, len))
    }

    fn unsent(&mut self, device: u32, now: u64) {
        self.0.unsent(device, now);
    }

    fn next_event(&self) -> Option<u64> {
        self.0.next_refresh()
    }
}

/// Makes a port a member of its namespace's switch, until [`leave`].
fn join(setup: &mut Setup<'_, Port>, config: &Config) -> Result<Place> {
    // Memory is reserved and freed outside of the lock. RTNL keeps others from joining meanwhile.
    if let Some(ports) = setup.shared(|node| node.0.wanted_room()) {
        let room = Room::new(ports)?;
        drop(setup.shared(|node| node.0.grow(room)));
    }
    let (device, queues) = (setup.device(), data_queues(config));
    let numbers = setup.shared(|node| node.0.wanted_numbers(device, queues));
    let mut memory = PortMemory::new(numbers)?;
    let (sequence, now) = (time_of_day(), now());
    let joined = setup.shared(|node| {
        let switch = &mut node.0;
        switch.join(device, queues, &link(config), sequence, now, &mut memory)
    });
    joined.map_err(|refused| {
        setup.explain(match refused {
            Refused::Full => c"A namespace has at most 1024 ports with bfc",
            Refused::Numbers => c"The bfc queues of a device are at most 1023 in all",
        });
        ENOSPC
    })
}

/// Removes from its switch a port whose packets have left.
fn leave(rtnl: &mut Rtnl<'_, Port>, place: &Place) {
    rtnl.shared(|node| node.0.leave(place));
    while let Some(memory) = rtnl.shared(|node| node.0.reap()) {
        drop(memory);
    }
}

// ---- A port -----------------------------------------------------------------------------------

/// One queue's packets.
struct Line(Fifo);

impl fifo::Fifo for Line {
    type Packet = Skb;

    fn new() -> Self {
        Self(Fifo::new())
    }

    #[inline]
    fn push(&mut self, skb: Skb, note: Note) {
        self.0.push(skb, note.to_bits());
    }

    #[inline]
    fn pop(&mut self) -> Option<(Skb, Note)> {
        let note = Note::from_bits(self.0.first_stamp()?);
        Some((self.0.pop()?, note))
    }

    #[inline]
    fn first_len(&self) -> u32 {
        self.0.first_packet().map_or(0, |packet| packet.len)
    }

    #[inline]
    fn first_rank(&self) -> u32 {
        self.0.first_packet().map_or(0, |packet| packet.priority)
    }
}

type Queues = Memory<Line, KernelStore>;

struct Port {
    config: Config,
    /// The default quantum, in bytes.
    mtu: u32,
    flows: Flows,
    egress: Egress<Line, KernelStore>,
    place: Place,
    dropped_memory: u64,
}

fn data_queues(config: &Config) -> u16 {
    config.queues.saturating_sub(1) as u16
}

fn link(config: &Config) -> Link {
    Link {
        hrtt: config.hrtt,
        refresh: config.refresh,
        rules: Rules {
            hold: config.hold,
            watchdog: config.watchdog,
        },
    }
}

fn shape(config: &Config) -> Shape {
    Shape {
        queues: data_queues(config),
        entries: u32::from(data_queues(config)).wrapping_mul(config.factor),
        assign: match config.assign {
            Assign::Dynamic => flows::Assign::Dynamic,
            Assign::Stochastic => flows::Assign::Stochastic,
            Assign::Single => flows::Assign::Single,
        },
        scheduler: match config.scheduler {
            Scheduler::Fq => egress::Scheduler::Fq,
            Scheduler::Srf => egress::Scheduler::Srf,
        },
        classes: config.classes,
        incast: config.incast,
        control: config.control,
    }
}

fn tuning(config: &Config, mtu: u32) -> Tuning {
    let limit = |bytes: u32| match bytes {
        0 => u64::MAX,
        bytes => bytes.into(),
    };
    Tuning {
        limit: limit(config.limit),
        share: Share::new(limit(config.buffer), config.alpha),
        threshold: match config.th {
            0 => Threshold::OneHopBdp {
                rate: config.rate,
                percent: config.scale,
            },
            bytes => Threshold::Fixed(bytes.into()),
        },
        pushback: match config.pushback {
            Pushback::All => egress::Pushback::All,
            Pushback::Backlogged => egress::Pushback::Backlogged,
        },
        sticky: (config.sticky != STICKY_AUTO).then_some(config.sticky),
        sample: config.sample,
        quantum: match config.quantum {
            0 => mtu,
            bytes => bytes,
        },
        elision: Elision::new(config.elide.indices().iter().copied()),
    }
}

#[vtable]
impl Qdisc for Port {
    const KIND: &'static str = crate::bfc::KIND;
    // A paused queue holds back packets of an empty port, and each packet must be marked.
    const CAN_BYPASS: bool = false;
    const WATCHDOG: bool = true;
    type Shared = Node;
    type Config = Config;
    type Prepared = Option<Queues>;
    type Stats = [u8; Stats::SIZE];
    type QueueStats = [u8; QueueStats::SIZE];

    fn prepare(current: Option<&Config>, config: &Config) -> Result<Option<Queues>> {
        match current {
            // Options that need memory cannot be changed.
            Some(_) => Ok(None),
            None => Queues::new(&shape(config)).map(Some),
        }
    }

    fn new(config: Config, queues: Option<Queues>, setup: &mut Setup<'_, Self>) -> Result<Self> {
        let queues = queues.ok_or(EINVAL)?;
        let mtu = setup.mtu();
        let place = join(setup, &config)?;
        Ok(Self {
            config,
            mtu,
            flows: Flows::new(),
            egress: Egress::new(queues, tuning(&config, mtu), place, random()),
            place,
            dropped_memory: 0,
        })
    }

    fn apply(
        &mut self,
        sch: &mut Sch<'_, Self>,
        config: Config,
        _none: Option<Queues>,
        _purge: &mut Purge<'_>,
    ) -> Option<Queues> {
        self.egress.tune(tuning(&config, self.mtu));
        let port = self.place.port;
        sch.shared(|node| node.0.set_link(port, &link(&config)));
        self.config = config;
        None
    }

    fn config(&self) -> Config {
        self.config
    }

    fn stats(&mut self, sch: &mut Sch<'_, Self>) -> Self::Stats {
        let Self { egress, place, .. } = self;
        let (port, now) = (place.port, now());
        let (shared, paused_ns, threshold, hrtt, buffer) = sch.shared(|node| {
            let switch = &mut node.0;
            // A port without packets is not dequeued, so it has not yet processed pauses that have
            // ended.
            egress.sync(switch, now);
            (
                switch.counters(port),
                egress.paused_ns(switch, now),
                egress.threshold(switch),
                switch.hrtt(port),
                switch.bytes(),
            )
        });
        let (counters, census) = (egress.counters(), egress.census());
        Stats {
            occupied: census.occupied,
            paused: census.paused,
            active: census.active,
            threshold,
            hrtt,
            activations: counters.activations,
            collisions: counters.collisions,
            congested: counters.congested,
            elided: counters.elided,
            unmarked: counters.unmarked,
            dropped_limit: counters.dropped_limit,
            dropped_buffer: counters.dropped_buffer,
            dropped_memory: self.dropped_memory,
            dropped_control: counters.dropped_control,
            highest_backlog: counters.highest_bytes,
            paused_ns,
            pausing: shared.pausing,
            pauses_sent: shared.pauses_sent,
            resumes_sent: shared.resumes_sent,
            bitmaps_sent: shared.bitmaps_sent,
            unsent: shared.unsent,
            pauses_received: shared.pauses_received,
            resumes_received: shared.resumes_received,
            bitmaps_received: shared.bitmaps_received,
            lapsed: shared.lapsed,
            malformed: shared.malformed,
            foreign: shared.foreign,
            replayed: shared.replayed,
            buffer_backlog: buffer.0,
            highest_buffer_backlog: buffer.1,
            longest: egress.longest(),
            dropped_share: counters.dropped_share,
            released: shared.released,
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
        let egress = &mut self.egress;
        let packet = skb.packet();
        let protocol = skb.protocol();
        if protocol == frame::ETHERTYPE {
            return match egress.enqueue_control(skb, packet.len) {
                Ok(()) => admission.queued(sch),
                Err((skb, _)) => admission.refuse(sch, skb),
            };
        }
        let mut arrival = Arrival {
            len: packet.len,
            rank: packet.priority,
            flow: self.flows.of(sch, &mut skb),
            device: skb.ingress(),
            upstream_queue: 0,
        };
        let arriving = match MaybeTagged::read(skb, protocol) {
            Ok(arriving) => arriving,
            Err(skb) => {
                self.dropped_memory = self.dropped_memory.wrapping_add(1);
                return admission.refuse(sch, skb);
            }
        };
        arrival.upstream_queue = arriving.upstream_queue();
        let result = sch.shared(|node| {
            egress.enqueue(&mut node.0, arriving, &arrival, now(), MaybeTagged::mark)
        });
        match result {
            Ok(()) => admission.queued(sch),
            Err((arriving, _)) => admission.refuse(sch, arriving.into_skb()),
        }
    }

    #[inline(always)] // as enqueue
    fn dequeue(&mut self, sch: &mut Sch<'_, Self>) -> Next<Skb> {
        let (egress, port) = (&mut self.egress, self.place.port);
        sch.shared(|node| match egress.dequeue(&mut node.0, now()) {
            Some(skb) => Next::Packet(skb),
            None => match node.0.lapse(port) {
                Some(until) => Next::Wait { until, slack: 0 },
                None => Next::Nothing,
            },
        })
    }

    fn reset(&mut self, rtnl: &mut Rtnl<'_, Self>, purge: &mut Purge<'_>) {
        let egress = &mut self.egress;
        rtnl.shared(|node| egress.clear(&mut node.0, now(), |skb| purge.free(skb)));
    }

    fn destroy(&mut self, rtnl: &mut Rtnl<'_, Self>) {
        leave(rtnl, &self.place);
    }

    fn queues(&self) -> u32 {
        self.egress.queues().into()
    }

    fn queue(
        &mut self,
        sch: &mut Sch<'_, Self>,
        queue: u32,
    ) -> Option<QueueView<Self::QueueStats>> {
        let number = u16::try_from(queue).ok()?;
        let egress = &self.egress;
        let state = sch.shared(|node| egress.queue(number, &mut node.0, now()))?;
        if state.packets == 0 && state.sent == 0 && !state.paused {
            return None;
        }
        let number = match number {
            egress::CONTROL => 0,
            queue => self.place.base.wrapping_add(queue),
        };
        let stats = QueueStats {
            number: number.into(),
            class: state.class.into(),
            paused: state.paused.into(),
            paused_ns: state.paused_ns,
        };
        Some(QueueView {
            minor: match number {
                0 => frame::MAX_QUEUE.wrapping_add(1),
                number => number,
            },
            packets: state.packets,
            bytes: u32::try_from(state.bytes).unwrap_or(u32::MAX),
            sent: state.sent,
            sent_bytes: state.sent_bytes,
            stats: stats.to_bytes(),
        })
    }
}
