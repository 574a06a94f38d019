// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask`: builds weft and runs it in a virtual machine.
//!
//! Host packages → a kernel resolved from a Debian suite → root filesystem → Rust metadata → boot
//! image → bpf-linker → modules, eBPF and other programs → a guest. Each stage is one file here,
//! cached under a hash of its inputs.

#![forbid(unsafe_code)]

mod archive;
mod bench;
mod boot;
mod bpf_linker;
mod build;
mod bundle;
mod cache;
mod clang;
mod clean;
mod cli;
mod crates;
mod determinism;
mod ebpf;
mod enter;
mod guest;
mod host;
mod image;
mod kept;
mod ktap;
mod kvm;
mod lab;
mod layer;
mod metadata;
mod modules;
mod output;
mod package;
mod packages;
mod process;
mod profile;
mod programs;
mod progress;
mod release;
mod rootfs;
mod roots;
mod setup;
mod shortcuts;
mod suite;
mod test;
mod um_kernel;
mod virtme;
mod vm;
mod weft;
mod weft_run;
mod wheel;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use weft_machine::{cpio, failure, follow, interrupt, parallel, processor, transfer};

use crate::cli::{Cli, Command};
use crate::failure::Failure;

fn main() -> ExitCode {
    let cli = Cli::parse();
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
    let cache = cache::Cache::locate()?;
    let _in_use = match &cli.command {
        Command::Clean(_) => None,
        _ => cache.in_use(),
    };
    match &cli.command {
        Command::Setup(options) => setup::setup(&cache, options),
        Command::Build(options) => setup::build(&cache, options),
        Command::Vm(options) => vm::run(&cache, options),
        Command::Lab(options) => lab::run(&cache, options),
        Command::Test(options) => test::run(&cache, options),
        Command::Bench(options) => bench::run(&cache, options),
        Command::Demo(options) => weft::run(&cache, "demo", options),
        Command::Experiment(options) => weft::run(&cache, "run", options),
        Command::Kept(options) => kept::run(&cache, options),
        Command::Profile(options) => profile::run(&cache, options),
        Command::Bundle(options) => bundle::run(&cache, options),
        Command::Package(options) => package::run(&cache, options),
        Command::Clean(options) => clean::run(&cache, options),
    }
}
