// SPDX-License-Identifier: GPL-2.0-only

//! `l2dct` for TCP: size-aware DCTCP.
//!
//! A. Munir et al., "Minimizing Flow Completion Times in Data Centers", INFOCOM 2013. The weight of
//! a flow is in `law`, α in `common/dctcp`. `kapi/dctcp` applies both to the socket at the points
//! where Linux's `dctcp` applies its own law. Slow start, loss recovery and the reaction to a mark
//! are the kernel's, so a flow whose packets are not marked behaves as with `dctcp` until its
//! weight falls.
//!
//! # Differences from Linux's dctcp
//!
//! - A connection without ECN keeps this congestion control, where `dctcp` switches to Reno's. Its
//!   packets cannot be marked, as with `dctcp`, and its growth still follows its weight.
//! - `ss` shows the weight and the number of reactions to a mark or a loss, in place of the last
//!   window's counts.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(l2dct);

use crate::l2dct::law::Law;
use kapi::{
    bindings::tcp_ca_event,
    congestion::{CongestionControl, Info, Registration, Socket},
    dctcp::DctcpSender,
    ecn::Arrival,
    round::Sent,
};

module! {
    type: Registration<L2Dct>,
    name: "tcp_l2dct",
    authors: ["The weft developers"],
    description: "TCP with L2DCT's congestion control",
    license: "GPL",
}

/// A flow.
#[derive(Clone, Copy)]
struct L2Dct {
    dctcp: DctcpSender,
    law: Law,
    sent: Sent,
}

impl L2Dct {
    /// Counts the bytes sent since the last call.
    fn count_sent(&mut self, socket: &Socket<'_>) {
        self.law.sent(self.sent.bytes(socket));
    }
}

#[vtable]
impl CongestionControl for L2Dct {
    const NAME: &'static str = "l2dct";
    const ECN: bool = true;

    type Settings = ();

    type Shared = ();

    fn new(socket: &mut Socket<'_>) -> Self {
        Self {
            dctcp: DctcpSender::new(socket),
            law: Law::new(),
            sent: Sent::new(socket),
        }
    }

    fn in_ack_event(&mut self, socket: &mut Socket<'_>) {
        self.count_sent(socket);
        if socket.all_acked() {
            self.law.end();
        }
        self.dctcp.in_ack_event(socket);
    }

    /// In slow start each packet counts. Of an acknowledgement that ends slow start, the packets
    /// that Reno has left over for congestion avoidance count in full.
    fn cong_avoid(&mut self, socket: &mut Socket<'_>, ack: u32, acked: u32) {
        let counted = if socket.snd_cwnd() < socket.snd_ssthresh() {
            acked
        } else {
            self.law.counted(acked)
        };
        socket.reno_cong_avoid(ack, counted);
    }

    fn ssthresh(&mut self, socket: &mut Socket<'_>) -> u32 {
        self.count_sent(socket);
        self.dctcp.ssthresh(socket, self.law.weight())
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
                self.law.weight(),
                self.dctcp.reductions(),
            ],
        }
    }
}
