// SPDX-License-Identifier: GPL-2.0-only

//! The tag of an IP packet, read and written in place.

use super::skb::{Skb, WithHeader};
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

impl MaybeTagged {
    /// Reads the tag of an IP packet, and makes it writable. Other data may look like a tag.
    ///
    /// # Errors
    ///
    /// The packet, if there is no memory to make it writable.
    #[inline]
    pub fn read(skb: Skb, protocol: u16) -> Result<Self, Skb> {
        let header = skb.network_header();
        let version = header.first().map(|first| first >> 4);
        let is_ip = matches!((protocol, version), (IPV4, Some(4)) | (IPV6, Some(6)));
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
