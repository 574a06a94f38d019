// SPDX-License-Identifier: MIT OR Apache-2.0

//! The programs: one ELF object, embedded or from a file.

use std::borrow::Cow;
use std::path::Path;

use anyhow::{Context as _, Result};
use aya::programs::{Program, ProgramError};
use aya::{Ebpf, EbpfLoader, maps::MapData};
use weft_ebpf_common::{SHARED, WRITE_SEQ_OFFSET, map};

use crate::{bpf::PrivateBpffs, btf};

/// The environment's variable that names an object at run time.
const VARIABLE: &str = "WEFT_EBPF_OBJECT";

#[cfg(embedded_object)]
const EMBEDDED: Option<&[u8]> = Some(aya::include_bytes_aligned!(env!("WEFT_EBPF_OBJECT_PATH")));
#[cfg(not(embedded_object))]
const EMBEDDED: Option<&[u8]> = None;

/// How many ports may share programs; that times the size of a
/// [`Port`](weft_ebpf_common::port::Port) is taken for it.
pub(crate) const MAX_SHARING: u16 = 4096;

/// For how many ports programs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ports {
    /// For one, or for some that nothing tells apart.
    One,
    /// For up to [`MAX_SHARING`], which are filters' classes.
    Sharing,
}

/// The programs as built, and what they have to know of the running kernel.
pub struct Object {
    bytes: Cow<'static, [u8]>,
    write_seq: u32,
}

impl Object {
    /// From `path` if given, else from the file that `WEFT_EBPF_OBJECT` names, else the embedded
    /// one.
    ///
    /// # Errors
    ///
    /// If there is none, and if the kernel does not describe its types (`CONFIG_DEBUG_INFO_BTF`).
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
        let write_seq = btf::member_offset("tcp_sock", "write_seq")?;
        Ok(Self { bytes, write_seq })
    }

    /// Makes the maps, new ones but for `flows`, for one port or for as many as may share programs.
    /// No program is in the kernel yet.
    pub(crate) fn open(&self, flows: Option<&MapData>, ports: Ports) -> Result<Ebpf> {
        let (shared, entries) = match ports {
            Ports::One => (&0, 1),
            Ports::Sharing => (&1, MAX_SHARING.into()),
        };
        // aya takes over an existing map only by way of a file.
        let directory = PrivateBpffs::new()?;
        let mut loader = loader(&directory);
        // The programs do not relocate against the kernel's types.
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

/// The program of this name.
pub(crate) fn program_of<'a, P>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut P>
where
    &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
{
    let program = ebpf
        .program_mut(name)
        .with_context(|| format!("the eBPF object has no program {name}"))?;
    Ok(program.try_into()?)
}

/// A loader that has not read the kernel's types: aya's does when it is made, whether it is to use
/// them or not, which takes longer than all the rest. This one is made on a thread to which
/// `nothing` is all of the file system, so that it finds none.
fn loader<'a>(nothing: &PrivateBpffs) -> EbpfLoader<'a> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // If it fails there is nothing but the delay.
            let _ = nothing.make_root();
            EbpfLoader::new()
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
