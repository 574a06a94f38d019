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
    settings::{Setting, Settings},
    window,
};

module! {
    type: Registration<Timely>,
    name: "tcp_timely",
    authors: ["The weft developers"],
    description: "TCP with TIMELY's rate control",
    license: "GPL",
}

/// The settings of each network namespace. `packet_bytes` and `cwnd` are read each time; of the
/// others, a connection keeps the values from when it was established.
struct Sysctls;

/// Places in [`Sysctls::SETTINGS`].
const RATE_KBIT: usize = 0;
const PACKET_BYTES: usize = 1;
const CWND: usize = 2;
const T_LOW_US: usize = 3;
const T_HIGH_US: usize = 4;
const MIN_RTT_US: usize = 5;
const DELTA_KBIT: usize = 6;
const ALPHA_MILLI: usize = 7;
const BETA_MILLI: usize = 8;
const SEGMENT_BYTES: usize = 9;
const MIN_KBIT: usize = 10;

impl Settings for Sysctls {
    const PATH: &'static CStr = c"net/ipv4/tcp_timely";

    const SETTINGS: &'static [Setting] = &[
        Setting {
            name: c"rate_kbit",
            default: Params::PAPER.line_kbit,
            min: 1,
            max: u32::MAX,
        },
        Setting::PACKET_BYTES,
        Setting::CWND,
        Setting {
            name: c"t_low_us",
            default: Params::PAPER.t_low_us,
            min: 0,
            max: LONGEST_TIMEOUT_US,
        },
        Setting {
            name: c"t_high_us",
            default: Params::PAPER.t_high_us,
            min: 1,
            max: LONGEST_TIMEOUT_US,
        },
        Setting {
            name: c"min_rtt_us",
            default: Params::PAPER.min_rtt_us,
            min: 1,
            max: LONGEST_TIMEOUT_US,
        },
        Setting {
            name: c"delta_kbit",
            default: Params::PAPER.delta_kbit,
            min: 1,
            max: u32::MAX,
        },
        Setting {
            name: c"alpha_milli",
            default: Params::PAPER.alpha_milli,
            min: 1,
            max: 1_000,
        },
        Setting {
            name: c"beta_milli",
            default: Params::PAPER.beta_milli,
            min: 1,
            max: 1_000,
        },
        Setting {
            name: c"segment_bytes",
            default: Params::PAPER.segment,
            min: 1,
            max: 1 << 24,
        },
        Setting {
            name: c"min_kbit",
            default: Params::PAPER.least_kbit,
            min: 1,
            max: u32::MAX,
        },
    ];
}

/// A flow.
#[derive(Clone, Copy)]
struct Timely {
    rate: Rate,
}

impl Timely {
    /// Applies the rate and the window to the socket.
    fn apply(&self, socket: &mut Socket<'_>) {
        let packet = socket.setting::<Sysctls>(PACKET_BYTES);
        let window = socket.setting::<Sysctls>(CWND);
        window::at_rate(socket, self.rate.rate(), packet, window);
    }
}

#[vtable]
impl CongestionControl for Timely {
    const NAME: &'static str = "timely";

    type Settings = Sysctls;

    type Shared = ();

    fn new(socket: &mut Socket<'_>) -> Self {
        let setting = |place| socket.setting::<Sysctls>(place);
        let rate = Rate::new(Params {
            line_kbit: setting(RATE_KBIT),
            least_kbit: setting(MIN_KBIT),
            delta_kbit: setting(DELTA_KBIT),
            t_low_us: setting(T_LOW_US),
            t_high_us: setting(T_HIGH_US),
            min_rtt_us: setting(MIN_RTT_US),
            alpha_milli: setting(ALPHA_MILLI),
            beta_milli: setting(BETA_MILLI),
            segment: setting(SEGMENT_BYTES),
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
