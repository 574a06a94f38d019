// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask bench weave`: the time to build and remove a fat-tree, for weft and other tools.
//!
//! | module     | part                                                              |
//! |------------|-------------------------------------------------------------------|
//! | this       | checks requirements, and starts the measuring process             |
//! | [`inside`] | the measuring process: repetitions, in turn                       |
//! | [`tools`]  | how each tool builds and removes                                  |
//! | [`batches`]| weft's plan for `ip -batch`                                       |
//! | [`check`]  | checks that the result is a fat-tree                              |
//! | [`removal`]| waits until the kernel has removed it                             |
//! | [`rest`]   | pauses, and the load of the machine meanwhile                     |
//! | [`guest`]  | weft in virtual time                                              |
//! | [`report`] | saved and printed figures                                         |

mod batches;
mod check;
mod guest;
mod inside;
mod removal;
mod report;
mod rest;
mod tools;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use weft_arguments::whole;
use weft_build::base::cache::Cache;
use weft_build::base::process::{self, shown};
use weft_build::base::{enter, host, output, workspace};
use weft_build::stages::chain::{self, Kernel};
use weft_build::stages::programs;
use weft_machine::failure::Failure;
use weft_machine::interrupt::{self, Kind};

use super::Figures;
use inside::Measured;
use report::{Report, Size};

/// Seconds to build and remove a fat-tree: weft, ip -batch and Mininet side by side
#[derive(Debug, clap::Args)]
#[command(after_help = "\
On this machine's own kernel, in real time, in network, mount and process namespaces that end with the \
command, however it ends. Needs root. What is measured, and what differs between the tools, is in \
selftests/bench/weave/README.md.

Examples:
  cargo xtask bench weave
  cargo xtask bench weave --k 4 --tools weft,ip-batch --runs 20
  cargo xtask bench weave --guest --save --json > weave.json
  cargo xtask bench weave --dry-run    the commands, nothing is done")]
pub(crate) struct Args {
    /// Ports of a switch: k gives k³/4 hosts, 5k²/4 switches, 3k³/4 links
    #[arg(long, value_delimiter = ',', default_value = "4,8", allow_negative_numbers = true, value_parser = fat_tree)]
    pub(crate) k: Vec<u32>,
    /// Tools to measure
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "weft,ip-batch,ip-batch-parallel,mininet"
    )]
    pub(crate) tools: Vec<Tool>,
    /// Repetitions, of all tools in turn
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true, value_parser = whole(1..=u32::MAX))]
    pub(crate) runs: u32,
    /// Repetitions of slow tools: Mininet, weft-programs
    #[arg(long, value_name = "N", default_value_t = 3, allow_negative_numbers = true, value_parser = whole(1..=u32::MAX))]
    pub(crate) slow_runs: u32,
    /// Also weft in the guest, in virtual time, with weft's qdiscs and eBPF programs
    #[arg(long)]
    pub(crate) guest: bool,
    /// Print the commands and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Path of `weft`; set if this process is in the namespaces already
    #[arg(long, hide = true, value_name = "WEFT")]
    pub(crate) inside: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) figures: Figures,
}

/// Tools that `cargo xtask bench weave` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Tool {
    /// `weft up` and `weft down`
    Weft,
    /// weft up and weft down with eBPF programs at the switches' ports; builds the guest's parts
    WeftPrograms,
    /// weft's plan by ip -batch and tc -batch
    IpBatch,
    /// The same with one shell per processor
    IpBatchParallel,
    /// Mininet: TCLink, hosts that route
    Mininet,
}

/// Mininet's script numbers the links within 172.16.0.0/12; more than 16 takes minutes.
fn fat_tree(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(k) if (2..=16).contains(&k) && k.is_multiple_of(2) => Ok(k),
        _ => Err("expected an even number from 2 to 16".into()),
    }
}

/// Runs the benchmark.
///
/// # Errors
/// If a part is missing, or a tool fails.
pub(crate) fn run(cache: &Cache, options: &Args) -> Result<u8> {
    if let Some(weft) = &options.inside {
        return inside::run(options, weft);
    }
    let mut needs = host::WEAVING.to_vec();
    if options.tools.contains(&Tool::Mininet) {
        needs.push(host::MININET);
    }
    if options.dry_run {
        describe(options, &needs)?;
        return Ok(0);
    }
    host::provide(cache, &needs)?;
    if !enter::is_root() {
        return Err(Failure::setup(
            "network namespaces are root's; run it as root, for example with `sudo -E env \
             PATH=\"$PATH\" cargo xtask bench weave`",
        )
        .into());
    }
    let mut figures_of_guest = Vec::new();
    let programs = options.tools.contains(&Tool::WeftPrograms);
    let weft = if options.guest || programs {
        let built = chain::all(cache, &options.figures.target.request(), &[Kernel::Stock])?;
        if options.guest {
            figures_of_guest = guest::measure(&built, options)?;
        }
        built.programs.weft
    } else {
        programs::weft(&workspace(), &cache.log("programs")?)?
    };
    let measured = measure(options, &weft)?;
    let report = Report {
        date: super::today()?,
        kernel: kernel()?,
        processors: std::thread::available_parallelism()?.get(),
        iproute2: iproute2()?,
        mininet: mininet(options)?,
        rate: tools::MBIT,
        figures: report::figures(&measured.samples),
        guest: figures_of_guest,
        measured,
    };
    let name = format!("weave-{}-{}", report.date, report.kernel);
    let how = (options.figures.save, options.figures.json);
    super::tell(&report, &name, how, report::table)
}

