// SPDX-License-Identifier: MIT OR Apache-2.0

//! Socket options of weft's own level ([`weft_ebpf_common::sockopt`]): stores the application's
//! declaration of its flow in socket storage.
//!
//! The kernel holds the socket's lock while these programs run.

use core::ptr;

use aya_ebpf::{
    EbpfContext as _,
    bindings::{bpf_sock, bpf_sockopt},
    helpers::generated::{bpf_ktime_get_ns, bpf_probe_read_kernel, bpf_set_retval, bpf_tcp_sock},
    macros::cgroup_sockopt,
    programs::SockoptContext,
};
use weft_ebpf_common::{Flow, counter::Counter, sockopt};

use crate::{
    maps,
    packet::{AF_INET, AF_INET6, TCP, UDP},
};

const EPERM: i32 = 1;
const ENOMEM: i32 = 12;
const EINVAL: i32 = 22;

const IPPROTO_TCP: u32 = TCP as u32;
const IPPROTO_UDP: u32 = UDP as u32;

/// Larger options do not fit the kernel's buffer; a program must state that it ignores them.
const PAGE_SIZE: i32 = 4096;

#[cgroup_sockopt(setsockopt)]
pub fn weft_setsockopt(ctx: SockoptContext) -> i32 {
    let request = Request::new(&ctx);
    let Some(sk) = request.socket() else {
        return request.leave_alone();
    };
    // SAFETY: `sk` is the socket on which the option is set.
    match unsafe { set(&request, sk) } {
        Ok(()) => {
            maps::count(Counter::OptionSet);
            // Done: the kernel itself does not see the option.
            request.set_length(-1);
            1
        }
        Err(errno) => refuse(errno),
    }
}

#[cgroup_sockopt(getsockopt)]
pub fn weft_getsockopt(ctx: SockoptContext) -> i32 {
    let request = Request::new(&ctx);
    let Some(sk) = request.socket() else {
        return request.leave_alone();
    };
    // SAFETY: `sk` is the socket on which the option is read.
    let flow = unsafe { maps::flow(sk, false) };
    let flow = if flow.is_null() {
        Flow::default()
    } else {
        // SAFETY: A value of the map.
        unsafe { ptr::read(flow) }
    };
    let result = match request.option() {
        sockopt::FLOW_SIZE => request.answer(flow.size),
        sockopt::DEADLINE => request.answer(flow.deadline),
        sockopt::DEADLINE_IN => {
            // SAFETY: The helper has no precondition.
            let now = unsafe { bpf_ktime_get_ns() };
            request.answer(flow.deadline.saturating_sub(now))
        }
        sockopt::CLASS => request.answer(flow.class),
        _ => Err(EPERM),
    };
    match result {
        Ok(()) => {
            maps::count(Counter::OptionGot);
            1
        }
        Err(errno) => refuse(errno),
    }
}

fn refuse(errno: i32) -> i32 {
    maps::count(Counter::OptionRefused);
    // SAFETY: The helper has no precondition.
    unsafe { bpf_set_retval(-errno) };
    0
}

/// Handles `setsockopt`.
///
/// # Safety
///
/// `sk` must be the socket on which the option is set.
#[inline(always)]
unsafe fn set(request: &Request, sk: *mut bpf_sock) -> Result<(), i32> {
    // SAFETY: The helper has no precondition.
    let now = unsafe { bpf_ktime_get_ns() };
    let option = request.option();
    let value = match option {
        sockopt::FLOW_SIZE | sockopt::DEADLINE | sockopt::DEADLINE_IN => request.value::<u64>()?,
        sockopt::CLASS => u64::from(request.value::<u32>()?),
        _ => return Err(EPERM),
    };
    let farthest = now.wrapping_add(sockopt::MAX_DEADLINE_IN);
    let in_range = match option {
        sockopt::FLOW_SIZE => value <= sockopt::MAX_FLOW_SIZE,
        sockopt::DEADLINE => value == 0 || (value > now && value <= farthest),
        sockopt::DEADLINE_IN => value <= sockopt::MAX_DEADLINE_IN,
        _ => value <= u64::from(sockopt::MAX_CLASS),
    };
    if !in_range {
        return Err(EINVAL);
    }
    // SAFETY: `sk` is a full socket (precondition).
    let flow = unsafe { maps::flow(sk, true) };
    if flow.is_null() {
        return Err(ENOMEM);
    }
    // SAFETY: A value of the map. The tag program may be reading it: see `rank::begin`.
    unsafe {
        (*flow).key = Flow::KEY;
        match option {
            sockopt::FLOW_SIZE => {
                begin(sk, flow);
                (*flow).size = value;
            }
            sockopt::DEADLINE => (*flow).deadline = value,
            sockopt::DEADLINE_IN if value == 0 => (*flow).deadline = 0,
            sockopt::DEADLINE_IN => (*flow).deadline = now.wrapping_add(value),
            _ => (*flow).class = value as u32,
        }
    }
    Ok(())
}

