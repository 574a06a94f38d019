// SPDX-License-Identifier: GPL-2.0-only

//! `dcqcn` for TCP: the rate of a DCQCN sender.
//!
//! Y. Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, §3. The law
//! is in `rate`; this file connects it to the socket, which paces its packets at the law's rate.
//!
//! Both ends need it, as with dctcp: the receiver echoes each mark. If the other end refuses ECN,
//! packets cannot be marked, and packets acknowledged while a loss is repaired count as marked.
//!
//! # Differences from the paper, and their effect
//!
//! - The sender applies the receiver's limit of notifications, to acknowledgements with marks.
//! - The window is a large constant: rates decide, as in the paper, which has no window.
//! - The socket's own timer spaces its packets. The kernel does not pace the first ten packets of a
//!   connection, and lets a packet that is late be followed sooner. A rate that rises affects
//!   the packets after the next one.
//! - Linux detects and repairs losses (SACK, RACK, timeouts), and losses leave the rate. The
//!   paper's fabric is lossless, and its NICs go back N.

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(dcqcn);

use crate::common::window::{Ack, LONGEST_TIMEOUT_US};
use crate::dcqcn::rate::{Params, Phase, Rate};
use kapi::{
    bindings::tcp_ca_event,
    clock::now,
    congestion::{CongestionControl, Info, Registration, Socket},
    ecn::{Arrival, Ecn},
    recovery::Recovery,
    settings::{Setting, Settings},
    window,
};

module! {
    type: Registration<Dcqcn>,
    name: "tcp_dcqcn",
    authors: ["The weft developers"],
    description: "TCP with DCQCN's rate control",
    license: "GPL",
}

/// The settings of each network namespace. They are read each time.
struct Sysctls;

/// Places in [`Sysctls::SETTINGS`].
const RATE_KBIT: usize = 0;
const PACKET_BYTES: usize = 1;
const CWND: usize = 2;
const CNP_US: usize = 3;
const ALPHA_US: usize = 4;
const TIMER_US: usize = 5;
const BYTE_COUNTER: usize = 6;
const AI_KBIT: usize = 7;
const HAI_KBIT: usize = 8;
const MIN_KBIT: usize = 9;

/// Rates of the paper in kbit/s, and times in µs: they fit.
const fn thousandth(number: u64) -> u32 {
    number.wrapping_div(1_000) as u32
}

impl Settings for Sysctls {
    const PATH: &'static CStr = c"net/ipv4/tcp_dcqcn";

    const SETTINGS: &'static [Setting] = &[
        Setting {
            name: c"rate_kbit",
            default: thousandth(Params::PAPER.line),
            min: 1,
            max: u32::MAX,
        },
        Setting::PACKET_BYTES,
        Setting::CWND,
        Setting {
            name: c"cnp_us",
            default: thousandth(Params::PAPER.cnp_ns),
            min: 0,
            max: LONGEST_TIMEOUT_US,
        },
        Setting {
            name: c"alpha_us",
            default: thousandth(Params::PAPER.alpha_ns),
            min: 1,
            max: LONGEST_TIMEOUT_US,
        },
        Setting {
            name: c"timer_us",
            default: thousandth(Params::PAPER.timer_ns),
            min: 1,
            max: LONGEST_TIMEOUT_US,
        },
        Setting {
            name: c"byte_counter",
            default: Params::PAPER.bytes as u32,
            min: 1_000,
            max: u32::MAX,
        },
        Setting {
            name: c"ai_kbit",
            default: thousandth(Params::PAPER.ai),
            min: 1,
            max: u32::MAX,
        },
        Setting {
            name: c"hai_kbit",
            default: thousandth(Params::PAPER.hai),
            min: 1,
            max: u32::MAX,
        },
        Setting {
            name: c"min_kbit",
            default: thousandth(Params::PAPER.least),
            min: 1,
            max: u32::MAX,
        },
    ];
}

fn params(socket: &Socket<'_>) -> Params {
    let thousands = |place| u64::from(socket.setting::<Sysctls>(place)).wrapping_mul(1_000);
    Params {
        line: thousands(RATE_KBIT),
        least: thousands(MIN_KBIT),
        ai: thousands(AI_KBIT),
        hai: thousands(HAI_KBIT),
        cnp_ns: thousands(CNP_US),
        alpha_ns: thousands(ALPHA_US),
        timer_ns: thousands(TIMER_US),
        bytes: socket.setting::<Sysctls>(BYTE_COUNTER).into(),
    }
}

/// A flow.
#[derive(Clone, Copy)]
struct Dcqcn {
    rate: Rate,
    ecn: Ecn,
    recovery: Recovery,
}

impl Dcqcn {
    /// Applies the rate and the window to the socket.
    fn apply(&self, socket: &mut Socket<'_>) {
        let packet = socket.setting::<Sysctls>(PACKET_BYTES);
        let window = socket.setting::<Sysctls>(CWND);
        window::at_rate(socket, self.rate.current(), packet, window);
    }
}

#[vtable]
impl CongestionControl for Dcqcn {
    const NAME: &'static str = "dcqcn";
    const ECN: bool = true;

    type Settings = Sysctls;

    type Shared = ();

    fn new(socket: &mut Socket<'_>) -> Self {
        let new = Self {
            rate: Rate::new(&params(socket), now()),
            ecn: Ecn::new(socket),
            recovery: Recovery::default(),
        };
        new.apply(socket);
        new
    }

    /// The rate has risen since the last acknowledgement.
    fn before_transmit(&mut self, socket: &mut Socket<'_>) {
        self.rate.advance(&params(socket), now());
        self.apply(socket);
    }

    fn delivered(&mut self, socket: &mut Socket<'_>, ack: Ack) {
        let marked = self.ecn.marked_or_lost(socket, &ack, &self.recovery);
        let packet = socket.setting::<Sysctls>(PACKET_BYTES);
        let bytes = u64::from(ack.packets).wrapping_mul(packet.into());
        self.rate.on_ack(&params(socket), bytes, marked != 0, now());
        self.apply(socket);
    }

    /// The window stays large; the kernel has reduced it.
    fn timeout(&mut self, socket: &mut Socket<'_>) {
        self.apply(socket);
    }

    fn set_state(&mut self, _socket: &mut Socket<'_>, state: u8) {
        self.recovery.begins(state);
    }

    fn cwnd_event(&mut self, socket: &mut Socket<'_>, event: tcp_ca_event) -> Option<Arrival> {
        self.ecn.cwnd_event(socket, event)
    }

    fn info(&self) -> Info {
        let kbit = self.rate.current().wrapping_div(1_000);
        Info {
            state: match self.rate.phase() {
                Phase::FastRecovery => 0,
                Phase::AdditiveIncrease => 1,
                Phase::HyperIncrease => 2,
            },
            numbers: [
                self.rate.alpha(),
                u32::try_from(kbit).unwrap_or(u32::MAX),
                self.rate.notifications(),
            ],
        }
    }
}
