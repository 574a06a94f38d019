// SPDX-License-Identifier: MIT OR Apache-2.0

//! The socket options of weft's own level, for the sockets of a cgroup.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use aya::maps::MapData;
use aya::programs::CgroupSockopt;
use weft_ebpf_common::program;

use crate::bpf::{self, Hook};
use crate::counters::Counters;
use crate::object::{Object, Ports};

/// Why the kernel refuses root a program.
const ALONE: &str = "another program has the hook for itself, here or in a cgroup above \
    (`bpftool cgroup tree` shows it): detach it, or attach it with `multi`";

/// A cgroup whose sockets have the options of weft's level, and what their flows said.
///
/// Sockets belong to the cgroup in which they were made. What was said is shared with the hosts
/// that are attached with it.
pub struct FlowSizes {
    cgroup: PathBuf,
    map: MapData,
}

impl FlowSizes {
    /// Attaches the options to a cgroup (version 2), or finds them there. Descendants have them,
    /// too. Other programs on its hooks stay.
    ///
    /// # Errors
    ///
    /// If the path is no cgroup, or the kernel refuses the programs, which takes root; also if
    /// another program has a hook for itself (was attached without `BPF_F_ALLOW_MULTI`).
    pub fn attach(object: &Object, cgroup: &Path) -> Result<Self> {
        if let Some(found) = Self::find(cgroup)? {
            return Ok(found);
        }
        let directory = open(cgroup)?;
        let mut ebpf = object.open(None, Ports::One)?;
        for (name, hook) in [
            (program::SETSOCKOPT, Hook::SetSockopt(directory.as_fd())),
            (program::GETSOCKOPT, Hook::GetSockopt(directory.as_fd())),
        ] {
            let program: &mut CgroupSockopt = ebpf
                .program_mut(name)
                .with_context(|| format!("the eBPF object has no program {name}"))?
                .try_into()?;
            program
                .load()
                .with_context(|| format!("the kernel refuses {name}"))?;
            bpf::attach(program.fd()?.as_fd(), hook).map_err(|error| {
                let refused = error.raw_os_error() == Some(libc::EPERM);
                let error = anyhow::Error::from(error);
                let error = if refused { error.context(ALONE) } else { error };
                error.context(format!("attaching {name} to {}", cgroup.display()))
            })?;
        }
        Self::find(cgroup)?.context("the programs are gone as soon as they were attached")
    }

    /// Finds the options on a cgroup.
    ///
    /// # Errors
    ///
    /// If the path is no cgroup, or the kernel does not answer, which takes root.
    pub fn find(cgroup: &Path) -> Result<Option<Self>> {
        let directory = open(cgroup)?;
        let hook = Hook::SetSockopt(directory.as_fd());
        match bpf::attached_by_name(hook, program::SETSOCKOPT)? {
            None => Ok(None),
            Some(program) => {
                let map = bpf::map_of(&program, &bpf::FLOWS)?;
                Ok(Some(Self {
                    cgroup: cgroup.to_owned(),
                    map,
                }))
            }
        }
    }

    /// Takes the options away. Hosts attached with them go on with what was said.
    ///
    /// # Errors
    ///
    /// If the kernel does not answer.
    pub fn detach(self) -> Result<()> {
        let directory = open(&self.cgroup)?;
        for (name, hook) in [
            (program::SETSOCKOPT, Hook::SetSockopt(directory.as_fd())),
            (program::GETSOCKOPT, Hook::GetSockopt(directory.as_fd())),
        ] {
            if let Some(program) = bpf::attached_by_name(hook, name)? {
                bpf::detach(program.fd()?.as_fd(), hook)
                    .with_context(|| format!("detaching {name} from {}", self.cgroup.display()))?;
            }
        }
        Ok(())
    }

    /// What the options' programs have counted.
    ///
    /// # Errors
    ///
    /// If they are gone.
    pub fn counters(&self) -> Result<Counters> {
        let directory = open(&self.cgroup)?;
        let hook = Hook::SetSockopt(directory.as_fd());
        let program = bpf::attached_by_name(hook, program::SETSOCKOPT)?
            .with_context(|| format!("nothing of weft is attached to {}", self.cgroup.display()))?;
        Counters::read(bpf::map_of(&program, &bpf::COUNTERS)?)
    }

    pub(crate) fn map(&self) -> &MapData {
        &self.map
    }
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
