// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line of `cargo xtask`.

use clap::{Parser, Subcommand};
use weft_machine::failure::Failure;
use weft_package::{bundle, debian};

use crate::commands::{build, clean, kept, lab, profile, setup, test, vm, weft};

/// Builds weft and runs it in a virtual machine. Each command first builds the parts that it needs.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    after_help = "\
Everything costly is kept in the cache: $WEFT_CACHE, else $XDG_CACHE_HOME/weft, else ~/.cache/weft.

Examples:
  cargo xtask demo                     what weft is for: a fabric, a workload, three schemes
  cargo xtask experiment pfabric-fig4a a paper's figure, measured: does it hold?
  cargo xtask test                     host and guest tests, in virtual time
  cargo xtask vm                       a shell in the guest, modules in place
  cargo xtask vm -- tc qdisc show      one command in the guest
  cargo xtask lab -- rack:hosts=2 --from h0 ping -c 3 h1
  cargo xtask bundle                   one executable that runs anywhere
  cargo xtask package                  Debian packages, to install elsewhere
  cargo xtask clean                    what the cache holds, and removes it"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Setup(setup::Args),
    Build(build::Args),
    Vm(vm::Args),
    Lab(lab::Args),
    Test(test::Args),
    Bench(weft_benchmarks::Args),
    /// Run weft demo from these sources, after building it
    Demo(weft::Args),
    /// Run an experiment with weft run from these sources, after building it
    Experiment(weft::Args),
    Kept(kept::Args),
    Profile(profile::Args),
    Bundle(bundle::Args),
    Package(debian::Args),
    Clean(clean::Args),
}

impl Command {
    /// Refuses the debug kernel for commands that measure.
    ///
    /// # Errors
    /// The commands that accept it.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let target = match self {
            Self::Setup(_) | Self::Test(_) | Self::Vm(_) | Self::Clean(_) => return Ok(()),
            Self::Build(build) => &build.target,
            Self::Lab(lab) => &lab.vm.target,
            Self::Demo(weft) | Self::Experiment(weft) => &weft.target,
            Self::Profile(profile) => &profile.target,
            Self::Bundle(bundle) => bundle.target(),
            Self::Kept(kept) => &kept.target,
            Self::Package(package) => package.target(),
            Self::Bench(bench) => match bench.target() {
                Some(target) => target,
                None => return Ok(()),
            },
        };
        match target.debug() {
            true => Err(Failure::setup("--kernel debug is for setup, test and vm")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use weft_build::options::ClockKind;

    use super::*;
    use crate::commands::kept::Rerun;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_error_for_a_number_has_its_range() {
        let faults = weft_arguments::number::faults(&Cli::command());
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn benchmarks_use_the_model_clock_unless_a_kernel_is_named() {
        let clock = |words: &str| {
            let words = ["x", "vm"].into_iter().chain(words.split_whitespace());
            let Command::Vm(vm) = Cli::parse_from(words).command else {
                panic!("not vm")
            };
            vm.target.clock(vm.clock)
        };
        assert_eq!(clock(""), ClockKind::Model);
        assert_eq!(clock("--clock instructions"), ClockKind::Instructions);
        assert_eq!(clock("--suite sid"), ClockKind::Instructions);
        assert_eq!(clock("--kernel 7.3.4"), ClockKind::Instructions);
        assert_eq!(clock("--kernel 7.3.4 --clock model"), ClockKind::Model);
    }

    #[test]
    fn arguments_after_two_dashes_are_for_the_guest() {
        let cli = Cli::parse_from(["x", "vm", "--seed", "3", "--", "tc", "--json", "-s"]);
        let Command::Vm(vm) = cli.command else {
            panic!("not vm")
        };
        assert_eq!(vm.command, ["tc", "--json", "-s"]);
        assert_eq!(vm.hardware.seed(), 3);
    }

    #[test]
    fn the_guest_has_the_seed_of_weft_run_by_default() {
        let machine = |words: &str| {
            let Command::Vm(vm) = Cli::parse_from(words.split(' ')).command else {
                panic!("not vm")
            };
            (vm.hardware.for_command(&vm.command), vm.command)
        };
        for (words, seed, shown) in [
            ("x vm -- weft run rack:hosts=2 --seed 3 --out /out", 3, ""),
            ("x vm -- weft run rack:hosts=2 --seed=3", 3, ""),
            (
                "x vm --seed 9 -- weft run rack:hosts=2 --seed 3",
                9,
                "--seed 9",
            ),
            (
                "x vm --seed 1 -- weft run rack:hosts=2 --seed 3",
                1,
                "--seed 1",
            ),
            ("x vm -- weft run rack:hosts=2", 1, ""),
            // Several runs in one guest.
            ("x vm -- weft run rack:hosts=2 --seed 1,2", 1, ""),
            ("x vm -- sh -c x --seed 3", 1, ""),
            ("x vm --seed 3 -- true", 3, "--seed 3"),
        ] {
            let (hardware, command) = machine(words);
            assert_eq!(hardware.seed(), seed, "{words}");
            assert_eq!(hardware.words(&command).join(" "), shown, "{words}");
        }
        // The same hardware as an experiment's guests.
        let (hardware, _) = machine("x vm -- true");
        assert_eq!(hardware.for_workload(3).seed(), 3);
        let (hardware, _) = machine("x vm --seed 7 -- true");
        assert_eq!(hardware.for_workload(3).seed(), 9);
    }

    #[test]
    fn rerun_takes_a_number_or_a_word() {
        let rerun = |word: &str| {
            let cli = Cli::try_parse_from(["x", "kept", "--rerun", word]);
            cli.ok().map(|cli| match cli.command {
                Command::Kept(kept) => kept.rerun,
                _ => panic!("not kept"),
            })
        };
        assert_eq!(rerun("stale"), Some(Some(Rerun::Stale)));
        assert_eq!(rerun("all"), Some(Some(Rerun::All)));
        assert_eq!(rerun("12"), Some(Some(Rerun::Some(12))));
        assert_eq!(rerun("some"), None);
    }

    #[test]
    fn a_suite_cannot_leave_its_directory() {
        for name in ["../x", "", "a b", "X"] {
            assert!(
                Cli::try_parse_from(["x", "setup", "--suite", name]).is_err(),
                "{name}"
            );
        }
    }
}
