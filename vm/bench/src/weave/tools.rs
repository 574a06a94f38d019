// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tools: how each builds and removes the fat-tree.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use anyhow::{Context, Result, ensure};
use weft_build::base::{process, workspace};
use weft_machine::interrupt::{self, Guarded, Kind};

use super::batches::Batches;
use super::check::Node;
use super::{Args, Tool};

/// Rate of all links in Mbit/s; Mininet supports up to 1000 with its bursts.
pub(crate) const MBIT: u32 = 10;
/// The shaper: Mininet's second one, and the only one that all tools have.
pub(crate) const SHAPER: &str = "tbf";
const TESTBED: &str = "bench";

impl Tool {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Weft => "weft",
            Self::WeftPrograms => "weft, programs",
            Self::IpBatch => "ip -batch",
            Self::IpBatchParallel => "ip -batch, parallel",
            Self::Mininet => "Mininet",
        }
    }

    /// Number of repetitions.
    pub(crate) fn runs(self, options: &Args) -> u32 {
        match self {
            Self::Mininet | Self::WeftPrograms => options.slow_runs,
            _ => options.runs,
        }
    }

    /// The folder of the scheme, in [`folder`].
    fn scheme(self) -> &'static str {
        match self {
            Self::WeftPrograms => "tbf-spray",
            _ => SHAPER,
        }
    }
}

/// The folder with Mininet's script and the scheme.
fn folder() -> PathBuf {
    workspace().join("selftests/bench/weave")
}

/// The measured `weft up`; with `--dry-run` it prints the plan for the other tools.
pub(crate) fn up_command(tool: Tool, weft: &Path, k: u32) -> Command {
    let mut command = Command::new(weft);
    command.args(["up", &format!("fat-tree:k={k},rate={MBIT}mbit")]);
    command.arg("--scheme").arg(folder().join(tool.scheme()));
    command.args(["--testbed", TESTBED]);
    command
}

/// `weft down`.
pub(crate) fn down_command(weft: &Path) -> Command {
    let mut command = Command::new(weft);
    command.args(["down", TESTBED]);
    command
}

/// Mininet's script.
pub(crate) fn mininet_command(k: u32) -> Command {
    // Debian's python3, which has Debian's package of Mininet.
    let mut command = Command::new("/usr/bin/python3");
    command.arg(folder().join("mininet_fat_tree.py"));
    command.args([k.to_string(), MBIT.to_string()]);
    command
}

/// A fabric that can be built and removed.
pub(crate) trait Weaver {
    /// Returns when the tool reports success.
    fn up(&mut self) -> Result<()>;
    /// The nodes of the fabric.
    fn nodes(&mut self) -> Result<Vec<Node>>;
    /// Returns when the tool has ended.
    fn down(&mut self) -> Result<()>;
}

/// The builder of the fat-tree of `k` with `tool`, prepared so that [`Weaver::up`] only has to run
/// it.
///
/// # Errors
/// If weft has no such plan.
pub(crate) fn weaver(tool: Tool, k: u32, weft: &Path) -> Result<Box<dyn Weaver>> {
    let plan = |shells| {
        let script = process::capture(up_command(Tool::Weft, weft, k).arg("--dry-run"))?;
        Batches::new(&script, TESTBED, shells)
    };
    Ok(match tool {
        Tool::Weft | Tool::WeftPrograms => Box::new(Commands {
            nodes: plan(1)?.nodes,
            up: up_command(tool, weft, k),
            down: down_command(weft),
        }),
        Tool::IpBatch => Box::new(scripts(plan(1)?, &format!("serial{k}"))?),
        Tool::IpBatchParallel => {
            let shells = thread::available_parallelism()?.get();
            Box::new(scripts(plan(shells)?, &format!("parallel{k}"))?)
        }
        Tool::Mininet => Box::new(Mininet { k, running: None }),
    })
}

/// A fabric that is built and removed by two commands.
struct Commands {
    nodes: Vec<Node>,
    up: Command,
    down: Command,
}

impl Weaver for Commands {
    fn up(&mut self) -> Result<()> {
        process::capture(&mut self.up).map(drop)
    }

    fn nodes(&mut self) -> Result<Vec<Node>> {
        Ok(self.nodes.clone())
    }

    fn down(&mut self) -> Result<()> {
        process::capture(&mut self.down).map(drop)
    }
}

/// Writes the batches; `/run` disappears with this process.
fn scripts(batches: Batches, name: &str) -> Result<Commands> {
    let folder = Path::new("/run").join(name);
    fs::create_dir(&folder)?;
    for (name, content) in &batches.files {
        fs::write(folder.join(name), content)?;
    }
    let sh = |script: &str| {
        let mut command = Command::new("sh");
        command.arg(script).current_dir(&folder);
        command
    };
    Ok(Commands {
        nodes: batches.nodes,
        up: sh("up"),
        down: sh("down"),
    })
}

/// One process, which builds and removes.
struct Mininet {
    k: u32,
    running: Option<Running>,
}

struct Running {
    process: Guarded,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Weaver for Mininet {
    fn up(&mut self) -> Result<()> {
        let mut command = mininet_command(self.k);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = interrupt::spawn(&mut command, Kind::Group)?;
        let input = process.child.stdin.take().context("no input")?;
        let output = process.child.stdout.take().context("no output")?;
        let running = self.running.insert(Running {
            process,
            input,
            output: BufReader::new(output),
        });
        let mut line = String::new();
        running.output.read_line(&mut line)?;
        ensure!(
            line == "up\n",
            "Mininet failed (see above); it said `{}`",
            line.trim()
        );
        Ok(())
    }

    fn nodes(&mut self) -> Result<Vec<Node>> {
        let running = self.running.as_mut().context("Mininet is not running")?;
        let mut nodes = Vec::new();
        for line in (&mut running.output).lines() {
            let line = line?;
            if line.is_empty() {
                break;
            }
            nodes.push(node(&line).with_context(|| format!("Mininet said `{line}`"))?);
        }
        Ok(nodes)
    }

    fn down(&mut self) -> Result<()> {
        let mut running = self.running.take().context("Mininet is not running")?;
        writeln!(running.input)?;
        let status = running.process.child.wait()?;
        ensure!(status.success(), "Mininet failed ({status}), see above");
        Ok(())
    }
}

/// Parses a name, a process and optionally an address.
fn node(line: &str) -> Option<Node> {
    let mut words = line.split(' ');
    let (name, process) = (words.next()?, words.next()?);
    Some(Node {
        name: name.to_owned(),
        namespace: format!("/proc/{}/ns/net", process.parse::<u32>().ok()?).into(),
        address: words.next().and_then(|address| address.parse().ok()),
    })
}
