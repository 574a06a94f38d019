// SPDX-License-Identifier: GPL-2.0-only

//! `hpcc` for TCP: the window and the rate of an HPCC sender, exact and in PINT's form.
//!
//! Y. Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, §3 and Algorithm 1; R.
//! Ben Basat et al., "PINT: Probabilistic In-band Network Telemetry", SIGCOMM 2020. The law is in
//! `law`; this file connects it to the socket.
//!
//! Both ends need weft's eBPF programs, and switches `int` at their ports. With `--policy records`
//! acknowledgements bring the records of links, with `--policy echo` the utilisation of one.
//! Without them nothing arrives, and the flow keeps the rate of its link.
//!
//! # Differences from the paper, and their effect
//!
//! - The window is in packets, rounded up: the pacing rate decides within the last one. The kernel
//!   does not pace the first ten packets of a connection.
//! - Linux detects and repairs losses (SACK, RACK, timeouts), and losses leave the window. The
//!   paper's fabric is lossless, and its NICs go back N.
//! - The receiver is Linux's: with `quickack 1` of its route, each packet's utilisation comes back
//!   with an acknowledgement of its own. Otherwise an acknowledgement has the largest of several.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(hpcc);

use crate::common::{
    stamp,
    window::{Ack, LONGEST_TIMEOUT_US},
};
use crate::hpcc::law::{Hpcc as Law, Params};
use kapi::{
    congestion::{CongestionControl, Info, Registration, Socket},
    echo::Echoes,
    returned::{Pair, Returned},
    round::Trip,
    settings::Setting,
    window,
};

module! {
    type: Registration<Hpcc>,
    name: "tcp_hpcc",
    authors: ["The weft developers"],
    description: "TCP with HPCC's window",
    license: "GPL",
}

settings! {
    /// The settings of each network namespace. `packet_bytes` is read each time; of the others, and
    /// for the smallest window, a connection keeps the values from when it was established.
    struct Sysctls in c"net/ipv4/tcp_hpcc" {
        rate_kbit: Setting::new(Params::PAPER.rate_kbit, 1..=u32::MAX);
        packet_bytes: Setting::PACKET_BYTES;
        base_rtt_us: Setting::new(Params::PAPER.base_rtt_us, 1..=LONGEST_TIMEOUT_US);
        flows: Setting::new(Params::PAPER.flows, 1..=u32::MAX);
        eta_milli: Setting::new(Params::PAPER.eta_milli, 1..=1_000);
        max_stage: Setting::new(Params::PAPER.max_stage, 0..=255);
    }
}

/// A flow.
#[derive(Clone, Copy)]
struct Hpcc {
    law: Law,
    echoes: Echoes,
    returned: Returned,
    /// From the last update of the reference window on.
    trip: Trip,
}

impl Hpcc {
    /// The utilisation that an acknowledgement has brought, or that follows from its records; in
    /// 2^-20.
    fn utilisation(&mut self, socket: &Socket<'_>) -> Option<u32> {
        match self.returned.next(socket) {
            Some(Pair {
                now,
                before,
                elapsed,
            }) => self.law.measure(now.since(&before, elapsed)),
            None => self.echoes.next(socket).map(stamp::utilisation_of),
        }
    }

    /// Applies the window and its rate to the socket.
    fn apply(&self, socket: &mut Socket<'_>) {
        let packet = Sysctls::packet_bytes(socket);
        window::in_bytes(socket, self.law.window(), self.law.rate(), packet);
    }
}

#[vtable]
impl CongestionControl for Hpcc {
    const NAME: &'static str = "hpcc";

    type Settings = Sysctls;

    type Shared = ();

    fn new(socket: &mut Socket<'_>) -> Self {
        let law = Law::new(Params {
            rate_kbit: Sysctls::rate_kbit(socket),
            base_rtt_us: Sysctls::base_rtt_us(socket),
            flows: Sysctls::flows(socket),
            eta_milli: Sysctls::eta_milli(socket),
            max_stage: Sysctls::max_stage(socket),
            packet_bytes: Sysctls::packet_bytes(socket),
        });
        let new = Self {
            law,
            echoes: Echoes::new(socket),
            returned: Returned::new(socket),
            trip: Trip::new(socket),
        };
        new.apply(socket);
        new
    }

    fn delivered(&mut self, socket: &mut Socket<'_>, _ack: Ack) {
        if let Some(utilisation) = self.utilisation(socket) {
            let updates = self.trip.passed(socket);
            self.law.on_ack(utilisation, updates);
            if updates {
                self.trip = Trip::new(socket);
            }
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
            state: self.law.stage().into(),
            numbers: [
                self.law.utilisation_milli(),
                u32::try_from(kbit).unwrap_or(u32::MAX),
                self.echoes.count().wrapping_add(self.returned.count()),
            ],
        }
    }
}
