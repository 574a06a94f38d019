// SPDX-License-Identifier: MIT OR Apache-2.0

//! Options for the machine that runs a command: guests of weft's own machine, or this machine.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use weft_arguments::number::{TIMEOUT_SECONDS, whole};
use weft_machine::clocks;
use weft_words::shell::quoted;

/// The clock that drives a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Clock {
    /// A guest with weft's own kernel: computation takes no time, idle time is skipped, and a run
    /// is byte-identical on any machine. Needs no privileges
    Model,
    /// This machine's kernel. Needs root and weft's modules
    Real,
    /// A stock kernel in QEMU, whose clock counts instructions. Needs QEMU, and the image that
    /// `cargo xtask bundle --instructions` writes (--machine)
    Instructions,
}

impl Clock {
    /// Its name on the command line and in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Model => clocks::MODEL,
            Self::Instructions => clocks::INSTRUCTIONS,
            Self::Real => clocks::REAL,
        }
    }
}

/// Options of guests.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Guests")]
pub(crate) struct Args {
    /// Clock that drives the run (default: model if weft has its guest image, else real)
    #[arg(long, value_enum)]
    pub(crate) clock: Option<Clock>,
    /// Guest image (default: WEFT_MACHINE, else the one in or beside this program; weft doctor
    /// prints its path)
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,
    /// Memory of a guest, in MiB; large fabrics need more
    #[arg(long, value_name = "MIB", default_value_t = 1024, allow_negative_numbers = true, value_parser = whole(256..=u32::MAX))]
    pub(crate) memory: u32,
    /// End a guest that has printed nothing for this time, not counting waits for a processor
    #[arg(long, value_name = "SECONDS", default_value_t = 600, allow_negative_numbers = true, value_parser = whole(TIMEOUT_SECONDS))]
    timeout: u64,
}

impl Args {
    /// The words of these options on a command line of `weft run`, if they were given; `needed`:
    /// the memory that the run needs, in MiB.
    fn words(&self, said: &[String], needed: Option<u32>) -> Vec<String> {
        let is_said = |id: &str| said.iter().any(|it| it == id);
        let mut words = Vec::new();
        let mut add = |option: &str, value: String| words.extend([format!("--{option}"), value]);
        if let Some(clock) = self.clock {
            add("clock", clock.name().to_owned());
        }
        if let Some(machine) = &self.machine {
            add("machine", machine.display().to_string());
        }
        let said = is_said("memory").then_some(self.memory);
        if let Some(memory) = said.max(needed) {
            add("memory", memory.to_string());
        }
        if is_said("timeout") {
            add("timeout", self.timeout.to_string());
        }
        words
    }

    /// A command of `weft run` with these options, for a shell; see [`Args::words`].
    pub(crate) fn append_to(
        &self,
        command: String,
        said: &[String],
        needed: Option<u32>,
    ) -> String {
        let words = self.words(said, needed);
        let words = words.iter().map(|word| quoted(word));
        words.fold(command, |text, word| text + " " + &word)
    }

    /// How long a guest may print nothing.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

/// The number of guests at a time.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Guests")]
pub(crate) struct Jobs {
    /// Number of guests at a time (default: one per processor, as far as memory allows)
    #[arg(long, short, value_name = "N", allow_negative_numbers = true, value_parser = whole(NonZeroUsize::MIN..=NonZeroUsize::MAX))]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Format of progress on standard error
    #[arg(long, value_enum, default_value_t = Progress::Text)]
    pub(crate) progress: Progress,
}

/// The format of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Progress {
    /// Bars on a terminal, lines otherwise
    Text,
    /// One JSON object per line
    Json,
}
