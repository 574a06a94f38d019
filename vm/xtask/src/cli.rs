// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line of `cargo xtask`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use weft_build::options::{ClockKind, Hardware, MEMORY, TIMEOUT, Target};
use weft_build::stages::packages;
use weft_machine::failure::Failure;
use weft_package::{bundle, debian};

/// Builds weft and runs it in a virtual machine. Each command does first what it needs.
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
    Setup(Setup),
    Build(Build),
    Vm(Vm),
    Lab(Lab),
    Test(Test),
    Bench(weft_benchmarks::Args),
    /// weft demo of these sources: what it takes is built first
    Demo(Weft),
    /// weft run of an experiment, of these sources: what it takes is built first
    Experiment(Weft),
    Kept(Kept),
    Profile(Profile),
    Bundle(bundle::Args),
    Package(debian::Args),
    Clean(Clean),
}

impl Command {
    /// Refuses the debug kernel where it makes no sense: it measures nothing.
    ///
    /// # Errors
    /// Which commands know it.
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

/// Host packages, root filesystem, Rust metadata, boot image, bpf-linker, kernel of the model clock
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask setup
  cargo xtask setup --suite trixie-backports --list-kernels
  cargo xtask setup --suite trixie-backports --kernel 7.2.12
  cargo xtask setup --kernel debug     the debug kernel, too
  cargo xtask setup --dry-run          the commands, nothing is done
  cargo xtask setup --json             versions and paths, for scripts")]
pub(crate) struct Setup {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print the kernels the suite offers, and nothing else
    #[arg(long)]
    pub(crate) list_kernels: bool,
    /// Print what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print data as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Kernel modules, eBPF programs, guest programs, tc plugin
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask build
  cargo xtask build --suite experimental
  cargo xtask build --json             where the modules are, for scripts")]
pub(crate) struct Build {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print data as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Under which clock tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TestClock {
    /// All on the stock kernel, in counted instructions
    Virtual,
    /// All under the model clock
    Model,
    /// All under the model clock, and on the stock kernel all but what one kernel is enough for
    Both,
}

/// A shell in the guest, or one command
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Without a command: a shell, in real time. `exit` ends the guest; ^C is the guest's.
With one: its output, and its exit status as ours. Whatever it leaves in /out (also $OUT) is unpacked into \
the directory given with --out, along with the kernel's log (dmesg).

Exit status: the command's; 124 if the guest hangs, 125 if its kernel reports trouble (whatever the command \
said), 1 or 2 if it could not be run.

Examples:
  cargo xtask vm
  cargo xtask vm -- sh -c 'tc qdisc add dev lo root pfabric && tc -s qdisc show dev lo'
  cargo xtask vm --seed 7 --file scenario.sh:/root/s.sh --out result -- sh /root/s.sh
  cargo xtask vm --clock model --package redis -- weft lab rack:hosts=2 --on h0 redis-server redis-cli -h h0 ping
  cargo xtask vm --clock real --cpus 4 -- iperf3 --version
  weft exec h3 cargo xtask vm --clock real --tap tap0 -- sh -c 'modprobe virtio_net && ip link'")]
pub(crate) struct Vm {
    #[command(flatten)]
    pub(crate) target: Target,
    /// What the guest's clock is (default: virtual with a command, real for a shell, model for a
    /// lab)
    #[arg(long, value_enum)]
    pub(crate) clock: Option<ClockKind>,
    #[command(flatten)]
    pub(crate) hardware: Hardware,
    /// Debian packages of the suite that the guest has, too, with all that they need, separated by
    /// commas; they are downloaded and installed once
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = packages::name)]
    pub(crate) package: Vec<String>,
    /// Hand a file or directory to the guest (repeatable; default place: /root)
    #[arg(long, value_name = "HOST[:GUEST]")]
    pub(crate) file: Vec<String>,
    /// Unpack the guest's /out there
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) out: Option<PathBuf>,
    /// Room for the guest's /out in MiB (a power of two); under the model clock it takes what it
    /// needs
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = power_of_two)]
    pub(crate) out_size: u32,
    /// An interface of the guest: a tap device of this network namespace, as `weft up --host
    /// h3=tap` makes them (repeatable; --clock real). The guest's driver is virtio_net
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    pub(crate) tap: Vec<String>,
    /// Set a variable in the guest's environment (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<OsString>,
    /// Print the machine's command instead of running it
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// One's own programs on a fabric, in virtual time: weft lab in the guest
#[derive(Args, Debug)]
#[command(after_help = "\
What follows -- are the words of weft lab; `cargo xtask vm -- weft lab --help` says which there are. It is \
cargo xtask vm with another default: under the model clock hosts and switches compute in no time, idle time is \
skipped, and the same words and --seed give the same output to the byte.

