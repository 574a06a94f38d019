// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! An arbiter's end of a session, which answers each packet that is not genuine with a RESET.

use weft_mechanisms::fastpass::frame::{Header, MAX_SIZE};
use weft_mechanisms::fastpass::session::{Demands, Received, Secret, Session};
use weft_mechanisms::heap::Heap;

/// Processes a packet; returns the RESET that answers it, if it is not genuine.
pub(super) fn receive(
    session: &mut Session<Heap>,
    now: u64,
    bytes: &[u8],
    secret: Secret,
    demands: &mut impl Demands,
) -> (Received, Option<Vec<u8>>) {
    let Ok(header) = Header::read(bytes) else {
        return (Received::Malformed, None);
    };
    let received = session.receive(now, header, &secret, demands);
    let Received::Unsynchronised { cookie } = received else {
        return (received, None);
    };
    let mut bytes = [0; MAX_SIZE];
    let size = session.reset(&secret, cookie, &mut bytes);
    (received, Some(bytes[..size].to_vec()))
}
