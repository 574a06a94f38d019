// SPDX-License-Identifier: MIT OR Apache-2.0

//! The cost of a message at the arbitrators of a rack: parsing, arbitration, answer. All flows go
//! to one host, so one link carries all of them.

use std::hint::black_box;

use divan::Bencher;
use weft_mechanisms::common::xorshift::Xorshift32;
use weft_mechanisms::pase::Flow;
use weft_mechanisms::pase::message::{Message, PATH, Says};
use weft_pase::arbitrators::{Arbitrators, Peer, Rules};
use weft_pase::tree::Tree;
use weft_topo::Spec;

const FLOWS: [u32; 4] = [100, 1_000, 10_000, 100_000];
const HOSTS: u32 = 16;
/// 10 Gbit/s in bytes/s.
const LINE: u64 = 1_250_000_000;

fn main() {
    divan::main();
}

/// A rack's arbitrators with a given number of flows.
struct Rack {
    arbitrators: Arbitrators,
    to: [u8; 16],
    flows: u32,
    sequence: u64,
    random: Xorshift32,
}

impl Rack {
    fn new(flows: u32) -> Self {
        let spec: Spec = format!("rack:hosts={}", HOSTS + 1).parse().expect("a rack");
        let tree = Tree::new(&spec.topology());
        let to = tree.hosts[HOSTS as usize].addresses[0];
        let rules = Rules {
            lifetime_us: u32::MAX,
            ..Rules::default()
        };
        let mut rack = Self {
            arbitrators: Arbitrators::new(tree, 0, rules, 1, 7),
            to,
            flows,
            sequence: 0,
            random: Xorshift32::new(0x9E37_79B9),
        };
        for flow in 0..flows {
            let bytes = rack.ask(flow);
            rack.receive(flow, &bytes);
        }
        rack
    }

    fn any_flow(&mut self) -> u32 {
        self.random.below(self.flows)
    }

    /// A request of a flow with its remaining bytes.
    fn ask(&mut self, flow: u32) -> Vec<u8> {
        self.sequence += 1;
        let flow = Flow {
            id: u64::from(flow / HOSTS + 1),
            urgency: self.random.below(30_000_000).into(),
            demand: LINE,
        };
        self.message(Says::Ask { flow, to: self.to })
    }

    fn message(&self, says: Says) -> Vec<u8> {
        let message = Message {
            sequence: self.sequence,
            link: PATH,
            says,
        };
        message.encode().to_vec()
    }

    fn receive(&mut self, flow: u32, bytes: &[u8]) {
        let message = Message::decode(bytes).expect("a message");
        let peer = Peer::Host((flow % HOSTS) as usize);
        for (_, message) in self.arbitrators.receive(peer, &message, 0) {
            black_box(message.encode());
        }
    }
}

/// A flow reports its remaining bytes, as in each round-trip time.
#[divan::bench(args = FLOWS, sample_size = 1000)]
fn a_flow_asks_again(bencher: Bencher<'_, '_>, flows: u32) {
    let mut rack = Rack::new(flows);
    bencher.bench_local(|| {
        let flow = rack.any_flow();
        let bytes = rack.ask(flow);
        rack.receive(flow, &bytes);
    });
}

/// A flow ends, and another one begins: two messages.
#[divan::bench(args = FLOWS, sample_size = 1000)]
fn a_flow_ends_and_one_begins(bencher: Bencher<'_, '_>, flows: u32) {
    let mut rack = Rack::new(flows);
    bencher.bench_local(|| {
        let flow = rack.any_flow();
        rack.sequence += 1;
        let end = rack.message(Says::End(u64::from(flow / HOSTS + 1)));
        rack.receive(flow, &end);
        let ask = rack.ask(flow);
        rack.receive(flow, &ask);
    });
}

/// A pass over all flows, none of which has expired. It happens four times per lifetime.
#[divan::bench(args = FLOWS)]
fn a_look_for_what_is_to_be_forgotten(bencher: Bencher<'_, '_>, flows: u32) {
    let mut rack = Rack::new(flows);
    bencher.bench_local(|| rack.arbitrators.expire(black_box(1), usize::MAX));
}
