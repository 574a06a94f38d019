// SPDX-License-Identifier: MIT OR Apache-2.0

//! Files that a person names.
//!
//! They are read whole, at most as many bytes as such a file may have: `/dev/zero` does not fill
//! the memory. Files that belong together are written together, or none is: a full disk leaves no
//! part that looks whole.

use std::fs::{self, File};
use std::io::{self, BufRead, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The largest file of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimit {
    /// The kind in an error, with its article: `a topology`.
    pub kind: &'static str,
    /// In bytes.
    pub bytes: u64,
}

/// 2^20 bytes.
pub const MIB: u64 = 1 << 20;

impl SizeLimit {
    /// Reads a whole file of text.
    ///
    /// # Errors
    ///
    /// Errors of the file system, without the file's name; [`ErrorKind::InvalidData`] if the file
    /// is not UTF-8, and [`ErrorKind::FileTooLarge`] if it is longer than the limit.
    pub fn read_text(&self, path: impl AsRef<Path>) -> io::Result<String> {
        let mut text = String::new();
        self.reader(File::open(path)?).read_to_string(&mut text)?;
        Ok(text)
    }

    /// Reads a whole file.
    ///
    /// # Errors
    ///
    /// As [`SizeLimit::read_text`], for any bytes.
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        self.reader(File::open(path)?).read_to_end(&mut content)?;
        Ok(content)
    }

    /// A reader that fails with [`ErrorKind::FileTooLarge`] in place of the first byte beyond the
    /// limit.
    pub fn reader<R: Read>(&self, from: R) -> Limited<R> {
        Limited {
            from,
            left: self.bytes,
            limit: *self,
        }
    }

    fn exceeded(&self) -> io::Error {
        let Self { kind, bytes } = self;
        let limit = match bytes % MIB {
            0 => format!("{} MiB", bytes / MIB),
            _ => format!("{bytes} bytes"),
        };
        io::Error::new(
            ErrorKind::FileTooLarge,
            format!("it is longer than {limit}, the limit for {kind}"),
        )
    }
}

/// A reader with a limit, see [`SizeLimit::reader`].
#[derive(Debug)]
pub struct Limited<R> {
    from: R,
    left: u64,
    limit: SizeLimit,
}

impl<R> Limited<R> {
    /// The bytes that may be read now, of this many.
    fn room(&self, bytes: usize) -> usize {
        usize::try_from(self.left).map_or(bytes, |left| left.min(bytes))
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            // Whether there is another byte.
            return match buffer.is_empty() || self.from.read(&mut [0])? == 0 {
                true => Ok(0),
                false => Err(self.limit.exceeded()),
            };
        }
        let room = self.room(buffer.len());
        let read = self.from.read(&mut buffer[..room])?;
        self.left = self.left.saturating_sub(read as u64);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Limited<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let (left, limit) = (self.left, self.limit);
        let room = self.room(usize::MAX);
        let buffer = self.from.fill_buf()?;
        match left == 0 && !buffer.is_empty() {
            true => Err(limit.exceeded()),
            false => Ok(&buffer[..buffer.len().min(room)]),
        }
    }

    fn consume(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes as u64);
        self.from.consume(bytes);
    }
}

/// Writes files with their contents, and creates their folders: all of them, or none. Files that
/// exist are replaced only when all new ones are written.
///
/// # Errors
///
/// Errors of the file system, with the path. The files are then as before, and new folders are
/// removed. If it fails while it gives the new files their names, some may have theirs already.
pub fn write_together(files: &[(PathBuf, Vec<u8>)]) -> io::Result<()> {
    let mut made = Made::default();
    for (path, content) in files {
        if let Some(folder) = path.parent() {
            made.folder(folder)
                .map_err(|error| naming(error, "making", folder))?;
        }
        made.file(path, content)
            .map_err(|error| naming(error, "writing", path))?;
    }
    for (new, path) in &made.files {
        fs::rename(new, path).map_err(|error| naming(error, "writing", path))?;
    }
    made.files.clear();
    made.folders.clear();
    Ok(())
}

