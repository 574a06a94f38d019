// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The arbitrator of one link, in one direction: each flow's queue and reference rate (§3.1.1,
//! Algorithm 1).
//!
//! # Structure
//!
//! The paper's arbitrator "locally maintains a sorted list of flows", and sums up the demands of
//! those before one. Here the list is a treap (R. Seidel, C. Aragon, "Randomized search trees",
//! 1996): a binary tree in the flows' order, and by random priorities a heap, so that it is about 2
//! ln n deep whatever the order in which flows come. Each node has the sum of the demands below it:
//!
//! ```text
//!                     [ f3 │ demand 2 │ below 11 ]
//!                   ↙                              ↘
//!   [ f1 │ demand 4 │ below 5 ]            [ f4 │ demand 4 │ below 4 ]
//!                   ↘
//!          [ f2 │ demand 1 │ below 1 ]         before f4: 5 + 2
//! ```
//!
//! A new flow, another place in the order, another demand, the end of a flow, a question: each goes
//! down the tree once, twice at most, without recursion. A node is a cache line; all of them are
//! reserved at the start.
//!
//! A second order, by the time of the last update, is a list; what has not been renewed for a
//! lifetime is at its head. A third, by the flow's number, is a hash table with chains.
//!
//! # More flows than room
//!
//! The least urgent goes: of those that were there, or the one that comes. A flow's answer depends
//! only on those more urgent than itself, so the answers of all that stay are as if there were
//! room. The one that goes is told its queue and is not remembered; it comes back with a later
//! update, when there is room.

use super::{Flow, Verdict, MAX_RATE};
use crate::common::store::Store;
use crate::common::xorshift::Xorshift32;

/// The most flows of one arbitrator. With it and [`MAX_RATE`] no sum overflows.
pub const MAX_FLOWS: u32 = 1 << 20;

/// How many flows whose lifetime is over one update forgets at most. More than the one that it can
/// add: what has piled up is soon gone.
pub const EXPIRED_AT_ONCE: u32 = 4;

/// No node.
const NONE: u32 = u32::MAX;

/// What an arbitrator knows of its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// C, in bytes/s, 0 to [`MAX_RATE`]; what is beyond is taken for that. 0: nothing can be sent.
    pub rate: u64,
    /// How many queues its ports have, at least 1; 0 is taken for 1.
    pub queues: u8,
    /// For how long a flow is known after its last update, in ns.
    pub lifetime: u64,
}

/// One flow.
#[derive(Clone, Copy)]
struct Node {
    urgency: u64,
    id: u64,
    demand: u64,
    /// The demands of this one and of all below it.
    below: u64,
    /// When it was updated last.
    seen: u64,
    left: u32,
    right: u32,
    /// No node has one above it with a lower one.
    priority: u32,
    /// The next in its bucket; of a free node, the next free one.
    chain: u32,
    /// The one that was updated before it, and after it.
    older: u32,
    newer: u32,
}

impl Node {
    const FREE: Self = Self {
        urgency: 0,
        id: 0,
        demand: 0,
        below: 0,
        seen: 0,
        left: NONE,
        right: NONE,
        priority: 0,
        chain: NONE,
        older: NONE,
        newer: NONE,
    };

    #[inline]
    fn key(&self) -> Key {
        (self.urgency, self.id)
    }
}

/// The order of flows. Equally urgent ones are in the order of their numbers, the same at every
/// link.
type Key = (u64, u64);

/// Where a link of the tree is written.
#[derive(Clone, Copy)]
enum Place {
    Root,
    Left(u32),
    Right(u32),
}

/// See the head of this file.
pub struct Arbiter<S: Store> {
    nodes: S::Of<Node>,
    /// The first node of each bucket.
    buckets: S::Of<u32>,
    /// 64 less the binary logarithm of the number of buckets.
    shift: u32,
    /// Makes buckets others than somebody expects who chooses the flows' numbers.
    secret: u64,
    random: Xorshift32,
    link: Link,
    root: u32,
    free: u32,
    oldest: u32,
    newest: u32,
    len: u32,
}

