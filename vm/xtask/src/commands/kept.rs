// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask kept`: lists kept results of experiments that the present source may change, and
//! repeats some of their runs with `weft run`. `cargo xtask test` repeats a few that should not
//! change, to detect fingerprints that miss a change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::Mutex;
use std::time::{Instant, SystemTime};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use weft_arguments::number::{TIMEOUT_SECONDS, whole};
use weft_build::base::cache::{self, Cache};
use weft_build::base::{output, process, progress, workspace};
use weft_build::options::{ClockKind, MEMORY, TIMEOUT, Target};
use weft_build::stages::chain::{self, Built};
use weft_build::stages::image::{self, Compression};
use weft_build::stages::programs;
use weft_machine::interrupt::{self, Kind, Temporary};
use weft_machine::{last_lines, parallel};

use crate::ktap::Tally;

/// List kept results that may differ with the present source
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Each kept run has a fingerprint: hashes of the kernel, modules, programs, scheme, topology, flows and options that \
decide it. Without --rerun, nothing runs: what has changed since is listed. With it, runs are made again, a guest for \
each, and their bytes compared with those that are kept; --renew gives runs whose bytes are the same today's fingerprint.

A change that should leave all bytes as they are, such as a faster kernel, does not need thousands of repetitions. --rerun \
10% repeats a tenth of the stale runs, and at least 30 for each change: the same parts, with the same content today. If all \
of these give the same bytes, --vouch marks the other runs with this change as current `by sample`. If none of 300 repeated \
runs differs, less than 1 % of all runs do, with a confidence of 95 %; so --rerun 300 --vouch, 300 for each change, is \
enough for any number of runs.

Runs can be vouched for in parts: --changed engine leaves out those of which more has changed than the engine, and \
--scheme pase all others than PASE's.

A command that was interrupted goes on where it stopped if it is given again on the same day from the same source.

Exit status: 1 if a run gave other bytes or failed.

Examples:
  cargo xtask kept
  cargo xtask kept shoot-out --rerun 10
  cargo xtask kept --rerun stale --renew
  cargo xtask kept --rerun 10% --vouch
  cargo xtask kept --changed engine,measuring --rerun 300 --vouch")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Experiments (default: all with kept results)
    pub(crate) experiment: Vec<String>,
    /// Repeat runs: `stale` (all that are not known to be current), `all`, or, drawn at random by
    /// the day, a number of runs, or a share of those with changed parts, such as 10%
    #[arg(long, value_name = "WHICH", allow_negative_numbers = true)]
    pub(crate) rerun: Option<Rerun>,
    /// Only runs of which these parts have changed, and no others
    #[arg(long, value_name = "PART,…", value_delimiter = ',', requires = "rerun")]
    pub(crate) changed: Vec<String>,
    /// Only runs of these schemes
    #[arg(
        long,
        value_name = "SCHEME,…",
        value_delimiter = ',',
        requires = "rerun"
    )]
    pub(crate) scheme: Vec<String>,
    /// Day for the random choice, in days since 1970 (default: today)
    #[arg(long, requires = "rerun", allow_negative_numbers = true, value_parser = whole(0..=u64::MAX))]
    pub(crate) day: Option<u64>,
    /// Give runs with the same bytes the present fingerprint
    #[arg(long, requires = "rerun")]
    pub(crate) renew: bool,
    /// With a share, or a number for each change: as --renew, and if all that were drawn give the
    /// same bytes, mark the others as current by this sample
    #[arg(long, requires = "rerun")]
    pub(crate) vouch: bool,
    /// Guests at a time (default: as many as processors)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole(1..=usize::MAX))]
    pub(crate) guests: Option<usize>,
    /// Print data as JSON
    #[arg(long, conflicts_with = "rerun")]
    pub(crate) json: bool,
    /// Memory of a guest in MiB; some runs need and get more
    #[arg(long, value_name = "MIB", default_value_t = MEMORY, allow_negative_numbers = true, value_parser = whole(256..=u32::MAX))]
    pub(crate) memory: u32,
    /// End a guest that has printed nothing for this time, not counting waits for a processor
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT, allow_negative_numbers = true, value_parser = whole(TIMEOUT_SECONDS))]
    pub(crate) timeout: u64,
}

