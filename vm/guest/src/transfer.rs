// SPDX-License-Identifier: MIT OR Apache-2.0

//! The file in which the guest leaves its result: a header, then a tar of `/out`.
//!
//! In QEMU's guest it is the memory of a PCI device (`ivshmem-plain`). There is no driver, no
//! interrupt and no buffer that can run full, so handing files out costs the guest exactly the same
//! instructions each time. That is what keeps a run in virtual time the same to the byte. Under the
//! model clock the guest's kernel is a program, which writes the file itself.

/// First bytes of the header.
pub const MAGIC: [u8; 8] = *b"weft-out";
/// Offset of the tar: one page, so that the header can be mapped alone.
pub const DATA: usize = 4096;
/// Bytes of an encoded [`Header`].
pub const HEADER: usize = 24;
/// The file's name in the directory that the host shows the guest under the model clock.
pub const FILE: &str = "out";
/// PCI vendor and device of `ivshmem-plain`, as sysfs prints them.
pub const PCI_ID: (&str, &str) = ("0x1af4", "0x1110");

/// How far the guest got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// The command runs.
    Running = 1,
    /// The command ended and the tar is complete.
    Done = 2,
    /// The command ended, but `/out` did not fit; there is no tar.
    Overflow = 3,
}

/// What the guest reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How far it got.
    pub state: State,
    /// Exit status of the command, 0..=255; 128 + the signal's number if a signal ended it.
    pub status: u32,
    /// Bytes of tar at [`DATA`].
    pub length: u64,
}

impl Header {
    /// Native endian: host and guest are the same machine.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&(self.state as u32).to_ne_bytes());
        out[12..16].copy_from_slice(&self.status.to_ne_bytes());
        out[16..].copy_from_slice(&self.length.to_ne_bytes());
        out
    }

    /// `None` if the guest wrote no header: it died before init could.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        if bytes.get(..8)? != MAGIC {
            return None;
        }
        let state = match word(8)? {
            1 => State::Running,
            2 => State::Done,
            3 => State::Overflow,
            _ => return None,
        };
        let length = u64::from_ne_bytes(bytes.get(16..24)?.try_into().ok()?);
        Some(Self {
            state,
            status: word(12)?,
            length,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_encoding() {
        for state in [State::Running, State::Done, State::Overflow] {
            let header = Header {
                state,
                status: 137,
                length: u64::MAX,
            };
            assert_eq!(Header::decode(&header.encode()), Some(header));
        }
    }

    #[test]
    fn untouched_or_short_memory_is_not_a_header() {
        assert_eq!(Header::decode(&[0; 4096]), None);
        let whole = Header {
            state: State::Done,
            status: 0,
            length: 1,
        }
        .encode();
        assert_eq!(Header::decode(&whole[..HEADER - 1]), None);
    }
}
