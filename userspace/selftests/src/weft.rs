// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft`, as a person calls it.

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

/// What it prints.
///
/// # Errors
///
/// If it fails: what it says.
pub(crate) fn weft(words: &str) -> Result<String> {
    succeed(&mut command(words)).with_context(|| format!("weft {words}"))
}

/// The description of a scheme, `scheme.toml`.
pub(crate) fn description(scheme: &str) -> Result<String> {
    let files: Value = serde_json::from_str(&weft(&format!("schemes show {scheme} --json"))?)?;
    let toml = files["scheme.toml"].as_str().context("no scheme.toml")?;
    Ok(toml.to_owned())
}

/// What a command prints.
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

/// The sentence with which `weft` refuses.
///
/// # Errors
///
/// If it does not: with exit status 2, one line on standard error, and nothing on standard output.
pub(crate) fn refusal(words: &str) -> Result<String> {
    refused(&mut command(words)).with_context(|| format!("weft {words}"))
}

/// As [`refusal`], of somebody without privileges.
pub(crate) fn unprivileged_refusal(words: &str) -> Result<String> {
    refused(&mut unprivileged(words)).with_context(|| format!("weft {words}, as nobody"))
}

/// As [`command`], of somebody without privileges.
pub(crate) fn unprivileged(words: &str) -> Command {
    let mut command = command(words);
    command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    command
}

/// As [`refusal`], of a whole command line.
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

/// Runs a workload (the words after `weft run`) with one scheme and seed; gives back its results.
///
/// # Errors
///
/// If it fails, or the run is not valid: why.
pub(crate) fn run(words: &str) -> Result<Recorded> {
    let folder = Folder::new()?;
    let results = folder.path().join("results");
    let words = format!("run {words} --quiet --out {}", results.display());
    let outcome = weft(&words);
    let files = fs::read_dir(&results).into_iter().flatten();
    let Some(file) = files.last().transpose()? else {
        // There is no folder if it failed early, and then it said why.
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
/// If there are none, or the run is not valid: why.
pub(crate) fn valid(path: &Path) -> Result<Recorded> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let run = Recorded::read("results", BufReader::new(file))?;
    let summary = run.summary.as_ref().context("it did not end")?;
    let reasons: Vec<_> = summary.reasons().collect();
    ensure!(summary.valid, "INVALID: {}", reasons.join("; "));
    Ok(run)
}

/// What `weft doctor` has looked for on this machine.
///
/// # Errors
///
/// If it prints something else.
pub(crate) fn checks() -> Result<Vec<Value>> {
    // Its exit status is about the stock schemes.
    let output = command("doctor --json").output().context("weft doctor")?;
    let report: Value = serde_json::from_slice(&output.stdout).context("weft doctor")?;
    let checks = report["checks"].as_array();
    checks.cloned().context("weft doctor has no checks")
}

/// For a test of a scheme with tags.
///
/// # Errors
///
/// [`Skip`] where `weft` has no eBPF programs: not every suite can build them.
pub(crate) fn require_programs() -> Result<()> {
    let checks = checks()?;
    let check = checks.iter().find(|check| check["what"] == "eBPF programs");
    let check = check.context("weft doctor does not look for programs")?;
    if check["ok"] != true {
        return Err(Skip(format!("needs eBPF programs: {}", check["found"])).into());
    }
    Ok(())
}

/// No testbed is left, whatever became of the test.
///
/// # Errors
///
/// If there was one; it is removed now.
pub(crate) fn none_is_up() -> Result<()> {
    let left = weft("ls --json")?;
    if left.trim() == "[]" {
        return Ok(());
    }
    weft("down --all")?;
    bail!("testbeds were left: {left}")
}

/// A testbed that goes with this.
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
        // If it is left, the runner says so.
        let _ = weft(&format!("down {}", self.name));
    }
}
