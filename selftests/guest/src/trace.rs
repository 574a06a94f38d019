// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel's tracing (Documentation/trace/ftrace.rst), in an instance of its own.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use weft_ktap::Skip;

const TRACEFS: &str = "/sys/kernel/tracing";

/// An instance of the kernel's tracing, which is removed on drop.
pub(crate) struct Trace {
    folder: PathBuf,
    /// The event of this instance that reads memory, if it has one.
    reader: Option<&'static str>,
}

impl Trace {
    fn new() -> Result<Self> {
        let name = format!("weft-{}", std::process::id());
        let folder = Path::new(TRACEFS).join("instances").join(name);
        fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(Self {
            folder,
            reader: None,
        })
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

    /// Records each event `group/name`, and as `weft/NAME` what `fields` read when it happens
    /// (Documentation/trace/eprobetrace.rst); skips the test if the kernel cannot.
    pub(crate) fn of_event(event: &str, name: &'static str, fields: &str) -> Result<Self> {
        let root = Path::new(TRACEFS);
        if !root.join("events").join(event).exists() || !root.join("dynamic_events").exists() {
            let why = format!("this kernel cannot trace {event} with a probe of the event");
            return Err(Skip(why).into());
        }
        let mut trace = Self::new()?;
        change_dynamic(&format!("e:weft/{name} {event} {fields}"))?;
        trace.reader = Some(name);
        for event in [event, &format!("weft/{name}")] {
            trace.write(&format!("events/{event}/enable"), "1")?;
        }
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

/// Adds or removes a dynamic event. The others stay, because the file is not truncated.
fn change_dynamic(words: &str) -> Result<()> {
    let path = Path::new(TRACEFS).join("dynamic_events");
    let mut file = fs::File::options().append(true).open(&path)?;
    file.write_all(words.as_bytes())
        .with_context(|| format!("writing {words} to {}", path.display()))
}

impl Drop for Trace {
    fn drop(&mut self) {
        // A failed test may leave them behind; the guest ends soon.
        if let Some(name) = self.reader {
            let _ = self.write(&format!("events/weft/{name}/enable"), "0");
        }
        let _ = fs::remove_dir(&self.folder);
        if let Some(name) = self.reader {
            let _ = change_dynamic(&format!("-:weft/{name}"));
        }
    }
}

/// The word after `key=` in a recorded line.
pub(crate) fn value<'a>(line: &'a str, key: &str) -> Result<&'a str> {
    let mut words = line.split_whitespace();
    let value = words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    value.with_context(|| format!("no {key} in {line}"))
}
