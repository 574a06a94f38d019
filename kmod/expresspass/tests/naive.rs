// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The naive model of two hosts: maps of flows, searched as a whole each time, and a network
//! between the hosts that loses messages and frames.
//!
//! The sending side must do exactly what the model does. Of the receiving side the model knows the
//! flows, the numbers of their credits, and the losses; the rates are tested by themselves.
//!
//! A scenario is made from the bytes of a property test or a fuzzer ([`Scenario::decode`]).
#![allow(dead_code, reason = "tests, fuzz targets and examples each use a part")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_mechanisms::common::shared::Peer;
use weft_mechanisms::expresspass::endpoint::{Endpoint, Received};
use weft_mechanisms::expresspass::message::{Flow, Kind, Message};
use weft_mechanisms::expresspass::options::{Config, Options};
use weft_mechanisms::expresspass::sender::Departure;
use weft_mechanisms::heap::Heap;

/// Flows of the scenario. The hosts have room for [`ROOM`] of them.
const FLOWS: u16 = 6;
const ROOM: u32 = 4;
const LIMIT: u32 = 30;
const CREDITS: u32 = 8;

const HOSTS: [Peer; 2] = [
    Peer {
        address: 1,
        port: 1023,
    },
    Peer {
        address: 2,
        port: 1023,
    },
];

fn flow(number: u16) -> Flow {
    Flow {
        source: 1,
        destination: 2,
        source_port: number,
        destination_port: 80,
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// A packet of a flow arrives from the first host's TCP.
    Arrive(u16, u32),
    /// One that needs no credit.
    ArriveFree,
    /// The first host's device sends, and the frame arrives, or is lost.
    Depart(bool),
    /// Time passes; timers are served, or are late.
    Pass(u64, bool),
    /// The oldest message of a host's arrives, or is lost.
    Deliver(usize, bool),
    /// A stray message.
    Stray(u16, Kind),
    /// A host forgets all.
    Clear(usize),
    Change(Options),
}

/// The life of two hosts.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    options: Options,
    pub(crate) operations: Vec<Operation>,
}

fn options(mut next: impl FnMut() -> u8) -> Options {
    Options {
        rate: Some(1_250_000_000),
        full: Some(1 + u32::from(next() % 50)),
        timeout: Some(10_000 + u64::from(next()) * 1_000),
        gather: Some(u64::from(next() % 4) * 1_000),
        linger: Some(u64::from(next() % 4) * 2_000),
        early: Some(next() < 128),
        ..Options::default()
    }
}

impl Scenario {
    /// Every sequence of bytes is a scenario.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut rest = bytes.iter().copied();
        let mut scenario = Self {
            options: options(|| rest.next().unwrap_or(0)),
            operations: Vec::new(),
        };
        while let Some(code) = rest.next() {
            let mut next = || rest.next().unwrap_or(0);
            let flow = u16::from(code) % FLOWS;
            scenario.operations.push(match code {
                0..=59 => Operation::Arrive(flow * flow / FLOWS, 1),
                60..=64 => Operation::Arrive(flow, u32::from(next() % 40)),
                65..=74 => Operation::ArriveFree,
                75..=124 => Operation::Depart(next() < 230),
                125..=174 => Operation::Pass(u64::from(next()).pow(2) * 10, next() < 240),
                175..=234 => Operation::Deliver(usize::from(code) % 2, next() < 220),
                235..=247 => {
                    let number = u16::from_be_bytes([next(), next()]);
                    let kind = match code % 3 {
                        0 => Kind::Stop,
                        1 => Kind::Credit { number },
                        _ => Kind::Request { waiting: number },
                    };
                    Operation::Stray(flow, kind)
                }
                248..=249 => Operation::Clear(usize::from(code) % 2),
                250..=255 => Operation::Change(options(next)),
            });
        }
        scenario
    }

    /// Runs the scenario on the hosts and on the model.
    ///
    /// # Panics
    ///
    /// If the hosts violate the model.
    pub(crate) fn run(&self) {
        let mut life = Life::new(&self.options);
        for operation in &self.operations {
            life.step(operation);
            life.check();
        }
        life.end();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Requesting(Option<u64>),
    Receiving,
    Stopping,
    Stopped,
    Closing,
}