Exit status: the command's; else as of cargo xtask vm.

Examples:
  cargo xtask lab -- rack:hosts=2 --from h0 ping -c 3 h1
  cargo xtask lab --package redis -- fat-tree:k=4 --dilation 1000 --scheme pfabric \\
      --on h3 'redis-server --protected-mode no' --from h7 redis-benchmark -h h3 -n 1000 -q
  cargo xtask lab --file ./server --file ./client --out result -- rack:hosts=2 --dilation 100 \\
      --on h0 /root/server --logs /out --from h1 /root/client h0")]
pub(crate) struct Lab {
    #[command(flatten)]
    pub(crate) vm: Vm,
}

/// As the kernel takes a device's name, and QEMU one of its own.
fn device(text: &str) -> Result<String, &'static str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic());
    match begins && text.len() < 16 && text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err("expected a device's name, such as tap0"),
    }
}

/// A PCI device's memory is a power of two.
fn power_of_two(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(size) if size.is_power_of_two() && (1..=1024).contains(&size) => Ok(size),
        _ => Err("a power of two from 1 to 1024".into()),
    }
}

/// Host tests, guest tests, determinism
#[derive(Args, Debug)]
#[command(after_help = "\
The last line says how many tests passed and failed. A guest test fails too if the guest's kernel reports \
trouble while it runs. With --kernel debug, guest tests run on a kernel that looks for errors of memory, locks, \
lists and references, after deliberate errors have shown that it sees each kind; see vm/um/debug/README.md.

Examples:
  cargo xtask test
  cargo xtask test --host-only
  cargo xtask test --guest-only --filter pfabric
  cargo xtask test --virtme-ng
  cargo xtask test --kernel debug --cpus 4
  cargo xtask test --suite trixie-backports --kernel 7.2.12")]
pub(crate) struct Test {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Only what runs on the host: what plain cargo tests, and testbeds on its kernel
    #[arg(long, conflicts_with = "guest_only")]
    pub(crate) host_only: bool,
    /// Only what runs in the guest
    #[arg(long)]
    pub(crate) guest_only: bool,
    /// Only tests whose name contains this (leaves determinism out)
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// The qdiscs' guest tests under virtme-ng instead
    #[arg(long, conflicts_with = "host_only")]
    pub(crate) virtme_ng: bool,
    /// Under which clock guest tests and determinism test run (default: both; with --suite or
    /// --kernel virtual, as it is that stock kernel that is asked about)
    #[arg(long, value_enum, conflicts_with = "virtme_ng")]
    pub(crate) clock: Option<TestClock>,
    /// Run each guest test so many times, to find what fails now and then
    #[arg(long, value_name = "N", conflicts_with = "host_only", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: Option<u32>,
    /// Runs of the determinism test that must be identical
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) runs: u32,
    #[command(flatten)]
    pub(crate) hardware: Hardware,
}

impl Test {
    /// The clocks that are meant.
    pub(crate) fn clock(&self) -> TestClock {
        let default = match self.target.any() {
            true => TestClock::Both,
            false => TestClock::Virtual,
        };
        self.clock.unwrap_or(default)
    }
}

/// weft of these sources, with a machine that is built first
#[derive(Args, Debug)]
#[command(after_help = "\
What follows are the words of weft demo, or of weft run NAME; `weft run --help` says which there are.

Examples:
  cargo xtask demo
  cargo xtask experiment pfabric-fig4a
  cargo xtask experiment shoot-out-144 --memory 8192 -j 1
  cargo xtask experiment ./mine.toml --seed 1,2,3")]
pub(crate) struct Weft {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The words
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "WORDS"
    )]
    pub(crate) words: Vec<OsString>,
}

/// Count how often each part of the model clock's kernel runs, for its compiler
#[derive(Args, Debug)]
#[command(after_help = "\
The kernel is compiled so that what runs often is fast. How often that is was counted once, and is kept in \
vm/um/profile.tar.xz. Count again after a change of the kernel's version, its compiler or its patches: code that has \
changed since then is compiled without. It takes about half an hour.

Examples:
  cargo xtask profile && cargo xtask bench hops --only k4-droptail")]
