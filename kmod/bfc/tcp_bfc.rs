// SPDX-License-Identifier: GPL-2.0-only

//! `bfc` for TCP: the window of a BFC host.
//!
//! P. Goyal et al., "Backpressure Flow Control", NSDI 2022, Appendix A.1 (Algorithm 1), §5
//! "Incremental Deployment" and Appendix A.8. The law is in `window`; this file connects it to the
//! socket.
//!
//! # Differences from the paper, and their effect
//!
//! - The window and the RTT include the host's own queue, which a socket fills as soon as its
//!   window allows: a flow that is paused at its own port counts the packets waiting there. The
//!   paper's NICs take a packet from a flow when the wire is free.
//! - Selectively acknowledged packets leave the window.
//! - An ACK samples the RTT of the last packet that it acknowledges, in µs. A retransmitted packet
//!   gives no sample, and the window then stays (Karn's algorithm).
//! - Linux detects and repairs losses, and never reduces the window for them; only a timeout does.
//!   The paper's hosts go back N; it does not mention their window.
//! - The receiver is Linux's: the route determines whether it acknowledges each packet at once
//!   (`quickack 1`). Otherwise the delay of an ACK, up to 40 ms, counts as the fabric's.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(bfc);

use crate::bfc::window::{Params, Phase, Window, LARGEST};
use crate::common::window::{Ack, LONGEST_TIMEOUT_US};
use kapi::{
    congestion::{CongestionControl, Info, Registration, Socket},
    settings::Setting,
    window,
};

module! {
    type: Registration<Bfc>,
    name: "tcp_bfc",
    authors: ["The weft developers"],
    description: "TCP with the window of a BFC host",
    license: "GPL",
}

settings! {
    /// The settings of each network namespace. A connection keeps the values from when it was
    /// established.
    struct Sysctls in c"net/ipv4/tcp_bfc" {
        bdp: Setting::new(Params::PAPER.bdp, 1..=LARGEST);
        rtt_target_us: Setting::new(Params::PAPER.rtt_target_us, 0..=LONGEST_TIMEOUT_US);
    }
}

/// A flow.
#[derive(Clone, Copy)]
struct Bfc {
    window: Window,
    /// The last RTT in µs; 0 if there was none.
    rtt_us: u32,
}

#[vtable]
impl CongestionControl for Bfc {
    const NAME: &'static str = "bfc";

    type Settings = Sysctls;

    type Shared = ();

    fn new(socket: &mut Socket<'_>) -> Self {
        let window = Window::new(Params {
            bdp: Sysctls::bdp(socket),
            rtt_target_us: Sysctls::rtt_target_us(socket),
        });
        let new = Self { window, rtt_us: 0 };
        socket.unpace();
        window::apply(&new.window, socket);
        new
    }

    fn delivered(&mut self, socket: &mut Socket<'_>, ack: Ack) {
        if let Some(rtt_us) = ack.rtt_us {
            self.rtt_us = rtt_us.get();
        }
        window::on_ack(&mut self.window, socket, ack);
    }

    fn timeout(&mut self, socket: &mut Socket<'_>) {
        window::on_timeout(&mut self.window, socket);
    }

    fn info(&self) -> Info {
        Info {
            state: match self.window.phase() {
                Phase::Delay => 0,
                Phase::SlowStart => 1,
                Phase::Cap => 2,
            },
            numbers: [
                self.rtt_us,
                self.window.rtt_target_us(),
                self.window.timeouts(),
            ],
        }
    }
}
