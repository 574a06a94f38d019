// SPDX-License-Identifier: MIT OR Apache-2.0

//! Ingress: a switch reads the tag, a host removes it, or takes out hop records. A malformed tag is
//! counted and left alone.

use aya_ebpf::{EbpfContext as _, bindings::__sk_buff, macros::classifier, programs::TcContext};
use weft_ebpf_common::{
    counter::Counter,
    port::{MAX_WITHOUT_DATA, Untagged},
};
use weft_mechanisms::common::tag::{self, IPV4_HEADER, IPV4_OPTIONS_MAX, IPV6_HEADER, Malformed, SIZE, Tag};

use crate::{
    echo, maps,
    packet::{self, ETHERNET_HEADER, NEXT, Version},
    records, spray,
};

/// [`find`]: no tag.
const PASSED: u64 = 1 << 48;
/// [`find`]: a malformed tag.
const MALFORMED: u64 = 1 << 49;

#[classifier]
pub fn weft_read(ctx: TcContext) -> i32 {
    let Some(version) = Version::of(&ctx) else {
        return NEXT;
    };
    let said = match find(&ctx, version) {
        PASSED => {
            maps::count(Counter::ReadPassed);
            rank_untagged(&ctx);
            0
        }
        MALFORMED => {
            maps::count(Counter::ReadMalformed);
            rank_untagged(&ctx);
            0
        }
        tag => {
            let skb: *mut __sk_buff = ctx.as_ptr().cast();
            // SAFETY: The context is valid while the program runs.
            unsafe {
                (*skb).priority = tag as u32;
                (*skb).mark = (tag >> 32) as u32;
            }
            maps::count(Counter::Read);
            (tag >> 32) as u32
        }
    };
    spray::spray(&ctx, said);
    NEXT
}

/// A packet without a tag keeps rank 0, the most urgent, unless it may hold data and hosts tag
/// their data. Otherwise a host could gain by sending data without a tag, and a host whose packets
/// have no room for a tag (a route without `mtu lock`) would overtake all others unnoticed.
#[inline(always)]
fn rank_untagged(ctx: &TcContext) {
    if ctx.len() <= ETHERNET_HEADER as u32 + MAX_WITHOUT_DATA {
        return;
    }
    let Some(port) = maps::port(ctx) else {
        return;
    };
    // SAFETY: A value of the map; the loader wrote this field before.
    if unsafe { (*port).untagged } != Untagged::Last as u32 {
        return;
    }
    let skb: *mut __sk_buff = ctx.as_ptr().cast();
    // SAFETY: The context is valid while the program runs.
    unsafe { (*skb).priority = u32::MAX };
    maps::count(Counter::ReadLast);
}

#[classifier]
pub fn weft_untag(ctx: TcContext) -> i32 {
    let Some(version) = Version::of(&ctx) else {
        return NEXT;
    };
    let collects = maps::port(&ctx).is_some_and(|port| {
        // SAFETY: A value of the map; the program only reads fields that the loader wrote before.
        records::applies(unsafe { &*port })
    });
    if collects {
        maps::count(records::arrive(&ctx, version));
        return NEXT;
    }
    maps::count(match find(&ctx, version) {
        PASSED => Counter::UntagPassed,
        MALFORMED => Counter::UntagMalformed,
        tag => {
            let done = match version {
                Version::V4 => untag_ipv4(&ctx),
                Version::V6 => untag_ipv6(&ctx),
            };
            if done.is_some() {
                if maps::port(&ctx).is_some_and(|port| {
                    // SAFETY: A value of the map; the program only reads fields that the loader
                    // wrote before.
                    echo::applies(unsafe { &*port })
                }) {
                    echo::store(&ctx, version, tag as u32);
                }
                Counter::Untagged
            } else {
                Counter::UntagFailed
            }
        }
    });
    NEXT
}

/// Reads the tag: returns its upstream queue (upper half) and rank (lower half), or one of the
/// above constants. Checks the packet's own length fields against its real length.
///
/// Every step returns one number. The compiler leaves unused parts of a `Result` undefined but may
/// still copy them, which the verifier refuses.
#[inline(always)]
fn find(ctx: &TcContext, version: Version) -> u64 {
    match version {
        Version::V4 => find_ipv4(ctx),
        Version::V6 => find_ipv6(ctx),
    }
}

