// SPDX-License-Identifier: GPL-2.0-only

//! The utilisations that acknowledgements bring back to a socket.
//!
//! An eBPF program (`ebpf/programs`, map `WEFT_ECHOES`) stores them in the socket's storage when a
//! packet arrives, before TCP sees the packet. If a process holds the socket meanwhile, packets
//! wait: TCP then handles each with the utilisation of the last one that arrived. The value is
//! recognised by its first bytes, see [`described`](super::described).

use core::mem::MaybeUninit;

use super::{
    bindings::{weft_echo, weft_sk_echo},
    socket::Socket,
};

/// The echoes of one socket.
#[derive(Clone, Copy)]
pub struct Echoes {
    /// How many had arrived at the last query; wraps.
    seen: u32,
}

/// The number of echoes so far and the last one's code; `None` if there was none.
fn last(socket: &Socket<'_>) -> Option<(u32, u32)> {
    let mut echo = MaybeUninit::<weft_echo>::zeroed();
    // SAFETY: Valid and locked (invariant of Socket); any bytes are a value of the structure, and
    // all-zero ones were there.
    unsafe {
        if !weft_sk_echo(socket.as_ptr(), echo.as_mut_ptr()) {
            return None;
        }
        let echo = echo.assume_init_ref();
        Some((echo.echoes, echo.echo))
    }
}

impl Echoes {
    /// For a connection that is established: those that arrive from now on.
    pub fn new(socket: &Socket<'_>) -> Self {
        Self {
            seen: last(socket).map_or(0, |(echoes, _)| echoes),
        }
    }

    /// How many had arrived at the last query; wraps.
    pub fn count(&self) -> u32 {
        self.seen
    }

    /// The code of the last echo, if one has arrived since the last call.
    pub fn next(&mut self, socket: &Socket<'_>) -> Option<u16> {
        let (echoes, code) = last(socket)?;
        if echoes == self.seen {
            return None;
        }
        self.seen = echoes;
        u16::try_from(code).ok().filter(|&code| code != 0)
    }
}