/// The kept runs to repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rerun {
    /// Runs that are not known to be current.
    Stale,
    All,
    /// This many runs.
    Some(usize),
    /// This share of the runs with changed parts, in percent.
    Share(u64),
}

impl FromStr for Rerun {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "stale" => Ok(Self::Stale),
            "all" => Ok(Self::All),
            text => match text.strip_suffix('%') {
                Some(share) => match share.parse() {
                    Ok(share @ 1..=100) => Ok(Self::Share(share)),
                    _ => Err("expected a share of 1% to 100%"),
                },
                None => text
                    .parse()
                    .map(Self::Some)
                    .map_err(|_| "expected stale, all, a number, or a share such as 10%"),
            },
        }
    }
}

/// Maximum of processor seconds for the test, according to earlier durations.
const SECONDS: u64 = 120;
/// The environment variable with the release of the guests' kernel, which weft's source does not
/// contain.
pub(crate) const RELEASE: &str = "WEFT_KERNEL_RELEASE";
/// The folder of kept results in the repository.
const EXPERIMENTS: &str = "userspace/experiments";

/// A kept run, in the output of `weft experiments stale --json`.
#[derive(Clone, Debug, Deserialize)]
struct Row {
    experiment: String,
    /// The name of its results.
    name: String,
    sha256: String,
    state: Value,
    seconds: Option<u64>,
    /// `None`: the experiment no longer has this run.
    words: Option<Vec<String>>,
    scheme: Option<String>,
    seed: Option<u64>,
    memory: Option<u32>,
    fingerprint: Option<Value>,
}

impl Row {
    fn is_current(&self) -> bool {
        self.state == "current" || self.state == "sampled"
    }

    /// The names of the parts that have changed since; `None` if it is current or nothing is known.
    fn changed(&self) -> Option<BTreeSet<&str>> {
        let parts = self.state.get("stale")?.as_array()?.iter();
        Some(parts.filter_map(Value::as_str).collect())
    }

    /// The parts that have changed since, each with its present hash. A part's name alone does not
    /// distinguish two schemes.
    fn change(&self) -> Option<String> {
        let hash = |part| self.fingerprint.as_ref()?.get(part);
        let parts = self.changed()?.into_iter().map(|part| (part, hash(part)));
        serde_json::to_string(&parts.collect::<Vec<_>>()).ok()
    }

    /// Whether just these parts have changed, and it is of one of these schemes; an empty list
    /// excludes nothing.
    fn is_chosen(&self, changed: &[String], schemes: &[String]) -> bool {
        let parts = changed.iter().map(String::as_str).collect();
        let scheme = self.scheme.as_ref();
        (changed.is_empty() || self.changed() == Some(parts))
            && (schemes.is_empty() || scheme.is_some_and(|scheme| schemes.contains(scheme)))
    }

    fn title(&self) -> String {
        format!("{} {}", self.experiment, self.name)
    }

    /// The words of `weft run` that repeat it. `None`: this run no longer exists.
    fn repetition(&self) -> Option<Vec<String>> {
        let (words, scheme, seed) = (self.words.as_ref()?, self.scheme.as_ref()?, self.seed?);
        let seed = seed.to_string();
        let own = ["--scheme", scheme, "--seed", &seed].map(str::to_owned);
        Some(words.iter().cloned().chain(own).collect())
    }
}

/// `weft`, and the options that make its guests use this source's image.
struct Weft {
    program: PathBuf,
    image: PathBuf,
    /// The image's entry in the cache, which a build of another image would remove otherwise.
    _in_use: Option<cache::Entry>,
    /// In MiB; some runs need and get more.
    memory: u32,
    /// In seconds.
    timeout: u64,
}

impl Weft {
    /// # Errors
    /// If the image cannot be built.
    fn of(built: &Built, memory: u32, timeout: u64) -> Result<Self> {
        let entry = image::ensure(built, Compression::Fast)?;
        Ok(Self {
            program: built.programs.weft.clone(),
            image: image::file(&entry),
            _in_use: Some(entry),
            memory,
            timeout,
        })
    }

