// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests whether KVM works. `/dev/kvm` may open and still not run a guest (nested virtualisation),
//! so the test runs one. The answer is valid until the host reboots.

use std::fs;
use std::time::Duration;

use anyhow::Result;
use nix::unistd::{AccessFlags, access};
use weft_machine::{Clock, Guest, Machine, Terminal};

use crate::base::progress;
use crate::guests;
use crate::stages::chain::Built;

/// A guest on working KVM boots within a second.
const PATIENCE: Duration = Duration::from_secs(15);

/// The clock for `--clock real`; prints a remark if it is not KVM.
///
/// # Errors
/// Those of the cache.
pub fn real_clock(built: &Built) -> Result<Clock> {
    if access("/dev/kvm", AccessFlags::R_OK | AccessFlags::W_OK).is_err() {
        progress::note(
            "no access to /dev/kvm: real time runs on translated code (TCG), 10 times slower",
        );
        return Ok(Clock::Tcg);
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let record = built.cache.file(format!("kvm-{}", boot.trim()));
    let answer = match fs::read_to_string(&record) {
        Ok(answer) => answer,
        Err(_) => {
            let works = progress::step("whether KVM works", || Ok(probe(built)))?;
            let answer = if works { "yes" } else { "no" };
            fs::write(&record, answer)?;
            answer.to_owned()
        }
    };
    if answer == "yes" {
        return Ok(Clock::Kvm);
    }
    progress::note("/dev/kvm is there but runs no guest: real time runs on translated code (TCG)");
    Ok(Clock::Tcg)
}

fn probe(built: &Built) -> bool {
    let machine = Machine {
        clock: Clock::Kvm,
        cpus: 1,
        memory_mib: 512,
        out_mib: 16,
        taps: Vec::new(),
        append: Vec::new(),
        terminal: Terminal::File,
    };
    let run = Guest::new(machine, ["true"], PATIENCE);
    guests::run(built, &run, &mut |_| {}).is_ok_and(|outcome| outcome.status == 0)
}
