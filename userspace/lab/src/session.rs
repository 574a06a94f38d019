// SPDX-License-Identifier: MIT OR Apache-2.0

//! A person's own programs on a fabric: weaves it, starts background processes, runs a command, and
//! always removes everything in the end.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::memfd::{MFdFlags, memfd_create};
use weft_net::{Plan, Process, Processes, Testbed};

use crate::error::{Usage, usage};
use crate::fabric::{Fabric, FabricOptions};
use crate::process;
use crate::signals::Signals;
use crate::testbed::{self, ControlGroup, TESTBED};

/// The variable with the fabric's dilation.
const DILATION: &str = "WEFT_DILATION";
/// The longest wait for a port,
const PATIENCE: Duration = Duration::from_secs(30);
/// and the time between two looks at it, which read tables of all sockets.
const STEP: Duration = Duration::from_millis(100);
/// A shell's exit statuses for commands that could not be started.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

/// The fabric and the programs of a session.
#[derive(Clone, Debug)]
pub struct Session {
    /// The fabric and its scheme.
    pub fabric: FabricOptions,
    /// The testbed's name.
    pub testbed: String,
    /// Command lines, each with the nodes on which it runs: started first, in this order, and ended
    /// after the command.
    pub processes: Vec<(String, String)>,
    /// Ports that must be open before the command starts.
    pub listeners: Vec<Listener>,
    /// The node on which the command runs; `None` for this process's own namespace.
    pub from: Option<String>,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// A folder for the output of the processes.
    pub logs: Option<PathBuf>,
    /// Whether the command's output becomes a part of the [`Outcome`] instead of this process's
    /// output.
    pub is_captured: bool,
}

/// A TCP or UDP port of a node: `h3:6379`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The node.
    pub node: String,
    /// The port's number.
    pub port: u16,
}

impl FromStr for Listener {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        let parts = text.rsplit_once(':').filter(|(node, _)| !node.is_empty());
        let parts = parts.and_then(|(node, port)| Some((node, port.parse().ok()?)));
        let (node, port) =
            parts.ok_or_else(|| Usage::new("expected NODE:PORT, for example h3:6379"))?;
        let node = node.to_owned();
        Ok(Self { node, port })
    }
}

/// A session that has been checked.
pub struct Checked {
    session: Session,
    /// The fabric under its scheme.
    pub fabric: Fabric,
    /// The fabric's plan, without the session's own processes.
    pub plan: Plan,
    /// The session's own processes.
    pub processes: Vec<Process>,
}

/// The result of a session.
#[derive(Debug)]
pub struct Outcome {
    /// The command's exit status: 128 and its number if a signal ended it, 127 if there is no such
    /// command, 126 if it could not be started.
    pub status: u8,
    /// The reason that the command was not started; `None` if it was.
    pub not_started: Option<String>,
    /// The time for weaving, in time of the machine.
    pub weaving: Duration,
    /// The time of the command, in time of the machine.
    pub took: Duration,
    /// The command's output, if it was captured.
    pub output: Option<String>,
    /// The processes, those of the scheme first.
    pub processes: Vec<Told>,
}

/// The end of a process.
#[derive(Debug)]
pub struct Told {
    /// The process.
    pub process: Process,
    /// Its exit status, if it ended by itself.
    pub ended: Option<ExitStatus>,
    /// Its output. The file with it has been removed with the testbed.
    pub output: String,
}

impl Session {
    /// # Errors
    ///
    /// If something is invalid: one sentence.
    pub fn checked(self) -> Result<Checked> {
        let fabric = Fabric::new(&self.fabric)?;
        let plan = testbed::plan(&self.testbed, &fabric)?;
        let mut processes = Vec::new();
        for (on, run) in &self.processes {
            let place = || format!("--on {on}");
            let mut variables = fabric.variables.clone();
            variables.set("dilation", fabric.dilation.to_string());
            let on_nodes = process::on_nodes(&fabric.slowed, on, run, &variables);
            processes.extend(on_nodes.with_context(place)?);
        }
        let named = self.listeners.iter().map(|listener| &listener.node);
        for name in named.chain(&self.from) {
            if !fabric.slowed.nodes().iter().any(|it| it.name == *name) {
                return usage(format!("there is no node `{name}` in {}", fabric.title));
            }
        }
        Ok(Checked {
            session: self,
            fabric,
            plan,
            processes,
        })
    }
}

