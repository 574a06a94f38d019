// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Helpers of the tests: a message to write attributes into, and one to make by hand.

use weft_mechanisms::common::nla::{NoRoom, Sink, HEADER};

/// A message with room for this many bytes.
#[derive(Debug)]
pub(crate) struct Message {
    bytes: Vec<u8>,
    room: usize,
}

impl Message {
    pub(crate) fn with_room(room: usize) -> Self {
        Self {
            bytes: Vec::new(),
            room,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Sink for Message {
    fn put(&mut self, attr: u16, payload: &[u8]) -> Result<(), NoRoom> {
        let attribute = attribute(attr, payload);
        if self.bytes.len() + attribute.len() > self.room {
            return Err(NoRoom);
        }
        self.bytes.extend(attribute);
        Ok(())
    }
}

/// The bytes that `put` writes.
pub(crate) fn written(put: impl FnOnce(&mut Message) -> Result<(), NoRoom>) -> Vec<u8> {
    let mut message = Message::with_room(4096);
    put(&mut message).expect("4096 bytes are enough for any of weft's messages");
    message.bytes
}

/// One attribute, padded.
pub(crate) fn attribute(attr: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(HEADER + payload.len()).expect("an attribute fits in 64 KiB");
    let mut bytes = Vec::new();
    bytes.extend(length.to_ne_bytes());
    bytes.extend(attr.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A sequence of attributes.
pub(crate) fn attributes(list: &[(u16, &[u8])]) -> Vec<u8> {
    list.iter()
        .flat_map(|(attr, payload)| attribute(*attr, payload))
        .collect()
}
