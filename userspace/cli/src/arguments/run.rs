// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line of `weft run`.

use std::ops::Bound;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::parser::ValueSource;
use clap::{ArgMatches, ValueEnum};
use weft_arguments::{real, whole};
use weft_lab::error::usage;
use weft_lab::experiment::{Asked, Experiment};
use weft_lab::fault::Fault;
use weft_lab::run::Run;
use weft_load::engine::{Connections, Since};

use super::variants::{Variant, variants};
use super::{fabric, guest, time, traffic};

/// The default folder for results.
pub(crate) const RESULTS: &str = "results";

/// Run a workload on a fabric and measure flow completion times, or run an experiment by name
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each run writes a JSON Lines file: a header, one line per flow and port sample, a summary. Do not use a run
whose summary says INVALID: a timer was late, the processor was busy, a buffer was too small, or similar. The
summary gives the reason.

Instead of a topology, name an experiment (weft experiments) or its file: weft runs it and judges the paper's
claims. Exit status 1: a claim does not hold. With --scheme it runs other schemes in place of the experiment's, and
shows their figures beside the kept ones, without claims.

Examples:
  weft run pfabric-fig4a
  weft run shoot-out --scheme ./mine
  weft run fat-tree:k=4 --dilation 1000 --scheme droptail,dctcp,pfabric --load 0.6 --flows 600 --out results
  weft run fat-tree:k=4 --dilation 1000 --scheme dctcp,pfabric --load 0.2,0.4,0.6 --seed 1,2,3,4,5
  weft run leaf-spine:leaves=4,spines=2,hosts=4 --dilation 1000 --scheme pfabric --workload data-mining --seed 1,2,3
  weft run rack:hosts=10 --dilation 1000 --scheme dctcp --only-incast --incast 8x20kB@300 --flows 400
  weft run rack:hosts=4 --dilation 1000 --workload fixed:1MB --pairs permutation --arrivals closed
  weft run rack:hosts=4 --dilation 1000 --scheme bfc --fault '300us tor0 down h0 50us'")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) fabric: fabric::Args,
    /// Schemes: names from `weft schemes` or folders, separated by commas; one run each. With an
    /// experiment: only these run, and their figures are shown beside its kept ones
    #[arg(long, value_delimiter = ',', default_value = "droptail")]
    pub(crate) scheme: Vec<String>,
    /// Run the same on another topology too (repeatable)
    #[arg(long, value_name = "TOPOLOGY")]
    also: Vec<String>,
    #[command(flatten)]
    traffic: traffic::Args,
    /// Seeds of the workload, separated by commas; one run each
    #[arg(long, value_delimiter = ',', default_value = "1", allow_negative_numbers = true, value_parser = whole(0..=u64::MAX))]
    pub(crate) seed: Vec<u64>,
    /// Connection of a flow: `flow` opens a new one; `pair` reuses an idle connection of its pair
    /// of hosts, or opens one if all are busy; `pair:N` opens N per pair before the run (pair: 1)
    #[arg(long, value_name = "flow|pair[:N]", value_parser = connection, default_value = "flow")]
    connection: Connections,
    /// Start of a flow's completion time
    #[arg(long, value_enum, default_value_t = From::FirstByte)]
    time_from: From,
    /// Interval between samples of ports, in fabric time (default: 100 packet times of a host link,
    /// or more in long runs, for about 500 samples, or fewer if the fabric has more than 1,000
    /// ports; 0ns: none)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    sample: Option<Duration>,
    /// Include every port in each sample, not only ports with a backlog, to record the rate of each
    /// over time
    #[arg(long)]
    sample_all: bool,
    /// Count each flow's packets, and the packets that took more hops than a shortest path (not for
    /// flows on a reused connection)
    #[arg(long)]
    hops: bool,
    /// Follow the packets to a host: record the path of the packet with the most hops, and the
    /// number of packets that took more than a shortest path
    #[arg(long, value_name = "HOST")]
    follow: Option<String>,
    /// Longest wait for flows after the last one has started, in fabric time (default: 100 times
    /// the largest flow's time at the rate of a host link, at least 10 s of this machine)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    patience: Option<Duration>,
    /// Inject a fault on a node, TIME after the start of the run in fabric time (repeatable): 'TIME
    /// NODE down PORT TIME', 'TIME NODE restart TIME', 'TIME NODE lose-pauses 5%' or 'TIME NODE run
    /// COMMAND', which runs COMMAND by `sh -e`. At 0ns it happens before the first flow starts
    #[arg(long, value_name = "TIME NODE WHAT")]
    fault: Vec<Fault>,
    /// Use IPv6 between hosts
    #[arg(long)]
    ipv6: bool,
    /// Have the kernel send and discard the bytes of flows from 64 KiB on by itself: takes less
    /// processor time. Packets may change places within an instant
    #[arg(long)]
    pump: bool,
    /// Run without root, in a user namespace. Only loaded qdiscs and congestion controls are
    /// available, and no tags
    #[arg(long)]
    pub(crate) rootless: bool,
    /// Folder for results, SCHEME-seedN.jsonl. An experiment, and each of several values (--load
    /// 0.2,0.4), has a folder of its own
    #[arg(long, value_name = "FOLDER", default_value = RESULTS)]
    pub(crate) out: PathBuf,
    /// Name of the temporary testbeds
    #[arg(long, value_name = "NAME", default_value = "run")]
    pub(crate) testbed: String,
    /// Print the runs and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print summaries as JSON; with --dry-run the runs
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) guests: guest::Args,
    #[command(flatten)]
    pub(crate) jobs: guest::Jobs,
    #[command(flatten)]
    pub(crate) experiment: Options,
    /// The options that were given on the command line.
    #[arg(skip)]
    pub(crate) said: Vec<String>,
    /// The words of the command line, as results repeat them.
    #[arg(skip)]
    words: Vec<String>,
}

