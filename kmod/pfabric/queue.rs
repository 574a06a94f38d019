// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The queue of a pFabric switch port.
//!
//! M. Alizadeh, S. Yang, M. Sharif, S. Katti, N. McKeown, B. Prabhakar, S. Shenker: "pFabric:
//! Minimal Near-Optimal Datacenter Transport", SIGCOMM 2013, §4.1.
//!
//! # Vocabulary
//!
//! - **rank**: a packet's priority number, a `u32`; lower is more urgent. In the paper it is the
//!   number of bytes that its flow has yet to send.
//! - **most urgent** packet: the one of lowest rank; among equals the one that arrived first.
//! - **least urgent** packet: the one of highest rank; among equals the one that arrived last.
//! - **evicted**: dropped from the queue for a more urgent packet. **Rejected**: dropped on
//!   arrival.
//! - **overtaken**: the most urgent packet, when another packet of its flow is sent instead.
//!
//! # Algorithm
//!
//! **Enqueue.** If the queue is full, the least urgent packet is dropped; the arriving packet is
//! included in the comparison.
//!
//! **Dequeue.** "We dequeue the earliest packet from the flow that has the highest priority packet
//! in the queue." A flow's rank falls as it sends, so its latest packet is its most urgent one.
//! Sent first, it would leave the earlier ones behind, for as long as the flow continues
//! ("starvation"). The paper's Figure 2:
//!
//! ```text
//!             sent next                      most urgent
//!                 ▼                               ▼
//!      (b, 4)  (a, 3)  (c, 5)              ┌── (a, 1)        (flow, rank)
//!      earliest   ▲                        │    latest
//!                 └──── same flow: a ──────┘
//! ```
//!
//! "Even though the last packet (a, 1) has the highest priority, the second packet in the queue
//! which belongs to the same flow (a) is sent out because it arrived earlier." Without starvation
//! prevention (a, 1) is sent. If the queue were full, an arriving packet of rank 4 would replace
//! (c, 5).
//!
//! # Structure
//!
//! ```text
//!  PFabric ── slots: one per packet ─┬─ packet, length
//!     │                              ├─ links to packets of the same rank ◀── ranks: RankTrie
//!     └────── pool: free slots       └─ links to packets of the same flow ◀── flows: FlowTable
//! ```
//!
//! Every packet is in two structures: ordered by rank, which gives the most and the least urgent
//! one, and in its flow's list in order of arrival, which gives the flow's earliest one. Both are
//! linked through the slots. All memory is reserved in the constructor: 120 to 124 bytes per packet
//! of the limit, with a packet handle of 8 bytes.
//!
//! # Cost
//!
//! Enqueue, dequeue and peek take constant time: at most 7 levels of the trie (see [`rank_trie`]),
//! whatever the backlog, and one bucket of a hash table. See `benches/instructions`.
//!
//! [`rank_trie`]: crate::common::rank_trie
//!
//! # Deviations from the paper
//!
//! - A flow is a 32-bit hash, as §4.4 suggests: flows that collide are served as one, which "only
//!   marginally" changes the order.
//! - The paper does not say which of two packets of equal rank goes first. Here the earlier one is
//!   more urgent, so packets of equal rank leave in order, and the later one is dropped.
//! - §4.1 drops the queued packet of lowest priority for any arriving packet. Here an arriving
//!   packet that is itself the least urgent is dropped instead, as the argument of §4.3 requires
//!   ("when a packet is dropped in pFabric, by design, it has the lowest priority among all
//!   buffered packets").
//! - The paper counts the buffer in full-sized packets. Here the limit is in packets, in bytes, or
//!   both. With a limit in bytes a longer packet may replace several shorter ones: the least urgent
//!   ones are evicted until it fits. No packet is evicted in vain: if evicting all less urgent ones
//!   would not make enough room, the arriving packet is rejected and all others stay. To find out,
//!   enqueue visits the least urgent packets, from the end, until their lengths suffice. It visits
//!   at most [`MOST_EVICTED`]: a packet that would replace more is rejected, as is one longer than
//!   the limit in bytes. This concerns only large packets, which have yet to be segmented, among
//!   the smallest ones, and bounds the time of each call.
//! - A trie and a hash table replace flip-flops and comparators that examine all packets at once.

