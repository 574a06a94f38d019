// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The queues of one egress port: which queue a packet joins, whether it exceeds the threshold, and
//! which packet is sent next.
//!
//! ```text
//!                    ┌ queue 0: control frames, control packets ───────────┐ first of all
//!  packet ─▶ limits ─┤ class 0: queues lo..hi ─▶ round robin, or by rank ──┤ then the lowest class
//!                    └ class 1: queues hi..   ─▶ round robin, or by rank ──┘ that may send
//! ```
//!
//! A queue is **active** if it has packets and is not paused: exactly these queues are in their
//! class's round or in the trie of ranks. It is **empty** if it has no packets, and **free** if it
//! is empty and not paused.

use super::elision::Elision;
use super::fifo::{Fifo, Note};
use super::flows::{Assign, Assigned, Flows, Policy, Queues};
use super::queue_set::{QueueSet, MAX_QUEUES};
use super::rounds::{Rounds, Turn};
use super::switch::{Place, Switch};
use crate::common::rank_trie::{RankLinks, RankTrie};
use crate::common::share::Share;
use crate::common::store::Store;
use crate::common::xorshift::Xorshift32;
use core::ops::Range;

/// The most priority classes.
pub const MAX_CLASSES: u8 = 8;

/// The most data queues.
pub const MAX_DATA_QUEUES: u16 = MAX_QUEUES - 1;

/// The most bytes of waiting control frames: they are sent before anything else, so a longer
/// backlog is not congestion but a flood.
pub const CONTROL_LIMIT: u64 = 65_536;

/// The most bytes of waiting control packets and frames at which another control packet is queued.
/// It leaves half of [`CONTROL_LIMIT`] to frames: packets must not crowd out pauses.
pub const CONTROL_PACKETS_LIMIT: u64 = CONTROL_LIMIT / 2;

/// The queue of control frames and control packets; "this reduces the number of queues available
/// for dynamic queue assignment by 1" (§3.3.2).
pub const CONTROL: u16 = 0;

/// The order in which queues are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// Fair queuing: deficit round robin (§3.3.1).
    Fq,
    /// Shortest remaining flow first: "the switch schedules queues in order of remaining size of
    /// the packet at the head of the queue" (App. A.2).
    Srf,
}

/// The packets above the threshold that cause backpressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushback {
    /// Every one (§3.3.2).
    All,
    /// Those whose flow has another packet in the port: a flow of one packet has nothing upstream
    /// that a pause could hold back (the authors' simulator).
    Backlogged,
}

/// The properties that are fixed when a port is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Data queues, 1..=[`MAX_DATA_QUEUES`], at least [`classes`](Self::classes).
    pub queues: u16,
    /// Entries of the flow table.
    pub entries: u32,
    /// How a flow gets its queue.
    pub assign: Assign,
    /// The order in which queues are served.
    pub scheduler: Scheduler,
    /// Priority classes, 1..=[`MAX_CLASSES`]; with [`Scheduler::Srf`] 1. A packet's rank is its
    /// class; ranks above the last class belong to the last class.
    pub classes: u8,
    /// The rank that labels packets of an incast. These packets have a separate queue, the last one
    /// of their class, which then needs two.
    pub incast: Option<u32>,
    /// The rank of control packets. They wait in the control queue: ahead of all data, never
    /// paused, without an entry in the flow table, and outside of the buffer. In the authors'
    /// simulator these are acknowledgements.
    pub control: Option<u32>,
}

/// The pause threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// A fixed number of bytes.
    Fixed(u64),
    /// "The pause threshold Th is thus given by (HRTT) · (µ/N_active)" (§3.3.2); HRTT is the
    /// [`Switch`]'s.
    OneHopBdp {
        /// µ in bytes per second.
        rate: u64,
        /// Th in percent of that: 100 in the paper, 150 in the authors' simulator.
        percent: u32,
    },
}

impl Threshold {
    /// Th · N_active in bytes, at an `hrtt` in ns.
    fn of_one_queue(self, hrtt: u64) -> u64 {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::OneHopBdp { rate, percent } => {
                let (bdp, percent) = (one_hop_bdp(rate, hrtt), u64::from(percent));
                let whole = (bdp / 100).saturating_mul(percent);
                whole.saturating_add((bdp % 100).wrapping_mul(percent) / 100)
            }
        }
    }
}

