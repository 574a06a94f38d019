// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft licences`.

use std::process::ExitCode;

use anyhow::Result;
use weft_lab::error::usage;
use weft_machine::image::{Packed, prepare_cache};

use crate::output;

/// Print the licences of weft and its guest image, and where their sources are
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Guest image (default: as for weft run)
    #[arg(long, value_name = "FILE")]
    machine: Option<std::path::PathBuf>,
}

/// The licence of weft itself.
const OWN: &str = "weft is licensed under MIT or Apache-2.0, its kernel modules and eBPF programs under GPL-2.0.\n";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    output::print(OWN)?;
    match Packed::find(args.machine.as_deref())? {
        Some(packed) => {
            let image = packed.unpack(&prepare_cache()?)?;
            output::print(image.licences()?)?;
        }
        None if args.machine.is_some() => return usage("there is no image of weft's machine"),
        None => {}
    }
    Ok(ExitCode::SUCCESS)
}
