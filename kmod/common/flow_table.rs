// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Packets by flow, each flow in order of arrival.
//!
//! # Vocabulary
//!
//! - **flow**: a `u32` that packets of one flow share; in the kernel, its flow hash.
//! - **slot**: where the user of the table keeps one packet, an index into the user's own array.
//!   The table's only data per packet is the [`FlowLinks`] that the user embeds there.
//! - **ring**: all packets of one flow in order of arrival, doubly linked in a circle, so that the
//!   earliest one (**first**) gives the latest one (its `prev`).
//!
//! # Structure
//!
//! ```text
//!  buckets        chain of the flows in a bucket, each represented by its first packet
//!   0 │ ─┼──▶ a1 ─────────────▶ c1
//!   1 │  │    ⇅ ring of flow a   ⇅ ring of flow c
//!   2 │ ─┼──▶ …  a2 ⇄ a3 ⇄ (a1)  (alone: linked to itself)
//! ```
//!
//! A hash table with chaining and without entries of its own: a flow exists while it has a packet,
//! and its first packet represents it. There are at least as many buckets as packets, a power of
//! two. A flow's bucket is the high bits of its product with 2^32 / φ (Fibonacci hashing, Knuth
//! vol. 3, §6.4): one multiplication, and flow numbers that differ in any bits spread. It does not
//! resist an attacker who chooses colliding flow numbers; the kernel's flow hash is keyed for that.
//!
//! Every operation takes constant time plus the flows passed in a chain, on average less than one.

use super::store::Store;

/// 2^32 / φ, odd.
const GOLDEN: u32 = 0x9E37_79B9;

/// The end of a chain: no slot has this index.
const END: u32 = u32::MAX;

/// The table's data in a slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowLinks {
    flow: u32,
    /// For a flow's first packet: the first packet of the next flow in its bucket, or [`END`].
    chain: u32,
    /// The next later packet of this flow; the latest one's is the earliest.
    next: u16,
    /// The next earlier packet of this flow; the earliest one's is the latest.
    prev: u16,
}

/// Slots by flow.
pub struct FlowTable<S: Store> {
    /// The first packet of the first flow in each chain, or [`END`].
    buckets: S::Of<u32>,
    /// 32 - log2 of the number of buckets.
    shift: u32,
    len: u32,
}