/// The properties that can change while packets are inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// The most bytes of data in this port.
    pub limit: u64,
    /// This port's share of the switch's buffer, checked when a packet arrives.
    pub share: Share,
    /// The length above which a queue is congested.
    pub threshold: Threshold,
    /// The packets above the threshold that cause backpressure.
    pub pushback: Pushback,
    /// ns for which an inactive flow keeps its queue; `None`: 2 HRTT (§3.3.2).
    pub sticky: Option<u64>,
    /// How many of 100 packets are sampled (App. A.8), 1..=100.
    pub sample: u8,
    /// Bytes per turn of the round robin, or the length of a longer packet.
    pub quantum: u32,
    /// The devices whose packets cause no backpressure here (App. B).
    pub elision: Elision,
}

/// A packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Bytes.
    pub len: u32,
    /// Lower is more urgent.
    pub rank: u32,
    /// Hash of its flow.
    pub flow: u32,
    /// The device on which it arrived; 0: it was sent from this host.
    pub device: u32,
    /// Its queue at the upstream neighbour; 0: unknown.
    pub upstream_queue: u16,
}

/// Why an arriving packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The port is full.
    Limit,
    /// The switch is full.
    Buffer,
    /// The port holds its share of the switch's buffer.
    Share,
    /// Too many control frames or control packets are waiting.
    Control,
}

/// The events at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Times a flow became active: a packet arrived while none of its packets was inside.
    pub activations: u64,
    /// Of these, the times its queue had packets of another flow.
    pub collisions: u64,
    /// Packets that found their queue above the threshold.
    pub congested: u64,
    /// Of these, packets whose backpressure was elided.
    pub elided: u64,
    /// Of these, packets from another port whose upstream queue is unknown.
    pub unmarked: u64,
    /// Packets dropped because the port was full.
    pub dropped_limit: u64,
    /// Packets dropped because the switch was full.
    pub dropped_buffer: u64,
    /// Packets dropped because the port held its share of the buffer.
    pub dropped_share: u64,
    /// Control frames and control packets dropped.
    pub dropped_control: u64,
    /// The most bytes of data in the port at once.
    pub highest_bytes: u64,
}

/// The current number of queues in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// With packets.
    pub occupied: u32,
    /// Paused by the downstream neighbour.
    pub paused: u32,
    /// With packets and not paused: N_active.
    pub active: u32,
}

/// The current state of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Packets inside.
    pub packets: u32,
    /// Bytes inside.
    pub bytes: u64,
    /// Whether it is paused.
    pub paused: bool,
    /// ns for which it has been paused so far.
    pub paused_ns: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Its priority class.
    pub class: u8,
}

struct Queue<F> {
    fifo: F,
    packets: u32,
    class: u8,
    bytes: u64,
    turn: Turn,
    rank: RankLinks,
    sent: u64,
    sent_bytes: u64,
}

impl<F> AsMut<Turn> for Queue<F> {
    #[inline]
    fn as_mut(&mut self) -> &mut Turn {
        &mut self.turn
    }
}

impl<F> AsMut<RankLinks> for Queue<F> {
    #[inline]
    fn as_mut(&mut self) -> &mut RankLinks {
        &mut self.rank
    }
}

impl<F> AsRef<RankLinks> for Queue<F> {
    #[inline]
    fn as_ref(&self) -> &RankLinks {
        &self.rank
    }
}

/// One priority class.
#[derive(Clone, Copy)]
struct Class {
    /// Its queues, except that of incasts.
    first: u16,
    end: u16,
    /// Where the search for an empty queue begins: after the queue assigned last, so that a queue
    /// stays unused for as long as possible after its flow has left it.
    start: u16,
    rounds: Rounds,
}

/// Queue numbers of a class: an equal part of `queues`.
fn queues_of(class: u8, classes: u8, queues: u16) -> Range<u16> {
    let before = |class: u8| {
        let product = u32::from(class).wrapping_mul(queues.into());
        product.checked_div(classes.into()).unwrap_or(0) as u16
    };
    let (first, end) = (before(class), before(class.wrapping_add(1)));
    first.wrapping_add(1)..end.wrapping_add(1)
}

