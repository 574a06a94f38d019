// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Packets in order of their rank, with access to the first, the last and any packet in constant
//! time.
//!
//! # Vocabulary
//!
//! - **rank**: a `u32`; the lowest is first.
//! - **slot**: where the user of the trie keeps one packet, an index into the user's own array. The
//!   trie's only data per packet is the [`RankLinks`] that the user embeds there.
//! - **ring**: all packets of one rank in order of arrival, doubly linked in a circle, so that the
//!   earliest one (**first**) gives the latest one (its `prev`).
//! - **node**: an array of 32 children, each a node or a ring.
//!
//! # Structure
//!
//! A radix trie over the ranks, five bits (a **digit**) per level, with path compression: a node
//! exists only where queued ranks differ, so few or similar ranks make a flat trie.
//!
//! ```text
//!  ranks 0x00007, 0x00007 (again), 0x00012, 0x80001          digits of 0x80001: 16.0.0.1
//!
//!  root ─▶ node shift 15, prefix 0           bits 15..20 decide
//!           ├ 0 ─▶ node shift 0, prefix 0    bits 5..15 are equal: no nodes for them
//!           │       ├  7 ─▶ ring 0x00007 ⇄ 0x00007
//!           │       └ 18 ─▶ ring 0x00012
//!           └ 16 ─▶ ring 0x80001
//! ```
//!
//! A node keeps two bitmaps: of its children, and of the children that are rings. The lowest set
//! bit leads to the first rank, the highest to the last: one instruction per level. Rings keep
//! equal ranks in order of arrival, so there are no sequence numbers to compare or to wrap.
//!
//! # Invariants
//!
//! - A node's `shift` is a multiple of five, below its parent's. All ranks below a node agree with
//!   its `prefix` in all bits above its digit; `prefix` is 0 in the digit and below.
//! - A node other than the root has at least two children: at most `capacity` nodes in all.
//! - The **root** is special, to save work if the queue is short. A single ring needs no node. And
//!   a root node stays when one child remains, until the last one leaves: otherwise a queue that
//!   alternates between one rank and several would create and remove a node each time. If a rank
//!   arrives that such a root cannot hold, the root is widened in place.
//!
//! # Cost
//!
//! At most 7 levels (32 bits / 5) for every operation, whatever the number of packets; about
//! log32(n) for n random ranks, which is 3 at 10,000 packets. A binary heap then has 13 levels, and
//! moves an entry and updates its position at each. One node of 80 bytes is reserved per packet.
//!
//! The tree of comparators of the paper has the same purpose (pFabric, SIGCOMM 2013, §4.1).

use super::index_pool::IndexPool;
use super::store::Store;

/// Bits of a rank that one node decides on.
///
/// Measured with 4, 5 and 6: 4 makes more levels, 6 makes larger nodes (152 bytes) for nearly the
/// same number of instructions.
const DIGIT_BITS: u32 = 5;
const FANOUT: usize = 1 << DIGIT_BITS;

/// No node.
const NONE: u32 = u32::MAX;

/// A child in the trie: a node or a ring.
///
/// It holds the index of a node or of the ring's first packet, and in bit 16 which of the two it
/// is. All bits set means nothing; read as a node or as a packet, that index does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Link(u32);

impl Link {
    const NOTHING: Self = Self(u32::MAX);
    const RING: u32 = 1 << 16;

    #[inline(always)]
    fn ring(first: u16) -> Self {
        Self(Self::RING | first as u32)
    }

    /// The link to the child `index`, a ring if `ring` is set.
    #[inline(always)]
    fn child(index: u16, ring: bool) -> Self {
        if ring {
            Self::ring(index)
        } else {
            Self(index as u32)
        }
    }

    /// Whether it is not a node.
    #[inline(always)]
    fn is_ring(self) -> bool {
        self.0 & Self::RING != 0
    }

    /// The ring's first packet; an index that does not exist if there is nothing.
    #[inline(always)]
    fn first(self) -> u32 {
        self.0 ^ Self::RING
    }

    /// The index of the node, or of the ring's first packet.
    #[inline(always)]
    fn index(self) -> u16 {
        self.0 as u16
    }
}

/// The trie's data in a slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct RankLinks {
    rank: u32,
    /// The next later packet of this rank; the latest one's is the earliest.
    next: u16,
    /// The next earlier packet of this rank; the earliest one's is the latest.
    prev: u16,
}