impl<S: Store> FlowTable<S> {
    /// An empty table for `capacity` packets, 0..=65536.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(capacity: u32) -> Result<Self, S::Error> {
        // At least two buckets, for a shift below 32.
        let bits = u32::BITS.wrapping_sub(capacity.max(2).wrapping_sub(1).leading_zeros());
        Ok(Self {
            buckets: S::allocate(1_usize.wrapping_shl(bits), || END)?,
            shift: u32::BITS.wrapping_sub(bits),
            len: 0,
        })
    }

    /// Number of flows.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is no flow.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    fn bucket_of(&self, flow: u32) -> usize {
        flow.wrapping_mul(GOLDEN).wrapping_shr(self.shift) as usize
    }

    /// Appends `slot` as the latest packet of `flow`.
    ///
    /// Store the result in the slot before the next call.
    #[inline(always)]
    pub fn append<T: AsMut<FlowLinks>>(
        &mut self,
        slots: &mut [T],
        slot: u16,
        flow: u32,
    ) -> FlowLinks {
        let mut links = FlowLinks {
            flow,
            chain: END,
            next: slot,
            prev: slot,
        };
        let bucket = self.bucket_of(flow);
        let Some(bucket) = self.buckets.get_mut(bucket) else {
            invariant!("a flow has no bucket");
            return links;
        };
        let mut at = *bucket;
        while let Some(first) = slots.get_mut(at as usize) {
            let first = first.as_mut();
            if first.flow == flow {
                links.next = at as u16;
                links.prev = first.prev;
                first.prev = slot;
                if let Some(latest) = slots.get_mut(usize::from(links.prev)) {
                    latest.as_mut().next = slot;
                }
                return links;
            }
            at = first.chain;
        }
        links.chain = *bucket;
        *bucket = slot.into();
        self.len = self.len.wrapping_add(1);
        links
    }

    /// The earliest packet of the flow that the packet in `slot` belongs to.
    #[inline(always)]
    pub fn first<T: AsRef<FlowLinks>>(&self, slots: &[T], slot: u16) -> Option<u16> {
        let FlowLinks { flow, next, .. } = *slots.get(usize::from(slot))?.as_ref();
        if next == slot {
            return Some(slot);
        }
        let mut at = *self.buckets.get(self.bucket_of(flow))?;
        loop {
            let first = slots.get(at as usize)?.as_ref();
            if first.flow == flow {
                return Some(at as u16);
            }
            at = first.chain;
        }
    }

    /// Removes `slot`, which holds `links`.
    #[inline(always)]
    pub fn remove<T: AsMut<FlowLinks>>(&mut self, slots: &mut [T], slot: u16, links: FlowLinks) {
        let FlowLinks {
            flow,
            chain,
            next,
            prev,
        } = links;
        // Its replacement in the chain, if the removed packet is the flow's first.
        let mut instead = chain;
        if next == slot {
            self.len = self.len.wrapping_sub(1);
        } else {
            instead = next.into();
            if let Some(prev) = slots.get_mut(usize::from(prev)) {
                prev.as_mut().next = next;
            }
            if let Some(next) = slots.get_mut(usize::from(next)) {
                next.as_mut().prev = prev;
            }
        }
        let bucket = self.bucket_of(flow);
        let Some(bucket) = self.buckets.get_mut(bucket) else {
            invariant!("a flow has no bucket");
            return;
        };
        let mut at = *bucket;
        if at == u32::from(slot) {
            *bucket = instead;
        } else {
            loop {
                let Some(first) = slots.get_mut(at as usize) else {
                    invariant!("a flow is not in its bucket");
                    return;
                };
                let first = first.as_mut();
                if first.flow == flow {
                    // Another packet is the flow's first one and stays in the chain.
                    return;
                }
                at = first.chain;
                if at == u32::from(slot) {
                    first.chain = instead;
                    break;
                }
            }
        }
        if next != slot {
            if let Some(next) = slots.get_mut(usize::from(next)) {
                next.as_mut().chain = chain;
            }
        }
    }

    /// Removes all flows, and calls `each` with every slot and its flow, the slots of one flow in
    /// order of arrival.
    pub fn drain<T: AsRef<FlowLinks>>(&mut self, slots: &[T], mut each: impl FnMut(u16, u32)) {
        for bucket in self.buckets.iter_mut() {
            let mut at = core::mem::replace(bucket, END);
            while let Some(first) = slots.get(at as usize) {
                let &FlowLinks { flow, chain, .. } = first.as_ref();
                let mut slot = at as u16;
                loop {
                    each(slot, flow);
                    let Some(links) = slots.get(usize::from(slot)) else {
                        invariant!("a flow's ring leads to no slot");
                        break;
                    };
                    slot = links.as_ref().next;
                    if u32::from(slot) == at {
                        break;
                    }
                }
                at = chain;
            }
        }
        self.len = 0;
    }

    /// Checks the invariants and calls `visit` with every slot, the slots of one flow in order of
    /// arrival. For tests: linear.
    ///
    /// # Errors
    ///
    /// The violated invariant, or the first error of `visit`.
    #[doc(hidden)]
    pub fn check<T: AsRef<FlowLinks>>(
        &self,
        slots: &[T],
        mut visit: impl FnMut(u16, u32) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        let links = |slot: u32| {
            slots
                .get(slot as usize)
                .map(AsRef::as_ref)
                .ok_or("a link leads to no slot")
        };
        let mut flows = 0_u32;
        for (index, &bucket) in self.buckets.iter().enumerate() {
            let mut at = bucket;
            while at != END {
                let &FlowLinks { flow, chain, .. } = links(at)?;
                flows = flows.wrapping_add(1);
                if flows > self.len {
                    return Err("there are more flows in the chains than are counted");
                }
                if self.bucket_of(flow) != index {
                    return Err("a flow is in a wrong bucket");
                }
                let mut slot = at;
                loop {
                    let next = u32::from(links(slot)?.next);
                    if links(slot)?.flow != flow || u32::from(links(next)?.prev) != slot {
                        return Err("the ring of a flow is broken");
                    }
                    visit(slot as u16, flow)?;
                    slot = next;
                    if slot == at {
                        break;
                    }
                }
                at = chain;
            }
        }
        if flows != self.len {
            return Err("there are fewer flows in the chains than are counted");
        }
        Ok(())
    }
}
