// SPDX-License-Identifier: MIT OR Apache-2.0

//! The modules under test: loading, removing, counting their users.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use nix::errno::Errno;
use nix::kmod::{DeleteModuleFlags, delete_module};

/// The modules whose users are counted after every test: all of weft's that are loaded.
fn modules() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for module in std::fs::read_dir("/sys/module")? {
        let name = module?.file_name().to_string_lossy().into_owned();
        let ours = |prefix| {
            let mechanism = name.strip_prefix(prefix)?;
            let known = weft_mechanisms::qdisc(mechanism).is_some() || mechanism == "selftest";
            known.then_some(())
        };
        if ours("sch_").or_else(|| ours("tcp_")).is_some() {
            names.push(name);
        }
    }
    Ok(names)
}

/// A namespace goes away in the background, after an RCU grace period and more.
const PATIENCE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(10);

/// Users of a module; `None` if it is not loaded.
pub(crate) fn users(name: &str) -> Option<u32> {
    std::fs::read_to_string(format!("/sys/module/{name}/refcnt"))
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// Waits until nobody uses the modules any more.
///
/// # Errors
///
/// If somebody still does after a while: something leaked.
pub(crate) fn wait_until_unused() -> Result<()> {
    for name in modules()? {
        wait_for(&name)?;
    }
    Ok(())
}

/// Waits until nobody uses a module any more.
fn wait_for(name: &str) -> Result<()> {
    for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
        if users(name).is_none_or(|users| users == 0) {
            return Ok(());
        }
        std::thread::sleep(STEP);
    }
    let seconds = PATIENCE.as_secs();
    let users = users(name).unwrap_or(0);
    bail!("{name} has {users} users after {seconds} s: something leaked")
}

/// Loads a module, its dependencies first.
pub(crate) fn load(name: &str) -> Result<()> {
    let status = Command::new("modprobe")
        .arg(name)
        .status()
        .context("starting modprobe")?;
    ensure!(status.success(), "modprobe {name}: {status}");
    ensure!(
        users(name).is_some(),
        "modprobe {name} succeeded, yet the module is not there"
    );
    Ok(())
}

/// Removes a module, without waiting.
pub(crate) fn remove(name: &str) -> Result<(), Errno> {
    let name = std::ffi::CString::new(name).map_err(|_| Errno::EINVAL)?;
    delete_module(&name, DeleteModuleFlags::O_NONBLOCK)
}

/// Waits until nobody uses a module any more, and removes it.
///
/// # Errors
///
/// If somebody still does after a while, it is not there, or it stays.
pub(crate) fn remove_when_unused(name: &str) -> Result<()> {
    wait_for(name)?;
    remove(name).with_context(|| format!("removing {name}, which nobody uses"))?;
    ensure!(users(name).is_none(), "{name} was removed and is there");
    Ok(())
}
