// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft run`.

use std::fs::{self, File};
use std::io::{BufWriter, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::parser::ValueSource;
use clap::{ArgMatches, ValueEnum};
use weft_load::engine::{Cancel, Config, Connections, Progress, Since, raise_descriptor_limit};
use weft_load::record::{FORMAT, Header};
use weft_topo::Delay;

use crate::compare;
use crate::error::usage;
use crate::experiments;
use crate::fabric::{self, Fabric};
use crate::output;
use crate::results;
use crate::testbed::{self, Group, Sampled};
use crate::topology;
use crate::trial::Trial;
use crate::trial::fault::{Fault, Faults};
use crate::workload;

/// The sizes that results tell apart, in bytes, as the papers do.
const BUCKETS: [u64; 3] = [100_000, 1_000_000, 10_000_000];
/// Ports are sampled once in so many times that a host's link takes for a full packet.
const SAMPLE_PACKETS: u64 = 100;

/// Weaves a fabric, runs a workload on it, and measures flow completion times; or an experiment, by
/// name
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each run is a JSON Lines file: a header, a line for each flow and port sample, a summary. A run whose summary says
INVALID is not to be believed: a timer was late, the processor busy, a buffer too small; the summary says which.

In place of the topology, the name of an experiment (weft experiments) or its file: what a paper measured is run
and compared with what the paper says. Exit status 1: a claim does not hold.

Examples:
  weft run pfabric-fig4a
  weft run fat-tree:k=4 --dilation 1000 --scheme droptail,dctcp,pfabric --load 0.6 --flows 600 --out results
  weft run leaf-spine:leaves=4,spines=2,hosts=4 --dilation 1000 --scheme pfabric --workload data-mining --seed 1,2,3
  weft run rack:hosts=10 --dilation 1000 --scheme dctcp --only-incast --incast 8x20kB@300 --flows 400
  weft run rack:hosts=4 --dilation 1000 --workload fixed:1MB --pairs permutation --arrivals closed
  weft run rack:hosts=4 --dilation 1000 --scheme bfc --fault '300us tor0 down h0 50us'")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) fabric: fabric::Args,
    /// Names of `weft schemes` or folders, one run each, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "droptail")]
    pub(crate) scheme: Vec<String>,
    #[command(flatten)]
    workload: workload::Args,
    /// Seeds of the workload, one run each, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "1")]
    pub(crate) seed: Vec<u64>,
    /// Whether each flow opens a connection
    #[arg(long, value_enum, default_value_t = Connection::Flow)]
    connection: Connection,
    /// From when a flow's time runs
    #[arg(long, value_enum, default_value_t = From::FirstByte)]
    time_from: From,
    /// How often ports are sampled, in time of the fabric (default: once in 100 packets of a
    /// host's link; 0ns: never)
    #[arg(long, value_name = "TIME", value_parser = time)]
    sample: Option<Duration>,
    /// How long to wait for flows after the last one has begun, in time of the fabric (default: 100
    /// times what the host link takes for the largest flow, at least 10 s of this machine)
    #[arg(long, value_name = "TIME", value_parser = time)]
    patience: Option<Duration>,
    /// What goes wrong on a node at a time of the fabric since the run's beginning (repeatable):
    /// 'TIME NODE down PORT TIME', 'TIME NODE restart TIME', 'TIME NODE lose-pauses 5%' or 'TIME NODE
    /// run COMMAND'; at 0ns it is done before the first flow starts
    #[arg(long, value_name = "TIME NODE WHAT")]
    fault: Vec<Fault>,
    /// Hosts use IPv6
    #[arg(long)]
    pub(crate) ipv6: bool,
    /// The folder for results: SCHEME-seedN.jsonl, of an experiment in folders of its own
    #[arg(long, value_name = "FOLDER", default_value = "results")]
    pub(crate) out: PathBuf,
    /// Name of the testbeds that are made and removed
    #[arg(long, value_name = "NAME", default_value = "run")]
    pub(crate) testbed: String,
    /// Print what would be run
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON: the summaries
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) experiment: experiments::Options,
    /// The options that were said.
    #[arg(skip)]
    pub(crate) said: Vec<String>,
    /// What was said of all this, as results repeat it.
    #[arg(skip)]
    pub(crate) words: Vec<String>,
}

/// Options that say which of several runs it is, or where and how it is done, but not what: they go
/// with an experiment, and none of its runs has its own.
pub(crate) const OF_EXPERIMENTS: [&str; 9] = [
    "seed", "out", "testbed", "dry_run", "json", "quiet", "scale", "again", "judge",
];
/// Those of them that go with nothing else.
const ONLY_OF_EXPERIMENTS: [&str; 3] = ["scale", "again", "judge"];

