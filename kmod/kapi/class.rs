// SPDX-License-Identifier: GPL-2.0-only

//! In which of a port's queues a socket's packets wait.
//!
//! A class is a priority and a code point (DSCP): the first becomes each packet's `skb->priority`,
//! by which the host's own qdisc can tell it, the second is in its header, for filters at switches.
//! Both are the socket's, and each packet gets them when it is sent, or sent again.

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
    /// The socket's.
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

    /// Makes it the socket's from the next packet on.
    pub fn apply(self, socket: &mut Socket<'_>) {
        // SAFETY: As in of().
        unsafe { weft_sk_set_class(socket.as_ptr(), self.dscp & 0x3f, self.priority) }
    }
}
