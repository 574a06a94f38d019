// SPDX-License-Identifier: MIT OR Apache-2.0

//! `pfifo` and `bfifo`: `struct tc_fifo_qopt`, which is the limit.

use super::{Words, units, unknown};
use crate::attributes::Attributes;

/// `pfifo [ limit PACKETS ]`. To `tc` packets are a size, too: `1k` is 1024 of them.
pub(super) fn packets(words: &mut Words<'_>) -> Result<Option<Attributes>, String> {
    options(words, |words| {
        let expected = "a number of packets, for example 24";
        words.value("limit", expected, |text| {
            units::size(text.strip_suffix('p').unwrap_or(text))
        })
    })
}

/// `bfifo [ limit BYTES ]`.
pub(super) fn bytes(words: &mut Words<'_>) -> Result<Option<Attributes>, String> {
    options(words, |words| words.size("limit"))
}

fn options(
    words: &mut Words<'_>,
    read: impl Fn(&mut Words<'_>) -> Result<u32, String>,
) -> Result<Option<Attributes>, String> {
    let mut options = None;
    while let Some(word) = words.option()? {
        match word {
            "limit" => options = Some(Attributes(read(words)?.to_ne_bytes().to_vec())),
            word => return unknown(word, "limit"),
        }
    }
    Ok(options)
}