impl Checked {
    /// Weaves the fabric, runs the command, and removes the fabric. Unless this process is ended by
    /// `kill -9`, the testbed has been removed afterwards, with every process in it.
    ///
    /// # Errors
    ///
    /// If the fabric cannot be woven, or a process cannot be started.
    pub fn perform(&self) -> Result<Outcome> {
        let signals = Signals::keep()?;
        let begun = Instant::now();
        let (testbed, woven) = testbed::weave(&self.plan, &self.fabric.scheme)?;
        let weaving = begun.elapsed();
        let down = Down(testbed.name());
        let outcome = self.run(&testbed, woven, weaving, &signals);
        // The first error is the one to report.
        let removed = down.now();
        outcome.and_then(|outcome| removed.map(|()| outcome))
    }

    fn run(
        &self,
        testbed: &Testbed,
        woven: Processes,
        weaving: Duration,
        signals: &Signals,
    ) -> Result<Outcome> {
        let group = ControlGroup::of(testbed.name());
        let enter = || group.exists().then(|| group.enter()).transpose();
        let membership = enter()?;
        let started = testbed.start(&self.processes).map_err(testbed::explain)?;
        drop(membership);
        let mut all = [woven, started];
        let mut outcome = Outcome {
            status: 0,
            not_started: None,
            weaving,
            took: Duration::ZERO,
            output: None,
            processes: Vec::new(),
        };
        self.wait_for_ports(testbed, &mut all, signals)?;
        let output = (self.session.is_captured)
            .then(|| memfd_create("output", MFdFlags::MFD_CLOEXEC).map(File::from))
            .transpose()
            .context("making room for the command's output")?;
        let mut command = self.command(testbed)?;
        if let Some(output) = &output {
            command.stdout(output.try_clone().context("the command's output")?);
        }
        let begun = Instant::now();
        if let Some(signal) = signals.ending()? {
            outcome.status = 128 + signal as u8;
        } else {
            let membership = match &self.session.from {
                Some(_) => enter()?,
                // It reaches nodes through `weft exec`.
                None => None,
            };
            let spawned = command.spawn();
            drop(membership);
            match spawned {
                Ok(mut child) => outcome.status = status(ended(&mut child, signals)?),
                Err(error) => {
                    let name = command.get_program().display();
                    outcome.status = not_started(&error).with_context(|| format!("{name}"))?;
                    outcome.not_started = Some(format!("{name}: {error}"));
                }
            }
        }
        outcome.took = begun.elapsed();
        if let Some(mut output) = output {
            let mut bytes = Vec::new();
            output.rewind().context("the command's output")?;
            output
                .read_to_end(&mut bytes)
                .context("the command's output")?;
            outcome.output = Some(String::from_utf8_lossy(&bytes).into_owned());
        }
        let ended = all.each_mut().map(Processes::ended).concat();
        // Processes may still print when they are ended: that belongs to their output.
        weft_net::kill(testbed.name()).map_err(testbed::explain)?;
        for (process, log) in all.iter().flat_map(Processes::logs) {
            if let Some(folder) = &self.session.logs {
                let name = log.file_name().unwrap_or_default();
                fs::create_dir_all(folder)
                    .and_then(|()| fs::copy(log, folder.join(name)))
                    .with_context(|| format!("writing to {}", folder.display()))?;
            }
            let output = fs::read(log).unwrap_or_default();
            outcome.processes.push(Told {
                process: process.clone(),
                ended: ended
                    .iter()
                    .find(|ended| ended.log == log)
                    .map(|ended| ended.status),
                output: String::from_utf8_lossy(&output).into_owned(),
            });
        }
        Ok(outcome)
    }

    fn command(&self, testbed: &Testbed) -> Result<Command> {
        let Some((program, arguments)) = self.session.command.split_first() else {
            return usage("a command is required");
        };
        let mut command = match &self.session.from {
            Some(node) => testbed.command(node, program).map_err(testbed::explain)?,
            None => {
                let mut command = Command::new(program);
                weft_net::unblock_signals(&mut command);
                command
            }
        };
        command
            .args(arguments)
            .env(TESTBED, testbed.name())
            .env(DILATION, self.fabric.dilation.to_string())
            .stdin(Stdio::inherit());
        Ok(command)
    }

