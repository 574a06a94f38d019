// SPDX-License-Identifier: MIT OR Apache-2.0

//! The programs: one ELF object, embedded or from a file.

use std::borrow::Cow;
use std::path::Path;

use anyhow::{Context as _, Result};
use aya::{Ebpf, EbpfLoader, maps::MapData};
use weft_ebpf_common::{WRITE_SEQ_OFFSET, map};

use crate::{bpf::PrivateBpffs, btf};

/// The environment's variable that names an object at run time.
const VARIABLE: &str = "WEFT_EBPF_OBJECT";

#[cfg(embedded_object)]
const EMBEDDED: Option<&[u8]> = Some(aya::include_bytes_aligned!(env!("WEFT_EBPF_OBJECT_PATH")));
#[cfg(not(embedded_object))]
const EMBEDDED: Option<&[u8]> = None;

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

    /// Makes the maps, new ones but for `flows`; up to `ports` ports take turns each on its own. No
    /// program is in the kernel yet.
    pub(crate) fn open(&self, flows: Option<&MapData>, ports: u32) -> Result<Ebpf> {
        let mut loader = EbpfLoader::new();
        // The programs do not relocate against the kernel's types: spare reading them.
        loader
            .btf(None)
            .override_global(WRITE_SEQ_OFFSET, &self.write_seq, true)
            .map_max_entries(map::TURNS, ports);
        // aya takes over an existing map only by way of a file.
        let directory = PrivateBpffs::new()?;
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
