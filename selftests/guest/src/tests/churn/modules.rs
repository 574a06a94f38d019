// SPDX-License-Identifier: MIT OR Apache-2.0

//! Modules are removed when nobody uses them just now, and loaded.

use anyhow::Result;

use super::{Example, Tally, pause};
use crate::modules;
use crate::random::Random;
use crate::tests::congestion;

pub(super) fn turn(examples: &[Example], random: &mut Random, tally: &mut Tally) -> Result<()> {
    let qdiscs = examples
        .iter()
        .map(|example| format!("sch_{}", example.kind));
    let controls = congestion::OURS.map(|(_, module)| module.to_owned());
    let all: Vec<String> = qdiscs.chain(controls).collect();
    let name = random.one_of(&all);
    tally.count(modules::remove(name).map_err(Into::into));
    pause(random);
    if random.one_in(2) {
        tally.count(modules::load(name));
    }
    Ok(())
}