    fn wait_for_ports(
        &self,
        testbed: &Testbed,
        processes: &mut [Processes],
        signals: &Signals,
    ) -> Result<()> {
        let begun = Instant::now();
        for Listener { node, port } in &self.session.listeners {
            while !testbed.listens(node, *port).map_err(testbed::explain)? {
                if let Some(ended) = processes.iter_mut().flat_map(Processes::ended).next() {
                    bail!("nothing listens at {node}:{port}: {ended}");
                }
                if let Some(signal) = signals.ending()? {
                    bail!("nothing listens at {node}:{port}: interrupted ({signal})");
                }
                if begun.elapsed() >= PATIENCE {
                    bail!(
                        "nothing listens at {node}:{port} after {} s",
                        PATIENCE.as_secs()
                    );
                }
                std::thread::sleep(STEP);
            }
        }
        Ok(())
    }
}

fn ended(child: &mut Child, signals: &Signals) -> Result<ExitStatus> {
    let ended = signals.wait(child);
    if ended.is_err() {
        // It must not go on without its fabric.
        let _ = child.kill();
        let _ = child.wait();
    }
    ended
}

/// A command's exit status, in a shell's form.
fn status(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// A shell's exit status for a command that could not be started.
///
/// # Errors
///
/// If the command is not the cause: this process may not enter the node.
pub fn not_started(error: &std::io::Error) -> Result<u8> {
    use nix::errno::Errno;
    use std::io::ErrorKind;
    let errno = error.raw_os_error().map(Errno::from_raw);
    if let Some(errno @ (Errno::EPERM | Errno::ENOSPC)) = errno {
        // The error is from entering the namespace: a file that may not be executed gives another
        // one.
        let error = weft_net::Error::starting("entering the node", errno.into());
        return Err(testbed::explain(error));
    }
    Ok(match error.kind() {
        ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_STARTED,
    })
}

/// Removes a testbed, at the latest when this is dropped.
struct Down<'a>(&'a str);

impl Down<'_> {
    fn now(self) -> Result<()> {
        let name = self.0;
        std::mem::forget(self);
        remove(name)
    }
}

impl Drop for Down<'_> {
    fn drop(&mut self) {
        // This is a panic, which has been reported already.
        let _ = remove(self.0);
    }
}

/// Ends all processes on a testbed's nodes, and removes it.
///
/// # Errors
///
/// As [`testbed::remove`].
pub fn remove(name: &str) -> Result<()> {
    weft_net::kill(name).map_err(testbed::explain)?;
    testbed::remove(name).map(drop)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn session(on: &str, run: &str) -> Session {
        Session {
            fabric: FabricOptions {
                topology: "rack:hosts=2".to_owned(),
                dilation: NonZeroU32::new(100).unwrap(),
                slack: Duration::ZERO,
                scheme: "droptail".to_owned(),
                settings: Vec::new(),
                modules: Vec::new(),
            },
            testbed: "lab".to_owned(),
            processes: vec![(on.to_owned(), run.to_owned())],
            listeners: Vec::new(),
            from: None,
            command: vec!["true".into()],
            logs: None,
            is_captured: false,
        }
    }

    #[test]
    fn a_process_has_its_node_and_the_dilation_in_its_environment() {
        let checked = session("hosts", "agent --name $node -x '$node' $dilation").checked();
        let all = checked.unwrap().processes;
        let all: Vec<String> = all.iter().map(|it| format!("{} {it}", it.node)).collect();
        let expected = ["h0", "h1"].map(|h| format!("{h} agent --name {h} -x '$node' 100"));
        assert_eq!(all, expected);
    }

    #[test]
    fn an_error_names_a_missing_node() {
        let error = session("h7", "agent").checked().err().unwrap();
        let said = format!("{error:#}");
        assert!(said.starts_with("--on h7: there is no such node"), "{said}");
        let mut from = session("h0", "agent");
        from.from = Some("h9".to_owned());
        let said = from.checked().err().unwrap().to_string();
        assert_eq!(said, "there is no node `h9` in rack:hosts=2");
    }

    #[test]
    fn a_listener_is_parsed_as_node_and_port() {
        let listener: Listener = "h3:6379".parse().unwrap();
        assert_eq!((listener.node.as_str(), listener.port), ("h3", 6379));
        for text in ["h3", "h3:", ":80", "h3:99999", ""] {
            assert!(text.parse::<Listener>().is_err(), "{text}");
        }
    }
}
