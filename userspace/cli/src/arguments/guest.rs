// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where something runs, as options: in guests of weft's own machine, or on this one.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

/// What drives time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Clock {
    /// weft's own kernel as a program: computing takes no time, idle time is skipped, and a run is
    /// the same to the byte each time, on any machine. No privilege is needed
    Model,
    /// This machine's kernel, with root and weft's modules
    Real,
    /// Instructions that QEMU counts, on the stock kernel, with an image for it (--machine)
    Instructions,
}

impl Clock {
    /// Its name in results.
    pub(crate) fn in_results(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Instructions => "virtual",
            Self::Real => "real",
        }
    }
}

/// How guests are run.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Guests")]
pub(crate) struct Args {
    /// What drives time (default: model where weft has its machine, else real)
    #[arg(long, value_enum)]
    pub(crate) clock: Option<Clock>,
    /// The image of weft's machine (default: WEFT_MACHINE, or the one in or beside this program;
    /// weft doctor says which)
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,
    /// Memory of a guest in MiB: large fabrics take more
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(256..))]
    pub(crate) memory: u32,
    /// End a guest that has printed nothing for so long
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
}

impl Args {
    /// How long a guest may be silent.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

/// How many guests run at the same time.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Guests")]
pub(crate) struct Jobs {
    /// Guests at the same time (default: as many as processors, and as there is memory for)
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// How progress is shown on standard error
    #[arg(long, value_enum, default_value_t = Progress::Text)]
    pub(crate) progress: Progress,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Progress {
    /// Bars on a terminal, lines elsewhere
    Text,
    /// A line of JSON for each step
    Json,
}
