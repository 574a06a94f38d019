// SPDX-License-Identifier: GPL-2.0-only

//! Loss recovery by one fixed timeout and nothing else, in place of the kernel's.
//!
//! A congestion control decides how much is in flight; the kernel decides what is lost and when it
//! is retransmitted. For a transport that has only timeouts, this module turns off the kernel's
//! mechanisms, one by one and for one socket; other sockets, even of the same namespace, keep them.
//! The table lists each mechanism, where it acts in Linux 7.2 and 7.3 (`net/ipv4`), and how it is
//! turned off:
//!
//! | mechanism | acts in | turned off by |
//! |---|---|---|
//! | RACK (RFC 8985) | `tcp_rack_mark_lost` on each ACK | `rack.advanced` and `rack.rtt_us` are 0 before it looks |
//! | RACK on an old ACK, its reordering timer, NewReno's three duplicate ACKs | `tcp_xmit_retransmit_queue` | loss marks that no timeout made are reverted before anything is sent ([`TimeoutOnly::before_transmit`]) |
//! | tail loss probe | `tcp_send_loss_probe` | `tlp_high_seq` says that one is out already |
//! | F-RTO, Eifel, undo by D-SACK | `tcp_process_loss`, `tcp_may_undo` | `frto` and `undo_marker` are 0 before they look |
//! | exponential backoff | end of `tcp_retransmit_timer`, which doubles `icsk_rto` | it is half the timeout by then ([`TimeoutOnly::on_timeout`]) |
//! | estimated timeout, route's and socket's minimum | `tcp_set_rto` | `icsk_rto` is overwritten before the timer is set |
//! | half a second after the host's own queue refuses a packet | `TCP_RESOURCE_PROBE_INTERVAL`, `tcp_probe0_base` | the packet counts as sent, see below |
//! | PRR, CWR, slow start after idle | `tcp_cong_control`, `tcp_slow_start_after_idle_check` | not called for a congestion control that has `delivered` |
//! | pacing | `tcp_update_pacing_rate` | the same, and the rate is the socket's maximum |
//! | another flow hash after a timeout | `sk_rethink_txhash` | `sk_txrehash` is 0: the flow stays one flow for the queues on its path, and IPv6 stays on its path |
//!
//! # The timeout
//!
//! The kernel's timers count jiffies, and halving leaves even numbers. A timer of n jiffies fires
//! between n and n + 1 jiffies after it was set, and at n + 1 if a timer set it. So the requested
//! timeout is rounded to the nearest n + 1 with an even n of at least 2. Consecutive timeouts are
//! then equally far apart, at most a jiffy from the requested time (at 250 jiffies a second 12 ms,
//! 20 ms, 28 ms …), and the first one after progress comes up to a jiffy sooner. Above 63 jiffies
//! the timer wheel is 8 jiffies coarse, and fires up to 8 jiffies later.
//!
//! It counts from the last progress, unless another timer has taken its place: after that one, it
//! counts from when the first packet was sent last. The tail loss probe's timer does this if the
//! namespace has probes (`sysctl net.ipv4.tcp_early_retrans`, 3 by default; 0 is better), and
//! RACK's timer after an ACK that was overtaken by a later one but still has news.
//!
//! # How long a connection lives
//!
//! Linux gives a connection up by time, and that time is set only by the kernel, the namespace and
//! the application: `icsk_user_timeout` and `icsk_rto_max` are left alone. `retransmits_timed_out`
//! asks whether as much time has passed since the first retransmission (`retrans_stamp`) as n
//! timeouts would take that begin with 200 ms (`TCP_RTO_MIN`) and double up to `icsk_rto_max`. That
//! is 924.6 s for the default of `tcp_retries2`, 15, however many fixed timeouts there were. The
//! same holds for a closed socket and `tcp_orphan_retries`, 102 s by default; the socket is `alive`
//! as long as its timeout is shorter than `icsk_rto_max`. Keepalive and zero-window probes do not
//! read the values written here.
//!
//! (Lowering `icsk_rto_max` to the timeout would bound every timer at once, and an earlier version
//! did so. But `tcp_model_timeout` divides it by 200 ms and takes the logarithm, and probes of a
//! closed window, orphans and `TCP_RTO_MAX_MS` use it. A long `icsk_user_timeout`, to make up for
//! that, has a meaning of its own: it makes the kernel ignore `KEEPCNT` and the answers to
//! zero-window probes.)
//!
//! `icsk_retransmits`, a byte, counts consecutive timeouts, which doubling keeps below 30; here it
//! is kept from wrapping. At 0 the kernel would take the timeout for a first one.
//!
//! A timeout while the peer's window is closed is the kernel's way to probe the window: it keeps
//! its backoff.
//!
//! # A packet that the host's own queue refuses
//!
//! In the paper such a packet is lost like any other. Linux leaves it unsent. It retries after half
//! a second if a timeout sent the packet; if the packet was new and nothing is in flight, it
//! retries after 200 ms, then each half second. No callback reports this. But the kernel calls a
//! socket back when one of its packets has left the host's queues, even by being dropped, if the
//! socket requested that (`TSQ_THROTTLED`, by which the kernel limits a flow's packets there). So
//! each packet with data that is sent when no other is in flight requests the call
//! ([`TimeoutOnly::transmit_start`]), and the call determines the packet's fate
//! ([`TimeoutOnly::before_transmit`]):
//!
//! - a retransmission by a timeout counts as sent and lost: the timer is a timeout away;
//! - a new packet is tried again at once, because the call does that, and then after a timeout. The
//!   limit on retries before the connection is given up (`tcp_retries2`, by number) is computed as
//!   if the packet were tried each half second, so that the time is Linux's.
//!
//! # Exceptions that still change a timeout
//!
//! - An ICMP message after a timeout that reports the peer unreachable: `tcp_ld_RTO_revert` sets
//!   the timer once by its own estimate, which is the route's `rto_min` (200 ms by default) or
//!   more. If that has already passed, the next timeout is immediate.
//! - `TCP_THIN_LINEAR_TIMEOUTS` and its sysctl, off by default: with fewer than four packets out,
//!   the first six consecutive timeouts are the estimate.
//! - `TCP_RTO_MAX_MS` limits a longer timeout.
//!
//! # A probe
//!
//! A retransmission sends as much of the first unacknowledged packet as the peer's window takes
//! (`__tcp_retransmit_skb`). [`TimeoutOnly::on_timeout`] closes that window to one byte, and opens
//! it when that byte has been sent, before the timer's handler ends. The packet is then split in
//! two: the byte, which all further probes repeat, and the rest.

