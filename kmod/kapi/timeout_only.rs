// SPDX-License-Identifier: GPL-2.0-only

//! Loss recovery by one fixed timeout and nothing else, in place of the kernel's.
//!
//! A congestion control decides how much is in flight, the kernel what is lost and when it is sent
//! again. For a transport that has timeouts only, the kernel's ways are turned off here, one by
//! one and for one socket: other sockets, of the same namespace too, keep them. What is turned
//! off, where it acts in Linux 7.2 and 7.3 (`net/ipv4`), and how:
//!
//! | mechanism | acts in | turned off by |
//! |---|---|---|
//! | RACK (RFC 8985) | `tcp_rack_mark_lost` on each ACK | `rack.advanced` and `rack.rtt_us` are 0 before it looks |
//! | RACK on an old ACK, its reordering timer, NewReno's three duplicate ACKs | `tcp_xmit_retransmit_queue` | marks of loss that no timeout made are taken back before anything is sent ([`TimeoutOnly::before_transmit`]) |
//! | tail loss probe | `tcp_send_loss_probe` | `tlp_high_seq` says that one is out already |
//! | F-RTO, Eifel, undo by D-SACK | `tcp_process_loss`, `tcp_may_undo` | `frto` and `undo_marker` are 0 before they look |
//! | exponential backoff | end of `tcp_retransmit_timer`, which doubles `icsk_rto` | it is half the timeout by then ([`TimeoutOnly::on_timeout`]) |
//! | estimated timeout, route's and socket's minimum | `tcp_set_rto` | `icsk_rto` is overwritten before the timer is set |
//! | half a second after a retransmission that the host's own qdisc drops | `TCP_RESOURCE_PROBE_INTERVAL` | `icsk_rto_max`, which bounds every timer, is a jiffy above the timeout |
//! | PRR, CWR, slow start after idle | `tcp_cong_control`, `tcp_slow_start_after_idle_check` | not called for a congestion control that has `delivered` |
//! | pacing | `tcp_update_pacing_rate` | the same, and the rate is the socket's maximum |
//! | another flow hash after a timeout | `sk_rethink_txhash` | `sk_txrehash` is 0: the flow stays one flow for the queues on its way, and IPv6 stays on its path |
//!
//! # The timeout
//!
//! The kernel's timers count jiffies, and halving leaves even numbers. A timer of n jiffies fires
//! between n and n + 1 jiffies after it was set, and n + 1 if it was set by a timer: what is asked
//! for is rounded to the nearest n + 1 with an even n of at least 2. So timeouts in a row are
//! equally far apart, at most a jiffy from what was asked for (at 250 jiffies a second 12 ms, 20
//! ms, 28 ms …), and the first one after progress comes up to a jiffy sooner. Above 63 jiffies the
//! timer wheel is 8 jiffies coarse, and fires later by up to so many.
//!
//! The bound a jiffy above it leaves a closed socket, whose data is still to be delivered, alive:
//! one whose timeout has reached the bound is given up (`tcp_write_timeout`). Where the peer
//! closes its window the bound is as it was, for there it says how long to ask.
//!
//! The kernel also reckons from the bound how long `tcp_retries2` timeouts take
//! (`tcp_model_timeout`), and gives a connection up that had no answer for so long: with a short
//! bound, after seconds. A flow that waits its turn is not dead, so the time is said: half an hour,
//! where the application has not said another (`TCP_USER_TIMEOUT`).
//!
//! It counts from the last progress, unless another timer has taken its place: that gives it back
//! counting from when the first packet was sent last. The tail loss probe's does where the
//! namespace has them (`sysctl net.ipv4.tcp_early_retrans`, 3 by default; 0 is better), RACK's
//! after an ACK that was overtaken by a later one and yet has news.
//!
//! # A probe
//!
//! Retransmitting sends as much of the first unacknowledged packet as the peer's window takes
//! (`__tcp_retransmit_skb`). [`TimeoutOnly::on_timeout`] closes that window to one byte, and opens
//! it when that byte is on its way, before the timer's handler ends. The packet then is in two: the
//! byte, which all further probes repeat, and the rest.

use super::{
    bindings::{
        weft_jiffy_us, weft_sk_set_txrehash, weft_sk_txrehash, weft_tcp_allow_tlp,
        weft_tcp_delivered, weft_tcp_forget_patience, weft_tcp_lost, weft_tcp_now_us,
        weft_tcp_retransmits, weft_tcp_rto_max, weft_tcp_set_patience, weft_tcp_set_rto,
        weft_tcp_set_rto_max, weft_tcp_set_snd_wnd, weft_tcp_snd_wnd, weft_tcp_timeout_only,
        weft_tcp_unmark_lost, weft_tcp_unpaced,
    },
    congestion::Socket,
};

/// The longest timeout: the kernel's, in µs.
pub const MAX_TIMEOUT_US: u32 = 120_000_000;

/// How long a connection lives without an answer, in ms. The kernel counts it in µs, with a sign.
const PATIENCE_MS: u32 = 1_800_000;

