// SPDX-License-Identifier: MIT OR Apache-2.0

//! Parses captured frames, independently of the programs under test.

use anyhow::{Context as _, Result, ensure};
use weft_mechanisms::common::tag::{self, Tag};

/// Offset of the IP header, after the Ethernet header.
const IP: usize = 14;

/// A TCP or UDP packet.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) tag: Option<Tag>,
    pub(crate) destination_port: u16,
    /// TCP: sequence number of the first byte.
    pub(crate) sequence: u32,
    /// TCP: the SYN flag.
    pub(crate) syn: bool,
    /// Bytes of payload.
    pub(crate) payload: usize,
    /// Bytes from the start of the IP header.
    pub(crate) length: usize,
}

/// The Internet checksum: 0 over a header with a correct checksum.
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn word(bytes: &[u8], at: usize) -> Result<u16> {
    let pair = bytes.get(at..at + 2).context("a truncated header")?;
    Ok(u16::from_be_bytes([pair[0], pair[1]]))
}

/// `None` if it is not TCP or UDP over IP, or a later fragment.
///
/// # Errors
///
/// If lengths or the checksum are wrong, or the tag is malformed.
pub(crate) fn parse(frame: &[u8]) -> Result<Option<Packet>> {
    let ip = frame.get(IP..).context("a truncated frame")?;
    let kind = word(frame, 12)?;
    let (protocol, at, length) = match kind {
        0x0800 => {
            let size = usize::from(ip[0] & 15) * 4;
            ensure!(
                checksum(&ip[..size]) == 0,
                "a wrong IPv4 checksum: {:x?}",
                &ip[..size]
            );
            if word(ip, 6)? & 0x1fff != 0 {
                return Ok(None);
            }
            (ip[9], size, usize::from(word(ip, 2)?))
        }
        0x86dd => {
            let length = usize::from(word(ip, 4)?) + 40;
            match ip[6] {
                60 => (ip[40], 48 + 8 * usize::from(ip[41]), length),
                protocol => (protocol, 40, length),
            }
        }
        _ => return Ok(None),
    };
    ensure!(
        length <= ip.len(),
        "IP claims {length} bytes of {}",
        ip.len()
    );
    let tag = tag::find_in_packet(ip).map_err(|error| anyhow::anyhow!("{error:?}: {ip:x?}"))?;
    let transport = &ip[at..length];
    let (header, sequence, syn) = match protocol {
        6 => {
            let high = u32::from(word(transport, 4)?);
            let sequence = high << 16 | u32::from(word(transport, 6)?);
            (
                usize::from(transport[12] >> 4) * 4,
                sequence,
                transport[13] & 2 != 0,
            )
        }
        17 => (8, 0, false),
        _ => return Ok(None),
    };
    Ok(Some(Packet {
        tag,

        destination_port: word(transport, 2)?,
        sequence,
        syn,
        payload: transport.len() - header,
        length,
    }))
}

/// The packets with payload to a port, in order.
pub(crate) fn to_port(frames: &[Vec<u8>], port: u16) -> Result<Vec<Packet>> {
    let mut packets = Vec::new();
    for frame in frames {
        packets.extend(parse(frame)?.filter(|packet| packet.destination_port == port));
    }
    packets.retain(|packet| packet.payload != 0);
    Ok(packets)
}