impl RankLinks {
    /// The rank.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The next earlier packet of the same rank; for the earliest one, the latest one.
    #[inline]
    pub fn prev(&self) -> u16 {
        self.prev
    }
}

/// The place in the trie of the packets of one rank. Valid until the trie changes.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    first: u16,
    /// The node above the ring; [`NONE`] if the ring is the root.
    parent: u32,
}

impl Place {
    /// The earliest packet of the rank.
    #[inline]
    pub fn first(&self) -> u16 {
        self.first
    }
}

/// See the head of this file.
#[derive(Clone, Copy)]
struct Node {
    /// The children that exist.
    present: u32,
    /// The children that are rings.
    rings: u32,
    prefix: u32,
    shift: u16,
    /// The node above; meaningless for the root.
    parent: u16,
    children: [u16; FANOUT],
}

impl Node {
    /// The child that holds `rank`; [`FANOUT`] or more if the rank does not belong below this node.
    #[inline(always)]
    fn digit(&self, rank: u32) -> u32 {
        (self.prefix ^ rank).wrapping_shr(self.shift.into())
    }

    /// The child at a digit that is present.
    #[inline(always)]
    fn child(&self, digit: u32) -> Option<Link> {
        let ring = has(self.rings, digit);
        Some(Link::child(*self.children.get(digit as usize)?, ring))
    }

    /// The child, if there is only one.
    #[inline(always)]
    fn only_child(&self) -> Option<Link> {
        if self.present & self.present.wrapping_sub(1) != 0 {
            return None;
        }
        self.child(self.present.trailing_zeros())
    }
}

/// The bitmap with one digit.
#[inline(always)]
fn bit(digit: u32) -> u32 {
    1_u32.wrapping_shl(digit)
}

/// Whether a digit is in a bitmap.
#[inline(always)]
fn has(bits: u32, digit: u32) -> bool {
    bits.wrapping_shr(digit) & 1 != 0
}

/// Slots by rank.
pub struct RankTrie<S: Store> {
    nodes: S::Of<Node>,
    pool: IndexPool<S>,
    root: Link,
}

