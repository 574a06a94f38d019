// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! "The packet scheduler uses deficit round robin to implement fair queuing among the queues that
//! are not paused" (§3.3.1).
//!
//! M. Shreedhar, G. Varghese: "Efficient Fair Queuing Using Deficit Round Robin", SIGCOMM 1995. A
//! queue whose **turn** begins gets a **quantum** of bytes on top of its **deficit**, the unused
//! bytes of its last turn, and sends packets as long as they fit. With a quantum no less than the
//! longest packet, each turn sends at least one: constant work per packet.
//!
//! Only queues that have packets and are not paused are in the **round**, a circle linked through
//! the queues; a paused queue keeps its deficit. A pause during a queue's own turn only interrupts
//! it: the queue's next turn continues the interrupted one, without another quantum. Otherwise each
//! such pause would add to the deficit, and one turn could become arbitrarily long.
//!
//! # Invariant
//!
//! Between turns, a queue's deficit is less than a quantum.

/// No queue.
const NONE: u16 = u16::MAX;

/// A queue's data for its round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    next: u16,
    prev: u16,
    /// Bytes that the queue may send in this turn; between turns, the bytes left over.
    deficit: u32,
}

/// The queues of one priority class that may send.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// The queue whose turn it is, or [`NONE`].
    head: u16,
    /// The head's turn has begun: it has received its quantum.
    begun: bool,
}

impl Rounds {
    /// An empty round.
    pub const fn new() -> Self {
        Self {
            head: NONE,
            begun: false,
        }
    }

    /// The queue whose turn it is.
    #[inline]
    pub fn head(&self) -> Option<u16> {
        (self.head != NONE).then_some(self.head)
    }

    /// Inserts a queue that is not in the round, as the last to get a turn.
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

    /// Removes a queue that is in the round.
    #[inline]
    pub fn remove<T: AsMut<Turn>>(&mut self, queues: &mut [T], queue: u16) {
        let Some(&mut Turn { next, prev, .. }) = turn(queues, queue) else {
            invariant!("a queue that does not exist leaves the round");
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

    /// The queue whose turn it is to send, after subtracting its first packet, of `len` bytes, from
    /// its deficit.
    ///
    /// A packet longer than the quantum is sent nevertheless, in a turn of its own.
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
        // Without a pause the last turn would have sent the packet or ended: the packet fits only
        // if that turn was interrupted.
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
    /// The queue became empty: its deficit is not kept.
    #[inline]
    pub fn forfeit(&mut self) {
        self.deficit = 0;
    }
}

#[inline(always)]
fn turn<T: AsMut<Turn>>(queues: &mut [T], queue: u16) -> Option<&mut Turn> {
    queues.get_mut(usize::from(queue)).map(AsMut::as_mut)
}
