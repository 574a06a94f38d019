// SPDX-License-Identifier: MIT OR Apache-2.0

//! One run of the guest: builds the initramfs, starts the machine, supervises it, reads the result.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::Pid;
use weft_guest::request::{self, Request};
use weft_words::file::{MIB, SizeLimit};

use crate::console;
use crate::cpio;
use crate::failure::{self, Failure};
use crate::follow::Follow;
use crate::interrupt::{self, Kind, Temporary, TerminalGuard};
use crate::launch::{Attributes, ENOUGH_FILES, Launcher, output, silence};
use crate::machine::{Clock, Machine, Terminal};
use crate::processor;
use crate::qemu::{self, CONSOLE, KERNEL_LOG, SHARED_MEMORY};
use crate::terminal;
use crate::text::last_lines;
use crate::transfer;
use crate::um;
use crate::watchdog::Watchdog;

/// The folder in which each run has a directory of its own.
pub const PLACE: &str = "run";
/// The file in a run's directory that is locked while the run lasts.
const LOCK: &str = "lock";
/// The output of the machine's program itself.
const COMPLAINTS: &str = "machine.log";
/// Interval between checks of the files that the machine writes.
const POLL: Duration = Duration::from_millis(20);
/// The first interval, so that a short run ends without delay.
const FIRST_POLL: Duration = Duration::from_millis(1);
/// Lines of the kernel's log that are shown if the guest died silently.
const LOG_LINES: usize = 60;

/// The files that guests boot, and their launcher.
pub struct Boot<'a> {
    /// The kernel: a program, or a file that QEMU boots, by its path within the launcher's
    /// environment.
    pub kernel: PathBuf,
    /// Parts of the initramfs that are files, in order.
    pub archives: Vec<PathBuf>,
    /// Adds the parts after these.
    pub own: &'a (dyn Fn(&mut cpio::Archive) -> Result<()> + Sync),
    /// Starts the machine's program.
    pub launcher: &'a dyn Launcher,
    /// The folder for the runs' directories.
    pub folder: &'a Path,
}

/// A guest: its machine and its request.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The machine.
    pub machine: Machine,
    /// The command and its environment.
    pub request: Request,
    /// Files and directories of the host, with their places in the guest.
    pub files: Vec<(PathBuf, String)>,
    /// Maximum time for which the guest may print nothing.
    pub timeout: Duration,
    /// Set to end the guest.
    pub cancel: Option<Arc<AtomicBool>>,
    /// Signs of trouble in the kernel's log are intended and not a failure.
    pub deliberate: bool,
}