/// A flow of the first host.
#[derive(Clone, Copy, Debug)]
struct Outgoing {
    phase: Phase,
    waiting: u32,
    granted: u32,
    rtt: Option<u64>,
    heard: u64,
    credits: u32,
    since: u64,
    due: u64,
}

/// A flow of the second host.
#[derive(Clone, Debug, Default)]
struct Incoming {
    /// The numbers of the credits that left, and of the latest that came back.
    left: BTreeSet<u16>,
    back: Option<u16>,
    /// Whether the host has taken a stray number for a credit's.
    is_astray: bool,
}

struct Life {
    config: Config,
    hosts: [Endpoint<Heap>; 2],
    now: u64,
    outgoing: BTreeMap<Flow, Outgoing>,
    incoming: BTreeMap<Flow, Incoming>,
    /// The flow and the credit, or neither.
    departures: VecDeque<Option<(Flow, u16)>>,
    numbers: BTreeMap<Flow, u16>,
    /// On the way to each host.
    network: [VecDeque<Message>; 2],
}

impl Life {
    fn new(options: &Options) -> Self {
        let options = Options {
            flows: Some(ROOM),
            limit: Some(LIMIT),
            ..*options
        };
        let config = Config::new(&options).unwrap();
        let endpoint = |seed| {
            let Ok(endpoint) = Endpoint::new(&config, seed);
            endpoint
        };
        Self {
            config,
            hosts: [endpoint(1), endpoint(2)],
            now: 1_000_000,
            outgoing: BTreeMap::new(),
            incoming: BTreeMap::new(),
            departures: VecDeque::new(),
            numbers: BTreeMap::new(),
            network: [VecDeque::new(), VecDeque::new()],
        }
    }

    fn step(&mut self, operation: &Operation) {
        match *operation {
            Operation::Arrive(number, frames) => self.arrive(flow(number), frames.max(1)),
            Operation::ArriveFree => {
                let free = self.departures.iter().filter(|it| it.is_none()).count();
                let has_room = (free as u32) < LIMIT;
                assert_eq!(self.hosts[0].arrive_free(), has_room);
                if has_room {
                    self.departures.push_back(None);
                }
            }
            Operation::Depart(arrives) => self.depart(arrives),
            Operation::Pass(time, in_time) => {
                self.now += time;
                if in_time {
                    self.poll();
                }
            }
            Operation::Deliver(to, arrives) => {
                if let Some(message) = self.network[to].pop_front().filter(|_| arrives) {
                    self.receive(to, message);
                }
            }
            Operation::Stray(number, kind) => {
                let to = usize::from(!matches!(kind, Kind::Credit { .. }));
                let flow = flow(number);
                self.receive(to, Message { flow, kind });
            }
            Operation::Clear(host) => {
                self.hosts[host].clear();
                if host == 0 {
                    self.outgoing.clear();
                    self.departures.clear();
                    self.numbers.clear();
                } else {
                    self.incoming.clear();
                }
            }
            Operation::Change(options) => {
                self.config = self.config.updated(&options).unwrap();
                for host in &mut self.hosts {
                    host.set(&self.config);
                }
            }
        }
    }

    fn waiting(&self) -> u32 {
        self.outgoing
            .values()
            .map(|it| it.waiting + it.granted)
            .sum()
    }

    fn arrive(&mut self, flow: Flow, frames: u32) {
        let now = self.now;
        let number = self.hosts[0].arrive(now, flow, frames);
        let is_known = self.outgoing.contains_key(&flow);
        let has_room =
            self.waiting() + frames <= LIMIT && (is_known || self.outgoing.len() < ROOM as usize);
        assert_eq!(number.is_some(), has_room);
        let Some(number) = number else { return };
        self.numbers.insert(flow, number);
        let it = self.outgoing.entry(flow).or_insert(Outgoing {
            phase: Phase::Closing,
            waiting: 0,
            granted: 0,
            rtt: None,
            heard: now,
            credits: 0,
            since: now,
            due: 0,
        });
        it.waiting += frames;
        let was_empty = it.waiting == frames;
        match it.phase {
            Phase::Closing => {
                it.phase = Phase::Requesting(None);
                it.due = now + self.config.gather;
            }
            Phase::Stopped if was_empty => {
                it.phase = Phase::Requesting(None);
                it.due = now + self.config.gather;
            }
            Phase::Stopping => {
                it.phase = Phase::Receiving;
                (it.heard, it.due) = (now, now + self.config.timeout);
            }
            Phase::Receiving if was_empty => {
                (it.heard, it.due) = (now, now + self.config.timeout);
            }
            _ => {}
        }
    }

