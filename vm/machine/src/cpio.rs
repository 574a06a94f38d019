// SPDX-License-Identifier: MIT OR Apache-2.0

//! Writes initramfs archives: cpio in the "newc" format, which the kernel unpacks one after the
//! other.
//!
//! Only fields that the kernel uses are set: owner, times and device numbers are zero and inodes
//! are counted, so the same files give the same bytes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use walkdir::WalkDir;

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
/// The kernel expects the next archive at a multiple of this.
const ALIGNMENT: usize = 4;

/// An archive under construction.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    inode: u32,
    directories: BTreeSet<String>,
}

impl Archive {
    fn entry(&mut self, name: &[u8], mode: u32, data: &[u8]) -> Result<()> {
        self.inode += 1;
        self.record(self.inode, name, mode, data)
    }

    fn record(&mut self, inode: u32, name: &[u8], mode: u32, data: &[u8]) -> Result<()> {
        let size =
            u32::try_from(data.len()).context("a file of 4 GiB cannot go into an initramfs")?;
        let length = u32::try_from(name.len())? + 1;
        // magic; ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor
        // namesize check
        self.bytes.extend_from_slice(b"070701");
        for field in [inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, length, 0] {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(data);
        self.align();
        Ok(())
    }

    fn align(&mut self) {
        self.bytes
            .resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }

    /// Adds the directories above `name`, once each.
    fn parents(&mut self, name: &str) -> Result<()> {
        let cuts: Vec<usize> = name.match_indices('/').map(|(at, _)| at).collect();
        for cut in cuts {
            let parent = &name[..cut];
            if self.directories.insert(parent.to_owned()) {
                self.entry(parent.as_bytes(), DIRECTORY | 0o755, &[])?;
            }
        }
        Ok(())
    }

    /// Adds a regular file and the directories it needs. `name` may begin with a slash.
    ///
    /// # Errors
    /// If the name is empty, or the file too large.
    pub fn file(&mut self, name: &str, permissions: u32, data: &[u8]) -> Result<()> {
        let name = name.trim_start_matches('/');
        ensure!(
            !name.is_empty() && !name.ends_with('/'),
            "'{name}' names no file in the guest"
        );
        self.parents(name)?;
        self.entry(name.as_bytes(), REGULAR | (permissions & 0o7777), data)
    }

    /// Adds everything below `root`, sorted, under the name `prefix` ("" or ending in a slash).
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn tree(&mut self, root: &Path, prefix: &str) -> Result<()> {
        self.tree_without(root, prefix, &|_| false)
    }

    /// Adds everything below `root`, except the names in the guest that `left_out` selects.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn tree_without(
        &mut self,
        root: &Path,
        prefix: &str,
        left_out: &dyn Fn(&str) -> bool,
    ) -> Result<()> {
        for entry in WalkDir::new(root).min_depth(1).sort_by_file_name() {
            let entry = entry?;
            let below = entry.path().strip_prefix(root)?;
            let name = [prefix.as_bytes(), below.as_os_str().as_bytes()].concat();
            let permissions = entry.metadata()?.permissions().mode() & 0o7777;
            let kind = entry.file_type();
            let text = String::from_utf8_lossy(&name).into_owned();
            if left_out(&text) {
                continue;
            }
            self.parents(&text)?;
            if kind.is_dir() {
                if self.directories.insert(text) {
                    self.entry(&name, DIRECTORY | permissions, &[])?;
                }
            } else if kind.is_symlink() {
                let target = fs::read_link(entry.path())?;
                self.entry(&name, SYMLINK | 0o777, target.as_os_str().as_bytes())?;
            } else if kind.is_file() {
                let data = fs::read(entry.path())
                    .with_context(|| format!("reading {}", entry.path().display()))?;
                self.entry(&name, REGULAR | permissions, &data)?;
            }
        }
        Ok(())
    }

    /// Ends the archive and returns it.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        self.record(0, b"TRAILER!!!", 0, &[])?;
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Temporary;

    /// Name, mode and data of each record, as the kernel's unpacker reads them.
    fn read(mut bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut records = Vec::new();
        let mut take = |length: usize| {
            let (head, tail) = bytes.split_at(length);
            bytes = tail;
            head.to_vec()
        };
        loop {
            assert_eq!(take(6), b"070701");
            let fields: Vec<u32> = (0..13)
                .map(|_| u32::from_str_radix(std::str::from_utf8(&take(8)).unwrap(), 16).unwrap())
                .collect();
            let (size, length) = (fields[6] as usize, fields[11] as usize);
            // The alignment includes the header's 110 bytes.
            let name = take((110 + length).next_multiple_of(4) - 110);
            let name = String::from_utf8(name[..length - 1].to_vec()).unwrap();
            if name == "TRAILER!!!" {
                assert!(bytes.is_empty());
                return records;
            }
            let data = take(size.next_multiple_of(4));
            records.push((name, fields[1], data[..size].to_vec()));
        }
    }

    #[test]
    fn the_directories_of_a_file_are_written_once() {
        let mut archive = Archive::default();
        archive.file("/a/b/c", 0o755, b"12345").unwrap();
        archive.file("a/b/d", 0o644, b"").unwrap();
        let names: Vec<_> = read(&archive.finish().unwrap());
        let expected = [
            ("a", 0o040_755, &b""[..]),
            ("a/b", 0o040_755, b""),
            ("a/b/c", 0o100_755, b"12345"),
            ("a/b/d", 0o100_644, b""),
        ];
        assert_eq!(
            names,
            expected.map(|(name, mode, data)| (name.to_owned(), mode, data.to_vec()))
        );
    }

    #[test]
    fn a_tree_is_written_sorted_with_its_links_and_modes() {
        let path = std::env::temp_dir().join(format!("weft-cpio-{}", std::process::id()));
        let tree = Temporary::new(path).unwrap();
        std::fs::create_dir(tree.path().join("z")).unwrap();
        std::fs::write(tree.path().join("z/run"), "x").unwrap();
        std::fs::set_permissions(tree.path().join("z/run"), PermissionsExt::from_mode(0o700))
            .unwrap();
        std::os::unix::fs::symlink("z/run", tree.path().join("a")).unwrap();
        let write = || {
            let mut archive = Archive::default();
            archive.tree(tree.path(), "usr/").unwrap();
            archive.finish().unwrap()
        };
        let records = read(&write());
        let names: Vec<&str> = records.iter().map(|(name, _, _)| name.as_str()).collect();
        assert_eq!(names, ["usr", "usr/a", "usr/z", "usr/z/run"]);
        assert_eq!(
            (records[1].1, records[1].2.as_slice()),
            (0o120_777, &b"z/run"[..])
        );
        assert_eq!(records[3].1, 0o100_700);
        assert_eq!(write(), write());
    }

    #[test]
    fn a_file_needs_a_name() {
        for name in ["", "/", "a/"] {
            assert!(Archive::default().file(name, 0o644, b"").is_err(), "{name}");
        }
    }
}
