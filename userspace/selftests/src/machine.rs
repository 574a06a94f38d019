// SPDX-License-Identifier: MIT OR Apache-2.0

//! State of the machine that a testbed may leave behind, as the kernel reports it.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::weft::succeed;

/// Maximum time for the kernel to free unused objects: it frees programs after an RCU grace period,
/// and devices in the background.
const PATIENCE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(50);

/// The whole state, sorted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    namespaces: Vec<String>,
    /// Files of weft.
    runtime: Vec<String>,
    /// Devices in this network namespace.
    links: Vec<String>,
    control_groups: Vec<String>,
    mounts: Vec<String>,
    /// eBPF programs.
    programs: Vec<String>,
    /// The number of orphaned TCP connections that have not ended: each keeps its namespace alive,
    /// which has no name any more.
    orphans: Vec<String>,
}

impl Machine {
    pub(crate) fn now() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("reading mounts")?;
        let mut programs = Vec::new();
        for program in aya::programs::loaded_programs() {
            let program = program.context("asking for the loaded eBPF programs")?;
            let name = program.name_as_str().unwrap_or_default();
            programs.push(format!("{} {name}", program.id()));
        }
        let mut machine = Self {
            namespaces: names("/run/netns"),
            runtime: names("/run/weft"),
            links: names("/sys/class/net"),
            // Includes files, which are always the same.
            control_groups: names("/sys/fs/cgroup"),
            // `ip netns add` creates this mount once, and no command removes it.
            mounts: (mounts
                .lines()
                .filter(|mount| !mount.contains(" /run/netns ")))
            .map(str::to_owned)
            .collect(),
            programs,
            orphans: orphans()?,
        };
        for list in machine.lists_mut() {
            list.sort_unstable();
        }
        Ok(machine)
    }

    fn lists_mut(&mut self) -> [&mut Vec<String>; 7] {
        [
            &mut self.namespaces,
            &mut self.runtime,
            &mut self.links,
            &mut self.control_groups,
            &mut self.mounts,
            &mut self.programs,
            &mut self.orphans,
        ]
    }

    fn lists(&self) -> [(&'static str, &[String]); 7] {
        [
            ("network namespaces", &self.namespaces),
            ("/run/weft", &self.runtime),
            ("links", &self.links),
            ("control groups", &self.control_groups),
            ("mounts", &self.mounts),
            ("eBPF programs", &self.programs),
            ("connections of nobody", &self.orphans),
        ]
    }

    /// Lists added and removed objects; empty if nothing changed.
    fn difference(&self, now: &Self) -> String {
        let mut text = String::new();
        for ((what, before), (_, now)) in self.lists().into_iter().zip(now.lists()) {
            let only = |a: &[String], b: &[String]| -> Vec<String> {
                a.iter().filter(|it| !b.contains(it)).cloned().collect()
            };
            let (more, fewer) = (only(now, before), only(before, now));
            if !more.is_empty() || !fewer.is_empty() {
                text += &format!("{what}: left {more:?}, missing {fewer:?}\n");
            }
        }
        text
    }

    /// Waits until the state is the same again.
    ///
    /// # Errors
    ///
    /// If it stays different: the differences.
    pub(crate) fn ensure_unchanged(&self) -> Result<()> {
        let mut difference = String::new();
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            difference = self.difference(&Self::now()?);
            if difference.is_empty() {
                return Ok(());
            }
            std::thread::sleep(STEP);
        }
        ensure!(difference.is_empty(), "{difference}");
        Ok(())
    }
}

fn orphans() -> Result<Vec<String>> {
    let counts = fs::read_to_string("/proc/net/sockstat").context("counting sockets")?;
    let mut words = counts.split_whitespace().skip_while(|it| *it != "orphan");
    let count = words.nth(1).context("the kernel counts no orphans")?;
    Ok(vec![count.to_owned()])
}

/// The names in a directory, sorted; none if there is no such directory.
pub(crate) fn names(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names
}

/// Runs a command line; returns its output.
pub(crate) fn shell(line: &str) -> Result<String> {
    succeed(Command::new("sh").args(["-c", line])).with_context(|| line.to_owned())
}

/// Like [`shell`], for a command that prints a list in JSON, or nothing.
pub(crate) fn json(line: &str) -> Result<Vec<Value>> {
    let text = shell(line)?;
    let text = if text.trim().is_empty() { "[]" } else { &text };
    serde_json::from_str(text).with_context(|| format!("{line}: {text}"))
}
