// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The naive model of a switch: lists of packets, added up each time, and neighbours that pause and
//! resume.
//!
//! The model knows each packet's ingress port. The switch does not, once a child has dropped
//! packets that it had accepted, or a device has joined or left; then the model checks only the
//! sums, until the switch is empty again.
//!
//! A scenario is made from the bytes of a property test or a fuzzer ([`Scenario::decode`]).
#![allow(dead_code, reason = "tests, fuzz targets and examples each use a part")]

use weft_mechanisms::common::share::ALPHA_1;
use weft_mechanisms::heap::Heap;
use weft_mechanisms::port::options::{pause_time, Config, Options, MAX_QUANTA};
use weft_mechanisms::port::switch::{Cause, Id, Room, State, Switch, Terms};

/// Ports of the model's switch: two devices have both priorities, and one has one.
const PORTS: u16 = 5;
const IDS: [Id; PORTS as usize] = [id(1, 3), id(2, 5), id(2, 3), id(1, 5), id(3, 3)];

const fn id(device: u32, priority: u8) -> Id {
    Id { device, priority }
}

const MTU: u32 = 1500;
/// Bytes per second: a quantum is 64 µs.
const RATE: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// A packet from a device, or from this node, arrives at a port.
    Arrive(u16, u32, u32),
    /// A port sends its first packet.
    Send(u16),
    /// A port's child drops its last packet.
    Drop(u16),
    /// A port's child adds bytes to its first packet.
    Gain(u16, u32),
    /// Time passes; timers are served, or are late.
    Pass(u64, bool),
    /// Frames cannot be sent by a port, or can again.
    Mute(u16, bool),
    Terms(u16, Options),
    Join(u16),
    /// A port's packets are purged, and its qdisc leaves.
    Leave(u16),
}

/// A switch's life.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    options: Vec<Options>,
    pub(crate) operations: Vec<Operation>,
}

const LENGTHS: [u32; 6] = [60, 1500, 1500, 1500, 9000, 0];

fn options(mut next: impl FnMut() -> u8) -> Options {
    let pick = |byte: u8, none: u8| (byte >= none).then_some(u32::from(byte));
    let alphas = [0, ALPHA_1 / 2, ALPHA_1, 8 * ALPHA_1];
    Options {
        memory: pick(next(), 40).map(|byte| byte % 16 * 8_000 + 20_000),
        alpha: pick(next(), 128).map(|byte| alphas[byte as usize % alphas.len()]),
        pfc: Some(next() < 160),
        rate: Some(RATE),
        hrtt: None,
        headroom: Some(u32::from(next() % 8) * 1_500 + 1),
        xoff: pick(next(), 128).map(|byte| byte % 100 + 1),
        xon: pick(next(), 128).map(|byte| byte * 20),
        quanta: pick(next(), 128).map(|byte| byte * 8),
        priority: None,
        watchdog: None,
    }
}

impl Scenario {
    /// Every sequence of bytes is a scenario.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut rest = bytes.iter().copied();
        let mut scenario = Self {
            options: (0..PORTS)
                .map(|_| options(|| rest.next().unwrap_or(0)))
                .collect(),
            operations: Vec::new(),
        };
        while let Some(code) = rest.next() {
            let mut next = || rest.next().unwrap_or(0);
            // Bursts to one port.
            let port = u16::from(code) % PORTS;
            scenario.operations.push(match code {
                0..=139 => {
                    let (from, len) = (next(), next());
                    let len = LENGTHS[usize::from(len) % LENGTHS.len()];
                    Operation::Arrive(port * port / PORTS, u32::from(from % 7), len)
                }
                140..=199 => Operation::Send(port),
                200..=209 => Operation::Drop(port),
                210..=214 => Operation::Gain(port, next().into()),
                215..=229 => Operation::Pass(u64::from(next()).pow(3) * 1_000, next() < 200),
                230..=234 => Operation::Mute(port, next() < 60),
                235..=244 => Operation::Terms(port, options(next)),
                245..=249 => Operation::Join(port),
                250..=255 => Operation::Leave(port),
            });
        }
        scenario
    }

    /// Runs the scenario on the switch and on the model.
    ///
    /// # Panics
    ///
    /// If the switch violates the model.
    pub(crate) fn run(&self) {
        let mut life = Life::new(&self.options);
        for operation in &self.operations {
            life.step(operation);
            life.check();
        }
        life.end();
    }
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    /// The device by which it came.
    device: u32,
    len: u32,
}

struct Port {
    config: Config,
    is_member: bool,
    is_mute: bool,
    queue: Vec<Packet>,
    /// Until when its neighbour is paused.
    neighbour: u64,
    /// Whether the last frame to its neighbour could not be sent.
    is_unsent: bool,
}

struct Life {
    switch: Switch<Heap>,
    ports: Vec<Port>,
    now: u64,
    /// Whether the switch knows each packet's ingress port.
    exact: bool,
    /// Whether all timers were served.
    punctual: bool,
}

fn config(options: &Options) -> Option<Config> {
    Config::new(options).ok()
}

