// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft lab`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ArgMatches;
use serde::Serialize;
use weft_lab::error::usage;
use weft_lab::session::{Checked, Listener, Outcome, Session};
use weft_machine::transfer;
use weft_words::shell::quoted;

use crate::arguments::{fabric, guest, said};
use crate::guests::Guests;
use crate::output;
use crate::session;
use crate::up;

/// Run your own programs on a fabric: create it, run a command, remove it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The command runs outside of the fabric and uses `weft exec`, `weft top` or `weft capture` to reach nodes. With
--from it runs on a node. --on starts background programs first (servers, other clients): weft lab fails if
one of them fails within 100 ms. When the command ends, weft ends every process on the nodes. In a command
line of --on, $node is the node's name, $dilation the dilation, and $bdp, $rtt and others have their values as
in a scheme's files.

WEFT_TESTBED holds the testbed's name, so that `weft exec` needs no --testbed; WEFT_DILATION holds the
dilation. The command sees the machine's clock: at a dilation of 1000, 1 s of the command is 1 ms of the
fabric. weft prints the elapsed time in both on standard error.

If weft has its guest image, all of this runs in a guest in virtual time: the same command line and
--guest-seed give byte-identical output. --clock real uses this machine's kernel instead. Under the model
clock a command that polls without ever sleeping waits forever.

Exit status: the command's; 128 plus the signal's number if a signal ended it; 127 if the command does not
exist, 126 if it cannot be executed; 1 or 2 if weft failed.

Examples:
  weft lab fat-tree:k=4 --dilation 1000 --on h3 'iperf3 -s' --from h7 iperf3 -c h3 -t 5
  weft lab fat-tree:k=4 --dilation 1000 --scheme pfabric --on h3 'redis-server --protected-mode no' \\
      --wait-for h3:6379 --from h7 redis-benchmark -h h3 -n 1000 -q
  weft lab rack:hosts=8 --dilation 100 sh -e experiment.sh      with weft exec h0 … & in it
  weft lab rack:hosts=2 --on h0 'python3 -m http.server' --json --from h1 curl -s http://h0:8000/
  weft lab rack:hosts=2 --rootless --from h1 ping -c 3 h0
  weft lab rack:hosts=2 --on hosts 'agent --name $node' --dry-run true")]
pub(crate) struct Args {
    #[command(flatten)]
    fabric: fabric::Args,
    /// Scheme: a name from `weft schemes`, or a folder
    #[arg(long, default_value = "droptail")]
    scheme: String,
    /// Name of the testbed: letters, digits and _
    #[arg(long, value_name = "NAME", default_value = "lab")]
    testbed: String,
    /// Run COMMAND in the background on NODES: a node, hosts, switches, first-host or a layer
    /// (repeatable)
    #[arg(long, num_args = 2, value_names = ["NODES", "COMMAND"])]
    on: Vec<String>,
    /// Start the command when a program listens on this TCP or UDP port; fail after 30 s
    /// (repeatable)
    #[arg(long, value_name = "NODE:PORT")]
    wait_for: Vec<Listener>,
    /// Run the command on this node (default: outside of the fabric)
    #[arg(long, value_name = "NODE")]
    from: Option<String>,
    /// Write the output of --on commands and of the scheme's daemons to files in FOLDER
    #[arg(long, value_name = "FOLDER")]
    logs: Option<PathBuf>,
    #[command(flatten)]
    guests: guest::Args,
    #[command(flatten)]
    session: session::Args,
    /// Run without root, in a user namespace. Only loaded qdiscs and congestion controls are
    /// available, and no tags. The command is root in that namespace and sees no other network
    #[arg(long)]
    pub(crate) rootless: bool,
    /// Print the equivalent commands and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON: exit status, times, and the output of the command and the background processes
    #[arg(long, conflicts_with = "dry_run")]
    json: bool,
    /// Do not print the elapsed time
    #[arg(long, short)]
    quiet: bool,
    /// Command and arguments; weft's own options come before it
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// The words of the command line, for a guest.
    #[arg(skip)]
    words: Vec<OsString>,
}

/// Options about the host's files and machine, which a guest gets with its own values.
const OF_THE_HOST: [&str; 10] = [
    "clock", "machine", "memory", "timeout", "seed", "root", "file", "out", "logs", "rootless",
];
/// The guest's folder for the files of `--logs`.
const LOGS: &str = "logs";

impl Args {
    /// Notes the options that were given.
    pub(crate) fn remember(&mut self, matches: &ArgMatches) {
        self.words = said::words::<Self>(matches, &OF_THE_HOST);
    }
}

#[derive(Serialize)]
struct Report<'a> {
    testbed: &'a str,
    topology: &'a str,
    scheme: &'a str,
    dilation: u32,
    from: Option<&'a str>,
    command: Vec<String>,
    /// The exit status.
    status: u8,
    /// The duration of the command in machine time.
    machine_seconds: f64,
    /// The same in fabric time.
    seconds: f64,
    /// The duration of creating the fabric, in machine time.
    weaving_seconds: f64,
    /// The output of the command.
    output: &'a str,
    processes: Vec<Process<'a>>,
}

