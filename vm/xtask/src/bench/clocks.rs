// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask bench clocks`: the same flows under the counted-instruction clock and under the
//! model clock, and whether what comes of them is the same.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::build::{self, Built};
use crate::cache::Cache;
use crate::cli::{BenchClocks, ClockKind, Hardware};
use crate::output;
use crate::parallel;
use crate::process;
use crate::progress;
use crate::weft_run::{self, Left, Wanted};

/// The reference first: `weft` compares the others with the clock of the first file.
const CLOCKS: [ClockKind; 2] = [ClockKind::Virtual, ClockKind::Model];

/// A run under one clock.
struct Planned<'a> {
    clock: ClockKind,
    load: &'a str,
    scheme: &'a str,
    seed: u64,
}

impl Planned<'_> {
    /// What the guest runs.
    fn words(&self, options: &BenchClocks) -> Vec<String> {
        let said = [
            ("--dilation", options.dilation.to_string()),
            ("--scheme", self.scheme.to_owned()),
            ("--workload", options.workload.clone()),
            ("--load", self.load.to_owned()),
            ("--flows", options.flows.to_string()),
            ("--seed", self.seed.to_string()),
            ("--slack", options.slack.clone()),
            ("--sample", "0ns".to_owned()),
            ("--out", "/out".to_owned()),
        ];
        weft_run::words(&options.topology, said)
    }

    fn file(&self) -> String {
        weft_run::file(self.scheme, self.seed)
    }

    fn path(&self, options: &BenchClocks) -> PathBuf {
        let folder = options.out.join(self.clock.name());
        folder.join(format!("load-{}", self.load)).join(self.file())
    }

    /// The command that runs it.
    fn shown(&self, options: &BenchClocks) -> Result<String> {
        let (hardware, words) = (self.hardware(options), self.words(options));
        weft_run::shown(&options.target, self.clock, &hardware, &words)
    }

    /// What decides its results, to stand beside them: a header says nothing of the machine.
    fn recipe(&self, options: &BenchClocks) -> Result<String> {
        let (hardware, words) = (self.hardware(options).for_results(), self.words(options));
        let target = options.target.for_results();
        let command = weft_run::shown(&target, self.clock, &hardware, &words)?;
        Ok(format!("{command}\ninputs {}\n", weft_run::inputs(&words)?))
    }

    fn recipe_path(&self, options: &BenchClocks) -> PathBuf {
        self.path(options).with_extension("command")
    }

    /// Whether its results are there, of a guest of this kernel.
    fn is_done(&self, options: &BenchClocks, release: &str) -> Result<bool> {
        let Some(text) = read(&self.path(options))? else {
            return Ok(false);
        };
        let expected = Header {
            weft: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: Some(release.to_owned()),
            clock: Some(self.clock.name().to_owned()),
            scheme: weft_run::name(self.scheme).into_owned(),
            seed: self.seed,
        };
        Ok(has_summary(&text)
            && header(&text).is_some_and(|header| header == expected)
            && read(&self.recipe_path(options))? == Some(self.recipe(options)?))
    }

    /// Keeps its results.
    fn keep(&self, options: &BenchClocks, left: &Left) -> Result<()> {
        let recipe = self.recipe_path(options);
        // The old one is not to stand beside new results, whenever this ends.
        match fs::remove_file(&recipe) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("removing {}", recipe.display()));
            }
            _ => {}
        }
        left.write(&self.path(options))?;
        weft_machine::transfer::write_whole(&recipe, self.recipe(options)?.as_bytes())
    }

    /// The same under both clocks.
    fn hardware(&self, options: &BenchClocks) -> Hardware {
        options.hardware.for_workload(self.seed)
    }
}

/// What results say of how they were made, as far as it is compared.
#[derive(Deserialize, PartialEq)]
struct Header {
    weft: String,
    kernel: Option<String>,
    clock: Option<String>,
    scheme: String,
    seed: u64,
}

fn header(results: &str) -> Option<Header> {
    serde_json::from_str(results.lines().next()?).ok()
}

/// Whether they are of a run that ended: the summary comes last.
fn has_summary(results: &str) -> bool {
    #[derive(Deserialize)]
    struct Record {
        record: String,
    }
    let last = results.lines().next_back().unwrap_or_default();
    serde_json::from_str(last).is_ok_and(|it: Record| it.record == "summary")
}

