// SPDX-License-Identifier: MIT OR Apache-2.0

//! Netlink attributes: writes them in sequence, and reads them.

use weft_mechanisms::common::nla::{HEADER, NoRoom, Sink, TYPE_MASK};

/// A buffer to which attributes are appended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes(pub(crate) Vec<u8>);

impl Attributes {
    pub(crate) fn bytes(&mut self, kind: u16, payload: &[u8]) {
        let end = self.open(kind);
        self.0.extend_from_slice(payload);
        self.close(end);
    }

    pub(crate) fn u8(&mut self, kind: u16, value: u8) {
        self.bytes(kind, &[value]);
    }

    pub(crate) fn u32(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_ne_bytes());
    }

    pub(crate) fn u64(&mut self, kind: u16, value: u64) {
        self.bytes(kind, &value.to_ne_bytes());
    }

    /// A string with its terminating zero.
    pub(crate) fn text(&mut self, kind: u16, text: &str) {
        let start = self.open(kind);
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        self.close(start);
    }

    /// An attribute whose payload `fill` appends.
    pub(crate) fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.open(kind);
        fill(self);
        self.close(start);
    }

    fn open(&mut self, kind: u16) -> usize {
        let start = self.0.len();
        self.0.extend_from_slice(&[0, 0]);
        self.0.extend_from_slice(&kind.to_ne_bytes());
        start
    }

    /// Writes the length. No request approaches the limit of 64 KiB for an attribute: the longest
    /// are the next hops of a route, 24 bytes for each of a node's ports.
    fn close(&mut self, start: usize) {
        let length = u16::try_from(self.0.len() - start).expect("an attribute of less than 64 KiB");
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}

/// Options are written by weft-mechanisms.
impl Sink for Attributes {
    fn put(&mut self, kind: u16, payload: &[u8]) -> Result<(), NoRoom> {
        self.bytes(kind, payload);
        Ok(())
    }
}

/// The attributes in `bytes`, their types without flags; ends at the first truncated one.
pub(crate) fn read(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & TYPE_MASK;
        let payload = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    })
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}
