// SPDX-License-Identifier: GPL-2.0-only

//! `swift` for TCP: a window that keeps the round-trip time at a target.
//!
//! G. Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the
//! Datacenter", SIGCOMM 2020, §3 and Algorithm 1. The law is in `law`; this file connects it to the
//! socket.
//!
//! # Differences from the paper, and their effect
//!
//! - The delay is the end-to-end one, from when a packet leaves the socket, in µs. It includes the
//!   host's own queue. The paper's endpoint window is left out.
//! - A window of less than one packet is one packet, and the socket paces: the next packet leaves a
//!   round-trip time divided by the window after the last one. The kernel does not pace the first
//!   ten packets of a connection.
//! - A window of several packets is not paced, and its fraction is not used.
//! - Linux detects and repairs losses (SACK, RACK, timeouts). The timeout is at
//!   least the route's `rto_min`, and doubles.
//! - Selectively acknowledged packets leave the window.
//! - The receiver is Linux's: the route determines whether it acknowledges each packet at once
//!   (`quickack 1`). Otherwise the delay of an ACK, up to 40 ms, counts as the fabric's.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(swift);

use crate::common::window::{Ack, LONGEST_TIMEOUT_US};
use crate::swift::law::{Params, Swift as Law, LARGEST, LARGEST_AI};
use kapi::{
    clock::now,
    congestion::{CongestionControl, Info, Registration, Socket},
    recovery::Recovery,
    settings::Setting,
    window,
};

module! {
    type: Registration<Swift>,
    name: "tcp_swift",
    authors: ["The weft developers"],
    description: "TCP with Swift's window",
    license: "GPL",
}

settings! {
    /// The settings of each network namespace. A connection keeps the values from when it was
    /// established.
    struct Sysctls in c"net/ipv4/tcp_swift" {
        base_target_us: Setting::new(Params::PAPER.base_target_us, 1..=LONGEST_TIMEOUT_US);
        hop_us: Setting::new(Params::PAPER.hop_us, 0..=LONGEST_TIMEOUT_US);
        hops: Setting::new(Params::PAPER.hops, 0..=255);
        fs_range_us: Setting::new(Params::PAPER.fs_range_us, 0..=LONGEST_TIMEOUT_US);
        fs_min_milli: Setting::new(Params::PAPER.fs_min_milli, 1..=1_000_000);
        fs_max: Setting::new(Params::PAPER.fs_max, 1..=LARGEST);
        ai_milli: Setting::new(Params::PAPER.ai_milli, 1..=LARGEST_AI);
        beta_milli: Setting::new(Params::PAPER.beta_milli, 1..=1_000);
        max_mdf_milli: Setting::new(Params::PAPER.max_mdf_milli, 1..=1_000);
        init_cwnd: Setting::new(Params::PAPER.initial, 1..=LARGEST);
        min_cwnd_milli: Setting::new(Params::PAPER.min_milli, 1..=1_000);
        max_cwnd: Setting::new(Params::PAPER.max, 1..=LARGEST);
    }
}

/// A flow.
#[derive(Clone, Copy)]
struct Swift {
    law: Law,
    recovery: Recovery,
}

impl Swift {
    /// Applies the window, and the rate of one below a packet, to the socket.
    fn apply(&self, socket: &mut Socket<'_>) {
        window::without_slow_start(socket, self.law.packets());
        match self.law.pacing(socket.mss()) {
            Some(rate) => socket.pace(rate),
            None => socket.unpace(),
        }
    }
}

#[vtable]
impl CongestionControl for Swift {
    const NAME: &'static str = "swift";

    type Settings = Sysctls;

    type Shared = ();

    fn new(socket: &mut Socket<'_>) -> Self {
        let law = Law::new(Params {
            base_target_us: Sysctls::base_target_us(socket),
            hop_us: Sysctls::hop_us(socket),
            hops: Sysctls::hops(socket),
            fs_range_us: Sysctls::fs_range_us(socket),
            fs_min_milli: Sysctls::fs_min_milli(socket),
            fs_max: Sysctls::fs_max(socket),
            ai_milli: Sysctls::ai_milli(socket),
            beta_milli: Sysctls::beta_milli(socket),
            max_mdf_milli: Sysctls::max_mdf_milli(socket),
            initial: Sysctls::init_cwnd(socket),
            min_milli: Sysctls::min_cwnd_milli(socket),
            max: Sysctls::max_cwnd(socket),
        });
        let new = Self {
            law,
            recovery: Recovery::default(),
        };
        new.apply(socket);
        new
    }

    fn delivered(&mut self, socket: &mut Socket<'_>, ack: Ack) {
        self.law.on_ack(ack, now());
        self.apply(socket);
    }

    fn timeout(&mut self, socket: &mut Socket<'_>) {
        // A closed peer window is not caused by the fabric.
        if !socket.peer_window_closed() {
            self.law.on_timeout(now());
        }
        self.apply(socket);
    }

    /// The window follows with the ACK that caused the change: `delivered` comes next.
    fn set_state(&mut self, _socket: &mut Socket<'_>, state: u8) {
        if self.recovery.begins(state) {
            self.law.on_fast_recovery(now());
        }
    }

    fn info(&self) -> Info {
        let target_us = self.law.target_ns() / 1_000;
        let thousandths = (self.law.window() >> 10).saturating_mul(1_000) >> 10;
        Info {
            state: self.law.timeouts().into(),
            numbers: [
                self.law.delay_us(),
                u32::try_from(target_us).unwrap_or(u32::MAX),
                thousandths as u32,
            ],
        }
    }
}
