// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The arbitrator of one link, in one direction: each flow's queue and reference rate (§3.1.1,
//! Algorithm 1).
//!
//! # Structure
//!
//! The paper's arbitrator "locally maintains a sorted list of flows", and adds up the demands of
//! the flows before a given one. Here the list is a treap (R. Seidel, C. Aragon, "Randomized search
//! trees", 1996): a binary tree in the flows' order that is also a heap by random priorities, so
//! its depth is about 2 ln n whatever the order in which flows arrive. Each node has the sum of the
//! demands below it:
//!
//! ```text
//!                     [ f3 │ demand 2 │ below 11 ]
//!                   ↙                              ↘
//!   [ f1 │ demand 4 │ below 5 ]            [ f4 │ demand 4 │ below 4 ]
//!                   ↘
//!          [ f2 │ demand 1 │ below 1 ]         before f4: 5 + 2
//! ```
//!
//! A new flow, a new place in the order, a new demand, the end of a flow, and a query each descend
//! the tree once, or twice at most, without recursion. A node is a cache line; all nodes are
//! reserved at the start.
//!
//! A second order, by the time of the last update, is a list; flows that have not been renewed for
//! a lifetime are at its head. A third, by the flow's number, is a hash table with chains.
//!
//! # More flows than room
//!
//! The least urgent flow is dropped: an existing one, or the arriving one. A flow's answer depends
//! only on more urgent flows, so the answers of all flows that stay are as if there were room. The
//! dropped flow gets its queue but is not stored; it returns with a later update, when there is
//! room.

use super::{Flow, Verdict, MAX_RATE};
use crate::common::store::Store;
use crate::common::xorshift::Xorshift32;

/// The most flows of one arbitrator. With it and [`MAX_RATE`] no sum overflows.
pub const MAX_FLOWS: u32 = 1 << 20;

/// The most expired flows that one update removes. It is more than the one flow that an update can
/// add, so expired flows do not accumulate for long.
pub const EXPIRED_AT_ONCE: u32 = 4;

/// No node.
const NONE: u32 = u32::MAX;

/// An arbitrator's parameters of its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// C, in bytes/s, 0 to [`MAX_RATE`]; higher values are clamped. 0: nothing can be sent.
    pub rate: u64,
    /// The number of queues of its ports, at least 1; 0 counts as 1.
    pub queues: u8,
    /// How long a flow is stored after its last update, in ns.
    pub lifetime: u64,
}

/// One flow.
#[derive(Clone, Copy)]
struct Node {
    urgency: u64,
    id: u64,
    demand: u64,
    /// The demands of this node and of all nodes below it.
    below: u64,
    /// When it was last updated.
    seen: u64,
    left: u32,
    right: u32,
    /// No node has a lower priority above it.
    priority: u32,
    /// The next node in its bucket; for a free node, the next free one.
    chain: u32,
    /// The flows updated just before and just after it.
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

/// The order of flows. Equally urgent flows are ordered by their numbers, in the same way at every
/// link.
type Key = (u64, u64);

/// The place of a link in the tree.
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
    /// 64 minus the binary logarithm of the number of buckets.
    shift: u32,
    /// Makes buckets unpredictable for an attacker who chooses flows' numbers.
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
    /// An arbitrator of a link without flows, with room for `capacity`, 1 to [`MAX_FLOWS`]; other
    /// values are clamped. `secret`: a random number.
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

    /// Changes its link.
    pub fn set_link(&mut self, link: Link) {
        self.link = Link {
            rate: link.rate.min(MAX_RATE),
            queues: link.queues.max(1),
            ..link
        };
    }

    /// Changes its link's rate, in bytes/s.
    pub fn set_rate(&mut self, rate: u64) {
        self.link.rate = rate.min(MAX_RATE);
    }

    /// Its link's parameters.
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

    /// A flow begins, or continues: Algorithm 1. First removes at most [`EXPIRED_AT_ONCE`] expired
    /// flows.
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

    /// A flow has ended. Returns whether it was stored.
    pub fn remove(&mut self, id: u64) -> bool {
        let slot = self.find(id);
        self.forget(slot)
    }

    /// The current queue and rate of a stored flow, after changes of other flows.
    pub fn verdict(&self, id: u64) -> Option<Verdict> {
        let node = self.node(self.find(id))?;
        Some(self.answer(node.key(), node.demand))
    }

    /// Removes expired flows, the longest without an update first, at most `most` of them; returns
    /// how many.
    pub fn expire(&mut self, now: u64, most: u32) -> u32 {
        let mut gone = 0_u32;
        while gone < most {
            let oldest = self.oldest;
            let Some(node) = self.node(oldest) else {
                break;
            };
            // If the clock went back, the age is 0.
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

    /// ADH: the demands of all flows before this place in the order.
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

    /// A node for a new flow, taken from the least urgent flow if none is free; `None`: the new
    /// flow is the least urgent.
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

    /// Inserts a node at its flow's place in the order.
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

    /// Splits the tree at a node into the flows before the key and those after it.
    fn split(&mut self, mut at: u32, key: Key, mut before: Place, mut behind: Place) {
        // The demands before the key in the part that is still to be split.
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

    /// Removes a flow's node from the order.
    fn take_out(&mut self, gone: &Node) {
        let key = gone.key();
        let mut place = Place::Root;
        loop {
            let at = self.read(place);
            let Some(node) = self.node_mut(at) else {
                invariant!("a stored flow is not in the order");
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

    /// Joins two trees at one place; the first is before the second in the order.
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

    /// Changes the demand of a flow whose place in the order does not change.
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

    /// Removes the flow of a node. Returns whether there was one.
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
            invariant!("a flow that is not stored leaves the list by age");
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

    /// The finalizer of splitmix64 (S. Vigna): each bit of a flow's number affects all bits.
    fn bucket(&self, id: u64) -> usize {
        let mut x = id ^ self.secret;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x.wrapping_shr(self.shift) as usize
    }

    /// The node of a flow; a node that does not exist if the flow is not stored.
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
            invariant!("a flow has no bucket");
            return;
        };
        let next = core::mem::replace(bucket, slot);
        if let Some(node) = self.node_mut(slot) {
            node.chain = next;
            node.id = id;
        }
    }

    /// Removes a node from its bucket; it is then free.
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

    /// Checks the invariants; returns the depth of the tree. For tests: linear.
    ///
    /// # Errors
    ///
    /// The violated invariant.
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

    /// The depth of a tree, and its number of nodes. Checks that all are between two keys, and
    /// below a priority.
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