/// One egress port.
///
/// It owns its packets, and never drops one itself: a packet is returned by
/// [`dequeue`](Self::dequeue), as an error of [`enqueue`](Self::enqueue) or through a callback.
pub struct Egress<F: Fifo, S: Store> {
    shape: Shape,
    tuning: Tuning,
    place: Place,
    queues: S::Of<Queue<F>>,
    flows: Flows<S>,
    /// Active queues by the rank of their first packet; with [`Scheduler::Srf`].
    ranks: RankTrie<S>,
    classes: [Class; MAX_CLASSES as usize],
    /// The queue of incasts; 0 for none.
    incast: u16,
    empty: QueueSet,
    free: QueueSet,
    paused: QueueSet,
    /// The latest version of [`Switch::paused`].
    seen: u32,
    active: u32,
    /// The number of packets in all queues, the control queue among them.
    packets: u32,
    /// Bytes of data: of all packets outside of the control queue.
    bytes: u64,
    /// [`Tuning::quantum`], or the length of the longest packet since it was set.
    quantum: u32,
    /// The threshold computed for one active queue, and the HRTT that it was computed from.
    bdp: u64,
    bdp_hrtt: u64,
    random: Xorshift32,
    counters: Counters,
}

/// The memory of a port.
pub struct Memory<F: Fifo, S: Store> {
    shape: Shape,
    queues: S::Of<Queue<F>>,
    flows: Flows<S>,
    ranks: RankTrie<S>,
}

impl<F: Fifo, S: Store> Memory<F, S> {
    /// All the memory that a port of this shape will ever need: per data queue some 100 bytes, with
    /// [`Scheduler::Srf`] some 90 more; 16 bytes per entry of the flow table.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(shape: &Shape) -> Result<Self, S::Error> {
        let shape = Shape {
            queues: shape.queues.clamp(1, MAX_DATA_QUEUES),
            classes: shape.classes.clamp(1, MAX_CLASSES),
            ..*shape
        };
        let count = shape.queues.wrapping_add(1);
        let ranks = match shape.scheduler {
            Scheduler::Fq => 0,
            Scheduler::Srf => count,
        };
        Ok(Self {
            queues: S::allocate(count.into(), || Queue {
                fifo: F::new(),
                packets: 0,
                class: 0,
                bytes: 0,
                turn: Turn::default(),
                rank: RankLinks::default(),
                sent: 0,
                sent_bytes: 0,
            })?,
            flows: Flows::new(shape.entries, shape.classes)?,
            ranks: RankTrie::new(ranks.into())?,
            shape,
        })
    }
}

impl<F: Fifo, S: Store> Egress<F, S> {
    /// An empty port, a member of a switch at `place`. `seed` determines its random choices.
    pub fn new(memory: Memory<F, S>, tuning: Tuning, place: Place, seed: u32) -> Self {
        let Memory {
            shape,
            mut queues,
            flows,
            ranks,
        } = memory;
        let mut classes = [Class {
            first: 1,
            end: 1,
            start: 1,
            rounds: Rounds::new(),
        }; MAX_CLASSES as usize];
        let mut empty = QueueSet::EMPTY;
        let mut incast = 0;
        let label = shape.incast.map(|label| class_of(label, shape.classes));
        for (number, class) in (0..shape.classes).zip(&mut classes) {
            let mut range = queues_of(number, shape.classes, shape.queues);
            for queue in range.clone() {
                if let Some(queue) = queues.get_mut(usize::from(queue)) {
                    queue.class = number;
                }
                empty.insert(queue);
            }
            if label == Some(number) && range.len() > 1 {
                range.end = range.end.wrapping_sub(1);
                incast = range.end;
            }
            class.first = range.start;
            class.start = range.start;
            class.end = range.end;
        }
        Self {
            quantum: tuning.quantum,
            shape,
            tuning,
            place,
            queues,
            flows,
            ranks,
            classes,
            incast,
            empty,
            free: empty,
            paused: QueueSet::EMPTY,
            seen: 0,
            active: 0,
            packets: 0,
            bytes: 0,
            bdp: 0,
            bdp_hrtt: 0,
            random: Xorshift32::new(seed),
            counters: Counters::default(),
        }
    }