impl Guest {
    /// A guest that runs a command, without files.
    pub fn new<S: Into<OsString>>(
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

/// The results of a guest.
pub struct Outcome {
    /// Exit status of the command.
    pub status: u8,
    /// A tar of the guest's `/out`, including its kernel log (`dmesg`).
    pub tar: Vec<u8>,
    /// What the command printed.
    pub console: Vec<u8>,
    /// What the kernel printed on its console.
    pub kernel_log: String,
}

/// Runs the guest to its end. `seen` receives the command's output as it arrives.
///
/// # Errors
/// A [`Failure`] if the guest hangs, dies, or its kernel reports trouble; the machine's own error
/// if it cannot start.
pub fn run(boot: &Boot<'_>, guest: &Guest, seen: &mut dyn FnMut(&[u8])) -> Result<Outcome> {
    let directory = Directory::make(&boot.folder.join(PLACE))?;
    let place = |file: &str| directory.path().join(file);
    write_initramfs(boot, guest, directory.path(), &place(um::INITRAMFS))?;
    transfer::create(&place(SHARED_MEMORY), guest.machine.out_mib)?;

    let machine = &guest.machine;
    let shown = boot.launcher.directory(directory.path());
    let (program, arguments) = program(boot, machine, &shown);
    let mut command = boot.launcher.command(&program, directory.path())?;
    command.args(arguments);
    command.stderr(output(&place(COMPLAINTS))?);
    let interactive = machine.terminal == Terminal::Interactive;
    let _restored = interactive.then(TerminalGuard::new).transpose()?;
    let kind = match interactive {
        true => Kind::Foreground,
        false => Kind::Group,
    };
    if !interactive && !machine.clock.is_program() {
        command.stdin(Stdio::null()).stdout(Stdio::null());
    }
    // If its time is not the host's, a guest can wait: other work of the host goes first.
    let mut attributes = Attributes {
        gives_way: matches!(
            machine.clock,
            Clock::Instructions { .. } | Clock::Model { .. }
        ),
        ..Attributes::default()
    };
    let held = match machine.clock {
        Clock::Model { .. } => processor::hold(&boot.folder.join(processor::PLACE))?,
        _ => None,
    };
    attributes.processor = held.as_ref().map(|held| held.number);
    let mut silent = Vec::new();
    if machine.clock.is_program() {
        let file = match interactive {
            true => KERNEL_LOG,
            false => {
                // Not /dev/null, which an environment without other files lacks.
                let (read, write) = silence()?;
                command.stdin(read);
                silent.push(write);
                command.stdout(output(&place(KERNEL_LOG))?);
                CONSOLE
            }
        };
        attributes.file(output(&place(file))?, um::CONSOLE);
        for number in um::INPUTS {
            let (read, write) = silence()?;
            attributes.file(read, number);
            silent.push(write);
        }
    }
    attributes.apply(&mut command);
    let started = interrupt::spawn(&mut command, kind);
    let mut guarded = started.map_err(|error| explain_start(error, command.get_program()))?;
    let mut kernel = Follow::new(place(KERNEL_LOG));
    let mut said = Follow::new(place(CONSOLE));
    let mut watchdog = Watchdog::new(guarded.child.id());
    let mut wait = FIRST_POLL;
    let ended = loop {
        let ended = guarded.child.try_wait()?;
        let fresh = said.poll()?;
        seen(fresh);
        if !fresh.is_empty() | !kernel.poll()?.is_empty() {
            watchdog.seen();
        }
        if let Some(status) = ended {
            break status;
        }
        if interactive && machine.clock.is_program() {
            let kernel = Pid::from_raw(guarded.child.id().try_into()?);
            terminal::announce_input(io::stdin(), kernel);
        }
        if !interactive && watchdog.is_silent_for(guest.timeout) {
            guarded.kill();
            let log = last_lines(&kernel.text(), LOG_LINES);
            return Err(Failure::new(failure::HANG, hang(guest, &log)).into());
        }
        let cancelled = |flag: &Arc<AtomicBool>| flag.load(Ordering::Relaxed);
        if guest.cancel.as_ref().is_some_and(cancelled) {
            guarded.kill();
            anyhow::bail!("ended, as another guest failed");
        }
        std::thread::sleep(wait);
        wait = (2 * wait).min(POLL);
    };
    drop(silent);
    // A kernel that is a program fails when it panics; its log explains that better.
    let panicked = machine.clock.is_program() && !kernel.text().is_empty();
    if !ended.success() {
        interrupt::park_if_ending();
        if !panicked {
            let complaints = fs::read_to_string(place(COMPLAINTS)).unwrap_or_default();
            let complaints = last_lines(&complaints, LOG_LINES);
            anyhow::bail!("the machine failed ({ended})\n{complaints}");
        }
    }
    conclude(
        guest,
        transfer::read(&place(SHARED_MEMORY), machine.out_mib)?,
        kernel,
        said,
    )
}

/// The command that [`run`] starts, for display.
///
/// # Errors
/// If the program cannot be started in the launcher's environment.
pub fn command(boot: &Boot<'_>, machine: &Machine) -> Result<std::process::Command> {
    let directory = Path::new("RUN");
    let shown = boot.launcher.directory(directory);
    let (program, arguments) = program(boot, machine, &shown);
    let mut command = boot.launcher.command(&program, directory)?;
    command.args(arguments);
    Ok(command)
}

/// The machine's program and its arguments.
fn program(boot: &Boot<'_>, machine: &Machine, directory: &Path) -> (PathBuf, Vec<String>) {
    match machine.clock.is_program() {
        true => (boot.kernel.clone(), um::arguments(machine, directory)),
        false => (
            qemu::PROGRAM.into(),
            qemu::arguments(machine, &boot.kernel, directory),
        ),
    }
}

fn hang(guest: &Guest, log: &str) -> String {
    let seconds = guest.timeout.as_secs();
    let hint = match guest.machine.clock {
        Clock::Model { .. } => {
            "Under the model clock no time passes while a program computes: one that loops until another \
             does something, or until a time has come without reading the clock, loops for ever. "
        }
        _ => "",
    };
    format!(
        "the guest hangs: it printed nothing for {seconds} s (--timeout), not counting the time for which it \
         waited for a processor, and was ended. {hint}The kernel's log:\n{log}"
    )
}

/// A run's directory, which is removed on drop. Its lock shows other processes that it is in use.
struct Directory {
    directory: Temporary,
    _lock: Flock<File>,
}

impl Directory {
    /// Creates one in a folder, and removes directories that killed processes left there.
    fn make(runs: &Path) -> Result<Self> {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        fs::create_dir_all(runs).with_context(|| format!("making {}", runs.display()))?;
        // The lock covers the time between its creation and its own lock.
        let _others = lock(&runs.join(LOCK), FlockArg::LockExclusive)?
            .with_context(|| format!("locking {}", runs.display()))?;
        remove_leftovers(runs);
        let name = format!("{}.{number}", std::process::id());
        // The name may exist: from a process with this number on another machine, or before a
        // container was restarted.
        let free = |path: &PathBuf| !path.exists();
        let names = std::iter::once(name.clone()).chain((1..).map(|n| format!("{name}.{n}")));
        let path = names.map(|name| runs.join(name)).find(free);
        let directory = Temporary::new(path.context("no name is free")?)?;
        let lock = lock(&directory.path().join(LOCK), FlockArg::LockExclusive)?;
        Ok(Self {
            directory,
            _lock: lock.context("locking a run's directory")?,
        })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Locks a file, which is created if necessary. `None`: another process holds it, and this call
/// does not wait.
fn lock(path: &Path, how: FlockArg) -> Result<Option<Flock<File>>> {
    let file = File::create(path).with_context(|| format!("making {}", path.display()))?;
    match Flock::lock(file, how) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, error)) => Err(error).with_context(|| format!("locking {}", path.display())),
    }
}

/// Removes directories of runs whose process was killed.
fn remove_leftovers(runs: &Path) {
    let Ok(entries) = fs::read_dir(runs) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() && !is_under_way(&path) {
            // Its machine may be about to end; the next run tries again.
            let _ = interrupt::remove(&path);
        }
    }
}

