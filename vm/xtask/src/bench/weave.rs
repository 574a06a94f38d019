// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask bench weave`: what it takes to build and remove a fat-tree, for weft and others.
//!
//! | module     | part                                                              |
//! |------------|-------------------------------------------------------------------|
//! | this       | what is needed is there; the measuring process is started         |
//! | [`inside`] | that process: repetitions, in turn                                |
//! | [`tools`]  | how each tool builds and removes                                  |
//! | [`batches`]| weft's plan for `ip -batch`                                       |
//! | [`check`]  | whether what was built is a fat-tree                              |
//! | [`removal`]| when the kernel has removed it                                    |
//! | [`rest`]   | pauses, and what else the machine does meanwhile                  |
//! | [`guest`]  | weft in virtual time                                              |
//! | [`report`] | what is kept and shown                                            |

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
use weft_build::base::cache::Cache;
use weft_build::base::process::{self, shown};
use weft_build::base::{enter, host, output, workspace};
use weft_build::stages::chain::{self, Kernel};
use weft_build::stages::programs;
use weft_machine::failure::Failure;
use weft_machine::interrupt::{self, Kind};

use crate::cli::{BenchWeave, Tool};
use inside::Measured;
use report::{Report, Size};

/// Runs it.
///
/// # Errors
/// If something is missing, or a tool fails.
pub(crate) fn run(cache: &Cache, options: &BenchWeave) -> Result<u8> {
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
        let built = chain::all(cache, &options.target.request(), &[Kernel::Stock])?;
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
    let how = (options.save, options.json);
    super::tell(&report, &name, how, report::table)
}

/// The process that measures.
fn command(options: &BenchWeave, weft: &Path) -> Result<Command> {
    // pdeathsig, kill-child: if xtask is killed, nothing of what was made survives.
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
    // Debian keeps tc and sysctl out of an ordinary user's PATH, which may be sudo's.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    Ok(command)
}

fn measure(options: &BenchWeave, weft: &Path) -> Result<Measured> {
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

/// The kernel's version, without what a distribution adds.
fn kernel() -> Result<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let version = release.trim().split('-').next().unwrap_or_default();
    Ok(version.to_owned())
}

/// Of `ip utility, iproute2-6.1.0, libbpf 1.1.2`.
fn iproute2() -> Result<String> {
    let text = process::capture(Command::new("ip").arg("-V"))?;
    let version = text
        .split_once("iproute2-")
        .and_then(|(_, rest)| rest.split([',', '\n']).next());
    Ok(version.unwrap_or(text.trim()).trim().to_owned())
}

fn mininet(options: &BenchWeave) -> Result<Option<String>> {
    if !options.tools.contains(&Tool::Mininet) {
        return Ok(None);
    }
    let program = "from mininet.net import VERSION; print(VERSION)";
    let text = process::capture(Command::new("/usr/bin/python3").args(["-c", program]))?;
    Ok(Some(text.trim().to_owned()))
}

/// Prints the commands.
fn describe(options: &BenchWeave, needs: &[host::Need]) -> Result<()> {
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
