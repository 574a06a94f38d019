// SPDX-License-Identifier: GPL-2.0-only

//! `d2tcp` for TCP: deadline-aware DCTCP.
//!
//! B. Vamanan, J. Hasan, T. N. Vijaykumar, "Deadline-Aware Datacenter TCP (D2TCP)", SIGCOMM 2012.
//! The law is in `law`; this file applies it to the socket at the points where Linux's `dctcp`
//! applies its own. Growth, loss recovery and the reaction to a mark are the kernel's, so a flow
//! without a deadline behaves as with `dctcp`.
//!
//! # Differences from Linux's dctcp
//!
//! - A connection without ECN keeps this congestion control, where `dctcp` switches to Reno's:
//!   without marks the two behave the same. Its packets cannot be marked, as with `dctcp`.
//! - `ss` shows d and the number of reactions to a mark or a loss, in place of the last window's
//!   counts.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(d2tcp);

use crate::d2tcp::law::{imminence, Law, Pace, Task};
use kapi::{
    bindings::{tcp_ca_event, tcp_ca_event_CA_EVENT_LOSS},
    clock::now,
    congestion::{CongestionControl, Info, Registration, Socket},
    described::Described,
    ecn::{Arrival, Ecn},
    recovery::Recovery,
    round::Round,
};

module! {
    type: Registration<D2Tcp>,
    name: "tcp_d2tcp",
    authors: ["The weft developers"],
    description: "TCP with D2TCP's congestion control",
    license: "GPL",
}

/// A flow.
#[derive(Clone, Copy)]
struct D2Tcp {
    law: Law,
    ecn: Ecn,
    round: Round,
    /// d of the last reduction, in 2^-10; 0 if there was none.
    imminence: u32,
    reductions: u32,
    /// The window before the last loss.
    loss_window: u32,
    recovery: Recovery,
}

/// The flow's remaining work; `None` if it has no deadline.
fn task(socket: &Socket<'_>) -> Option<Task> {
    let Described {
        remaining,
        deadline,
        ..
    } = Described::of(socket);
    (deadline != 0).then(|| Task {
        remaining,
        left_ns: deadline.saturating_sub(now()),
    })
}

impl D2Tcp {
    /// A loss halves the window, whatever the deadline.
    fn lost(&mut self, socket: &mut Socket<'_>) {
        let window = socket.snd_cwnd();
        self.loss_window = window;
        socket.set_snd_ssthresh((window >> 1).max(2));
    }
}

#[vtable]
impl CongestionControl for D2Tcp {
    const NAME: &'static str = "d2tcp";
    const ECN: bool = true;

    type Settings = ();

    type Shared = ();

    fn new(socket: &mut Socket<'_>) -> Self {
        Self {
            law: Law::new(),
            ecn: Ecn::new(socket),
            round: Round::new(socket),
            imminence: 0,
            reductions: 0,
            loss_window: 0,
            recovery: Recovery::default(),
        }
    }

    fn in_ack_event(&mut self, socket: &mut Socket<'_>) {
        let marked = self.ecn.marked(socket);
        self.law.arrived(self.round.arrived(socket), marked);
        if self.round.over(socket) {
            self.law.round();
        }
    }

    fn cong_avoid(&mut self, socket: &mut Socket<'_>, ack: u32, acked: u32) {
        socket.reno_cong_avoid(ack, acked);
    }

    /// The kernel has seen a mark, or a loss, which it reports afterwards.
    fn ssthresh(&mut self, socket: &mut Socket<'_>) -> u32 {
        let window = socket.snd_cwnd();
        self.loss_window = window;
        let pace = Pace {
            window: u64::from(window).wrapping_mul(socket.mss().into()),
            rtt_us: socket.smoothed_rtt_us(),
        };
        self.imminence = imminence(task(socket), pace);
        self.reductions = self.reductions.saturating_add(1);
        self.law.reduced(window, self.imminence)
    }

    fn set_state(&mut self, socket: &mut Socket<'_>, state: u8) {
        if self.recovery.begins(state) {
            self.lost(socket);
        }
    }

    fn cwnd_event(&mut self, socket: &mut Socket<'_>, event: tcp_ca_event) -> Option<Arrival> {
        if event == tcp_ca_event_CA_EVENT_LOSS {
            self.lost(socket);
        }
        self.ecn.cwnd_event(socket, event)
    }

    fn undo_cwnd(&mut self, socket: &mut Socket<'_>) -> u32 {
        socket.snd_cwnd().max(self.loss_window)
    }

    fn info(&self) -> Info {
        Info {
            state: u16::from(self.recovery.is_on()),
            numbers: [self.law.alpha().into(), self.imminence, self.reductions],
        }
    }
}
