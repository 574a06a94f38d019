// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packet spraying: each packet gets its own hash, which a multipath route with
//! `fib_multipath_hash_policy` 1 uses unchanged.
//!
//! The route divides the hashes into as many equal ranges as it has paths (of equal weight), in
//! order. Round robin takes the middles of the ranges in turn if it knows their number. If not, it
//! counts with the bits of the counter reversed, so that any 2^k successive packets hit each of 2^k
//! ranges once (van der Corput's sequence).
//!
//! A packet whose tag names its path takes the middle of that next hop's range. A path may consist
//! of several choices, one at each switch: `stride` successive paths have the same choice here.
//!
//! A qdisc that distinguishes flows by that hash, such as `pfabric`, would see every packet as a
//! flow of its own. So the egress program clears the hash, and the kernel computes the flow's hash
//! again.

use aya_ebpf::{
    EbpfContext as _,
    helpers::generated::{bpf_get_prandom_u32, bpf_set_hash, bpf_set_hash_invalid},
    macros::classifier,
    programs::TcContext,
};
use core::num::{NonZeroU32, NonZeroU64};
use weft_ebpf_common::{counter::Counter, port::Spray};

use crate::{maps, packet::NEXT};

/// Sets the packet's hash if the switch sprays. `said`: the upstream queue in its tag, 0 if there
/// is none.
#[inline(always)]
pub(crate) fn spray(ctx: &TcContext, said: u32) {
    const ROUND_ROBIN: u32 = Spray::RoundRobin as u32;
    const RANDOM: u32 = Spray::Random as u32;
    const PATH: u32 = Spray::Path as u32;
    let Some(port) = maps::port(ctx) else {
        return;
    };
    // SAFETY: A value of the map; the loader wrote these fields before.
    let (spray, paths) = unsafe { ((*port).spray, (*port).paths) };
    let hash = match spray {
        ROUND_ROBIN => {
            // SAFETY: A value of the map, aligned.
            let number = unsafe { maps::fetch_add(&raw mut (*port).sprayed, 1) };
            round_robin(number, paths)
        }
        // SAFETY: The helper has no precondition.
        RANDOM => unsafe { bpf_get_prandom_u32() },
        PATH if said != 0 => {
            // SAFETY: A value of the map; the loader wrote this field before.
            let stride = unsafe { (*port).stride };
            match NonZeroU32::new(stride) {
                Some(stride) => round_robin(u64::from((said - 1) / stride), paths),
                None => return,
            }
        }
        _ => return,
    };
    // SAFETY: The context is valid while the program runs.
    unsafe { bpf_set_hash(ctx.as_ptr().cast(), hash) };
    maps::count(Counter::Sprayed);
}

#[inline(always)]
fn round_robin(number: u64, paths: u32) -> u32 {
    let Some(paths) = NonZeroU64::new(paths.into()) else {
        return (number as u32).reverse_bits();
    };
    // (path + 1/2) / paths of the range of hashes.
    let middle = number % paths * 2 + 1;
    ((middle << 31) / paths) as u32
}

#[classifier]
pub fn weft_unspray(ctx: TcContext) -> i32 {
    // SAFETY: The context is valid while the program runs.
    unsafe { bpf_set_hash_invalid(ctx.as_ptr().cast()) };
    NEXT
}
