// SPDX-License-Identifier: MIT OR Apache-2.0

//! Options that several commands have: kernel, clock, machine.

use std::ffi::OsStr;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};
use weft_arguments::number::{TIMEOUT_SECONDS, whole};
use weft_machine::clocks;

use crate::stages::chain::Kernel;
use crate::stages::suite::Request;

/// The suite of the kernel for development.
const SUITE: &str = "forky";

/// A kernel and its archive.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct Target {
    /// Debian suite that kernel and tools come from: forky, sid, experimental, trixie-backports
    #[arg(long, default_value = SUITE, value_parser = suite_name)]
    pub suite: String,
    /// Kernel of that suite, for example 7.2.12 (default: the newest; see setup --list-kernels);
    /// for setup, test and vm also `debug`: the newest's source with all that finds errors, as a
    /// program
    #[arg(long, value_name = "VERSION")]
    pub kernel: Option<String>,
    /// Address of a Debian archive (default: the one the host's apt uses)
    #[arg(long, value_name = "URL", env = "WEFT_MIRROR")]
    pub mirror: Option<String>,
    /// Look for a newer kernel in the archive instead of using the last answer
    #[arg(long)]
    pub refresh: bool,
}

/// The value of `--kernel` for the debug kernel, instead of a version.
const DEBUG: &str = "debug";

/// Checks a suite's name, which becomes part of paths and of apt's sources.
///
/// # Errors
/// If it has other characters: one sentence.
pub fn suite_name(text: &str) -> Result<String, String> {
    let sound = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !text.is_empty() && text.chars().all(sound) {
        return Ok(text.to_owned());
    }
    Err("a suite's name has lower-case letters, digits and dashes".into())
}

impl Target {
    /// Whether the options select no particular kernel.
    pub fn any(&self) -> bool {
        self.suite == SUITE && self.kernel.is_none()
    }

    /// Whether the options select the debug kernel.
    pub fn debug(&self) -> bool {
        self.kernel.as_deref() == Some(DEBUG)
    }

    /// The equivalent options, without those that have their defaults.
    pub fn words(&self) -> Vec<String> {
        let default = Defaults::parse_from(["x"]).target;
        // Exhaustive, so that a new field causes an error here.
        let Self {
            suite,
            kernel,
            mirror,
            refresh,
        } = self;
        let mut words = Vec::new();
        if *suite != default.suite {
            words.extend(["--suite", suite]);
        }
        if let Some(kernel) = kernel {
            words.extend(["--kernel", kernel]);
        }
        if let Some(mirror) = mirror.as_ref().filter(|_| *mirror != default.mirror) {
            words.extend(["--mirror", mirror]);
        }
        if *refresh {
            words.push("--refresh");
        }
        words.into_iter().map(str::to_owned).collect()
    }

    /// The same target without the options that do not affect results.
    pub fn for_results(&self) -> Self {
        Self {
            mirror: None,
            refresh: false,
            ..self.clone()
        }
    }

    /// The target as a request. The debug kernel is built from the newest kernel's source.
    pub fn request(&self) -> Request {
        Request {
            suite: self.suite.clone(),
            kernel: self.kernel.clone().filter(|kernel| kernel != DEBUG),
            mirror: self.mirror.clone(),
            refresh: self.refresh,
        }
    }
}

/// The guest's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClockKind {
    /// Counted instructions on the stock kernel: the same run each time, idle time skipped
    Instructions,
    /// Hosts and switches compute in no time, idle time is skipped: the same run each time, on the
    /// same kernel's source as a program; 20 times faster
    Model,
    /// The host's, on KVM where it works, else on translated code
    Real,
    /// The host's, on the debug kernel, which has no other
    #[value(skip)]
    Debug,
}

impl ClockKind {
    /// The kernel for the clock.
    pub fn kernel(self) -> Kernel {
        match self {
            Self::Instructions | Self::Real => Kernel::Stock,
            Self::Model => Kernel::Model,
            Self::Debug => Kernel::Debug,
        }
    }

    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Instructions => clocks::INSTRUCTIONS,
            Self::Model => clocks::MODEL,
            Self::Real | Self::Debug => clocks::REAL,
        }
    }

    /// A short description.
    pub fn described(self) -> &'static str {
        match self {
            Self::Instructions => "instruction clock: counted instructions on the stock kernel",
            Self::Model => "model clock: computation takes no time",
            Self::Real => "real time",
            Self::Debug => "the host's clock: tests that need an exact one are skipped",
        }
    }
}

impl Target {
    /// The clock for measurements on a fabric, if `asked` is `None`. With a named kernel, it is a
    /// clock that uses that kernel.
    pub fn clock(&self, asked: Option<ClockKind>) -> ClockKind {
        let default = match self.any() {
            true => ClockKind::Model,
            false => ClockKind::Instructions,
        };
        asked.unwrap_or(default)
    }
}

