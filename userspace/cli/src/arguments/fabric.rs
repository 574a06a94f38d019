// SPDX-License-Identifier: MIT OR Apache-2.0

//! Options of `weft up` and `weft run` that describe a fabric.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use weft_arguments::whole;
use weft_lab::fabric::FabricOptions;
use weft_lab::run::each_once;

use super::time;

/// The fabric.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// KIND[:OPTION=VALUE,…] or a TOML file; see `weft topology --help`
    pub(crate) topology: String,
    /// Run the fabric N times slower: rates are divided by N, delays and the scheme's times
    /// multiplied. Results are in the fabric's own time
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = whole(NonZeroU32::MIN..=NonZeroU32::MAX))]
    dilation: NonZeroU32,
    /// Let a wire's timer fire up to TIME late (fabric time), so that several fire together. Runs
    /// in a VM are faster; a packet leaves the fabric up to TIME late
    #[arg(long, value_name = "TIME", default_value = "0ns", allow_hyphen_values = true, value_parser = time)]
    slack: Duration,
    /// Set a parameter of the scheme (repeatable; `weft schemes show` lists them). `weft run` takes
    /// several values, separated by commas
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// Load a kernel module first, such as a qdisc of your own (repeatable, in this order). It
    /// stays loaded
    #[arg(long = "module", value_name = "FILE.ko")]
    modules: Vec<PathBuf>,
}

impl Args {
    /// The fabric under a scheme.
    ///
    /// # Errors
    ///
    /// If a parameter is set twice, because one of the two values would have no effect: one
    /// sentence.
    pub(crate) fn options(&self, scheme: &str) -> Result<FabricOptions> {
        let names = self.settings.iter().map(|setting| {
            let name = setting.split_once('=').map(|(name, _)| name);
            name.unwrap_or(setting)
        });
        each_once("--set", &names.collect::<Vec<_>>())?;
        Ok(FabricOptions {
            topology: self.topology.clone(),
            dilation: self.dilation,
            slack: self.slack,
            scheme: scheme.to_owned(),
            settings: self.settings.clone(),
            modules: self.modules.clone(),
        })
    }
}