    /// The command that repeats a run and writes its result into a folder.
    fn command(&self, row: &Row, folder: &Path) -> Result<Command> {
        let words = row
            .repetition()
            .context("the experiment has no such run any more")?;
        let memory = self.memory.max(row.memory.unwrap_or(0));
        let mut command = Command::new(&self.program);
        command.arg("run").args(words).arg("--out").arg(folder);
        command.args(["--clock", "model", "--quiet"]);
        command.arg("--machine").arg(&self.image);
        command.args(["--memory", &memory.to_string()]);
        command.args(["--timeout", &self.timeout.to_string()]);
        Ok(command)
    }

    /// Repeats a run; returns the bytes of its result.
    ///
    /// # Errors
    /// If it leaves no result: with the end of `weft`'s output.
    fn repeat(&self, row: &Row, folder: &Path) -> Result<Vec<u8>> {
        let mut command = self.command(row, folder)?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut running = interrupt::spawn(&mut command, Kind::Group)?;
        let mut printed = Vec::new();
        if let Some(mut pipe) = running.child.stderr.take() {
            pipe.read_to_end(&mut printed)?;
        }
        let status = running.child.wait()?;
        let (_, file) = row.name.rsplit_once('/').context("it has no file")?;
        // The status is also 1 if the result is INVALID, which some experiments allow.
        fs::read(folder.join(file)).with_context(|| {
            interrupt::park_if_ending();
            let printed = String::from_utf8_lossy(&printed);
            format!("no result ({status})\n{}", last_lines(&printed, 30))
        })
    }
}

/// The outcome of a repeated run.
enum Outcome {
    Same { seconds: u64 },
    Other,
    Failed(String),
}

/// The origin of results, as input of `weft experiments renew`.
#[derive(Serialize)]
struct Renewed<'a> {
    experiment: &'a str,
    name: &'a str,
    sha256: &'a str,
    fingerprint: &'a Value,
    seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample: Option<Sample>,
}

/// The sample on which it rests that a run is current (see `Sample` of weft-lab).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Sample {
    runs: u64,
    of: u64,
    day: u64,
}

impl<'a> Renewed<'a> {
    /// `None`: the run has no fingerprint today.
    fn new(row: &'a Row, seconds: u64, sample: Option<Sample>) -> Option<Self> {
        Some(Self {
            experiment: &row.experiment,
            name: &row.name,
            sha256: &row.sha256,
            fingerprint: row.fingerprint.as_ref()?,
            seconds,
            sample,
        })
    }
}

/// Lists kept results, or repeats some of them.
///
/// # Errors
/// If the guests cannot be built, or an experiment does not exist.
pub(crate) fn run(cache: &Cache, options: &Args) -> Result<u8> {
    ensure!(
        !options.vouch
            || matches!(
                options.rerun,
                Some(Rerun::Share(LEAST_SHARE..) | Rerun::Some(ENOUGH_RUNS..))
            ),
        "--vouch needs a share of at least {LEAST_SHARE}%, or {ENOUGH_RUNS} runs for each change: \
         --rerun {LEAST_SHARE}%, or --rerun {ENOUGH_RUNS}"
    );
    let Some(rerun) = options.rerun else {
        let weft = programs::weft(&workspace(), &cache.log("programs")?)?;
        let mut command = Command::new(weft);
        command
            .args(["experiments", "stale"])
            .args(&options.experiment);
        if options.json {
            command.arg("--json");
        }
        return process::passed_on(&mut command);
    };
    let built = chain::all(
        cache,
        &options.target.request(),
        &[ClockKind::Model.kernel()],
    )?;
    let mut all = rows(&built, &options.experiment)?;
    all.retain(|row| row.repetition().is_some());
    let (experiment, changed, schemes) = (&options.experiment, &options.changed, &options.scheme);
    all.retain(|row| row.is_chosen(changed, schemes));
    ensure!(
        !all.is_empty() || changed.is_empty() && schemes.is_empty(),
        "no kept run of these experiments is of that scheme and has just these changed parts; \
         `cargo xtask kept` lists what has changed"
    );
    let day = options.day.unwrap_or_else(today);
    let each = all.iter();
    let rows: Vec<&Row> = match rerun {
        Rerun::All => each.collect(),
        Rerun::Stale => each.filter(|row| !row.is_current()).collect(),
        Rerun::Some(number) if options.vouch => sample(&all, |_| number, day),
        Rerun::Some(number) => shuffled(each, day).take(number).collect(),
        Rerun::Share(share) => sample(&all, part(share), day),
    };
    let workers = options.guests.unwrap_or_else(parallel::processors);
    let (mut same, mut failed) = (Vec::new(), 0);
    let weft = Weft::of(&built, options.memory, options.timeout)?;
    let command = format!("{rerun:?} {day} {experiment:?} {changed:?} {schemes:?}");
    let journal = Journal::open(cache, &command)?;
    let outcomes = repeat_all(cache, &weft, &rows, workers, Some(&journal))?;
    for (row, outcome) in rows.iter().zip(&outcomes) {
        match outcome {
            Outcome::Same { seconds } => same.push((row, *seconds)),
            Outcome::Other | Outcome::Failed(_) => failed += 1,
        }
    }
    output::print(format!(
        "{} of {} runs gave the bytes that are kept",
        same.len(),
        rows.len()
    ))?;
    if options.renew || options.vouch {
        let repeated = same.iter();
        let repeated = repeated.filter_map(|(row, seconds)| Renewed::new(row, *seconds, None));
        let mut renewed: Vec<Renewed<'_>> = repeated.collect();
        if options.vouch {
            let titles: BTreeSet<String> = same.iter().map(|(row, _)| row.title()).collect();
            renewed.extend(vouched(&all, &rows, &titles, day));
        }
        renew(&built, &renewed)?;
    }
    // A run without a result has shown nothing: the same command repeats these alone.
    if !outcomes.iter().any(|it| matches!(it, Outcome::Failed(_))) {
        journal.end();
    }
    Ok(u8::from(failed > 0))
}