    /// Puts another tuning in force. Queued packets stay, even if limits shrink.
    pub fn tune(&mut self, tuning: Tuning) {
        self.tuning = tuning;
        self.quantum = tuning.quantum;
        self.bdp_hrtt = 0;
    }

    /// Queues an arriving packet at `now` ns.
    ///
    /// `mark` gets the packet's upstream queue for the next hop, 0 for none, and returns the packet
    /// with that number written into it.
    ///
    /// # Errors
    ///
    /// The packet, if there is no room for it, and the cause.
    #[inline]
    pub fn enqueue<P>(
        &mut self,
        switch: &mut Switch<S>,
        packet: P,
        arrival: &Arrival,
        now: u64,
        mark: impl FnOnce(P, u16) -> F::Packet,
    ) -> Result<(), (P, Cause)> {
        if self.shape.control == Some(arrival.rank) {
            if !self.has_control_room(arrival.len, CONTROL_PACKETS_LIMIT) {
                return Err((packet, Cause::Control));
            }
            // No queue of this number is paused: the next hop must not count the packet.
            self.push(CONTROL, mark(packet, CONTROL), Note::NOTHING, arrival.len);
            return Ok(());
        }
        let bytes = self.bytes.saturating_add(arrival.len.into());
        if bytes > self.tuning.limit {
            self.counters.dropped_limit = self.counters.dropped_limit.wrapping_add(1);
            return Err((packet, Cause::Limit));
        }
        if !switch.take(arrival.len, bytes, &self.tuning.share) {
            return Err((packet, self.count_full(switch, arrival.len)));
        }
        self.sync(switch, now);
        let hrtt = switch.hrtt(self.place.port);
        let sampled =
            self.tuning.sample >= 100 || self.random.below(100) < u32::from(self.tuning.sample);
        let (queue, entry, is_first) = self.assign(arrival, sampled, hrtt, now);
        let mut note = Note {
            entry: if sampled { entry } else { Note::NO_ENTRY },
            ..Note::NOTHING
        };
        if self.is_congested(queue, hrtt) {
            self.counters.congested = self.counters.congested.wrapping_add(1);
            if sampled && !(is_first && self.tuning.pushback == Pushback::Backlogged) {
                self.push_back(switch, arrival, &mut note);
            }
        }
        let packet = mark(packet, self.place.base.wrapping_add(queue));
        self.bytes = bytes;
        self.counters.highest_bytes = self.counters.highest_bytes.max(bytes);
        self.quantum = self.quantum.max(arrival.len);
        self.push(queue, packet, note, arrival.len);
        Ok(())
    }

    /// Queues a control frame, ahead of all data.
    ///
    /// # Errors
    ///
    /// The frame, if too many are waiting.
    pub fn enqueue_control(
        &mut self,
        packet: F::Packet,
        len: u32,
    ) -> Result<(), (F::Packet, Cause)> {
        if !self.has_control_room(len, CONTROL_LIMIT) {
            return Err((packet, Cause::Control));
        }
        self.push(CONTROL, packet, Note::NOTHING, len);
        Ok(())
    }

    /// Takes the packet to send at `now` ns. `None`: there is none, or all queues with packets are
    /// paused; they stay so until [`Switch::lapse`], unless something changes earlier.
    #[inline]
    pub fn dequeue(&mut self, switch: &mut Switch<S>, now: u64) -> Option<F::Packet> {
        if self.packets == 0 {
            return None;
        }
        self.sync(switch, now);
        if self.queues.first().is_some_and(|queue| queue.packets != 0) {
            return self.pop_control();
        }
        let queue = match self.shape.scheduler {
            Scheduler::Fq => {
                let queues = &mut *self.queues;
                let quantum = self.quantum;
                self.classes.iter_mut().find_map(|class| {
                    let len = |queue: &Queue<F>| queue.fifo.first_len();
                    class.rounds.serve(queues, quantum, len)
                })?
            }
            Scheduler::Srf => {
                let queue = self.ranks.first()?.first();
                // Its next packet has another rank.
                self.deactivate(queue);
                queue
            }
        };
        self.pop(queue, switch, now)
    }