impl Args {
    /// Reads the words after `weft run`.
    ///
    /// # Errors
    ///
    /// If they are no command line of it: one sentence.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let command = <Self as clap::Args>::augment_args(clap::Command::new("weft run"));
        let words = std::iter::once("weft run").chain(words.iter().map(String::as_str));
        let parsed = command.try_get_matches_from(words).and_then(|matches| {
            let mut args = <Self as clap::FromArgMatches>::from_arg_matches(&matches)?;
            args.remember(&matches);
            Ok(args)
        });
        parsed.or_else(|error| {
            let text = error.to_string();
            let sentence = text.lines().next().unwrap_or_default();
            usage(sentence.trim_start_matches("error: "))
        })
    }

    /// Takes from the parsed command line what was said, and what only has its default.
    pub(crate) fn remember(&mut self, matches: &ArgMatches) {
        let command = <Self as clap::Args>::augment_args(clap::Command::new("run"));
        let ids = command.get_arguments().map(|arg| arg.get_id().to_string());
        self.said = ids.filter(|id| is_said(matches, id)).collect();
        self.words = words(matches);
    }

    /// The first of these options that was said, as it is written, without its dashes.
    pub(crate) fn said_of(&self, options: &[&str]) -> Option<String> {
        let said = self.said.iter().find(|id| options.contains(&id.as_str()));
        said.map(|id| id.replace('_', "-"))
    }
}

