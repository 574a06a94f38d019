// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask lab`: `weft lab` in a guest, under the model clock.

use anyhow::Result;
use weft_build::base::cache::Cache;
use weft_build::options::ClockKind;
use weft_machine::failure::Failure;

use crate::cli::{Lab, Vm};
use crate::vm;

/// Runs it and returns the command's exit status.
///
/// # Errors
/// As [`vm::run`].
pub(crate) fn run(cache: &Cache, lab: &Lab) -> Result<u8> {
    if lab.vm.command.is_empty() {
        let message = "give the words of weft lab after --, for example\n    \
                       cargo xtask lab -- rack:hosts=2 --from h0 ping -c 3 h1";
        return Err(Failure::setup(message).into());
    }
    let mut command = vec!["weft".into(), "lab".into()];
    command.extend(lab.vm.command.iter().cloned());
    let vm = Vm {
        clock: lab.vm.clock.or(Some(ClockKind::Model)),
        command,
        ..lab.vm.clone()
    };
    vm::run(cache, &vm)
}
