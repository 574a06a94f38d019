// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sweeps: several values of some options of `weft run` mean a run for each combination, in a
//! folder named after it. `weft sweep plan` writes the runs as a plan for other machines.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Subcommand, ValueEnum};
use weft_lab::error::usage;
use weft_lab::experiment::{self, Experiment};
use weft_lab::run::file;
use weft_words::shell::quoted;

use crate::arguments::run as arguments;
use crate::experiments::of_own_schemes;
use crate::output;

/// Plan the runs of a sweep for make or Slurm
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Runs are independent, and byte-identical on any machine. Several values make a sweep: --load 0.2,0.4, --set
buffer=24,48, several --scheme and --seed, --also TOPOLOGY. An experiment is a sweep too: gather its results,
then judge them.

Examples:
  weft sweep plan fat-tree:k=4 --dilation 1000 --scheme dctcp,pfabric --load 0.2,0.4,0.6 --seed 1,2,3,4,5 > Makefile
  make -j 8 && weft compare results/*/*.jsonl
  weft sweep plan --format slurm rack:hosts=8 --load 0.3,0.6 --seed 1,2,3,4,5 > job.sh && sbatch job.sh
  weft sweep plan --format slurm shoot-out > job.sh && sbatch --wait job.sh && weft run shoot-out --judge")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Write a Makefile or a Slurm array job
    Plan {
        /// Output format
        #[arg(long, value_enum, default_value_t = Format::Make)]
        format: Format,
        /// Arguments of `weft run`
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Make,
    Slurm,
}

/// A run of a plan.
struct Planned {
    file: PathBuf,
    command: String,
    /// Whether it is judged where its results are gathered. Such a run may be INVALID for `weft
    /// run`.
    is_judged: bool,
}

/// Runs, and the commands that process their results.
struct Plan {
    runs: Vec<Planned>,
    gathered_by: String,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Action::Plan { format, words } = &args.action;
    let args = arguments::Args::parse(words)?;
    let not_planned = [
        "dry_run", "json", "quiet", "again", "judge", "kept", "keep", "only_new", "pictures",
        "page", "testbed", "jobs", "progress",
    ];
    if let Some(option) = args.said_of(&not_planned) {
        return usage(format!("--{option} is not an option of a plan's runs"));
    }
    let plan = match experiment::named(&args.fabric.topology)? {
        Some(experiment) => of_experiment(&experiment, &args)?,
        None => of_run(&args)?,
    };
    output::print(match format {
        Format::Make => makefile(&plan)?,
        Format::Slurm => slurm(&plan),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn of_experiment(experiment: &Experiment, args: &arguments::Args) -> Result<Plan> {
    arguments::check_words(experiment, args)?;
    let asked = args.asked();
    let own = of_own_schemes(experiment, args)?;
    let runs = experiment::plan(
        own.as_ref().unwrap_or(experiment),
        &asked,
        &arguments::of_words,
    )?;
    let mut gathered_by = format!("weft run {}", quoted(&args.fabric.topology));
    let said = [
        (
            "scheme",
            own.as_ref().map(|_| quoted(&args.scheme.join(","))),
        ),
        ("scale", asked.scale.map(|it| it.to_string())),
        (
            "seed",
            asked.seeds.map(|seeds| {
                seeds
                    .iter()
                    .map(u64::to_string)
                    .collect::<Vec<_>>()
                    .join(",")
            }),
        ),
        (
            "out",
            args.said_of(&["out"])
                .map(|_| quoted(&args.out.display().to_string())),
        ),
    ];
    for (option, value) in said {
        if let Some(value) = value {
            gathered_by += &format!(" --{option} {value}");
        }
    }
    Ok(Plan {
        runs: runs
            .iter()
            .map(|planned| Planned {
                file: planned.file.clone(),
                command: args.guests.append_to(
                    planned.command() + " --quiet",
                    &args.said,
                    planned.memory,
                ),
                is_judged: true,
            })
            .collect(),
        gathered_by: gathered_by + " --judge",
    })
}

fn of_run(args: &arguments::Args) -> Result<Plan> {
    if let Some(option) = args.said_of(&["scale"]) {
        return usage(format!("--{option} is for experiments"));
    }
    let mut runs: Vec<Planned> = Vec::new();
    for variant in args.variants()? {
        let one = args.of_variant(&variant)?;
        for scheme in &one.scheme {
            let checked = one.run(scheme)?.checked(&one.seed)?;
            for &seed in &one.seed {
                let file = file(&one.out, &checked.fabric().scheme.name, seed);
                if runs.iter().any(|run| run.file == file) {
                    return usage(format!("two runs would be {}", file.display()));
                }
                let seed = seed.to_string();
                let out = one.out.display().to_string();
                let own = [
                    "--scheme", scheme, "--seed", &seed, "--out", &out, "--quiet",
                ];
                let all = variant.words.iter().map(String::as_str).chain(own);
                let command = all.fold("weft run".to_owned(), |text, word| {
                    text + " " + &quoted(word)
                });
                runs.push(Planned {
                    file,
                    command: args.guests.append_to(command, &args.said, None),
                    is_judged: false,
                });
            }
        }
    }
    let files: Vec<String> = runs
        .iter()
        .map(|run| quoted(&run.file.display().to_string()))
        .collect();
    Ok(Plan {
        gathered_by: format!("weft compare {}", files.join(" ")),
        runs,
    })
}

/// A comment of a Makefile or a shell script.
fn comment(text: &str) -> String {
    format!("# {}", text.replace('\n', "\n# "))
}

/// The shell command of a run. Each testbed has its own name, so that two runs on one machine do
/// not conflict. An experiment may accept a run whose exit status is 1. There, success means that
/// the file is new and ends with a summary: a run that fails half-way also has status 1, and one
/// that fails before leaves an older file.
fn line(run: &Planned, number: usize) -> String {
    let command = format!("{} --testbed sweep{number}", run.command);
    if run.is_judged {
        let file = quoted(&run.file.display().to_string());
        let written = format!("$(stat -c %y {file} 2>/dev/null || :)");
        format!(
            "before={written}; {command} || {{ [ $? = 1 ] && [ \"{written}\" != \"$before\" ] && \
             tail -n 1 {file} | grep -q '^{{\"record\":\"summary\".*}}$'; }}"
        )
    } else {
        command
    }
}

/// A path in the syntax of a Makefile.
///
/// # Errors
///
/// If make treats a character of it specially, and a backslash does not help everywhere: one
/// sentence.
fn of_make(path: &Path) -> Result<String> {
    let path = path.display().to_string();
    let special = |c: char| c.is_whitespace() || c.is_control() || "\\:#%*?[]~;|&()<>".contains(c);
    match path.chars().find(|c| special(*c)) {
        Some(char) => usage(format!(
            "make cannot name {path}, for `{char}`: --out names another folder, --format slurm takes any"
        )),
        // Otherwise make would read a line with `=` before its colon as a variable.
        None => Ok(path.replace('$', "$$").replace('=', "$(equals)")),
    }
}

fn makefile(plan: &Plan) -> Result<String> {
    let runs = &plan.runs;
    let files = runs.iter().map(|run| of_make(&run.file));
    let files = files.collect::<Result<Vec<String>>>()?;
    let mut text = format!(
        "# {} runs, byte-identical on any machine; existing results are not repeated.\n\
         {}\nequals := =\n.DELETE_ON_ERROR:\nall: \\\n  {}\n",
        runs.len(),
        comment(&format!("Gathered by: {}", plan.gathered_by)),
        files.join(" \\\n  ")
    );
    for (number, (run, file)) in runs.iter().zip(&files).enumerate() {
        let command = line(run, number).replace('$', "$$");
        if command.contains('\n') {
            return usage(format!(
                "make takes no line break in a command, as in `{}`: --format slurm does",
                run.command.replace('\n', "\\n")
            ));
        }
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{file}:\n\t{command}\n");
    }
    Ok(text)
}

fn slurm(plan: &Plan) -> String {
    let runs = &plan.runs;
    let last = runs.len().saturating_sub(1);
    let mut text = format!(
        "#!/bin/sh\n#SBATCH --array=0-{last}\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=1\n\
         # {} runs, byte-identical on any machine.\n{}\ncase \"$SLURM_ARRAY_TASK_ID\" in\n",
        runs.len(),
        comment(&format!("Gathered by: {}", plan.gathered_by))
    );
    for (number, run) in runs.iter().enumerate() {
        let command = line(run, number);
        let _ = writeln!(text, "{number}) {command} ;;");
    }
    text + "*) echo \"there is no run $SLURM_ARRAY_TASK_ID\" >&2; exit 2 ;;\nesac"
}
