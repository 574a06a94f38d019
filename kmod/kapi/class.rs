// SPDX-License-Identifier: GPL-2.0-only

//! The queue of a port in which a socket's packets wait.
//!
//! A class is a priority and a code point (DSCP). The priority becomes each packet's
//! `skb->priority`, by which the host's own qdisc classifies it; the DSCP is in its header, for
//! filters at switches. Both belong to the socket, and each packet gets them whenever it is sent or
//! retransmitted.

use super::{
    bindings::{weft_sk_dscp, weft_sk_priority, weft_sk_set_class},
    socket::Socket,
};

/// A class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// 0 to 63.
    pub dscp: u8,
    /// `skb->priority`.
    pub priority: u32,
}

impl Class {
    /// The socket's class.
    pub fn of(socket: &Socket<'_>) -> Self {
        let sk = socket.as_ptr();
        // SAFETY: Valid and locked (invariant of Socket).
        unsafe {
            Self {
                dscp: weft_sk_dscp(sk),
                priority: weft_sk_priority(sk),
            }
        }
    }

    /// Gives the socket this class, from the next packet on.
    pub fn apply(self, socket: &mut Socket<'_>) {
        // SAFETY: As in of().
        unsafe { weft_sk_set_class(socket.as_ptr(), self.dscp & 0x3f, self.priority) }
    }
}