/// Options that select one of several runs, or state where and how it runs. They can be given with
/// an experiment; its runs cannot set them.
pub(crate) const OF_EXPERIMENTS: [&str; 20] = [
    "seed", "out", "testbed", "dry_run", "json", "quiet", "clock", "machine", "memory", "timeout",
    "jobs", "progress", "scale", "again", "judge", "kept", "keep", "only_new", "pictures", "page",
];
/// Those that need an experiment.
pub(crate) const ONLY_OF_EXPERIMENTS: [&str; 7] = [
    "scale", "judge", "kept", "keep", "only_new", "pictures", "page",
];

impl Args {
    /// The options for an experiment.
    pub(crate) fn asked(&self) -> Asked {
        Asked {
            scale: self.experiment.scale,
            seeds: self.said_of(&["seed"]).map(|_| self.seed.clone()),
            out: self.out.clone(),
            testbed: self.testbed.clone(),
        }
    }

    /// Parses the words after `weft run`.
    ///
    /// # Errors
    ///
    /// If they are not a valid command line: one sentence.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let command = <Self as clap::Args>::augment_args(clap::Command::new("weft run"));
        let words = std::iter::once("weft run").chain(words.iter().map(String::as_str));
        let parsed = command.try_get_matches_from(words).and_then(|matches| {
            let mut args = <Self as clap::FromArgMatches>::from_arg_matches(&matches)?;
            args.remember(&matches);
            Ok(args)
        });
        parsed.or_else(|error| {
            if !error.use_stderr() {
                return usage("`weft run --help` describes the options of a run");
            }
            // The first paragraph. Its further lines list what is missing or possible.
            let text = error.to_string();
            let lines = text.lines().take_while(|line| !line.is_empty());
            let sentence = lines.map(str::trim).collect::<Vec<_>>().join(" ");
            usage(sentence.trim_start_matches("error: "))
        })
    }

    /// Notes which options of the parsed command line were given, and which have their defaults.
    pub(crate) fn remember(&mut self, matches: &ArgMatches) {
        let command = <Self as clap::Args>::augment_args(clap::Command::new("run"));
        let ids = command.get_arguments().map(|arg| arg.get_id().to_string());
        self.said = ids.filter(|id| is_said(matches, id)).collect();
        self.words = words(matches);
    }

    /// The combinations of values on the command line.
    ///
    /// # Errors
    ///
    /// If an option has a value twice: one sentence.
    pub(crate) fn variants(&self) -> Result<Vec<Variant>> {
        variants(&self.words)
    }

    /// The same arguments with one combination of values, whose results are in a separate folder.
    ///
    /// # Errors
    ///
    /// If the result is not a valid command line: one sentence.
    pub(crate) fn of_variant(&self, variant: &Variant) -> Result<Self> {
        let mut args = Self::parse(&variant.words)?;
        args.scheme.clone_from(&self.scheme);
        args.seed.clone_from(&self.seed);
        args.testbed.clone_from(&self.testbed);
        args.out = match &variant.folder {
            Some(folder) => self.out.join(folder),
            None => self.out.clone(),
        };
        Ok(args)
    }

    /// The run under a scheme.
    ///
    /// # Errors
    ///
    /// If an option is invalid: one sentence.
    pub(crate) fn run(&self, scheme: &str) -> Result<Run> {
        if !self.also.is_empty() {
            return usage("--also: one topology a run");
        }
        if self.traffic.is_closed()
            && let Some(option) = self.said_of(&["load", "load_of", "count"])
        {
            return usage(format!(
                "--{option}: there is no load with --arrivals closed, because flows start when others end"
            ));
        }
        Ok(Run {
            fabric: self.fabric.options(scheme)?,
            traffic: self.traffic.traffic()?,
            connections: self.connection,
            since: match self.time_from {
                From::FirstByte => Since::FirstByte,
                From::Start => Since::Start,
            },
            sample: self.sample,
            sample_all: self.sample_all,
            hops: self.hops,
            follow: self.follow.clone(),
            patience: self.patience,
            faults: self.fault.clone(),
            ipv6: self.ipv6,
            pump: self.pump,
            testbed: self.testbed.clone(),
            words: self.words.clone(),
        })
    }

    /// The first of these options that was given, as written but without its dashes.
    pub(crate) fn said_of(&self, options: &[&str]) -> Option<String> {
        let said = self.said.iter().find(|id| options.contains(&id.as_str()));
        said.map(|id| id.replace('_', "-"))
    }
}

