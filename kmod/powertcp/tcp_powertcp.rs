// SPDX-License-Identifier: GPL-2.0-only

//! `powertcp` for TCP: the window and the rate of a PowerTCP sender, or of a θ-PowerTCP sender.
//!
//! V. Addanki et al., "PowerTCP: Pushing the Performance Limits of Datacenter Networks", NSDI 2022,
//! §3, Algorithms 1 and 2. The law is in `law`; this file connects it to the socket.
//!
//! PowerTCP (setting `records`) needs weft's eBPF programs with `--policy records` at both ends,
//! and `int` at the ports of switches. Without them no records arrive, and the flow keeps the rate
//! of its link. θ-PowerTCP needs nothing.
//!
//! # Differences from the paper, and their effect
//!
//! - The round-trip time is TCP's, in µs, from when a packet leaves the socket. It includes the
//!   host's own queue.
//! - The window is in packets, rounded up: the pacing rate decides within the last one. The kernel
//!   does not pace the first ten packets of a connection.
//! - Linux detects and repairs losses (SACK, RACK, timeouts), and losses leave the window.
//! - The receiver is Linux's: the route determines whether it acknowledges each packet at once
//!   (`quickack 1`). Otherwise the delay of an ACK, up to 40 ms, counts as the fabric's.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(powertcp);

use crate::common::window::{Ack, LONGEST_TIMEOUT_US};
use crate::powertcp::law::{Params, PowerTcp as Law};
use kapi::{
    clock::now,
    congestion::{CongestionControl, Info, Registration, Socket},
    returned::Returned,
    round::Trip,
    settings::Setting,
    window,
};

module! {
    type: Registration<PowerTcp>,
    name: "tcp_powertcp",
    authors: ["The weft developers"],
    description: "TCP with the window of theta-PowerTCP",
    license: "GPL",
}

settings! {
    /// The settings of each network namespace. `packet_bytes` is read each time; of the others, and
    /// for the smallest window, a connection keeps the values from when it was established.
    struct Sysctls in c"net/ipv4/tcp_powertcp" {
        rate_kbit: Setting::new(Params::PAPER.rate_kbit, 1..=u32::MAX);
        packet_bytes: Setting::PACKET_BYTES;
        base_rtt_us: Setting::new(Params::PAPER.base_rtt_us, 1..=LONGEST_TIMEOUT_US);
        flows: Setting::new(Params::PAPER.flows, 1..=u32::MAX);
        gamma_milli: Setting::new(Params::PAPER.gamma_milli, 1..=1_000);
        records: Setting::new(0, 0..=1);
    }
}

/// A flow.
#[derive(Clone, Copy)]
struct PowerTcp {
    law: Law,
    returned: Returned,
    /// From the last update on.
    trip: Trip,
}

impl PowerTcp {
    /// Applies the window and its rate to the socket.
    fn apply(&self, socket: &mut Socket<'_>) {
        let packet = Sysctls::packet_bytes(socket);
        window::in_bytes(socket, self.law.window(), self.law.rate(), packet);
    }
}

#[vtable]
impl CongestionControl for PowerTcp {
    const NAME: &'static str = "powertcp";

    type Settings = Sysctls;

    type Shared = ();

    fn new(socket: &mut Socket<'_>) -> Self {
        let params = Params {
            rate_kbit: Sysctls::rate_kbit(socket),
            base_rtt_us: Sysctls::base_rtt_us(socket),
            flows: Sysctls::flows(socket),
            gamma_milli: Sysctls::gamma_milli(socket),
            packet_bytes: Sysctls::packet_bytes(socket),
        };
        let law = match Sysctls::records(socket) {
            0 => Law::new(params),
            _ => Law::with_records(params),
        };
        let new = Self {
            law,
            returned: Returned::new(socket),
            trip: Trip::new(socket),
        };
        new.apply(socket);
        new
    }

    fn delivered(&mut self, socket: &mut Socket<'_>, ack: Ack) {
        let updates = self.trip.passed(socket);
        let updated = if self.law.reads_records() {
            self.returned.next(socket).is_some_and(|pair| {
                let links = pair.now.since(&pair.before, pair.elapsed);
                self.law.on_records(links, updates)
            })
        } else {
            self.law.on_ack(ack.rtt_us, now(), updates)
        };
        if updated {
            self.trip = Trip::new(socket);
        }
        if socket.all_acked() {
            self.law.on_idle();
            self.trip = Trip::new(socket);
        }
        self.apply(socket);
    }

    /// The window stays; the kernel has reduced it.
    fn timeout(&mut self, socket: &mut Socket<'_>) {
        self.apply(socket);
    }

    fn info(&self) -> Info {
        let kbit = self.law.rate().wrapping_div(1_000);
        Info {
            state: 0,
            numbers: [
                self.law.rtt_us(),
                u32::try_from(kbit).unwrap_or(u32::MAX),
                self.law.power_milli(),
            ],
        }
    }
}
