// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft` through its command line.

use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use weft_ktap::Skip;
use weft_load::record::Recorded;

use crate::folder::Folder;

/// `nobody`.
const UNPRIVILEGED: u32 = 65_534;

/// `weft` with these words.
pub(crate) fn command(words: &str) -> Command {
    let mut command = Command::new("weft");
    command.args(words.split_whitespace());
    command.stdin(Stdio::null());
    command
}

/// The output of `weft`.
///
/// # Errors
///
/// If it fails: its error message.
pub(crate) fn weft(words: &str) -> Result<String> {
    succeed(&mut command(words)).with_context(|| format!("weft {words}"))
}

/// The description of a scheme, `scheme.toml`.
pub(crate) fn description(scheme: &str) -> Result<String> {
    let files: Value = serde_json::from_str(&weft(&format!("schemes show {scheme} --json"))?)?;
    let toml = files["scheme.toml"].as_str().context("no scheme.toml")?;
    Ok(toml.to_owned())
}

/// The output of a command.
pub(crate) fn succeed(command: &mut Command) -> Result<String> {
    let output = command.output().context("starting it")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{}: {}",
        output.status,
        complaint.trim_end()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The error message of `weft`.
///
/// # Errors
///
/// If it does not fail with exit status 2, one line on standard error, and nothing on standard
/// output.
pub(crate) fn refusal(words: &str) -> Result<String> {
    refused(&mut command(words)).with_context(|| format!("weft {words}"))
}

/// Like [`refusal`], for a user without privileges.
pub(crate) fn unprivileged_refusal(words: &str) -> Result<String> {
    refused(&mut unprivileged(words)).with_context(|| format!("weft {words}, as nobody"))
}

/// Like [`command`], for a user without privileges.
pub(crate) fn unprivileged(words: &str) -> Command {
    let mut command = command(words);
    command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    command
}

/// Like [`refusal`], for a whole command line.
pub(crate) fn refused_by(line: &str) -> Result<String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).stdin(Stdio::null());
    refused(&mut shell).with_context(|| line.to_owned())
}

fn refused(command: &mut Command) -> Result<String> {
    let output = command.output().context("starting it")?;
    let (said, printed) = (
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout),
    );
    ensure!(
        output.status.code() == Some(2) && printed.is_empty(),
        "{} with `{printed}`; on standard error: {said}",
        output.status
    );
    match said.trim_end().strip_prefix("weft: ") {
        Some(sentence) if !sentence.contains('\n') => Ok(sentence.to_owned()),
        _ => bail!("not one sentence: {said}"),
    }
}

/// Runs a workload (the words after `weft run`) with one scheme and seed; returns its results.
///
/// # Errors
///
/// If it fails, or the run is not valid: the reason.
pub(crate) fn run(words: &str) -> Result<Recorded> {
    let folder = Folder::new()?;
    let results = folder.path().join("results");
    let words = format!("run {words} --quiet --out {}", results.display());
    let outcome = weft(&words);
    let files = fs::read_dir(&results).into_iter().flatten();
    let Some(file) = files.last().transpose()? else {
        // Without a folder it failed early, and its error says why.
        outcome?;
        bail!("weft {words}: no results");
    };
    let run = valid(&file.path()).with_context(|| format!("weft {words}"))?;
    outcome?;
    Ok(run)
}

/// The results in a file.
///
/// # Errors
///
/// If there are none, or the run is not valid: the reason.
pub(crate) fn valid(path: &Path) -> Result<Recorded> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let run = Recorded::read("results", BufReader::new(file))?;
    let summary = run.summary.as_ref().context("it did not end")?;
    let reasons: Vec<_> = summary.reasons().collect();
    ensure!(summary.valid, "INVALID: {}", reasons.join("; "));
    Ok(run)
}

/// The checks of `weft doctor` on this machine.
///
/// # Errors
///
/// If it prints something else.
pub(crate) fn checks() -> Result<Vec<Value>> {
    // Its exit status depends only on the stock schemes.
    let output = command("doctor --json").output().context("weft doctor")?;
    let report: Value = serde_json::from_slice(&output.stdout).context("weft doctor")?;
    let checks = report["checks"].as_array();
    checks.cloned().context("weft doctor has no checks")
}

/// Skips a test of a scheme with tags if necessary.
///
/// # Errors
///
/// [`Skip`] if `weft` has no eBPF programs: not every suite can build them.
pub(crate) fn require_programs() -> Result<()> {
    let checks = checks()?;
    let check = checks.iter().find(|check| check["what"] == "eBPF programs");
    let check = check.context("weft doctor does not look for programs")?;
    if check["ok"] != true {
        return Err(Skip(format!("needs eBPF programs: {}", check["found"])).into());
    }
    Ok(())
}

/// Checks that the test left no testbed.
///
/// # Errors
///
/// If a testbed existed; it is removed then.
pub(crate) fn none_is_up() -> Result<()> {
    let left = weft("ls --json")?;
    if left.trim() == "[]" {
        return Ok(());
    }
    weft("down --all")?;
    bail!("testbeds were left: {left}")
}

/// A testbed that is removed on drop.
pub(crate) struct Up<'a> {
    name: &'a str,
}

impl<'a> Up<'a> {
    /// `weft up` with these words, as testbed `name`.
    pub(crate) fn new(name: &'a str, words: &str) -> Result<Self> {
        weft(&format!("up {words} --testbed {name}"))?;
        Ok(Self { name })
    }

    /// The path of a node's namespace.
    pub(crate) fn namespace(&self, node: &str) -> String {
        format!("/run/netns/weft-{}-{node}", self.name)
    }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        // If the testbed remains, the runner reports it.
        let _ = weft(&format!("down {}", self.name));
    }
}
