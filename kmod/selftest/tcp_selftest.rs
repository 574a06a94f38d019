// SPDX-License-Identifier: GPL-2.0-only

//! `selftest`: Reno through the safe congestion control interface, for tests only.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};

use kapi::congestion::{CongestionControl, Registration, Socket};

module! {
    type: Registration<Reno>,
    name: "tcp_selftest",
    authors: ["The weft developers"],
    description: "Reno through weft's congestion control interface, for tests",
    license: "GPL",
}

/// The whole of a flow's room in the socket but kapi's mark, so that a field the kernel puts
/// elsewhere shows.
#[derive(Clone, Copy)]
struct Reno {
    acked: [u64; 12],
}

#[vtable]
impl CongestionControl for Reno {
    const NAME: &'static str = "selftest";

    type Settings = ();

    type Shared = ();

    fn new(_socket: &mut Socket<'_>) -> Self {
        Self { acked: [0; 12] }
    }

    fn cong_avoid(&mut self, socket: &mut Socket<'_>, ack: u32, acked: u32) {
        if let Some(last) = self.acked.last_mut() {
            *last = last.wrapping_add(acked.into());
        }
        socket.reno_cong_avoid(ack, acked);
    }

    fn ssthresh(&mut self, socket: &mut Socket<'_>) -> u32 {
        socket.reno_ssthresh()
    }

    fn undo_cwnd(&mut self, socket: &mut Socket<'_>) -> u32 {
        socket.reno_undo_cwnd()
    }
}
