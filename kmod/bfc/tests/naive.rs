// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A naive switch, the paper's text word by word: it computes every answer from all packets and all
//! earlier messages.
//!
//! Both switches go through a [`Scenario`] side by side, operation by operation; after each, their
//! visible state is compared. A scenario is made from arbitrary bytes, by a property test or a
//! fuzzer.

use super::rig::{from, share, Rig, HRTT, LINK, RATE, REFRESH, TUNING};
use std::collections::{BTreeMap, VecDeque};
use weft_mechanisms::bfc::egress::{
    Arrival, Cause, Pushback, Scheduler, Shape, Threshold, Tuning, CONTROL_LIMIT,
    CONTROL_PACKETS_LIMIT,
};
use weft_mechanisms::bfc::elision::Elision;
use weft_mechanisms::bfc::flows::Assign;
use weft_mechanisms::bfc::ingress::Tell;
use weft_mechanisms::bfc::neighbour::Rules;
use weft_mechanisms::bfc::queue_set::QueueSet;
use weft_mechanisms::bfc::switch::Link;
use weft_mechanisms::common::share::ALPHA_1;

/// Upstream queues in a scenario, including 0.
const UPSTREAM: u16 = 5;
/// Ports; device numbers are one higher. The device after the last has no port.
const PORTS: usize = 3;

/// All operations on a switch.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Enqueue {
        port: usize,
        arrival: Arrival,
    },
    Control {
        port: usize,
    },
    Dequeue {
        port: usize,
    },
    /// A message from a downstream neighbour.
    Hear {
        port: usize,
        tell: Tell,
    },
    /// Frames are sent, and arrive.
    Tell,
    Wait {
        ns: u64,
    },
    Clear {
        port: usize,
    },
    Tune {
        port: usize,
        tuning: Tuning,
    },
}

/// A sequence of operations on a switch.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) shape: Shape,
    pub(crate) tuning: Tuning,
    pub(crate) rules: Rules,
    pub(crate) operations: Vec<Operation>,
}

/// The bytes of a scenario; zeroes after the end.
struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl Bytes<'_> {
    fn next(&mut self) -> u32 {
        self.0.next().copied().unwrap_or(0).into()
    }

    fn below(&mut self, end: u32) -> u32 {
        self.next() % end
    }
}

