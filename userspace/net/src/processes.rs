// SPDX-License-Identifier: MIT OR Apache-2.0

//! Processes of a testbed: those in its plan, which `up` starts and `down` ends.
//!
//! A process identifies its testbed itself: the testbed's name is in its environment, and so in
//! that of its children, and it is in one of the testbed's namespaces. No process ID is stored that
//! could later be another process's, and `down` finds the processes even if `up` was killed.

use std::collections::{BTreeSet, HashMap};
use std::fmt::{self, Display, Formatter};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::process::{MARK, Process, logs};
use crate::testbed::Testbed;

/// How long started processes are watched, so that a wrong option is an error of `up`.
const AT_ONCE: Duration = Duration::from_millis(100);
/// How long a process may take to end when asked, and
const GRACE: Duration = Duration::from_secs(2);
/// how long the kernel may take to end it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Started processes, for callers that watch them.
#[derive(Debug, Default)]
pub struct Processes(Vec<Running>);

#[derive(Debug)]
struct Running {
    process: Process,
    child: Child,
    log: PathBuf,
    status: Option<ExitStatus>,
}

/// A process that has ended on its own.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The process.
    pub process: Process,
    /// Its exit status.
    pub status: ExitStatus,
    /// Its output. The file is removed with the testbed.
    pub log: PathBuf,
}

impl Ended {
    /// The end of its output, in one line; empty if there was none.
    pub fn tail(&self) -> String {
        const LINES: usize = 5;
        const BYTES: u64 = 1000;
        let read = || -> io::Result<Vec<u8>> {
            let mut file = File::open(&self.log)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        // Unreadable output counts as empty.
        let bytes = read().unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
        let last = lines[lines.len().saturating_sub(LINES)..].join(" | ");
        last.replace(char::is_control, " ")
    }
}

impl Display for Ended {
    /// The process, its status, and the end of its output.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            process, status, ..
        } = self;
        write!(f, "{}: `{process}` ended ({status})", process.node)?;
        match self.tail().as_str() {
            "" => f.write_str(" and said nothing"),
            tail => write!(f, ": {tail}"),
        }
    }
}

impl Processes {
    /// The number of started processes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none was started.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All processes, each with its log file.
    pub fn logs(&self) -> impl Iterator<Item = (&Process, &Path)> {
        let all = self.0.iter();
        all.map(|running| (&running.process, running.log.as_path()))
    }

    /// The processes that have ended.
    pub fn ended(&mut self) -> Vec<Ended> {
        let mut ended = Vec::new();
        for running in &mut self.0 {
            if running.status.is_none() {
                // It is this process's child, so this cannot fail.
                running.status = running.child.try_wait().ok().flatten();
            }
            ended.extend(running.status.map(|status| Ended {
                process: running.process.clone(),
                status,
                log: running.log.clone(),
            }));
        }
        ended
    }

    /// Starts them in the namespaces of a testbed.
    pub(crate) fn start(testbed: &Testbed, layout: &Layout, processes: &[Process]) -> Result<Self> {
        let mut started = Self::default();
        if processes.is_empty() {
            return Ok(started);
        }
        let folder = layout.logs();
        crate::layout::make_directory(&folder)?;
        let taken = crate::layout::entries(&folder)?;
        for (process, log) in processes.iter().zip(logs(processes, &taken)) {
            let log = folder.join(log);
            let child = spawn(testbed, process, &log)?;
            started.0.push(Running {
                process: process.clone(),
                child,
                log,
                status: None,
            });
        }
        let begun = Instant::now();
        while begun.elapsed() < AT_ONCE {
            if let Some(ended) = started.ended().into_iter().next() {
                return Err(Error::Invalid(format!("{ended}")));
            }
            std::thread::sleep(AT_ONCE / 20);
        }
        Ok(started)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // The ones that `down` has ended are reaped; the others continue.
        self.ended();
    }
}

impl Testbed {
    /// Starts processes that belong to the testbed in addition to those of its plan:
    /// [`down`](crate::down) ends them, too. They are in the caller's control group.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`]; if one cannot be started, or ends at once.
    pub fn start(&self, processes: &[Process]) -> Result<Processes> {
        Processes::start(self, &self.layout, processes)
    }
}

/// The processes whose network namespace is one of `nodes`.
pub(crate) fn within(layout: &Layout, nodes: &[String]) -> Result<Vec<(String, u32)>> {
    let mut namespaces = HashMap::new();
    for node in nodes {
        // An interrupted `down` leaves a name without its namespace.
        if let Ok(metadata) = fs::metadata(layout.name(node)) {
            namespaces.insert((metadata.dev(), metadata.ino()), node);
        }
    }
    let mut found = Vec::new();
    let all = fs::read_dir("/proc").map_err(|error| Error::system("reading /proc", error))?;
    for entry in all.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // It may have ended by now, or belong to another user namespace.
        let Ok(metadata) = fs::metadata(format!("/proc/{pid}/ns/net")) else {
            continue;
        };
        if let Some(node) = namespaces.get(&(metadata.dev(), metadata.ino())) {
            found.push(((*node).clone(), pid));
        }
    }
    Ok(found)
}

