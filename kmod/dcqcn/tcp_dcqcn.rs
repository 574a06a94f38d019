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
    settings::Setting,
    window,
};

module! {
    type: Registration<Dcqcn>,
    name: "tcp_dcqcn",
    authors: ["The weft developers"],
    description: "TCP with DCQCN's rate control",
    license: "GPL",
}

/// Rates of the paper in kbit/s, and times in µs: they fit.
const fn thousandth(number: u64) -> u32 {
    number.wrapping_div(1_000) as u32
}

settings! {
    /// The settings of each network namespace. They are read each time.
    struct Sysctls in c"net/ipv4/tcp_dcqcn" {
        rate_kbit: Setting::new(thousandth(Params::PAPER.line), 1..=u32::MAX);
        packet_bytes: Setting::PACKET_BYTES;
        cwnd: Setting::CWND;
        cnp_us: Setting::new(thousandth(Params::PAPER.cnp_ns), 0..=LONGEST_TIMEOUT_US);
        alpha_us: Setting::new(thousandth(Params::PAPER.alpha_ns), 1..=LONGEST_TIMEOUT_US);
        timer_us: Setting::new(thousandth(Params::PAPER.timer_ns), 1..=LONGEST_TIMEOUT_US);
        byte_counter: Setting::new(Params::PAPER.bytes as u32, 1_000..=u32::MAX);
        ai_kbit: Setting::new(thousandth(Params::PAPER.ai), 1..=u32::MAX);
        hai_kbit: Setting::new(thousandth(Params::PAPER.hai), 1..=u32::MAX);
        min_kbit: Setting::new(thousandth(Params::PAPER.least), 1..=u32::MAX);
    }
}

fn params(socket: &Socket<'_>) -> Params {
    let thousands = |setting: u32| u64::from(setting).wrapping_mul(1_000);
    Params {
        line: thousands(Sysctls::rate_kbit(socket)),
        least: thousands(Sysctls::min_kbit(socket)),
        ai: thousands(Sysctls::ai_kbit(socket)),
        hai: thousands(Sysctls::hai_kbit(socket)),
        cnp_ns: thousands(Sysctls::cnp_us(socket)),
        alpha_ns: thousands(Sysctls::alpha_us(socket)),
        timer_ns: thousands(Sysctls::timer_us(socket)),
        bytes: Sysctls::byte_counter(socket).into(),
    }
}

/// A flow.
#[derive(Clone, Copy)]
struct Dcqcn {
    rate: Rate,
    ecn: Ecn,
    recovery: Recovery,
    /// All data was sent and acknowledged: the next data is a new flow.
    is_idle: bool,
}

impl Dcqcn {
    /// Applies the rate and the window to the socket.
    fn apply(&self, socket: &mut Socket<'_>) {
        let packet = Sysctls::packet_bytes(socket);
        let window = Sysctls::cwnd(socket);
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
            is_idle: false,
        };
        new.apply(socket);
        new
    }

    /// A new flow starts here, or the rate has risen since the last acknowledgement.
    fn before_transmit(&mut self, socket: &mut Socket<'_>) {
        let (params, now) = (params(socket), now());
        if self.is_idle && !socket.all_acked() {
            self.is_idle = false;
            self.rate.restart(&params, now);
        } else {
            self.rate.advance(&params, now);
        }
        self.apply(socket);
    }

    fn delivered(&mut self, socket: &mut Socket<'_>, ack: Ack) {
        let marked = self.ecn.marked_or_lost(socket, &ack, &self.recovery);
        let packet = Sysctls::packet_bytes(socket);
        let bytes = u64::from(ack.packets).wrapping_mul(packet.into());
        self.rate.on_ack(&params(socket), bytes, marked != 0, now());
        self.is_idle |= socket.all_acked();
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