impl Scenario {
    /// Every sequence of bytes is a scenario.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut bytes = Bytes(bytes.iter());
        let first = bytes.next() as usize;
        let scheduler = [Scheduler::Fq, Scheduler::Srf][first & 1];
        let rules = Rules {
            hold: [u64::MAX, 600_000][first >> 1 & 1],
            watchdog: [0, 1, 10_000, 700_000][first >> 2 & 3],
        };
        let pushback = [Pushback::All, Pushback::Backlogged][first >> 4 & 1];
        let control = [None, None, Some(0), Some(5)][first >> 5 & 3];
        let (classes, incast) = match scheduler {
            Scheduler::Srf => (1, None),
            Scheduler::Fq => {
                let classes = [1, 1, 2, 4][bytes.below(4) as usize];
                (
                    classes,
                    [None, Some(bytes.below(5))][bytes.below(2) as usize],
                )
            }
        };
        let assign = [
            Assign::Dynamic,
            Assign::Dynamic,
            Assign::Stochastic,
            Assign::Single,
        ][bytes.below(4) as usize];
        let shape = Shape {
            queues: [8, 3, 9, 70][bytes.below(4) as usize].max(u16::from(classes) * 2),
            entries: [800, 8, 4][bytes.below(3) as usize],
            assign,
            scheduler,
            classes,
            incast: incast.filter(|incast| control != Some(*incast)),
            control,
        };
        let tuning = Self::tuning(&mut bytes, pushback);
        let mut operations = Vec::new();
        while bytes.0.len() > 0 {
            operations.push(Self::operation(&mut bytes, pushback));
        }
        Self {
            shape,
            tuning,
            rules,
            operations,
        }
    }

    fn tuning(bytes: &mut Bytes<'_>, pushback: Pushback) -> Tuning {
        let code = bytes.next();
        let threshold = match code & 3 {
            0 => Threshold::Fixed(0),
            1 => Threshold::Fixed(3_000),
            2 => Threshold::OneHopBdp {
                rate: RATE,
                percent: 150,
            },
            _ => TUNING.threshold,
        };
        let alphas = [0, ALPHA_1 / 4, ALPHA_1, 8 * ALPHA_1];
        let share = match code >> 3 & 1 {
            0 => share(u64::MAX, ALPHA_1),
            _ => share(30_000, alphas[bytes.below(4) as usize]),
        };
        Tuning {
            limit: [u64::MAX, 20_000][code as usize >> 2 & 1],
            share,
            threshold,
            pushback,
            sticky: [None, Some(0), Some(100), Some(u64::MAX)][code as usize >> 4 & 3],
            sample: 100,
            quantum: [1_000, 1][code as usize >> 6 & 1],
            elision: [Elision::NONE, Elision::new([1].into_iter())][code as usize >> 7],
        }
    }

    fn operation(bytes: &mut Bytes<'_>, pushback: Pushback) -> Operation {
        let code = bytes.next();
        let port = code as usize % PORTS;
        match code {
            0..=119 => {
                let (device, upstream) = (bytes.below(PORTS as u32 + 2), bytes.below(256));
                let (flow, rank) = (bytes.below(16), bytes.below(6));
                Operation::Enqueue {
                    port,
                    arrival: Arrival {
                        len: [1_000, 60, 1, 590, 9_000][upstream as usize >> 5 & 3],
                        rank,
                        ..from(device, upstream as u16 % UPSTREAM, flow)
                    },
                }
            }
            120..=124 => Operation::Control { port },
            125..=194 => Operation::Dequeue { port },
            195..=219 => {
                let queue = 1 + bytes.below(10) as u16;
                let tell = match bytes.below(4) {
                    0 => Tell::Resume(queue),
                    1 => {
                        let mut words = [0; 16];
                        words[0] = u64::from(bytes.next()) << 1 | u64::from(bytes.next()) << 9;
                        Tell::State(QueueSet::from_words(words))
                    }
                    _ => Tell::Pause(queue),
                };
                Operation::Hear { port, tell }
            }
            220..=234 => Operation::Tell,
            235..=249 => {
                let ns = [1, 99, HRTT, 4 * HRTT, REFRESH, 500_000, 1_000_000];
                Operation::Wait {
                    ns: ns[bytes.below(7) as usize],
                }
            }
            250..=252 => Operation::Clear { port },
            253..=255 => Operation::Tune {
                port,
                tuning: Self::tuning(bytes, pushback),
            },
            _ => unreachable!("a byte"),
        }
    }

    /// Runs it on both switches.
    ///
    /// # Panics
    ///
    /// If they differ.
    pub(crate) fn run(&self) {
        let mut rig = Rig::with(&vec![(self.shape, self.tuning); PORTS]);
        let link = Link {
            rules: self.rules,
            ..LINK
        };
        for port in &rig.ports {
            rig.switch.set_link(port.place().port, &link);
        }
        let mut naive = Switch::new(self);
        for operation in &self.operations {
            step(&mut rig, &mut naive, operation);
            naive.compare(&rig);
        }
        naive.compare_pauses(&mut rig);
        let left = naive.packets().count();
        assert_eq!(rig.alive(), left, "packets in memory");
        drop(rig.ports);
    }
}

