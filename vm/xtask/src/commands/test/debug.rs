// SPDX-License-Identifier: MIT OR Apache-2.0

//! Checks the debug kernel's detectors: it must report each of several deliberate errors.

use anyhow::Result;
use weft_build::base::progress;
use weft_build::options::ClockKind;
use weft_build::stages::chain::Built;
use weft_machine::Guest;

use super::Args;
use super::guests;
use crate::ktap::Tally;

/// Runs the guest with deliberate errors. A detector that reports nothing is a failed test.
///
/// # Errors
/// If the guest cannot be built.
pub(super) fn detectors(
    built: &Built<'_>,
    test: &Args,
    seen: &mut dyn FnMut(&[u8]),
) -> Result<Tally> {
    progress::note("the debug kernel's detectors, each on an error made on purpose");
    let command = ["weft-selftests", "detectors"].map(str::to_owned).to_vec();
    let run = Guest {
        deliberate: true,
        ..guests::run_of(built, test, ClockKind::Debug, command)?
    };
    Ok(guests::tally_of("detectors", built, Ok(run), seen))
}
