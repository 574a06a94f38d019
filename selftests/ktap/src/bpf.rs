// SPDX-License-Identifier: MIT OR Apache-2.0

//! bpf(2) as somebody else than weft uses it: other programs on its hooks, and programs taken off.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use anyhow::{Context as _, Result};
use libc::{c_int, c_long};

const PROG_LOAD: c_int = 5;
const PROG_ATTACH: c_int = 8;
const PROG_DETACH: c_int = 9;
const PROG_GET_FD_BY_ID: c_int = 13;
const PROG_QUERY: c_int = 16;

/// Others may attach to the same hook of the cgroup, and of those below.
pub const ALLOW_MULTI: u32 = 1 << 1;

/// Hooks, `enum bpf_attach_type`.
pub const SOCK_OPS: u32 = 3;
/// Where an unconnected socket of IPv4 sends a datagram to.
pub const UDP4_SENDMSG: u32 = 14;
/// `getsockopt` of a cgroup.
pub const GETSOCKOPT: u32 = 21;
/// `setsockopt` of a cgroup.
pub const SETSOCKOPT: u32 = 22;
/// Egress of a device.
pub const TCX_EGRESS: u32 = 47;

/// Kinds of programs, `enum bpf_prog_type`.
pub mod kind {
    /// For [`SOCK_OPS`](super::SOCK_OPS).
    pub const SOCK_OPS: u32 = 13;
    /// For [`UDP4_SENDMSG`](super::UDP4_SENDMSG).
    pub const CGROUP_SOCK_ADDR: u32 = 18;
    /// For [`GETSOCKOPT`](super::GETSOCKOPT) and [`SETSOCKOPT`](super::SETSOCKOPT).
    pub const CGROUP_SOCKOPT: u32 = 25;
}

/// The part of `union bpf_attr` that loads.
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log: [u64; 2],
    version: u32,
    flags: u32,
    name: [u8; 16],
    device: u32,
    hook: u32,
}

/// The part that attaches and detaches.
#[repr(C)]
struct Attach {
    target: u32,
    program: u32,
    hook: u32,
    flags: u32,
}

/// The part that asks what is attached.
#[repr(C)]
#[derive(Default)]
struct Query {
    target: u32,
    hook: u32,
    flags: [u32; 2],
    programs: u64,
    count: u32,
    padding: u32,
}

fn bpf<T>(command: c_int, attributes: &mut T) -> io::Result<c_long> {
    // SAFETY: The kernel reads and writes `size_of::<T>()` bytes of `attributes`, which is one of
    // the structures above or integers, without padding; the caller answers for pointers in it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            size_of::<T>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

fn descriptor(result: io::Result<c_long>) -> io::Result<OwnedFd> {
    // SAFETY: The kernel has just made the descriptor, and nobody else knows it.
    result.map(|number| unsafe { OwnedFd::from_raw_fd(number as c_int) })
}

/// Has the kernel take a program of a kind for a hook.
///
/// # Errors
///
/// If it refuses it.
pub fn load(kind: u32, hook: u32, instructions: &[u64]) -> Result<OwnedFd> {
    let mut load = Load {
        kind,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        hook,
        ..Load::default()
    };
    descriptor(bpf(PROG_LOAD, &mut load)).context("loading a program")
}

/// Attaches a program to a hook of a cgroup, or of what else has a descriptor.
///
/// # Errors
///
/// If the kernel refuses it.
pub fn attach(program: impl AsFd, target: impl AsFd, hook: u32, flags: u32) -> Result<()> {
    let mut attach = Attach {
        target: target.as_fd().as_raw_fd() as u32,
        program: program.as_fd().as_raw_fd() as u32,
        hook,
        flags,
    };
    bpf(PROG_ATTACH, &mut attach).context("attaching a program")?;
    Ok(())
}

/// The identifiers of the programs on a cgroup's hook.
///
/// # Errors
///
/// If the kernel does not tell.
pub fn attached(cgroup: impl AsFd, hook: u32) -> Result<Vec<u32>> {
    let mut programs = [0_u32; 8];
    let mut query = Query {
        target: cgroup.as_fd().as_raw_fd() as u32,
        hook,
        programs: programs.as_mut_ptr() as u64,
        count: programs.len() as u32,
        ..Query::default()
    };
    bpf(PROG_QUERY, &mut query).context("asking for attached programs")?;
    Ok(programs[..query.count as usize].to_vec())
}

/// The program with this identifier.
///
/// # Errors
///
/// If there is none.
pub fn by_id(program: u32) -> Result<OwnedFd> {
    let mut request = [program, 0, 0];
    descriptor(bpf(PROG_GET_FD_BY_ID, &mut request)).context("asking for a program")
}

/// Takes a program off a hook of `target`: a device's index or a cgroup's descriptor.
///
/// # Errors
///
/// If it is not there.
pub fn detach(program: impl AsFd, target: u32, hook: u32) -> Result<()> {
    let mut detach = Attach {
        target,
        program: program.as_fd().as_raw_fd() as u32,
        hook,
        flags: 0,
    };
    bpf(PROG_DETACH, &mut detach).context("taking a program off")?;
    Ok(())
}
