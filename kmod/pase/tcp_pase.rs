// SPDX-License-Identifier: GPL-2.0-only

//! `pase` for TCP: a PASE host with the arbitrator of its own link, which asks the arbitrators of
//! other links.
//!
//! A. Munir et al., "Friends, not Foes – Synthesizing Existing Transport Strategies for Data Center
//! Networks", SIGCOMM 2014, §3.1.1 and §3.2. The laws are in `host`, `window`, `guard`, `probe` and
//! `local`; this file connects them to the socket.
//!
//! A flow begins when a connection has something to send and everything before it is acknowledged.
//! It asks the arbitrator of its network namespace before each packet until one is acknowledged,
//! then once in a round-trip time, and after each timeout. If that is set, it also asks the
//! arbitrators of the other links on its path (`global`), by a frame to its switch, where
//! weft-pase(8) answers. Its queue is in the packets' `skb->priority` (0 for the top queue) and in
//! the class selector of their DSCP (CS0 for the top queue, so that unclassified packets, such as
//! handshakes, are there). A connection that has nothing to send is in the top queue, and so are
//! its acknowledgements.
//!
//! Both ends need it, as with dctcp: a listener that does not request ECN refuses it to a SYN that
//! can be marked. Then no marks are echoed, and packets are sent as not markable. Packets
//! acknowledged while a loss is repaired then count as marked.
//!
//! # Differences from the paper, and their effect
//!
//! - The host's own link is arbitrated here in the direction to its switch, as one link however
//!   many devices the namespace has. The other direction is one of weft-pase's links.
//! - A flow's size is the one that the application declared (`kapi::described`). Otherwise it is
//!   the data written so far, of which only the first packet may exist when the flow asks.
//! - The RTT starts when a packet leaves the socket, so it includes the host's own queue; the
//!   smallest one counts.
//! - Packets of a window leave in one burst.
//! - Linux detects and repairs losses (SACK, RACK). A timeout is Linux's, which doubles it, with
//!   the route's minimum (`rto_min`): the paper has 10 ms in the top queue and 200 ms in the
//!   others.
//! - A probe follows a timeout. In §4.3.2 a flow in the lowest queue sends one in each round-trip
//!   time in place of a packet; the kernel gives a congestion control no timer for that.
//! - The receiver delays its answer to a probe by `net.ipv4.tcp_invalid_ratelimit` ms if there was
//!   one before: 0 for no delay.
//! - While the guard holds, Linux may send one new packet as a tail loss probe
//!   (`tcp_early_retrans`, 0 for none). It goes in the old queue, and the guard waits for it, too.
//! - The SYN has the priority that the application gave the socket.

use core::num::{NonZeroU16, NonZeroU32};

use kernel::prelude::*;

#[macro_use]
#[path = "../kapi/head.rs"]
mod head;
use head::{common, kapi};
mechanism!(pase);

use crate::common::{
    shared::{self, Frames, FRAME},
    window::{Ack, LONGEST_TIMEOUT_US},
};
use crate::pase::{
    arbiter::Link,
    criterion::{About, Criterion},
    global::{Global, Route},
    host::Host,
    local::{self, Local},
    message,
    path::onward,
    probe::Timeout,
    window::Params,
    Verdict, TOP,
};
use kapi::{
    bindings::tcp_ca_event,
    class::Class,
    clock::{now, random, time_of_day},
    congestion::{CongestionControl, Info, Registration, Socket},
    described::Described,
    ecn::{Arrival, Ecn},
    probe,
    recovery::Recovery,
    route,
    settings::Setting,
    store::KernelStore,
};

module! {
    type: Registration<Pase>,
    name: "tcp_pase",
    authors: ["The weft developers"],
    description: "TCP with PASE's rate control and arbitration",
    license: "GPL",
}

settings! {
    /// The settings of each network namespace. The first four and the last three are read each time
    /// they are needed, the others once per connection.
    struct Sysctls in c"net/ipv4/tcp_pase" {
        // "1 Gbps links" (§4.4).
        rate_kbit: Setting::new(1_000_000, 1..=u32::MAX);
        // "8 priority queues" (§4.4).
        queues: Setting::new(8, 1..=8);
        lifetime_us: Setting::new(1_000_000, 1..=u32::MAX);
        // Remaining size; 1: deadline; 2: task.
        criterion: Setting::new(0, 0..=2);
        // "250 µsec RTT" (§4.4).
        rtt_us: Setting::new(250, 1..=LONGEST_TIMEOUT_US);
        packet_bytes: Setting::PACKET_BYTES;
        guided: Setting::new(1, 0..=1);
        // None: there may be no other arbitrator.
        ask_queues: Setting::new(0, 0..=8);
        probing: Setting::new(1, 0..=1);
        guard: Setting::new(1, 0..=1);
    }
}

