// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft doctor` on a machine that has everything, and its cures, which must be valid commands.

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, tests};

use crate::machine::shell;
use crate::weft::{checks, weft};

tests![
    doctor_confirms_that_a_machine_can_run_the_stock_schemes,
    each_cure_is_a_command_that_works,
];

fn doctor_confirms_that_a_machine_can_run_the_stock_schemes(cx: &Context) -> Result<()> {
    // It fails if a stock scheme could not run.
    weft("doctor")?;
    let checks = checks()?;
    for check in &checks {
        cx.note(format!(
            "{} {}: {}",
            check["ok"], check["what"], check["found"]
        ));
    }
    for (part, scheme) in [
        ("the qdisc red", "dctcp"),
        ("the congestion control dctcp", "dctcp"),
        ("the qdisc codel", "cubic-codel"),
        ("tc", "cubic-codel"),
        ("the congestion control bbr", "bbr"),
        ("the qdisc bfc", "bfc"),
    ] {
        let check = checks.iter().find(|check| check["what"] == part);
        let check = check.with_context(|| format!("{part} is not looked for"))?;
        ensure!(check["ok"] == true, "{check}");
        let needed = check["needed_for"].as_array();
        let needed = needed.with_context(|| format!("{check}"))?;
        ensure!(needed.iter().any(|it| it == scheme), "{check}");
    }
    Ok(())
}

/// On this machine nothing is missing, and each cure still succeeds.
fn each_cure_is_a_command_that_works(cx: &Context) -> Result<()> {
    let mut cures: Vec<String> = Vec::new();
    for check in checks()? {
        let cure = check["cure"].as_str().context("no cure")?.to_owned();
        if !cures.contains(&cure) {
            cures.push(cure);
        }
    }
    for cure in cures {
        let typed = match cure.split(' ').next() {
            // Not available in the guest: weft's source, the network, and a guest's image.
            Some("cargo" | "apt-get" | "weft") => continue,
            Some("sudo") => shell(cure.trim_start_matches("sudo ")).is_ok(),
            // The model clock's kernel has everything built in, without a list of modules.
            Some("modprobe") if shell("uname -r")?.contains("model") => {
                shell(&format!("sh -n -c '{cure}'")).is_ok()
            }
            // It is mounted already, so the cure fails here.
            Some("mount") => shell(&format!(
                "unshare -m sh -c 'umount -l /sys/fs/cgroup && {cure}'"
            ))
            .is_ok(),
            _ => shell(&cure).is_ok(),
        };
        cx.note(format!("{cure}: {typed}"));
        ensure!(typed, "`{cure}` does not work");
    }
    Ok(())
}