#[derive(Serialize)]
struct Process<'a> {
    node: &'a str,
    command: &'a [String],
    /// How it ended, if it ended by itself.
    ended: Option<String>,
    /// Its output, standard output and error together.
    output: &'a str,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut on = args.on.chunks_exact(2);
    let processes = on.by_ref().map(|it| (it[0].clone(), it[1].clone()));
    let session = Session {
        fabric: args.fabric.options(&args.scheme)?,
        testbed: args.testbed.clone(),
        processes: processes.collect(),
        listeners: args.wait_for.clone(),
        from: args.from.clone(),
        command: args.command.clone(),
        logs: args.logs.clone(),
        is_captured: args.json,
    };
    let checked = session.checked()?;
    if !args.dry_run
        && let Some(guests) = Guests::find(&args.guests, args.rootless)?
    {
        return in_guest(&guests, args);
    }
    if args.session.is_said() {
        return usage("--file and --out are a guest's");
    }
    if args.dry_run {
        output::print(script(args, &checked)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let outcome = checked.perform()?;
    if let Some(why) = &outcome.not_started {
        eprintln!("weft: {why}");
    }
    for told in &outcome.processes {
        if let Some(status) = told.ended.filter(|status| !status.success()) {
            let mut lines = told.output.lines().rev().map(str::trim);
            let last = lines.find(|line| !line.is_empty());
            let said = last.map_or(" and said nothing".to_owned(), |last| format!(": {last}"));
            let (node, process) = (&told.process.node, &told.process);
            eprintln!("weft: {node}: `{process}` ended ({status}){said}");
        }
    }
    if args.json {
        output::json(&report(args, &checked, &outcome))?;
    } else if !args.quiet {
        eprintln!("{}", summary(&checked, outcome.took));
    }
    Ok(ExitCode::from(outcome.status))
}

/// Runs the lab in a guest.
fn in_guest(guests: &Guests, args: &Args) -> Result<ExitCode> {
    let mut words = args.words.iter().cloned();
    let mut command: Vec<OsString> = ["weft", "lab"].map(OsString::from).to_vec();
    command.extend(words.next());
    if args.logs.is_some() {
        command.extend(["--logs".into(), format!("/out/{LOGS}").into()]);
    }
    command.extend(words);
    let files = args.fabric.options(&args.scheme)?.files()?;
    if let Some(folder) = &args.logs {
        output::require_folder(folder).context("--logs")?;
    }
    let (status, tar) = args.session.run(guests, command, &files)?;
    if let Some(folder) = &args.logs {
        transfer::unpack_below(&tar, LOGS, folder)?;
    }
    Ok(status)
}

/// `lab: 2.300s of this machine, 2.300ms of the fabric (fat-tree:k=4, pfabric, 1000 times slower)`.
fn summary(checked: &Checked, took: Duration) -> String {
    let fabric = &checked.fabric;
    let (testbed, title, scheme) = (checked.plan.testbed(), &fabric.title, &fabric.scheme.name);
    let factor = fabric.dilation.get();
    if factor == 1 {
        return format!("{testbed}: {took:.3?} ({title}, {scheme})");
    }
    let of_fabric = took / factor;
    format!(
        "{testbed}: {took:.3?} of this machine, {of_fabric:.3?} of the fabric ({title}, {scheme}, \
         {factor} times slower)"
    )
}

fn report<'a>(args: &'a Args, checked: &'a Checked, outcome: &'a Outcome) -> Report<'a> {
    let fabric = &checked.fabric;
    let words = args
        .command
        .iter()
        .map(|it| it.to_string_lossy().into_owned());
    let processes = outcome.processes.iter().map(|told| Process {
        node: &told.process.node,
        command: &told.process.words,
        ended: told.ended.map(|status| status.to_string()),
        output: &told.output,
    });
    Report {
        testbed: &args.testbed,
        topology: &fabric.title,
        scheme: &fabric.scheme.name,
        dilation: fabric.dilation.get(),
        from: args.from.as_deref(),
        command: words.collect(),
        status: outcome.status,
        machine_seconds: outcome.took.as_secs_f64(),
        seconds: outcome.took.as_secs_f64() / f64::from(fabric.dilation.get()),
        weaving_seconds: outcome.weaving.as_secs_f64(),
        output: outcome.output.as_deref().unwrap_or_default(),
        processes: processes.collect(),
    }
}

/// The equivalent commands.
fn script(args: &Args, checked: &Checked) -> Result<String> {
    let testbed = &args.testbed;
    let mut text = up::script(&checked.plan, &checked.fabric);
    text += &format!("\n# programs of one's own\nexport WEFT_TESTBED={testbed}");
    text += &format!(" WEFT_DILATION={}\n", checked.fabric.dilation);
    for process in &checked.processes {
        text += &format!("weft exec {} {process} &\n", process.node);
    }
    for Listener { node, port } in &args.wait_for {
        text += &format!(
            "until weft exec {node} ss -Hltun sport = :{port} | grep -q .; do sleep 0.01; done\n"
        );
    }
    let words = args.command.iter().map(|word| match word.to_str() {
        Some(word) => Ok(quoted(word)),
        None => usage("the command has a word that is no text"),
    });
    let words: Vec<String> = words.collect::<Result<_>>()?;
    if let Some(node) = &args.from {
        text += &format!("weft exec {node} ");
    }
    text += &format!("{}\n\nweft down --kill {testbed}", words.join(" "));
    Ok(text)
}
