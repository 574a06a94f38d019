// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The naive model of a switch: lists of packets, searched completely each time. If several ports
//! may be chosen, it knows the set but not the choice.
//!
//! A scenario is made from the bytes of a property test or a fuzzer ([`Scenario::decode`]).
#![allow(dead_code, reason = "tests, fuzz targets and examples each use a part")]

use std::collections::BTreeMap;
use std::sync::Arc;
use weft_mechanisms::common::share::ALPHA_1;
use weft_mechanisms::dibs::ip::{Ecn, Reach};
use weft_mechanisms::dibs::options::{Config, Options, Policy};
use weft_mechanisms::dibs::switch::{places, Arrival, Cause, Decision, Reason, Switch, Terms};
use weft_mechanisms::heap::Heap;

/// Ports of the model's switch; a device is the port's number plus 1.
const PORTS: u16 = 6;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Arrive(u16, Arrival),
    /// A port sends its first packet.
    Send(u16),
    /// The first detoured packet arrives at its port, or something else takes it on the way.
    Carry {
        taken: bool,
    },
    /// It is carried while another packet arrives there first.
    CarryLate(Arrival),
    Terms(u16, Options),
    /// A port's carrier appears or disappears.
    Carrier(u16, bool),
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
const POLICIES: [Policy; 5] = [
    Policy::Random,
    Policy::LoadAware,
    Policy::Flow,
    Policy::Probabilistic,
    Policy::Off,
];

fn options(mut next: impl FnMut() -> u8) -> Options {
    let pick = |byte: u8, none: u8| (byte >= none).then_some(u32::from(byte));
    Options {
        limit: pick(next(), 60).map(|byte| byte % 10 + 1),
        limit_bytes: pick(next(), 200).map(|byte| (byte % 16) * 1000),
        mark: pick(next(), 100).map(|byte| byte % 6),
        detour_to: Some(next() < 180),
        policy: Some(POLICIES[usize::from(next()) * POLICIES.len() / 256]),
        ttl: None,
        share: pick(next(), 180).map(|byte| (byte % 32) * 1500),
        alpha: pick(next(), 128)
            .map(|byte| [0, ALPHA_1 / 2, ALPHA_1, 8 * ALPHA_1][byte as usize % 4]),
        from: pick(next(), 128).map(|byte| byte % 101),
        ranks: pick(next(), 128).map(|byte| byte % 5),
    }
}

