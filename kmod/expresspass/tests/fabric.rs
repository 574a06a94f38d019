// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Hosts at one switch, whose ports limit credits: what the paper claims of a network.
//!
//! Links have 10 Gbit/s and a delay of 2 µs. TCP is a supply of frames that never ends, or ends
//! after a number.

use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::config;
use weft_mechanisms::common::shared::Peer;
use weft_mechanisms::expresspass::endpoint::{Endpoint, Received};
use weft_mechanisms::expresspass::limiter::Limiter;
use weft_mechanisms::expresspass::message::{Flow, Kind, Message};
use weft_mechanisms::expresspass::options::{Config, Options};
use weft_mechanisms::expresspass::sender::Departure;
use weft_mechanisms::heap::Heap;

const DELAY: u64 = 2_000;
/// Frames that TCP keeps in a flow's queue.
const WINDOW: u64 = 100;

#[derive(Clone, Copy)]
enum Packet {
    Message(Message),
    Frame(Flow, u16),
}

impl Packet {
    /// The time that it takes of a link, in ns.
    fn time(self) -> u64 {
        match self {
            Self::Message(_) => 67,
            Self::Frame(..) => 1_230,
        }
    }

    /// The host to which it goes.
    fn to(self) -> usize {
        let (flow, is_credit) = match self {
            Self::Message(Message { flow, kind }) => (flow, matches!(kind, Kind::Credit { .. })),
            Self::Frame(flow, _) => (flow, false),
        };
        let address = if is_credit {
            flow.source
        } else {
            flow.destination
        };
        address as usize
    }
}

#[derive(Clone, Copy)]
enum Event {
    Host(usize),
    Port(usize),
    AtSwitch(Packet),
    AtHost(Packet),
}

struct Host {
    endpoint: Endpoint<Heap>,
    messages: VecDeque<Message>,
    is_free_at: u64,
    /// The next event of its endpoint.
    timer: u64,
}

struct Port {
    credits: Limiter,
    data: VecDeque<Packet>,
    is_free_at: u64,
    longest: usize,
    dropped: u64,
}

struct Supply {
    left: u64,
    arrived: u64,
    numbers: Option<u16>,
}

struct Star {
    now: u64,
    hosts: Vec<Host>,
    ports: Vec<Port>,
    flows: BTreeMap<Flow, Supply>,
    /// By time, the earliest first; then by their order.
    events: BinaryHeap<(std::cmp::Reverse<(u64, u64)>, usize)>,
    kept: Vec<Event>,
}

fn flow(from: usize, to: usize) -> Flow {
    Flow {
        source: from as u32,
        destination: to as u32,
        source_port: 1,
        destination_port: 2,
    }
}