fn step(rig: &mut Rig, naive: &mut Switch, operation: &Operation) {
    match operation {
        Operation::Enqueue { port, arrival } => match naive.room(*port, arrival) {
            Ok(()) => {
                let (id, queue) = rig.enqueue(*port, arrival).expect("there is room");
                naive.enqueue(*port, arrival, id, queue);
            }
            Err(cause) => assert_eq!(rig.enqueue(*port, arrival), Err(cause)),
        },
        Operation::Control { port } => {
            let frame = rig.packet(&Arrival {
                len: 60,
                ..from(0, 0, 0)
            });
            let has_room = naive.ports[*port].control_bytes() + 60 <= CONTROL_LIMIT;
            if has_room {
                naive.ports[*port].control.push_back((frame.id, 60));
            }
            let result = rig.ports[*port].enqueue_control(frame, 60);
            assert_eq!(result.is_ok(), has_room);
        }
        Operation::Dequeue { port } => {
            let sent = rig.dequeue(*port).map(|packet| packet.id);
            assert_eq!(sent, naive.dequeue(*port), "sent");
        }
        Operation::Hear { port, tell } => {
            rig.hear(*port as u32 + 1, *tell);
            naive.hear(*port, *tell);
        }
        Operation::Tell => {
            let now = rig.now;
            rig.switch.refresh(now);
            for frame in rig.frames() {
                let upstream = &mut naive.upstream[frame.device as usize - 1];
                match frame.tell {
                    Tell::Pause(queue) => upstream.insert(queue),
                    Tell::Resume(queue) => upstream.remove(queue),
                    Tell::State(state) => *upstream = state,
                }
            }
            // "The upstream queue is paused if and only if its Pause Counter … is non-zero."
            assert_eq!(naive.upstream, naive.to_be_paused());
            naive.compare_pauses(rig);
        }
        Operation::Wait { ns } => {
            rig.now += ns;
            naive.wait(*ns);
        }
        Operation::Clear { port } => {
            let mut cleared = Vec::new();
            let now = rig.now;
            rig.ports[*port].clear(&mut rig.switch, now, |packet| cleared.push(packet.id));
            cleared.sort_unstable();
            assert_eq!(cleared, naive.clear(*port), "cleared");
        }
        Operation::Tune { port, tuning } => {
            rig.ports[*port].tune(*tuning);
            naive.ports[*port].tune(*tuning);
        }
    }
}

/// A packet inside.
#[derive(Clone, Debug)]
struct Inside {
    id: u32,
    arrival: Arrival,
    entry: Option<usize>,
    counted: bool,
}

#[derive(Clone, Debug, Default)]
struct Queue {
    packets: VecDeque<Inside>,
    paused: bool,
    deficit: u32,
    /// While it waits for its turn: the bytes that each of the others has sent.
    meanwhile: BTreeMap<usize, u32>,
}

impl Queue {
    fn bytes(&self) -> u64 {
        let lengths = self.packets.iter().map(|packet| packet.arrival.len);
        lengths.map(u64::from).sum()
    }

    fn is_active(&self) -> bool {
        !self.packets.is_empty() && !self.paused
    }
}

/// Queues in the order of their turns, and whether the first one's turn has begun.
#[derive(Clone, Debug, Default)]
struct Round {
    order: VecDeque<usize>,
    begun: bool,
}

#[derive(Clone, Debug)]
struct Port {
    shape: Shape,
    tuning: Tuning,
    quantum: u32,
    /// The largest quantum so far.
    largest: u32,
    /// Numbers and lengths.
    control: VecDeque<(u32, u32)>,
    /// The first one is unused.
    queues: Vec<Queue>,
    rounds: Vec<Round>,
    /// When a queue's first packet became its first one, to order equal ranks.
    since: Vec<u64>,
    /// By entry: its queue, and when it was last used.
    table: BTreeMap<usize, (usize, u64)>,
    rules: Rules,
    /// All pauses so far. Ongoing ones are applied at the port's next operation.
    pauses: Vec<Pause>,
    /// When ongoing pauses lapse.
    until: u64,
    /// Pauses that lapsed.
    lapsed: u64,
}

/// A pause by the downstream neighbour.
#[derive(Clone, Debug)]
struct Pause {
    queue: u16,
    from: u64,
    /// When the watchdog ends it.
    most: Option<u64>,
    to: Option<u64>,
}

impl Pause {
    fn is_wanted(&self) -> bool {
        self.to.is_none()
    }

    /// Whether the watchdog has ended it by `now`.
    fn is_released(&self, now: u64) -> bool {
        self.most
            .is_some_and(|most| most <= self.to.unwrap_or(now).min(now))
    }

    fn is_obeyed(&self, now: u64) -> bool {
        self.is_wanted() && !self.is_released(now)
    }

    fn time(&self, now: u64) -> u64 {
        let end = self.to.unwrap_or(now).min(self.most.unwrap_or(u64::MAX));
        end - self.from
    }
}