impl Life {
    fn new(options: &[Options]) -> Self {
        let (Ok(none), Ok(room)) = (Room::new(0), Room::new(PORTS));
        let mut life = Self {
            switch: Switch::new(none),
            ports: Vec::new(),
            now: 1,
            exact: true,
            punctual: true,
        };
        drop(life.switch.grow(room));
        for (number, options) in (0..).zip(options) {
            let default = Config::new(&Options::default()).expect("the defaults are allowed");
            life.ports.push(Port {
                config: config(options).unwrap_or(default),
                is_member: false,
                is_mute: false,
                queue: Vec::new(),
                neighbour: 0,
                is_unsent: false,
            });
            life.join(number);
        }
        life
    }

    fn port(&mut self, number: u16) -> &mut Port {
        &mut self.ports[usize::from(number)]
    }

    fn terms(&self, number: u16) -> Terms {
        Terms::new(&self.ports[usize::from(number)].config, MTU)
    }

    fn headrooms(&self) -> u64 {
        let members = self.ports.iter().filter(|port| port.is_member);
        members
            .map(|port| Terms::new(&port.config, MTU))
            .filter_map(|terms| terms.pfc)
            .map(|pfc| pfc.headroom)
            .sum()
    }

    fn join(&mut self, number: u16) {
        let terms = self.terms(number);
        let own = terms.pfc.map_or(0, |pfc| pfc.headroom);
        let others = self.headrooms();
        let fits = others == 0 || others + own < terms.memory;
        let joined = self.switch.join(IDS[usize::from(number)], &terms);
        assert_eq!(
            joined.is_ok(),
            fits,
            "{others} and {own} of {}",
            terms.memory
        );
        match joined {
            Ok(joined) if joined == number => self.port(number).is_member = true,
            // Another place was free before its own.
            Ok(joined) => self.switch.leave(joined),
            Err(_) => {}
        }
        // Packets from its device may be inside, without an ingress port.
        self.exact = self.is_empty();
        self.pump();
    }

    fn is_empty(&self) -> bool {
        self.ports.iter().all(|port| port.queue.is_empty())
    }

    fn all(&self) -> u64 {
        let packets = self.ports.iter().flat_map(|port| &port.queue);
        packets.map(|packet| u64::from(packet.len)).sum()
    }

    fn state(&mut self, number: u16) -> State {
        self.switch.state(number, self.now)
    }

    /// Bytes in all headrooms.
    fn over(&mut self) -> u64 {
        (0..PORTS).map(|port| self.state(port).headroom).sum()
    }

    /// The bytes of the shared memory by a port's options.
    fn shared(&self, number: u16) -> u64 {
        match self.terms(number).memory {
            u64::MAX => u64::MAX,
            memory => memory.saturating_sub(self.headrooms()),
        }
    }

    /// The decision about a packet, and whether it is in the headroom.
    fn expected(&mut self, egress: u16, packet: Packet) -> Result<bool, Cause> {
        let len = u64::from(packet.len);
        let used = self.all() - self.over();
        let ingress = id(packet.device, IDS[usize::from(egress)].priority);
        let ingress = (0..PORTS).zip(IDS).find(|(_, id)| *id == ingress);
        let ingress = ingress.map(|(port, _)| port);
        let ingress = ingress.filter(|&port| self.port(port).is_member);
        let lossless = ingress.and_then(|port| Some((port, self.terms(port).pfc?)));
        if let Some((port, pfc)) = lossless {
            let State {
                ingress, headroom, ..
            } = self.state(port);
            let threshold = match self.shared(port) {
                u64::MAX => u64::MAX,
                shared => shared.saturating_sub(used) * pfc.xoff / 100,
            };
            return if ingress + len <= threshold {
                Ok(false)
            } else if headroom + len <= pfc.headroom {
                Ok(true)
            } else if ingress - headroom + len <= threshold {
                Ok(false)
            } else {
                Err(Cause::Headroom)
            };
        }
        let (shared, alpha) = (self.shared(egress), self.terms(egress).alpha);
        if shared == u64::MAX {
            return Ok(false);
        }
        if used + len > shared {
            return Err(Cause::Memory);
        }
        // A port that holds all of so little is within its share.
        let parts = u64::from(ALPHA_1 + alpha);
        let plenty = used + len <= shared * u64::from(alpha) / parts;
        let bytes: u64 = {
            let queue = self.port(egress).queue.iter();
            queue.map(|packet| u64::from(packet.len)).sum()
        };
        let most = (shared - used) * u64::from(alpha) / u64::from(ALPHA_1);
        match alpha == 0 || plenty || bytes + len <= most {
            true => Ok(false),
            false => Err(Cause::Share),
        }
    }

