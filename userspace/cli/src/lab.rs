// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft lab`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::ArgMatches;
use serde::Serialize;
use weft_lab::error::usage;
use weft_lab::session::{Checked, Listener, Outcome, Session};
use weft_machine::transfer;
use weft_net::quoted;

use crate::arguments::{fabric, guest, said};
use crate::guests::Guests;
use crate::output;
use crate::session;
use crate::up;

/// Runs a person's own programs on a fabric: weaves it, runs a command, takes it down whatever
/// happens
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The command runs where weft does, and calls `weft exec`, `weft top` or `weft capture` for what happens on nodes; \
with --from it runs on that node. What --on names runs meanwhile: servers, other clients. It is started first, has \
100 ms to fail, and is ended when the command has; so is whatever else runs on the nodes. In the command line \
of --on, $node is the node's name, $dilation the dilation, and $bdp, $rtt and others are as in a scheme's files.

The command finds the testbed's name in WEFT_TESTBED, so that `weft exec` needs no --testbed, and the dilation in \
WEFT_DILATION. Its clock is the machine's: what takes 1 s there takes 1 ms of a fabric that is 1000 times slower. \
How long it took is printed on standard error, in both.

Where weft has its machine, all of it runs in a guest, in virtual time: the same words and --guest-seed give the \
same output to the byte. The guest has the files that --file hands over. --clock real is this machine's kernel. \
A command that only \
computes while it waits for something else to happen, without ever sleeping, waits forever there.

Exit status: the command's; 128 and its number if a signal ended it; 127 if there is no such command, 126 if it \
cannot be run; 1 or 2 if weft failed.

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
    /// What ports, hosts and routing get: a name of `weft schemes`, or a folder
    #[arg(long, default_value = "droptail")]
    scheme: String,
    /// The testbed's name: letters, digits and _
    #[arg(long, value_name = "NAME", default_value = "lab")]
    testbed: String,
    /// Run this there meanwhile, in the background (repeatable); NODES is a node, hosts, switches,
    /// first-host or a layer
    #[arg(long, num_args = 2, value_names = ["NODES", "COMMAND"])]
    on: Vec<String>,
    /// Begin when something listens there, at a TCP or UDP port, after 30 s at most (repeatable)
    #[arg(long, value_name = "NODE:PORT")]
    wait_for: Vec<Listener>,
    /// The node that the command runs on (default: none)
    #[arg(long, value_name = "NODE")]
    from: Option<String>,
    /// Keep what the processes of --on and of the scheme say in files there
    #[arg(long, value_name = "FOLDER")]
    logs: Option<PathBuf>,
    #[command(flatten)]
    guests: guest::Args,
    #[command(flatten)]
    session: session::Args,
    /// Without root: in a user namespace, with the qdiscs and congestion controls that this machine
    /// has loaded; no tags, which take root. The command, too, is root of that namespace, and sees
    /// no other network
    #[arg(long)]
    pub(crate) rootless: bool,
    /// Print commands that do the same, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON: exit status, times, and what the command and the processes printed
    #[arg(long, conflicts_with = "dry_run")]
    json: bool,
    /// Do not print how long it took
    #[arg(long, short)]
    quiet: bool,
    /// The command and its arguments; options of weft's own come before it
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// What was said of all this, for a guest.
    #[arg(skip)]
    words: Vec<OsString>,
}

/// Options that say where something runs and where its files go: a guest is told its own.
const OF_THE_HOST: [&str; 10] = [
    "clock", "machine", "memory", "timeout", "seed", "root", "file", "out", "logs", "rootless",
];
/// Where a guest leaves the files of `--logs`.
const LOGS: &str = "logs";

impl Args {
    /// Takes from the parsed command line what was said.
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
    /// What the command took, in time of the machine.
    machine_seconds: f64,
    /// The same in time of the fabric.
    seconds: f64,
    /// What weaving took, in time of the machine.
    weaving_seconds: f64,
    /// What the command printed.
    output: &'a str,
    processes: Vec<Process<'a>>,
}

#[derive(Serialize)]
struct Process<'a> {
    node: &'a str,
    command: &'a [String],
    /// How it ended, if it did by itself.
    ended: Option<String>,
    /// What it printed, on both.
    output: &'a str,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut on = args.on.chunks_exact(2);
    let processes = on.by_ref().map(|it| (it[0].clone(), it[1].clone()));
    let session = Session {
        fabric: args.fabric.options(&args.scheme),
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

/// The same in a guest.
fn in_guest(guests: &Guests, args: &Args) -> Result<ExitCode> {
    let mut words = args.words.iter().cloned();
    let mut command: Vec<OsString> = ["weft", "lab"].map(OsString::from).to_vec();
    command.extend(words.next());
    if args.logs.is_some() {
        command.extend(["--logs".into(), format!("/out/{LOGS}").into()]);
    }
    command.extend(words);
    let files = args.fabric.options(&args.scheme).files()?;
    let (status, tar) = args.session.run(guests, command, &files)?;
    if let Some(folder) = &args.logs {
        transfer::unpack_below(&tar, LOGS, folder)?;
    }
    Ok(status)
}

/// `lab: 2.300s of this machine, 2.300ms of the fabric (fat-tree:k=4, pfabric, 1000 times slower)`.
fn summary(checked: &Checked, took: Duration) -> String {
    let fabric = &checked.fabric;
    format!(
        "{}: {took:.3?} of this machine, {:.3?} of the fabric ({}, {}, {} times slower)",
        checked.plan.testbed(),
        took / fabric.dilation.get(),
        fabric.title,
        fabric.scheme.name,
        fabric.dilation
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

/// The same as commands.
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