/// The state that the flows of a network namespace share.
struct Shared {
    /// The arbitrator of its own link.
    local: Local<KernelStore>,
    /// The verdicts of the other arbitrators.
    global: Global<KernelStore>,
}

impl shared::Shared for Shared {
    const FRAMES: Option<Frames> = Some(message::FRAMES);

    type Error = Error;

    fn new() -> Result<Self> {
        let secret = u64::from(random()) << 32 | u64::from(random());
        Ok(Self {
            local: Local::new(secret)?,
            global: Global::new(time_of_day())?,
        })
    }

    fn receive(&mut self, device: u32, _from: [u8; 6], data: Option<&[u8]>, now: u64) -> bool {
        if let Some(data) = data {
            self.global.receive(device, data, now);
        }
        // No port waits for it.
        false
    }

    fn has_news(&self) -> bool {
        self.global.has_messages()
    }

    fn next_frame(&mut self, _now: u64, frame: &mut [u8; FRAME]) -> Option<(u32, usize)> {
        let (device, message) = self.global.next_message()?;
        *frame.first_chunk_mut()? = message;
        Some((device, message.len()))
    }
}

/// A connection.
#[derive(Clone, Copy)]
struct Pase {
    host: Host,
    ecn: Ecn,
    /// The flow's number; 0: no flow is being sent.
    number: u32,
    /// None of it is acknowledged.
    fresh: bool,
    recovery: Recovery,
    /// The socket's class before it was changed.
    dscp: u8,
    priority: u32,
}

/// Whether a flow may send in a higher queue before earlier packets are acknowledged.
fn unguarded(socket: &Socket<'_>) -> bool {
    Sysctls::guard(socket) == 0
}

fn link(socket: &Socket<'_>) -> Link {
    Link {
        rate: u64::from(Sysctls::rate_kbit(socket)).wrapping_mul(125),
        queues: Sysctls::queues(socket) as u8,
        lifetime: u64::from(Sysctls::lifetime_us(socket)).wrapping_mul(1_000),
    }
}

impl Pase {
    /// The current verdict of the host's arbitrator, combined with the last answer of the others.
    /// They are asked again.
    fn ask(&self, socket: &mut Socket<'_>) -> Verdict {
        let described = Described::of(socket);
        let about = About {
            remaining: described.remaining,
            sized: described.sized,
            deadline: described.deadline,
            task: described.class.into(),
        };
        let criterion = match Sysctls::criterion(socket) {
            0 => Criterion::Remaining,
            1 => Criterion::Deadline,
            _ => Criterion::Task,
        };
        let (number, rtt_us) = (self.number, self.host.law().rtt_us());
        let link = link(socket);
        let queues = Sysctls::ask_queues(socket) as u8;
        let route = match queues {
            0 => None,
            _ => route::of(socket).map(|(device, to)| Route { device, to }),
        };
        let now = now();
        let flow = local::flow(number, &about, criterion, rtt_us, link.rate, now);
        let answer = socket.shared(|Shared { local, global }| {
            let verdict = local.ask(&flow, link, now);
            let onward = onward(&flow, verdict, queues);
            let others = match onward.zip(route) {
                Some((flow, route)) => global.ask(&flow, route, now, link.lifetime),
                None => {
                    global.end(number);
                    None
                }
            };
            verdict.and(others.unwrap_or(Verdict::FREE))
        });
        answer.unwrap_or(Verdict::FREE)
    }

    /// The flow has nothing more to send, or is destroyed.
    fn end(&mut self, socket: &mut Socket<'_>) {
        if self.number != 0 {
            let number = self.number;
            socket.shared(|Shared { local, global }| {
                local.end(number);
                global.end(number);
            });
            self.number = 0;
        }
    }

