// SPDX-License-Identifier: MIT OR Apache-2.0

//! Folders for files of a test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};

/// A new, empty folder, which is removed on drop.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weft-fabric-selftests.{}.{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Creates a scheme's folder in it, with a description; returns its path.
    pub(crate) fn scheme(&self, name: &str, description: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        std::fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        self.write(&format!("{name}/scheme.toml"), description)?;
        Ok(path)
    }

    /// Writes a file in it; returns its path.
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        std::fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A failure is harmless: the files are in the guest's memory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