    fn depart(&mut self, arrives: bool) {
        let departure = self.hosts[0].depart();
        let expected = self.departures.pop_front();
        let Some(expected) = expected else {
            assert_eq!(departure, None);
            return;
        };
        let Some((flow, credit)) = expected else {
            assert_eq!(departure, Some(Departure::Free));
            return;
        };
        let number = self.numbers[&flow];
        let granted = Departure::Granted {
            flow: number,
            credit,
        };
        assert_eq!(departure, Some(granted));
        self.outgoing.get_mut(&flow).unwrap().granted -= 1;
        if arrives {
            self.data(flow, credit);
        }
    }

    /// A frame arrives at the second host.
    fn data(&mut self, flow: Flow, credit: u16) {
        let before = self.hosts[1].counters().2;
        let is_known = self.hosts[1].data(self.now, &flow, credit);
        let after = self.hosts[1].counters().2;
        assert_eq!(is_known, self.incoming.contains_key(&flow));
        let Some(incoming) = self.incoming.get_mut(&flow) else {
            return;
        };
        if !incoming.left.contains(&credit) {
            // A stray one, which may have any number.
            incoming.is_astray |= after.echoed != before.echoed;
        }
        if incoming.is_astray {
            return;
        }
        let is_credit = incoming.left.contains(&credit);
        assert_eq!(after.echoed, before.echoed + u64::from(is_credit));
        if !is_credit {
            return;
        }
        let gap = incoming
            .back
            .map(|back| credit.wrapping_sub(back).wrapping_sub(1));
        match gap {
            // Credits before the first that came back are lost too; the model does not know them.
            None => incoming.back = Some(credit),
            Some(gap) if gap < 1 << 15 => {
                assert_eq!(after.lost, before.lost + u64::from(gap));
                incoming.back = Some(credit);
            }
            Some(_) => assert_eq!(after.lost, before.lost),
        }
    }

    fn receive(&mut self, to: usize, message: Message) {
        let from = HOSTS[1 - to];
        let (now, Message { flow, kind }) = (self.now, message);
        assert!(self.hosts[to].is_trusted(from, &message));
        let received = self.hosts[to].receive(now, from, &message);
        if received == Received::NotMine && matches!(kind, Kind::Credit { .. }) {
            self.hosts[to].stop(from, flow);
        }
        match kind {
            Kind::Credit { number } => {
                assert_eq!(received, self.credit(flow, number));
            }
            Kind::Request { .. } => {
                let has_room = self.incoming.len() < ROOM as usize;
                let is_known = self.incoming.contains_key(&flow);
                assert_eq!(received == Received::Done, is_known || has_room);
                if has_room {
                    self.incoming.entry(flow).or_default();
                }
            }
            Kind::Stop => {
                let was_known = self.incoming.remove(&flow).is_some();
                assert_eq!(received == Received::Done, was_known);
            }
        }
    }

    fn credit(&mut self, flow: Flow, number: u16) -> Received {
        let now = self.now;
        let Some(it) = self.outgoing.get_mut(&flow) else {
            return Received::NotMine;
        };
        it.heard = now;
        it.credits += 1;
        if let Phase::Requesting(sent) = it.phase {
            if let Some(sent) = sent {
                it.rtt = Some((now - sent).max(1));
            }
            it.phase = Phase::Receiving;
            (it.credits, it.since) = (1, now);
            it.due = now + self.config.timeout;
        }
        if it.waiting == 0 {
            return Received::Done;
        }
        it.waiting -= 1;
        it.granted += 1;
        self.departures.push_back(Some((flow, number)));
        if it.phase == Phase::Receiving {
            if it.waiting == 0 {
                it.due = now + self.config.linger;
            } else if now - it.since >= it.rtt.unwrap_or(0) {
                if self.config.early && it.rtt.is_some() && it.credits >= it.waiting {
                    (it.phase, it.due) = (Phase::Stopping, now);
                }
                (it.credits, it.since) = (0, now);
            }
        }
        Received::Release
    }

