// SPDX-License-Identifier: GPL-2.0-only

//! `timely` for TCP: the rate of a TIMELY sender.
//!
//! R. Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter", SIGCOMM 2015, §4
//! and Algorithm 1. The law is in `rate`; this file connects it to the socket, which paces its
//! packets at the law's rate.
//!
//! # Differences from the paper, and their effect
//!
//! - The round-trip time is TCP's, in µs, from when a packet leaves the socket. It includes the
//!   host's own queue.
//! - Packets are paced, not segments, so there are no bursts. The kernel does not pace the first
//!   ten packets of a connection, and lets a packet that is late be followed sooner.
//! - The window is a large constant: rates decide.
//! - Linux detects and repairs losses (SACK, RACK, timeouts), and losses leave the rate.
//! - The receiver is Linux's: the route determines whether it acknowledges each packet at once
//!   (`quickack 1`). Otherwise the delay of an ACK, up to 40 ms, counts as the fabric's.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(timely);

use crate::common::window::{Ack, LONGEST_TIMEOUT_US};
use crate::timely::rate::{Params, Phase, Rate};
use kapi::{
    congestion::{CongestionControl, Info, Registration, Socket},
    settings::Setting,
    window,
};

module! {
    type: Registration<Timely>,
    name: "tcp_timely",
    authors: ["The weft developers"],
    description: "TCP with TIMELY's rate control",
    license: "GPL",
}

settings! {
    /// The settings of each network namespace. `packet_bytes` and `cwnd` are read each time; of the
    /// others, a connection keeps the values from when it was established.
    struct Sysctls in c"net/ipv4/tcp_timely" {
        rate_kbit: Setting::new(Params::PAPER.line_kbit, 1..=u32::MAX);
        packet_bytes: Setting::PACKET_BYTES;
        cwnd: Setting::CWND;
        t_low_us: Setting::new(Params::PAPER.t_low_us, 0..=LONGEST_TIMEOUT_US);
        t_high_us: Setting::new(Params::PAPER.t_high_us, 1..=LONGEST_TIMEOUT_US);
        min_rtt_us: Setting::new(Params::PAPER.min_rtt_us, 1..=LONGEST_TIMEOUT_US);
        delta_kbit: Setting::new(Params::PAPER.delta_kbit, 1..=u32::MAX);
        alpha_milli: Setting::new(Params::PAPER.alpha_milli, 1..=1_000);
        beta_milli: Setting::new(Params::PAPER.beta_milli, 1..=1_000);
        segment_bytes: Setting::new(Params::PAPER.segment, 1..=1 << 24);
        min_kbit: Setting::new(Params::PAPER.least_kbit, 1..=u32::MAX);
    }
}

/// A flow.
#[derive(Clone, Copy)]
struct Timely {
    rate: Rate,
}

impl Timely {
    /// Applies the rate and the window to the socket.
    fn apply(&self, socket: &mut Socket<'_>) {
        let packet = Sysctls::packet_bytes(socket);
        let window = Sysctls::cwnd(socket);
        window::at_rate(socket, self.rate.rate(), packet, window);
    }
}

#[vtable]
impl CongestionControl for Timely {
    const NAME: &'static str = "timely";

    type Settings = Sysctls;

    type Shared = ();

    fn new(socket: &mut Socket<'_>) -> Self {
        let rate = Rate::new(Params {
            line_kbit: Sysctls::rate_kbit(socket),
            least_kbit: Sysctls::min_kbit(socket),
            delta_kbit: Sysctls::delta_kbit(socket),
            t_low_us: Sysctls::t_low_us(socket),
            t_high_us: Sysctls::t_high_us(socket),
            min_rtt_us: Sysctls::min_rtt_us(socket),
            alpha_milli: Sysctls::alpha_milli(socket),
            beta_milli: Sysctls::beta_milli(socket),
            segment: Sysctls::segment_bytes(socket),
        });
        let new = Self { rate };
        new.apply(socket);
        new
    }

    fn delivered(&mut self, socket: &mut Socket<'_>, ack: Ack) {
        let bytes = u64::from(ack.packets).wrapping_mul(socket.mss().into());
        self.rate.on_ack(bytes, ack.rtt_us);
        self.apply(socket);
    }

    /// The window stays large; the kernel has reduced it.
    fn timeout(&mut self, socket: &mut Socket<'_>) {
        self.apply(socket);
    }

    fn info(&self) -> Info {
        let kbit = self.rate.rate().wrapping_div(1_000);
        Info {
            state: match self.rate.phase() {
                Phase::Low => 0,
                Phase::High => 1,
                Phase::Increase => 2,
                Phase::HyperIncrease => 3,
                Phase::Decrease => 4,
            },
            numbers: [
                self.rate.rtt_us(),
                u32::try_from(kbit).unwrap_or(u32::MAX),
                self.rate.gradient_milli(),
            ],
        }
    }
}
