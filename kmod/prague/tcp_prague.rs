// SPDX-License-Identifier: GPL-2.0-only

//! `prague` for TCP: the L4S sender.
//!
//! K. De Schepper et al., "Prague Congestion Control",
//! draft-briscoe-iccrg-prague-congestion-control. The law is in `law`; this file connects it to the
//! socket.
//!
//! # Differences from the draft, and their effect
//!
//! - Linux 7.2 sends ECT(1) only in the handshake, and ECT(0) in all later packets
//!   (`tcp_ecn_send()`). The port must classify by any ECT.
//! - Marks are counted by accurate ECN (RFC 9768). If the other end does not agree to it, packets
//!   cannot be marked, and only losses reduce the window.
//! - The kernel does not pace the first ten packets of a connection.
//! - Linux detects and repairs losses (SACK, RACK, timeouts). While it does, the window stays.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(prague);

use crate::common::window::Ack;
use crate::prague::law::{Prague as Law, LONGEST_US};
use kapi::{
    clock::now,
    congestion::{CongestionControl, Info, Registration, Socket},
    ecn::Ecn,
    recovery::Recovery,
    round::Trip,
    settings::Setting,
};

module! {
    type: Registration<Prague>,
    name: "tcp_prague",
    authors: ["The weft developers"],
    description: "TCP Prague, the L4S sender",
    license: "GPL",
}

settings! {
    /// The settings of each network namespace. A connection keeps the values from when it was
    /// established.
    struct Sysctls in c"net/ipv4/tcp_prague" {
        // None: the flows of a fabric have similar round-trip times.
        rtt_virt_us: Setting::new(0, 0..=LONGEST_US);
    }
}

/// The headers of a full packet with timestamps, which the pacing rate counts.
const HEADERS: u32 = 52;

/// A flow.
#[derive(Clone, Copy)]
struct Prague {
    law: Law,
    ecn: Ecn,
    /// The round trip over which α is averaged.
    round: Trip,
    /// The round trip after a reduction by a mark.
    reduced: Trip,
    /// That round trip is over.
    reduced_over: bool,
    recovery: Recovery,
}

impl Prague {
    /// Applies the window, the threshold and the pacing rate to the socket.
    fn apply(&self, socket: &mut Socket<'_>) {
        socket.set_snd_cwnd(self.law.packets());
        socket.set_snd_ssthresh(self.law.threshold());
        match socket.smoothed_rtt_us() {
            // Before the first measurement there is no rate.
            0 => socket.unpace(),
            rtt_us => {
                let packet = socket.mss().saturating_add(HEADERS);
                socket.pace(self.law.pacing(packet, rtt_us));
            }
        }
    }
}

#[vtable]
impl CongestionControl for Prague {
    const NAME: &'static str = "prague";
    const ECN: bool = true;
    const ACCURATE_ECN: bool = true;

    type Settings = Sysctls;

    type Shared = ();

    fn new(socket: &mut Socket<'_>) -> Self {
        let new = Self {
            law: Law::new(socket.snd_cwnd(), Sysctls::rtt_virt_us(socket)),
            ecn: Ecn::new(socket),
            round: Trip::new(socket),
            reduced: Trip::new(socket),
            reduced_over: true,
            recovery: Recovery::default(),
        };
        new.apply(socket);
        new
    }

    fn delivered(&mut self, socket: &mut Socket<'_>, ack: Ack) {
        let marked = self.ecn.marked(socket);
        let now = now();
        self.law.arrived(ack.packets, marked);
        if self.round.over(socket) {
            self.law.round(now);
        }
        // The last mark of what was in flight then is no reason for another reduction.
        self.reduced_over |= self.reduced.passed(socket);
        let reduced = self.law.on_ack(
            Ack { marked, ..ack },
            socket.smoothed_rtt_us(),
            self.reduced_over,
            self.recovery.is_on(),
            now,
        );
        if reduced {
            self.reduced = Trip::new(socket);
            self.reduced_over = false;
        }
        self.apply(socket);
    }

    fn timeout(&mut self, socket: &mut Socket<'_>) {
        // A closed peer window is not caused by the fabric.
        if !socket.peer_window_closed() {
            self.law.on_timeout(self.reduced_over);
        }
        self.apply(socket);
    }

    /// The window follows with the ACK that caused the change: `delivered` comes next.
    fn set_state(&mut self, _socket: &mut Socket<'_>, state: u8) {
        if self.recovery.begins(state) {
            self.law.on_loss(self.reduced_over);
        }
    }

    /// The window from before a loss that turned out to be spurious.
    fn undo_cwnd(&mut self, _socket: &mut Socket<'_>) -> u32 {
        self.law.undo();
        self.law.packets()
    }

    fn info(&self) -> Info {
        Info {
            state: u16::from(self.recovery.is_on()),
            numbers: [self.law.alpha(), self.law.packets(), self.law.threshold()],
        }
    }
}
