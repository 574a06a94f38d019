// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask`: builds weft and runs it in a virtual machine.
//!
//! `weft-build` has the stages from a Debian archive to a guest that boots.

#![forbid(unsafe_code)]

mod cli;
mod commands;
mod ktap;

use std::process::ExitCode;

use anyhow::Result;
use weft_build::base::cache::Cache;
use weft_build::base::enter;
use weft_machine::failure::Failure;
use weft_machine::interrupt;
use weft_package::{bundle, debian};

use crate::cli::{Cli, Command};
use crate::commands::{build, clean, kept, lab, profile, setup, test, vm, weft};

fn main() -> ExitCode {
    let cli = match weft_arguments::parse::<Cli>() {
        Ok((cli, _)) => cli,
        Err(status) => return status,
    };
    match run(&cli) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            interrupt::park_if_ending();
            eprintln!("error: {error:#}");
            let status = error
                .downcast_ref::<Failure>()
                .map_or(1, |failure| failure.status);
            ExitCode::from(status)
        }
    }
}

fn run(cli: &Cli) -> Result<u8> {
    interrupt::install(Some(enter::remove_tree))?;
    cli.command.check()?;
    let cache = Cache::locate()?;
    let _in_use = match &cli.command {
        Command::Clean(_) => None,
        _ => cache.in_use(),
    };
    match &cli.command {
        Command::Setup(options) => setup::run(&cache, options),
        Command::Build(options) => build::run(&cache, options),
        Command::Vm(options) => vm::run(&cache, options),
        Command::Lab(options) => lab::run(&cache, options),
        Command::Test(options) => test::run(&cache, options),
        Command::Bench(options) => weft_benchmarks::run(&cache, options),
        Command::Demo(options) => weft::run(&cache, "demo", options),
        Command::Experiment(options) => weft::run(&cache, "run", options),
        Command::Kept(options) => kept::run(&cache, options),
        Command::Profile(options) => profile::run(&cache, options),
        Command::Bundle(options) => bundle::run(&cache, options),
        Command::Package(options) => debian::run(&cache, options),
        Command::Clean(options) => clean::run(&cache, options),
    }
}