pub(crate) struct Profile {
    #[command(flatten)]
    pub(crate) target: Target,
}

/// Which of the results that weft brings are not known to be those of today's source
#[derive(Args, Debug)]
#[command(after_help = "\
Each kept run has a fingerprint: hashes of the kernel, modules, programs, scheme, topology, flows and options that \
decide it. Without --rerun, nothing runs: what has changed since is listed. With it, runs are made again, a guest for \
each, and their bytes compared with those that are kept; --renew gives runs whose bytes are the same today's fingerprint.

Exit status: 1 if a run gave other bytes or failed.

Examples:
  cargo xtask kept
  cargo xtask kept shoot-out --rerun 10
  cargo xtask kept --rerun stale --renew")]
pub(crate) struct Kept {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Experiments (default: all of which something is kept)
    pub(crate) experiment: Vec<String>,
    /// Run again: `stale` (all that are not known to be current), `all`, or so many, drawn by the
    /// day
    #[arg(long, value_name = "WHICH")]
    pub(crate) rerun: Option<Rerun>,
    /// The day that draws, in days since 1970 (default: today)
    #[arg(long, requires = "rerun")]
    pub(crate) day: Option<u64>,
    /// Give runs with the same bytes today's fingerprint
    #[arg(long, requires = "rerun")]
    pub(crate) renew: bool,
    /// Guests at a time (default: as many as processors)
    #[arg(long, value_name = "N")]
    pub(crate) guests: Option<usize>,
    /// Print data as JSON
    #[arg(long, conflicts_with = "rerun")]
    pub(crate) json: bool,
    /// Memory of a guest in MiB; a run that needs more has more
    #[arg(long, value_name = "MIB", default_value_t = MEMORY, value_parser = clap::value_parser!(u32).range(256..))]
    pub(crate) memory: u32,
    /// End a guest that has printed nothing for this time
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT)]
    pub(crate) timeout: u64,
}

/// Which kept runs are made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rerun {
    /// Those that are not known to be current.
    Stale,
    All,
    /// So many.
    Some(usize),
}

impl FromStr for Rerun {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "stale" => Ok(Self::Stale),
            "all" => Ok(Self::All),
            number => number
                .parse()
                .map(Self::Some)
                .map_err(|_| "expected stale, all, or a number"),
        }
    }
}

/// Removes what the cache holds
#[derive(Args, Debug)]
#[command(after_help = "\
Without --all, the entries used last stay: the next run is warm. Whatever a running xtask uses stays too.

Examples:
  cargo xtask clean --dry-run          what there is, and how big
  cargo xtask clean                    old entries
  cargo xtask clean --all              everything")]
pub(crate) struct Clean {
    /// Everything, not only old entries
    #[arg(long)]
    pub(crate) all: bool,
    /// Print what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_is_measured_is_measured_under_the_model_clock_unless_a_kernel_is_named() {
        let clock = |words: &str| {
            let words = ["x", "vm"].into_iter().chain(words.split_whitespace());
            let Command::Vm(vm) = Cli::parse_from(words).command else {
                panic!("not vm")
            };
            vm.target.clock(vm.clock)
        };
        assert_eq!(clock(""), ClockKind::Model);
        assert_eq!(clock("--clock virtual"), ClockKind::Virtual);
        assert_eq!(clock("--suite sid"), ClockKind::Virtual);
        assert_eq!(clock("--kernel 7.3.4"), ClockKind::Virtual);
        assert_eq!(clock("--kernel 7.3.4 --clock model"), ClockKind::Model);
    }

    #[test]
    fn what_follows_two_dashes_is_the_guests() {
        let cli = Cli::parse_from(["x", "vm", "--seed", "3", "--", "tc", "--json", "-s"]);
        let Command::Vm(vm) = cli.command else {
            panic!("not vm")
        };
        assert_eq!(vm.command, ["tc", "--json", "-s"]);
        assert_eq!(vm.hardware.seed(), 3);
    }

    #[test]
    fn the_seed_of_weft_run_is_the_guests_unless_another_is_said() {
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
        // As an experiment's guests have it.
        let (hardware, _) = machine("x vm -- true");
        assert_eq!(hardware.for_workload(3).seed(), 3);
        let (hardware, _) = machine("x vm --seed 7 -- true");
        assert_eq!(hardware.for_workload(3).seed(), 9);
    }

    #[test]
    fn what_is_run_again_is_a_number_or_a_word() {
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
