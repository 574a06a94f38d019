// SPDX-License-Identifier: MIT OR Apache-2.0

//! The selftests under virtme-ng, the kernel developers' own runner: the same programs and modules
//! on the same stock kernel, but with the root filesystem itself (over 9p) instead of an initramfs.
//!
//! Time is virtual there, too, so that no test depends on the host's speed. But while the guest
//! waits for a file of the host, idle time is skipped until the file has arrived, so two runs are
//! not byte-identical.
//!
//! virtme-ng and its dependencies are a layer over the root filesystem, so that other commands do
//! not need them.

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use weft_build::base::cache::{Entry, Stage};
use weft_build::base::enter::Enter;
use weft_build::options::Hardware;
use weft_build::stages::chain::Built;
use weft_build::stages::layer;
use weft_machine::failure::{self, Failure};
use weft_machine::follow::Follow;
use weft_machine::interrupt::{self, Kind, Temporary};
use weft_machine::watchdog::Watchdog;

pub(crate) const STAGE: Stage = Stage {
    name: "virtme-ng",
    keep: 2,
};

/// systemd-sysv: without a `poweroff` the guest's init ends and the kernel panics. bsdutils:
/// `script`, because vng requires a terminal.
const PACKAGES: [&str; 4] = ["virtme-ng", "udev", "systemd-sysv", "bsdutils"];
/// The makefile that runs the tests according to the kernel's conventions, and its path in the
/// guest.
const MAKEFILE: &str = include_str!("../../../../../selftests/Makefile");
const SELFTESTS: &str = "usr/share/weft/selftests";
const POLL: Duration = Duration::from_millis(50);

/// virtme-ng, installed if necessary.
fn ensure(built: &Built) -> Result<Entry> {
    let base = &built.base;
    let packages = ("virtme-ng", &PACKAGES[..]);
    layer::ensure(
        built.cache,
        &STAGE,
        packages,
        &base.resolution,
        &base.rootfs,
    )
}

/// Runs the qdiscs' selftests, or those that `filter` selects, under virtme-ng. Returns all its
/// output and the kernel's; `seen` receives it as it arrives.
///
/// # Errors
/// If virtme-ng cannot be installed or started; a [`Failure`] if it hangs.
pub(crate) fn run(
    built: &Built,
    filter: Option<&str>,
    hardware: &Hardware,
    seen: &mut dyn FnMut(&[u8]),
) -> Result<String> {
    let installed = ensure(built)?;
    let directory = Temporary::new(
        built
            .cache
            .file(format!("run/{}.virtme", std::process::id())),
    )?;
    let root = built.base.rootfs.path().join("root");
    let enter = Enter::layered(&root, &[&layer::place(&installed)], directory.path())?;
    let tree = directory.path().join("data");
    built.add_to_tree(&tree)?;
    fs::create_dir_all(tree.join(SELFTESTS))?;
    fs::write(tree.join(SELFTESTS).join("Makefile"), MAKEFILE)?;
    let kernel = &built.base.resolution.kernel;
    let image = built.base.resolution.image();
    let vng = format!(
        "vng --verbose --force-9p --run {image} --disable-kvm --user root --memory {}M --cpus 1 \
         --qemu-opts='-icount shift={},sleep=off' \
         --append 'oops=panic panic=-1 tsc=reliable' -- \
         make -C /{SELFTESTS} run_tests WEFT_SELFTESTS=/usr/bin/weft-selftests FILTER={}",
        hardware.memory,
        hardware.shift,
        filter.unwrap_or_default()
    );
    let script = format!("depmod {kernel} && exec script -qec \"{vng}\" /dev/null");
    let output = directory.path().join("output");
    let mut follow = Follow::new(output.clone());
    let mut command: Command = enter.script(&script);
    let file = File::create(&output)?;
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    let mut guarded = interrupt::spawn(&mut command, Kind::Group)?;
    let mut watchdog = Watchdog::new(guarded.child.id());
    let status = loop {
        let ended = guarded.child.try_wait()?;
        let fresh = follow.poll()?;
        if !fresh.is_empty() {
            watchdog.seen();
            seen(fresh);
        }
        if let Some(status) = ended {
            break status;
        }
        if watchdog.is_silent_for(hardware.timeout()) {
            guarded.kill();
            let message = format!(
                "virtme-ng printed nothing for {} s (--timeout), not counting the time for which it waited for a processor",
                hardware.timeout
            );
            return Err(Failure::new(failure::HANG, message).into());
        }
        std::thread::sleep(POLL);
    };
    let text = follow.text();
    // A failed test has its own status, and the output names it; no output at all is an error.
    if text.trim().is_empty() {
        interrupt::park_if_ending();
        bail!("virtme-ng ended with {status} and printed nothing");
    }
    fs::write(built.cache.file("log/virtme-ng.out"), &text)
        .context("keeping virtme-ng's output")?;
    Ok(text)
}
