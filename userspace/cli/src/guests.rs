// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests of weft's own machine: finds the image, and runs several guests at the same time.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use serde::Serialize;
use weft_lab::error::usage;
use weft_lab::experiment::{Fingerprint, Made};
use weft_lab::run::Checked;
use weft_machine::image::{Image, Kind, Origin, Packed, prepare_cache};
use weft_machine::request::Request;
use weft_machine::{Guest, Machine, Outcome, Terminal, guest, place, transfer};
use weft_machine::{interrupt, last_lines, parallel};

use crate::arguments::guest::{Args, Clock, Jobs};
use crate::output;
use crate::progress::{Message, ShownRuns};

/// The exit status of a process that SIGKILL ended.
const KILLED: u8 = 128 + 9;
/// The initial size of a guest's `/out`, which grows on demand.
const OUT_MIB: u32 = 64;
/// Speed of QEMU's guests: an instruction takes a nanosecond.
const SHIFT: u8 = 0;

/// A run of a plan, for `--dry-run --json` and for a guest.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PlannedRun {
    /// The words after `weft run`, without scheme, seed and folder.
    pub(crate) words: Vec<String>,
    /// The scheme's name or folder.
    pub(crate) scheme: String,
    /// The workload's seed.
    pub(crate) seed: u64,
    /// The file of its results.
    pub(crate) file: PathBuf,
    /// Whether its results exist, so that it is not repeated.
    pub(crate) done: bool,
    /// The files and folders that it names, which are copied to the guest.
    pub(crate) files: Vec<PathBuf>,
    /// Its fingerprint, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fingerprint: Option<Fingerprint>,
    /// The memory that its guest needs in MiB, if it is more than the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<u32>,
}

impl PlannedRun {
    /// # Errors
    ///
    /// If the scheme is invalid.
    pub(crate) fn new(checked: &Checked, seed: u64, file: &Path, done: bool) -> Result<Self> {
        let run = checked.run();
        Ok(Self {
            words: run.words.clone(),
            scheme: run.fabric.scheme.clone(),
            seed,
            file: file.to_owned(),
            done,
            files: run.files()?,
            fingerprint: None,
            memory: None,
        })
    }

    /// The command that the guest runs.
    fn command(&self) -> Vec<OsString> {
        let seed = self.seed.to_string();
        let own = [
            "--scheme",
            &self.scheme,
            "--seed",
            &seed,
            "--out",
            "/out",
            "--progress",
            "json",
        ];
        let words = self.words.iter().map(String::as_str);
        let all = ["weft", "run"].into_iter().chain(words).chain(own);
        all.map(OsString::from).collect()
    }

    /// The files that it names, with their paths in the guest.
    fn placed(&self) -> Result<Vec<(PathBuf, String)>> {
        let placed = self.files.iter().map(|path| {
            let place = place::in_guest(path)?;
            Ok((path.clone(), place))
        });
        placed.collect()
    }

    /// Its name for people.
    fn title(&self) -> String {
        let scheme = Path::new(&self.scheme).file_name().unwrap_or_default();
        format!("{}, seed {}", scheme.to_string_lossy(), self.seed)
    }

