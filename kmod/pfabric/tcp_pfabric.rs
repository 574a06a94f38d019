// SPDX-License-Identifier: GPL-2.0-only

//! `pfabric` for TCP: the rate control of a pFabric host.
//!
//! M. Alizadeh et al., "pFabric: Minimal Near-Optimal Datacenter Transport", SIGCOMM 2013, §4.2.
//! The law is in `rate`; `kapi::timeout_only` makes a timeout the only sign of loss. This file
//! connects them to the socket.
//!
//! # Differences from the paper, and their effect
//!
//! - The timeout is an odd number of jiffies: at 250 jiffies a second at best 12 ms, where the
//!   paper has 45 µs. On a fabric slowed 1000 times it is 44 ms for 45 ms, and the first one after
//!   progress comes after 40 to 44 ms. (§5.4.3 finds little difference from 45 to 300 µs.)
//! - It counts from the last packet that was acknowledged cumulatively, as in RFC 6298, not from
//!   when the packet was sent.
//! - Selectively acknowledged packets leave the window, so a flow with a gap continues to send
//!   until its timeout, at most `max_cwnd` at a time (§4.3: a flow "retransmits the packet (or
//!   sends a different packet from that flow)").
//! - A probe's byte is the first of its packet, which is then split into two packets, a byte and
//!   the rest. Including headers, a probe has 67 bytes on Ethernet (IPv4, timestamps), 75 with
//!   weft's tag; the paper's smallest packet has 64.
//! - The handshake is Linux's: its packets time out after 1 s, twice that, and so on. So is giving
//!   up, which Linux does by time (`tcp_retries2`, 924.6 s by default).
//! - A packet that the host's own queue refuses is not lost but stays with the flow: it is retried
//!   at once, if it is a new one, and after a timeout.
//! - The receiver is Linux's: the route determines whether it acknowledges each packet at once
//!   (`quickack 1`). Otherwise the ACK of a last packet can take 40 ms and cause a timeout.
//! - A receiver that drops data which it has acknowledged selectively (because it was out of
//!   memory) is answered half a round-trip time later, at least 10 ms, as if that were the timeout.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(pfabric);

use crate::common::window::{Ack, Resend, LONGEST_TIMEOUT_US};
use crate::pfabric::rate::{Params, Phase, RateControl};
use kapi::{
    congestion::{CongestionControl, Info, Registration, Socket},
    settings::Setting,
    timeout_only::TimeoutOnly,
    window,
};

module! {
    type: Registration<PFabric>,
    name: "tcp_pfabric",
    authors: ["The weft developers"],
    description: "TCP with pFabric's rate control",
    license: "GPL",
}

/// A window of this many packets fills a wire of 400 Gbit/s and 1.9 ms.
const MOST_PACKETS: u32 = 65_535;

settings! {
    /// The settings of each network namespace. A connection keeps the values from when it was
    /// established.
    struct Sysctls in c"net/ipv4/tcp_pfabric" {
        init_cwnd: Setting::new(Params::PAPER.initial_window, 1..=MOST_PACKETS);
        max_cwnd: Setting::new(Params::PAPER.max_window, 1..=MOST_PACKETS);
        // "Around 45 µs in our simulations": the smallest timeout that timers allow.
        rto_us: Setting::new(45, 1..=LONGEST_TIMEOUT_US);
        probe_threshold: Setting::new(Params::PAPER.probe_threshold, 0..=255);
    }
}

/// A flow.
#[derive(Clone, Copy)]
struct PFabric {
    rate: RateControl,
    recovery: TimeoutOnly,
}

#[vtable]
impl CongestionControl for PFabric {
    const NAME: &'static str = "pfabric";

    type Settings = Sysctls;

    type Shared = ();

    fn new(socket: &mut Socket<'_>) -> Self {
        let rate = RateControl::new(Params {
            initial_window: Sysctls::init_cwnd(socket),
            max_window: Sysctls::max_cwnd(socket),
            probe_threshold: Sysctls::probe_threshold(socket),
        });
        let timeout_us = Sysctls::rto_us(socket);
        let new = Self {
            rate,
            recovery: TimeoutOnly::new(socket, timeout_us),
        };
        window::apply(&new.rate, socket);
        new
    }

    fn in_ack_event(&mut self, socket: &mut Socket<'_>) {
        self.recovery.in_ack_event(socket);
    }

    fn delivered(&mut self, socket: &mut Socket<'_>, ack: Ack) {
        let packets = self.recovery.delivered(socket);
        window::on_ack(&mut self.rate, socket, Ack { packets, ..ack });
    }

    fn before_transmit(&mut self, socket: &mut Socket<'_>) {
        self.recovery.before_transmit(socket);
    }

    fn transmit_start(&mut self, socket: &mut Socket<'_>) {
        self.recovery.transmit_start(socket);
    }

    fn timeout(&mut self, socket: &mut Socket<'_>) {
        let resend = window::on_timeout(&mut self.rate, socket);
        self.recovery.on_timeout(socket, resend == Resend::Probe);
    }

    fn info(&self) -> Info {
        Info {
            state: match self.rate.phase() {
                Phase::AdditiveIncrease => 0,
                Phase::SlowStart => 1,
                Phase::Probe => 2,
            },
            numbers: [
                self.rate.timeouts_in_a_row(),
                self.rate.timeouts(),
                self.rate.probes(),
            ],
        }
    }

    fn release(&mut self, socket: &mut Socket<'_>) {
        self.recovery.release(socket);
    }
}
