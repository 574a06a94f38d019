// SPDX-License-Identifier: MIT OR Apache-2.0

//! The socket options of weft's own level, for the sockets of a cgroup.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use aya::maps::MapData;
use aya::programs::{CgroupSockopt, ProgramInfo};
use weft_ebpf_common::program;

use crate::bpf::{self, Hook};
use crate::counters::Counters;
use crate::object::{Object, Ports, program_of};
use crate::port;

/// Why the kernel refuses a program although the caller is root.
const ALONE: &str = "another program has the hook for itself, here or in a cgroup above \
    (`bpftool cgroup tree` shows it): detach it, or attach it with `multi`";

/// A cgroup whose sockets have the options of weft's level, and the map of their declared flows.
///
/// Sockets belong to the cgroup in which they were created. Hosts that are attached with this share
/// the map.
pub struct FlowSizes {
    cgroup: PathBuf,
    map: MapData,
}

impl FlowSizes {
    /// Attaches the options to a cgroup (version 2), or finds them there. They also apply to
    /// descendants. Other programs on its hooks stay.
    ///
    /// # Errors
    ///
    /// If the path is not a cgroup, or the kernel refuses the programs (this requires root); also
    /// if another program occupies a hook exclusively (was attached without `BPF_F_ALLOW_MULTI`).
    pub fn attach(object: &Object, cgroup: &Path) -> Result<Self> {
        let directory = open(cgroup)?;
        let mut complete = true;
        for (name, hook) in hooks(&directory) {
            complete &= !bpf::attached_by_name(hook, name)?.is_empty();
        }
        if !complete {
            // A single program is left over from an attach that was killed.
            detach(&directory)?;
            port::undone(attach(object, &directory), || detach(&directory))
                .with_context(|| format!("attaching to {}", cgroup.display()))?;
        }
        Self::find(cgroup)?.context("the programs are gone as soon as they were attached")
    }

    /// Finds the options on a cgroup.
    ///
    /// # Errors
    ///
    /// If the path is not a cgroup, or the query fails (it requires root).
    pub fn find(cgroup: &Path) -> Result<Option<Self>> {
        let Some(program) = any(&open(cgroup)?)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            cgroup: cgroup.to_owned(),
            map: bpf::map_of(&program, &bpf::FLOWS)?,
        }))
    }

    /// Detaches the options. Hosts that are attached with them keep using the declared flows.
    ///
    /// # Errors
    ///
    /// If the query fails.
    pub fn detach(self) -> Result<()> {
        detach(&open(&self.cgroup)?)
            .with_context(|| format!("detaching from {}", self.cgroup.display()))
    }

    /// The counters of the options' programs.
    ///
    /// # Errors
    ///
    /// If the programs are gone.
    pub fn counters(&self) -> Result<Counters> {
        let program = any(&open(&self.cgroup)?)?
            .with_context(|| format!("weft is not attached to {}", self.cgroup.display()))?;
        Counters::read(bpf::map_of(&program, &bpf::COUNTERS)?)
    }

    pub(crate) fn map(&self) -> &MapData {
        &self.map
    }
}

/// The names of the programs, and their hooks.
fn hooks(cgroup: &File) -> [(&'static str, Hook<'_>); 2] {
    [
        (program::SETSOCKOPT, Hook::SetSockopt(cgroup.as_fd())),
        (program::GETSOCKOPT, Hook::GetSockopt(cgroup.as_fd())),
    ]
}

/// One of weft's programs on a cgroup; they share their maps.
fn any(cgroup: &File) -> Result<Option<ProgramInfo>> {
    for (name, hook) in hooks(cgroup) {
        if let Some(program) = bpf::attached_by_name(hook, name)?.pop() {
            return Ok(Some(program));
        }
    }
    Ok(None)
}

fn attach(object: &Object, cgroup: &File) -> Result<()> {
    let mut ebpf = object.open(None, Ports::One)?;
    for (name, _) in hooks(cgroup) {
        program_of::<CgroupSockopt>(&mut ebpf, name)?
            .load()
            .with_context(|| format!("the kernel refuses {name}"))?;
    }
    for (name, hook) in hooks(cgroup) {
        let program: &mut CgroupSockopt = program_of(&mut ebpf, name)?;
        let program = program.fd()?.as_fd();
        bpf::attach(program, hook).map_err(|error| {
            let refused = error.raw_os_error() == Some(libc::EPERM);
            let error = anyhow::Error::from(error);
            let error = if refused { error.context(ALONE) } else { error };
            error.context(name)
        })?;
    }
    Ok(())
}

/// Detaches all of weft's programs.
fn detach(cgroup: &File) -> Result<()> {
    for (name, hook) in hooks(cgroup) {
        for program in bpf::attached_by_name(hook, name)? {
            bpf::detach(program.fd()?.as_fd(), hook).context(name)?;
        }
    }
    Ok(())
}

fn open(cgroup: &Path) -> Result<File> {
    let procs = cgroup.join("cgroup.procs");
    anyhow::ensure!(
        procs.exists(),
        "{} is no cgroup: make one with `mkdir` below where cgroup2 is mounted (`findmnt -t cgroup2`)",
        cgroup.display()
    );
    File::open(cgroup).with_context(|| format!("opening {}", cgroup.display()))
}
