// SPDX-License-Identifier: GPL-2.0-only

//! The tag of an IP packet, and its hop records, read and written in place.

use super::skb::{Skb, WithHeader};
use crate::common::records::{self, Departure, Head};
use crate::common::tag::{self, Tag};

/// EtherTypes (`ETH_P_IP`, `ETH_P_IPV6`).
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// A packet that has a writable tag, or none.
pub enum MaybeTagged {
    /// It has none.
    Untagged(Skb),
    /// It has one.
    Tagged {
        /// The packet.
        skb: WithHeader,
        /// The tag's offset from the network header.
        at: usize,
        /// Its value.
        tag: Tag,
    },
}

/// Whether a packet that begins with `header` is what its EtherType says.
#[inline]
fn is_ip(header: &[u8], protocol: u16) -> bool {
    let version = header.first().map(|first| first >> 4);
    matches!((protocol, version), (IPV4, Some(4)) | (IPV6, Some(6)))
}

/// A packet with room for hop records.
pub struct Recording {
    skb: Skb,
    block: (usize, Head),
}

/// What [`Recording::append`] did.
pub enum Recorded {
    /// The packet has the link's record.
    Yes(Skb),
    /// The packet is full.
    Full(Skb),
    /// There is no memory to make the packet writable, and it is unchanged.
    Unwritable(Skb),
}

impl Recording {
    /// Finds the block of an IP packet. Other data may look like one.
    ///
    /// # Errors
    ///
    /// The packet, if it has none.
    #[inline]
    pub fn find(skb: Skb, protocol: u16) -> Result<Self, Skb> {
        let header = skb.network_header();
        match records::find(header).filter(|_| is_ip(header, protocol)) {
            Some(block) => Ok(Self { skb, block }),
            None => Err(skb),
        }
    }

    /// Whether the records are on their way back.
    #[inline]
    pub fn returns(&self) -> bool {
        self.block.1.echo
    }

    /// The packet, unchanged.
    #[inline]
    pub fn into_skb(self) -> Skb {
        self.skb
    }

    /// Adds the record of the link with the number `link`, whose base round-trip time is `rtt` ns.
    #[inline]
    pub fn append(self, link: u32, rtt: u64, departure: Departure) -> Recorded {
        let length = self.block.0.wrapping_add(records::BLOCK) as u32;
        let mut skb = match self.skb.with_header(length) {
            Ok(skb) => skb,
            Err(skb) => return Recorded::Unwritable(skb),
        };
        let had_room = records::append(skb.header(), self.block, link, rtt, departure);
        let skb = skb.into_skb();
        if had_room {
            Recorded::Yes(skb)
        } else {
            Recorded::Full(skb)
        }
    }
}

impl MaybeTagged {
    /// Reads the tag of an IP packet, and makes it writable. Other data may look like a tag.
    ///
    /// # Errors
    ///
    /// The packet, if there is no memory to make it writable.
    #[inline]
    pub fn read(skb: Skb, protocol: u16) -> Result<Self, Skb> {
        let header = skb.network_header();
        let is_ip = is_ip(header, protocol);
        let Some((at, tag)) = tag::read(header).filter(|_| is_ip) else {
            return Ok(Self::Untagged(skb));
        };
        let skb = skb.with_header(at.wrapping_add(tag::WORD) as u32)?;
        Ok(Self::Tagged { skb, at, tag })
    }

    /// The upstream queue in the tag; 0 without a tag.
    #[inline]
    pub fn upstream_queue(&self) -> u16 {
        match self {
            Self::Untagged(_) => 0,
            Self::Tagged { tag, .. } => tag.upstream_queue,
        }
    }

    /// Writes another upstream queue, if there is a tag.
    #[inline]
    pub fn mark(mut self, upstream_queue: u16) -> Skb {
        if let Self::Tagged { tag, .. } = &mut self {
            tag.upstream_queue = upstream_queue;
        }
        self.written()
    }

    /// Writes this tag into the packet, if there is one.
    #[inline]
    pub fn written(self) -> Skb {
        match self {
            Self::Untagged(skb) => skb,
            Self::Tagged { mut skb, at, tag } => {
                tag::rewrite(skb.header(), at, tag);
                skb.into_skb()
            }
        }
    }

    /// The packet, unchanged.
    pub fn into_skb(self) -> Skb {
        match self {
            Self::Untagged(skb) => skb,
            Self::Tagged { skb, .. } => skb.into_skb(),
        }
    }
}
