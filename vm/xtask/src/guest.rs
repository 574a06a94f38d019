// SPDX-License-Identifier: MIT OR Apache-2.0

//! One run of the guest: puts the initramfs together, starts the machine, watches, reads the
//! result.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use weft_guest::request::{self, Request};

use crate::build::{Built, Kernel};
use crate::console;
use crate::cpio;
use crate::failure::{self, Failure};
use crate::follow::Follow;
use crate::interrupt::{self, Kind, Temporary, TerminalGuard};
use crate::process;
use crate::processor;
use crate::qemu::{self, Clock, Machine, Terminal};
use crate::transfer;

/// The folder of the cache in which each run has a directory of its own.
pub(crate) const PLACE: &str = "run";
/// How often the files that the machine writes are looked at.
const POLL: Duration = Duration::from_millis(20);
/// Lines of the kernel's log that are shown when the guest died silently.
const LOG_LINES: usize = 60;

/// What to run and what to hand in.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) machine: Machine,
    pub(crate) request: Request,
    /// Files and directories of the host, and where they go in the guest.
    pub(crate) files: Vec<(PathBuf, String)>,
    /// The guest may be silent for so long.
    pub(crate) timeout: Duration,
    /// Raised when the run is not wanted any more.
    pub(crate) cancel: Option<Arc<AtomicBool>>,
    /// What the kernel's log tells of trouble is made on purpose, and no failure.
    pub(crate) deliberate: bool,
}

impl Run {
    /// Of a command, without files.
    pub(crate) fn new<S: Into<OsString>>(
        machine: Machine,
        command: impl IntoIterator<Item = S>,
        timeout: Duration,
    ) -> Self {
        Self {
            machine,
            request: Request {
                command: command.into_iter().map(Into::into).collect(),
                ..Request::default()
            },
            files: Vec::new(),
            timeout,
            cancel: None,
            deliberate: false,
        }
    }
}

/// What came of it.
pub(crate) struct Outcome {
    /// Exit status of the command.
    pub(crate) status: u8,
    /// A tar of the guest's `/out`, its kernel log (`dmesg`) among it.
    pub(crate) tar: Vec<u8>,
    /// What the command printed.
    pub(crate) console: Vec<u8>,
    /// What the kernel printed on its console.
    pub(crate) kernel_log: String,
}

/// Runs the guest to its end. `seen` is given what the command prints as it comes.
///
/// # Errors
/// A [`Failure`] if the guest hangs, dies, or its kernel reports trouble; what the machine says if
/// it cannot start.
pub(crate) fn run(built: &Built, run: &Run, seen: &mut dyn FnMut(&[u8])) -> Result<Outcome> {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let name = format!("{PLACE}/{}.{number}", std::process::id());
    remove_leftovers(&built.cache.file(PLACE))?;
    let directory = Temporary::new(built.cache.file(name))?;
    let place = |file: &str| directory.path().join(file);
    write_initramfs(built, run, &place(qemu::INITRAMFS))?;
    transfer::create(&place(qemu::SHARED_MEMORY), run.machine.out_mib)?;

    let enter = built
        .with_boot(run.machine.clock.kernel())?
        .with_writable(directory.path(), qemu::PLACE);
    // Where its time is not the host's, a guest can wait: host tests run beside some.
    let (enter, processor) = match run.machine.clock {
        Clock::Kvm | Clock::Tcg | Clock::Debug => (enter, None),
        Clock::Virtual { .. } => (enter.niced(), None),
        Clock::Model { .. } => {
            let held = processor::hold(&built.cache.file(processor::PLACE))?;
            (enter.niced(), held)
        }
    };
    let enter = match &processor {
        Some(held) => enter.kept_on(held.number),
        None => enter,
    };
    let mut command = qemu::command(&enter, &run.machine);
    let interactive = run.machine.terminal == Terminal::Interactive;
    let complaints = place("qemu.log");
    command.stderr(File::create(&complaints)?);
    let _restored = interactive.then(TerminalGuard::new).transpose()?;
    let kind = if interactive {
        Kind::Foreground
    } else {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Kind::Group
    };
    let mut guarded = interrupt::spawn(&mut command, kind)?;
    let mut kernel = Follow::new(place(qemu::KERNEL_LOG));
    let mut terminal = Follow::new(place(qemu::CONSOLE));
    let mut last_sign_of_life = Instant::now();
    let ended = loop {
        let ended = guarded.child.try_wait()?;
        let fresh = terminal.poll()?;
        seen(fresh);
        if !fresh.is_empty() | !kernel.poll()?.is_empty() {
            last_sign_of_life = Instant::now();
        }
        if let Some(status) = ended {
            break status;
        }
        if !interactive && last_sign_of_life.elapsed() > run.timeout {
            guarded.kill();
            let log = process::last_lines(&kernel.text(), LOG_LINES);
            let seconds = run.timeout.as_secs();
            let hint = match run.machine.clock.kernel() {
                Kernel::Model => {
                    "Under the model clock no time passes while a program computes: one that loops until \
                     another does something, or until a time has come without reading the clock, loops \
                     for ever. "
                }
                Kernel::Stock | Kernel::Debug => "",
            };
            let message = format!(
                "the guest hangs: it printed nothing for {seconds} s (--timeout) and was ended. {hint}The \
                 kernel's log:\n{log}"
            );
            return Err(Failure::new(failure::HANG, message).into());
        }
        if run
            .cancel
            .as_ref()
            .is_some_and(|flag| flag.load(Ordering::Relaxed))
        {
            guarded.kill();
            anyhow::bail!("ended, as another guest failed");
        }
        std::thread::sleep(POLL);
    };
    // A kernel that is a program fails when it panics, which its log tells better.
    let panicked = run.machine.clock.kernel().is_program() && !kernel.text().is_empty();
    if !ended.success() {
        interrupt::park_if_ending();
        if !panicked {
            let complaints = fs::read_to_string(&complaints).unwrap_or_default();
            let complaints = process::last_lines(&complaints, LOG_LINES);
            anyhow::bail!("the machine failed ({ended})\n{complaints}");
        }
    }
    conclude(
        run,
        transfer::read(&place(qemu::SHARED_MEMORY), run.machine.out_mib)?,
        kernel,
        terminal,
    )
}

