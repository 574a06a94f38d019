// SPDX-License-Identifier: MIT OR Apache-2.0

//! How a machine's program is started: its files, and the events that end it.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf, absolute};
use std::process::Command;

use anyhow::Result;
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpid, getppid};

/// The environment in which the machine's program runs.
pub trait Launcher: Sync {
    /// The command that starts `program`, without its arguments. `directory` is the run's, as this
    /// process sees it.
    ///
    /// # Errors
    /// If the program cannot be started in this environment.
    fn command(&self, program: &Path, directory: &Path) -> Result<Command>;

    /// The run's directory as the program sees it.
    fn directory(&self, directory: &Path) -> PathBuf;
}

/// The program runs without further isolation: no namespace, no mount, no privilege.
#[derive(Clone, Copy, Debug)]
pub struct Directly;

impl Launcher for Directly {
    fn command(&self, program: &Path, directory: &Path) -> Result<Command> {
        // It starts in the run's directory, so a relative path must become absolute. QEMU is
        // searched in the path.
        let mut command = match program.components().count() {
            1 => Command::new(program),
            _ => Command::new(absolute(program)?),
        };
        command.env_clear();
        // For a host without anonymous files (memfd_create), where the guest's memory is a file.
        command.env("TMPDIR", absolute(directory)?);
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.current_dir(directory);
        Ok(command)
    }

    fn directory(&self, _: &Path) -> PathBuf {
        // The guest's command line contains no path of the host. The kernel's hostfs needs a
        // complete path; without the final dot it would take the link itself as its root.
        "/proc/self/cwd/.".into()
    }
}

/// Attributes of a machine's process.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    /// Files, with their descriptor numbers in the process.
    pub(crate) files: Vec<(OwnedFd, RawFd)>,
    /// Whether other processes have priority.
    pub(crate) gives_way: bool,
    /// The processor to which it is bound.
    pub(crate) processor: Option<usize>,
}

/// Descriptor numbers from here on are unused.
const FREE: RawFd = 20;
/// The most files that get a number.
const FILES: usize = 8;
/// The least limit of open files with which a machine's program starts.
pub(crate) const ENOUGH_FILES: u64 = FREE as u64 + FILES as u64;

impl Attributes {
    /// Adds a file with a descriptor number.
    pub(crate) fn file(&mut self, file: impl Into<OwnedFd>, number: RawFd) {
        self.files.push((file.into(), number));
    }

    /// Starts the command with these attributes. It ends with the thread that starts it, even if
    /// that is killed, and leaves no core dump.
    pub(crate) fn apply(self, command: &mut Command) {
        let parent = getpid();
        let processor = self.processor.map(|number| {
            let mut set = CpuSet::new();
            set.set(number).map(|()| set)
        });
        let prepare = move || {
            set_pdeathsig(Signal::SIGKILL)?;
            // The parent may have ended before the line above.
            if getppid() != parent {
                return Err(Errno::ESRCH.into());
            }
            setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
            let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
            if most < ENOUGH_FILES {
                return Err(Errno::EMFILE.into());
            }
            setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
            if let Some(Ok(set)) = &processor {
                // A processor may have been removed meanwhile: then the process runs anywhere.
                let _ = sched_setaffinity(Pid::from_raw(0), set);
            }
            if self.gives_way {
                // SAFETY: a system call without pointers. Lowering one's own priority is always
                // allowed.
                unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
            }
            numbered(&self.files)
        };
        // SAFETY: `prepare` only makes system calls. It takes no lock, allocates nothing, and reads
        // only data from before the fork.
        unsafe { command.pre_exec(prepare) };
    }
}

/// The same as `nice`'s default.
const NICE: libc::c_int = 10;

/// Gives the files their descriptor numbers.
fn numbered(files: &[(OwnedFd, RawFd)]) -> io::Result<()> {
    // First moves them away, because one may have the number that another one needs.
    let mut away = [0; FILES];
    for ((file, _), place) in files.iter().zip(&mut away) {
        // SAFETY: a system call on an open file.
        *place = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD, FREE) };
        if *place < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    for ((_, number), place) in files.iter().zip(away) {
        // SAFETY: system calls on a descriptor that was created above.
        let result = unsafe { libc::dup2(place, *number) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above; nothing else uses it.
        unsafe { libc::close(place) };
    }
    Ok(())
}

/// A pipe without a writer, as long as its other end is kept: the file to read from, and that end.
pub(crate) fn silence() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = io::pipe()?;
    Ok((read.into(), write.into()))
}

/// A file for a program's output.
pub(crate) fn output(path: &Path) -> io::Result<OwnedFd> {
    Ok(File::options().append(true).create(true).open(path)?.into())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn files_get_their_numbers_whatever_numbers_they_had() {
        let (mut first, mut second) = (io::pipe().unwrap(), io::pipe().unwrap());
        let mut command = Command::new("sh");
        command.args(["-c", "echo first >&4; echo second >&3; ulimit -c"]);
        let mut attributes = Attributes::default();
        attributes.file(first.1, 4);
        attributes.file(second.1, 3);
        attributes.apply(&mut command);
        let output = command.stdout(Stdio::piped()).output().unwrap();
        // The command still has the other ends.
        drop(command);
        assert_eq!(output.stdout, b"0\n");
        let mut text = String::new();
        first.0.read_to_string(&mut text).unwrap();
        second.0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "first\nsecond\n");
    }

    #[test]
    fn a_program_starts_in_the_runs_directory_whatever_its_path() {
        let name = format!("weft-launch-{}", std::process::id());
        let folder = crate::interrupt::Temporary::new(std::env::temp_dir().join(name)).unwrap();
        std::fs::create_dir(folder.path().join("run")).unwrap();
        let up = "../".repeat(std::env::current_dir().unwrap().components().count());
        let program = Path::new(&up).join("bin/sh");
        let relative = Path::new(&up).join(folder.path().strip_prefix("/").unwrap());
        let mut command = Directly.command(&program, &relative.join("run")).unwrap();
        let output = command.args(["-c", "pwd; echo $TMPDIR"]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said.lines().next(), folder.path().join("run").to_str());
        assert!(said.lines().nth(1).unwrap().starts_with('/'), "{said}");
        assert!(Directly.directory(&relative).is_absolute());
    }

    #[test]
    fn a_program_ends_with_the_thread_that_started_it() {
        let child = std::thread::spawn(|| {
            let mut command = Command::new("sleep");
            command.arg("1000");
            Attributes::default().apply(&mut command);
            command.spawn().unwrap()
        });
        let mut child = child.join().unwrap();
        use std::os::unix::process::ExitStatusExt as _;
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
}
