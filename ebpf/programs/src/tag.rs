// SPDX-License-Identifier: MIT OR Apache-2.0

//! A host's egress: each packet with payload of a TCP or UDP socket gets its rank, in
//! `skb->priority` and in a tag.
//!
//! Packets without payload (acknowledgements, SYN, FIN) stay unchanged: their rank is 0, the most
//! urgent. If all packets must carry a tag, because the tag transports something else as well, they
//! get one, too. All segments of a GSO packet carry the rank of the first one; by default the
//! loader limits such packets to one segment.

use aya_ebpf::{
    EbpfContext as _, bindings::__sk_buff, helpers::generated::bpf_check_mtu, macros::classifier,
    programs::TcContext,
};
use weft_ebpf_common::{
    counter::Counter,
    port::{Port, Tagged},
};
use weft_mechanisms::common::tag::{self, IPV4_HEADER, SIZE, Tag};

use crate::{
    echo, maps,
    packet::{self, ETHERNET_HEADER, HOP_BY_HOP, NEXT, Transport, Version},
    rank::{self, Packet},
    records,
};

/// Longest IPv4 packet, and longest payload of an IPv6 packet.
const LONGEST: usize = 65_535;
/// [`find`]: no payload of a socket of this host.
const NOTHING: u64 = u64::MAX;

#[classifier]
pub fn weft_tag(ctx: TcContext) -> i32 {
    maps::count(run(&ctx));
    NEXT
}

#[inline(always)]
fn run(ctx: &TcContext) -> Counter {
    let Some(version) = Version::of(ctx) else {
        return Counter::TagPassed;
    };
    let Some(port) = maps::port(ctx) else {
        return Counter::TagPassed;
    };
    // SAFETY: The map's value outlives the program, which only reads fields that the loader wrote
    // before.
    let port = unsafe { &*port };
    if records::applies(port) {
        return records::leave(ctx, version, mtu(ctx.as_ptr().cast()));
    }
    let Some(transport) = packet::transport(ctx, version) else {
        return Counter::TagPassed;
    };
    let is_any = port.tagged == Tagged::All as u32 && transport.protocol != HOP_BY_HOP;
    let found = find(ctx, port, &transport);
    if found == NOTHING && !is_any {
        return Counter::TagPassed;
    }
    let (rank, payload) = if found == NOTHING {
        (port.fixed, 0)
    } else {
        (found as u32, (found >> 32) as usize)
    };
    let rank = if echo::applies(port) {
        echo::rank(ctx)
    } else {
        rank
    };
    let tag = Tag {
        rank,
        upstream_queue: 0,
    }
    .on_the_wire();
    let skb: *mut __sk_buff = ctx.as_ptr().cast();
    // SAFETY: The context is valid while the program runs.
    let gso_size = unsafe { (*skb).gso_size } as usize;
    // SAFETY: As above.
    unsafe { (*skb).priority = tag.rank }
    #[cfg(feature = "log")]
    aya_log_ebpf::debug!(ctx, "rank {} on {} bytes", tag.rank, ctx.len());

    let whole = (ctx.len() as usize).wrapping_sub(ETHERNET_HEADER);
    let one = if gso_size == 0 || payload == 0 {
        whole
    } else {
        payload
            .wrapping_sub(ETHERNET_HEADER)
            .wrapping_add(gso_size)
    };
    let most = match version {
        Version::V4 => LONGEST,
        Version::V6 => LONGEST + tag::IPV6_HEADER,
    };
    if one.wrapping_add(SIZE) > mtu(skb) as usize || whole.wrapping_add(SIZE) > most {
        return Counter::TagTooLong;
    }
    let tagged = match version {
        Version::V4 => tag_ipv4(ctx, tag),
        Version::V6 => tag_ipv6(ctx, tag),
    };
    if tagged.is_some() {
        Counter::Tagged
    } else {
        Counter::TagNoRoom
    }
}

/// Returns the start of a packet's payload (upper half) and its rank (lower half), or [`NOTHING`].
/// It is one number because the compiler leaves unused parts of an `Option` undefined but may still
/// copy them, which the verifier refuses.
#[inline(always)]
fn find(ctx: &TcContext, port: &Port, transport: &Transport) -> u64 {
    let Some(packet) = Packet::read(ctx, transport) else {
        return NOTHING;
    };
    match rank::rank(ctx, port, &packet) {
        Some(rank) => (packet.payload as u64) << 32 | u64::from(rank),
        None => NOTHING,
    }
}

/// The device's current MTU in bytes.
#[inline(always)]
fn mtu(skb: *mut __sk_buff) -> u32 {
    let mut mtu = 0;
    // SAFETY: The context is valid while the program runs. The helper's verdict on the packet's
    // length is irrelevant: it accepts any GSO packet.
    unsafe { bpf_check_mtu(skb.cast(), 0, &raw mut mtu, 0, 0) };
    mtu
}

#[inline(always)]
fn tag_ipv4(ctx: &TcContext, tag: Tag) -> Option<()> {
    let header: [u8; IPV4_HEADER] = ctx.load(ETHERNET_HEADER).ok()?;
    let header = tag::tagged_ipv4_header(header, tag)?;
    if !packet::resize(ctx, SIZE as i32) {
        return None;
    }
    // There is room, so neither store can fail.
    packet::store(ctx, ETHERNET_HEADER, &header);
    packet::store(ctx, Version::V4.after_header(), &tag.to_ipv4());
    Some(())
}

#[inline(always)]
fn tag_ipv6(ctx: &TcContext, tag: Tag) -> Option<()> {
    let header: [u8; 8] = ctx.load(ETHERNET_HEADER).ok()?;
    let length = u16::from_be_bytes([header[4], header[5]]).checked_add(SIZE as u16)?;
    if !packet::resize(ctx, SIZE as i32) {
        return None;
    }
    let [high, low] = length.to_be_bytes();
    packet::store(
        ctx,
        ETHERNET_HEADER + 4,
        &[high, low, tag::IPV6_DESTINATION_OPTIONS],
    );
    packet::store(ctx, Version::V6.after_header(), &tag.to_ipv6(header[6]));
    Some(())
}
