// SPDX-License-Identifier: MIT OR Apache-2.0

//! The programs: one ELF object, embedded or from a file.

use std::borrow::Cow;
use std::path::Path;

use anyhow::{Context as _, Result};
use aya::programs::{Program, ProgramError};
use aya::{Ebpf, EbpfLoader, maps::MapData};
use weft_ebpf_common::{SHARED, WRITE_SEQ_OFFSET, map};

use crate::{bpf::PrivateBpffs, btf};

/// The environment variable that names an object at run time.
const VARIABLE: &str = "WEFT_EBPF_OBJECT";

#[cfg(embedded_object)]
const EMBEDDED: Option<&[u8]> = Some(aya::include_bytes_aligned!(env!("WEFT_EBPF_OBJECT_PATH")));
#[cfg(not(embedded_object))]
const EMBEDDED: Option<&[u8]> = None;

/// Maximum of ports that share programs. Their map takes as many times the size of a
/// [`Port`](weft_ebpf_common::port::Port).
pub(crate) const MAX_SHARING: u16 = 4096;

/// The number of ports that programs serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ports {
    /// One port, or several with identical configurations.
    One,
    /// Up to [`MAX_SHARING`] ports, distinguished by their filters' classes.
    Sharing,
}

/// The compiled programs, and the facts about the running kernel that they need.
pub struct Object {
    bytes: Cow<'static, [u8]>,
    write_seq: u32,
}

impl Object {
    /// From `path` if given, else from the file that `WEFT_EBPF_OBJECT` names, else the embedded
    /// object.
    ///
    /// # Errors
    ///
    /// If there is no object, or the kernel has no type information (`CONFIG_DEBUG_INFO_BTF`).
    pub fn find(path: Option<&Path>) -> Result<Self> {
        let variable = std::env::var_os(VARIABLE);
        let bytes = match (path.or(variable.as_deref().map(Path::new)), EMBEDDED) {
            (Some(path), _) => std::fs::read(path)
                .with_context(|| format!("reading the eBPF object {}", path.display()))?
                .into(),
            (None, Some(bytes)) => Cow::Borrowed(bytes),
            (None, None) => anyhow::bail!(
                "this build has no eBPF programs in it: build with `cargo xtask build`, or name \
                 their object with --object FILE or {VARIABLE}=FILE"
            ),
        };
        let write_seq = btf::member_offset(btf::KERNEL, "tcp_sock", "write_seq")?;
        Ok(Self { bytes, write_seq })
    }

    /// Creates the maps, except that `flows` is reused, for one port or for the maximum that may
    /// share programs. It loads no program into the kernel yet.
    pub(crate) fn open(&self, flows: Option<&MapData>, ports: Ports) -> Result<Ebpf> {
        let (shared, entries) = match ports {
            Ports::One => (&0, 1),
            Ports::Sharing => (&1, MAX_SHARING.into()),
        };
        // aya reuses an existing map only through a file.
        let directory = PrivateBpffs::new()?;
        let mut loader = loader(&directory);
        // The programs have no relocations against the kernel's types.
        loader
            .btf(None)
            .override_global(WRITE_SEQ_OFFSET, &self.write_seq, true)
            .override_global(SHARED, shared, true)
            .map_max_entries(map::PORT, entries);
        let pinned = directory.path().join(map::FLOWS);
        if let Some(flows) = flows {
            flows.pin(&pinned).context("sharing the map of flows")?;
            loader.map_pin_path(map::FLOWS, pinned);
        }
        loader
            .load(&self.bytes)
            .context("reading the eBPF object; is it of this version of weft?")
    }
}

/// The program with this name.
pub(crate) fn program_of<'a, P>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut P>
where
    &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
{
    let program = ebpf
        .program_mut(name)
        .with_context(|| format!("the eBPF object has no program {name}"))?;
    Ok(program.try_into()?)
}

/// A loader that has not read the kernel's types. aya's loader reads them at creation, even if they
/// are not needed, which takes longer than everything else. This one is created on a thread whose
/// root is the empty file system `nothing`, so that it finds none.
fn loader<'a>(nothing: &PrivateBpffs) -> EbpfLoader<'a> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // If it fails, the only cost is the delay.
            let _ = nothing.make_root();
            EbpfLoader::new()
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