    /// Removes all packets and hands them to `drop`; forgets all pauses. Counters stay.
    pub fn clear(&mut self, switch: &mut Switch<S>, now: u64, mut drop: impl FnMut(F::Packet)) {
        switch.forget(self.place.port, now);
        self.sync(switch, now);
        while self.queues.first().is_some_and(|queue| queue.packets != 0) {
            let Some(packet) = self.pop_control() else {
                invariant!("the control queue counts packets that it has not");
                break;
            };
            drop(packet);
        }
        for queue in 1..=self.shape.queues {
            if self.empty.contains(queue) {
                continue;
            }
            if !self.paused.contains(queue) {
                self.deactivate(queue);
                self.active = self.active.wrapping_sub(1);
            }
            while let Some((packet, len, note)) = self.take(queue) {
                self.left(switch, len, note, now);
                drop(packet);
            }
            self.emptied(queue);
        }
    }

    /// Applies the downstream neighbour's pauses, if they have changed. Each enqueue and dequeue
    /// does so. Call it also before [`census`](Self::census) and [`threshold`](Self::threshold),
    /// because a port may have no packets for long.
    #[inline]
    pub fn sync(&mut self, switch: &mut Switch<S>, now: u64) {
        if let Some((version, paused)) = switch.paused(&self.place, self.seen, now) {
            self.seen = version;
            self.set_paused(paused);
        }
    }

    // ---- Statistics ---------------------------------------------------------------------------

    /// The number of packets in all queues, the control queue among them.
    #[inline]
    pub fn len(&self) -> u32 {
        self.packets
    }

    /// Whether no packet is inside.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Bytes of data inside.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its place in the switch.
    #[inline]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Queues, the control queue included.
    pub fn queues(&self) -> u16 {
        self.shape.queues.wrapping_add(1)
    }

    /// The events so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The current number of queues in each state.
    pub fn census(&self) -> Census {
        Census {
            occupied: u32::from(self.shape.queues).saturating_sub(self.empty.count()),
            paused: self.paused.count(),
            active: self.active,
        }
    }

    /// Bytes in the longest data queue. Visits every queue.
    pub fn longest(&self) -> u64 {
        let data = self.queues.iter().skip(1);
        data.map(|queue| queue.bytes).max().unwrap_or(0)
    }

    /// One queue at `now` ns; `None` beyond the last.
    pub fn queue(&self, queue: u16, switch: &mut Switch<S>, now: u64) -> Option<QueueState> {
        let (paused, paused_ns) = match queue {
            CONTROL => (false, 0),
            queue => switch.pause(&self.place, queue, now),
        };
        let queue = self.queues.get(usize::from(queue))?;
        Some(QueueState {
            packets: queue.packets,
            bytes: queue.bytes,
            paused,
            paused_ns,
            sent: queue.sent,
            sent_bytes: queue.sent_bytes,
            class: queue.class,
        })
    }

    /// Total ns for which queues have been paused until `now`. Visits every queue.
    pub fn paused_ns(&self, switch: &mut Switch<S>, now: u64) -> u64 {
        let times = (1..=self.shape.queues).map(|queue| switch.pause(&self.place, queue, now).1);
        times.fold(0, u64::saturating_add)
    }

    /// The current pause threshold, in bytes.
    pub fn threshold(&self, switch: &Switch<S>) -> u64 {
        let bytes = self
            .tuning
            .threshold
            .of_one_queue(switch.hrtt(self.place.port));
        match self.tuning.threshold {
            Threshold::Fixed(_) => bytes,
            Threshold::OneHopBdp { .. } => {
                let active = self.active.max(1).into();
                bytes.checked_div(active).unwrap_or(bytes)
            }
        }
    }

    // ---- Inside ------------------------------------------------------------------------------

    #[cold]
    fn set_paused(&mut self, paused: QueueSet) {
        for queue in paused.difference(&self.paused).iter() {
            let has_packets = !self.empty.contains(queue);
            if paused.contains(queue) {
                if has_packets {
                    self.deactivate(queue);
                    self.active = self.active.wrapping_sub(1);
                }
                self.free.remove(queue);
            } else if has_packets {
                self.activate(queue);
                self.active = self.active.wrapping_add(1);
            } else {
                self.free.insert(queue);
            }
        }
        self.paused = paused;
    }

