// SPDX-License-Identifier: MIT OR Apache-2.0

//! `--rootless`: an ordinary user creates a fabric from modules that root has loaded.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, tests};
use weft_load::record::{Flow, Recorded, measured};

use crate::folder::Folder;
use crate::machine::Machine;
use crate::weft::{Up, require_programs, succeed, unprivileged, unprivileged_refusal, valid, weft};

tests![
    #[exact = "a run must be valid, which late timers prevent"]
    an_ordinary_user_runs_the_same_flows,
    an_ordinary_users_programs_run_on_hosts,
    parts_that_need_root_are_named,
];

const RUN: &str =
    "run rack:hosts=3,rate=1gbit --dilation 100 --workload uniform:1kB-60kB --load 0.4 --flows 50";

/// Queues of the kernel, and a congestion control that a namespace may not choose by itself.
fn an_ordinary_user_runs_the_same_flows(cx: &Context) -> Result<()> {
    for scheme in ["droptail", "dctcp"] {
        let folder = Folder::new()?;
        // Root's run loads the modules that the scheme needs.
        let [mine, theirs] = ["root", "nobody"].map(|who| folder.path().join(who));
        weft(&format!(
            "{RUN} --scheme {scheme} --quiet --out {}",
            mine.display()
        ))?;
        fs::create_dir(&theirs)?;
        fs::set_permissions(&theirs, Permissions::from_mode(0o777))?;
        let before = Machine::now()?;
        let words = format!(
            "{RUN} --scheme {scheme} --quiet --rootless --out {}",
            theirs.display()
        );
        succeed(&mut unprivileged(&words)).with_context(|| words.clone())?;
        before.ensure_unchanged()?;
        let file = format!("{scheme}-seed1.jsonl");
        let [mine, theirs] = [mine, theirs].map(|place| valid(&place.join(&file)));
        let (mine, theirs) = (mine?, theirs?);
        let flows = |run: &Recorded| -> Vec<(u64, u32, u32, u64)> {
            let measured = measured(&run.flows);
            measured
                .map(
                    |Flow {
                         id, src, dst, size, ..
                     }| (*id, *src, *dst, *size),
                )
                .collect()
        };
        let count = flows(&mine).len();
        ensure!(
            count == 50 && flows(&mine) == flows(&theirs),
            "{scheme}: {count} flows"
        );
        cx.note(format!("{scheme}: {count} flows"));
    }
    Ok(())
}

fn an_ordinary_users_programs_run_on_hosts(_cx: &Context) -> Result<()> {
    let before = Machine::now()?;
    let said = succeed(&mut unprivileged(
        "lab rack:hosts=2 --quiet --rootless --from h1 ping -c 1 h0",
    ))?;
    ensure!(said.contains("1 received"), "{said}");
    before.ensure_unchanged()
}

fn parts_that_need_root_are_named(_cx: &Context) -> Result<()> {
    require_programs()?;
    let sentence = unprivileged_refusal("run rack:hosts=2 --flows 10")?;
    ensure!(sentence.contains("--rootless"), "{sentence}");
    // Root has loaded the modules that it needs.
    drop(Up::new("mine", "rack:hosts=2 --scheme pfabric")?);
    let folder = Folder::new()?;
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777))?;
    let place = folder.path().join("results");
    let words = format!(
        "run rack:hosts=2 --flows 10 --scheme pfabric --rootless --out {}",
        place.display()
    );
    let sentence = unprivileged_refusal(&words)?;
    ensure!(
        sentence.contains("eBPF programs, which take root"),
        "{sentence}"
    );
    Ok(())
}