/// The measuring process.
fn command(options: &Args, weft: &Path) -> Result<Command> {
    // pdeathsig, kill-child: if xtask is killed, nothing remains.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--net", "--mount"]);
    command.args(["--propagation", "private", "--pid", "--fork"]);
    command.args(["--kill-child", "--mount-proc", "--"]);
    command.arg(std::env::current_exe()?);
    command
        .args(["bench", "weave", "--inside"])
        .arg(PathBuf::from(weft));
    let join = |words: Vec<String>| words.join(",");
    let tools = options.tools.iter().map(|tool| {
        let value = clap::ValueEnum::to_possible_value(tool);
        value.map_or(String::new(), |value| value.get_name().to_owned())
    });
    for (option, value) in [
        ("--k", join(options.k.iter().map(u32::to_string).collect())),
        ("--tools", join(tools.collect())),
        ("--runs", options.runs.to_string()),
        ("--slow-runs", options.slow_runs.to_string()),
    ] {
        command.args([option, &value]);
    }
    // Debian keeps tc and sysctl outside an ordinary user's PATH, which sudo may use.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    Ok(command)
}

fn measure(options: &Args, weft: &Path) -> Result<Measured> {
    let mut command = command(options, weft)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = interrupt::spawn(&mut command, Kind::Group)?;
    let mut output = Vec::new();
    if let Some(mut pipe) = process.child.stdout.take() {
        pipe.read_to_end(&mut output)?;
    }
    let status = process.child.wait()?;
    if !status.success() {
        interrupt::park_if_ending();
    }
    ensure!(
        status.success(),
        "the measuring process failed ({status}), see above"
    );
    serde_json::from_slice(&output).context("reading what was measured")
}

/// The kernel's version, without the distribution's suffix.
fn kernel() -> Result<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let version = release.trim().split('-').next().unwrap_or_default();
    Ok(version.to_owned())
}

/// The version in `ip utility, iproute2-6.1.0, libbpf 1.1.2`.
fn iproute2() -> Result<String> {
    let text = process::capture(Command::new("ip").arg("-V"))?;
    let version = text
        .split_once("iproute2-")
        .and_then(|(_, rest)| rest.split([',', '\n']).next());
    Ok(version.unwrap_or(text.trim()).trim().to_owned())
}

fn mininet(options: &Args) -> Result<Option<String>> {
    if !options.tools.contains(&Tool::Mininet) {
        return Ok(None);
    }
    let program = "from mininet.net import VERSION; print(VERSION)";
    let text = process::capture(Command::new("/usr/bin/python3").args(["-c", program]))?;
    Ok(Some(text.trim().to_owned()))
}

/// Prints the commands.
fn describe(options: &Args, needs: &[host::Need]) -> Result<()> {
    let missing = host::missing_of(needs);
    if !missing.is_empty() {
        output::print(format!(
            "# host packages\n{}",
            shown(&host::install_command(&missing))
        ))?;
    }
    let workspace = workspace();
    output::print(format!(
        "# weft\n{}",
        shown(&programs::weft_command(&workspace, None)?)
    ))?;
    let weft = Path::new("weft");
    for &k in &options.k {
        for &tool in &options.tools {
            let runs = tool.runs(options);
            output::print(format!("# {}, k={k}, {runs} times", tool.name()))?;
            let up = shown(&tools::up_command(tool, weft, k));
            match tool {
                Tool::Weft | Tool::WeftPrograms => {
                    output::print(format!("{up}\n{}", shown(&tools::down_command(weft))))?;
                }
                Tool::IpBatch | Tool::IpBatchParallel => {
                    output::print(format!(
                        "{up} --dry-run    as files for ip -batch and tc -batch"
                    ))?;
                }
                Tool::Mininet => output::print(shown(&tools::mininet_command(k)))?,
            }
        }
    }
    Ok(())
}