/// Default values of the options.
#[derive(Parser)]
struct Defaults {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    hardware: Hardware,
}

/// Default memory of a guest in MiB.
pub const MEMORY: u32 = 1024;
/// Default limit in seconds for a guest that prints nothing.
pub const TIMEOUT: u64 = 600;
/// Default seed of a guest.
const SEED: u64 = 1;

/// The seed of a command that is `weft run` with exactly one seed.
fn workload_seed<S: AsRef<OsStr>>(command: &[S]) -> Option<u64> {
    let words: Vec<&OsStr> = command.iter().map(AsRef::as_ref).collect();
    let ["weft", "run"] = [words.first()?.to_str()?, words.get(1)?.to_str()?] else {
        return None;
    };
    let mut seeds = (2..words.len()).filter_map(|place| {
        let word = words[place].to_str()?;
        match word.strip_prefix("--seed=") {
            Some(seed) => Some(seed),
            None if word == "--seed" => words.get(place + 1)?.to_str(),
            None => None,
        }
    });
    seeds.next()?.parse().ok()
}

/// Options of the guest's machine.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct Hardware {
    /// Instruction clock: 2^SHIFT ns per instruction (0 = finest)
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = whole(0..=10_u8))]
    pub shift: u8,
    /// Instruction and model clocks: seed of the guest's randomness; another seed is another sample
    /// (default: that of `weft run`, if that is what the guest runs; else 1)
    #[arg(long, allow_negative_numbers = true, value_parser = whole(0..=u64::MAX))]
    pub seed: Option<u64>,
    /// Processors (default: 1 in virtual time, else 2; the model clock knows only 1, the debug
    /// kernel 8)
    #[arg(long, allow_negative_numbers = true, value_parser = whole(1..=64_u32))]
    pub cpus: Option<u32>,
    /// Memory in MiB (the debug kernel has 2048 at least)
    #[arg(long, value_name = "MIB", default_value_t = MEMORY, allow_negative_numbers = true, value_parser = whole(256..=u32::MAX))]
    pub memory: u32,
    /// End the guest if it prints nothing for this many seconds, not counting waits for a
    /// processor
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT, allow_negative_numbers = true, value_parser = whole(TIMEOUT_SECONDS))]
    pub timeout: u64,
    /// Additional argument of the kernel (repeatable)
    #[arg(long, value_name = "ARGUMENT")]
    pub append: Vec<String>,
}

impl Hardware {
    /// How long a guest may print nothing.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// The seed of the guest's randomness.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(SEED)
    }

    /// The machine for a command: the guest's seed is that of `weft run`, unless the option sets
    /// another one.
    pub fn for_command<S: AsRef<OsStr>>(&self, command: &[S]) -> Self {
        Self {
            seed: self.seed.or_else(|| workload_seed(command)),
            ..self.clone()
        }
    }

    /// The equivalent options for a command, without those that have their defaults.
    pub fn words<S: AsRef<OsStr>>(&self, command: &[S]) -> Vec<String> {
        let default = Defaults::parse_from(["x"]).hardware;
        // Exhaustive, so that a new field causes an error here.
        let Self {
            shift,
            seed,
            cpus,
            memory,
            timeout,
            append,
        } = self;
        let other = |value: u64, default: u64| (value != default).then_some(value);
        let usual = workload_seed(command).unwrap_or(SEED);
        let numbers = [
            ("--shift", other((*shift).into(), default.shift.into())),
            ("--seed", seed.and_then(|seed| other(seed, usual))),
            ("--cpus", cpus.map(u64::from)),
            ("--memory", other((*memory).into(), default.memory.into())),
            ("--timeout", other(*timeout, default.timeout)),
        ];
        let numbers = numbers.into_iter().filter_map(|(option, value)| {
            let value = value?.to_string();
            Some([option.to_owned(), value])
        });
        // One word, because the kernel's arguments may begin with a dash.
        let append = append.iter().map(|it| format!("--append={it}"));
        numbers.flatten().chain(append).collect()
    }

    /// The same machine without the options that do not affect results.
    pub fn for_results(&self) -> Self {
        Self {
            timeout: TIMEOUT,
            ..self.clone()
        }
    }

    /// The machine for a workload's seed. Another seed is also another sample of the guest's random
    /// numbers, for example of how its kernel hashes flows.
    pub fn for_workload(&self, seed: u64) -> Self {
        Self {
            seed: Some(self.seed().wrapping_add(seed).wrapping_sub(SEED)),
            ..self.clone()
        }
    }
}