impl Port {
    fn new(shape: Shape, tuning: Tuning, rules: Rules) -> Self {
        Self {
            shape,
            tuning,
            quantum: tuning.quantum,
            largest: tuning.quantum,
            control: VecDeque::new(),
            queues: vec![Queue::default(); usize::from(shape.queues) + 1],
            rounds: vec![Round::default(); usize::from(shape.classes)],
            since: vec![0; usize::from(shape.queues) + 1],
            table: BTreeMap::new(),
            rules,
            pauses: Vec::new(),
            until: 0,
            lapsed: 0,
        }
    }

    fn wants(&self, queue: u16) -> bool {
        let mut wanted = self.pauses.iter().filter(|pause| pause.is_wanted());
        wanted.any(|pause| pause.queue == queue)
    }

    fn want(&mut self, queue: u16, now: u64) {
        if !self.wants(queue) {
            let Rules { watchdog, .. } = self.rules;
            let is_there = queue <= self.shape.queues;
            self.pauses.push(Pause {
                queue,
                from: now,
                most: (watchdog != 0 && is_there).then_some(now + watchdog),
                to: None,
            });
        }
    }

    fn want_no_longer(&mut self, queue: u16, now: u64) {
        for pause in &mut self.pauses {
            if pause.queue == queue && pause.is_wanted() {
                pause.to = Some(now);
            }
        }
    }

    fn wait(&mut self, now: u64) {
        if self.until <= now {
            for pause in &mut self.pauses {
                if pause.is_wanted() {
                    self.lapsed += u64::from(pause.is_obeyed(self.until));
                    pause.to = Some(self.until);
                }
            }
        }
    }

    fn tune(&mut self, tuning: Tuning) {
        self.tuning = tuning;
        self.quantum = tuning.quantum;
        self.largest = self.largest.max(self.quantum);
    }

    fn bytes(&self) -> u64 {
        self.queues.iter().map(Queue::bytes).sum()
    }

    fn control_bytes(&self) -> u64 {
        self.control.iter().map(|(_, len)| u64::from(*len)).sum()
    }

    fn active(&self) -> u64 {
        self.queues.iter().filter(|queue| queue.is_active()).count() as u64
    }

    fn class(&self, rank: u32) -> usize {
        (rank as usize).min(usize::from(self.shape.classes) - 1)
    }

    /// The class of a queue.
    fn class_of(&self, queue: usize) -> usize {
        (0..self.rounds.len())
            .find(|class| self.all_of(*class).contains(&queue))
            .unwrap()
    }

    /// The queues of a class.
    fn all_of(&self, class: usize) -> std::ops::Range<usize> {
        let (queues, classes) = (self.queues.len() - 1, self.rounds.len());
        class * queues / classes + 1..(class + 1) * queues / classes + 1
    }

    /// The queue of incasts.
    fn incast(&self) -> Option<usize> {
        let class = self.class(self.shape.incast?);
        Some(self.all_of(class).end - 1)
    }

    /// The queues of a class to which flows are assigned.
    fn assigned_of(&self, class: usize) -> std::ops::Range<usize> {
        let mut range = self.all_of(class);
        if self.incast().is_some_and(|queue| range.contains(&queue)) {
            range.end -= 1;
        }
        range
    }

    fn entry(&self, arrival: &Arrival) -> Option<usize> {
        if self.shape.incast == Some(arrival.rank) {
            return None;
        }
        let class = match self.shape.scheduler {
            Scheduler::Fq => self.class(arrival.rank),
            Scheduler::Srf => 0,
        };
        let per_class = self.shape.entries as usize / self.rounds.len();
        let index = ((u64::from(arrival.flow) * per_class as u64) >> 32) as usize;
        Some(class * per_class + index)
    }

    fn size(&self, entry: usize) -> usize {
        let packets = self.queues.iter().flat_map(|queue| &queue.packets);
        packets.filter(|packet| packet.entry == Some(entry)).count()
    }

