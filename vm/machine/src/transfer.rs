// SPDX-License-Identifier: MIT OR Apache-2.0

//! The host's side of [`weft_guest::transfer`]: reads the guest's result from the shared memory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use weft_guest::transfer::{DATA, HEADER, Header, State};
use weft_words::file::temporary;

/// The result of a guest.
pub struct Output {
    /// Exit status of the command.
    pub status: u8,
    /// A tar of `/out`.
    pub tar: Vec<u8>,
}

/// Creates the file for the shared memory. It is sparse: unused memory costs nothing.
///
/// # Errors
/// Those of the file system.
pub fn create(path: &Path, mebibytes: u32) -> Result<()> {
    let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
    file.set_len(u64::from(mebibytes) << 20)?;
    Ok(())
}

/// Reads the result; `None` if the guest ended before its command did.
///
/// # Errors
/// If `/out` did not fit, or the memory is corrupt.
pub fn read(path: &Path, mebibytes: u32) -> Result<Option<Output>> {
    let mut file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut head = [0; HEADER];
    file.read_exact(&mut head)?;
    let Some(header) = Header::decode(&head) else {
        return Ok(None);
    };
    match header.state {
        State::Running => return Ok(None),
        State::Overflow => anyhow::bail!(
            "the guest's /out is larger than {mebibytes} MiB; give it more room with --out-size"
        ),
        State::Done => {}
    }
    // Not the original size: a guest that is a program lets the file grow.
    let room = file.metadata()?.len().saturating_sub(DATA as u64);
    ensure!(
        header.length <= room,
        "the guest says that it left {} bytes, where {room} can be",
        header.length
    );
    let mut tar = vec![0; usize::try_from(header.length)?];
    file.seek(SeekFrom::Start(DATA as u64))?;
    file.read_exact(&mut tar)?;
    Ok(Some(Output {
        status: u8::try_from(header.status)?,
        tar,
    }))
}

/// One file of the tar.
///
/// # Errors
/// If the tar is invalid.
pub fn file(tar: &[u8], name: &str) -> Result<Option<Vec<u8>>> {
    for entry in tar::Archive::new(tar).entries()? {
        let mut entry = entry?;
        if entry.path()?.as_os_str() == name {
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            return Ok(Some(content));
        }
    }
    Ok(None)
}

/// All files of the tar, by name.
///
/// # Errors
/// If the tar is invalid.
pub fn files(tar: &[u8]) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut all = BTreeMap::new();
    for entry in tar::Archive::new(tar).entries()? {
        let mut entry = entry?;
        let name = entry.path()?.display().to_string();
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        all.insert(name, content);
    }
    Ok(all)
}

/// Unpacks the tar into a directory.
///
/// # Errors
/// Those of the file system.
pub fn unpack(tar: &[u8], directory: &Path) -> Result<()> {
    make(directory)?;
    let mut archive = tar::Archive::new(tar);
    // The guest's times are meaningless.
    archive.set_preserve_mtime(false);
    archive
        .unpack(directory)
        .with_context(|| format!("unpacking into {}", directory.display()))
}

/// Unpacks a folder of the tar into a directory.
///
/// # Errors
/// Those of the file system.
pub fn unpack_below(tar: &[u8], folder: &str, directory: &Path) -> Result<()> {
    make(directory)?;
    for entry in tar::Archive::new(tar).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let Ok(below) = path.strip_prefix(folder) else {
            continue;
        };
        // The guest chose the names: none may lead out of the directory.
        let is_plain = |part| matches!(part, std::path::Component::Normal(_));
        if below.as_os_str().is_empty() || !below.components().all(is_plain) {
            continue;
        }
        entry.set_preserve_mtime(false);
        let place = directory.join(below);
        entry
            .unpack(&place)
            .with_context(|| format!("unpacking {}", place.display()))?;
    }
    Ok(())
}

/// Makes a folder and those above it.
fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))
}

