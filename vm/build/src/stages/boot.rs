// SPDX-License-Identifier: MIT OR Apache-2.0

//! The files that every guest boots: the uncompressed kernel and the constant part of the
//! initramfs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use weft_machine::cpio;

use crate::base::cache::{Cache, Entry, Key, Stage};
use crate::base::enter::Enter;
use crate::base::process::Log;
use crate::stages::suite::Resolution;

/// Its folder in the cache.
pub const STAGE: Stage = Stage {
    name: "boot",
    keep: 4,
};
/// The stage's mount point inside the root filesystem.
pub const PLACE: &str = "/mnt/boot";
/// The kernel's file in the stage.
pub const KERNEL: &str = "vmlinux";
/// The initramfs' file in the stage.
pub const INITRAMFS: &str = "base.cpio";

const SCRIPT: &str = include_str!("boot.sh");

/// Kernel and base initramfs, built if necessary.
///
/// # Errors
/// If the root filesystem lacks a file or the kernel's image has an unknown format.
pub fn ensure(cache: &Cache, resolution: &Resolution, rootfs: &Entry) -> Result<Entry> {
    let key = Key::new(SCRIPT).with(rootfs.hash());
    cache.ensure(
        &STAGE,
        key,
        "kernel image and initramfs",
        |directory, log| build(resolution, rootfs, directory, log),
    )
}

fn build(resolution: &Resolution, rootfs: &Entry, directory: &Path, log: &Log) -> Result<()> {
    let root = rootfs.path().join("root");
    let image = root.join(resolution.image().trim_start_matches('/'));
    let image = fs::read(&image).with_context(|| format!("reading {}", image.display()))?;
    let (offset, length) = payload(&image).context("vmlinuz is no x86 boot image")?;
    let mut command = Enter::new(&root)
        .with_writable(directory, "/mnt/build")
        .script(SCRIPT);
    command
        .arg(&resolution.kernel)
        .arg(offset.to_string())
        .arg(length.to_string())
        .arg(resolution.image());
    log.run(&mut command)?;
    let mut archive = cpio::Archive::default();
    archive.tree(&directory.join("tree"), "")?;
    fs::write(directory.join(INITRAMFS), archive.finish()?)?;
    Ok(())
}

/// Offset and length of the compressed kernel in a bzImage: see "The Linux/x86 Boot Protocol",
/// fields setup_sects, HdrS, payload_offset and payload_length.
fn payload(image: &[u8]) -> Option<(usize, usize)> {
    let word = |at: usize| {
        let bytes = image.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let sectors = match image.get(0x1f1)? {
        0 => 4,
        count => usize::from(*count),
    };
    let offset = (sectors + 1) * 512 + word(0x248)?;
    let length = word(0x24c)?;
    image.get(offset..offset.checked_add(length)?)?;
    Some((offset, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(length: u32) -> Vec<u8> {
        let mut image = vec![0; 4096];
        image[0x1f1] = 3;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248..0x24c].copy_from_slice(&100_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&length.to_le_bytes());
        image
    }

    #[test]
    fn the_payload_is_found_behind_the_setup_sectors() {
        assert_eq!(payload(&image(1000)), Some((4 * 512 + 100, 1000)));
    }

    #[test]
    fn a_truncated_or_foreign_image_is_refused() {
        assert_eq!(payload(&image(4000)), None);
        assert_eq!(payload(&image(u32::MAX)), None);
        assert_eq!(payload(&[0; 4096]), None);
        assert_eq!(payload(b"short"), None);
    }
}