/// Repeats a few runs that should be current, drawn at random by the day.
///
/// # Errors
/// If the kept results cannot be read, or the image cannot be built.
pub(crate) fn drawn(built: &Built, memory: u32, timeout: u64) -> Result<Tally> {
    let day = today();
    let rows = rows(built, &[])?;
    let current = rows.iter().filter(|row| row.is_current());
    let rows = within(shuffled(current, day), SECONDS);
    let mut tally = Tally::default();
    if rows.is_empty() {
        progress::note("no kept run is known to be current: none is run again");
        return Ok(tally);
    }
    progress::note(&format!(
        "{} kept runs again, drawn by day {day}",
        rows.len()
    ));
    let weft = Weft::of(built, memory, timeout)?;
    let outcomes = repeat_all(built.cache, &weft, &rows, parallel::processors(), None)?;
    for (row, outcome) in rows.iter().zip(outcomes) {
        match outcome {
            Outcome::Same { .. } => tally.pass(),
            Outcome::Other => tally.fail(format!(
                "{}: its fingerprint is today's, and its bytes are not",
                row.title()
            )),
            Outcome::Failed(why) => tally.fail(format!("{}: {why}", row.title())),
        }
    }
    Ok(tally)
}

fn rows(built: &Built, experiments: &[String]) -> Result<Vec<Row>> {
    let mut command = Command::new(&built.programs.weft);
    command
        .args(["experiments", "stale", "--json"])
        .env(RELEASE, built.release(ClockKind::Model.kernel())?)
        .args(experiments);
    serde_json::from_str(&process::capture(&mut command)?).context("reading what weft keeps")
}

/// Days since 1970.
fn today() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    since.as_secs() / 86_400
}

/// In a random order that depends on the day.
fn shuffled<'a>(rows: impl Iterator<Item = &'a Row>, day: u64) -> impl Iterator<Item = &'a Row> {
    let mut rows: Vec<&Row> = rows.collect();
    rows.sort_by_cached_key(|row| Sha256::digest(format!("{day} {}", row.title())));
    rows.into_iter()
}

/// The least share of runs, in percent, that can stand for all of them,
const LEAST_SHARE: u64 = 10;
/// the least number of a share for each change,
const LEAST_RUNS: usize = 30;
/// and the number that can stand for any number of runs: if none of 300 differs, less than 1 % of
/// all do, with a confidence of 95 %.
const ENOUGH_RUNS: usize = 300;

/// Groups stale runs by their change. Runs without a known fingerprint are in no group.
fn by_change<'a>(rows: impl Iterator<Item = &'a Row>) -> BTreeMap<String, Vec<&'a Row>> {
    let mut all: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        if let Some(change) = row.change() {
            all.entry(change).or_default().push(row);
        }
    }
    all
}