use crate::common::discipline::{Discipline, Fate, Next};
use crate::common::flow_table::{FlowLinks, FlowTable};
use crate::common::index_pool::{IndexPool, MAX_CAPACITY};
use crate::common::rank_trie::{Place, RankLinks, RankTrie};
use crate::common::store::Store;

/// The most packets a queue can be made for.
pub const MAX_PACKETS: u32 = MAX_CAPACITY;

/// The most packets that are evicted for one: a frame of 9,000 bytes replaces 150 of 60 bytes.
pub const MOST_EVICTED: u32 = 256;

/// The capacity of a queue, and how it serves packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most packets queued at once, 1..=[`MAX_PACKETS`]; other values are clamped.
    pub packets: u32,
    /// The most bytes queued at once; 0: no limit.
    pub bytes: u32,
    /// Whether the earliest packet of the most urgent packet's flow is sent, rather than that
    /// packet itself.
    pub starvation_prevention: bool,
}

/// The events at a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets dropped from the queue for more urgent ones, or because limits shrank.
    pub evicted: u64,
    /// Their bytes.
    pub evicted_bytes: u64,
    /// Packets dropped on arrival.
    pub rejected: u64,
    /// Their bytes.
    pub rejected_bytes: u64,
    /// Dequeues in which starvation prevention sent a packet other than the most urgent one.
    pub overtaken: u64,
    /// The most packets queued at once.
    pub highest_len: u32,
    /// The most bytes queued at once.
    pub highest_bytes: u64,
}

/// One packet of the queue, or room for one; 32 bytes in the kernel, where `P` is a pointer.
struct Slot<P> {
    /// `None`: free.
    packet: Option<P>,
    /// Bytes of the packet. During a take-over, for a slot whose packet has moved: the slot to
    /// which it has moved.
    len: u32,
    rank: RankLinks,
    flow: FlowLinks,
}

impl<P> AsRef<RankLinks> for Slot<P> {
    #[inline]
    fn as_ref(&self) -> &RankLinks {
        &self.rank
    }
}

impl<P> AsMut<RankLinks> for Slot<P> {
    #[inline]
    fn as_mut(&mut self) -> &mut RankLinks {
        &mut self.rank
    }
}

impl<P> AsRef<FlowLinks> for Slot<P> {
    #[inline]
    fn as_ref(&self) -> &FlowLinks {
        &self.flow
    }
}

impl<P> AsMut<FlowLinks> for Slot<P> {
    #[inline]
    fn as_mut(&mut self) -> &mut FlowLinks {
        &mut self.flow
    }
}

/// A pFabric queue of packets `P`, in memory from `S`.
///
/// `P` stands for a packet. The queue owns it, and never drops it: a packet is returned by
/// [`dequeue`](Self::dequeue), as an error of [`enqueue`](Self::enqueue), or through a callback.
/// Only dropping the queue itself drops the packets in it.
pub struct PFabric<P, S: Store> {
    slots: S::Of<Slot<P>>,
    pool: IndexPool<S>,
    ranks: RankTrie<S>,
    flows: FlowTable<S>,
    bytes: u64,
    /// `limits.bytes`, or the highest number if there is no limit.
    max_bytes: u64,
    limits: Limits,
    counters: Counters,
}

/// The properties of an arriving packet that a queue uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Lower is more urgent.
    pub rank: u32,
    /// Hash of its flow.
    pub flow: u32,
    /// Bytes, at least 1.
    pub len: u32,
}

impl<P, S: Store> Discipline for PFabric<P, S> {
    type Packet = P;
    type Arrival = Arrival;
    type Shared = ();

