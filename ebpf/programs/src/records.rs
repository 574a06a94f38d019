// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hop records: a host sends TCP's data with room for the records of the links on its path. At the
//! other end they are stored with the socket, and its next packet without data brings them back.
//! The format is in [`weft_mechanisms`](weft_mechanisms::common::records).
//!
//! IPv4 has room for one direction only. Packets with data collect records, and the others return
//! them. A receiver whose route has `quickack 1` acknowledges each packet with one of its own.

use core::ptr;

use aya_ebpf::{bindings::bpf_sock, helpers::generated::bpf_ktime_get_ns, programs::TcContext};
use weft_ebpf_common::{
    Telemetry,
    counter::Counter,
    port::{Policy, Port},
};
use weft_mechanisms::common::records::{self, BLOCK, Head, IPV4_SIZE, IPV6_SIZE};
use weft_mechanisms::common::tag::{IPV4_HEADER, IPV6_DESTINATION_OPTIONS, IPV6_HEADER};

use crate::{
    maps,
    packet::{self, ETHERNET_HEADER, TCP, Version},
    rank::Packet,
    socket,
};

/// Whether a host's packets have room for records.
#[inline(always)]
pub(crate) fn applies(port: &Port) -> bool {
    port.policy == Policy::Records as u32
}

/// Gives room for records to a packet of TCP with data, and to another one the records that its
/// socket has received since its last one. `mtu` of the device, in bytes.
#[inline(always)]
pub(crate) fn leave(ctx: &TcContext, version: Version, mtu: u32) -> Counter {
    let Some(transport) = packet::transport(ctx, version) else {
        return Counter::TagPassed;
    };
    let sk = socket::own(ctx);
    if sk.is_null() || transport.protocol != TCP {
        return Counter::TagPassed;
    }
    let size = match version {
        Version::V4 => IPV4_SIZE,
        Version::V6 => IPV6_SIZE,
    };
    let has_data = Packet::read(ctx, &transport).is_some();
    let mut block = [0; BLOCK];
    if !has_data {
        // SAFETY: `sk` is a full socket.
        let telemetry = unsafe { maps::telemetry(sk, false) };
        // SAFETY: Null or a value of the map.
        if telemetry.is_null() || unsafe { (*telemetry).waits } == 0 {
            return Counter::TagPassed;
        }
        // SAFETY: A value of the map. Another CPU may store records meanwhile: they are lost, or
        // mixed with those before, which differ in a packet or two.
        unsafe {
            (*telemetry).waits = 0;
            block = (*telemetry).received;
        }
    }
    let whole = (ctx.len() as usize).wrapping_sub(ETHERNET_HEADER);
    if whole.wrapping_add(size) > mtu as usize {
        return Counter::TagTooLong;
    }
    let added = match version {
        Version::V4 => add_ipv4(ctx, block),
        Version::V6 => add_ipv6(ctx, block),
    };
    if added.is_none() {
        return Counter::TagNoRoom;
    }
    if !has_data {
        maps::count(Counter::TagEchoed);
    }
    Counter::Tagged
}

#[inline(always)]
fn add_ipv4(ctx: &TcContext, block: [u8; BLOCK]) -> Option<()> {
    let header: [u8; IPV4_HEADER] = ctx.load(ETHERNET_HEADER).ok()?;
    let option = records::to_ipv4(block);
    let header = records::with_option(header, &option)?;
    if !packet::resize(ctx, IPV4_SIZE as i32) {
        return None;
    }
    // There is room, so neither store can fail.
    packet::store(ctx, ETHERNET_HEADER, &header);
    packet::store(ctx, Version::V4.after_header(), &option);
    Some(())
}

#[inline(always)]
fn add_ipv6(ctx: &TcContext, block: [u8; BLOCK]) -> Option<()> {
    let header: [u8; 8] = ctx.load(ETHERNET_HEADER).ok()?;
    let length = u16::from_be_bytes([header[4], header[5]]).checked_add(IPV6_SIZE as u16)?;
    if !packet::resize(ctx, IPV6_SIZE as i32) {
        return None;
    }
    let [high, low] = length.to_be_bytes();
    packet::store(
        ctx,
        ETHERNET_HEADER + 4,
        &[high, low, IPV6_DESTINATION_OPTIONS],
    );
    let options = records::to_ipv6(block, header[6]);
    packet::store(ctx, Version::V6.after_header(), &options);
    Some(())
}