#[inline(always)]
fn encode(tag: Result<Option<Tag>, Malformed>) -> u64 {
    match tag {
        Ok(Some(tag)) => u64::from(tag.upstream_queue) << 32 | u64::from(tag.rank),
        Ok(None) => PASSED,
        Err(_) => MALFORMED,
    }
}

#[inline(always)]
fn find_ipv4(ctx: &TcContext) -> u64 {
    let Ok(header) = ctx.load::<[u8; 4]>(ETHERNET_HEADER) else {
        return MALFORMED;
    };
    // The common packet without options.
    if header[0] == 0x45 {
        return PASSED;
    }
    let length = usize::from(header[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let frame = ctx.len() as usize;
    if header[0] >> 4 != 4
        || length < IPV4_HEADER
        || length > total
        || total + ETHERNET_HEADER > frame
    {
        return MALFORMED;
    }
    let at = Version::V4.after_header();
    // The common packet with a tag, and no other option.
    if length == IPV4_HEADER + SIZE {
        let Ok(option) = ctx.load::<[u8; SIZE]>(at) else {
            return MALFORMED;
        };
        if option[0] == tag::IPV4_OPTION {
            return encode(Tag::from_ipv4(option));
        }
    }
    let length = length - IPV4_HEADER;
    let mut options = [0; IPV4_OPTIONS_MAX];
    // Word by word: the verifier rarely accepts a load of variable size.
    for (index, word) in options.chunks_exact_mut(4).enumerate() {
        if index * 4 >= length {
            break;
        }
        let Ok(bytes) = ctx.load::<[u8; 4]>(at + index * 4) else {
            return MALFORMED;
        };
        word.copy_from_slice(&bytes);
    }
    let [a, b, c, d, e, f, g, h, ..] = options;
    let tag = if length < SIZE {
        PASSED
    } else {
        encode(Tag::from_ipv4([a, b, c, d, e, f, g, h]))
    };
    let rest = if tag < PASSED { SIZE } else { 0 };
    match tag::check_ipv4_options(&options, length, rest) {
        Ok(()) => tag,
        Err(_) => MALFORMED,
    }
}

#[inline(always)]
fn find_ipv6(ctx: &TcContext) -> u64 {
    let Ok(header) = ctx.load::<[u8; 8]>(ETHERNET_HEADER) else {
        return MALFORMED;
    };
    if header[6] != tag::IPV6_DESTINATION_OPTIONS {
        return PASSED;
    }
    let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let frame = ctx.len() as usize;
    if header[0] >> 4 != 6 || payload < SIZE || payload + IPV6_HEADER + ETHERNET_HEADER > frame {
        return MALFORMED;
    }
    let at = Version::V6.after_header();
    let Ok(option) = ctx.load::<[u8; SIZE]>(at) else {
        return MALFORMED;
    };
    let tag = encode(Tag::from_ipv6(option));
    if tag < PASSED && option[0] == tag::IPV6_DESTINATION_OPTIONS {
        // A truncated header is not a second tag; IP will detect it.
        if let Ok(next) = ctx.load::<[u8; 4]>(at + SIZE)
            && tag::is_second_tag(Some(next))
        {
            return MALFORMED;
        }
    }
    tag
}

#[inline(always)]
fn untag_ipv4(ctx: &TcContext) -> Option<()> {
    let header: [u8; IPV4_HEADER] = ctx.load(ETHERNET_HEADER).ok()?;
    let option: [u8; SIZE] = ctx.load(Version::V4.after_header()).ok()?;
    let header = tag::untagged_ipv4_header(header, option)?;
    if !packet::resize(ctx, -(SIZE as i32)) {
        return None;
    }
    packet::store(ctx, ETHERNET_HEADER, &header);
    Some(())
}

#[inline(always)]
fn untag_ipv6(ctx: &TcContext) -> Option<()> {
    let header: [u8; 8] = ctx.load(ETHERNET_HEADER).ok()?;
    let [next, ..]: [u8; SIZE] = ctx.load(Version::V6.after_header()).ok()?;
    let length = u16::from_be_bytes([header[4], header[5]]).checked_sub(SIZE as u16)?;
    if !packet::resize(ctx, -(SIZE as i32)) {
        return None;
    }
    let [high, low] = length.to_be_bytes();
    packet::store(ctx, ETHERNET_HEADER + 4, &[high, low, next]);
    Some(())
}
