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
    settings::{Setting, Settings},
    window,
};

module! {
    type: Registration<Swift>,
    name: "tcp_swift",
    authors: ["The weft developers"],
    description: "TCP with Swift's window",
    license: "GPL",
}

/// The settings of each network namespace. A connection keeps the values from when it was
/// established.
struct Sysctls;

/// Places in [`Sysctls::SETTINGS`].
const BASE_TARGET_US: usize = 0;
const HOP_US: usize = 1;
const HOPS: usize = 2;
const FS_RANGE_US: usize = 3;
const FS_MIN_MILLI: usize = 4;
const FS_MAX: usize = 5;
const AI_MILLI: usize = 6;
const BETA_MILLI: usize = 7;
const MAX_MDF_MILLI: usize = 8;
const INIT_CWND: usize = 9;
const MIN_CWND_MILLI: usize = 10;
const MAX_CWND: usize = 11;

impl Settings for Sysctls {
    const PATH: &'static CStr = c"net/ipv4/tcp_swift";

    const SETTINGS: &'static [Setting] = &[
        Setting {
            name: c"base_target_us",
            default: Params::PAPER.base_target_us,
            min: 1,
            max: LONGEST_TIMEOUT_US,
        },
        Setting {
            name: c"hop_us",
            default: Params::PAPER.hop_us,
            min: 0,
            max: LONGEST_TIMEOUT_US,
        },
        Setting {
            name: c"hops",
            default: Params::PAPER.hops,
            min: 0,
            max: 255,
        },
        Setting {
            name: c"fs_range_us",
            default: Params::PAPER.fs_range_us,
            min: 0,
            max: LONGEST_TIMEOUT_US,
        },
        Setting {
            name: c"fs_min_milli",
            default: Params::PAPER.fs_min_milli,
            min: 1,
            max: 1_000_000,
        },
        Setting {
            name: c"fs_max",
            default: Params::PAPER.fs_max,
            min: 1,
            max: LARGEST,
        },
        Setting {
            name: c"ai_milli",
            default: Params::PAPER.ai_milli,
            min: 1,
            max: LARGEST_AI,
        },
        Setting {
            name: c"beta_milli",
            default: Params::PAPER.beta_milli,
            min: 1,
            max: 1_000,
        },
        Setting {
            name: c"max_mdf_milli",
            default: Params::PAPER.max_mdf_milli,
            min: 1,
            max: 1_000,
        },
        Setting {
            name: c"init_cwnd",
            default: Params::PAPER.initial,
            min: 1,
            max: LARGEST,
        },
        Setting {
            name: c"min_cwnd_milli",
            default: Params::PAPER.min_milli,
            min: 1,
            max: 1_000,
        },
        Setting {
            name: c"max_cwnd",
            default: Params::PAPER.max,
            min: 1,
            max: LARGEST,
        },
    ];
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
        let setting = |place| socket.setting::<Sysctls>(place);
        let law = Law::new(Params {
            base_target_us: setting(BASE_TARGET_US),
            hop_us: setting(HOP_US),
            hops: setting(HOPS),
            fs_range_us: setting(FS_RANGE_US),
            fs_min_milli: setting(FS_MIN_MILLI),
            fs_max: setting(FS_MAX),
            ai_milli: setting(AI_MILLI),
            beta_milli: setting(BETA_MILLI),
            max_mdf_milli: setting(MAX_MDF_MILLI),
            initial: setting(INIT_CWND),
            min_milli: setting(MIN_CWND_MILLI),
            max: setting(MAX_CWND),
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
