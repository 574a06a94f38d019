// SPDX-License-Identifier: GPL-2.0-only

//! What is known of the flow that a socket is sending: what the application declared through socket
//! options of weft's own level, and the data that it has written.
//!
//! An eBPF program (`ebpf/programs`, map `WEFT_FLOWS`) keeps the options in the socket's storage.
//! It runs with the socket locked, as callbacks do. The value is recognised by its first bytes,
//! since not every kernel is given the map's name: aya gives none if it cannot parse the kernel's
//! release, such as `7.3-amd64`. A value of another version of weft is not read, and the kernel's
//! log says so once. Without the program, or without options, only the data written and not yet
//! acknowledged is known.

use core::mem::MaybeUninit;

use super::{
    bindings::{
        weft_described, weft_sk_described, weft_tcp_bytes_acked, weft_tcp_has_unsent,
        weft_tcp_settled, weft_tcp_unacked_bytes,
    },
    socket::Socket,
};

/// `Flow::BASE_KNOWN` of the eBPF programs.
const BASE_KNOWN: u32 = 1;

/// A flow, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Described {
    /// Bytes not yet acknowledged.
    pub remaining: u64,
    /// Whether the application declared the size; otherwise `remaining` counts the data that it has
    /// written.
    pub sized: bool,
    /// In ns of `CLOCK_MONOTONIC`; 0: none.
    pub deadline: u64,
    /// Its priority group or label; 0: none.
    pub class: u32,
}

impl Described {
    /// The socket's flow.
    pub fn of(socket: &Socket<'_>) -> Self {
        let sk = socket.as_ptr();
        let mut said = MaybeUninit::<weft_described>::zeroed();
        // SAFETY: Valid and locked (invariant of Socket); any bytes are a value of the structure,
        // and all-zero ones were there.
        let (known, said, acked, queued) = unsafe {
            (
                weft_sk_described(sk, said.as_mut_ptr()),
                said.assume_init_ref(),
                weft_tcp_bytes_acked(sk),
                u64::from(weft_tcp_unacked_bytes(sk)),
            )
        };
        if !known {
            return Self {
                remaining: queued,
                ..Self::default()
            };
        }
        // A flow declared before the connection was established begins with its first byte.
        let base = if said.flags & BASE_KNOWN != 0 {
            said.base
        } else {
            0
        };
        // Bytes before the flow's first and after its last belong to an earlier flow, or to none.
        let sent = acked.saturating_sub(base);
        let (remaining, sized) = match said.size.checked_sub(sent) {
            None | Some(0) => (queued, false),
            Some(remaining) => (remaining, true),
        };
        Self {
            remaining,
            sized,
            deadline: said.deadline,
            class: said.class,
        }
    }
}

impl Socket<'_> {
    /// Whether there is written data that has not been sent.
    pub fn has_unsent(&self) -> bool {
        // SAFETY: Valid and locked (invariant).
        unsafe { weft_tcp_has_unsent(self.as_ptr()) }
    }

    /// Whether all data that was sent is acknowledged.
    pub fn settled(&self) -> bool {
        // SAFETY: Valid and locked (invariant).
        unsafe { weft_tcp_settled(self.as_ptr()) }
    }
}
