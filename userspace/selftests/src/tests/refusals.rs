// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors of weft: one sentence that names the cure, exit status 2, and no remaining objects.
//! Errors that need no kernel are tested on the host.

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, tests};

use crate::folder::Folder;
use crate::machine::{Machine, names, shell};
use crate::weft::{self, Up, refusal, unprivileged_refusal};

tests![
    without_privileges_no_fabric_is_made,
    without_privileges_no_node_can_be_entered,
    a_testbed_that_is_up_is_not_made_again,
    a_partial_testbed_is_distinguished_from_one_that_is_up,
    a_testbed_that_is_not_up_is_not_found,
];

const ROOT: &str = "run as root";

fn ensure_says(refusal: &str, words: &[&str]) -> Result<()> {
    for word in words {
        ensure!(refusal.contains(word), "`{refusal}` does not say `{word}`");
    }
    Ok(())
}

fn without_privileges_no_fabric_is_made(cx: &Context) -> Result<()> {
    weft::require_programs()?;
    let before = Machine::now()?;
    let folder = Folder::new()?;
    shell(&format!("chmod 777 {}", folder.path().display()))?;
    for words in [
        "up rack:hosts=2",
        "up rack:hosts=2 --scheme pfabric",
        "down fabric",
    ] {
        let refusal = unprivileged_refusal(words)?;
        cx.note(format!("weft {words}: {refusal}"));
        ensure_says(&refusal, &["not permitted", ROOT])?;
    }
    let results = folder.path().join("results");
    let refusal = unprivileged_refusal(&format!("run rack:hosts=2 --out {}", results.display()))?;
    ensure_says(&refusal, &["not permitted", ROOT])?;
    ensure!(!results.exists(), "an empty folder of results is left");
    before.ensure_unchanged()
}

fn without_privileges_no_node_can_be_entered(cx: &Context) -> Result<()> {
    let _up = Up::new("others", "rack:hosts=2")?;
    for words in ["exec h0 -- true", "shell h0", "down others"] {
        let refusal = unprivileged_refusal(words)?;
        cx.note(format!("weft {words}: {refusal}"));
        ensure_says(&refusal, &["not permitted", ROOT])?;
    }
    ensure!(
        weft::weft("exec h0 -- hostname -s")?.trim() != "",
        "it is gone"
    );
    Ok(())
}

fn a_testbed_that_is_up_is_not_made_again(cx: &Context) -> Result<()> {
    let _up = Up::new("twice", "rack:hosts=2")?;
    let before = Machine::now()?;
    let sentence = refusal("up rack:hosts=2 --testbed twice")?;
    cx.note(sentence.clone());
    ensure_says(
        &sentence,
        &["`twice` is already up", "`weft down twice` removes it"],
    )?;
    before.ensure_unchanged()?;
    let folder = Folder::new()?;
    let results = folder.path().join("results");
    let words = format!(
        "run rack:hosts=2 --testbed twice --out {}",
        results.display()
    );
    ensure_says(&refusal(&words)?, &["`twice` is already up"])?;
    ensure!(!results.exists(), "an empty folder of results is left");
    Ok(())
}

fn a_partial_testbed_is_distinguished_from_one_that_is_up(cx: &Context) -> Result<()> {
    shell("ip netns add weft-part-h0")?;
    let refused = refusal("up rack:hosts=2 --testbed part");
    weft::weft("down part")?;
    let refused = refused?;
    cx.note(refused.clone());
    ensure_says(
        &refused,
        &["`part` is there in part", "`weft down part` removes it"],
    )?;
    ensure!(!names("/run/netns").contains(&"weft-part-h0".to_owned()));
    Ok(())
}

fn a_testbed_that_is_not_up_is_not_found(cx: &Context) -> Result<()> {
    for words in ["down", "exec h0 -- true", "shell h0"] {
        let refusal = refusal(words)?;
        cx.note(format!("weft {words}: {refusal}"));
        ensure_says(&refusal, &["no testbed is up", "weft up"])?;
    }
    let none = "there is no testbed `nothing`; up: none";
    for words in ["down nothing", "exec h0 --testbed nothing -- true"] {
        ensure!(refusal(words)? == none);
    }
    let _one = Up::new("one", "rack:hosts=2")?;
    let sentence = refusal("exec h9 -- true")?;
    ensure!(
        sentence == "testbed `one` has no node `h9`; its nodes: h0, h1, tor0",
        "{sentence}"
    );
    ensure!(refusal("down nothing")? == "there is no testbed `nothing`; up: one");
    let _other = Up::new("other", "rack:hosts=2")?;
    for words in ["down", "exec h0 -- true"] {
        let refusal = refusal(words).context("with two testbeds")?;
        cx.note(format!("weft {words}: {refusal}"));
        ensure_says(&refusal, &["several testbeds", "one", "other"])?;
    }
    Ok(())
}
