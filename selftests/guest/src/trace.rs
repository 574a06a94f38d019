// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel's tracing (Documentation/trace/ftrace.rst), in an instance of its own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use weft_ktap::Skip;

const TRACEFS: &str = "/sys/kernel/tracing";

/// An instance of the kernel's tracing, which is removed on drop.
pub(crate) struct Trace {
    folder: PathBuf,
}

impl Trace {
    fn new() -> Result<Self> {
        let name = format!("weft-{}", std::process::id());
        let folder = Path::new(TRACEFS).join("instances").join(name);
        fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(Self { folder })
    }

    /// Records each call of a kernel function and its caller; skips the test if the kernel cannot.
    pub(crate) fn of_calls(function: &str) -> Result<Self> {
        let all = fs::read_to_string(Path::new(TRACEFS).join("available_filter_functions"));
        let is_there = |all: String| all.lines().any(|it| it == function);
        if !all.is_ok_and(is_there) {
            let why = format!("this kernel cannot trace calls of {function}");
            return Err(Skip(why).into());
        }
        let trace = Self::new()?;
        trace.write("set_ftrace_filter", function)?;
        trace.write("current_tracer", "function")?;
        Ok(trace)
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, text).with_context(|| format!("writing {text} to {}", path.display()))
    }

    /// Everything that was recorded, oldest first.
    pub(crate) fn lines(&self) -> Result<Vec<String>> {
        let text = fs::read_to_string(self.folder.join("trace"))?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Ok(lines.map(str::to_owned).collect())
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // A failed test may leave it behind; the guest ends soon.
        let _ = fs::remove_dir(&self.folder);
    }
}