    #[cold]
    fn count_full(&mut self, switch: &Switch<S>, len: u32) -> Cause {
        let counters = &mut self.counters;
        let (counter, cause) = if switch.has_room(len, &self.tuning.share) {
            (&mut counters.dropped_share, Cause::Share)
        } else {
            (&mut counters.dropped_buffer, Cause::Buffer)
        };
        *counter = counter.wrapping_add(1);
        cause
    }

    /// Whether the control queue has room for `len` bytes. Counts a drop if it has none.
    fn has_control_room(&mut self, len: u32, limit: u64) -> bool {
        let waiting = self.queues.first().map_or(0, |queue| queue.bytes);
        let has_room = waiting.saturating_add(len.into()) <= limit;
        if !has_room {
            self.counters.dropped_control = self.counters.dropped_control.wrapping_add(1);
        }
        has_room
    }

    /// The queue of an arriving packet, its flow's entry, and whether that entry counted no packet
    /// before.
    #[inline]
    fn assign(
        &mut self,
        arrival: &Arrival,
        sampled: bool,
        hrtt: u64,
        now: u64,
    ) -> (u16, u32, bool) {
        if self.incast != 0 && self.shape.incast == Some(arrival.rank) {
            return (self.incast, Note::NO_ENTRY, false);
        }
        let number = match self.shape.scheduler {
            Scheduler::Fq => class_of(arrival.rank, self.shape.classes),
            Scheduler::Srf => 0,
        };
        let Some(class) = self.classes.get_mut(usize::from(number)) else {
            invariant!("a rank has no class");
            return (1, Note::NO_ENTRY, false);
        };
        let queues = Queues {
            range: class.first..class.end,
            start: class.start,
            empty: &self.empty,
            free: &self.free,
        };
        let policy = Policy {
            assign: self.shape.assign,
            sticky: self.tuning.sticky.unwrap_or(hrtt.wrapping_mul(2)),
            sampled,
        };
        let flows = &mut self.flows;
        let Some(Assigned {
            queue,
            entry,
            activated,
            chosen,
        }) = flows.assign(
            arrival.flow,
            number,
            &queues,
            &policy,
            now,
            &mut self.random,
        )
        else {
            return (class.first, Note::NO_ENTRY, false);
        };
        if chosen {
            class.start = queue.wrapping_add(1);
        }
        if activated {
            let counters = &mut self.counters;
            counters.activations = counters.activations.wrapping_add(1);
            if !self.empty.contains(queue) {
                counters.collisions = counters.collisions.wrapping_add(1);
            }
        }
        (queue, entry, activated)
    }

    /// Whether an arriving packet finds its queue above the threshold.
    #[inline]
    fn is_congested(&mut self, queue: u16, hrtt: u64) -> bool {
        let queue = self.queues.get(usize::from(queue));
        let bytes = queue.map_or(0, |queue| queue.bytes);
        match self.tuning.threshold {
            Threshold::Fixed(threshold) => bytes > threshold,
            threshold @ Threshold::OneHopBdp { .. } => {
                if self.bdp_hrtt != hrtt {
                    self.bdp_hrtt = hrtt;
                    self.bdp = threshold.of_one_queue(hrtt);
                }
                // bytes > BDP / N_active, without the division.
                bytes.saturating_mul(self.active.max(1).into()) > self.bdp
            }
        }
    }

    /// A packet found its queue above the threshold: pauses its upstream queue.
    #[inline]
    fn push_back(&mut self, switch: &mut Switch<S>, arrival: &Arrival, note: &mut Note) {
        let counters = &mut self.counters;
        if arrival.device == 0 {
            // "BFC NICs do not generate any backpressure" (§5): a packet sent from this host has no
            // upstream neighbour.
        } else if self.tuning.elision.contains(arrival.device) {
            counters.elided = counters.elided.wrapping_add(1);
        } else {
            let port = switch.find(arrival.device);
            match port.filter(|_| arrival.upstream_queue != 0) {
                Some(port) if switch.count(port, arrival.upstream_queue) => {
                    note.ingress = port;
                    note.upstream_queue = arrival.upstream_queue;
                }
                _ => counters.unmarked = counters.unmarked.wrapping_add(1),
            }
        }
    }