fn is_said(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// The words of the command line that, with a scheme and a seed, run the same again.
fn words(matches: &ArgMatches) -> Vec<String> {
    let command = <Args as clap::Args>::augment_args(clap::Command::new("run"));
    let mut words = Vec::new();
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        // Results say their scheme for themselves.
        if !is_said(matches, id) || id == "scheme" || OF_EXPERIMENTS.contains(&id) {
            continue;
        }
        let option = arg.get_long().map(|long| format!("--{long}"));
        if !arg.get_action().takes_values() {
            words.extend(option);
            continue;
        }
        for value in matches.get_raw(id).into_iter().flatten() {
            words.extend(option.clone());
            words.push(value.to_string_lossy().into_owned());
        }
    }
    words
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Connection {
    /// A new one for each flow
    Flow,
    /// Those that its pair of hosts has open, and a new one if all are busy
    Pair,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum From {
    /// The first byte is handed to the kernel: opening a connection is not part of it
    FirstByte,
    /// The flow's start: it is
    Start,
}

/// A time of the fabric.
fn time(text: &str) -> Result<Duration, String> {
    match text.parse::<Delay>() {
        Ok(time) => Ok(Duration::from_nanos(time.ns())),
        Err(_) => Err("expected a time up to 10s, such as 100us".to_owned()),
    }
}

/// Refuses a value that is there twice: its results would be one file.
pub(crate) fn each_once<T: PartialEq + std::fmt::Display>(
    option: &str,
    values: &[T],
) -> Result<()> {
    let mut places = values.iter().enumerate();
    match places.find(|(place, value)| values[..*place].contains(value)) {
        Some((_, value)) => usage(format!("{option}: {value} is there twice")),
        None => Ok(()),
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(experiment) = experiments::named(&args.fabric.topology)? {
        let unfit = |id: &&String| *id != "topology" && !OF_EXPERIMENTS.contains(&id.as_str());
        if let Some(id) = args.said.iter().find(unfit) {
            let option = if id == "settings" { "set" } else { id };
            return usage(format!(
                "--{}: the experiment says itself what is run; weft experiments export {} mine.toml makes one to change",
                option.replace('_', "-"),
                experiment.name
            ));
        }
        return experiments::perform(&experiment, args);
    }
    if let Some(option) = args.said_of(&ONLY_OF_EXPERIMENTS) {
        return usage(format!(
            "--{option} is for experiments; weft experiments lists them"
        ));
    }
    each_once("--scheme", &args.scheme)?;
    each_once("--seed", &args.seed)?;
    let mut fabrics = Vec::new();
    for scheme in &args.scheme {
        fabrics.push(checked(args, scheme)?);
    }
    if args.dry_run {
        for fabric in &fabrics {
            for seed in &args.seed {
                output::print(format!(
                    "{} on {}, seed {seed} -> {}",
                    fabric.scheme.name,
                    fabric.title,
                    file(&args.out, &fabric.scheme.name, *seed).display()
                ))?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let _folder = Folder::make(&args.out)?;
    let cancel = prepare()?;
    let mut files = Vec::new();
    let mut valid = true;
    for fabric in &fabrics {
        for &seed in &args.seed {
            let path = file(&args.out, &fabric.scheme.name, seed);
            let outcome = one(args, fabric, seed, &path, &cancel)?;
            if outcome.cancelled {
                return interrupted(&path);
            }
            valid &= outcome.summary.valid;
            files.push(path.to_string_lossy().into_owned());
        }
    }
    let groups = results::group(results::read(&files)?);
    if args.json {
        let summaries: Vec<_> = groups.iter().flat_map(|group| &group.runs).collect();
        let summaries: Vec<_> = summaries
            .iter()
            .map(|run| (&run.header, &run.summary))
            .collect();
        output::json(&summaries)?;
    } else {
        output::print(compare::table::text(&groups, compare::Times::Both))?;
    }
    // It was done, but it is not to be believed.
    Ok(if valid {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The fabric under a scheme. Everything that can be wrong is, before anything is woven.
///
/// # Errors
///
/// If an option is not as it must be: one sentence.
pub(crate) fn checked(args: &Args, scheme: &str) -> Result<Fabric> {
    let fabric = Fabric::new(&args.fabric, scheme)?;
    for fault in &args.fault {
        fault.check(&fabric, args.ipv6)?;
    }
    for &seed in &args.seed {
        args.workload
            .workload(&fabric.topology, &fabric.framing(args.ipv6)?, seed)?;
        testbed::plan(&args.testbed, &fabric)?;
    }
    Ok(fabric)
}

/// Once, before the first run. Ctrl-C ends the run that is under way.
pub(crate) fn prepare() -> Result<Arc<Cancel>> {
    raise_descriptor_limit()?;
    let cancel = Arc::new(Cancel::new()?);
    let interrupt = Arc::clone(&cancel);
    ctrlc::set_handler(move || interrupt.cancel()).context("catching Ctrl-C")?;
    Ok(cancel)
}

pub(crate) fn interrupted(path: &Path) -> Result<ExitCode> {
    eprintln!("weft: interrupted; {} is of a part of it", path.display());
    Ok(ExitCode::from(130))
}

/// Where a run's results go.
pub(crate) fn file(folder: &Path, scheme: &str, seed: u64) -> PathBuf {
    folder.join(format!("{scheme}-seed{seed}.jsonl"))
}

/// A folder for results. If it was made and nothing came into it, it goes when this does.
struct Folder<'a>(Option<&'a Path>);

impl<'a> Folder<'a> {
    fn make(path: &'a Path) -> Result<Self> {
        let made = !path.exists();
        fs::create_dir_all(path)
            .with_context(|| format!("making the folder {}", path.display()))?;
        Ok(Self(made.then_some(path)))
    }
}

impl Drop for Folder<'_> {
    fn drop(&mut self) {
        // Refused if there is something in it.
        let _ = self.0.map(fs::remove_dir);
    }
}

/// A testbed that goes when this does.
struct Temporary<'a>(&'a str);

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Err(error) = testbed::remove(self.0) {
            eprintln!("weft: {error:#}; weft down {} tries again", self.0);
        }
    }
}

pub(crate) fn one(
    args: &Args,
    fabric: &Fabric,
    seed: u64,
    path: &Path,
    cancel: &Cancel,
) -> Result<crate::trial::Outcomes> {
    let framing = fabric.framing(args.ipv6)?;
    let (workload, said) = args.workload.workload(&fabric.topology, &framing, seed)?;
    let plan = testbed::plan(&args.testbed, fabric)?;
    let testbed = testbed::weave(&plan, &fabric.scheme)?;
    let _removed = Temporary(&args.testbed);
    let tagged = fabric.scheme.description.tag.is_some();
    let _membership = tagged
        .then(|| Group::of(&args.testbed).enter())
        .transpose()?;
    let dilation = fabric.dilation.get();
    let slowed = |time: Duration| time * dilation;
    let trial = Trial {
        topology: &fabric.topology,
        dilation: fabric.dilation,
        framing,
        workload: &workload,
        header: Header {
            format: FORMAT,
            weft: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: kernel(),
            seed,
            topology: fabric.title.clone(),
            scheme: fabric.scheme.name.clone(),
            parameters: fabric.parameters(),
            workload: said,
            dilation: f64::from(dilation),
            buckets: BUCKETS.to_vec(),
            options: args.words.clone(),
        },
        config: Config {
            connections: match args.connection {
                Connection::Flow => Connections::PerFlow,
                Connection::Pair => Connections::Persistent { ahead: 1 },
            },
            declare_size: tagged,
            patience: args.patience.map_or_else(|| patience(fabric), slowed),
            ..Config::default()
        },
        since: match args.time_from {
            From::FirstByte => Since::FirstByte,
            From::Start => Since::Start,
        },
        slack: fabric.slack,
        sample: match args.sample {
            Some(time) => Some(slowed(time)).filter(|time| !time.is_zero()),
            None => Some(Duration::from_nanos(packet_ns(fabric) * SAMPLE_PACKETS)),
        },
        faults: Faults::new(&testbed, fabric, &args.fault)?,
    };
    let hosts = testbed::hosts(&testbed, &fabric.topology, args.ipv6)?;
    let mut ports = Sampled::new(&testbed, &fabric.topology)?;
    let created = File::create(path).with_context(|| format!("writing {}", path.display()))?;
    let mut out = BufWriter::new(created);
    let mut shown = Shown::new(&fabric.scheme.name, seed, args.quiet);
    trial.run(
        hosts,
        &mut ports,
        &mut out,
        &mut |it| shown.update(it),
        cancel,
    )
}

/// The release of the kernel that runs.
fn kernel() -> Option<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(release.trim().to_owned())
}

/// What a full packet takes on the fastest host link of the slowed fabric.
fn packet_ns(fabric: &Fabric) -> u64 {
    let topology = &fabric.slowed;
    let ports = topology.hosts().flat_map(|id| &topology.node(id).ports);
    let times = ports.map(|port| {
        let rate = topology.links()[port.link].wire.rate;
        rate.serialization_ns(topology::FRAME)
    });
    times.min().unwrap_or(1).max(1)
}

/// A flow of 100 MB alone on a host's link takes 82,000 packet times.
fn patience(fabric: &Fabric) -> Duration {
    const PACKETS: u64 = 1_000_000;
    Duration::from_nanos(packet_ns(fabric).saturating_mul(PACKETS)).max(Duration::from_secs(10))
}

/// Progress, on standard error.
struct Shown {
    what: String,
    begun: Instant,
    terminal: bool,
    quiet: bool,
    /// Per cent that was printed last.
    last: u64,
}

impl Shown {
    fn new(scheme: &str, seed: u64, quiet: bool) -> Self {
        Self {
            what: format!("{scheme}, seed {seed}"),
            begun: Instant::now(),
            terminal: std::io::stderr().is_terminal(),
            quiet,
            last: 0,
        }
    }

    fn update(&mut self, progress: Progress) {
        let Progress { flows, ended, .. } = progress;
        let percent = 100 * ended / flows.max(1);
        // A file gets a line for each tenth.
        let step = if self.terminal { 1 } else { 10 };
        if self.quiet || percent < self.last + step {
            return;
        }
        self.last = percent - percent % step;
        let elapsed = self.begun.elapsed();
        let left = elapsed.mul_f64((flows - ended) as f64 / ended.max(1) as f64);
        let (start, end) = if self.terminal {
            ("\r", "  ")
        } else {
            ("", "\n")
        };
        let clear = if self.terminal && ended == flows {
            "\n"
        } else {
            ""
        };
        eprint!(
            "{start}{}: {ended} of {flows} flows, about {:.0} s left{end}{clear}",
            self.what,
            left.as_secs_f64().ceil()
        );
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn said(line: &str) -> Vec<String> {
        let matches = crate::Cli::command().try_get_matches_from(line.split(' '));
        words(matches.unwrap().subcommand().unwrap().1)
    }

    fn args(line: &str) -> Args {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Args::parse(&words).unwrap()
    }

    #[test]
    fn what_decides_a_result_is_repeated_and_nothing_else() {
        let line = "weft run --seed 1,2 --scheme dctcp,pfabric --load=0.5 fat-tree:k=4 --dilation 1000 \
                    --set buffer=9 --set rto_min=1ms --only-incast --incast 8x20kB@300 --ipv6 --out x --json -q";
        let expected = "fat-tree:k=4 --dilation 1000 --set buffer=9 --set rto_min=1ms --load 0.5 \
                        --incast 8x20kB@300 --only-incast --ipv6";
        assert_eq!(said(line).join(" "), expected);
    }

    #[test]
    fn what_is_there_twice_is_refused() {
        each_once("--seed", &[1, 2, 3]).unwrap();
        let error = each_once("--seed", &[1, 2, 1]).unwrap_err();
        assert!(crate::error::is_usage(&error));
        assert_eq!(error.to_string(), "--seed: 1 is there twice");
    }

    #[test]
    fn an_experiments_runs_are_its_own() {
        let refused = |line: &str| {
            let error = run(&args(line)).unwrap_err();
            assert!(crate::error::is_usage(&error), "{error:#}");
            error.to_string()
        };
        assert!(refused("pfabric-fig4a --dilation 10").starts_with("--dilation: the experiment"));
        assert!(refused("pfabric-fig4a --scheme dctcp").starts_with("--scheme: the experiment"));
        assert!(refused("pfabric-fig4a --set buffer=1").starts_with("--set: the experiment"));
        assert!(refused("pfabric-fig4a --only-incast --incast 2x1kB@1").contains("-incast: "));
        assert!(refused("rack:hosts=2 --again").starts_with("--again is for experiments"));
    }

    #[test]
    fn defaults_are_not_repeated() {
        assert_eq!(said("weft run rack:hosts=4"), ["rack:hosts=4"]);
    }
}