/// The name that a file of this process has until it is complete. Another process that writes the
/// same file has another one.
#[must_use]
pub fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    name.into()
}

fn naming(error: io::Error, doing: &str, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{doing} {}: {error}", path.display()))
}

/// New files under temporary names, each with its final one, and new folders: removed on drop.
#[derive(Default)]
struct Made {
    files: Vec<(PathBuf, PathBuf)>,
    folders: Vec<PathBuf>,
}

impl Made {
    fn folder(&mut self, folder: &Path) -> io::Result<()> {
        let missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let missing: Vec<&Path> = folder.ancestors().take_while(missing).collect();
        for folder in missing.into_iter().rev() {
            fs::create_dir(folder)?;
            self.folders.push(folder.to_owned());
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        let new = temporary(path);
        self.files.push((new.clone(), path.to_owned()));
        fs::write(new, content)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // Errors have no reader: the first one is being reported.
        for (new, _) in &self.files {
            let _ = fs::remove_file(new);
        }
        for folder in self.folders.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: SizeLimit = SizeLimit {
        kind: "a test",
        bytes: 5,
    };

    fn read(limit: SizeLimit, from: impl Read) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        limit.reader(from).read_to_end(&mut content)?;
        Ok(content)
    }

    #[test]
    fn a_file_at_its_limit_is_read_and_a_longer_one_is_refused() {
        for text in ["", "1234", "12345"] {
            assert_eq!(read(FEW, text.as_bytes()).unwrap(), text.as_bytes());
        }
        for text in ["123456", "1234567890"] {
            let error = read(FEW, text.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::FileTooLarge);
            let expected = "it is longer than 5 bytes, the limit for a test";
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn lines_are_read_up_to_the_limit() {
        let mut lines = FEW.reader(&b"ab\ncd\nef"[..]).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ab");
        let error = lines.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        let lines = FEW.reader(&b"ab\ncd"[..]).lines();
        assert_eq!(lines.map(Result::unwrap).collect::<Vec<_>>(), ["ab", "cd"]);
    }

    #[test]
    fn a_device_without_an_end_is_refused() {
        let limit = SizeLimit {
            kind: "a test",
            bytes: 2 * MIB,
        };
        let expected = "it is longer than 2 MiB, the limit for a test";
        assert_eq!(limit.read("/dev/zero").unwrap_err().to_string(), expected);
        assert_eq!(
            limit.read_text("/dev/zero").unwrap_err().to_string(),
            expected
        );
        assert_eq!(limit.read("/dev/null").unwrap(), b"");
    }

    #[test]
    fn files_are_written_together_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("weft-together-{}", std::process::id()));
        let of = |names: &[&str], content: &str| -> Vec<(PathBuf, Vec<u8>)> {
            let file = |name: &&str| (folder.join(name), content.into());
            names.iter().map(file).collect()
        };
        // A folder has the temporary name of the last file.
        let taken = temporary(&folder.join("c"));
        fs::create_dir_all(&taken).unwrap();
        let taken = taken.file_name().unwrap().to_str().unwrap();
        let before = || {
            let mut names: Vec<_> = fs::read_dir(&folder)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let error = write_together(&of(&["a", "new/deep/b", "c"], "1")).unwrap_err();
        let path = folder.join("c");
        let expected = format!("writing {}: ", path.display());
        assert!(error.to_string().starts_with(&expected), "{error}");
        assert_eq!(before(), [taken]);

        write_together(&of(&["a", "new/deep/b"], "1")).unwrap();
        assert_eq!(fs::read_to_string(folder.join("new/deep/b")).unwrap(), "1");
        write_together(&of(&["a", "c"], "2")).unwrap_err();
        assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "1");
        write_together(&of(&["a"], "2")).unwrap();
        assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "2");
        assert_eq!(before(), ["a", taken, "new"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