    /// Serves all timers.
    fn poll(&mut self) {
        let now = self.now;
        let mut expected = Vec::new();
        let config = self.config;
        self.outgoing.retain(|&flow, it| {
            if it.due > now {
                return true;
            }
            let rtt = it.rtt.unwrap_or(config.timeout);
            let mut say = |kind| expected.push(Message { flow, kind });
            match it.phase {
                Phase::Receiving if it.waiting > 0 && it.heard + config.timeout > now => {
                    it.due = it.heard + config.timeout;
                }
                Phase::Requesting(_) | Phase::Receiving | Phase::Stopped if it.waiting > 0 => {
                    let waiting = it.waiting as u16;
                    say(Kind::Request { waiting });
                    it.phase = Phase::Requesting(Some(now));
                    it.due = now + config.timeout;
                }
                Phase::Requesting(_) | Phase::Receiving | Phase::Stopping => {
                    say(Kind::Stop);
                    (it.phase, it.due) = (Phase::Stopped, now + 2 * rtt);
                }
                Phase::Stopped => {
                    it.credits = 0;
                    (it.phase, it.due) = (Phase::Closing, now + rtt);
                }
                Phase::Closing if it.credits > 0 => {
                    say(Kind::Stop);
                    (it.phase, it.due) = (Phase::Stopped, now + 2 * rtt);
                }
                Phase::Closing if it.granted + it.waiting > 0 => it.due = now + rtt,
                Phase::Closing => return false,
            }
            true
        });
        // Stops of unknown flows are sent first, in any number.
        let mut said = Vec::new();
        while let Some((to, message)) = self.hosts[0].poll(now) {
            assert_eq!(to, HOSTS[1]);
            let is_stray = message.kind == Kind::Stop && !self.outgoing.contains_key(&message.flow);
            if !is_stray {
                said.push(message);
            }
            self.network[1].push_back(message);
        }
        // A flow may have begun since a stop for it, as an unknown one, was left to send.
        for message in &expected {
            let place = said.iter().position(|it| it == message);
            said.remove(place.expect("the model's message is sent"));
        }
        assert!(said.iter().all(|it| it.kind == Kind::Stop), "{said:?}");
        while let Some((to, message)) = self.hosts[1].poll(now) {
            assert_eq!(to, HOSTS[0]);
            let Kind::Credit { number } = message.kind else {
                panic!("the second host sends {message:?}");
            };
            if let Some(incoming) = self.incoming.get_mut(&message.flow) {
                incoming.left.insert(number);
            }
            self.network[0].push_back(message);
        }
        for host in &self.hosts {
            assert!(host.next().is_none_or(|at| at > now));
        }
        // Flows that ended without a stop.
        let receiver = &self.hosts[1];
        self.incoming.retain(|flow, _| receiver.credits(flow));
        // The network is short.
        for queue in &mut self.network {
            queue.truncate(200);
        }
    }

    fn check(&self) {
        let [first, second] = &self.hosts;
        assert_eq!(first.sender().flows() as usize, self.outgoing.len());
        let free = self.departures.iter().filter(|it| it.is_none()).count();
        assert_eq!(first.sender().packets(), self.waiting() + free as u32);
        for (flow, it) in &self.outgoing {
            let frames = first.sender().frames(self.numbers[flow]);
            assert_eq!(frames, (it.waiting, it.granted));
        }
        let due = self.outgoing.values().map(|it| it.due).min();
        assert_eq!(first.sender().next(), due);
        assert_eq!(second.receiver().flows() as usize, self.incoming.len());
        assert!(second.receiver().credits() <= CREDITS);
    }

    /// Without losses all packets leave and all flows end.
    fn end(&mut self) {
        for round in 0..200_000 {
            let next = self.hosts.iter().filter_map(Endpoint::next).min();
            let is_idle = next.is_none() && self.network.iter().all(VecDeque::is_empty);
            if is_idle && self.departures.is_empty() {
                break;
            }
            assert!(round < 199_999, "packets or flows are left");
            self.now = next.map_or(self.now, |at| at.max(self.now));
            self.poll();
            for to in [0, 1] {
                while let Some(message) = self.network[to].pop_front() {
                    self.receive(to, message);
                    while !self.departures.is_empty() {
                        self.depart(true);
                    }
                    self.check();
                }
            }
            while !self.departures.is_empty() {
                self.depart(true);
            }
        }
        assert_eq!((self.waiting(), self.outgoing.len()), (0, 0));
    }
}