/// Whether the run with this directory still exists. If the directory has no lock, the number of
/// its process in its name decides.
pub fn is_under_way(directory: &Path) -> bool {
    let file = directory.join(LOCK);
    if file.exists() {
        return !matches!(lock(&file, FlockArg::LockExclusiveNonblock), Ok(Some(_)));
    }
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let process = name.split('.').next().unwrap_or_default();
    Path::new("/proc").join(process).exists()
}

fn conclude(
    guest: &Guest,
    output: Option<transfer::Output>,
    kernel: Follow,
    terminal: Follow,
) -> Result<Outcome> {
    let kernel_log = kernel.text();
    let failed = |what: &str, log: &str| Failure::new(failure::KERNEL, format!("{what}:\n{log}"));
    let console_trouble = console::trouble(&kernel_log);
    let Some(output) = output else {
        let what = "the guest died before its command ended; the kernel's log";
        let log = console_trouble.unwrap_or_else(|| last_lines(&kernel_log, LOG_LINES));
        return Err(failed(what, &log).into());
    };
    // Minor messages are only in the log that init saved.
    let saved = transfer::file(&output.tar, "dmesg")?.context("the guest saved no kernel log")?;
    let trouble = console::trouble(&String::from_utf8_lossy(&saved)).or(console_trouble);
    if let Some(log) = trouble.filter(|_| !guest.deliberate) {
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

/// The most that a pipe or a device gives to a guest's file. A file's size is known, and is the
/// person's choice.
const STREAM: SizeLimit = SizeLimit {
    kind: "a guest's file from a pipe or a device",
    bytes: 64 * MIB,
};

/// Adds files and folders of the host, each at its place.
///
/// # Errors
/// If one cannot be read.
pub fn add_files(archive: &mut cpio::Archive, files: &[(PathBuf, String)]) -> Result<()> {
    for (from, to) in files {
        let reading = || format!("reading {}", from.display());
        let metadata = fs::metadata(from).with_context(reading)?;
        if metadata.is_dir() {
            archive.tree(from, &format!("{}/", to.trim_matches('/')))?;
        } else {
            use std::os::unix::fs::PermissionsExt;
            let content = match metadata.is_file() {
                true => fs::read(from),
                false => STREAM.read(from),
            };
            let content = content.with_context(reading)?;
            archive.file(to, metadata.permissions().mode(), &content)?;
        }
    }
    Ok(())
}

/// Concatenates the parts that are files, the own part and the request. `directory`: the run's.
fn write_initramfs(boot: &Boot<'_>, guest: &Guest, directory: &Path, path: &Path) -> Result<()> {
    let mut archive = cpio::Archive::default();
    (boot.own)(&mut archive)?;
    match &guest.request.foreign {
        None => add_files(&mut archive, &guest.files)?,
        Some(_) => {
            let handed = |(from, to): &(PathBuf, String)| {
                let to = to.trim_start_matches('/');
                (from.clone(), format!("{}/{to}", request::HANDED))
            };
            let files: Vec<_> = guest.files.iter().map(handed).collect();
            add_files(&mut archive, &files)?;
        }
    }
    let mut request = guest.request.clone();
    let clock = format!("{}={}", request::CLOCK, guest.machine.clock.name());
    request.environment.insert(0, clock.into());
    if let Some(foreign) = &mut request.foreign {
        // The kernel resolves paths on its host from the run's directory.
        let directory = directory.canonicalize().context("the run's directory")?;
        let up: PathBuf = directory.components().skip(1).map(|_| "..").collect();
        foreign.root = up.join(foreign.root.strip_prefix("/").unwrap_or(&foreign.root));
    }
    archive.file(request::PATH, 0o644, &request.encode())?;
    let mut file = File::create(path)?;
    for part in &boot.archives {
        let copied = File::open(part).and_then(|mut part| io::copy(&mut part, &mut file));
        copied.with_context(|| format!("copying {}", part.display()))?;
    }
    file.write_all(&archive.finish()?)?;
    Ok(())
}

/// Adds the cure to the error of a program that could not be started, if it is QEMU.
fn explain_start(error: anyhow::Error, program: &OsStr) -> anyhow::Error {
    let cause = error.downcast_ref::<io::Error>();
    if cause.is_some_and(|error| error.raw_os_error() == Some(libc::EMFILE)) {
        let cure =
            format!("a guest needs {ENOUGH_FILES} open files; raise the limit: ulimit -n 1024");
        return error.context(cure);
    }
    let is_missing = cause.is_some_and(|error| error.kind() == io::ErrorKind::NotFound);
    if is_missing && program == qemu::PROGRAM {
        return error
            .context("QEMU is not installed; Debian has it in the package qemu-system-x86");
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_qemu_names_the_package() {
        let mut command = std::process::Command::new(qemu::PROGRAM);
        command.env("PATH", "/nonexistent");
        let error = interrupt::spawn(&mut command, Kind::Group).err().unwrap();
        let text = format!("{:#}", explain_start(error, command.get_program()));
        assert!(text.contains("package qemu-system-x86"), "{text}");
        let mut command = std::process::Command::new("/nonexistent/linux");
        let error = interrupt::spawn(&mut command, Kind::Group).err().unwrap();
        let text = format!("{:#}", explain_start(error, command.get_program()));
        assert!(!text.contains("QEMU"), "{text}");
    }

    #[test]
    fn a_device_without_an_end_is_not_copied_to_a_guest() {
        let mut archive = cpio::Archive::default();
        let files = [("/dev/zero".into(), "root/zero".to_owned())];
        let error = add_files(&mut archive, &files).unwrap_err();
        let said = format!("{error:#}");
        let expected = "reading /dev/zero: it is longer than 64 MiB";
        assert!(said.starts_with(expected), "{said}");
    }

    fn folder(name: &str) -> Temporary {
        let name = format!("weft-guest-{name}-{}", std::process::id());
        Temporary::new(std::env::temp_dir().join(name)).unwrap()
    }

    #[test]
    fn a_run_keeps_its_directory_and_removes_those_of_killed_processes() {
        let runs = folder("runs");
        let first = Directory::make(runs.path()).unwrap();
        // As a killed process leaves it: the lock's file exists, and no process holds it.
        let left = runs.path().join("1.0");
        fs::create_dir(&left).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        // The number in its name is that of an existing process.
        let other = runs
            .path()
            .join(format!("{}.programs.0", std::process::id()));
        fs::create_dir(&other).unwrap();
        let second = Directory::make(runs.path()).unwrap();
        assert!(first.path().exists() && second.path().exists() && other.exists());
        assert!(!left.exists());
        assert!(is_under_way(first.path()));
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_of_another_machines_process_is_not_used() {
        let runs = folder("names");
        let first = Directory::make(runs.path()).unwrap();
        let number = first.path().extension().unwrap().to_str().unwrap();
        let next = number.parse::<u32>().unwrap() + 1;
        for next in next..next + 50 {
            let taken = runs.path().join(format!("{}.{next}", std::process::id()));
            fs::create_dir(taken).unwrap();
        }
        let second = Directory::make(runs.path()).unwrap();
        assert!(second.path().display().to_string().ends_with(".1"));
    }
}
