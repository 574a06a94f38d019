// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `expresspass`, one file for each module, and a naive model of two hosts.

mod endpoint;
mod fabric;
mod flows;
mod limiter;
mod message;
mod naive;
mod options;
mod rate;
mod receiver;
mod segment;
mod sender;

use crate::common::shared::Peer;
use crate::common::tests::message as netlink;
use weft_mechanisms::expresspass::message::{Flow, Kind, Message};
use weft_mechanisms::expresspass::options::{Config, Options};

/// Flow number `number` from host 1 to host 2.
fn flow(number: u16) -> Flow {
    Flow {
        source: 0x0a00_0001,
        destination: 0x0a00_0002,
        source_port: 40_000 + number,
        destination_port: 80,
    }
}

/// The hosts' sockets.
const SENDER: Peer = Peer {
    address: 0x0a00_0001,
    port: 1023,
};
const RECEIVER: Peer = Peer {
    address: 0x0a00_0002,
    port: 1023,
};

/// 10 Gbit/s: 10^9 bytes in 0.8 s, so a frame and its credit take 1297.6 ns.
fn config(options: Options) -> Config {
    Config::new(&Options {
        rate: Some(1_250_000_000),
        ..options
    })
    .unwrap()
}

fn message(number: u16, kind: Kind) -> Message {
    Message {
        flow: flow(number),
        kind,
    }
}