/// A file's content, if there is such a file; one that is no text is none that we wrote.
fn read(path: &Path) -> Result<Option<String>> {
    match fs::read(path) {
        Ok(content) => Ok(String::from_utf8(content).ok()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

/// Runs what has no results yet, and compares.
///
/// # Errors
/// If the guests cannot be built or run.
pub(crate) fn run(cache: &Cache, options: &BenchClocks) -> Result<u8> {
    weft_run::distinct(&options.scheme)?;
    let plan = plan(options);
    if options.dry_run {
        for run in &plan {
            output::print(run.shown(options)?)?;
        }
        return Ok(0);
    }
    for run in &plan {
        // What cannot be handed over is said before anything is built.
        weft_run::files(&run.words(options))?;
    }
    let kernels = CLOCKS.map(ClockKind::kernel);
    let built = build::all(cache, &options.target.request(), &kernels)?;
    let mut missing = Vec::new();
    for run in &plan {
        let release = built.release(run.clock.kernel())?;
        if options.again || !run.is_done(options, release)? {
            missing.push(run);
        }
    }
    let workers = options.guests.unwrap_or_else(parallel::processors);
    let places: Vec<usize> = (0..missing.len()).collect();
    parallel::map(&places, workers, |&place, failed| {
        let run = missing[place];
        run_one(&built, options, run, failed)?;
        progress::note(&format!("run {} of {}", place + 1, missing.len()));
        Ok(())
    })?;
    let mut compare = Command::new(&built.programs.weft);
    compare.args(["compare", "--by-flow"]);
    if options.json {
        compare.arg("--json");
    }
    compare.args(plan.iter().map(|run| run.path(options)));
    process::passed_on(&mut compare)
}

fn plan(options: &BenchClocks) -> Vec<Planned<'_>> {
    let mut plan = Vec::new();
    for load in &options.load {
        for scheme in &options.scheme {
            for clock in CLOCKS {
                plan.extend(options.workload_seed.iter().map(|&seed| Planned {
                    clock,
                    load,
                    scheme,
                    seed,
                }));
            }
        }
    }
    plan
}

fn run_one(
    built: &Built,
    options: &BenchClocks,
    run: &Planned<'_>,
    failed: &std::sync::Arc<std::sync::atomic::AtomicBool>,
) -> Result<()> {
    let (path, file) = (run.path(options), run.file());
    let begun = Instant::now();
    let name = path.display().to_string();
    let wanted = Wanted {
        name: &name,
        file: &file,
        missing: "left no result",
    };
    let left = weft_run::run(
        built,
        run.clock,
        &run.hardware(options),
        run.words(options),
        &wanted,
        failed,
        &mut |_| {},
    )?;
    // As soon as it is there: what is interrupted goes on from here.
    run.keep(options, &left)?;
    let time = progress::seconds(begun.elapsed());
    progress::note(&format!("{time} {name}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{BenchKind, Cli, Command};
    use crate::interrupt::Temporary;

    fn options(words: &str) -> BenchClocks {
        let words = ["x", "bench", "clocks"].into_iter().chain(words.split(' '));
        let Command::Bench(bench) = Cli::parse_from(words).command else {
            panic!("not bench")
        };
        let BenchKind::Clocks(options) = bench.what else {
            panic!("not clocks")
        };
        options
    }

    const HEADER: &str = r#"{"record":"header","format":1,"weft":"VERSION","kernel":"7.3","clock":"virtual","seed":1,"scheme":"mine"}"#;
    const FLOW: &str = r#"{"record":"flow","id":0}"#;
    const SUMMARY: &str = r#"{"record":"summary","gates":[]}"#;

    #[test]
    fn only_results_of_the_same_run_count_as_done() {
        // Here: of temporary files the guest has its own.
        let folder = format!("./weft-clocks-{}", std::process::id());
        let place = Temporary::new(folder.clone().into()).unwrap();
        let scheme = format!("{folder}/mine");
        fs::create_dir_all(&scheme).unwrap();
        let out = place.path().join("out").display().to_string();
        let base = format!("--scheme {scheme} --load 0.1 --workload-seed 1 --out {out} --flows 5");
        let first = options(&base);
        let is_done = |words: &str, release| {
            let options = options(format!("{base} {words}").trim());
            plan(&options)[0].is_done(&options, release).unwrap()
        };
        let keep = |lines: &[&str]| {
            let text = lines.join("\n") + "\n";
            let text = text.replace("VERSION", env!("CARGO_PKG_VERSION"));
            let left = Left {
                file: text.into_bytes(),
            };
            plan(&first)[0].keep(&first, &left).unwrap();
        };
        let whole = [HEADER, FLOW, SUMMARY];
        assert!(!is_done("", "7.3"));
        keep(&whole);
        assert!(is_done("", "7.3"));
        // What decides nothing.
        for words in [
            "--guests 3",
            "--json",
            "--timeout 3",
            "--refresh",
            "--mirror http://x",
        ] {
            assert!(is_done(words, "7.3"), "{words}");
        }
        for words in [
            "--topology rack:hosts=2",
            "--dilation 10",
            "--workload data-mining",
            "--slack 0ns",
            "--seed 2",
            "--append quiet",
            "--memory 2048",
            "--kernel 7.3",
        ] {
            assert!(!is_done(words, "7.3"), "{words}");
        }
        assert!(!is_done("", "7.4"), "another kernel");
        let of = |from, to| HEADER.replace(from, to);
        for header in [
            of("virtual", "model"),
            of("VERSION", "0.0.1"),
            of(r#""seed":1"#, r#""seed":2"#),
            of("mine", "other"),
        ] {
            keep(&[&header, FLOW, SUMMARY]);
            assert!(!is_done("", "7.3"), "{header}");
        }
        for broken in [
            &[HEADER, FLOW][..],
            &[HEADER, FLOW, &SUMMARY[..20]],
            &["", "x"],
            &[],
        ] {
            keep(broken);
            assert!(!is_done("", "7.3"), "{broken:?}");
        }
        keep(&whole);
        assert!(is_done("", "7.3"));
        fs::write(format!("{scheme}/scheme.toml"), "about = 'x'").unwrap();
        assert!(!is_done("", "7.3"), "the scheme has changed");
    }

    #[test]
    fn each_run_has_its_twin_under_the_other_clock() {
        let options = options("--load 0.1,0.6 --scheme bfc");
        let plan = plan(&options);
        assert_eq!(plan[0].clock, ClockKind::Virtual);
        let of = |clock| {
            let runs = plan.iter().filter(move |run| run.clock == clock);
            let options = &options;
            runs.map(|run| (run.words(options), run.hardware(options).seed()))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(ClockKind::Virtual), of(ClockKind::Model));
        let mut paths: Vec<_> = plan.iter().map(|run| run.path(&options)).collect();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), plan.len());
    }
}
