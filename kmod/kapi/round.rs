// SPDX-License-Identifier: GPL-2.0-only

//! Consecutive windows of data, as Linux's DCTCP delimits them: the next window begins when all
//! data sent by the beginning of this one is acknowledged. And the bytes that a socket sends.

use super::{
    bindings::{
        weft_tcp_arrived, weft_tcp_mss, weft_tcp_round_over, weft_tcp_round_passed,
        weft_tcp_smoothed_rtt_us, weft_tcp_snd_nxt,
    },
    socket::Socket,
};

/// The end of a window of one socket.
#[derive(Clone, Copy)]
pub struct Trip {
    /// As a sequence number.
    end: u32,
}

impl Trip {
    /// For a window that begins now.
    pub fn new(socket: &Socket<'_>) -> Self {
        Self {
            // SAFETY: Valid and locked (invariant of Socket).
            end: unsafe { weft_tcp_snd_nxt(socket.as_ptr()) },
        }
    }

    /// Whether the window is acknowledged; then the next one begins.
    pub fn over(&mut self, socket: &mut Socket<'_>) -> bool {
        // SAFETY: As in new(); `end` is a valid place.
        unsafe { weft_tcp_round_over(socket.as_ptr(), &mut self.end) }
    }

    /// Whether something is acknowledged that was sent after the window's beginning.
    pub fn passed(&self, socket: &Socket<'_>) -> bool {
        // SAFETY: As in new().
        unsafe { weft_tcp_round_passed(socket.as_ptr(), self.end) }
    }
}

/// The window of one socket, and how many packets arrive in it.
#[derive(Clone, Copy)]
pub struct Round {
    trip: Trip,
    /// Packets that had arrived at the last query; wraps.
    arrived: u32,
}

impl Round {
    /// For a connection that is established.
    pub fn new(socket: &mut Socket<'_>) -> Self {
        Self {
            trip: Trip::new(socket),
            // SAFETY: Valid and locked (invariant of Socket).
            arrived: unsafe { weft_tcp_arrived(socket.as_ptr()) },
        }
    }

    /// How many packets have arrived at the other end since the last call, including duplicates.
    pub fn arrived(&mut self, socket: &mut Socket<'_>) -> u32 {
        // SAFETY: As in new().
        let arrived = unsafe { weft_tcp_arrived(socket.as_ptr()) };
        let new = arrived.wrapping_sub(self.arrived);
        self.arrived = arrived;
        new
    }

    /// Whether the window is acknowledged; then the next one begins.
    pub fn over(&mut self, socket: &mut Socket<'_>) -> bool {
        self.trip.over(socket)
    }
}

/// The bytes of new data that a socket sends: retransmissions do not count.
#[derive(Clone, Copy)]
pub struct Sent {
    /// The next byte at the last query, as a sequence number.
    next: u32,
}

impl Sent {
    /// Counts from now on.
    pub fn new(socket: &Socket<'_>) -> Self {
        Self {
            // SAFETY: Valid and locked (invariant of Socket).
            next: unsafe { weft_tcp_snd_nxt(socket.as_ptr()) },
        }
    }

    /// How many bytes were sent since the last call.
    pub fn bytes(&mut self, socket: &Socket<'_>) -> u32 {
        let now = Self::new(socket);
        now.next.wrapping_sub(core::mem::replace(self, now).next)
    }
}

impl Socket<'_> {
    /// The most payload of a packet, in bytes.
    pub fn mss(&self) -> u32 {
        // SAFETY: Valid and locked (invariant).
        unsafe { weft_tcp_mss(self.as_ptr()) }
    }

    /// The smoothed round-trip time (RFC 6298), in µs; 0 if none was measured.
    pub fn smoothed_rtt_us(&self) -> u32 {
        // SAFETY: Valid and locked (invariant).
        unsafe { weft_tcp_smoothed_rtt_us(self.as_ptr()) }
    }
}