/// Writes a file atomically, and creates its folder: even if this process ends, the file is
/// complete or does not exist.
///
/// # Errors
/// If it cannot be written.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        make(folder)?;
    }
    let half = temporary(path);
    let written = fs::write(&half, content).and_then(|()| fs::rename(&half, path));
    if written.is_err() {
        // On a full disk, the half would take the remaining room. It may not even exist.
        let _ = fs::remove_file(&half);
    }
    written.with_context(|| format!("writing {}", path.display()))
}

/// The results of a run in a guest, if they are complete. A failed run may leave an incomplete
/// file, and its exit status may be that of a run whose results are not valid. So the last line
/// must be the summary.
pub fn whole_results(status: u8, left: Option<Vec<u8>>) -> Option<Vec<u8>> {
    /// The exit status of `weft run` if results are not valid.
    const INVALID: u8 = 1;
    #[derive(serde::Deserialize)]
    struct Line {
        record: String,
    }
    let left = left.filter(|_| status <= INVALID)?;
    let last = left.trim_ascii_end().rsplit(|&byte| byte == b'\n').next()?;
    let line: Line = serde_json::from_slice(last).ok()?;
    (line.record == "summary").then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Temporary;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn a_file_is_written_completely_or_not_at_all() {
        let name = format!("weft-whole-{}", std::process::id());
        let place = Temporary::new(std::env::temp_dir().join(name)).unwrap();
        let path = place.path().join("a/b.jsonl");
        write_whole(&path, b"first").unwrap();
        // The old file is not overwritten: another file takes its name.
        let before = fs::File::open(&path).unwrap();
        write_whole(&path, b"2").unwrap();
        assert_eq!(std::io::read_to_string(before).unwrap(), "first");
        assert_eq!(fs::read_to_string(&path).unwrap(), "2");
        assert_eq!(fs::read_dir(place.path().join("a")).unwrap().count(), 1);
    }

    #[test]
    fn another_process_may_write_the_same_file() {
        let name = format!("weft-twice-{}", std::process::id());
        let place = Temporary::new(std::env::temp_dir().join(name)).unwrap();
        let path = place.path().join("b.jsonl");
        // Folders, so that they cannot be written.
        for theirs in ["b.jsonl.tmp", "b.jsonl.1.tmp"] {
            fs::create_dir(place.path().join(theirs)).unwrap();
        }
        write_whole(&path, b"whole").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
    }

    #[test]
    fn results_without_a_summary_are_incomplete() {
        const WHOLE: &str = "{\"record\":\"header\"}\n{\"record\":\"summary\",\"valid\":false}\n";
        let whole = |status, text: &str| whole_results(status, Some(text.into())).is_some();
        assert!(whole(0, WHOLE) && whole(1, WHOLE));
        for status in [2, 124, 137] {
            assert!(!whole(status, WHOLE), "{status}");
        }
        for text in [
            "",
            "\n",
            "{\"record\":\"header\"}\n",
            &WHOLE[..WHOLE.len() - 3],
        ] {
            assert!(!whole(0, text) && !whole(1, text), "{text}");
        }
        assert_eq!(whole_results(0, None), None);
    }

    /// Reads the result from a file of 1 MiB whose header claims a tar of this length.
    fn left(name: &str, tar: &[u8], length: u64) -> Result<Option<Output>> {
        let name = format!("weft-transfer-{name}-{}", std::process::id());
        let directory = Temporary::new(std::env::temp_dir().join(name))?;
        let path = directory.path().join("out");
        create(&path, 1)?;
        let file = File::options().write(true).open(&path)?;
        let header = Header {
            state: State::Done,
            status: 3,
            length,
        };
        file.write_all_at(&header.encode(), 0)?;
        file.write_all_at(tar, DATA as u64)?;
        read(&path, 1)
    }

    #[test]
    fn output_may_exceed_the_reserved_memory() {
        let tar = vec![7; 3 << 20];
        let output = left("long", &tar, tar.len() as u64).unwrap().unwrap();
        assert_eq!((output.status, output.tar == tar), (3, true));
    }

    #[test]
    fn a_missing_transfer_is_not_read() {
        let error = left("short", &[7], (1 << 20) - DATA as u64 + 1).err();
        let error = error.unwrap().to_string();
        assert!(
            error.contains("1044481 bytes, where 1044480 can be"),
            "{error}"
        );
    }
}