impl<S: Store> RankTrie<S> {
    /// An empty trie for `capacity` packets, 0..=65536.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(capacity: u32) -> Result<Self, S::Error> {
        let node = Node {
            present: 0,
            rings: 0,
            prefix: 0,
            shift: 0,
            parent: 0,
            children: [0; FANOUT],
        };
        Ok(Self {
            nodes: S::allocate(capacity as usize, || node)?,
            pool: IndexPool::new(capacity)?,
            root: Link::NOTHING,
        })
    }

    /// Inserts `slot` as the latest packet of `rank`.
    ///
    /// Store the result in the slot before the next call.
    #[inline(always)]
    pub fn insert<T: AsMut<RankLinks>>(
        &mut self,
        slots: &mut [T],
        slot: u16,
        rank: u32,
    ) -> RankLinks {
        let alone = RankLinks {
            rank,
            next: slot,
            prev: slot,
        };
        let nodes = &mut *self.nodes;
        let mut parent = NONE;
        let mut link = self.root;
        let mut widen = None;
        let differing = loop {
            if link.is_ring() {
                let Some(first) = slots.get_mut(link.first() as usize) else {
                    // An empty trie.
                    self.root = Link::ring(slot);
                    return alone;
                };
                let first = first.as_mut();
                let differing = first.rank ^ rank;
                if differing != 0 {
                    break differing;
                }
                let latest = first.prev;
                first.prev = slot;
                if let Some(latest) = slots.get_mut(usize::from(latest)) {
                    latest.as_mut().next = slot;
                }
                return RankLinks {
                    rank,
                    next: link.index(),
                    prev: latest,
                };
            }
            let Some(node) = nodes.get_mut(link.0 as usize) else {
                invariant!("a link of the trie leads to no node");
                return alone;
            };
            let digit = node.digit(rank);
            let Some(child) = node.children.get_mut(digit as usize) else {
                let differing = node.prefix ^ rank;
                if parent == NONE {
                    if let Some(child) = node.only_child() {
                        widen = Some(link.index());
                        link = child;
                    }
                }
                break differing;
            };
            if !has(node.present, digit) {
                *child = slot;
                node.present |= bit(digit);
                node.rings |= bit(digit);
                return alone;
            }
            parent = link.0;
            link = Link::child(*child, has(node.rings, digit));
        };

        // The rank leaves the trie at `link`: a node goes between it and `parent`. The root is that
        // node if `link` is its only child.
        let Some(index) = widen.or_else(|| self.pool.take()) else {
            invariant!("the trie has more nodes than packets");
            return alone;
        };
        let Some(node) = nodes.get_mut(usize::from(index)) else {
            invariant!("the pool has an index of no node");
            return alone;
        };
        let shift = ((31 ^ differing.leading_zeros()) / DIGIT_BITS).wrapping_mul(DIGIT_BITS);
        let high = rank.wrapping_shr(shift);
        let digit = high % FANOUT as u32;
        let other = (high ^ differing.wrapping_shr(shift)) % FANOUT as u32;
        node.shift = shift as u16;
        node.parent = parent as u16;
        node.prefix = (high ^ digit).wrapping_shl(shift);
        node.present = bit(digit) | bit(other);
        node.rings = bit(digit) | (link.0 >> 16).wrapping_shl(other);
        if let Some(child) = node.children.get_mut(digit as usize) {
            *child = slot;
        }
        if let Some(child) = node.children.get_mut(other as usize) {
            *child = link.index();
        }
        if let Some(child) = nodes.get_mut(link.0 as usize) {
            child.parent = index;
        }
        match nodes.get_mut(parent as usize) {
            None => self.root = Link::child(index, false),
            Some(node) => {
                let digit = node.digit(rank);
                if let Some(child) = node.children.get_mut(digit as usize) {
                    *child = index;
                    node.rings &= !bit(digit);
                }
            }
        }
        alone
    }

    /// The lowest rank.
    #[inline]
    pub fn first(&self) -> Option<Place> {
        // A node has a child, so the bit has no effect, but it tells the compiler so.
        self.descend(|node| (node.present | 1 << 31).trailing_zeros())
    }

    /// The highest rank.
    #[inline]
    pub fn last(&self) -> Option<Place> {
        self.descend(|node| 31 ^ (node.present | 1).leading_zeros())
    }

    /// The place of a rank that is in the trie.
    #[inline]
    pub fn find(&self, rank: u32) -> Option<Place> {
        self.descend(|node| node.digit(rank))
    }

    /// The next lower rank than one that is in the trie.
    pub fn below(&self, rank: u32) -> Option<Place> {
        // The last node on the path with a lower child is where the two ranks part.
        let mut parting = None;
        let mut link = self.root;
        while !link.is_ring() {
            let node = self.nodes.get(link.0 as usize)?;
            let digit = node.digit(rank);
            if node.present & bit(digit).wrapping_sub(1) != 0 {
                parting = Some(node.shift);
            }
            link = node.child(digit)?;
        }
        let parting = parting?;
        self.descend(|node| {
            let present = if node.shift > parting {
                return node.digit(rank);
            } else if node.shift == parting {
                node.present & bit(node.digit(rank)).wrapping_sub(1)
            } else {
                node.present
            };
            31_u32.wrapping_sub(present.leading_zeros())
        })
    }

    /// Descends to a ring, by the digits that `digit` chooses.
    #[inline(always)]
    fn descend(&self, digit: impl Fn(&Node) -> u32) -> Option<Place> {
        let mut link = self.root;
        let mut parent = NONE;
        if link == Link::NOTHING {
            return None;
        }
        let nodes = &*self.nodes;
        while !link.is_ring() {
            let node = nodes.get(link.0 as usize)?;
            parent = link.0;
            link = node.child(digit(node))?;
        }
        Some(Place {
            first: link.index(),
            parent,
        })
    }

    /// Removes `slot`, which holds `links`. `place` is that of its rank.
    #[inline(always)]
    pub fn remove<T: AsMut<RankLinks>>(
        &mut self,
        slots: &mut [T],
        slot: u16,
        links: RankLinks,
        place: Place,
    ) {
        let RankLinks { rank, next, prev } = links;
        let nodes = &mut *self.nodes;
        if next != slot {
            if let Some(prev) = slots.get_mut(usize::from(prev)) {
                prev.as_mut().next = next;
            }
            if let Some(next) = slots.get_mut(usize::from(next)) {
                next.as_mut().prev = prev;
            }
            if place.first == slot {
                match nodes.get_mut(place.parent as usize) {
                    None => self.root = Link::ring(next),
                    Some(node) => {
                        let digit = node.digit(rank);
                        if let Some(child) = node.children.get_mut(digit as usize) {
                            *child = next;
                        }
                    }
                }
            }
            return;
        }

        let Some(node) = nodes.get_mut(place.parent as usize) else {
            self.root = Link::NOTHING;
            return;
        };
        let gone = bit(node.digit(rank));
        let rest = node.present & !gone;
        node.present = rest;
        node.rings &= !gone;
        if rest & rest.wrapping_sub(1) != 0 {
            return;
        }
        if self.root == Link(place.parent) {
            // The root stays while it has a child.
            if rest == 0 {
                self.root = Link::NOTHING;
                self.pool.give_back(place.parent as u16);
            }
            return;
        }
        let Some(child) = node.child(rest.trailing_zeros()) else {
            invariant!("a node below the root had one child");
            return;
        };
        let above = node.parent;
        self.pool.give_back(place.parent as u16);
        if let Some(node) = nodes.get_mut(usize::from(above)) {
            let digit = node.digit(rank);
            if let Some(link) = node.children.get_mut(digit as usize) {
                *link = child.index();
                node.rings |= (child.0 >> 16).wrapping_shl(digit);
            }
        }
        if let Some(child) = nodes.get_mut(child.0 as usize) {
            child.parent = above;
        }
    }

    /// Checks the invariants and calls `visit` with every slot in order of rank and arrival. For
    /// tests: linear.
    ///
    /// # Errors
    ///
    /// The violated invariant, or the first error of `visit`.
    #[doc(hidden)]
    pub fn check<T: AsRef<RankLinks>>(
        &self,
        slots: &[T],
        mut visit: impl FnMut(u16, u32) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        let mut nodes = 0;
        if self.root != Link::NOTHING {
            self.check_link(self.root, None, slots, &mut nodes, &mut visit)?;
        }
        if nodes != self.pool.taken() {
            return Err("a node is taken and not in the trie");
        }
        Ok(())
    }

    fn check_link<T: AsRef<RankLinks>>(
        &self,
        link: Link,
        above: Option<(u32, &Node, u32)>,
        slots: &[T],
        nodes: &mut u32,
        visit: &mut impl FnMut(u16, u32) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        let belongs = |rank| above.is_none_or(|(_, node, digit)| node.digit(rank) == digit);
        if link.is_ring() {
            let links = |slot: u16| {
                slots
                    .get(usize::from(slot))
                    .map(AsRef::as_ref)
                    .ok_or("a ring holds no slot")
            };
            let first = link.index();
            let rank = links(first)?.rank;
            if !belongs(rank) {
                return Err("a ring is below a node it does not belong to");
            }
            let mut slot = first;
            loop {
                let RankLinks { next, .. } = *links(slot)?;
                if links(slot)?.rank != rank || links(next)?.prev != slot {
                    return Err("a ring is broken");
                }
                visit(slot, rank)?;
                slot = next;
                if slot == first {
                    return Ok(());
                }
            }
        }
        let node = self
            .nodes
            .get(link.0 as usize)
            .ok_or("a link leads nowhere")?;
        *nodes = nodes.wrapping_add(1);
        if !belongs(node.prefix) {
            return Err("a node is below one it does not belong to");
        }
        if u32::from(node.shift) % DIGIT_BITS != 0
            || above.is_some_and(|(_, above, _)| node.shift >= above.shift)
        {
            return Err("a node's shift is wrong");
        }
        if node.prefix.wrapping_shr(node.shift.into()) % FANOUT as u32 != 0 {
            return Err("a node's prefix reaches into its digit");
        }
        if above.is_some_and(|(above, ..)| above != u32::from(node.parent)) {
            return Err("a node's parent is not the node above");
        }
        if node.rings & !node.present != 0 {
            return Err("a child is a ring and not there");
        }
        if node.present.count_ones() < if above.is_some() { 2 } else { 1 } {
            return Err("a node has too few children");
        }
        for digit in (0..FANOUT as u32).filter(|&digit| node.present & bit(digit) != 0) {
            let child = node.child(digit).ok_or("a child is not there")?;
            self.check_link(child, Some((link.0, node, digit)), slots, nodes, visit)?;
        }
        Ok(())
    }
}
