// SPDX-License-Identifier: MIT OR Apache-2.0

//! What endpoints and the arbiter tell each other: what it takes of the arbiter's processor, and of
//! their links.
//!
//! Endpoints ask as in the other tables, but say it in the protocol, once in the time of a batch as
//! the qdisc does. Datagrams are handed over in memory: what a socket costs is the kernel's.

use std::net::{Ipv4Addr, SocketAddrV4};

use serde::Serialize;
use weft_arbiter::service::{Secret, Service, Settings};
use weft_mechanisms::common::on_wire;
use weft_mechanisms::fastpass::address::Addresses;
use weft_mechanisms::fastpass::endpoint::Endpoint;
use weft_mechanisms::fastpass::frame::MAX_SIZE;
use weft_mechanisms::fastpass::options::{DEFAULT_MPU, DEFAULT_OVERHEAD};
use weft_mechanisms::heap::Heap;

use crate::Options;
use crate::authors::{HOSTS, RACKS};
use crate::demands::{self, Request};
use crate::measure::{Row, TURNS, now};
use crate::pipeline;

/// Of a full frame at 10 Gbit/s, in ns.
const TIMESLOT: u64 = 1231;
/// What it carries, in bytes.
const FRAME: u64 = 1538;
/// What a datagram has around it besides what Ethernet has around a frame: UDP, IP, Ethernet.
const HEADERS: u32 = 8 + 20 + 14;
/// Timeslots of a batch, as in the scheme.
const BATCH: usize = 16;
/// Until what was not acknowledged is said again, in ns.
const TIMEOUT: u64 = 200_000;

/// What is said for a timeslot, on average.
#[derive(Serialize)]
pub(crate) struct Control {
    pub(crate) setting: String,
    /// Datagrams that the arbiter hears.
    pub(crate) heard: f64,
    /// And those that it sends.
    pub(crate) said: f64,
    /// Bytes that both take of links, in % of those of the packets that are allocated.
    pub(crate) share: f64,
}

struct Datagram {
    endpoint: u16,
    len: usize,
    bytes: [u8; MAX_SIZE],
}

impl Datagram {
    fn wire_bytes(&self) -> u64 {
        on_wire::bytes(self.len as u32 + HEADERS, 1, DEFAULT_OVERHEAD, DEFAULT_MPU)
    }
}

/// Counts of what went by.
#[derive(Clone, Copy, Default)]
struct Counts {
    heard: usize,
    said: usize,
    bytes: u64,
    packets: usize,
}

struct World {
    addresses: Addresses,
    service: Service,
    endpoints: Vec<Endpoint<Heap>>,
    now: u64,
    heard: Vec<Datagram>,
    said: Vec<Datagram>,
    counts: Counts,
}

impl World {
    fn new(seed: u64) -> Self {
        let settings = Settings {
            timeslot: TIMESLOT,
            lead: 2 * BATCH as u64 * TIMESLOT,
            timeout: TIMEOUT,
            ..pipeline::settings(BATCH)
        };
        let mut random = demands::Random(seed);
        let count = (RACKS * HOSTS) as u16;
        let endpoints = (0..count).map(|id| {
            let Ok(endpoint) = Endpoint::new(id, count, random.next(), TIMEOUT);
            endpoint
        });
        Self {
            addresses: settings.addresses,
            endpoints: endpoints.collect(),
            service: Service::new(settings, Secret([seed, 1])).expect("valid"),
            now: TIMEOUT,
            heard: Vec::new(),
            said: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// The time of a batch: endpoints say what they want, and hear what they get. How long the
    /// arbiter's processor took, in ns.
    fn step(&mut self, requests: &[Vec<Request>]) -> f64 {
        for request in requests.iter().flatten() {
            let endpoint = &mut self.endpoints[usize::from(request.source)];
            endpoint.ask(request.destination, request.slots.into());
        }
        for endpoint in &mut self.endpoints {
            let mut bytes = [0; MAX_SIZE];
            while let Some(len) = endpoint.poll(self.now, &mut bytes) {
                let endpoint = endpoint.id();
                self.heard.push(Datagram {
                    endpoint,
                    len,
                    bytes,
                });
            }
        }
        let (addresses, said) = (self.addresses, &mut self.said);
        let begin = now();
        for datagram in &self.heard {
            let address = addresses.address(datagram.endpoint).expect("an endpoint's");
            let from = SocketAddrV4::new(Ipv4Addr::from(address), 700);
            let bytes = &datagram.bytes[..datagram.len];
            self.service.receive(self.now, from, bytes);
        }
        self.service.tick(self.now, |to, content| {
            let endpoint = addresses.endpoint((*to.ip()).into());
            let mut bytes = [0; MAX_SIZE];
            bytes[..content.len()].copy_from_slice(content);
            said.push(Datagram {
                endpoint: endpoint.expect("an endpoint"),
                len: content.len(),
                bytes,
            });
        });
        let time = now() - begin;
        let counts = &mut self.counts;
        counts.heard += self.heard.len();
        counts.said += self.said.len();
        let datagrams = self.heard.drain(..).map(|it| it.wire_bytes());
        counts.bytes += datagrams.sum::<u64>();
        for datagram in self.said.drain(..) {
            counts.bytes += datagram.wire_bytes();
            let bytes = &datagram.bytes[..datagram.len];
            let endpoint = &mut self.endpoints[usize::from(datagram.endpoint)];
            endpoint.receive(bytes, |_| counts.packets += 1);
        }
        self.now += BATCH as u64 * TIMESLOT;
        time
    }
}

/// At each load, with 256 endpoints: what the arbiter takes as a whole, and what is said.
pub(crate) fn measure(options: &Options) -> (Vec<Row>, Vec<Control>) {
    const NAME: &str = "sessions and both";
    let loads = options.load.iter();
    let measured = loads.filter(|_| NAME.contains(&options.only));
    measured.map(|load| at(options, *load, NAME)).unzip()
}

fn at(options: &Options, load: f64, name: &str) -> (Row, Control) {
    let nodes = RACKS * HOSTS;
    let whole = |timeslots: usize| timeslots.next_multiple_of(BATCH);
    let warm_up = whole(options.warm_up);
    let turn = whole(options.timeslots / (TURNS - 1));
    let requests = demands::draw(nodes, load, warm_up + TURNS * turn, options.seed);
    let (before, measured) = requests.split_at(warm_up + turn);
    let mut world = World::new(options.seed);
    for requests in before.chunks(BATCH) {
        world.step(requests);
    }
    world.counts = Counts::default();
    let turns = measured.chunks(turn).map(|requests| {
        let times = requests.chunks(BATCH).map(|requests| world.step(requests));
        times.sum()
    });
    let turns: Vec<f64> = turns.collect();
    let setting = format!("{nodes} endpoints, load {load}");
    let Counts {
        heard,
        said,
        bytes,
        packets,
    } = world.counts;
    let timeslots = (turn * turns.len()) as f64;
    let control = Control {
        setting: setting.clone(),
        heard: heard as f64 / timeslots,
        said: said as f64 / timeslots,
        share: 100.0 * bytes as f64 / (packets as u64 * FRAME) as f64,
    };
    (Row::new(&setting, name, turn, packets, &turns), control)
}
