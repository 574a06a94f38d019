// SPDX-License-Identifier: GPL-2.0-only

//! The flow of a packet, for qdiscs that keep flows apart.

use super::{
    clock::random,
    qdisc::{Qdisc, Sch},
    skb::Skb,
};
use crate::common::flow::Key;

/// Tells a qdisc's flows apart.
///
/// A packet's flow is the hash that its socket or its device gave it, or a forwarding hop before
/// this one. Where it has none, it is computed from the headers, see [`Key`]; by the kernel's flow
/// dissector, where that cannot.
pub struct Flows {
    /// Made when it is first needed.
    key: Option<Key>,
}

impl Flows {
    /// With a key of its own.
    pub const fn new() -> Self {
        Self { key: None }
    }

    /// The packet's flow: equal for the packets of one flow, random bits otherwise.
    #[inline]
    pub fn of<T: Qdisc>(&mut self, sch: &mut Sch<'_, T>, skb: &mut Skb) -> u32 {
        if let Some(hash) = skb.hash() {
            return hash;
        }
        let key = self.key.get_or_insert_with(random_key);
        match key.flow(skb.protocol(), skb.network_header()) {
            Some(flow) => flow,
            None => skb.dissected_hash(sch),
        }
    }
}

#[cold]
fn random_key() -> Key {
    let draw = || u64::from(random()) << 32 | u64::from(random());
    Key::new([draw(), draw()])
}
