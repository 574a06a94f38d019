// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operations of bpf(2) that aya lacks: attaching without a link, so that a program stays when the
//! process ends although nothing is pinned, and queries of attached programs.

use std::ffi::{CStr, c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use aya::maps::{MapData, MapInfo, MapType};
use aya::programs::{ProgramInfo, loaded_programs};
use weft_ebpf_common::{Flow, counter::Counter, map, port::Port};

/// Where a program is attached.
#[derive(Clone, Copy)]
pub(crate) enum Hook<'a> {
    /// Ingress of the device with this index.
    Ingress(u32),
    /// Egress of the device with this index.
    Egress(u32),
    /// `getsockopt` of a cgroup.
    GetSockopt(BorrowedFd<'a>),
    /// `setsockopt` of a cgroup.
    SetSockopt(BorrowedFd<'a>),
}

impl Hook<'_> {
    /// The target and `enum bpf_attach_type`.
    fn numbers(self) -> (u32, u32) {
        match self {
            Self::Ingress(device) => (device, 46),
            Self::Egress(device) => (device, 47),
            Self::GetSockopt(cgroup) => (cgroup.as_raw_fd() as u32, 21),
            Self::SetSockopt(cgroup) => (cgroup.as_raw_fd() as u32, 22),
        }
    }

    /// By default a cgroup's hook holds one program: the next one replaces it, and cgroups below
    /// have none. This flag allows several.
    fn flags(self) -> u32 {
        match self {
            Self::Ingress(_) | Self::Egress(_) => 0,
            Self::GetSockopt(_) | Self::SetSockopt(_) => BPF_F_ALLOW_MULTI,
        }
    }
}

const BPF_PROG_ATTACH: c_int = 8;
const BPF_PROG_DETACH: c_int = 9;
const BPF_PROG_QUERY: c_int = 16;
const BPF_F_ALLOW_MULTI: u32 = 1 << 1;

/// The part of `union bpf_attr` for attaching and detaching.
#[repr(C)]
#[derive(Default)]
struct Attach {
    target: u32,
    program: u32,
    kind: u32,
    flags: u32,
    replaced: u32,
    relative: u32,
    revision: u64,
}

/// The part of `union bpf_attr` for queries.
#[repr(C)]
#[derive(Default)]
struct Query {
    target: u32,
    kind: u32,
    query_flags: u32,
    attach_flags: u32,
    programs: u64,
    count: u32,
    padding: u32,
    program_flags: u64,
    links: u64,
    link_flags: u64,
    revision: u64,
}

fn bpf<T>(command: c_int, attributes: &mut T) -> io::Result<c_long> {
    // SAFETY: The kernel reads and writes `size_of::<T>()` bytes of `attributes`, which is one of
    // the structures above, without padding; the caller vouches for the pointers in it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            size_of::<T>(),
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Attaches after the programs that are attached already.
pub(crate) fn attach(program: BorrowedFd<'_>, hook: Hook<'_>) -> io::Result<()> {
    let (target, kind) = hook.numbers();
    let program = program.as_raw_fd() as u32;
    bpf(
        BPF_PROG_ATTACH,
        &mut Attach {
            target,
            program,
            kind,
            flags: hook.flags(),
            ..Attach::default()
        },
    )?;
    Ok(())
}

pub(crate) fn detach(program: BorrowedFd<'_>, hook: Hook<'_>) -> io::Result<()> {
    let (target, kind) = hook.numbers();
    let program = program.as_raw_fd() as u32;
    bpf(
        BPF_PROG_DETACH,
        &mut Attach {
            target,
            program,
            kind,
            ..Attach::default()
        },
    )?;
    Ok(())
}

/// The identifiers of the attached programs, in the order in which they run.
pub(crate) fn attached(hook: Hook<'_>) -> Result<Vec<u32>> {
    let (target, kind) = hook.numbers();
    // Far more than the kernel allows on one hook.
    let mut ids = [0_u32; 256];
    let mut query = Query {
        target,
        kind,
        programs: ids.as_mut_ptr() as u64,
        count: ids.len() as u32,
        ..Query::default()
    };
    match bpf(BPF_PROG_QUERY, &mut query) {
        Ok(_) => {}
        // Nothing was ever attached to the device.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(Vec::new()),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            return Err(error)
                .context("asking for attached programs; weft's need Linux 6.6 or later");
        }
        Err(error) => return Err(error).context("asking for attached programs (as root?)"),
    }
    Ok(ids[..query.count as usize].to_vec())
}

/// The programs with these identifiers, in any order.
pub(crate) fn programs(ids: &[u32]) -> Vec<ProgramInfo> {
    // Avoids asking for every program in the kernel.
    if ids.is_empty() {
        return Vec::new();
    }
    loaded_programs()
        .filter_map(Result::ok)
        .filter(|program| ids.contains(&program.id()))
        .collect()
}

/// The programs with this name on a hook.
pub(crate) fn attached_by_name(hook: Hook<'_>, name: &str) -> Result<Vec<ProgramInfo>> {
    let mut programs = programs(&attached(hook)?);
    programs.retain(|program| program.name() == name.as_bytes());
    Ok(programs)
}

/// The shape of a map, which identifies it. Its name does not, because aya gives maps no name if it
/// cannot parse the kernel's version (a release candidate's is `7.3-amd64`).
pub(crate) struct Shape {
    name: &'static str,
    kind: MapType,
    value_size: usize,
    /// `None`: one entry per port.
    entries: Option<u32>,
}

/// [`map::FLOWS`].
pub(crate) const FLOWS: Shape = Shape {
    name: map::FLOWS,
    kind: MapType::SkStorage,
    value_size: size_of::<Flow>(),
    entries: Some(0),
};

/// [`map::COUNTERS`].
pub(crate) const COUNTERS: Shape = Shape {
    name: map::COUNTERS,
    kind: MapType::PerCpuArray,
    value_size: size_of::<u64>(),
    entries: Some(Counter::COUNT as u32),
};

/// [`map::PORT`].
pub(crate) const PORT: Shape = Shape {
    name: map::PORT,
    kind: MapType::Array,
    value_size: size_of::<Port>(),
    entries: None,
};

/// The map with this shape that a program uses.
pub(crate) fn map_of(program: &ProgramInfo, shape: &Shape) -> Result<MapData> {
    for id in program.map_ids()?.unwrap_or_default() {
        let map = MapInfo::from_id(id)?;
        if map.map_type().ok() == Some(shape.kind)
            && map.value_size() as usize == shape.value_size
            && shape
                .entries
                .is_none_or(|entries| entries == map.max_entries())
        {
            return Ok(MapData::from_id(id)?);
        }
    }
    anyhow::bail!(
        "the attached program is of another version of weft: it has no map {}",
        shape.name
    )
}

/// A bpf file system that only this process sees, and that disappears when this is dropped. aya can
/// use an existing map only through such a file system.
pub(crate) struct PrivateBpffs {
    mount: OwnedFd,
}

impl PrivateBpffs {
    pub(crate) fn new() -> Result<Self> {
        const FSOPEN_CLOEXEC: c_int = 1;
        const FSCONFIG_CMD_CREATE: c_int = 6;
        const FSMOUNT_CLOEXEC: c_int = 1;
        const NAME: &CStr = c"bpf";
        let null = std::ptr::null::<u8>();
        let open = || -> io::Result<OwnedFd> {
            // SAFETY: `NAME` is a C string.
            let context =
                owned(unsafe { libc::syscall(libc::SYS_fsopen, NAME.as_ptr(), FSOPEN_CLOEXEC) })?;
            // SAFETY: This command takes no pointer.
            let result = unsafe {
                libc::syscall(
                    libc::SYS_fsconfig,
                    context.as_raw_fd(),
                    FSCONFIG_CMD_CREATE,
                    null,
                    null,
                    0,
                )
            };
            if result < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: No pointer is involved.
            owned(unsafe {
                libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, 0)
            })
        };
        let mount = open().context("making a private bpf file system (as root?)")?;
        Ok(Self { mount })
    }

    /// Makes it the root of the calling thread's file system, irreversibly.
    pub(crate) fn make_root(&self) -> io::Result<()> {
        let check = |result: c_int| match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        // SAFETY: No pointer is involved.
        check(unsafe { libc::unshare(libc::CLONE_FS) })?;
        // SAFETY: No pointer is involved, and the descriptor is open.
        check(unsafe { libc::fchdir(self.mount.as_raw_fd()) })?;
        // SAFETY: The argument is a C string.
        check(unsafe { libc::chroot(c".".as_ptr()) })
    }

    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.mount.as_raw_fd()).into()
    }
}

/// The descriptor that a system call returned.
fn owned(result: c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: The kernel has just created the descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(result as c_int) })
}