/// Parses a run of an experiment: the words after `weft run`.
///
/// # Errors
///
/// If they are not a valid command line, have several schemes, or set an option that the experiment
/// sets: one sentence.
pub(crate) fn of_words(words: &[String]) -> Result<Run> {
    let args = Args::parse(words)?;
    if let Some(option) = args.said_of(&OF_EXPERIMENTS) {
        return usage(format!("--{option} is not a run's own"));
    }
    match args.scheme.as_slice() {
        [scheme] => args.run(scheme),
        _ => usage("one scheme a run; several are values of each.scheme"),
    }
}

fn is_said(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// The words of the command line that, with a scheme and a seed, repeat the run.
fn words(matches: &ArgMatches) -> Vec<String> {
    let command = <Args as clap::Args>::augment_args(clap::Command::new("run"));
    let mut words = Vec::new();
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        // Results have a separate field for the scheme.
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
enum From {
    /// When the first byte is passed to the kernel: excludes opening a connection
    FirstByte,
    /// When the flow starts: includes opening a connection
    Start,
}

fn connection(text: &str) -> Result<Connections, String> {
    /// Maximum per pair: with 16, all pairs of 128 hosts have 260,000 sockets.
    const MOST: u32 = 16;
    let ahead = match text {
        "flow" => return Ok(Connections::PerFlow),
        "pair" => Some(1),
        _ => text.strip_prefix("pair:").and_then(|n| n.parse().ok()),
    };
    match ahead {
        Some(ahead @ 1..=MOST) => Ok(Connections::Persistent { ahead }),
        _ => Err(format!(
            "expected flow, pair, or pair:N, N from 1 to {MOST}"
        )),
    }
}

/// Options of an experiment.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Experiments")]
pub(crate) struct Options {
    /// Multiply the number of flows by FACTOR (if the experiment has a number of flows)
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true, value_parser = real((Bound::Excluded(0.0), Bound::Included(1e6))))]
    pub(crate) scale: Option<f64>,
    /// Repeat runs whose results exist (default: skip them)
    #[arg(long)]
    pub(crate) again: bool,
    /// Run nothing; judge the existing results
    #[arg(long, conflicts_with_all = ["again", "dry_run"])]
    pub(crate) judge: bool,
    /// Run nothing; print weft's own kept results, which have the hash of each run
    #[arg(long, conflicts_with_all = ["again", "dry_run", "judge", "scale", "seed", "out"])]
    pub(crate) kept: bool,
    /// Write what weft keeps to DIR/kept and DIR/fingerprints; print nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dry_run", "kept", "json", "pictures", "page"])]
    pub(crate) keep: Option<PathBuf>,
    /// With --keep: run only what DIR lacks, has with another command, or has of an earlier source
    /// (and what is compared with that), and keep its other figures and verdicts
    #[arg(long, requires = "keep", conflicts_with_all = ["again", "scale", "seed"])]
    pub(crate) only_new: bool,
    /// Draw each table (DIR/NAME-1.svg and so on) and the experiment's own pictures
    #[arg(long, value_name = "DIR", conflicts_with = "dry_run")]
    pub(crate) pictures: Option<PathBuf>,
    /// Write a page with findings, figures, claims and commands: HTML, or, if FILE ends in .md,
    /// Markdown with pictures in a folder `pictures` beside it
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub(crate) page: Option<PathBuf>,
}

