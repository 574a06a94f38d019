// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask bench clocks`: compares the same flows under the counted-instruction clock and
//! under the model clock.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use weft_arguments::whole;
use weft_build::base::cache::{Cache, Key};
use weft_build::base::{output, process, progress, workspace};
use weft_build::options::{ClockKind, Hardware, Target};
use weft_build::stages::{chain, programs};
use weft_machine::failure::Failure;
use weft_machine::{parallel, transfer};

use crate::weft_run::{self, Run};

/// The same flows under the counted-instruction clock and under the model clock: do they agree?
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What is the same, and what the table says, is in vm/um/README.md. Runs whose results are in --out are not run again, \
so what was interrupted goes on; results of other options, files, kernels or versions do not count. The counted-instruction clock takes nearly all of the time: half a processor second \
for each flow.

Exit status: 1 if the clocks do not agree for a scheme and load.

Examples:
  cargo xtask bench clocks
  cargo xtask bench clocks --scheme dctcp --load 0.1 --flows 100 --workload-seed 1
  cargo xtask bench clocks --dry-run   the commands that run in the guests")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Schemes, separated by commas
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "droptail,dctcp,pfabric,bfc"
    )]
    pub(crate) scheme: Vec<String>,
    /// Loads of the hosts' links, 0 to 1: the defaults cover flows that rarely meet, and queues
    /// that overflow
    #[arg(long, value_delimiter = ',', default_value = "0.1,0.6")]
    pub(crate) load: Vec<String>,
    /// Seeds of the workload, separated by commas
    #[arg(
        long,
        value_name = "SEEDS",
        value_delimiter = ',',
        default_value = "1,2,3",
        allow_negative_numbers = true,
        value_parser = whole(0..=u64::MAX)
    )]
    pub(crate) workload_seed: Vec<u64>,
    /// Number of flows per run
    #[arg(long, default_value_t = 200, allow_negative_numbers = true, value_parser = whole(1..=u64::MAX))]
    pub(crate) flows: u64,
    /// The fabric
    #[arg(long, default_value = "fat-tree:k=4")]
    pub(crate) topology: String,
    /// Time dilation of the fabric
    #[arg(long, default_value_t = 1000, allow_negative_numbers = true, value_parser = whole(1..=u32::MAX))]
    pub(crate) dilation: u32,
    /// Flow sizes
    #[arg(long, default_value = "web-search")]
    pub(crate) workload: String,
    /// Maximum lateness of the wires' timers, in fabric time
    #[arg(long, value_name = "TIME", default_value = "240ns")]
    pub(crate) slack: String,
    /// Folder for results
    #[arg(long, value_name = "FOLDER", default_value = "clocks")]
    pub(crate) out: PathBuf,
    /// Repeat runs that have results
    #[arg(long)]
    pub(crate) again: bool,
    /// Guests at a time (default: as many as processors)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole(1..=usize::MAX))]
    pub(crate) guests: Option<usize>,
    /// Print data as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the commands for the guests
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) hardware: Hardware,
}

/// The reference comes first: `weft` compares the others with the clock of the first file.
const CLOCKS: [ClockKind; 2] = [ClockKind::Instructions, ClockKind::Model];

/// A run under one clock.
struct Planned {
    clock: ClockKind,
    run: Run,
}

/// The programs that produce a result, which depends on them as well as on its options.
struct Makers<'a> {
    /// A hash of `weft`, which contains its schemes.
    weft: &'a str,
    /// The kernel's release.
    kernel: &'a str,
}

impl Planned {
    /// The command that runs it.
    fn shown(&self, options: &Args) -> Result<String> {
        let hardware = self.hardware(options);
        self.run.shown(&options.target, self.clock, &hardware)
    }

    /// A text that is stored beside a result, and identifies the inputs and the result.
    fn recipe(&self, options: &Args, makers: &Makers<'_>, result: &[u8]) -> Result<String> {
        let (target, hardware) = (options.target.for_results(), self.hardware(options));
        let command = self
            .run
            .shown(&target, self.clock, &hardware.for_results())?;
        let (inputs, result) = (self.run.inputs()?, Key::new("result").with(result).finish());
        let Makers { weft, kernel } = makers;
        Ok(format!(
            "{command}\ninputs {inputs}\nweft {weft}\nkernel {kernel}\nresult {result}\n"
        ))
    }

    fn recipe_path(&self) -> PathBuf {
        self.run.file.with_extension("command")
    }