/// Of each change as many runs as `count` returns for their number, or all.
fn sample(rows: &[Row], count: impl Fn(usize) -> usize, day: u64) -> Vec<&Row> {
    let all = by_change(rows.iter()).into_values().flat_map(|rows| {
        let count = count(rows.len());
        shuffled(rows.into_iter(), day).take(count)
    });
    all.collect()
}

/// A share of runs, in percent, and at least 30.
fn part(share: u64) -> impl Fn(usize) -> usize {
    move |runs| ((runs as u64 * share).div_ceil(100) as usize).max(LEAST_RUNS)
}

/// New fingerprints for the runs that were not repeated. A change gives none if one of its repeated
/// runs did not give the same bytes. `same`: the titles of those that did.
fn vouched<'a>(
    all: &'a [Row],
    repeated: &[&Row],
    same: &BTreeSet<String>,
    day: u64,
) -> Vec<Renewed<'a>> {
    let repeated = by_change(repeated.iter().copied());
    let mut vouched = Vec::new();
    for (change, rows) in by_change(all.iter()) {
        let Some(runs) = repeated.get(&change) else {
            continue;
        };
        if !runs.iter().all(|run| same.contains(&run.title())) {
            continue;
        }
        let sample = Sample {
            runs: runs.len() as u64,
            of: rows.len() as u64,
            day,
        };
        let others = rows.into_iter().filter(|row| !same.contains(&row.title()));
        vouched.extend(others.filter_map(|row| Renewed::new(row, row.seconds?, Some(sample))));
    }
    vouched
}

/// The first runs that together take at most this many seconds, as far as their durations are
/// known.
fn within<'a>(rows: impl Iterator<Item = &'a Row>, seconds: u64) -> Vec<&'a Row> {
    let mut left = seconds;
    let fits = |row: &&Row| {
        let rest = row.seconds.and_then(|taken| left.checked_sub(taken));
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    rows.filter(fits).collect()
}

/// The runs that an unfinished command has repeated, with the bytes that are kept.
struct Journal {
    path: PathBuf,
    /// The seconds that each took.
    before: BTreeMap<String, u64>,
    file: Mutex<File>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    run: String,
    seconds: u64,
}

impl Journal {
    /// That of a command; a line that was cut short does not count.
    fn open(cache: &Cache, command: &str) -> Result<Self> {
        let name = sha256(command.as_bytes());
        let path = cache
            .file("log")
            .join(format!("kept-{}.jsonl", &name[..16]));
        let folder = path.parent().context("no folder")?;
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let text = fs::read_to_string(&path).unwrap_or_default();
        let entries = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let before = entries.map(|Entry { run, seconds }| (run, seconds));
        let before: BTreeMap<String, u64> = before.collect();
        let options = OpenOptions::new().append(true).create(true).open(&path);
        let file = Mutex::new(options.with_context(|| path.display().to_string())?);
        Ok(Self { path, before, file })
    }

    /// A run with what it is compared with, and all that decides its bytes today.
    fn key(row: &Row) -> Option<String> {
        let fingerprint = row.fingerprint.as_ref()?;
        Some(sha256(
            format!("{} {} {fingerprint}", row.title(), row.sha256).as_bytes(),
        ))
    }

    fn find(&self, row: &Row) -> Option<u64> {
        self.before.get(&Self::key(row)?).copied()
    }

    /// An error costs no more than a repetition.
    fn add(&self, row: &Row, seconds: u64) {
        if let Some(run) = Self::key(row)
            && let Ok(line) = serde_json::to_string(&Entry { run, seconds })
            && let Ok(mut file) = self.file.lock()
        {
            // What an earlier command wrote may be cut short.
            let _ = file.write_all(format!("\n{line}").as_bytes());
        }
    }

    /// The command is complete: the same one begins anew.
    fn end(self) {
        let _ = fs::remove_file(self.path);
    }
}