    #[inline(always)] // once in a module
    fn enqueue(
        &mut self,
        (): &mut (),
        packet: P,
        arrival: &Arrival,
        _now: impl FnOnce() -> u64,
        mut evict: impl FnMut(P),
    ) -> Fate<P> {
        let Arrival { rank, flow, len } = *arrival;
        match self.enqueue(packet, rank, flow, len, |packet, _| evict(packet)) {
            Ok(()) => Fate::Queued,
            Err(packet) => Fate::Refused(packet),
        }
    }

    #[inline(always)] // as enqueue
    fn dequeue(&mut self, (): &mut (), _now: impl FnOnce() -> u64) -> Next<P> {
        self.dequeue().map_or(Next::Nothing, Next::Packet)
    }

    fn clear(&mut self, (): &mut (), drop: impl FnMut(P)) {
        self.clear(drop);
    }

    fn packets(&self) -> u32 {
        self.len()
    }
}

impl<P, S: Store> PFabric<P, S> {
    /// An empty queue. Reserves all the memory it will ever need.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(limits: Limits) -> Result<Self, S::Error> {
        let packets = limits.packets.clamp(1, MAX_PACKETS);
        let slots = S::allocate(packets as usize, || Slot {
            packet: None,
            len: 0,
            rank: RankLinks::default(),
            flow: FlowLinks::default(),
        })?;
        Ok(Self {
            slots,
            pool: IndexPool::new(packets)?,
            ranks: RankTrie::new(packets)?,
            flows: FlowTable::new(packets)?,
            bytes: 0,
            max_bytes: if limits.bytes == 0 {
                u64::MAX
            } else {
                limits.bytes.into()
            },
            limits: Limits { packets, ..limits },
            counters: Counters::default(),
        })
    }

    /// Queues an arriving packet of `len` bytes, at least 1.
    ///
    /// Packets dropped to make room for it go to `evict`, with their lengths, the least urgent one
    /// first.
    ///
    /// # Errors
    ///
    /// The arriving packet, if it is itself the one to drop. No packet is then evicted.
    #[inline]
    pub fn enqueue(
        &mut self,
        packet: P,
        rank: u32,
        flow: u32,
        len: u32,
        evict: impl FnMut(P, u32),
    ) -> Result<(), P> {
        let fits = self.bytes.wrapping_add(len.into()) <= self.max_bytes;
        let Some(slot) = (if fits { self.pool.take() } else { None })
            .or_else(|| self.make_room(rank, len, evict))
        else {
            self.counters.rejected = self.counters.rejected.wrapping_add(1);
            self.counters.rejected_bytes = self.counters.rejected_bytes.wrapping_add(len.into());
            return Err(packet);
        };
        let rank = self.ranks.insert(&mut self.slots, slot, rank);
        let flow = self.flows.append(&mut self.slots, slot, flow);
        self.fill(
            slot,
            Slot {
                packet: Some(packet),
                len,
                rank,
                flow,
            },
        );
        if self.len() > self.counters.highest_len {
            self.counters.highest_len = self.len();
        }
        if self.bytes > self.counters.highest_bytes {
            self.counters.highest_bytes = self.bytes;
        }
        Ok(())
    }

    /// Takes the packet to send now; `None` if the queue is empty.
    #[inline]
    pub fn dequeue(&mut self) -> Option<P> {
        let place = self.ranks.first()?;
        let most_urgent = place.first();
        if self.limits.starvation_prevention {
            let earliest = self.flows.first(&self.slots, most_urgent)?;
            if earliest != most_urgent {
                return self.dequeue_instead(earliest);
            }
        }
        Some(self.remove(most_urgent, place)?.0)
    }

    /// The packet that [`dequeue`](Self::dequeue) would return now.
    #[inline]
    pub fn peek(&self) -> Option<&P> {
        let mut slot = self.ranks.first()?.first();
        if self.limits.starvation_prevention {
            slot = self.flows.first(&self.slots, slot)?;
        }
        self.slots.get(usize::from(slot))?.packet.as_ref()
    }

    /// Removes all packets, the most urgent one first, and hands them to `drop`. Counters stay.
    pub fn clear(&mut self, mut drop: impl FnMut(P)) {
        while let Some(place) = self.ranks.first() {
            let Some((packet, _)) = self.remove(place.first(), place) else {
                invariant!("a slot in the trie has no packet");
                return;
            };
            drop(packet);
        }
    }

    /// Gives an existing queue new limits: `self`, which was made for these and is empty, takes
    /// over the contents of `old`, which is then empty.
    ///
    /// If `self` holds less, the most urgent packets are kept and the others go to `evict`, with
    /// their lengths, the least urgent one first. Packets keep their order of arrival; counters
    /// continue. The time is proportional to the packets and limits. No memory is reserved or
    /// freed: the caller makes `self` before it takes its lock and drops `old` after it has
    /// released it.
    pub fn take_over(&mut self, old: &mut Self, mut evict: impl FnMut(P, u32)) {
        while old.len() > self.limits.packets || old.bytes > self.max_bytes {
            if !old.evict_least_urgent(&mut evict) {
                break;
            }
        }
        self.counters = old.counters;

        // Equal ranks keep their order if packets are inserted from the most urgent one on. That is
        // not the order of arrival within a flow, so the flows follow when all packets have moved.
        while let Some(place) = old.ranks.first() {
            let from = place.first();
            let Some(slot) = old.slots.get_mut(usize::from(from)) else {
                invariant!("a place in the trie has no slot");
                return;
            };
            let (links, len) = (slot.rank, slot.len);
            let Some(packet) = slot.packet.take() else {
                invariant!("a slot in the trie has no packet");
                return;
            };
            let Some(to) = self.pool.take() else {
                invariant!("the new queue holds less than its limit");
                return;
            };
            slot.len = to.into();
            let rank = self.ranks.insert(&mut self.slots, to, links.rank());
            let flow = FlowLinks::default();
            self.fill(
                to,
                Slot {
                    packet: Some(packet),
                    len,
                    rank,
                    flow,
                },
            );
            old.ranks.remove(&mut old.slots, from, links, place);
        }
        old.flows.drain(&old.slots, |from, flow| {
            if let Some(slot) = old.slots.get(usize::from(from)) {
                let to = slot.len as u16;
                let links = self.flows.append(&mut self.slots, to, flow);
                if let Some(slot) = self.slots.get_mut(usize::from(to)) {
                    slot.flow = links;
                }
            }
            old.pool.give_back(from);
        });
        old.bytes = 0;
    }

    /// Packets queued.
    #[inline]
    pub fn len(&self) -> u32 {
        self.pool.taken()
    }

    /// Whether no packet is queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes queued.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Flows with queued packets.
    #[inline]
    pub fn flows(&self) -> u32 {
        self.flows.len()
    }

    /// The limits in force.
    #[inline]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The events so far.
    #[inline]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Puts a packet into a slot that is taken from the pool and still empty.
    #[inline(always)]
    fn fill(&mut self, slot: u16, with: Slot<P>) {
        self.bytes = self.bytes.wrapping_add(with.len.into());
        if let Some(slot) = self.slots.get_mut(usize::from(slot)) {
            // The slot holds no packet that could be dropped, which the compiler cannot know.
            core::mem::forget(core::mem::replace(slot, with));
        }
    }

    /// Removes the packet in `slot`, whose rank is at `place`; returns it and its length.
    #[inline(always)]
    fn remove(&mut self, slot: u16, place: Place) -> Option<(P, u32)> {
        let slots = &mut *self.slots;
        let Slot {
            packet,
            len,
            rank,
            flow,
        } = slots.get_mut(usize::from(slot))?;
        let packet = packet.take()?;
        let (len, rank, flow) = (*len, *rank, *flow);
        self.bytes = self.bytes.wrapping_sub(len.into());
        self.pool.give_back(slot);
        self.flows.remove(slots, slot, flow);
        self.ranks.remove(slots, slot, rank, place);
        Some((packet, len))
    }

    /// The rest of a dequeue in which the most urgent packet is overtaken by the one in `slot`.
    fn dequeue_instead(&mut self, slot: u16) -> Option<P> {
        let rank = self.slots.get(usize::from(slot))?.rank.rank();
        let place = self.ranks.find(rank)?;
        self.counters.overtaken = self.counters.overtaken.wrapping_add(1);
        Some(self.remove(slot, place)?.0)
    }

    /// Evicts packets less urgent than an arriving packet of `rank` until it fits, and takes a slot
    /// for it. Evicts nothing if that would not suffice.
    #[cold]
    fn make_room(&mut self, rank: u32, len: u32, mut evict: impl FnMut(P, u32)) -> Option<u16> {
        let excess = self
            .bytes
            .wrapping_add(len.into())
            .saturating_sub(self.max_bytes);
        if excess > self.bytes {
            return None;
        }
        let mut freed = 0;
        let mut packets = 0_u32;
        let mut place = self.ranks.last()?;
        'counted: loop {
            let first = place.first();
            let mut at = first;
            let mut next = self.slots.get(usize::from(at))?.rank;
            if next.rank() <= rank {
                return None;
            }
            loop {
                at = next.prev();
                let slot = self.slots.get(usize::from(at))?;
                freed = u64::wrapping_add(freed, slot.len.into());
                packets = packets.wrapping_add(1);
                if freed >= excess {
                    break 'counted;
                }
                if packets == MOST_EVICTED {
                    return None;
                }
                if at == first {
                    break;
                }
                next = slot.rank;
            }
            place = self.ranks.below(next.rank())?;
        }
        while packets > 0 && self.evict_least_urgent(&mut evict) {
            packets = packets.wrapping_sub(1);
        }
        self.pool.take()
    }

    /// Evicts one packet; false if there is none.
    fn evict_least_urgent(&mut self, evict: &mut impl FnMut(P, u32)) -> bool {
        let Some(place) = self.ranks.last() else {
            return false;
        };
        let Some(first) = self.slots.get(usize::from(place.first())) else {
            invariant!("a place in the trie has no slot");
            return false;
        };
        let Some((packet, len)) = self.remove(first.rank.prev(), place) else {
            invariant!("a slot in the trie has no packet");
            return false;
        };
        self.counters.evicted = self.counters.evicted.wrapping_add(1);
        self.counters.evicted_bytes = self.counters.evicted_bytes.wrapping_add(len.into());
        evict(packet, len);
        true
    }

    /// Checks that all parts agree. For tests: takes time proportional to the limit in packets.
    ///
    /// # Errors
    ///
    /// The violated invariant.
    #[doc(hidden)]
    pub fn check_invariants(&self) -> Result<(), &'static str> {
        let (mut by_rank, mut by_flow, mut bytes) = (0_u32, 0_u32, 0_u64);
        let mut last = None;
        self.ranks.check(&self.slots, |slot, rank| {
            let slot = self.slots.get(usize::from(slot)).ok_or("no such slot")?;
            if slot.packet.is_none() {
                return Err("a free slot is in the trie");
            }
            if last > Some(rank) {
                return Err("ranks are not in order");
            }
            last = Some(rank);
            by_rank = by_rank.wrapping_add(1);
            bytes = bytes.wrapping_add(slot.len.into());
            Ok(())
        })?;
        self.flows.check(&self.slots, |slot, _| {
            let slot = self.slots.get(usize::from(slot)).ok_or("no such slot")?;
            if slot.packet.is_none() {
                return Err("a free slot is in a flow");
            }
            by_flow = by_flow.wrapping_add(1);
            Ok(())
        })?;
        let mut free = 0_u32;
        self.pool
            .check(|slot| match self.slots.get(usize::from(slot)) {
                Some(Slot { packet: None, .. }) => {
                    free = free.wrapping_add(1);
                    Ok(())
                }
                _ => Err("a slot in use is in the pool"),
            })?;
        if by_rank != self.len() || by_flow != self.len() {
            return Err("a packet is missing from the trie or from its flow");
        }
        if free.wrapping_add(self.len()) != self.limits.packets {
            return Err("a slot is lost");
        }
        if bytes != self.bytes || self.bytes > self.max_bytes {
            return Err("the number of bytes is wrong");
        }
        Ok(())
    }
}