    /// The name of its file of results.
    fn name(&self) -> String {
        let name = self.file.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

/// Runs guests.
pub(crate) struct Guests {
    image: Image,
    cache: PathBuf,
    clock: Clock,
    options: Args,
}

/// The clock: the requested one, or the model clock if there is an image for it. In a guest, and
/// without root if this machine's kernel is meant, it is this machine's.
///
/// # Errors
///
/// If there is no image for the requested clock: with the command that gets one.
pub(crate) fn choose(options: &Args, rootless: bool) -> Result<(Clock, Option<Packed>)> {
    let is_guest = weft_lab::run::clock().is_some();
    match options.clock {
        None if is_guest || rootless => return Ok((Clock::Real, None)),
        Some(Clock::Real) => return Ok((Clock::Real, None)),
        Some(_) if is_guest => return usage("--clock: this is a guest, which has its clock"),
        Some(_) if rootless => {
            return usage(
                "--rootless: a guest needs no privilege; use --clock real for this machine's kernel",
            );
        }
        _ => {}
    }
    let found = Packed::find(options.machine.as_deref())?;
    match (options.clock, found) {
        (clock, Some(found)) => Ok((clock.unwrap_or(Clock::Model), Some(found))),
        (None, None) => Ok((Clock::Real, None)),
        (Some(_), None) => usage(format!(
            "this weft has no guest image: name one with --machine or WEFT_MACHINE ({}), or build a weft that \
             has one with `cargo xtask bundle`",
            weft_machine::image::FILE
        )),
    }
}

/// The clock that results must have, if only one is acceptable.
pub(crate) fn clock_of_results(options: &Args, guests: Option<&Guests>) -> Option<String> {
    let chosen = guests.map(|guests| guests.clock).or(options.clock);
    // Results of this machine's own kernel name no clock.
    let chosen = chosen.filter(|&clock| clock != Clock::Real);
    let named = chosen.map(|clock| clock.name().to_owned());
    named.or_else(weft_lab::run::clock)
}

impl Guests {
    /// Guests with the chosen clock; `None`: this machine's own kernel is meant.
    ///
    /// # Errors
    ///
    /// Those of [`choose`], or if the image cannot be unpacked.
    pub(crate) fn find(options: &Args, rootless: bool) -> Result<Option<Self>> {
        let (clock, Some(packed)) = choose(options, rootless)? else {
            return Ok(None);
        };
        interrupt::install(None)?;
        let cache = prepare_cache()?;
        let image = packed.unpack(&cache)?;
        let fits = match clock {
            Clock::Instructions => image.manifest.kind == Kind::Qemu,
            _ => image.manifest.kind == Kind::Program,
        };
        if !fits {
            return usage(format!(
                "{}: this image's kernel is for --clock {}",
                packed.path.display(),
                match image.manifest.kind {
                    Kind::Program =>
                        "model; `cargo xtask bundle --instructions` builds one for --clock \
                         instructions, which --machine names",
                    Kind::Qemu => "instructions",
                }
            ));
        }
        if packed.origin == Origin::Built && image.manifest.weft != env!("CARGO_PKG_VERSION") {
            bail!(
                "{} is of weft {}, but this is weft {}: rebuild it with `cargo xtask build`",
                packed.path.display(),
                image.manifest.weft,
                env!("CARGO_PKG_VERSION")
            );
        }
        Ok(Some(Self {
            image,
            cache,
            clock,
            options: options.clone(),
        }))
    }

    /// The clock's name in results.
    pub(crate) fn clock(&self) -> &'static str {
        self.clock.name()
    }

    /// The image's hash in results.
    pub(crate) fn hash(&self) -> String {
        self.image.hash.to_string()
    }

    /// The release of its kernel.
    pub(crate) fn release(&self) -> &str {
        &self.image.manifest.release
    }

    fn machine(&self, seed: u64, memory: Option<u32>, terminal: Terminal) -> Machine {
        Machine {
            clock: match (self.clock, terminal) {
                (Clock::Instructions, _) => {
                    weft_machine::Clock::Instructions { shift: SHIFT, seed }
                }
                (_, Terminal::File) => weft_machine::Clock::Model { seed },
                (_, Terminal::Interactive) => weft_machine::Clock::Wall,
            },
            cpus: 1,
            memory_mib: self.memory(memory),
            out_mib: OUT_MIB,
            append: Vec::new(),
            terminal,
            taps: Vec::new(),
        }
    }

    /// The memory of a guest that needs this much, in MiB. More memory does not change results.
    fn memory(&self, needed: Option<u32>) -> u32 {
        self.options.memory.max(needed.unwrap_or(0))
    }

    /// Runs a command in a guest, or a shell on the user's terminal if there is none. `seen`
    /// receives the command's output as it arrives.
    ///
    /// # Errors
    ///
    /// Those of [`guest::run`].
    pub(crate) fn command(
        &self,
        request: Request,
        (seed, memory): (u64, Option<u32>),
        files: Vec<(PathBuf, String)>,
        cancel: Option<&Arc<AtomicBool>>,
        seen: &mut dyn FnMut(&[u8]),
    ) -> Result<Outcome> {
        let none: [OsString; 0] = [];
        let terminal = match request.command.is_empty() {
            true => Terminal::Interactive,
            false => Terminal::File,
        };
        let machine = self.machine(seed, memory, terminal);
        let asked = Guest {
            request,
            files,
            cancel: cancel.cloned(),
            ..Guest::new(machine, none, self.options.timeout())
        };
        guest::run(&self.image.boot(&self.cache), &asked, seen)
    }

    /// Runs all of `runs`, and writes the results of each as soon as they are complete. Returns
    /// whether all are valid.
    ///
    /// # Errors
    ///
    /// If a guest cannot be run, or its run fails: with the end of its output. No new guest starts
    /// then.
    pub(crate) fn run_all(&self, runs: &[PlannedRun], jobs: &Jobs, quiet: bool) -> Result<bool> {
        // Files that cannot be copied or written are reported before anything runs.
        for run in runs {
            run.placed()?;
            let folder = run.file.parent().unwrap_or(Path::new("."));
            output::require_folder(folder)
                .map_err(|error| anyhow!("{error}: --out names another folder"))?;
        }
        let shown = ShownRuns::new(runs.len(), jobs.progress, quiet);
        let memory = self.memory(runs.iter().filter_map(|run| run.memory).max());
        let workers = jobs.jobs.map_or_else(|| at_a_time(memory), usize::from);
        let places: Vec<usize> = (0..runs.len()).collect();
        let statuses = parallel::map(&places, workers, |&place, failed| {
            let run = &runs[place];
            let name = run.file.display().to_string();
            shown.begun(place, &run.title());
            let mut lines = Lines::default();
            let begun = Instant::now();
            let outcome = self.command(
                Request {
                    command: run.command(),
                    ..Request::default()
                },
                (run.seed, run.memory),
                run.placed()?,
                Some(failed),
                &mut |bytes| {
                    lines.take(bytes, &mut |line| {
                        if let Some(message) = Message::parse(line) {
                            shown.seen(place, &run.file, &message);
                        }
                    });
                },
            );
            let outcome = outcome.with_context(|| name.clone())?;
            self.keep(run, &outcome, begun.elapsed())
                .with_context(|| name.clone())?;
            shown.ended(place, &run.file);
            Ok(outcome.status)
        })?;
        shown.finish();
        Ok(statuses.iter().all(|&status| status == 0))
    }

    /// Writes the results of a finished run.
    fn keep(&self, run: &PlannedRun, outcome: &Outcome, took: Duration) -> Result<()> {
        let left = transfer::file(&outcome.tar, &run.name())?;
        let Some(left) = transfer::whole_results(outcome.status, left) else {
            let output = String::from_utf8_lossy(&outcome.console);
            let said: Vec<&str> = output
                .lines()
                .filter(|line| Message::parse(line).is_none())
                .collect();
            let cure = match outcome.status {
                KILLED => "; it was killed, probably because memory ran out: try a larger --memory",
                _ => "",
            };
            bail!(
                "the run failed (status {}{cure})\n{}",
                outcome.status,
                last_lines(&said.join("\n"), 30)
            );
        };
        transfer::write_whole(&run.file, &left)?;
        let made = Made {
            machine: Some(self.hash()),
            ..Made::new(&left, run.fingerprint.as_ref(), took)
        };
        transfer::write_whole(&Made::path(&run.file), &serde_json::to_vec(&made)?)
    }
}

/// The number of guests with `memory` MiB each that keep this machine busy and fit its memory.
fn at_a_time(memory: u32) -> usize {
    let available = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let room = mib_available(&available).map(|mib| mib / u64::from(memory));
    let room = room.map_or(usize::MAX, |room| room.max(1) as usize);
    parallel::processors().min(room)
}

/// `MemAvailable` of /proc/meminfo, in MiB.
fn mib_available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kb: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kb >> 10)
}