impl Star {
    fn new(hosts: usize, options: Options) -> Self {
        let config: Config = config(Options {
            winit: Some(63),
            ..options
        });
        let host = |seed| {
            let Ok(endpoint) = Endpoint::new(&config, 77 + seed as u32 * 1001);
            Host {
                endpoint,
                messages: VecDeque::new(),
                is_free_at: 0,
                timer: u64::MAX,
            }
        };
        let port = |_| Port {
            credits: Limiter::new(8, config.law().gap),
            data: VecDeque::new(),
            is_free_at: 0,
            longest: 0,
            dropped: 0,
        };
        Self {
            now: 0,
            hosts: (0..hosts).map(host).collect(),
            ports: (0..hosts).map(port).collect(),
            flows: BTreeMap::new(),
            events: BinaryHeap::new(),
            kept: Vec::new(),
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        let order = (time, self.kept.len() as u64);
        self.events
            .push((std::cmp::Reverse(order), self.kept.len()));
        self.kept.push(event);
    }

    fn begin(&mut self, from: usize, to: usize, frames: u64) {
        let supply = Supply {
            left: frames,
            arrived: 0,
            numbers: None,
        };
        self.flows.insert(flow(from, to), supply);
        for _ in 0..WINDOW.min(frames) {
            self.supply(flow(from, to));
        }
        self.at(self.now, Event::Host(from));
    }

    /// TCP gives the host a frame.
    fn supply(&mut self, flow: Flow) {
        let supply = self.flows.get_mut(&flow).unwrap();
        if supply.left > 0 {
            supply.left -= 1;
            let host = &mut self.hosts[flow.source as usize];
            supply.numbers = host.endpoint.arrive(self.now, flow, 1);
            assert!(supply.numbers.is_some());
        }
    }

    fn run(&mut self, until: u64) {
        while let Some((std::cmp::Reverse((time, _)), event)) = self.events.pop() {
            if time > until {
                self.events
                    .push((std::cmp::Reverse((time, event as u64)), event));
                break;
            }
            self.now = time;
            match self.kept[event] {
                Event::Host(host) => self.host(host),
                Event::Port(port) => self.port(port),
                Event::AtSwitch(packet) => {
                    let port = &mut self.ports[packet.to()];
                    match packet {
                        Packet::Message(
                            message @ Message {
                                kind: Kind::Credit { .. },
                                ..
                            },
                        ) => {
                            let nobody = Peer {
                                address: 0,
                                port: 0,
                            };
                            port.dropped += u64::from(!port.credits.push(nobody, message));
                        }
                        packet => port.data.push_back(packet),
                    }
                    let frames = port.data.iter();
                    let frames = frames.filter(|it| matches!(it, Packet::Frame(..))).count();
                    port.longest = port.longest.max(frames);
                    self.port(packet.to());
                }
                Event::AtHost(packet) => self.arrive(packet),
            }
        }
        self.now = until;
    }

    fn arrive(&mut self, packet: Packet) {
        let to = packet.to();
        let host = &mut self.hosts[to];
        match packet {
            Packet::Message(message) => {
                let from = match message.kind {
                    Kind::Credit { .. } => message.flow.destination,
                    _ => message.flow.source,
                };
                let from = Peer {
                    address: from,
                    port: 1023,
                };
                let received = host.endpoint.receive(self.now, from, &message);
                let is_credit = matches!(message.kind, Kind::Credit { .. });
                if received == Received::NotMine && is_credit {
                    host.endpoint.stop(from, message.flow);
                }
            }
            Packet::Frame(flow, credit) => {
                host.endpoint.data(self.now, &flow, credit);
                self.flows.get_mut(&flow).unwrap().arrived += 1;
            }
        }
        self.host(to);
    }

    fn host(&mut self, number: usize) {
        let now = self.now;
        let host = &mut self.hosts[number];
        while let Some((_, message)) = host.endpoint.poll(now) {
            host.messages.push_back(message);
        }
        let next = host.endpoint.next().map_or(u64::MAX, |at| at.max(now + 1));
        if next < host.timer || host.timer <= now {
            host.timer = next;
            if next != u64::MAX {
                self.at(next, Event::Host(number));
            }
        }
        let host = &mut self.hosts[number];
        if host.is_free_at > now {
            return;
        }
        let packet = match host.messages.pop_front() {
            Some(message) => Packet::Message(message),
            None => {
                let Some(Departure::Granted { flow: of, credit }) = host.endpoint.depart() else {
                    return;
                };
                let is_of = |(flow, supply): &(&Flow, &Supply)| {
                    supply.numbers == Some(of) && flow.source as usize == number
                };
                let flow = *self.flows.iter().find(is_of).unwrap().0;
                self.supply(flow);
                Packet::Frame(flow, credit)
            }
        };
        let end = now + packet.time();
        self.hosts[number].is_free_at = end;
        self.at(end, Event::Host(number));
        self.at(end + DELAY, Event::AtSwitch(packet));
    }

    fn port(&mut self, number: usize) {
        let now = self.now;
        let port = &mut self.ports[number];
        if port.is_free_at > now {
            return;
        }
        let credit = port.credits.pop(now).map(|it| Packet::Message(it.1));
        let Some(packet) = credit.or_else(|| port.data.pop_front()) else {
            if let Some(at) = port.credits.next() {
                self.at(at, Event::Port(number));
            }
            return;
        };
        port.is_free_at = now + packet.time();
        self.at(now + packet.time(), Event::Port(number));
        self.at(now + packet.time() + DELAY, Event::AtHost(packet));
    }

    fn arrived(&self, from: usize, to: usize) -> u64 {
        self.flows[&flow(from, to)].arrived
    }

    /// Frames of flows that arrive in a time.
    fn measure(&mut self, flows: &[(usize, usize)], time: u64) -> Vec<u64> {
        let before: Vec<u64> = flows.iter().map(|it| self.arrived(it.0, it.1)).collect();
        self.run(self.now + time);
        let after = flows.iter().map(|it| self.arrived(it.0, it.1));
        after
            .zip(before)
            .map(|(after, before)| after - before)
            .collect()
    }
}

const MS: u64 = 1_000_000;

/// Frames of a link in 1 ms that credits allow: 10^6 / 1297.6.
const MOST: u64 = 770;

/// Credits take 84 / (84 + 1538) of the link, and the rest is for data.
#[test]
fn one_flow_uses_the_link_except_for_the_part_of_credits() {
    let mut star = Star::new(2, Options::default());
    star.begin(1, 0, u64::MAX);
    star.run(2 * MS);
    let frames = star.measure(&[(1, 0)], MS)[0];
    assert!((MOST * 97 / 100..=MOST + 2).contains(&frames), "{frames}");
}

/// Two flows converge to fair shares within some round-trip times.
#[test]
fn two_flows_to_one_receiver_share_its_link() {
    let mut star = Star::new(3, Options::default());
    star.begin(1, 0, u64::MAX);
    star.run(MS);
    star.begin(2, 0, u64::MAX);
    star.run(2 * MS);
    // For some milliseconds one of them may have twice the other's share.
    let frames = star.measure(&[(1, 0), (2, 0)], 20 * MS);
    let sum: u64 = frames.iter().sum();
    assert!(
        (20 * MOST * 90 / 100..=20 * MOST + 4).contains(&sum),
        "{frames:?}"
    );
    assert!(
        frames[0] * 3 < frames[1] * 4 && frames[1] * 3 < frames[0] * 4,
        "{frames:?}"
    );
}

/// The data of many flows waits in a short queue.
#[test]
fn an_incast_has_a_short_queue_and_fills_the_link() {
    let mut star = Star::new(33, Options::default());
    let flows: Vec<(usize, usize)> = (1..33).map(|from| (from, 0)).collect();
    for &(from, to) in &flows {
        star.begin(from, to, u64::MAX);
    }
    star.run(MS);
    let frames = star.measure(&flows, 4 * MS);
    let sum: u64 = frames.iter().sum();
    assert!(
        (4 * MOST * 95 / 100..=4 * MOST + 40).contains(&sum),
        "{sum} {frames:?}"
    );
    assert!(star.ports[0].longest <= 16, "{}", star.ports[0].longest);
    let (least, most) = (frames.iter().min().unwrap(), frames.iter().max().unwrap());
    assert!(*most <= 4 * least, "{frames:?}");
}

/// The credits of several receivers meet at the switch's port to their sender, which drops some.
#[test]
fn a_sender_of_several_flows_gets_no_more_credits_than_its_link_sends_frames() {
    let mut star = Star::new(5, Options::default());
    let flows: Vec<(usize, usize)> = (1..5).map(|to| (0, to)).collect();
    for &(from, to) in &flows {
        star.begin(from, to, u64::MAX);
    }
    star.run(MS);
    let frames = star.measure(&flows, 4 * MS);
    let sum: u64 = frames.iter().sum();
    assert!(star.ports[0].dropped > 0);
    assert!(
        (4 * MOST * 85 / 100..=4 * MOST + 6).contains(&sum),
        "{frames:?}"
    );
    assert!(frames.iter().all(|it| *it > sum / 8), "{frames:?}");
    assert!(star.ports.iter().all(|port| port.longest <= 4));
}

/// Senders stop their credits: nothing is left when all have sent what they had.
#[test]
fn flows_that_end_leave_nothing() {
    let mut star = Star::new(9, Options::default());
    for round in 0..5 {
        for from in 1..9 {
            star.begin(from, 0, 1 + 7 * round * from as u64);
        }
        star.run(star.now + 5 * MS);
        for from in 1..9 {
            assert_eq!(star.arrived(from, 0), 1 + 7 * round * from as u64);
        }
        for host in &star.hosts {
            let endpoint = &host.endpoint;
            assert_eq!(
                (endpoint.sender().flows(), endpoint.receiver().flows()),
                (0, 0)
            );
        }
    }
    let (_, _, receiver) = star.hosts[0].endpoint.counters();
    assert_eq!((receiver.begun, receiver.abandoned), (40, 0));
}