    /// Whether its result exists, from the same programs.
    fn is_done(&self, options: &Args, makers: &Makers<'_>) -> Result<bool> {
        let (result, recipe) = (read(&self.run.file)?, read(&self.recipe_path())?);
        let (Some(result), Some(recipe)) = (result, recipe) else {
            return Ok(false);
        };
        Ok(recipe == self.recipe(options, makers, &result)?.into_bytes())
    }

    /// Stores its result.
    fn keep(&self, options: &Args, makers: &Makers<'_>, result: &[u8]) -> Result<()> {
        transfer::write_whole(&self.run.file, result)?;
        let recipe = self.recipe(options, makers, result)?;
        transfer::write_whole(&self.recipe_path(), recipe.as_bytes())
    }

    /// The hardware, the same under both clocks.
    fn hardware(&self, options: &Args) -> Hardware {
        options.hardware.for_workload(self.run.seed)
    }
}

/// A file's content, if the file exists.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

/// Runs everything without a result, and compares the results.
///
/// # Errors
/// If the guests cannot be built or run.
pub(crate) fn run(cache: &Cache, options: &Args) -> Result<u8> {
    if options.dry_run {
        let weft = programs::weft(&workspace(), &cache.log("programs")?)?;
        for planned in plan(options, |words| weft_run::plan(&weft, words))? {
            output::print(planned.shown(options)?)?;
        }
        return Ok(0);
    }
    let kernels = CLOCKS.map(ClockKind::kernel);
    let built = chain::all(cache, &options.target.request(), &kernels)?;
    let plan = plan(options, |words| weft_run::plan(&built.programs.weft, words))?;
    // A file that cannot be copied to a guest is reported before the first guest runs.
    for planned in &plan {
        planned.run.placed()?;
    }
    let weft = Key::new("weft").with_file("weft", &built.programs.weft)?;
    let weft = weft.finish();
    let makers = |planned: &Planned| -> Result<Makers<'_>> {
        let kernel = built.release(planned.clock.kernel())?;
        Ok(Makers {
            weft: &weft,
            kernel,
        })
    };
    let mut missing = Vec::new();
    for planned in &plan {
        if options.again || !planned.is_done(options, &makers(planned)?)? {
            missing.push(planned);
        }
    }
    let workers = options.guests.unwrap_or_else(parallel::processors);
    let places: Vec<usize> = (0..missing.len()).collect();
    parallel::map(&places, workers, |&place, failed| {
        let (planned, begun) = (missing[place], Instant::now());
        let hardware = planned.hardware(options);
        let result = planned
            .run
            .perform(&built, planned.clock, &hardware, failed)?;
        // Stored at once, so that an interrupted comparison can continue.
        planned.keep(options, &makers(planned)?, &result)?;
        progress::note(&format!(
            "{} {}, run {} of {}",
            progress::seconds(begun.elapsed()),
            planned.run.file.display(),
            place + 1,
            missing.len()
        ));
        Ok(())
    })?;
    let mut compare = Command::new(&built.programs.weft);
    compare.args(["compare", "--by-flow"]);
    if options.json {
        compare.arg("--json");
    }
    compare.args(plan.iter().map(|planned| &planned.run.file));
    process::passed_on(&mut compare)
}