    /// Checks that a queue is a valid assignment of an arriving packet.
    fn check_assignment(&self, arrival: &Arrival, queue: usize, now: u64) {
        let Some(entry) = self.entry(arrival) else {
            assert_eq!(
                Some(queue),
                self.incast(),
                "incasts have a queue of their own"
            );
            return;
        };
        let sticky = self.tuning.sticky.unwrap_or(2 * HRTT);
        if let Some((assigned, used_at)) = self.table.get(&entry) {
            if self.size(entry) > 0 || now - used_at < sticky {
                assert_eq!(queue, *assigned, "the flow keeps its queue");
                return;
            }
        }
        let class = self.class(match self.shape.scheduler {
            Scheduler::Fq => arrival.rank,
            Scheduler::Srf => 0,
        });
        let range = self.assigned_of(class);
        assert!(range.contains(&queue), "one of the class");
        match self.shape.assign {
            Assign::Single => assert_eq!(queue, range.start),
            Assign::Stochastic => {
                let index = (u64::from(arrival.flow) * range.len() as u64) >> 32;
                assert_eq!(queue, range.start + index as usize);
            }
            Assign::Dynamic => {
                let is_empty = |queue: usize| self.queues[queue].packets.is_empty();
                let is_free = |queue: usize| is_empty(queue) && !self.queues[queue].paused;
                if range.clone().any(is_free) {
                    assert!(is_free(queue), "queue {queue} is not free, others are");
                } else if range.clone().any(is_empty) {
                    assert!(is_empty(queue), "queue {queue} is not empty, others are");
                }
            }
        }
    }

    fn is_congested(&self, queue: usize) -> bool {
        let bytes = self.queues[queue].bytes();
        match self.tuning.threshold {
            Threshold::Fixed(threshold) => bytes > threshold,
            // Th = percent · BDP / N_active; compares numbers without rounding.
            Threshold::OneHopBdp { rate, percent } => {
                let bdp = rate * HRTT / 1_000_000_000;
                100 * bytes * self.active().max(1) > u64::from(percent) * bdp
            }
        }
    }

    /// Appends a newly active queue to its round, and removes one that is no longer active.
    fn update_round(&mut self, queue: usize, clock: u64) {
        let class = self.class_of(queue);
        let is_active = self.queues[queue].is_active();
        let round = &mut self.rounds[class];
        match round.order.iter().position(|other| *other == queue) {
            None if is_active => {
                round.order.push_back(queue);
                self.since[queue] = clock;
            }
            Some(place) if !is_active => {
                round.order.remove(place);
                round.begun &= place != 0;
                self.queues[queue].meanwhile.clear();
            }
            _ => {}
        }
        if self.queues[queue].packets.is_empty() {
            self.queues[queue].deficit = 0;
        }
    }

    fn obey(&mut self, now: u64, clock: &mut u64) {
        let obeyed = self.pauses.iter().filter(|pause| pause.is_obeyed(now));
        let obeyed: Vec<u16> = obeyed.map(|pause| pause.queue).collect();
        for queue in 1..self.queues.len() {
            let pause = obeyed.contains(&(queue as u16));
            if self.queues[queue].paused != pause {
                *clock += 1;
                self.queues[queue].paused = pause;
                self.update_round(queue, *clock);
            }
        }
    }

    /// The queue whose packet is sent next.
    fn next(&mut self) -> Option<usize> {
        if self.shape.scheduler == Scheduler::Srf {
            let active = (1..self.queues.len()).filter(|queue| self.queues[*queue].is_active());
            return active.min_by_key(|queue| {
                (
                    self.queues[*queue].packets[0].arrival.rank,
                    self.since[*queue],
                )
            });
        }
        let class = self
            .rounds
            .iter()
            .position(|round| !round.order.is_empty())?;
        let Self {
            rounds,
            queues,
            largest,
            ..
        } = self;
        let round = &mut rounds[class];
        let first = |round: &Round, queues: &[Queue]| queues[round.order[0]].packets[0].arrival.len;
        if round.begun && first(round, queues) > queues[round.order[0]].deficit {
            round.begun = false;
            round.order.rotate_left(1);
        }
        let len = first(round, queues);
        let deficit = &mut queues[round.order[0]].deficit;
        if !round.begun {
            round.begun = true;
            // Otherwise a pause interrupted the turn, and this is the rest of it.
            if len > *deficit {
                *deficit += self.quantum;
            }
        }
        // Less than the packet only if the quantum shrank: a turn sends one packet nevertheless.
        *deficit = deficit.saturating_sub(len);
        let served = round.order[0];
        queues[served].meanwhile.clear();
        for waits in round.order.iter().skip(1) {
            let sent = queues[*waits].meanwhile.entry(served).or_default();
            *sent += len;
            assert!(
                *sent <= 2 * *largest + len,
                "queue {served} sent {sent} bytes while queue {waits} waited"
            );
        }
        Some(served)
    }
}