    /// Applies the queue and the window to the socket.
    fn apply(&self, socket: &mut Socket<'_>) {
        let queue = if self.number == 0 {
            TOP
        } else {
            self.host.queue()
        };
        // At most 7, because there are at most 8 queues.
        let below_top = queue.saturating_sub(TOP);
        let class = Class {
            dscp: below_top.wrapping_shl(3),
            priority: below_top.into(),
        };
        if Class::of(socket) != class {
            class.apply(socket);
        }
        let window = self.host.packets();
        socket.set_snd_cwnd(window);
        // There is no slow start.
        socket.set_snd_ssthresh(window);
    }
}

#[vtable]
impl CongestionControl for Pase {
    const NAME: &'static str = "pase";
    const ECN: bool = true;

    type Settings = Sysctls;

    type Shared = Shared;

    fn new(socket: &mut Socket<'_>) -> Self {
        let params = Params {
            rtt_us: NonZeroU32::new(Sysctls::rtt_us(socket)).unwrap_or(NonZeroU32::MIN),
            packet: NonZeroU16::new(Sysctls::packet_bytes(socket) as u16)
                .unwrap_or(NonZeroU16::MAX),
            queues: Sysctls::queues(socket) as u8,
            guided: Sysctls::guided(socket) != 0,
        };
        let class = Class::of(socket);
        let new = Self {
            // The first verdict comes with its first data.
            host: Host::new(
                params,
                Verdict {
                    queue: TOP,
                    rate: 0,
                },
            ),
            ecn: Ecn::new(socket),
            number: 0,
            fresh: false,
            recovery: Recovery::default(),
            dscp: class.dscp,
            priority: class.priority,
        };
        socket.unpace();
        new.apply(socket);
        new
    }

    fn before_transmit(&mut self, socket: &mut Socket<'_>) {
        probe::over(socket);
        if !socket.has_unsent() {
            return;
        }
        if self.number == 0 {
            self.number = socket
                .shared(|shared: &mut Shared| shared.local.number())
                .unwrap_or(1);
            self.fresh = true;
        }
        // The first packet may leave before the application has written all its data.
        if !self.fresh {
            return;
        }
        let verdict = self.ask(socket);
        if socket.settled() {
            self.host.restart(verdict);
        } else {
            self.host.arbitrate(verdict, unguarded(socket));
        }
        self.apply(socket);
    }

    fn in_ack_event(&mut self, socket: &mut Socket<'_>) {
        probe::over(socket);
        if self.host.probing().probing() {
            probe::nothing_resent(socket);
        }
    }

    fn delivered(&mut self, socket: &mut Socket<'_>, ack: Ack) {
        let marked = self.ecn.marked_or_lost(socket, &ack, &self.recovery);
        let settled = socket.settled() || unguarded(socket);
        self.host.acknowledged(Ack { marked, ..ack }, settled);
        self.fresh &= ack.packets == 0;
        if socket.all_acked() {
            self.end(socket);
        } else if self.host.due() && self.number != 0 {
            let verdict = self.ask(socket);
            self.host.arbitrate(verdict, settled);
        }
        self.apply(socket);
    }

    fn timeout(&mut self, socket: &mut Socket<'_>) {
        // A closed peer window is not caused by the fabric.
        if !socket.peer_window_closed() {
            let probing = Sysctls::probing(socket) != 0;
            let sends = self.host.on_timeout(probing);
            if self.number != 0 {
                let verdict = self.ask(socket);
                self.host.arbitrate(verdict, unguarded(socket));
            }
            if sends == Timeout::Probe {
                probe::instead(socket);
            }
        }
        self.apply(socket);
    }

    fn cwnd_event(&mut self, socket: &mut Socket<'_>, event: tcp_ca_event) -> Option<Arrival> {
        self.ecn.cwnd_event(socket, event)
    }

    fn set_state(&mut self, _socket: &mut Socket<'_>, state: u8) {
        self.recovery.begins(state);
    }

    fn info(&self) -> Info {
        let law = self.host.law();
        let kbit = law.verdict().rate.checked_div(125).unwrap_or(0);
        let held = if self.host.holding() { HOLDING } else { 0 };
        Info {
            state: u16::from(self.host.queue()) | held,
            numbers: [
                u32::try_from(kbit).unwrap_or(u32::MAX),
                self.host.probing().probes().into(),
                law.alpha().into(),
            ],
        }
    }

    fn release(&mut self, socket: &mut Socket<'_>) {
        probe::over(socket);
        self.end(socket);
        Class {
            dscp: self.dscp,
            priority: self.priority,
        }
        .apply(socket);
    }
}

/// The bit of the state that says that the guard holds.
const HOLDING: u16 = 0x100;