/// A peer's window that lets one byte through.
const ONE_BYTE: u32 = 1;

/// One socket's.
///
/// Each of the congestion control's callbacks calls the method of that name here first.
#[derive(Clone, Copy)]
pub struct TimeoutOnly {
    /// In jiffies, even.
    timeout: u32,
    /// `icsk_rto_max` before, in jiffies.
    bound_before: u32,
    /// `sk_txrehash` before.
    rehash_before: u8,
    /// How many packets had been acknowledged when that was last asked for; wraps.
    delivered: u32,
    /// How many packets had been marked lost (`tp->lost`) when that was last looked at.
    lost: u32,
    /// The peer's window, in bytes, while it is closed to one byte for a probe; else 0.
    peer_window: u32,
    /// When the last timeout was, in µs of `tp->tcp_mstamp`; 0: there was none.
    last_us: u64,
}

impl TimeoutOnly {
    /// For a connection that is being established; the timeout in µs.
    pub fn new(socket: &mut Socket<'_>, timeout_us: u32) -> Self {
        // SAFETY: A C function without pointers or preconditions.
        let jiffy_us = unsafe { weft_jiffy_us() };
        let halves = timeout_us
            .min(MAX_TIMEOUT_US)
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
                bound_before: weft_tcp_rto_max(sk),
                rehash_before,
                delivered: weft_tcp_delivered(sk),
                lost: weft_tcp_lost(sk),
                peer_window: 0,
                last_us: 0,
            }
        };
        new.rule(socket);
        new
    }

    /// An ACK was taken apart, and nothing was concluded from it yet.
    pub fn in_ack_event(&mut self, socket: &mut Socket<'_>) {
        self.open_peer_window(socket);
        self.rule(socket);
    }

    /// How many packets were acknowledged for the first time since this was last asked.
    pub fn delivered(&mut self, socket: &mut Socket<'_>) -> u32 {
        // SAFETY: As in new().
        let delivered = unsafe { weft_tcp_delivered(socket.as_ptr()) };
        let new = delivered.wrapping_sub(self.delivered);
        // A packet that the network doubled is subtracted, and was never counted.
        if new > u32::MAX / 2 {
            return 0;
        }
        self.delivered = delivered;
        new
    }

    /// Something may be sent next, for the first time or again.
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
        }
    }

    /// A packet is sent, and no other is in flight.
    pub fn transmit_start(&mut self, socket: &mut Socket<'_>) {
        self.open_peer_window(socket);
        let sk = socket.as_ptr();
        // SAFETY: As in new().
        unsafe {
            // In a timeout the kernel is about to double it.
            if weft_tcp_retransmits(sk) == 0 {
                weft_tcp_set_rto(sk, self.timeout);
            }
        }
    }

    /// The timer fired: all that is in flight is marked lost, and the first packet is about to be
    /// sent again, or one byte of it.
    pub fn on_timeout(&mut self, socket: &mut Socket<'_>, one_byte: bool) {
        self.open_peer_window(socket);
        let sk = socket.as_ptr();
        // SAFETY: As in new().
        unsafe {
            self.lost = weft_tcp_lost(sk);
            self.last_us = weft_tcp_now_us(sk);
            weft_tcp_set_rto(sk, self.timeout / 2);
            if one_byte {
                let window = weft_tcp_snd_wnd(sk);
                if window > ONE_BYTE {
                    self.peer_window = window;
                    weft_tcp_set_snd_wnd(sk, ONE_BYTE);
                }
            }
        }
    }

    /// The socket takes another congestion control, or goes.
    pub fn release(&mut self, socket: &mut Socket<'_>) {
        self.open_peer_window(socket);
        let sk = socket.as_ptr();
        // SAFETY: As in new().
        unsafe {
            weft_tcp_set_rto_max(sk, self.bound_before);
            weft_sk_set_txrehash(sk, self.rehash_before);
            weft_tcp_allow_tlp(sk);
            weft_tcp_forget_patience(sk, PATIENCE_MS);
        }
    }

    /// What holds from now on, until the kernel overwrites it on the next ACK.
    fn rule(&self, socket: &mut Socket<'_>) {
        let sk = socket.as_ptr();
        // SAFETY: As in new().
        unsafe {
            let bound = if weft_tcp_snd_wnd(sk) == 0 {
                self.bound_before
            } else {
                self.timeout.saturating_add(1)
            };
            weft_tcp_timeout_only(sk, self.timeout, bound);
            weft_tcp_set_patience(sk, PATIENCE_MS);
        }
    }

    fn open_peer_window(&mut self, socket: &mut Socket<'_>) {
        if self.peer_window == 0 {
            return;
        }
        let sk = socket.as_ptr();
        // SAFETY: As in new().
        unsafe {
            // Else an ACK has brought the peer's.
            if weft_tcp_snd_wnd(sk) == ONE_BYTE {
                weft_tcp_set_snd_wnd(sk, self.peer_window);
            }
        }
        self.peer_window = 0;
    }
}