/// Splits output that arrives in pieces into whole lines.
#[derive(Default)]
struct Lines {
    /// The incomplete last line.
    begun: Vec<u8>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8], line: &mut dyn FnMut(&str)) {
        for &byte in bytes {
            if byte != b'\n' {
                self.begun.push(byte);
                continue;
            }
            line(&String::from_utf8_lossy(&self.begun));
            self.begun.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_runs_the_commands_of_the_plan() {
        let run = PlannedRun {
            words: ["rack:hosts=2", "--load", "0.5"].map(str::to_owned).into(),
            scheme: "./my/dctcp".to_owned(),
            seed: 7,
            file: "results/x/dctcp-seed7.jsonl".into(),
            done: false,
            files: Vec::new(),
            fingerprint: None,
            memory: None,
        };
        let words: Vec<_> = run
            .command()
            .into_iter()
            .map(|it| it.into_string())
            .collect();
        let words: Vec<String> = words.into_iter().map(Result::unwrap).collect();
        assert_eq!(
            words.join(" "),
            "weft run rack:hosts=2 --load 0.5 --scheme ./my/dctcp --seed 7 --out /out --progress json"
        );
        assert_eq!(run.name(), "dctcp-seed7.jsonl");
    }

    #[test]
    fn lines_are_whole_however_they_are_split() {
        let mut lines = Lines::default();
        let mut all = Vec::new();
        for piece in ["one", " line\nan", "other\n\nbegun"] {
            lines.take(piece.as_bytes(), &mut |line| all.push(line.to_owned()));
        }
        assert_eq!(all, ["one line", "another", ""]);
    }

    #[test]
    fn available_memory_is_read_from_meminfo() {
        let meminfo = "MemTotal:  4194304 kB\nMemAvailable:    2097152 kB\n";
        assert_eq!(mib_available(meminfo), Some(2048));
        assert_eq!(mib_available(""), None);
    }
}