/// Directories of runs whose xtask was killed.
fn remove_leftovers(runs: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(runs) else {
        return Ok(());
    };
    for entry in entries {
        let entry = entry?;
        if !is_under_way(&entry.path()) {
            crate::enter::remove_tree(&entry.path())?;
        }
    }
    Ok(())
}

/// Whether the xtask whose run has this directory is still there: its number is the name's first
/// part.
pub(crate) fn is_under_way(directory: &Path) -> bool {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let process = name.split('.').next().unwrap_or_default();
    Path::new("/proc").join(process).exists()
}

fn conclude(
    run: &Run,
    output: Option<transfer::Output>,
    kernel: Follow,
    terminal: Follow,
) -> Result<Outcome> {
    let kernel_log = kernel.text();
    let failed = |what: &str, log: &str| Failure::new(failure::KERNEL, format!("{what}:\n{log}"));
    let console_trouble = console::trouble(&kernel_log);
    let Some(output) = output else {
        let what = "the guest died before its command ended; the kernel's log";
        let log = console_trouble.unwrap_or_else(|| process::last_lines(&kernel_log, LOG_LINES));
        return Err(failed(what, &log).into());
    };
    // Lesser messages only reach the log that init saved.
    let saved = transfer::file(&output.tar, "dmesg")?.context("the guest saved no kernel log")?;
    let trouble = console::trouble(&String::from_utf8_lossy(&saved)).or(console_trouble);
    if let Some(log) = trouble.filter(|_| !run.deliberate) {
        let what = format!(
            "the guest's kernel is in trouble (the command ended with status {}); its log",
            output.status
        );
        return Err(failed(&what, &log).into());
    }
    Ok(Outcome {
        status: output.status,
        tar: output.tar,
        console: terminal.into_bytes(),
        kernel_log,
    })
}

/// Adds files and folders of the host, each in its place.
///
/// # Errors
/// If one cannot be read.
pub(crate) fn add_files(archive: &mut cpio::Archive, files: &[(PathBuf, String)]) -> Result<()> {
    for (from, to) in files {
        let metadata = fs::metadata(from).with_context(|| format!("reading {}", from.display()))?;
        if metadata.is_dir() {
            archive.tree(from, &format!("{}/", to.trim_matches('/')))?;
        } else {
            use std::os::unix::fs::PermissionsExt;
            archive.file(to, metadata.permissions().mode(), &fs::read(from)?)?;
        }
    }
    Ok(())
}

/// The base, packages, our own part and the request, one archive after the other.
fn write_initramfs(built: &Built, run: &Run, path: &Path) -> Result<()> {
    let mut archive = cpio::Archive::default();
    built.add_to(&mut archive, run.machine.clock.kernel())?;
    add_files(&mut archive, &run.files)?;
    let mut request = run.request.clone();
    let clock = format!("{}={}", request::CLOCK, run.machine.clock.name());
    request.environment.insert(0, clock.into());
    archive.file(request::PATH, 0o644, &request.encode())?;
    let mut file = File::create(path)?;
    for part in built.foreign_initramfs() {
        let copied = File::open(&part).and_then(|mut part| io::copy(&mut part, &mut file));
        copied.with_context(|| format!("copying {}", part.display()))?;
    }
    file.write_all(&archive.finish()?)?;
    Ok(())
}