/// Refuses options that an experiment sets itself.
pub(crate) fn check_words(experiment: &Experiment, args: &Args) -> Result<()> {
    if args.said_of(&["scheme"]).is_some()
        && let Some(option) = args.said_of(&["kept", "keep"])
    {
        return usage(format!("--{option} is for the experiment's own schemes"));
    }
    let fits = |id: &str| ["topology", "scheme"].contains(&id) || OF_EXPERIMENTS.contains(&id);
    let Some(id) = args.said.iter().find(|id| !fits(id)) else {
        return Ok(());
    };
    let option = if id == "settings" { "set" } else { id };
    usage(format!(
        "--{}: the experiment sets this itself; `weft experiments export {} mine.toml` writes a copy to edit",
        option.replace('_', "-"),
        experiment.name
    ))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn said(line: &str) -> Vec<String> {
        let matches = crate::Cli::command().try_get_matches_from(line.split(' '));
        words(matches.unwrap().subcommand().unwrap().1)
    }

    #[test]
    fn a_repeated_command_has_the_options_that_decide_a_result_and_no_other() {
        let line = "weft run --seed 1,2 --scheme dctcp,pfabric --load=0.5 fat-tree:k=4 --dilation 1000 \
                    --set buffer=9 --set rto_min=1ms --incast 8x20kB@300 --ipv6 --out x --json -q";
        let expected = "fat-tree:k=4 --dilation 1000 --set buffer=9 --set rto_min=1ms --load 0.5 \
                        --incast 8x20kB@300 --ipv6";
        assert_eq!(said(line).join(" "), expected);
    }

    #[test]
    fn a_repeated_command_omits_defaults() {
        assert_eq!(said("weft run rack:hosts=4"), ["rack:hosts=4"]);
    }
}
