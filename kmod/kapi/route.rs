// SPDX-License-Identifier: GPL-2.0-only

//! The next hop of a socket's packets.

use super::{bindings::weft_sk_route, socket::Socket};

/// The device by which the socket's packets leave, and its peer's address as IPv6 or IPv4-mapped.
/// `None` if it has no route.
pub fn of(socket: &Socket<'_>) -> Option<(u32, [u8; 16])> {
    let mut to = [0; 16];
    // SAFETY: Valid and locked (invariant of Socket); there is room for an address.
    let device = unsafe { weft_sk_route(socket.as_ptr(), to.as_mut_ptr()) };
    (device != 0).then_some((device, to))
}