fn spawn(testbed: &Testbed, process: &Process, log: &Path) -> Result<Child> {
    let starting = |error: io::Error| {
        let what = format!("{}: starting `{process}`", process.node);
        match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
            // Errors about the program; others are about privileges.
            errno @ (Errno::ENOENT | Errno::EACCES | Errno::ENOEXEC) => {
                Error::Invalid(format!("{what}: {}", errno.desc()))
            }
            _ => Error::starting(what, error),
        }
    };
    let Some((program, arguments)) = process.words.split_first() else {
        return Err(Error::Invalid(format!(
            "{}: a process has a program",
            process.node
        )));
    };
    let out = File::create(log).map_err(starting)?;
    let mut command = testbed.command(&process.node, program)?;
    command
        .args(arguments)
        .env(MARK, testbed.name())
        .stdin(Stdio::null())
        .stderr(out.try_clone().map_err(starting)?)
        .stdout(out);
    // SAFETY: setsid is a system call; nothing is allocated and no lock is taken.
    unsafe {
        command.pre_exec(|| {
            // Ctrl-C is for the process that started it, which then ends it.
            nix::unistd::setsid()?;
            Ok(())
        })
    };
    command.spawn().map_err(starting)
}

/// Selects processes in a testbed's namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The testbed's own, which have its name in their environment.
    Testbed,
    /// All processes, except the caller's own.
    Anybody,
}

/// Ends processes of a testbed: asks them, and kills them after a time. Returns their number.
pub(crate) fn end(layout: &Layout, nodes: &[String], whose: Whose) -> Result<usize> {
    let begun = Instant::now();
    let mut all = BTreeSet::new();
    loop {
        let (numbers, found) = find(layout, nodes, whose)?;
        all.extend(numbers);
        if found.is_empty() {
            return Ok(all.len());
        }
        let (signal, until) = match begun.elapsed() < GRACE {
            true => (libc::SIGTERM, GRACE),
            false => (libc::SIGKILL, PATIENCE),
        };
        if begun.elapsed() >= PATIENCE {
            return Err(Error::System {
                what: format!("ending {} processes", found.len()),
                error: Errno::ETIMEDOUT.into(),
            });
        }
        for process in &found {
            send(process, signal);
        }
        // Others may have started meanwhile, so the search is repeated.
        for process in &found {
            wait(process, until.saturating_sub(begun.elapsed()));
        }
    }
}

/// The matching processes, by their numbers and as descriptors, so that a signal reaches no other
/// process.
fn find(layout: &Layout, nodes: &[String], whose: Whose) -> Result<(Vec<u32>, Vec<OwnedFd>)> {
    let mark = format!("{MARK}={}", layout.testbed());
    // Read after the descriptor is open: if the number was reused by then, both refer to the new
    // process.
    let is_marked = |pid: u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable == mark.as_bytes())
    };
    let mut found = (Vec::new(), Vec::new());
    for (_, pid) in within(layout, nodes)? {
        let Ok(process) = watch(pid) else {
            continue;
        };
        let is_meant = match whose {
            Whose::Testbed => is_marked(pid),
            Whose::Anybody => pid != std::process::id(),
        };
        if is_meant {
            found.0.push(pid);
            found.1.push(process);
        }
    }
    Ok(found)
}

/// A descriptor of a process, which becomes readable when the process has ended.
///
/// # Errors
///
/// If there is no such process, or no more files may be open.
pub fn watch(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two numbers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match Errno::result(descriptor) {
        // SAFETY: the kernel has just created it, and nothing else owns it.
        Ok(descriptor) => Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) }),
        Err(errno) => Err(errno.into()),
    }
}

/// Sends a signal; has no effect on a process that has ended.
fn send(process: &OwnedFd, signal: i32) {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open, and the kernel accepts a null pointer for no information.
    unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal,
            none,
            0,
        )
    };
}

/// Waits until it has ended, or for this long.
fn wait(process: &OwnedFd, patience: Duration) {
    // Whole ms, rounded up: otherwise the caller would poll repeatedly for the rest of one.
    let milliseconds = patience.as_nanos().div_ceil(1_000_000);
    let timeout = PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX);
    // If it is interrupted, the caller's loop continues.
    let _ = poll(
        &mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)],
        timeout,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(node: &str, words: &[&str]) -> Process {
        Process {
            node: node.to_owned(),
            words: words.iter().map(|&word| word.to_owned()).collect(),
        }
    }

    #[test]
    fn each_process_has_its_own_file() {
        let all = [
            process("h0", &["/usr/bin/arbiter", "-x"]),
            process("h0", &["arbiter"]),
            process("h1", &["arbiter"]),
            process("h0", &["./arbiter"]),
        ];
        let expected = [
            "h0-arbiter.log",
            "h0-arbiter-2.log",
            "h1-arbiter.log",
            "h0-arbiter-3.log",
        ];
        assert_eq!(logs(&all, &[]), expected);
        let taken = ["h0-arbiter.log".to_owned(), "record".to_owned()];
        assert_eq!(logs(&all[..1], &taken), ["h0-arbiter-2.log"]);
    }

    #[test]
    fn a_command_is_printed_with_shell_quotes() {
        let shown = process("h0", &["sh", "-c", "sleep 1; exit"]).to_string();
        assert_eq!(shown, "sh -c 'sleep 1; exit'");
    }
}