use super::{
    bindings::{
        weft_jiffy_us, weft_sk_set_txrehash, weft_sk_txrehash, weft_tcp_allow_tlp,
        weft_tcp_call_when_sent, weft_tcp_count_timeouts, weft_tcp_delivered, weft_tcp_lost,
        weft_tcp_now_us, weft_tcp_refused, weft_tcp_retransmits, weft_tcp_set_rto,
        weft_tcp_set_snd_wnd, weft_tcp_snd_wnd, weft_tcp_timeout_only, weft_tcp_unmark_lost,
        weft_tcp_unpaced,
    },
    socket::Socket,
};
use crate::common::window::LONGEST_TIMEOUT_US;

/// A peer's window that lets one byte through.
const ONE_BYTE: u32 = 1;

/// The state of a packet that was sent with no other in flight.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    /// Its fate is known.
    Settled,
    /// The kernel will call when it has left the host, or was refused.
    Sent,
    /// It was refused, and is being retried.
    Again,
}

/// The loss recovery of one socket.
///
/// Each of the congestion control's callbacks calls the method of that name here first.
#[derive(Clone, Copy)]
pub struct TimeoutOnly {
    /// In jiffies, even.
    timeout: u32,
    /// `sk_txrehash` before it was changed.
    rehash_before: u8,
    /// Packets acknowledged at the last query; wraps.
    delivered: u32,
    /// Packets marked lost (`tp->lost`) at the last query.
    lost: u32,
    /// The peer's window, in bytes, while it is closed to one byte for a probe; else 0.
    peer_window: u32,
    /// The state of the packet that was sent last with no other in flight.
    first: First,
    /// The time of the last timeout, in µs of `tp->tcp_mstamp`; 0 if there was none.
    last_us: u64,
}

impl TimeoutOnly {
    /// For a connection that is being established; the timeout in µs.
    pub fn new(socket: &mut Socket<'_>, timeout_us: u32) -> Self {
        // SAFETY: A C function without pointers or preconditions.
        let jiffy_us = unsafe { weft_jiffy_us() };
        let halves = timeout_us
            .min(LONGEST_TIMEOUT_US)
            .checked_div(jiffy_us.saturating_mul(2))
            .unwrap_or(0);
        let sk = socket.as_ptr();
        // SAFETY: Valid and locked (invariant of Socket), as in all calls below.
        let new = unsafe {
            let rehash_before = weft_sk_txrehash(sk);
            weft_sk_set_txrehash(sk, 0);
            weft_tcp_unpaced(sk);
            Self {
                timeout: halves.max(1).saturating_mul(2),
                rehash_before,
                delivered: weft_tcp_delivered(sk),
                lost: weft_tcp_lost(sk),
                peer_window: 0,
                first: First::Settled,
                last_us: 0,
            }
        };
        new.rule(socket);
        new
    }