/// Takes a packet's records out, and stores them with its socket.
#[inline(always)]
pub(crate) fn arrive(ctx: &TcContext, version: Version) -> Counter {
    let Some(scratch) = maps::scratch() else {
        return Counter::UntagPassed;
    };
    // SAFETY: A value of the map that nothing else uses while the program runs.
    let scratch = unsafe { &mut *scratch };
    let counter = match version {
        Version::V4 => remove_ipv4(ctx, scratch),
        Version::V6 => remove_ipv6(ctx, scratch),
    };
    if counter != Counter::Untagged {
        return counter;
    }
    let block = match version {
        Version::V4 => scratch.first_chunk().and_then(records::from_ipv4),
        Version::V6 => records::from_ipv6(scratch),
    };
    let Some(block) = block else {
        return Counter::UntagPassed;
    };
    let head = Head::from_word([block[0], block[1]]);
    if head.hops() != 0 {
        // SAFETY: A full socket, as `store` passes.
        socket::store(ctx, version, |sk| unsafe {
            store_with(sk, head.echo, block)
        });
    }
    Counter::Untagged
}

/// Moves the packet's option to `to`, if it is one with a block.
#[inline(always)]
fn remove_ipv4(ctx: &TcContext, to: &mut [u8; IPV6_SIZE]) -> Counter {
    let Ok(header) = ctx.load::<[u8; IPV4_HEADER]>(ETHERNET_HEADER) else {
        return Counter::UntagPassed;
    };
    if header[0] != 0x4f {
        return Counter::UntagPassed;
    }
    let Some(option) = to.first_chunk_mut::<IPV4_SIZE>() else {
        return Counter::UntagFailed;
    };
    if !packet::load_to(ctx, Version::V4.after_header(), option) {
        return Counter::UntagMalformed;
    }
    if records::from_ipv4(option).is_none() {
        return Counter::UntagPassed;
    }
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let Some(header) = records::without_option(header, option) else {
        return Counter::UntagMalformed;
    };
    if total + ETHERNET_HEADER > ctx.len() as usize {
        return Counter::UntagMalformed;
    }
    if !packet::resize(ctx, -(IPV4_SIZE as i32)) {
        return Counter::UntagFailed;
    }
    packet::store(ctx, ETHERNET_HEADER, &header);
    Counter::Untagged
}

/// Moves the packet's destination options to `to`, if they have a block.
#[inline(always)]
fn remove_ipv6(ctx: &TcContext, to: &mut [u8; IPV6_SIZE]) -> Counter {
    let Ok(header) = ctx.load::<[u8; 8]>(ETHERNET_HEADER) else {
        return Counter::UntagPassed;
    };
    if header[6] != IPV6_DESTINATION_OPTIONS
        || !packet::load_to(ctx, Version::V6.after_header(), to)
        || records::from_ipv6(to).is_none()
    {
        return Counter::UntagPassed;
    }
    let payload = u16::from_be_bytes([header[4], header[5]]);
    let length = usize::from(payload) + IPV6_HEADER + ETHERNET_HEADER;
    let Some(rest) = payload.checked_sub(IPV6_SIZE as u16) else {
        return Counter::UntagMalformed;
    };
    if header[0] >> 4 != 6 || length > ctx.len() as usize {
        return Counter::UntagMalformed;
    }
    if !packet::resize(ctx, -(IPV6_SIZE as i32)) {
        return Counter::UntagFailed;
    }
    let [high, low] = rest.to_be_bytes();
    packet::store(ctx, ETHERNET_HEADER + 4, &[high, low, to[0]]);
    Counter::Untagged
}

/// Stores records with a socket: those that have come back, or those of a packet from the other
/// end, ready to go back. Not without memory.
///
/// # Safety
///
/// `sk` must be a full socket.
#[inline(always)]
unsafe fn store_with(sk: *mut bpf_sock, returned: bool, block: &[u8; BLOCK]) -> bool {
    // SAFETY: A full socket (precondition).
    let telemetry = unsafe { maps::telemetry(sk, true) };
    if telemetry.is_null() {
        return false;
    }
    // SAFETY: A value of the map. Another CPU may change it at the same time, see `leave`; the
    // helper has no precondition.
    unsafe {
        if returned {
            (*telemetry).echo = *block;
            (*telemetry).echo_at = bpf_ktime_get_ns();
            (*telemetry).echoes = (*telemetry).echoes.wrapping_add(1);
        } else {
            (*telemetry).received = *block;
            let head = Head::from_word([block[0], block[1]]).returned();
            let to = (&raw mut (*telemetry).received).cast::<[u8; 2]>();
            ptr::write(to, head.to_word());
            (*telemetry).waits = 1;
        }
        (*telemetry).key = Telemetry::KEY;
    }
    true
}
