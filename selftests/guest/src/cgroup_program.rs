// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs for every socket of the machine, at the root of its cgroups.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use weft_ktap::bpf::{self, SOCK_OPS, UDP4_SENDMSG, kind};

/// One instruction of BPF.
fn op(code: u8, to: u64, from: u64, offset: i16, value: i32) -> u64 {
    u64::from(code)
        | to << 8
        | from << 12
        | u64::from(offset as u16) << 16
        | u64::from(value as u32) << 32
}

/// A program, while this lives.
pub(crate) struct Program {
    program: OwnedFd,
    hook: u32,
    cgroup: File,
    /// Where the cgroups are mounted.
    directory: PathBuf,
}

impl Program {
    /// It gives every socket a congestion control as it connects, before its SYN
    /// (`BPF_SOCK_OPS_TCP_CONNECT_CB`). `name` has at most 7 bytes.
    pub(crate) fn chooses(name: &str) -> Result<Self> {
        let mut bytes = [0; 8];
        ensure!(name.len() < bytes.len(), "{name} is too long");
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        let name = u64::from_le_bytes(bytes);
        let code = [
            op(0xbf, 6, 1, 0, 0),                  // r6 = the context
            op(0x61, 2, 1, 0, 0),                  // r2 = its op
            op(0x55, 2, 0, 10, 3),                 // past the call if that is not TCP_CONNECT_CB
            op(0x18, 3, 0, 0, name as u32 as i32), // r3 = the name
            op(0, 0, 0, 0, (name >> 32) as i32),
            op(0x7b, 10, 3, -8, 0), // onto the stack
            op(0xbf, 1, 6, 0, 0),
            op(0xb7, 2, 0, 0, libc::IPPROTO_TCP),
            op(0xb7, 3, 0, 0, libc::TCP_CONGESTION),
            op(0xbf, 4, 10, 0, 0),
            op(0x07, 4, 0, 0, -8),
            op(0xb7, 5, 0, 0, 8),
            op(0x85, 0, 0, 0, 49), // bpf_setsockopt(r1, …, r5)
            op(0xb7, 0, 0, 0, 1),
            op(0x95, 0, 0, 0, 0),
        ];
        Self::attached("chooses", (kind::SOCK_OPS, SOCK_OPS), &code)
    }

    /// It lets no process send datagrams to a UDP port, but by a socket that is connected.
    pub(crate) fn forbids(port: u16) -> Result<Self> {
        let code = [
            op(0x61, 2, 1, 24, 0), // r2 = user_port, as on the wire
            op(0xb7, 0, 0, 0, 1),
            op(0x55, 2, 0, 1, port.to_be().into()),
            op(0xb7, 0, 0, 0, 0),
            op(0x95, 0, 0, 0, 0),
        ];
        Self::attached("forbids", (kind::CGROUP_SOCK_ADDR, UDP4_SENDMSG), &code)
    }

    fn attached(name: &str, (kind, hook): (u32, u32), code: &[u64]) -> Result<Self> {
        let program = bpf::load(kind, hook, code)?;
        let directory = format!("weft-cgroup-{name}-{}", std::process::id());
        let directory = Path::new("/run").join(directory);
        std::fs::create_dir_all(&directory)?;
        let none = None::<&str>;
        mount(none, &directory, Some("cgroup2"), MsFlags::empty(), none).context("cgroup2")?;
        let program = Self {
            program,
            hook,
            cgroup: File::open(&directory)?,
            directory,
        };
        bpf::attach(&program.program, &program.cgroup, hook, 0)?;
        Ok(program)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // If it was never attached there is nothing to detach.
        let _ = bpf::detach(&self.program, self.cgroup.as_raw_fd() as u32, self.hook);
        let _ = umount2(&self.directory, MntFlags::MNT_DETACH);
        let _ = std::fs::remove_dir(&self.directory);
    }
}