    /// A queue that has packets is no longer paused, or a queue that is not paused gets packets: it
    /// may send.
    #[inline]
    fn activate(&mut self, queue: u16) {
        match self.shape.scheduler {
            Scheduler::Fq => {
                let class = self.queues.get(usize::from(queue)).map(|queue| queue.class);
                let class = class.and_then(|class| self.classes.get_mut(usize::from(class)));
                if let Some(class) = class {
                    class.rounds.append(&mut self.queues, queue);
                }
            }
            Scheduler::Srf => self.rank(queue),
        }
    }

    /// An active queue may no longer send.
    #[inline]
    fn deactivate(&mut self, queue: u16) {
        match self.shape.scheduler {
            Scheduler::Fq => {
                let class = self.queues.get(usize::from(queue)).map(|queue| queue.class);
                let class = class.and_then(|class| self.classes.get_mut(usize::from(class)));
                if let Some(class) = class {
                    class.rounds.remove(&mut self.queues, queue);
                }
            }
            Scheduler::Srf => self.unrank(queue),
        }
    }

    /// Puts a queue in the trie, by the rank of its first packet.
    #[inline(never)] // out of the way of fair queuing
    fn rank(&mut self, number: u16) {
        let queue = self.queues.get(usize::from(number));
        let Some(rank) = queue.map(|queue| queue.fifo.first_rank()) else {
            invariant!("a queue that does not exist enters the trie");
            return;
        };
        let links = self.ranks.insert(&mut self.queues, number, rank);
        if let Some(queue) = self.queues.get_mut(usize::from(number)) {
            queue.rank = links;
        }
    }

    /// Removes a queue from the trie.
    #[inline(never)] // as rank
    fn unrank(&mut self, number: u16) {
        let Some(links) = self.queues.get(usize::from(number)).map(|queue| queue.rank) else {
            invariant!("a queue that does not exist leaves the trie");
            return;
        };
        let Some(place) = self.ranks.find(links.rank()) else {
            invariant!("a queue leaves the trie that is not in it");
            return;
        };
        self.ranks.remove(&mut self.queues, number, links, place);
    }

    #[inline]
    fn push(&mut self, number: u16, packet: F::Packet, note: Note, len: u32) {
        self.packets = self.packets.wrapping_add(1);
        let Some(queue) = self.queues.get_mut(usize::from(number)) else {
            invariant!("a packet is put into a queue that does not exist");
            return;
        };
        queue.fifo.push(packet, note);
        queue.packets = queue.packets.wrapping_add(1);
        queue.bytes = queue.bytes.wrapping_add(len.into());
        if number != CONTROL && queue.packets == 1 {
            self.empty.remove(number);
            self.free.remove(number);
            if !self.paused.contains(number) {
                self.active = self.active.wrapping_add(1);
                self.activate(number);
            }
        }
    }

    /// Takes the first packet from a queue, with its length and its note.
    #[inline]
    fn take(&mut self, queue: u16) -> Option<(F::Packet, u32, Note)> {
        let queue = self.queues.get_mut(usize::from(queue))?;
        let len = queue.fifo.first_len();
        let (packet, note) = queue.fifo.pop()?;
        queue.packets = queue.packets.wrapping_sub(1);
        queue.bytes = queue.bytes.wrapping_sub(len.into());
        self.packets = self.packets.wrapping_sub(1);
        Some((packet, len, note))
    }

    fn pop_control(&mut self) -> Option<F::Packet> {
        let (packet, len, _) = self.take(CONTROL)?;
        if let Some(queue) = self.queues.first_mut() {
            queue.sent = queue.sent.wrapping_add(1);
            queue.sent_bytes = queue.sent_bytes.wrapping_add(len.into());
        }
        Some(packet)
    }

