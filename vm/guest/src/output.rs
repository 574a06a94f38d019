// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's side of [`weft_guest::transfer`], and the kernel log that it saves.
//!
//! In QEMU the result is in shared memory, under the model clock in a file of the host.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use anyhow::{Context, Result};
use nix::fcntl::OFlag;
use nix::mount::{MsFlags, mount};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use weft_guest::transfer::{DATA, FILE, HEADER, Header, PCI_ID, State};

use crate::mounts::{self, OUT};

/// Memory is base address register 2 of an ivshmem device.
const BAR: &str = "resource2";

/// The file system through which a kernel that is a program accesses its host.
const HOST: &str = "hostfs";
/// Its mount point: in a directory that only root can read, away from the command's files.
const HOST_PLACE: &str = "/run/host";

/// The destination of the result.
pub(crate) enum Region {
    Memory(Memory),
    File(File),
}

impl Region {
    /// Opens the host's file if possible, else the shared memory.
    pub(crate) fn open() -> Result<Self> {
        if !mounts::known(HOST)? {
            return Memory::open().map(Self::Memory);
        }
        fs::create_dir_all(HOST_PLACE)?;
        mount(
            Some(HOST),
            HOST_PLACE,
            Some(HOST),
            MsFlags::empty(),
            None::<&str>,
        )
        .context("mounting the host's directory")?;
        let file = OpenOptions::new()
            .write(true)
            .open(Path::new(HOST_PLACE).join(FILE))?;
        // Hides it from the command: the file stays open.
        nix::mount::umount2(HOST_PLACE, nix::mount::MntFlags::MNT_DETACH)?;
        fs::remove_dir(HOST_PLACE)?;
        Ok(Self::File(file))
    }

    /// Copies `bytes` to `offset`; `false` if they do not fit.
    fn write_at(&mut self, offset: usize, bytes: &[u8]) -> io::Result<bool> {
        match self {
            Self::Memory(memory) => Ok(memory.write_at(offset, bytes)),
            Self::File(file) => file.write_all_at(bytes, offset as u64).map(|()| true),
        }
    }

    /// The header lies below [`DATA`], which always exists.
    pub(crate) fn write_header(&mut self, header: Header) -> Result<()> {
        const { assert!(HEADER <= DATA) };
        let written = self.write_at(0, &header.encode())?;
        debug_assert!(written);
        Ok(())
    }

    /// Writes the tar of [`OUT`], then the header that announces it.
    ///
    /// # Errors
    /// If a file cannot be read. A lack of room is not an error: the header states it.
    pub(crate) fn hand_out(&mut self, status: u32) -> Result<()> {
        let mut writer = Writer {
            region: self,
            position: DATA,
            full: false,
        };
        let result = write_tar(&mut writer);
        let (full, length) = (writer.full, writer.position - DATA);
        let header = if full {
            Header {
                state: State::Overflow,
                status,
                length: 0,
            }
        } else {
            result?;
            Header {
                state: State::Done,
                status,
                length: length as u64,
            }
        };
        self.write_header(header)?;
        if let Self::File(_) = self {
            // Until then it may be only in the guest's memory.
            nix::unistd::sync();
        }
        Ok(())
    }
}

/// The shared memory, mapped.
pub(crate) struct Memory {
    start: NonNull<u8>,
    length: usize,
}

impl Memory {
    /// Finds the PCI device and maps its memory.
    fn open() -> Result<Self> {
        let device = find_device()?;
        // Firmware leaves it enabled, but nothing guarantees that.
        fs::write(device.join("enable"), "1").context("enabling the PCI device")?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(device.join(BAR))?;
        let length = NonZeroUsize::new(usize::try_from(file.metadata()?.len())?)
            .filter(|length| length.get() > DATA)
            .context("the shared memory is too small")?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new shared mapping at an address of the kernel's choice aliases no Rust object.
        // It is never unmapped, so `start` is valid as long as the process lives.
        let start = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, &file, 0) }?;
        Ok(Self {
            start: start.cast(),
            length: length.get(),
        })
    }

    /// Copies `bytes` to `offset`; `false` if they do not fit.
    fn write_at(&mut self, offset: usize, bytes: &[u8]) -> bool {
        let fits = offset
            .checked_add(bytes.len())
            .is_some_and(|end| end <= self.length);
        if fits {
            // SAFETY: offset + len <= length was just checked, the mapping is `length` bytes long
            // and writable, and nothing in this process holds a reference into it (`&mut self`, raw
            // pointer).
            unsafe {
                let target = self.start.as_ptr().add(offset);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
            }
        }
        fits
    }
}

fn find_device() -> Result<PathBuf> {
    for entry in fs::read_dir("/sys/bus/pci/devices")? {
        let device = entry?.path();
        let read = |name| fs::read_to_string(device.join(name)).unwrap_or_default();
        if read("vendor").trim_end() == PCI_ID.0 && read("device").trim_end() == PCI_ID.1 {
            return Ok(device);
        }
    }
    anyhow::bail!("no ivshmem device on the PCI bus")
}

struct Writer<'a> {
    region: &'a mut Region,
    position: usize,
    full: bool,
}

impl Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.region.write_at(self.position, bytes)? {
            self.full = true;
            return Err(ErrorKind::StorageFull.into());
        }
        self.position += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sorted, without times and owners: the same files give the same bytes.
fn write_tar(writer: &mut Writer<'_>) -> Result<()> {
    let mut archive = tar::Builder::new(writer);
    archive.mode(tar::HeaderMode::Deterministic);
    archive.follow_symlinks(false);
    let mut pending = vec![PathBuf::from(OUT)];
    while let Some(directory) = pending.pop() {
        let mut entries: Vec<PathBuf> = fs::read_dir(&directory)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<_>>()?;
        entries.sort();
        for path in entries {
            let name = path.strip_prefix(OUT)?;
            let kind = fs::symlink_metadata(&path)?.file_type();
            // Sockets and pipes have no content to hand out.
            if kind.is_dir() || kind.is_file() || kind.is_symlink() {
                archive.append_path_with_name(&path, name)?;
            }
            if kind.is_dir() {
                pending.push(path);
            }
        }
    }
    archive.finish()?;
    Ok(())
}

/// Saves the whole kernel log as `/out/dmesg`, including minor messages that the console omits.
///
/// # Errors
/// If `/dev/kmsg` or the file fails.
pub(crate) fn save_kernel_log() -> Result<()> {
    let mut log = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open("/dev/kmsg")?;
    let mut file = File::create(Path::new(OUT).join("dmesg"))?;
    // One read is one record; the kernel's longest is far shorter.
    let mut record = [0; 16 * 1024];
    loop {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(length) => writeln!(file, "{}", format_record(&record[..length]))?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // The ring buffer overtook the reader: the next read continues with the oldest record.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Converts `priority,sequence,microseconds,flags;text` and continuation lines with device details
/// to the format of dmesg(1).
fn format_record(record: &[u8]) -> String {
    let text = String::from_utf8_lossy(record);
    let (head, rest) = text.split_once(';').unwrap_or(("", &text));
    let message = rest.lines().next().unwrap_or_default();
    let microseconds: u64 = head
        .split(',')
        .nth(2)
        .and_then(|time| time.parse().ok())
        .unwrap_or(0);
    format!(
        "[{:5}.{:06}] {message}",
        microseconds / 1_000_000,
        microseconds % 1_000_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_record_reads_as_dmesg_prints_it() {
        let record = b"6,339,5140900,-;eth0: link up\n SUBSYSTEM=net\n DEVICE=n2\n";
        assert_eq!(format_record(record), "[    5.140900] eth0: link up");
    }
}