    /// An ACK was parsed, and nothing has been concluded from it yet.
    pub fn in_ack_event(&mut self, socket: &mut Socket<'_>) {
        self.open_peer_window(socket);
        self.first = First::Settled;
        self.rule(socket);
    }

    /// How many packets were acknowledged for the first time since the last call.
    pub fn delivered(&mut self, socket: &mut Socket<'_>) -> u32 {
        // SAFETY: As in new().
        let delivered = unsafe { weft_tcp_delivered(socket.as_ptr()) };
        let new = delivered.wrapping_sub(self.delivered);
        // A packet that the network duplicated is subtracted, although it was never counted.
        if new > u32::MAX / 2 {
            return 0;
        }
        self.delivered = delivered;
        new
    }

    /// Packets may be sent next, new ones or retransmissions.
    pub fn before_transmit(&mut self, socket: &mut Socket<'_>) {
        self.open_peer_window(socket);
        let sk = socket.as_ptr();
        // SAFETY: As in new().
        unsafe {
            let lost = weft_tcp_lost(sk);
            if lost != self.lost {
                self.lost = lost;
                weft_tcp_unmark_lost(sk, self.last_us);
            }
            if self.first == First::Sent {
                self.first = if weft_tcp_refused(sk, self.timeout) {
                    First::Again
                } else {
                    First::Settled
                };
            }
        }
    }

    /// A packet is sent, and no other is in flight.
    pub fn transmit_start(&mut self, socket: &mut Socket<'_>) {
        self.open_peer_window(socket);
        let sk = socket.as_ptr();
        // SAFETY: As in new().
        unsafe {
            // In a timeout the kernel is about to double it.
            if weft_tcp_retransmits(sk) == 0 && weft_tcp_snd_wnd(sk) != 0 {
                weft_tcp_set_rto(sk, self.timeout);
            }
            self.first = if self.first == First::Again {
                // Otherwise this packet would be retried for ever, and nothing else sent.
                First::Settled
            } else {
                weft_tcp_call_when_sent(sk);
                First::Sent
            };
        }
    }

    /// The timer fired: all packets in flight are marked lost, and the first packet, or one byte of
    /// it, is about to be retransmitted.
    pub fn on_timeout(&mut self, socket: &mut Socket<'_>, one_byte: bool) {
        self.open_peer_window(socket);
        let sk = socket.as_ptr();
        // SAFETY: As in new().
        unsafe {
            self.lost = weft_tcp_lost(sk);
            self.last_us = weft_tcp_now_us(sk);
            weft_tcp_count_timeouts(sk);
            let window = weft_tcp_snd_wnd(sk);
            if window != 0 {
                weft_tcp_set_rto(sk, self.timeout / 2);
            }
            if one_byte && window > ONE_BYTE {
                self.peer_window = window;
                weft_tcp_set_snd_wnd(sk, ONE_BYTE);
            }
        }
    }

    /// The socket switches to another congestion control, or is destroyed.
    pub fn release(&mut self, socket: &mut Socket<'_>) {
        self.open_peer_window(socket);
        let sk = socket.as_ptr();
        // SAFETY: As in new().
        unsafe {
            weft_sk_set_txrehash(sk, self.rehash_before);
            weft_tcp_allow_tlp(sk);
        }
    }

    /// Sets the rules that hold until the kernel overwrites them on the next ACK.
    fn rule(&self, socket: &mut Socket<'_>) {
        let sk = socket.as_ptr();
        // SAFETY: As in new().
        unsafe { weft_tcp_timeout_only(sk, self.timeout) }
    }

    fn open_peer_window(&mut self, socket: &mut Socket<'_>) {
        if self.peer_window == 0 {
            return;
        }
        let sk = socket.as_ptr();
        // SAFETY: As in new().
        unsafe {
            // Otherwise an ACK has brought the peer's own window.
            if weft_tcp_snd_wnd(sk) == ONE_BYTE {
                weft_tcp_set_snd_wnd(sk, self.peer_window);
            }
        }
        self.peer_window = 0;
    }
}
