// SPDX-License-Identifier: MIT OR Apache-2.0

//! The existing results, and whether they are those of the plan.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};
use weft_load::framing::Framing;
use weft_load::record::{Gate, RESULTS, Recorded};
use weft_topo::Topology;

use super::description::Value;
use super::figure::Subject;
use super::made::{Made, place_of};
use super::plan::Planned;
use crate::inputs::hex;
use crate::run::Checked;
use crate::trial::Best;

/// The result of a search for a run.
pub enum Found {
    /// The run is done.
    Done(Box<Results>),
    /// There is nothing.
    Missing,
    /// There is a file, but it is not this run's: one sentence.
    Other(String),
}

/// A run's results.
pub struct Results {
    pub(crate) run: Recorded,
    /// SHA-256 of the file, in hexadecimal digits.
    pub(crate) sha256: String,
    /// Their origin, if it is known.
    pub(crate) made: Option<Made>,
}

impl Results {
    /// The hash of the image of weft's own machine that made them, if one did.
    pub fn machine(&self) -> Option<&str> {
        self.made.as_ref()?.machine.as_deref()
    }
}

/// Looks for a run's results. `clock`: the only acceptable kind of clock, if there is one.
///
/// # Errors
///
/// If there is a file that cannot be read, or the run's flows cannot be drawn.
pub fn find(planned: &Planned, clock: Option<&str>) -> Result<Found> {
    results(&planned.run, planned.seed, &planned.file, clock)
}

/// Looks for the results of a run with a seed in a file. `clock`: the only acceptable kind of
/// clock, if there is one.
///
/// # Errors
///
/// As [`find`].
pub fn results(checked: &Checked, seed: u64, file: &Path, clock: Option<&str>) -> Result<Found> {
    let path = file.display().to_string();
    let content = match RESULTS.read(file) {
        Ok(content) => content,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Missing),
        Err(error) => return Err(error).with_context(|| path.clone()),
    };
    let run = match Recorded::read(&path, content.as_slice()) {
        Ok(run) => run,
        Err(weft_load::Error::Io(error)) => return Err(error).with_context(|| path.clone()),
        Err(error) => return Ok(Found::Other(error.to_string())),
    };
    Ok(match fault(checked, seed, clock, &run)? {
        Some(why) => Found::Other(format!("{path} {why}")),
        None => {
            let sha256 = hex(&Sha256::digest(&content));
            Found::Done(Box::new(Results {
                made: Made::read(file, &sha256),
                run,
                sha256,
            }))
        }
    })
}

/// The reason that they are not the planned run's.
fn fault(
    checked: &Checked,
    seed: u64,
    clock: Option<&str>,
    run: &Recorded,
) -> Result<Option<String>> {
    let header = &run.header;
    let faults = [
        (run.summary.is_none(), "is of a run that did not end"),
        (header.options != checked.run().words, "is of other options"),
        (
            header.scheme != checked.fabric().scheme.name || header.seed != seed,
            "is of another scheme or seed",
        ),
        (
            header.parameters != checked.fabric().parameters(),
            "is of other parameters of the scheme",
        ),
        (
            header.weft != env!("CARGO_PKG_VERSION"),
            "is of another weft",
        ),
        (
            clock.is_some() && header.clock.as_deref() != clock,
            "is of another clock",
        ),
    ];
    if let Some((_, why)) = faults.into_iter().find(|(is, _)| *is) {
        return Ok(Some(why.to_owned()));
    }
    // The contents of files that the options only name. Results of an older weft may have fewer.
    let inputs = checked.inputs(seed)?;
    let mut other = header
        .inputs
        .iter()
        .filter(|it| inputs.get(it.0) != Some(it.1));
    Ok(other
        .next()
        .map(|(input, _)| format!("is not of today's {input}")))
}

/// A run that is done, or the ideal derived from one.
pub struct Done<'a> {
    pub(crate) planned: &'a Planned,
    /// Those of the plan, except that an ideal has its own scheme.
    pub(crate) values: BTreeMap<String, Value>,
    pub(crate) run: Recorded,
    /// Empty if it is not the result of a run.
    pub(crate) sha256: String,
    /// Its origin, if it is known.
    pub(crate) made: Option<Made>,
}

impl<'a> Done<'a> {
    /// The results of a planned run.
    pub fn new(planned: &'a Planned, results: Results) -> Self {
        Self {
            planned,
            values: planned.values.clone(),
            run: results.run,
            sha256: results.sha256,
            made: results.made,
        }
    }

    /// The name of its results, unique in its experiment. `None` for an ideal.
    pub fn name(&self) -> Option<String> {
        let (folder, file) = place_of(self.planned.file.to_str()?)?;
        (!self.sha256.is_empty()).then(|| format!("{folder}/{file}"))
    }

    /// The origin of a planned run, if it is known, and the name of its results.
    pub fn made(&self) -> Option<(String, Made)> {
        let made = self.made.clone()?;
        let is_known = !made.fingerprint.is_empty();
        is_known.then_some((self.name()?, made))
    }

    /// The kind of its kernel's clock; `None`: a machine's own.
    pub fn clock(&self) -> Option<&str> {
        self.run.header.clock.as_deref()
    }

    /// The command that runs it again, for a shell: under the clock of the first run.
    pub(crate) fn command(&self) -> String {
        self.planned.command_under(self.clock())
    }

    /// The framing of packets on its wires.
    pub(crate) fn framing(&self) -> Framing {
        self.planned.run.framing()
    }

    /// The simulated fabric.
    pub(crate) fn topology(&self) -> &Topology {
        &self.planned.run.fabric().topology
    }

    /// Best possible times on its fabric.
    pub(crate) fn best(&self) -> Best<'_> {
        Best::new(self.topology(), self.framing())
    }

    /// For its figures.
    pub(super) fn subject(&self) -> Subject<'_> {
        Subject {
            run: &self.run,
            topology: self.topology(),
            framing: self.framing(),
        }
    }

    /// The reasons not to believe it: its gates, and other failures.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let failures = self.run.summary.iter().flat_map(|it| &it.failures);
        let gates = self.failed_gates().map(ToString::to_string);
        gates.chain(failures.cloned()).collect()
    }

    /// The gates that it did not pass, except those that endless flows cannot pass, and
    /// those within the limits that the experiment allows.
    fn failed_gates(&self) -> impl Iterator<Item = &Gate> {
        let (endless, allow) = (self.planned.endless, &self.planned.allow);
        let gates = self.run.summary.iter().flat_map(|summary| &summary.gates);
        gates.filter(move |gate| {
            let of_ends = gate.name == "flows that did not end"
                || (gate.name == "time limited by socket buffers" && gate.measured.is_none());
            let allowed = allow.get(&gate.name);
            let is_allowed = allowed.is_some_and(|&limit| gate.within(limit).ok);
            !(gate.ok || endless && of_ends || is_allowed)
        })
    }
}
