// SPDX-License-Identifier: MIT OR Apache-2.0

//! Files that a person names.
//!
//! They are read whole, at most as many bytes as such a file may have: `/dev/zero` and other files
//! without an end do not fill the memory.

use std::fs::File;
use std::io::{self, BufRead, ErrorKind, Read};
use std::path::Path;

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
    /// Those of the file system, without the file's name, also if it is not UTF-8;
    /// [`ErrorKind::FileTooLarge`] if it is longer than the limit.
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
}