/// The naive switch.
pub(crate) struct Switch {
    ports: Vec<Port>,
    /// The pauses that the upstream neighbours obey.
    upstream: Vec<QueueSet>,
    now: u64,
    /// Counts operations, to order events.
    clock: u64,
}

impl Switch {
    fn new(scenario: &Scenario) -> Self {
        Self {
            ports: vec![Port::new(scenario.shape, scenario.tuning, scenario.rules); PORTS],
            upstream: vec![QueueSet::EMPTY; PORTS],
            now: 1_000_000,
            clock: 0,
        }
    }

    fn packets(&self) -> impl Iterator<Item = u32> + '_ {
        self.ports.iter().flat_map(|port| {
            let data = port.queues.iter().flat_map(|queue| &queue.packets);
            data.map(|packet| packet.id)
                .chain(port.control.iter().map(|(id, _)| *id))
        })
    }

    fn bytes(&self) -> u64 {
        self.ports.iter().map(Port::bytes).sum()
    }

    /// Counters by ingress port and upstream queue: packets inside that arrived above the
    /// threshold.
    fn counters(&self) -> BTreeMap<(u32, u16), u32> {
        let mut counters = BTreeMap::new();
        for port in &self.ports {
            for packet in port.queues.iter().flat_map(|queue| &queue.packets) {
                if packet.counted {
                    let key = (packet.arrival.device, packet.arrival.upstream_queue);
                    *counters.entry(key).or_default() += 1;
                }
            }
        }
        counters
    }

    fn to_be_paused(&self) -> Vec<QueueSet> {
        let mut sets = vec![QueueSet::EMPTY; PORTS];
        for (device, queue) in self.counters().into_keys() {
            sets[device as usize - 1].insert(queue);
        }
        sets
    }

    fn wait(&mut self, ns: u64) {
        self.now += ns;
        for port in &mut self.ports {
            port.wait(self.now);
        }
    }

    fn room(&self, port: usize, arrival: &Arrival) -> Result<(), Cause> {
        if self.ports[port].shape.control == Some(arrival.rank) {
            let bytes = self.ports[port].control_bytes() + u64::from(arrival.len);
            let has_room = bytes <= CONTROL_PACKETS_LIMIT;
            return if has_room {
                Ok(())
            } else {
                Err(Cause::Control)
            };
        }
        let Tuning { limit, share, .. } = self.ports[port].tuning;
        let bytes = self.ports[port].bytes() + u64::from(arrival.len);
        if bytes > limit {
            return Err(Cause::Limit);
        }
        if self.bytes() + u64::from(arrival.len) > share.buffer() {
            return Err(Cause::Buffer);
        }
        // "α times the unused buffer space", in fractions without rounding.
        let free = u128::from(share.buffer() - self.bytes());
        let alpha = u128::from(share.alpha());
        if alpha != 0 && u128::from(bytes) * u128::from(ALPHA_1) > alpha * free {
            return Err(Cause::Share);
        }
        Ok(())
    }

    fn enqueue(&mut self, number: usize, arrival: &Arrival, id: u32, queue: u16) {
        let port = &mut self.ports[number];
        if port.shape.control == Some(arrival.rank) {
            assert_eq!(queue, 0, "control packets have no upstream queue");
            port.control.push_back((id, arrival.len));
            return;
        }
        port.obey(self.now, &mut self.clock);
        self.clock += 1;
        let queue = usize::from(queue);
        port.check_assignment(arrival, queue, self.now);
        let known = (1..=PORTS as u32).contains(&arrival.device) && arrival.upstream_queue != 0;
        let elided = port.tuning.elision.contains(arrival.device);
        let entry = port.entry(arrival);
        if let Some(entry) = entry {
            port.table.insert(entry, (queue, self.now));
        }
        let is_alone = entry.is_some_and(|entry| port.size(entry) == 0);
        let exempt = is_alone && port.tuning.pushback == Pushback::Backlogged;
        let counted = port.is_congested(queue) && known && !elided && !exempt;
        port.quantum = port.quantum.max(arrival.len);
        port.largest = port.largest.max(port.quantum);
        port.queues[queue].packets.push_back(Inside {
            id,
            arrival: *arrival,
            entry,
            counted,
        });
        port.update_round(queue, self.clock);
    }

    fn dequeue(&mut self, port: usize) -> Option<u32> {
        let port = &mut self.ports[port];
        port.obey(self.now, &mut self.clock);
        self.clock += 1;
        if let Some((control, _)) = port.control.pop_front() {
            return Some(control);
        }
        let queue = port.next()?;
        let packet = port.queues[queue].packets.pop_front()?;
        if let Some(entry) = packet.entry {
            port.table.get_mut(&entry)?.1 = self.now;
        }
        port.since[queue] = self.clock;
        port.update_round(queue, self.clock);
        Some(packet.id)
    }

    fn hear(&mut self, port: usize, tell: Tell) {
        let port = &mut self.ports[port];
        port.until = self.now + port.rules.hold.min(1_000_000);
        match tell {
            Tell::Pause(queue) => port.want(queue, self.now),
            Tell::Resume(queue) => port.want_no_longer(queue, self.now),
            Tell::State(state) => {
                for queue in 0..1024 {
                    if state.contains(queue) {
                        port.want(queue, self.now);
                    } else {
                        port.want_no_longer(queue, self.now);
                    }
                }
            }
        }
    }

    fn clear(&mut self, port: usize) -> Vec<u32> {
        let port = &mut self.ports[port];
        for queue in 0..1024 {
            port.want_no_longer(queue, self.now);
        }
        port.obey(self.now, &mut self.clock);
        self.clock += 1;
        let mut ids: Vec<u32> = port.control.drain(..).map(|(id, _)| id).collect();
        for queue in 1..port.queues.len() {
            for packet in std::mem::take(&mut port.queues[queue].packets) {
                ids.push(packet.id);
                if let Some((_, used_at)) = packet.entry.and_then(|e| port.table.get_mut(&e)) {
                    *used_at = self.now;
                }
            }
            port.update_round(queue, self.clock);
        }
        ids.sort_unstable();
        ids
    }

    /// Compares the paused queues and their paused times.
    fn compare_pauses(&self, rig: &mut Rig) {
        for (number, naive) in self.ports.iter().enumerate() {
            let mut all = 0;
            for queue in 1..=naive.shape.queues {
                let pauses = naive.pauses.iter().filter(|pause| pause.queue == queue);
                let time: u64 = pauses.clone().map(|pause| pause.time(self.now)).sum();
                let paused = pauses.clone().any(|pause| pause.is_obeyed(self.now));
                let state = rig.queue(number, queue).unwrap();
                assert_eq!(
                    (state.paused, state.paused_ns),
                    (paused, time),
                    "queue {queue} of port {number}"
                );
                all += time;
            }
            assert_eq!(rig.paused_ns(number), all);
            let released = naive.pauses.iter();
            let released = released.filter(|pause| pause.is_released(self.now)).count();
            let counters = rig.switch.counters(rig.ports[number].place().port);
            assert_eq!(
                (counters.lapsed, counters.released),
                (naive.lapsed, released as u64)
            );
        }
    }

    /// Compares the visible state.
    fn compare(&self, rig: &Rig) {
        rig.check();
        let counters = self.counters();
        for (number, (port, naive)) in rig.ports.iter().zip(&self.ports).enumerate() {
            assert_eq!(port.bytes(), naive.bytes(), "bytes at port {number}");
            // The invariant: a counter is zero iff no over-threshold packet of that queue is
            // inside.
            for queue in 0..UPSTREAM {
                let device = number as u32 + 1;
                let expected = counters.get(&(device, queue)).copied().unwrap_or(0);
                let counter = rig.switch.counter(port.place().port, queue);
                assert_eq!(counter, expected, "counter of {device}, {queue}");
            }
        }
        assert_eq!(rig.switch.bytes().0, self.bytes());
        assert_eq!(rig.alive(), self.packets().count());
    }
}
