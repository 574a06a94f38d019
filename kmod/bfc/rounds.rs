// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! "The packet scheduler uses deficit round robin to implement fair queuing among the queues that
//! are not paused" (§3.3.1).
//!
//! M. Shreedhar, G. Varghese: "Efficient Fair Queuing Using Deficit Round Robin", SIGCOMM 1995. A
//! queue whose **turn** begins gets a **quantum** of bytes on top of its **deficit**, what it left
//! over, and sends packets as long as they fit. With a quantum no less than the longest packet,
//! each turn sends at least one: constant work per packet.
//!
//! Only queues that have packets and are not paused are in the **round**, a circle linked through
//! the queues; a queue that is paused takes what it has left over with it. A pause in a queue's own
//! turn only breaks it off: when it is the queue's turn again, that is the rest of the one before,
//! without another quantum. Were there one, each such pause would leave another rest, and they
//! would add up to a turn without end.
//!
//! # Invariant
//!
//! What a queue has left over is less than a quantum.

/// No queue.
const NONE: u16 = u16::MAX;

/// What a queue keeps for its round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    next: u16,
    prev: u16,
    /// Bytes that the queue may send in this turn; between turns, those that it left over.
    deficit: u32,
}

/// The queues of one priority class that may send.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Whose turn it is, or [`NONE`].
    head: u16,
    /// The head's turn has begun: it has had its quantum.
    begun: bool,
}

impl Rounds {
    /// No queue.
    pub const fn new() -> Self {
        Self {
            head: NONE,
            begun: false,
        }
    }

    /// Whose turn it is.
    #[inline]
    pub fn head(&self) -> Option<u16> {
        (self.head != NONE).then_some(self.head)
    }

    /// Puts a queue in that is not in the round: it is the last to come to its turn.
    #[inline]
    pub fn append<T: AsMut<Turn>>(&mut self, queues: &mut [T], queue: u16) {
        let (mut next, mut prev) = (queue, queue);
        if let Some(head) = turn(queues, self.head) {
            prev = head.prev;
            next = self.head;
            head.prev = queue;
            if let Some(last) = turn(queues, prev) {
                last.next = queue;
            }
        } else {
            self.head = queue;
            self.begun = false;
        }
        if let Some(turn) = turn(queues, queue) {
            turn.next = next;
            turn.prev = prev;
        }
    }

    /// Takes a queue out that is in the round.
    #[inline]
    pub fn remove<T: AsMut<Turn>>(&mut self, queues: &mut [T], queue: u16) {
        let Some(&mut Turn { next, prev, .. }) = turn(queues, queue) else {
            return;
        };
        if self.head == queue {
            self.head = if next == queue { NONE } else { next };
            self.begun = false;
        }
        if let Some(prev) = turn(queues, prev) {
            prev.next = next;
        }
        if let Some(next) = turn(queues, next) {
            next.prev = prev;
        }
    }

    /// Whose turn it is to send, after its first packet, of `len` bytes, was taken off its deficit.
    ///
    /// A packet longer than the quantum is sent all the same, in a turn of its own.
    #[inline]
    pub fn serve<T: AsMut<Turn>>(
        &mut self,
        queues: &mut [T],
        quantum: u32,
        len: impl Fn(&T) -> u32,
    ) -> Option<u16> {
        if self.begun {
            let queue = queues.get_mut(usize::from(self.head))?;
            let len = len(queue);
            let turn = queue.as_mut();
            if len <= turn.deficit {
                turn.deficit = turn.deficit.wrapping_sub(len);
                return Some(self.head);
            }
            self.head = turn.next;
        }
        let queue = queues.get_mut(usize::from(self.head))?;
        let len = len(queue);
        let turn = queue.as_mut();
        self.begun = true;
        // Without a pause the last turn ended, or the packet would have been sent in it: it fits
        // only if that turn was broken off.
        if len > turn.deficit {
            turn.deficit = turn.deficit.saturating_add(quantum);
        }
        turn.deficit = turn.deficit.saturating_sub(len);
        Some(self.head)
    }
}

impl Default for Rounds {
    fn default() -> Self {
        Self::new()
    }
}

impl Turn {
    /// The queue became empty: what it left over is not kept.
    #[inline]
    pub fn forfeit(&mut self) {
        self.deficit = 0;
    }
}

#[inline(always)]
fn turn<T: AsMut<Turn>>(queues: &mut [T], queue: u16) -> Option<&mut Turn> {
    queues.get_mut(usize::from(queue)).map(AsMut::as_mut)
}
