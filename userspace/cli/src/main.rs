// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft`: weaves network namespaces into a datacenter fabric, runs workloads on it, and measures
//! flow completion times. One file per subcommand.

mod arguments;
mod capture;
mod compare;
mod cures;
mod demo;
mod doctor;
mod down;
mod exec;
mod experiments;
mod export;
mod guests;
mod inputs;
mod lab;
mod licences;
mod ls;
mod man;
mod names;
mod output;
mod progress;
mod report;
mod run;
#[cfg(test)]
#[path = "../../lab/tests/sample/mod.rs"]
mod sample;
mod schemes;
mod session;
mod shell;
mod sources;
mod sweep;
mod top;
mod topology;
mod up;
mod vm;
mod workloads;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use weft_lab::error;

/// Run datacenter transports on a fabric of network namespaces and measure flow completion times.
#[derive(Debug, Parser)]
#[command(
    name = "weft",
    version,
    after_help = "\
Examples:
  weft demo                                            a first result, in a minute
  weft doctor                                          what this machine has and lacks
  weft up fat-tree:k=4 --scheme droptail --dilation 1000
  weft exec h3 ping -c 3 h7
  weft down
  weft lab fat-tree:k=4 --dilation 1000 --on h3 'iperf3 -s' --from h7 iperf3 -c h3
  weft run fat-tree:k=4 --dilation 1000 --scheme pfabric --workload web-search --load 0.6 --flows 600
  weft run pfabric-fig4a                               a paper's figure, and whether it holds
  weft compare droptail.jsonl dctcp.jsonl pfabric.jsonl
  weft report *.jsonl --out report.html

Exit status: 0 success, 1 failure, 2 wrong usage; for exec, shell, lab and vm: the command's."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::Args),
    Down(down::Args),
    Ls(ls::Args),
    Exec(exec::Args),
    Shell(shell::Args),
    Lab(Box<lab::Args>),
    Vm(vm::Args),
    Demo(demo::Args),
    Top(top::Args),
    Capture(capture::Args),
    Run(Box<arguments::run::Args>),
    Compare(compare::Args),
    Report(report::Args),
    Export(export::Args),
    Sweep(sweep::Args),
    Doctor(doctor::Args),
    Experiments(experiments::catalogue::Args),
    Schemes(schemes::Args),
    Workloads(workloads::Args),
    Topology(topology::Args),
    Licences(licences::Args),
    Man(man::Args),
    Completions(man::Completions),
    #[command(hide = true)]
    Names(names::Args),
}

/// Whether a command runs without root; `None`: it cannot.
fn rootless(command: &Command) -> Option<bool> {
    match command {
        Command::Run(args) => Some(args.rootless),
        Command::Lab(args) => Some(args.rootless),
        _ => None,
    }
}

fn run(command: Command) -> Result<ExitCode> {
    let rootless = rootless(&command);
    if rootless == Some(true) {
        // It must run before there are any threads.
        weft_net::rootless::enter()?;
    }
    let result = execute(command);
    result.or_else(|error| match rootless {
        Some(false) if error::needs_root(&error) => {
            error::usage(format!("{error:#}; or without, with --rootless"))
        }
        _ => Err(error),
    })
}

fn execute(command: Command) -> Result<ExitCode> {
    match command {
        Command::Up(args) => up::run(&args),
        Command::Down(args) => down::run(&args),
        Command::Ls(args) => ls::run(&args),
        Command::Exec(args) => exec::run(&args),
        Command::Shell(args) => shell::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Vm(args) => vm::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Capture(args) => capture::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Experiments(args) => experiments::catalogue::run(&args),
        Command::Schemes(args) => schemes::run(&args),
        Command::Workloads(args) => workloads::run(&args),
        Command::Topology(args) => topology::run(&args),
        Command::Licences(args) => licences::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Completions(args) => man::completions(&args),
        Command::Names(args) => names::run(&args),
    }
}

fn main() -> ExitCode {
    let (Cli { mut command }, matches) = match weft_arguments::parse() {
        Ok(parsed) => parsed,
        Err(status) => return status,
    };
    match (&mut command, matches.subcommand()) {
        (Command::Run(args), Some((_, said))) => args.remember(said),
        (Command::Lab(args), Some((_, said))) => args.remember(said),
        _ => {}
    }
    match run(command) {
        Ok(status) => status,
        // The reader needs no more: `weft ls | head`.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weft: {error:#}");
            ExitCode::from(if error::is_usage(&error) { 2 } else { 1 })
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_error_for_a_number_has_its_range() {
        let faults = weft_arguments::number::faults(&Cli::command());
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