    fn step(&mut self, operation: &Operation) {
        match *operation {
            Operation::Arrive(number, device, len) => {
                if !self.port(number).is_member {
                    return;
                }
                let packet = Packet { device, len };
                let over = self.over();
                let expected = self.expected(number, packet);
                let result = self.switch.arrive(number, device, len);
                assert_eq!(result, expected.map(|_| ()), "{number}, {packet:?}");
                if let Ok(into_headroom) = expected {
                    let more = if into_headroom { len.into() } else { 0 };
                    assert_eq!(self.over(), over + more);
                    self.port(number).queue.push(packet);
                }
            }
            Operation::Send(number) => {
                if !self.port(number).queue.is_empty() {
                    let packet = self.port(number).queue.remove(0);
                    self.switch.depart(number, packet.device, packet.len);
                }
            }
            Operation::Drop(number) => {
                if let Some(packet) = self.port(number).queue.pop() {
                    self.switch.lose(number, packet.len.into(), None);
                    self.exact = false;
                }
            }
            Operation::Gain(number, bytes) => {
                if let Some(packet) = self.port(number).queue.first_mut() {
                    packet.len += bytes;
                    let device = packet.device;
                    self.switch.gain(number, bytes.into(), device);
                }
            }
            Operation::Pass(time, served) => {
                self.now += time;
                self.punctual = served;
            }
            Operation::Mute(number, is_mute) => self.port(number).is_mute = is_mute,
            Operation::Terms(number, options) => {
                if let Some(config) = config(&options).filter(|_| self.port(number).is_member) {
                    self.port(number).config = config;
                    let terms = self.terms(number);
                    self.switch.set_terms(number, &terms);
                }
            }
            Operation::Join(number) => {
                if !self.port(number).is_member {
                    self.join(number);
                }
            }
            Operation::Leave(number) => {
                if self.port(number).is_member {
                    let queue = std::mem::take(&mut self.port(number).queue);
                    let bytes = queue.iter().map(|packet| u64::from(packet.len)).sum();
                    self.switch.lose(number, bytes, None);
                    self.switch.leave(number);
                    self.port(number).is_member = false;
                    self.exact = false;
                }
            }
        }
        if self.punctual {
            self.pump();
        }
    }

    /// Sends all frames that are due, as the kernel does.
    fn pump(&mut self) {
        self.switch.tick(self.now);
        let mut sent = 0;
        while let Some(sending) = self.switch.next_frame(self.now) {
            let mut about = (0..PORTS).zip(IDS).filter_map(|(number, id)| {
                let quanta = sending.frame.time(id.priority)?;
                (id.device == sending.device).then_some((number, quanta))
            });
            let (number, quanta) = about.next().expect("it is about a port");
            assert_eq!(about.next(), None, "it is about one port");
            sent += 1;
            assert!(sent <= 2 * PORTS, "it never ends");
            let is_mute = self.port(number).is_mute;
            self.port(number).is_unsent = is_mute;
            if is_mute {
                self.switch.unsent(sending.device, self.now);
            } else {
                let now = self.now;
                self.port(number).neighbour = now + pause_time(quanta.into(), RATE);
            }
        }
        assert!(!self.switch.has_news());
        if let Some(next) = self.switch.next_event() {
            assert!(next > self.now, "its time has passed");
        }
    }

    fn check(&mut self) {
        self.exact |= self.is_empty();
        assert_eq!(self.switch.bytes(), self.all());
        for number in 0..PORTS {
            let state = self.state(number);
            let port = &self.ports[usize::from(number)];
            let bytes: u64 = port.queue.iter().map(|it| u64::from(it.len)).sum();
            assert_eq!(state.bytes, bytes);
            assert!(state.headroom <= state.ingress);
            if self.exact && port.is_member {
                let own = IDS[usize::from(number)];
                let ports = self.ports.iter().zip(IDS);
                let ports = ports.filter(|(_, id)| id.priority == own.priority);
                let packets = ports.flat_map(|(port, _)| &port.queue);
                let from = packets.filter(|packet| packet.device == own.device);
                let ingress: u64 = from.map(|packet| u64::from(packet.len)).sum();
                assert_eq!(state.ingress, ingress, "port {number}");
            }
            if state.ingress == 0 {
                assert!(!state.pausing, "for nothing");
            }
            if state.headroom != 0 && port.is_member && self.terms(number).pfc.is_some() {
                assert!(
                    state.pausing,
                    "the headroom is for what arrives after a pause"
                );
            }
            let is_told = self.punctual && port.is_member && !port.is_unsent;
            if is_told && state.pausing {
                assert!(
                    port.neighbour > self.now,
                    "the pause of {number} was not renewed"
                );
            }
            if is_told && !state.pausing {
                assert!(port.neighbour <= self.now, "{number} was not resumed");
            }
        }
    }

    /// Everything leaves, and nothing remains once the last pause has ended.
    fn end(mut self) {
        for number in 0..PORTS {
            self.step(&Operation::Leave(number));
        }
        self.pump();
        let longest = self.now + pause_time(MAX_QUANTA, RATE);
        while let Some(next) = self.switch.next_event() {
            assert!(next <= 2 * longest, "{next}");
            self.now = next;
            self.pump();
        }
        let left = (self.switch.bytes(), self.switch.ports());
        assert_eq!((left, self.switch.next_event()), ((0, 0), None));
    }
}
