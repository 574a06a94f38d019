// SPDX-License-Identifier: GPL-2.0-only

//! `d2tcp` for TCP: deadline-aware DCTCP.
//!
//! B. Vamanan, J. Hasan, T. N. Vijaykumar, "Deadline-Aware Datacenter TCP (D2TCP)", SIGCOMM 2012.
//! d is in `law`, α in `common/dctcp`. `kapi/dctcp` applies both to the socket at the points where
//! Linux's `dctcp` applies its own law. Growth, loss recovery and the reaction to a mark are the
//! kernel's, so a flow without a deadline behaves as with `dctcp`.
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

use crate::d2tcp::law::{imminence, Pace, Task};
use kapi::{
    bindings::tcp_ca_event,
    clock::now,
    congestion::{CongestionControl, Info, Registration, Socket},
    dctcp::DctcpSender,
    described::Described,
    ecn::Arrival,
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
    dctcp: DctcpSender,
    /// d of the last reduction, in 2^-10; 0 if there was none.
    imminence: u32,
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

#[vtable]
impl CongestionControl for D2Tcp {
    const NAME: &'static str = "d2tcp";
    const ECN: bool = true;

    type Settings = ();

    type Shared = ();

    fn new(socket: &mut Socket<'_>) -> Self {
        Self {
            dctcp: DctcpSender::new(socket),
            imminence: 0,
        }
    }

    fn in_ack_event(&mut self, socket: &mut Socket<'_>) {
        self.dctcp.in_ack_event(socket);
    }

    fn cong_avoid(&mut self, socket: &mut Socket<'_>, ack: u32, acked: u32) {
        socket.reno_cong_avoid(ack, acked);
    }

    fn ssthresh(&mut self, socket: &mut Socket<'_>) -> u32 {
        let pace = Pace {
            window: u64::from(socket.snd_cwnd()).wrapping_mul(socket.mss().into()),
            rtt_us: socket.smoothed_rtt_us(),
        };
        self.imminence = imminence(task(socket), pace);
        self.dctcp.ssthresh(socket, self.imminence)
    }

    fn set_state(&mut self, socket: &mut Socket<'_>, state: u8) {
        self.dctcp.set_state(socket, state);
    }

    fn cwnd_event(&mut self, socket: &mut Socket<'_>, event: tcp_ca_event) -> Option<Arrival> {
        self.dctcp.cwnd_event(socket, event)
    }

    fn undo_cwnd(&mut self, socket: &mut Socket<'_>) -> u32 {
        self.dctcp.undo_cwnd(socket)
    }

    fn info(&self) -> Info {
        Info {
            state: u16::from(self.dctcp.recovers()),
            numbers: [
                self.dctcp.alpha().into(),
                self.imminence,
                self.dctcp.reductions(),
            ],
        }
    }
}