impl<S: Store> Arbiter<S> {
    /// An arbitrator of a link without flows, with room for `capacity`, 1 to [`MAX_FLOWS`]; what is
    /// beyond is taken for the nearest of these. `secret`: a random number.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(capacity: u32, link: Link, secret: u64) -> Result<Self, S::Error> {
        let capacity = capacity.clamp(1, MAX_FLOWS);
        let bits = u32::BITS
            .wrapping_sub(capacity.max(2).wrapping_sub(1).leading_zeros())
            .max(1);
        let mut next = 0_u32;
        let nodes = S::allocate(capacity as usize, || {
            next = next.wrapping_add(1);
            Node {
                chain: if next < capacity { next } else { NONE },
                ..Node::FREE
            }
        })?;
        let mut new = Self {
            nodes,
            buckets: S::allocate(1_usize.wrapping_shl(bits), || NONE)?,
            shift: u64::BITS.wrapping_sub(bits),
            secret,
            random: Xorshift32::new((secret ^ secret.wrapping_shr(32)) as u32),
            link,
            root: NONE,
            free: 0,
            oldest: NONE,
            newest: NONE,
            len: 0,
        };
        new.set_link(link);
        Ok(new)
    }

    /// Its link is another from now on.
    pub fn set_link(&mut self, link: Link) {
        self.link = Link {
            rate: link.rate.min(MAX_RATE),
            queues: link.queues.max(1),
            ..link
        };
    }

    /// Its link's rate is another from now on, in bytes/s.
    pub fn set_rate(&mut self, rate: u64) {
        self.link.rate = rate.min(MAX_RATE);
    }

    /// What it knows of its link.
    pub fn link(&self) -> Link {
        self.link
    }

    /// Number of flows.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is no flow.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The demands of all flows, in bytes/s.
    pub fn demand(&self) -> u64 {
        self.below(self.root)
    }

    /// A flow begins, or goes on: Algorithm 1. At most [`EXPIRED_AT_ONCE`] of those whose lifetime
    /// is over are forgotten first.
    pub fn update(&mut self, flow: &Flow, now: u64) -> Verdict {
        self.expire(now, EXPIRED_AT_ONCE);
        let flow = Flow {
            demand: flow.demand.min(MAX_RATE),
            ..*flow
        };
        let slot = self.find(flow.id);
        if let Some(&known) = self.node(slot) {
            if known.urgency == flow.urgency {
                if known.demand != flow.demand {
                    self.change_demand(slot, known, flow.demand);
                }
            } else {
                self.take_out(&known);
                self.put_in(slot, &flow);
            }
            self.unlist(slot);
            self.list(slot, now);
        } else if let Some(slot) = self.room(&flow) {
            self.hash_in(slot, flow.id);
            self.put_in(slot, &flow);
            self.list(slot, now);
            self.len = self.len.wrapping_add(1);
        }
        self.answer((flow.urgency, flow.id), flow.demand)
    }

    /// A flow has ended. Whether it was known.
    pub fn remove(&mut self, id: u64) -> bool {
        let slot = self.find(id);
        self.forget(slot)
    }

    /// A known flow's queue and rate, as others have come and gone.
    pub fn verdict(&self, id: u64) -> Option<Verdict> {
        let node = self.node(self.find(id))?;
        Some(self.answer(node.key(), node.demand))
    }

    /// Forgets flows whose lifetime is over, those first that were updated longest ago, `most` at
    /// most; how many.
    pub fn expire(&mut self, now: u64, most: u32) -> u32 {
        let mut gone = 0_u32;
        while gone < most {
            let oldest = self.oldest;
            let Some(node) = self.node(oldest) else {
                break;
            };
            // A clock that went back is no age.
            if now.saturating_sub(node.seen) < self.link.lifetime {
                break;
            }
            self.forget(oldest);
            gone = gone.wrapping_add(1);
        }
        gone
    }

    /// Step 2 of Algorithm 1.
    fn answer(&self, key: Key, demand: u64) -> Verdict {
        Verdict::of(self.before(key), demand, &self.link)
    }

    /// ADH: the demands of all flows before that place in the order.
    fn before(&self, key: Key) -> u64 {
        self.before_in(self.root, key)
    }

    fn before_in(&self, mut at: u32, key: Key) -> u64 {
        let mut before = 0_u64;
        while let Some(node) = self.node(at) {
            if node.key() < key {
                let right = self.below(node.right);
                before = before.wrapping_add(node.below.wrapping_sub(right));
                at = node.right;
            } else {
                at = node.left;
            }
        }
        before
    }

    #[inline]
    fn node(&self, slot: u32) -> Option<&Node> {
        self.nodes.get(slot as usize)
    }

    #[inline]
    fn node_mut(&mut self, slot: u32) -> Option<&mut Node> {
        self.nodes.get_mut(slot as usize)
    }

    #[inline]
    fn below(&self, slot: u32) -> u64 {
        self.node(slot).map_or(0, |node| node.below)
    }

    fn read(&self, place: Place) -> u32 {
        match place {
            Place::Root => self.root,
            Place::Left(slot) => self.node(slot).map_or(NONE, |node| node.left),
            Place::Right(slot) => self.node(slot).map_or(NONE, |node| node.right),
        }
    }

    fn write(&mut self, place: Place, to: u32) {
        match place {
            Place::Root => self.root = to,
            Place::Left(slot) => {
                if let Some(node) = self.node_mut(slot) {
                    node.left = to;
                }
            }
            Place::Right(slot) => {
                if let Some(node) = self.node_mut(slot) {
                    node.right = to;
                }
            }
        }
    }

    /// A node for a new flow, taken from the least urgent if there is none left; `None`: that is
    /// the new one.
    fn room(&mut self, flow: &Flow) -> Option<u32> {
        if self.node(self.free).is_none() {
            let mut last = self.root;
            while let Some(node) = self.node(last) {
                if node.right == NONE {
                    break;
                }
                last = node.right;
            }
            if self.node(last)?.key() < (flow.urgency, flow.id) {
                return None;
            }
            self.forget(last);
        }
        let slot = self.free;
        self.free = self.node(slot)?.chain;
        Some(slot)
    }

    /// Puts a node at its flow's place in the order.
    fn put_in(&mut self, slot: u32, flow: &Flow) {
        let priority = self.random.draw();
        let key = (flow.urgency, flow.id);
        let mut place = Place::Root;
        let mut at = self.root;
        while let Some(node) = self.node_mut(at) {
            if node.priority < priority {
                break;
            }
            node.below = node.below.wrapping_add(flow.demand);
            (place, at) = if node.key() < key {
                (Place::Right(at), node.right)
            } else {
                (Place::Left(at), node.left)
            };
        }
        let below = self.below(at).wrapping_add(flow.demand);
        self.split(at, key, Place::Left(slot), Place::Right(slot));
        self.write(place, slot);
        if let Some(node) = self.node_mut(slot) {
            node.urgency = flow.urgency;
            node.id = flow.id;
            node.demand = flow.demand;
            node.priority = priority;
            node.below = below;
        }
    }

    /// Parts the tree at a node in those before the key and those behind it.
    fn split(&mut self, mut at: u32, key: Key, mut before: Place, mut behind: Place) {
        // The demands before the key of what is still to be parted.
        let mut demand = self.before_in(at, key);
        while let Some(&node) = self.node(at) {
            if node.key() < key {
                let left = self.below(node.left).wrapping_add(node.demand);
                if let Some(node) = self.node_mut(at) {
                    node.below = demand;
                }
                demand = demand.wrapping_sub(left);
                self.write(before, at);
                before = Place::Right(at);
                at = node.right;
            } else {
                if let Some(node) = self.node_mut(at) {
                    node.below = node.below.wrapping_sub(demand);
                }
                self.write(behind, at);
                behind = Place::Left(at);
                at = node.left;
            }
        }
        self.write(before, NONE);
        self.write(behind, NONE);
    }

    /// Takes a flow's node out of the order.
    fn take_out(&mut self, gone: &Node) {
        let key = gone.key();
        let mut place = Place::Root;
        loop {
            let at = self.read(place);
            let Some(node) = self.node_mut(at) else {
                return;
            };
            if node.key() == key {
                let (left, right) = (node.left, node.right);
                self.join(place, left, right);
                return;
            }
            node.below = node.below.wrapping_sub(gone.demand);
            place = if node.key() < key {
                Place::Right(at)
            } else {
                Place::Left(at)
            };
        }
    }

    /// Puts two trees, the one before the other in the order, at one place.
    fn join(&mut self, mut place: Place, mut left: u32, mut right: u32) {
        loop {
            let (Some(&before), Some(&behind)) = (self.node(left), self.node(right)) else {
                let rest = if self.node(left).is_some() {
                    left
                } else {
                    right
                };
                self.write(place, rest);
                return;
            };
            let below = before.below.wrapping_add(behind.below);
            let upper = if before.priority >= behind.priority {
                left
            } else {
                right
            };
            self.write(place, upper);
            if let Some(node) = self.node_mut(upper) {
                node.below = below;
            }
            if upper == left {
                place = Place::Right(left);
                left = before.right;
            } else {
                place = Place::Left(right);
                right = behind.left;
            }
        }
    }

    /// A flow at the same place in the order has another demand.
    fn change_demand(&mut self, slot: u32, known: Node, demand: u64) {
        let mut at = self.root;
        while let Some(node) = self.node_mut(at) {
            node.below = node.below.wrapping_sub(known.demand).wrapping_add(demand);
            if at == slot {
                node.demand = demand;
                return;
            }
            at = if node.key() < known.key() {
                node.right
            } else {
                node.left
            };
        }
    }

    /// Forgets the flow of a node. Whether there was one.
    fn forget(&mut self, slot: u32) -> bool {
        let Some(&node) = self.node(slot) else {
            return false;
        };
        self.take_out(&node);
        self.unlist(slot);
        self.hash_out(slot, &node);
        self.len = self.len.wrapping_sub(1);
        true
    }

    fn list(&mut self, slot: u32, now: u64) {
        let newest = self.newest;
        if let Some(node) = self.node_mut(slot) {
            node.seen = now;
            node.older = newest;
            node.newer = NONE;
        }
        match self.node_mut(newest) {
            Some(node) => node.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
    }

    fn unlist(&mut self, slot: u32) {
        let Some(&Node { older, newer, .. }) = self.node(slot) else {
            return;
        };
        match self.node_mut(older) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
        match self.node_mut(newer) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
    }

    /// The finalizer of splitmix64 (S. Vigna): a flow's number decides on all bits.
    fn bucket(&self, id: u64) -> usize {
        let mut x = id ^ self.secret;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x.wrapping_shr(self.shift) as usize
    }

    /// The node of a flow; one that does not exist for a flow that is not known.
    fn find(&self, id: u64) -> u32 {
        let first = self.buckets.get(self.bucket(id));
        let mut at = first.copied().unwrap_or(NONE);
        while let Some(node) = self.node(at) {
            if node.id == id {
                return at;
            }
            at = node.chain;
        }
        NONE
    }

    fn hash_in(&mut self, slot: u32, id: u64) {
        let bucket = self.bucket(id);
        let Some(bucket) = self.buckets.get_mut(bucket) else {
            return;
        };
        let next = core::mem::replace(bucket, slot);
        if let Some(node) = self.node_mut(slot) {
            node.chain = next;
            node.id = id;
        }
    }

    /// Takes a node out of its bucket; it is free then.
    fn hash_out(&mut self, slot: u32, gone: &Node) {
        let bucket = self.bucket(gone.id);
        let mut at = self.buckets.get(bucket).copied().unwrap_or(NONE);
        if at == slot {
            if let Some(bucket) = self.buckets.get_mut(bucket) {
                *bucket = gone.chain;
            }
        } else {
            while let Some(node) = self.node_mut(at) {
                if node.chain == slot {
                    node.chain = gone.chain;
                    break;
                }
                at = node.chain;
            }
        }
        let free = self.free;
        if let Some(node) = self.node_mut(slot) {
            *node = Node {
                chain: free,
                ..Node::FREE
            };
        }
        self.free = slot;
    }

    /// Checks the invariants; how deep the tree is. For tests: linear.
    ///
    /// # Errors
    ///
    /// What does not hold.
    #[doc(hidden)]
    pub fn check(&self) -> Result<u32, &'static str> {
        let (deepest, len) = self.check_tree(self.root, None, None, u32::MAX)?;
        if len != self.len {
            return Err("the tree has not the flows that are counted");
        }
        let (mut listed, mut older, mut at) = (0_u32, NONE, self.oldest);
        while let Some(node) = self.node(at) {
            if node.older != older || self.find(node.id) != at {
                return Err("the list by age is broken, or a flow is not found by its number");
            }
            listed = listed.wrapping_add(1);
            (older, at) = (at, node.newer);
        }
        let (mut free, mut at) = (0_u32, self.free);
        while let Some(node) = self.node(at) {
            free = free.wrapping_add(1);
            at = node.chain;
        }
        if self.newest != older || listed != len {
            return Err("the list by age has not the flows that are counted");
        }
        if u64::from(free).wrapping_add(len.into()) != self.nodes.len() as u64 {
            return Err("a node is lost");
        }
        Ok(deepest)
    }

    /// How deep a tree is, and how many nodes it has. All between two keys, below a priority.
    fn check_tree(
        &self,
        at: u32,
        from: Option<Key>,
        to: Option<Key>,
        priority: u32,
    ) -> Result<(u32, u32), &'static str> {
        let Some(node) = self.node(at) else {
            return Ok((0, 0));
        };
        let key = node.key();
        if from.is_some_and(|from| key <= from) || to.is_some_and(|to| key >= to) {
            return Err("the tree is not in order");
        }
        if node.priority > priority {
            return Err("the tree is no heap");
        }
        let (left, before) = self.check_tree(node.left, from, Some(key), node.priority)?;
        let (right, behind) = self.check_tree(node.right, Some(key), to, node.priority)?;
        let below = self.below(node.left).wrapping_add(self.below(node.right));
        if node.below != below.wrapping_add(node.demand) {
            return Err("a sum of demands is wrong");
        }
        let nodes = before.wrapping_add(behind).wrapping_add(1);
        Ok((left.max(right).wrapping_add(1), nodes))
    }
}
