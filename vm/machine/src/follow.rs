// SPDX-License-Identifier: MIT OR Apache-2.0

//! Follows a file that another process writes, like `tail -f`.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use anyhow::Result;

/// A growing file.
pub struct Follow {
    path: PathBuf,
    file: Option<File>,
    bytes: Vec<u8>,
}

impl Follow {
    /// Follows the file, which need not exist yet.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            bytes: Vec::new(),
        }
    }

    /// The bytes added since the last call.
    pub fn poll(&mut self) -> Result<&[u8]> {
        if self.file.is_none() {
            // QEMU creates the file when it starts, and never for an interactive terminal.
            self.file = File::open(&self.path).ok();
        }
        let known = self.bytes.len();
        if let Some(file) = &mut self.file {
            file.read_to_end(&mut self.bytes)?;
        }
        Ok(&self.bytes[known..])
    }

    /// All bytes so far, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).replace('\r', "")
    }

    /// All bytes so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