    /// Sends the first packet of an active queue.
    #[inline]
    fn pop(&mut self, number: u16, switch: &mut Switch<S>, now: u64) -> Option<F::Packet> {
        let (packet, len, note) = self.take(number)?;
        self.left(switch, len, note, now);
        let queue = self.queues.get_mut(usize::from(number))?;
        queue.sent = queue.sent.wrapping_add(1);
        queue.sent_bytes = queue.sent_bytes.wrapping_add(len.into());
        let is_empty = queue.packets == 0;
        match self.shape.scheduler {
            Scheduler::Fq if is_empty => self.deactivate(number),
            Scheduler::Srf if !is_empty => self.activate(number),
            _ => {}
        }
        if is_empty {
            self.active = self.active.wrapping_sub(1);
            self.emptied(number);
        }
        Some(packet)
    }

    /// A queue has sent its last packet.
    #[inline]
    fn emptied(&mut self, number: u16) {
        if let Some(queue) = self.queues.get_mut(usize::from(number)) {
            queue.turn.forfeit();
        }
        self.empty.insert(number);
        if !self.paused.contains(number) {
            self.free.insert(number);
        }
    }

    /// A packet of data has left, for whatever reason.
    #[inline(always)] // most leave by `pop`
    fn left(&mut self, switch: &mut Switch<S>, len: u32, note: Note, now: u64) {
        self.bytes = self.bytes.wrapping_sub(len.into());
        switch.release(len);
        if note.entry != Note::NO_ENTRY {
            self.flows.left(note.entry, now);
        }
        if note.upstream_queue != 0 {
            switch.uncount(note.ingress, note.upstream_queue);
        }
    }

    /// Checks that all parts agree. For tests: takes time proportional to queues and entries.
    ///
    /// # Errors
    ///
    /// The violated invariant.
    #[doc(hidden)]
    pub fn check_invariants(&self) -> Result<(), &'static str> {
        let (mut packets, mut bytes, mut active) = (0_u32, 0_u64, 0_u32);
        for (number, queue) in (0..=MAX_DATA_QUEUES).zip(self.queues.iter()) {
            packets = packets.wrapping_add(queue.packets);
            if number == CONTROL {
                continue;
            }
            bytes = bytes.wrapping_add(queue.bytes);
            let (is_empty, is_paused) = (queue.packets == 0, self.paused.contains(number));
            if is_empty != self.empty.contains(number) {
                return Err("the bitmap of empty queues is wrong");
            }
            if (is_empty && !is_paused) != self.free.contains(number) {
                return Err("the bitmap of free queues is wrong");
            }
            if is_empty && queue.bytes != 0 {
                return Err("an empty queue has bytes");
            }
            if !is_empty && !is_paused {
                active = active.wrapping_add(1);
            }
        }
        if packets != self.packets || bytes != self.bytes {
            return Err("the totals are wrong");
        }
        if active != self.active {
            return Err("the number of active queues is wrong");
        }
        let mut ranked = 0_u32;
        self.ranks.check(&self.queues, |number, rank| {
            let queue = self.queues.get(usize::from(number));
            if queue.is_none_or(|queue| queue.packets == 0 || queue.fifo.first_rank() != rank) {
                return Err("a queue is at a place in the trie that is not its own");
            }
            if self.paused.contains(number) {
                return Err("a paused queue is in the trie");
            }
            ranked = ranked.wrapping_add(1);
            Ok(())
        })?;
        if self.shape.scheduler == Scheduler::Srf && ranked != active {
            return Err("an active queue is missing in the trie");
        }
        let counted = self.flows.sizes().fold(0_u32, u32::wrapping_add);
        if counted > packets {
            return Err("the flow table counts packets that are not inside");
        }
        if packets == 0 && counted != 0 {
            return Err("the flow table counts packets although there are none");
        }
        Ok(())
    }
}

/// The class of a rank.
#[inline]
fn class_of(rank: u32, classes: u8) -> u8 {
    rank.min(u32::from(classes.saturating_sub(1))) as u8
}

/// HRTT · µ in bytes, `rate` in bytes per second and `hrtt` in ns.
fn one_hop_bdp(rate: u64, hrtt: u64) -> u64 {
    const NS_PER_S: u64 = 1_000_000_000;
    let whole = (rate / NS_PER_S).saturating_mul(hrtt);
    let part = (rate % NS_PER_S).saturating_mul(hrtt) / NS_PER_S;
    whole.saturating_add(part)
}