/// Lets the flow begin after the bytes that the application has written so far.
///
/// # Safety
///
/// `sk` must be a full socket and `flow` its value in the map.
#[inline(always)]
unsafe fn begin(sk: *mut bpf_sock, flow: *mut Flow) {
    const TCP_ESTABLISHED: u32 = 1;
    const TCP_CLOSE_WAIT: u32 = 8;
    // SAFETY: Valid by precondition, here and below.
    unsafe {
        if (*sk).protocol == IPPROTO_UDP {
            (*flow).base = (*flow).sent;
            (*flow).flags |= Flow::BASE_KNOWN;
            return;
        }
        // Not connected yet: the flow begins with its first byte, which the tag program sees.
        (*flow).flags &= !Flow::BASE_KNOWN;
        if !matches!((*sk).state, TCP_ESTABLISHED | TCP_CLOSE_WAIT) {
            return;
        }
        let tcp = bpf_tcp_sock(sk);
        if tcp.is_null() {
            return;
        }
        if let Some(write) = write_seq(sk, flow) {
            let unacknowledged = write.wrapping_sub((*tcp).snd_una);
            (*flow).base = (*tcp).bytes_acked.wrapping_add(u64::from(unacknowledged));
            (*flow).flags |= Flow::BASE_KNOWN;
        }
    }
}

/// The sequence number of the next byte that the application will write.
///
/// Cgroup programs may not cast a socket to a `tcp_sock`, but they may read kernel memory at an
/// address. A map converts the socket's address to a number. It is the socket's own storage, whose
/// lock is held, because another task may run this program on the same CPU in between.
///
/// # Safety
///
/// `sk` must be a full TCP socket and `flow` its value in the map.
#[inline(always)]
unsafe fn write_seq(sk: *mut bpf_sock, flow: *mut Flow) -> Option<u32> {
    let mut write = 0_u32;
    // SAFETY: The value is valid by precondition, and nothing else uses this word of a TCP socket.
    // The kernel's BTF states that such a socket has `write_seq` at that offset, and the helper
    // checks the address.
    unsafe {
        let scratch = &raw mut (*flow).sent;
        ptr::write_volatile(scratch.cast::<*mut bpf_sock>(), sk);
        let at = ptr::read_volatile(scratch);
        ptr::write_volatile(scratch, 0);
        let from = at.wrapping_add(u64::from(maps::write_seq_offset()));
        match bpf_probe_read_kernel((&raw mut write).cast(), 4, from as *const _) {
            0 => Some(write),
            _ => None,
        }
    }
}

/// A request of `getsockopt` or `setsockopt`.
struct Request {
    context: *mut bpf_sockopt,
}

impl Request {
    #[inline(always)]
    fn new(ctx: &SockoptContext) -> Self {
        Self {
            context: ctx.as_ptr().cast(),
        }
    }

    #[inline(always)]
    fn option(&self) -> i32 {
        // SAFETY: The context is valid while the program runs, here and below.
        unsafe { (*self.context).optname }
    }

    /// The socket, if the option is of weft's level and the socket TCP or UDP.
    #[inline(always)]
    fn socket(&self) -> Option<*mut bpf_sock> {
        // SAFETY: As above; `sk` is never null.
        unsafe {
            if (*self.context).level != sockopt::LEVEL {
                return None;
            }
            let sk = (*self.context).__bindgen_anon_1.sk;
            let inet = matches!((*sk).family, AF_INET | AF_INET6);
            (inet && matches!((*sk).protocol, IPPROTO_TCP | IPPROTO_UDP)).then_some(sk)
        }
    }

    #[inline(always)]
    fn length(&self) -> i32 {
        // SAFETY: As above.
        unsafe { ptr::read_volatile(&raw const (*self.context).optlen) }
    }

    /// Volatile: the compiler would merge it with the adjacent store to `retval`, which the
    /// verifier refuses.
    #[inline(always)]
    fn set_length(&self, length: i32) {
        // SAFETY: As above.
        unsafe { ptr::write_volatile(&raw mut (*self.context).optlen, length) }
    }

    /// The kernel continues as if there were no program.
    #[inline(always)]
    fn leave_alone(&self) -> i32 {
        if self.length() > PAGE_SIZE {
            self.set_length(0);
        }
        1
    }

    /// The option's value, which must have the size of `T`, a number.
    #[inline(always)]
    fn value<T: Copy>(&self) -> Result<T, i32> {
        let at = self.buffer::<T>()?;
        if self.length() as usize != size_of::<T>() {
            return Err(EINVAL);
        }
        // SAFETY: `buffer` has checked that `T` is within; any bit pattern is a number.
        Ok(unsafe { ptr::read_unaligned(at) })
    }

    /// Answers a `getsockopt`.
    #[inline(always)]
    fn answer<T: Copy>(&self, value: T) -> Result<(), i32> {
        let at = self.buffer::<T>()?;
        if (self.length() as usize) < size_of::<T>() {
            return Err(EINVAL);
        }
        // SAFETY: `buffer` has checked that `T` is within. Volatile: as in `set_length`.
        unsafe {
            ptr::write_unaligned(at, value);
            ptr::write_volatile(&raw mut (*self.context).retval, 0);
        }
        self.set_length(size_of::<T>() as i32);
        Ok(())
    }

    #[inline(always)]
    fn buffer<T>(&self) -> Result<*mut T, i32> {
        // SAFETY: As above.
        let (from, to) = unsafe {
            (
                (*self.context).__bindgen_anon_2.optval,
                (*self.context).__bindgen_anon_3.optval_end,
            )
        };
        // Compared in the form that the verifier recognizes as a bounds check.
        if from as usize + size_of::<T>() > to as usize {
            return Err(EINVAL);
        }
        Ok(from.cast())
    }
}
