// SPDX-License-Identifier: MIT OR Apache-2.0

//! Result files, as arguments of `weft compare` and `weft report`.

use anyhow::Result;
use weft_lab::results::{self, Group};
use weft_load::record::Recorded;

/// The results.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Inputs {
    /// Result files of `weft run`; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Accept results of different topologies, whose slowdowns refer to different ideals
    #[arg(long)]
    mixed: bool,
}

impl Inputs {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, is not a result, or is from a run that did not end; if two are
    /// from the same run, or, without `--mixed`, from different topologies.
    pub(crate) fn runs(&self) -> Result<Vec<Recorded>> {
        let runs = results::read(&self.files)?;
        results::check(&self.files, &runs, self.mixed)?;
        Ok(runs)
    }

    /// Reads and groups the files.
    ///
    /// # Errors
    ///
    /// Those of [`Self::runs`].
    pub(crate) fn groups(&self) -> Result<Vec<Group>> {
        Ok(results::group(self.runs()?))
    }
}