fn arrival(mut next: impl FnMut() -> u8) -> Arrival {
    let (a, b) = (next(), next());
    Arrival {
        len: LENGTHS[usize::from(a) % LENGTHS.len()],
        rank: u32::from(b % 6),
        flow: u32::from(b / 6),
        ecn: [Ecn::Capable, Ecn::NotCapable, Ecn::Marked][usize::from(a / 8) % 3],
        reach: match a {
            0..=9 => Reach::Link,
            10..=19 => Reach::Expires,
            _ => Reach::Routed,
        },
        carried: false,
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
                0..=139 => Operation::Arrive(port * port / PORTS, arrival(next)),
                140..=189 => Operation::Send(port),
                190..=229 => Operation::Carry { taken: next() < 20 },
                230..=239 => Operation::CarryLate(arrival(next)),
                240..=244 => Operation::Terms(port, options(next)),
                245..=249 => Operation::Carrier(port, next() < 128),
                250..=252 => Operation::Join(port),
                253..=255 => Operation::Leave(port),
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

/// A packet on its way: its length and its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Detoured {
    len: u32,
    port: u16,
}

struct Port {
    options: Options,
    config: Config,
    is_member: bool,
    has_carrier: bool,
    /// Lengths of the waiting packets.
    queue: Vec<u32>,
}

impl Port {
    fn waiting(&self) -> u64 {
        self.queue.iter().map(|&len| u64::from(len)).sum()
    }
}

struct Life {
    switch: Switch<Heap>,
    ports: Vec<Port>,
    air: Vec<Detoured>,
    /// For each flow and each set of ports with room, the port that it went by.
    flows: BTreeMap<(u32, Vec<u16>), u16>,
    steps: u32,
}

fn config(options: &Options) -> Config {
    Config::new(options).expect("in range")
}

impl Life {
    fn new(options: &[Options]) -> Self {
        let (Ok(switch), Ok(places)) = (Switch::new(3), places(PORTS));
        let mut life = Self {
            switch,
            ports: Vec::new(),
            air: Vec::new(),
            flows: BTreeMap::new(),
            steps: 0,
        };
        drop(life.switch.grow(places));
        for (number, options) in (0..).zip(options) {
            life.ports.push(Port {
                options: *options,
                config: config(options),
                is_member: false,
                has_carrier: true,
                queue: Vec::new(),
            });
            life.join(number);
        }
        life
    }

    fn port(&mut self, number: u16) -> &mut Port {
        &mut self.ports[usize::from(number)]
    }

    fn join(&mut self, number: u16) {
        let terms = Terms::new(&self.port(number).config);
        // A port keeps its number, because there is a place for each.
        let joined = self
            .switch
            .join(u32::from(number) + 1, &terms, Arc::default());
        let joined = joined.map(|(number, _)| number);
        if joined == Some(number) {
            self.port(number).is_member = true;
        } else {
            // Another place was free before its own.
            self.switch.leave(joined.expect("a place"));
        }
    }

    /// A packet leaves a port. The switch is not called.
    fn depart(&self, number: u16, len: u32) {
        let departures = self.switch.departures(number);
        departures.expect("it has a member").count(len);
    }

    fn reserved(&self, number: u16) -> Vec<u32> {
        let here = self.air.iter().filter(|it| it.port == number);
        here.map(|it| it.len).collect()
    }

    fn all(&self) -> u64 {
        let waiting: u64 = self.ports.iter().map(Port::waiting).sum();
        let air: u64 = self.air.iter().map(|it| u64::from(it.len)).sum();
        waiting + air
    }

    /// The reason why a port has no room for another `len` bytes.
    fn lacks(&self, number: u16, len: u32, with_share: bool) -> Option<Reason> {
        let port = &self.ports[usize::from(number)];
        let Config {
            limit,
            limit_bytes,
            share,
            alpha,
            ..
        } = port.config;
        let reserved = self.reserved(number);
        let packets = port.queue.len() + reserved.len();
        let bytes = port.waiting() + reserved.iter().map(|&len| u64::from(len)).sum::<u64>();
        let with = bytes + u64::from(len);
        if limit != 0 && packets >= limit as usize {
            return Some(Reason::Limit);
        }
        if limit_bytes != 0 && with > u64::from(limit_bytes) {
            return Some(Reason::Bytes);
        }
        if with_share && share != 0 {
            let free = u64::from(share).saturating_sub(self.all());
            let most = free * u64::from(alpha) / u64::from(ALPHA_1);
            if self.all() + u64::from(len) > u64::from(share) || alpha != 0 && with > most {
                // A threshold that no port can have reached, as the switch holds little.
                let parts = u64::from(ALPHA_1 + alpha);
                let plenty = match alpha {
                    0 => u64::from(share),
                    _ => u64::from(share) * u64::from(alpha) / parts,
                };
                if self.all() + u64::from(len) > plenty {
                    return Some(Reason::Share);
                }
            }
        }
        None
    }

    /// The ports to which a packet of this port may be detoured.
    fn candidates(&self, own: u16, len: u32) -> Vec<u16> {
        let may = |&number: &u16| {
            let port = &self.ports[usize::from(number)];
            number != own
                && port.is_member
                && port.has_carrier
                && port.config.detour_to
                && self.lacks(number, len, true).is_none()
        };
        (0..PORTS).filter(may).collect()
    }

    fn arrive(&mut self, number: u16, arrival: &Arrival) -> Decision {
        let carriers: Vec<_> = self.ports.iter().map(|port| port.has_carrier).collect();
        let takes = |device: u32| carriers[device as usize - 1];
        if !arrival.carried && self.switch.admit(number, arrival.len) {
            return Decision::Queue { mark: false };
        }
        self.switch.arrive(number, arrival, takes)
    }

    fn inside(&self, port: u16) -> u64 {
        let bytes = self.ports[usize::from(port)].waiting();
        bytes
            + self
                .reserved(port)
                .iter()
                .map(|&len| u64::from(len))
                .sum::<u64>()
    }

    /// A packet arrives, and the switch makes an allowed decision. `place`: it just had one there.
    fn judge(&mut self, number: u16, arrival: &Arrival, place: bool) {
        let lacks = self.lacks(number, arrival.len, !place);
        let candidates = self.candidates(number, arrival.len);
        let waiting = self.port(number).queue.len();
        let Config { mark, policy, .. } = self.port(number).config;
        let loads: BTreeMap<u16, u64> = candidates
            .iter()
            .map(|&port| (port, self.inside(port)))
            .collect();
        let decision = self.arrive(number, arrival);
        let capable = arrival.ecn == Ecn::Capable;
        match decision {
            Decision::Queue { mark: marked } => {
                assert_eq!(lacks, None, "no more than it may");
                assert_eq!(marked, capable && mark != 0 && waiting >= mark as usize);
                self.port(number).queue.push(arrival.len);
            }
            Decision::Detour {
                port,
                mark: marked,
                reason,
            } => {
                assert_eq!(arrival.reach, Reach::Routed);
                assert_ne!(policy, Policy::Off);
                assert!(candidates.contains(&port), "{port} of {candidates:?}");
                assert_eq!(marked, capable, "each that is detoured");
                match lacks {
                    Some(lacks) => assert_eq!(reason, lacks),
                    None => {
                        assert_eq!(
                            (policy, reason),
                            (Policy::Probabilistic, Reason::Early),
                            "{number} {arrival:?} {place}"
                        );
                        assert!(!place, "a packet that was detoured has arrived");
                    }
                }
                if policy == Policy::LoadAware {
                    assert_eq!(loads.get(&port), loads.values().min(), "{loads:?}");
                }
                if policy == Policy::Flow {
                    let key = (arrival.flow, candidates);
                    assert_eq!(*self.flows.entry(key).or_insert(port), port, "consistent");
                }
                self.air.push(Detoured {
                    len: arrival.len,
                    port,
                });
            }
            Decision::Drop(cause) => {
                assert!(lacks.is_some(), "it has room");
                let expected = match (policy, arrival.reach) {
                    (Policy::Off, _) => Cause::Off,
                    (_, Reach::Link) => Cause::Link,
                    (_, Reach::Expires) => Cause::Ttl,
                    (_, Reach::Routed) => Cause::Full,
                };
                assert_eq!(cause, expected);
                if cause == Cause::Full {
                    assert_eq!(candidates, [], "dropped, and there is room");
                }
            }
        }
    }

    /// The first packet on its way is about to be carried; `None` if it is dropped.
    fn embark(&mut self) -> Option<Detoured> {
        let Detoured { len, port } = *self.air.first()?;
        let target = &self.ports[usize::from(port)];
        let over = target.config.limit as usize;
        let packets = target.queue.len() + self.reserved(port).len();
        let stays = target.is_member
            && target.has_carrier
            && target.config.detour_to
            && (over == 0 || packets <= over);
        let carriers: Vec<_> = self.ports.iter().map(|port| port.has_carrier).collect();
        let device = self
            .switch
            .embark(port, len, |device| carriers[device as usize - 1]);
        self.air.remove(0);
        let others = self.candidates(port, len);
        let by = device.map(|device| device as u16 - 1);
        match by {
            Some(by) if stays => assert_eq!(by, port),
            Some(by) => assert!(others.contains(&by), "{by} of {others:?}"),
            None => assert!(!stays && others.is_empty(), "lost, and there is room"),
        }
        by.map(|port| Detoured { len, port })
    }

    fn carry(&mut self, taken: bool, before: Option<&Arrival>) {
        let Some(carried) = self.embark() else {
            return;
        };
        if let Some(other) = before {
            // It still has its place.
            self.air.push(carried);
            if self.port(carried.port).is_member {
                self.judge(carried.port, other, false);
            }
            let at = self.air.iter().position(|it| *it == carried);
            self.air.remove(at.expect("it is on its way"));
        }
        if !taken {
            let arrival = Arrival {
                len: carried.len,
                rank: 3,
                flow: 1,
                ecn: Ecn::Capable,
                reach: Reach::Routed,
                carried: true,
            };
            self.judge(carried.port, &arrival, true);
        }
        self.switch.landed(true);
    }

    fn step(&mut self, operation: &Operation) {
        match *operation {
            Operation::Arrive(number, arrival) => {
                if self.port(number).is_member {
                    self.judge(number, &arrival, false);
                }
            }
            Operation::Send(number) => {
                if !self.port(number).queue.is_empty() {
                    let len = self.port(number).queue.remove(0);
                    self.depart(number, len);
                }
            }
            Operation::Carry { taken } => self.carry(taken, None),
            Operation::CarryLate(other) => self.carry(false, Some(&other)),
            Operation::Terms(number, options) => {
                if self.port(number).is_member {
                    self.port(number).config = config(&options);
                    self.port(number).options = options;
                    self.switch
                        .set_terms(number, &Terms::new(&config(&options)));
                    self.shrink(number);
                }
            }
            Operation::Carrier(number, has) => self.port(number).has_carrier = has,
            Operation::Join(number) => {
                if !self.port(number).is_member {
                    self.join(number);
                }
            }
            Operation::Leave(number) => {
                if self.port(number).is_member {
                    for len in std::mem::take(&mut self.port(number).queue) {
                        self.depart(number, len);
                    }
                    self.switch.leave(number);
                    self.port(number).is_member = false;
                }
            }
        }
    }

    /// Drops waiting packets until a port is within its limits, or only has packets on their way.
    fn shrink(&mut self, number: u16) {
        while self.switch.is_over(number) && !self.port(number).queue.is_empty() {
            let len = self.port(number).queue.remove(0);
            self.depart(number, len);
        }
    }

    fn check(&mut self) {
        // Settles as a dump does, only now and then, because packets leave meanwhile.
        self.steps += 1;
        if !self.steps.is_multiple_of(3) {
            return;
        }
        self.switch.settle_all();
        for (number, port) in (0..).zip(&self.ports) {
            let (waiting, coming) = self.switch.packets(number);
            assert_eq!(waiting as usize, port.queue.len());
            assert_eq!(coming as usize, self.reserved(number).len());
        }
        assert_eq!(self.switch.bytes(), self.all());
    }

    /// Everything leaves, and nothing remains.
    fn end(mut self) {
        while !self.air.is_empty() {
            self.carry(false, None);
            self.check();
        }
        for number in 0..PORTS {
            self.step(&Operation::Leave(number));
        }
        while !self.air.is_empty() {
            assert_eq!(self.embark(), None, "there is no port");
        }
        self.switch.settle_all();
        assert_eq!((self.switch.bytes(), self.switch.ports()), (0, 0));
    }
}