fn repeat_all(
    cache: &Cache,
    weft: &Weft,
    rows: &[&Row],
    workers: usize,
    journal: Option<&Journal>,
) -> Result<Vec<Outcome>> {
    let place = cache.file(format!("run/{}.kept", std::process::id()));
    let folder = Temporary::new(place)?;
    let numbers: Vec<usize> = (0..rows.len()).collect();
    parallel::map(&numbers, workers, |&number, _| {
        let row = rows[number];
        if let Some(seconds) = journal.and_then(|journal| journal.find(row)) {
            progress::note(&format!("{}: same bytes before, {seconds} s", row.title()));
            return Ok(Outcome::Same { seconds });
        }
        let outcome = repeat(weft, row, &folder.path().join(number.to_string()));
        if let (Outcome::Same { seconds }, Some(journal)) = (&outcome, journal) {
            journal.add(row, *seconds);
        }
        let said = match &outcome {
            Outcome::Same { seconds } => format!("same bytes, {seconds} s"),
            Outcome::Other => "OTHER bytes".to_owned(),
            Outcome::Failed(why) => format!("FAILED: {why}"),
        };
        progress::note(&format!("{}: {said}", row.title()));
        Ok(outcome)
    })
}

fn repeat(weft: &Weft, row: &Row, folder: &Path) -> Outcome {
    let begun = Instant::now();
    match weft.repeat(row, folder) {
        Ok(result) if sha256(&result) == row.sha256 => Outcome::Same {
            seconds: begun.elapsed().as_secs() + 1,
        },
        Ok(_) => Outcome::Other,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

/// SHA-256 in hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Gives runs the present fingerprint.
fn renew(built: &Built, renewed: &[Renewed<'_>]) -> Result<()> {
    let mut by_experiment: BTreeMap<&str, usize> = BTreeMap::new();
    for run in renewed {
        *by_experiment.entry(run.experiment).or_default() += 1;
    }
    let mut command = Command::new(&built.programs.weft);
    command
        .args(["experiments", "renew"])
        .arg(workspace().join(EXPERIMENTS))
        .stdin(Stdio::piped());
    let mut child = command.spawn().context("starting weft")?;
    let json = serde_json::to_vec(renewed)?;
    // It reads all its input before it prints.
    child
        .stdin
        .take()
        .context("weft has no input")?
        .write_all(&json)?;
    ensure!(child.wait()?.success(), "weft did not write fingerprints");
    for (experiment, runs) in by_experiment {
        output::print(format!("{experiment}: {runs} fingerprints are today's"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, seconds: Option<u64>) -> Row {
        let row = serde_json::json!({
            "experiment": "x", "name": name, "sha256": "0", "state": "current", "seconds": seconds,
            "words": ["rack:hosts=2", "--load", "0.5"], "scheme": "dctcp", "seed": 7, "memory": null, "fingerprint": {}
        });
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn a_kept_run_is_repeated_with_its_arguments_and_enough_memory() {
        let weft = Weft {
            program: "weft".into(),
            image: "/i".into(),
            _in_use: None,
            memory: 1024,
            timeout: 9,
        };
        let shown = |row: &Row| process::shown(&weft.command(row, Path::new("/f")).unwrap());
        let mut one = row("a/dctcp-seed7.jsonl", None);
        assert_eq!(
            shown(&one),
            "weft run rack:hosts=2 --load 0.5 --scheme dctcp --seed 7 --out /f --clock model --quiet \
             --machine /i --memory 1024 --timeout 9"
        );
        one.memory = Some(4096);
        assert!(shown(&one).contains("--memory 4096 "));
    }

    #[test]
    fn a_repetition_is_the_kept_command_with_options_of_the_guest() {
        let weft = Weft {
            program: "weft".into(),
            image: "/i".into(),
            _in_use: None,
            memory: 1024,
            timeout: 9,
        };
        let kept = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../userspace/experiments/kept/demo.json"
        );
        let kept: Value = serde_json::from_str(&fs::read_to_string(kept).unwrap()).unwrap();
        let runs = kept["runs"].as_array().unwrap();
        assert!(!runs.is_empty());
        for run in runs {
            let command = run["command"].as_str().unwrap();
            let words: Vec<&str> = command.split(' ').collect();
            let place = |option| words.iter().position(|word| *word == option).unwrap();
            let value = |option| words[place(option) + 1];
            let mut one = row(run["file"].as_str().unwrap(), None);
            let own = words[2..place("--scheme")].iter();
            one.words = Some(own.map(|&word| word.to_owned()).collect());
            one.scheme = Some(value("--scheme").to_owned());
            one.seed = Some(value("--seed").parse().unwrap());
            let folder = Path::new(value("--out"));
            let repeated = process::shown(&weft.command(&one, folder).unwrap());
            assert_eq!(
                repeated,
                format!("{command} --quiet --machine /i --memory 1024 --timeout 9")
            );
        }
    }

    #[test]
    fn runs_are_chosen_by_their_changed_parts_and_scheme() {
        let mut one = row("a", None);
        let words = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let chosen = |row: &Row, changed: &[&str], schemes: &[&str]| {
            row.is_chosen(&words(changed), &words(schemes))
        };
        assert!(chosen(&one, &[], &[]) && chosen(&one, &[], &["pase", "dctcp"]));
        assert!(!chosen(&one, &["engine"], &[]) && !chosen(&one, &[], &["pase"]));
        one.state = serde_json::json!({"stale": ["measuring", "engine"]});
        assert!(chosen(&one, &["engine", "measuring"], &["dctcp"]));
        assert!(!chosen(&one, &["engine"], &[]));
        assert!(!chosen(&one, &["engine", "image", "measuring"], &[]));
        one.state = serde_json::json!("unknown");
        assert!(chosen(&one, &[], &[]) && !chosen(&one, &["engine"], &[]));
    }

    #[test]
    fn the_state_is_parsed() {
        let mut one = row("a", None);
        assert!(one.is_current());
        for other in [
            serde_json::json!("unknown"),
            serde_json::json!({"stale": ["kernel"]}),
        ] {
            one.state = other;
            assert!(!one.is_current());
        }
    }

    /// 500 runs with a changed kernel, 20 whose `bfc` has changed, too, and two that are not stale.
    fn changed() -> Vec<Row> {
        let row = |number: usize, state: Value| Row {
            state,
            ..row(&format!("{number}"), Some(9))
        };
        let kernel = (0..500).map(|n| row(n, serde_json::json!({"stale": ["kernel"]})));
        let both = (500..520).map(|n| row(n, serde_json::json!({"stale": ["kernel", "sch_bfc"]})));
        let others = [serde_json::json!("current"), serde_json::json!("unknown")];
        let others = (520..).zip(others).map(|(n, state)| row(n, state));
        kernel.chain(both).chain(others).collect()
    }

    #[test]
    fn a_share_is_drawn_from_each_combination_of_changed_parts() {
        let counts = |share| {
            let all = changed();
            let drawn = sample(&all, part(share), 20_000);
            let names: BTreeSet<String> = drawn.iter().map(|row| row.title()).collect();
            assert_eq!(names.len(), drawn.len());
            by_change(drawn.into_iter())
                .into_values()
                .map(|rows| rows.len())
                .collect::<Vec<_>>()
        };
        // All 20 of the small one; at least 30 of the other.
        assert_eq!(counts(10), [20, 50]);
        assert_eq!(counts(1), [20, 30]);
        assert_eq!(counts(100), [20, 500]);
        let all = changed();
        let drawn = |count| by_change(sample(&all, |_| count, 20_000).into_iter());
        let counts = drawn(300).into_values().map(|rows| rows.len());
        assert_eq!(counts.collect::<Vec<_>>(), [20, 300]);
        // The smaller draw begins the larger one.
        let names = |count| -> Vec<String> {
            let drawn = drawn(count).into_values().next_back().unwrap();
            drawn.iter().map(|row| row.title()).collect()
        };
        assert_eq!(names(500)[..300], names(300));
        let names = |day| {
            sample(&changed(), part(10), day)
                .into_iter()
                .map(|row| row.name.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(1), names(1));
        assert_ne!(names(1), names(2));
    }

    #[test]
    fn a_sample_vouches_for_the_runs_with_the_same_change_if_all_of_it_is_the_same() {
        let all = changed();
        let drawn = sample(&all, part(10), 20_000);
        let titles: BTreeSet<String> = drawn.iter().map(|row| row.title()).collect();
        let vouched_by = |same: &BTreeSet<String>| {
            let vouched = vouched(&all, &drawn, same, 20_000);
            let samples: BTreeSet<_> = vouched
                .iter()
                .filter_map(|it| it.sample)
                .map(|it| (it.runs, it.of))
                .collect();
            (vouched.len(), samples.into_iter().collect::<Vec<_>>())
        };
        assert_eq!(vouched_by(&titles), (450, vec![(50, 500)]));
        // One run of the large group has other bytes: it and its group stay stale.
        let is_kernel = |row: &&&Row| row.change().is_some_and(|it| !it.contains("bfc"));
        let mut same = titles.clone();
        same.remove(&drawn.iter().find(is_kernel).unwrap().title());
        assert_eq!(vouched_by(&same), (0, vec![]));
    }

    #[test]
    fn runs_of_two_changed_schemes_are_apart() {
        let of = |number: usize, scheme: &str| Row {
            state: serde_json::json!({"stale": ["scheme"]}),
            fingerprint: Some(serde_json::json!({"kernel": "0", "scheme": scheme})),
            ..row(&format!("{number}"), Some(9))
        };
        let rows: Vec<Row> = (0..300)
            .map(|n| of(n, if n < 5 { "a" } else { "b" }))
            .collect();
        let counts = by_change(rows.iter()).into_values().map(|rows| rows.len());
        assert_eq!(counts.collect::<Vec<_>>(), [5, 295]);
        // All of the small one are repeated, whatever the others give.
        assert_eq!(sample(&rows, part(10), 20_000).len(), 5 + 30);
    }

    #[test]
    fn an_interrupted_command_goes_on_where_it_stopped() {
        let root = std::env::temp_dir().join(format!("weft-kept-{}", std::process::id()));
        let cache = Cache::at(root.clone());
        let (one, other) = (row("a", None), row("b", None));
        let journal = Journal::open(&cache, "10% of today").unwrap();
        assert_eq!(journal.find(&one), None);
        journal.add(&one, 7);
        let cut_short = fs::read_to_string(&journal.path).unwrap();
        let cut_short = cut_short.clone() + &cut_short[..cut_short.len() / 2];
        fs::write(&journal.path, cut_short).unwrap();
        drop(journal);

        let journal = Journal::open(&cache, "10% of today").unwrap();
        assert_eq!((journal.find(&one), journal.find(&other)), (Some(7), None));
        // Other bytes are kept, or something that decides them has changed.
        for changed in [
            Row {
                sha256: "1".to_owned(),
                ..one.clone()
            },
            Row {
                fingerprint: Some(serde_json::json!({ "kernel": "2" })),
                ..one.clone()
            },
            Row {
                fingerprint: None,
                ..one.clone()
            },
        ] {
            assert_eq!(journal.find(&changed), None);
        }
        journal.add(&other, 8);
        drop(journal);
        let journal = Journal::open(&cache, "10% of today").unwrap();
        let found = (journal.find(&one), journal.find(&other));
        assert_eq!(found, (Some(7), Some(8)));
        let another = Journal::open(&cache, "10% of tomorrow").unwrap();
        assert_eq!(another.find(&one), None);
        journal.end();
        let again = Journal::open(&cache, "10% of today").unwrap();
        assert_eq!(again.find(&one), None);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_share_is_parsed() {
        assert_eq!("10%".parse(), Ok(Rerun::Share(10)));
        assert_eq!("10".parse(), Ok(Rerun::Some(10)));
        for text in ["0%", "101%", "%", "ten"] {
            assert!(text.parse::<Rerun>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_daily_draw_of_runs_fits_in_the_time() {
        let rows = || {
            (0..40)
                .map(|n| row(&n.to_string(), Some(20)))
                .collect::<Vec<_>>()
        };
        let names = |day: u64| {
            let rows = rows();
            let drawn = within(shuffled(rows.iter(), day), 60);
            drawn
                .into_iter()
                .map(|row| row.name.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(1).len(), 3);
        assert_eq!(names(1), names(1));
        assert_ne!(names(1), names(2));
        // Runs with too long or unknown durations are skipped in favour of others.
        let rows = [
            row("a", Some(90)),
            row("b", None),
            row("c", Some(50)),
            row("d", Some(10)),
        ];
        let drawn = within(rows.iter(), 60);
        let names: Vec<&str> = drawn.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["c", "d"]);
    }
}