/// The runs under both clocks, those of a load and scheme side by side. `runs` returns the runs of
/// a command line.
///
/// # Errors
/// Those of `runs`, or if two runs would write the same file.
fn plan(options: &Args, runs: impl Fn(&[String]) -> Result<Vec<Run>>) -> Result<Vec<Planned>> {
    let seeds: Vec<String> = options.workload_seed.iter().map(u64::to_string).collect();
    let (mut plan, mut files) = (Vec::new(), BTreeSet::new());
    for load in &options.load {
        let mut of_load = Vec::new();
        for clock in CLOCKS {
            let out = options.out.join(clock.name()).join(format!("load-{load}"));
            let said = [
                ("--dilation", options.dilation.to_string()),
                ("--scheme", options.scheme.join(",")),
                ("--workload", options.workload.clone()),
                ("--load", load.clone()),
                ("--flows", options.flows.to_string()),
                ("--seed", seeds.join(",")),
                ("--slack", options.slack.clone()),
                ("--sample", "0ns".to_owned()),
                ("--out", out.display().to_string()),
            ];
            for run in runs(&weft_run::words(&options.topology, said, &[]))? {
                if !files.insert(run.file.clone()) {
                    let file = run.file.display();
                    return Err(Failure::setup(format!("two runs would be {file}")).into());
                }
                of_load.push(Planned { clock, run });
            }
        }
        let schemes = &options.scheme;
        of_load.sort_by_key(|it| schemes.iter().position(|scheme| *scheme == it.run.scheme));
        plan.append(&mut of_load);
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use weft_machine::interrupt::Temporary;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn options(words: &str) -> Args {
        let words = ["x"].into_iter().chain(words.split(' '));
        Line::parse_from(words).args
    }

    /// The runs of a command line with values for each option, as `weft` plans them.
    fn runs(words: &[String]) -> Result<Vec<Run>> {
        let value = |option: &str| {
            let at = words.iter().position(|word| word == option).unwrap();
            words[at + 1].clone()
        };
        let mut runs = Vec::new();
        for scheme in value("--scheme").split(',') {
            for seed in value("--seed").split(',') {
                let seed = seed.parse().unwrap();
                let name = Path::new(scheme).file_name().unwrap().to_str().unwrap();
                let file = format!("{}/{name}-seed{seed}.jsonl", value("--out"));
                let own = ["--scheme", "--seed", "--out"];
                let (topology, options) = words.split_at(1);
                let others = options.chunks(2).filter(|pair| !own.contains(&&*pair[0]));
                let words = others.fold(topology.to_vec(), |words, pair| [&words, pair].concat());
                runs.push(Run::of_folder(words, scheme, seed, file.into()));
            }
        }
        Ok(runs)
    }

    #[test]
    fn only_results_of_the_same_run_count_as_done() {
        // In the current folder, because the guest has its own folder for temporary files.
        let folder = format!("./weft-clocks-{}", std::process::id());
        let place = Temporary::new(folder.clone().into()).unwrap();
        let scheme = format!("{folder}/mine");
        fs::create_dir_all(&scheme).unwrap();
        let out = place.path().join("out").display().to_string();
        let base = format!("--scheme {scheme} --load 0.1 --workload-seed 1 --out {out} --flows 5");
        let makers = |kernel| Makers { weft: "w", kernel };
        let is_done_by = |words: &str, makers: &Makers<'_>| {
            let options = options(format!("{base} {words}").trim());
            let plan = plan(&options, runs).unwrap();
            plan[0].is_done(&options, makers).unwrap()
        };
        let is_done = |words: &str| is_done_by(words, &makers("7.3"));
        let first = options(&base);
        let planned = &plan(&first, runs).unwrap()[0];
        let keep = || planned.keep(&first, &makers("7.3"), b"result").unwrap();
        assert!(!is_done(""));
        keep();
        assert!(is_done(""));
        // Options that do not affect results.
        for words in [
            "--guests 3",
            "--json",
            "--timeout 3",
            "--refresh",
            "--mirror http://x",
        ] {
            assert!(is_done(words), "{words}");
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
            assert!(!is_done(words), "{words}");
        }
        assert!(!is_done_by("", &makers("7.4")), "another kernel");
        let other = Makers {
            weft: "v",
            kernel: "7.3",
        };
        assert!(!is_done_by("", &other), "another weft");
        for broken in ["resul", ""] {
            fs::write(&planned.run.file, broken).unwrap();
            assert!(!is_done(""), "{broken:?}");
        }
        keep();
        assert!(is_done(""));
        fs::write(format!("{scheme}/scheme.toml"), "about = 'x'").unwrap();
        assert!(!is_done(""), "the scheme has changed");
    }

    #[test]
    fn each_run_has_its_twin_under_the_other_clock() {
        let options = options("--load 0.1,0.6 --scheme bfc,dctcp");
        let plan = plan(&options, runs).unwrap();
        let clocks: Vec<ClockKind> = plan.iter().map(|it| it.clock).collect();
        let [virtual_clock, model] = CLOCKS;
        assert_eq!(clocks[..6], [[virtual_clock; 3], [model; 3]].concat());
        let of = |clock| {
            let runs = plan.iter().filter(move |planned| planned.clock == clock);
            let options = &options;
            runs.map(|it| (it.run.command(), it.hardware(options).seed()))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(virtual_clock), of(model));
        assert_eq!(of(model).len(), 12);
    }

    #[test]
    fn results_of_two_schemes_are_two_files() {
        let planned = |schemes: &str| {
            let options = options(&format!("--load 0.1 --workload-seed 1 --scheme {schemes}"));
            plan(&options, runs).err().map(|error| error.to_string())
        };
        assert_eq!(planned("dctcp,./my/mine"), None);
        let expected = "two runs would be clocks/instructions/load-0.1/dctcp-seed1.jsonl";
        assert_eq!(planned("dctcp,./my/dctcp").as_deref(), Some(expected));
    }
}
