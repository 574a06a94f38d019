// SPDX-License-Identifier: GPL-2.0-only

//! The flow of a packet, for qdiscs that keep flows apart.
//!
//! # One flow, one number
//!
//! A packet's flow is, in this order:
//!
//! 1. the hash that its socket or its device gave it;
//! 2. [`Key`]'s hash, computed from the headers, wherever they are in the packet's memory;
//! 3. the hash of the kernel's flow dissector, for packets that `Key` cannot parse.
//!
//! The bytes of the headers alone decide between the last two. So the following are one flow, if
//! their addresses, ports and protocol are the same:
//!
//! - packets whose headers are in one piece, in several, or shared with other packets;
//! - packets with and without segmentation offload, cut before this qdisc or behind it, because a
//!   segment has the headers, and the hash, of the packet that it was cut from;
//! - packets with and without weft's tag, and with any IPv4 options;
//! - packets with a software hash that an earlier stage computed to steer, spray or choose a queue
//!   (RPS, a device with several queues, a filter, `fq_codel`), and packets without one: such a
//!   hash is ignored.
//!
//! The following are separate flows:
//!
//! - Packets with the hash of their socket, and packets that have none or another socket's. A TCP
//!   socket gives all its packets the same hash, from the SYN on, and forwarding within one host
//!   keeps it. The socket draws another hash when it wants another path, after a timeout;
//!   `tcp_pfabric` and `tcp_bfc` do not. A UDP socket provides a hash from `connect` on, and none
//!   before, so its packets before and after `connect` are separate flows.
//! - Packets that arrived on devices which hash the same addresses and ports in different ways.
//!   Packets of one device are one flow.
//! - Fragments: those of all packets between two addresses are one flow, and whole packets others.
//!   Only the first one has the ports. (This does not apply to fragments of a connected socket's
//!   packet on this host: they keep its hash.)
//! - IPv6 packets with extension headers other than the tag, or with a VLAN tag in the frame, and
//!   those without: the dissector's hash differs for them.

use super::{
    clock::random,
    qdisc::{Qdisc, Sch},
    skb::Skb,
};
use crate::common::flow::{Key, HEADERS};

/// Identifies a qdisc's flows.
pub struct Flows {
    /// Made when it is first needed.
    key: Option<Key>,
}

impl Flows {
    /// With a separate key.
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
            None => other(sch, key, skb),
        }
    }
}

/// The flow of a packet whose headers are not in one piece, or not plain ones.
#[cold]
fn other<T: Qdisc>(sch: &mut Sch<'_, T>, key: &Key, skb: &mut Skb) -> u32 {
    if skb.network_header().len() < HEADERS {
        let mut header = [0; HEADERS];
        let header = skb.copy_network_header(&mut header);
        if let Some(flow) = key.flow(skb.protocol(), header) {
            return flow;
        }
    }
    skb.dissected_hash(sch)
}

#[cold]
fn random_key() -> Key {
    let draw = || u64::from(random()) << 32 | u64::from(random());
    Key::new([draw(), draw()])
}
