// SPDX-License-Identifier: MIT OR Apache-2.0

//! The maps. Their names are in [`weft_ebpf_common::map`].

use core::{arch::asm, ptr};

use aya_ebpf::{
    EbpfContext as _,
    bindings::{__sk_buff, BPF_SK_STORAGE_GET_F_CREATE, bpf_sock},
    btf_maps::{Array, PerCpuArray, SkStorage},
    helpers::generated::bpf_sk_storage_get,
    macros::btf_map,
    programs::TcContext,
};
use weft_ebpf_common::{Echo, Flow, Telemetry, counter::Counter, port::Port};
use weft_mechanisms::common::records::IPV6_SIZE;

#[btf_map]
static WEFT_FLOWS: SkStorage<Flow> = SkStorage::new();

#[btf_map]
static WEFT_ECHOES: SkStorage<Echo> = SkStorage::new();

#[btf_map]
static WEFT_TELEMETRY: SkStorage<Telemetry> = SkStorage::new();

/// Room for a packet's options: a program's stack has 512 bytes.
#[btf_map]
static WEFT_SCRATCH: PerCpuArray<[u8; IPV6_SIZE], 1> = PerCpuArray::new();

#[btf_map]
static WEFT_COUNTERS: PerCpuArray<u64, { Counter::COUNT }> = PerCpuArray::new();

/// The loader enlarges it if ports share programs.
#[btf_map]
static WEFT_PORT: Array<Port, 1> = Array::new();

/// Offset in bytes of `write_seq` in the kernel's `struct tcp_sock`, set by the loader.
#[unsafe(no_mangle)]
static WRITE_SEQ_OFFSET: u32 = 0;

/// Whether the programs are filters with a class, which is the number of their port.
#[unsafe(no_mangle)]
static SHARED: u32 = 0;

/// Offset of a TCP socket's sequence number of the next byte to be written. The verifier sees a
/// constant.
#[inline(always)]
pub(crate) fn write_seq_offset() -> u32 {
    // SAFETY: The static is initialised. Volatile, as the loader replaces its value.
    unsafe { ptr::read_volatile(&raw const WRITE_SEQ_OFFSET) }
}

/// Adds one. At tc nothing else runs on this CPU meanwhile. At a cgroup's hook, a preemptible
/// kernel may run another task, and one of two increments may be lost.
#[inline(always)]
pub(crate) fn count(counter: Counter) {
    if let Some(value) = WEFT_COUNTERS.get_ptr_mut(counter as u32) {
        // SAFETY: The value belongs to this CPU, and the map outlives the program.
        unsafe { *value = (*value).wrapping_add(1) }
    }
}

/// Adds and returns the previous value, atomically, because other CPUs may do the same. The
/// compiler has no such operation for this target; the machine has.
///
/// # Safety
///
/// `at` must point to an aligned `u64` in a map's value.
#[inline(always)]
pub(crate) unsafe fn fetch_add(at: *mut u64, mut value: u64) -> u64 {
    // SAFETY: By precondition this program may change the eight bytes at `at`.
    unsafe {
        asm!("{value} = atomic_fetch_add((u64 *)({at} + 0), {value})",
             value = inout(reg) value, at = in(reg) at);
    }
    value
}

/// The device's configuration.
#[inline(always)]
pub(crate) fn port(ctx: &TcContext) -> Option<*mut Port> {
    // SAFETY: The static is initialised. Volatile, as the loader replaces its value.
    let number = match unsafe { ptr::read_volatile(&raw const SHARED) } {
        // At tcx the class is not set.
        0 => 0,
        _ => {
            let skb: *mut __sk_buff = ctx.as_ptr().cast();
            // SAFETY: The context is valid while the program runs.
            unsafe { (*skb).tc_classid }
        }
    };
    WEFT_PORT.get_ptr_mut(number)
}

/// Room for a packet's options. It belongs to this CPU, and to the program until it ends.
#[inline(always)]
pub(crate) fn scratch() -> Option<*mut [u8; IPV6_SIZE]> {
    WEFT_SCRATCH.get_ptr_mut(0)
}

/// The socket's flow; null if there is none.
///
/// # Safety
///
/// `sk` must be a full socket that outlives the program's run.
#[inline(always)]
pub(crate) unsafe fn flow(sk: *mut bpf_sock, create: bool) -> *mut Flow {
    let flags = if create {
        BPF_SK_STORAGE_GET_F_CREATE.into()
    } else {
        0
    };
    let map = ptr::from_ref(&WEFT_FLOWS).cast_mut();
    // SAFETY: The map is one of socket storage and `sk` a full socket (precondition). Without an
    // initial value the kernel writes zeroes, which are a valid `Flow`.
    unsafe { bpf_sk_storage_get(map.cast(), sk.cast(), ptr::null_mut(), flags) }.cast()
}

/// The utilisations that the socket has received; null if there are none.
///
/// # Safety
///
/// `sk` must be a full socket that outlives the program's run, or the caller's reference to it.
#[inline(always)]
pub(crate) unsafe fn echo(sk: *mut bpf_sock, create: bool) -> *mut Echo {
    let flags = if create {
        BPF_SK_STORAGE_GET_F_CREATE.into()
    } else {
        0
    };
    let map = ptr::from_ref(&WEFT_ECHOES).cast_mut();
    // SAFETY: As in `flow`.
    unsafe { bpf_sk_storage_get(map.cast(), sk.cast(), ptr::null_mut(), flags) }.cast()
}

/// The hop records that the socket has received; null if there are none.
///
/// # Safety
///
/// `sk` must be a full socket that outlives the program's run, or the caller's reference to it.
#[inline(always)]
pub(crate) unsafe fn telemetry(sk: *mut bpf_sock, create: bool) -> *mut Telemetry {
    let flags = if create {
        BPF_SK_STORAGE_GET_F_CREATE.into()
    } else {
        0
    };
    let map = ptr::from_ref(&WEFT_TELEMETRY).cast_mut();
    // SAFETY: As in `flow`.
    unsafe { bpf_sk_storage_get(map.cast(), sk.cast(), ptr::null_mut(), flags) }.cast()
}
