// SPDX-License-Identifier: GPL-2.0-only

//! A socket whose marks and losses reduce its window by DCTCP's law, with a power of α: the actions
//! of its congestion control on each callback, at the points where Linux's `dctcp` has its own.

use super::{
    bindings::{tcp_ca_event, tcp_ca_event_CA_EVENT_LOSS},
    ecn::{Arrival, Ecn},
    recovery::Recovery,
    round::Round,
    socket::Socket,
};
use crate::common::dctcp::Dctcp;

/// The state of one socket.
#[derive(Clone, Copy)]
pub struct DctcpSender {
    law: Dctcp,
    ecn: Ecn,
    round: Round,
    reductions: u32,
    /// The window before the last loss.
    loss_window: u32,
    recovery: Recovery,
}

impl DctcpSender {
    /// For a connection that is established.
    pub fn new(socket: &mut Socket<'_>) -> Self {
        Self {
            law: Dctcp::new(),
            ecn: Ecn::new(socket),
            round: Round::new(socket),
            reductions: 0,
            loss_window: 0,
            recovery: Recovery::default(),
        }
    }

    /// α in 2^-10.
    pub fn alpha(&self) -> u16 {
        self.law.alpha()
    }

    /// How often the window was reduced; saturates.
    pub fn reductions(&self) -> u32 {
        self.reductions
    }

    /// Whether a loss is being repaired.
    pub fn recovers(&self) -> bool {
        self.recovery.is_on()
    }

    /// For [`in_ack_event`](super::congestion::CongestionControl::in_ack_event).
    pub fn in_ack_event(&mut self, socket: &mut Socket<'_>) {
        let marked = self.ecn.marked(socket);
        self.law.arrived(self.round.arrived(socket), marked);
        if self.round.over(socket) {
            self.law.round();
        }
    }

    /// For [`ssthresh`](super::congestion::CongestionControl::ssthresh), with the exponent of α in
    /// 2^-10. The kernel has seen a mark, or a loss, which it reports afterwards.
    pub fn ssthresh(&mut self, socket: &mut Socket<'_>, exponent: u32) -> u32 {
        let window = socket.snd_cwnd();
        self.loss_window = window;
        self.reductions = self.reductions.saturating_add(1);
        self.law.reduced(window, exponent)
    }

    /// A loss halves the window, whatever α is.
    fn lost(&mut self, socket: &mut Socket<'_>) {
        let window = socket.snd_cwnd();
        self.loss_window = window;
        socket.set_snd_ssthresh((window >> 1).max(2));
    }

    /// For [`set_state`](super::congestion::CongestionControl::set_state).
    pub fn set_state(&mut self, socket: &mut Socket<'_>, state: u8) {
        if self.recovery.begins(state) {
            self.lost(socket);
        }
    }

    /// For [`cwnd_event`](super::congestion::CongestionControl::cwnd_event).
    pub fn cwnd_event(&mut self, socket: &mut Socket<'_>, event: tcp_ca_event) -> Option<Arrival> {
        if event == tcp_ca_event_CA_EVENT_LOSS {
            self.lost(socket);
        }
        self.ecn.cwnd_event(socket, event)
    }

    /// For [`undo_cwnd`](super::congestion::CongestionControl::undo_cwnd).
    pub fn undo_cwnd(&self, socket: &Socket<'_>) -> u32 {
        socket.snd_cwnd().max(self.loss_window)
    }
}
