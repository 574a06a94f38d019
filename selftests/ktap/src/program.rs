// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line of a test program.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;

use crate::run::{self, Part, Selection, Suite};

/// Exit status for wrong usage.
const USAGE: u8 = 2;

/// A test program.
#[derive(Clone, Copy)]
pub struct Program {
    /// The executable's.
    pub name: &'static str,
    /// How its help begins.
    pub about: &'static str,
    /// Its tests, in the order in which they run.
    pub parts: &'static [Part],
    /// What it does besides testing.
    pub subcommands: &'static [Subcommand],
    /// Whether a warning of the kernel fails the test that runs meanwhile: where nobody else makes
    /// the kernel warn.
    pub watch_kernel_log: bool,
    /// Called before the first test.
    pub prepare: fn(),
    /// Called after each test; its error is the test's failure.
    pub settle: fn() -> Result<()>,
}

/// What a test program does besides testing.
#[derive(Clone, Copy)]
pub struct Subcommand {
    /// Its word on the command line.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// Does it.
    pub run: fn() -> Result<()>,
}

#[derive(Debug, PartialEq, Eq)]
enum Action {
    Run { selection: Selection, repeat: usize },
    List { selection: Selection },
    Subcommand(usize),
    Help,
}

impl Program {
    /// A program without tests, to be filled in.
    pub const DEFAULT: Self = Self {
        name: "",
        about: "",
        parts: &[],
        subcommands: &[],
        watch_kernel_log: false,
        prepare: || (),
        settle: || Ok(()),
    };

    fn suite(&self) -> Suite {
        Suite {
            parts: self.parts,
            watch_kernel_log: self.watch_kernel_log,
            prepare: self.prepare,
            settle: self.settle,
        }
    }

    /// Does what the command line says.
    pub fn main(&self) -> ExitCode {
        let name = self.name;
        let action = match self.parse(std::env::args().skip(1)) {
            Ok(action) => action,
            Err(message) => {
                eprintln!("{name}: {message}");
                return ExitCode::from(USAGE);
            }
        };
        let result = match action {
            Action::Help => {
                println!("{}", self.help());
                Ok(ExitCode::SUCCESS)
            }
            Action::List { selection } => {
                for (part, test) in run::select(self.parts, &selection) {
                    println!("{}.{}", part.name, test.name);
                }
                Ok(ExitCode::SUCCESS)
            }
            Action::Run { selection, .. }
                if run::select(self.parts, &selection).next().is_none() =>
            {
                let filter = selection.filter;
                eprintln!("{name}: no test's name contains `{filter}`; see --list");
                return ExitCode::from(USAGE);
            }
            Action::Run { selection, repeat } => run::run(&self.suite(), &selection, repeat),
            Action::Subcommand(place) => {
                (self.subcommands[place].run)().map(|()| ExitCode::SUCCESS)
            }
        };
        result.unwrap_or_else(|error| {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        })
    }

    fn help(&self) -> String {
        let Self { name, about, .. } = self;
        let mut text = format!("{about}\n\nUsage: {name} [OPTIONS]\n");
        // Writing to a string does not fail.
        for command in self.subcommands {
            let _ = writeln!(text, "       {name} {}", command.name);
        }
        if !self.subcommands.is_empty() {
            text += "\nCommands:\n";
        }
        for Subcommand { name, about, .. } in self.subcommands {
            let _ = writeln!(text, "  {name:<16}  {about}");
        }
        text + "
Options:
  --list            Print the tests' names and stop
  --filter PATTERN  Run the tests whose name `part.test` contains PATTERN,
                    or one of several separated by commas
  --again           Leave out those for which one kernel is enough, as another has
                    run them all
  --debug           On a debug kernel: also those that take one, without those that
                    need an exact clock, and at the end look for leaks
  --repeat N        Run each of them N times, to find what fails now and then
  -h, --help        Print this text

Exit status: 0 all passed, 1 a test failed, 2 wrong usage, 4 all were skipped."
    }

    fn parse(&self, mut args: impl Iterator<Item = String>) -> Result<Action, String> {
        let (mut list, mut again, mut debug) = (false, false, false);
        let (mut filter, mut repeat) = (String::new(), 1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "-h" | "--help" => return Ok(Action::Help),
                "--list" => list = true,
                "--again" => again = true,
                "--debug" => debug = true,
                "--filter" => {
                    filter = args
                        .next()
                        .ok_or("--filter needs a pattern, for example --filter wire")?;
                }
                "--repeat" => {
                    repeat = args
                        .next()
                        .and_then(|number| number.parse().ok())
                        .filter(|&number| number > 0)
                        .ok_or("--repeat needs a number from 1, for example --repeat 100")?;
                }
                other => {
                    let named = |command: &Subcommand| command.name == other;
                    if let Some(place) = self.subcommands.iter().position(named) {
                        return Ok(Action::Subcommand(place));
                    }
                    filter = other
                        .strip_prefix("--filter=")
                        .ok_or_else(|| {
                            format!("unknown argument `{other}`; see {} --help", self.name)
                        })?
                        .to_owned();
                }
            }
        }
        let selection = Selection {
            filter,
            again,
            debug,
        };
        Ok(if list {
            Action::List { selection }
        } else {
            Action::Run { selection, repeat }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: Program = Program {
        name: "x-selftests",
        about: "Tests of x.",
        subcommands: &[Subcommand {
            name: "measure",
            about: "Measures x",
            run: || Ok(()),
        }],
        ..Program::DEFAULT
    };

    fn parse(line: &str) -> Result<Action, String> {
        PROGRAM.parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_command_line_is_parsed() {
        let named = |filter: &str| Selection {
            filter: filter.to_owned(),
            ..Selection::default()
        };
        let run = |filter: &str, repeat| Action::Run {
            selection: named(filter),
            repeat,
        };
        assert_eq!(parse(""), Ok(run("", 1)));
        assert_eq!(parse("--filter a.b --repeat 3"), Ok(run("a.b", 3)));
        assert_eq!(parse("--filter=c"), Ok(run("c", 1)));
        assert_eq!(parse("measure"), Ok(Action::Subcommand(0)));
        assert_eq!(parse("--repeat 3 --help"), Ok(Action::Help));
        let list = |selection| Ok(Action::List { selection });
        assert_eq!(parse("--filter a --list"), list(named("a")));
        let again = Selection {
            again: true,
            ..named("a")
        };
        assert_eq!(parse("--again --filter a --list"), list(again));
    }

    #[test]
    fn tests_that_one_kernel_suffices_for_are_skipped_on_another() {
        mod part {
            crate::tests![
                each,
                #[once]
                one
            ];

            fn each(_: &crate::Context) -> anyhow::Result<()> {
                Ok(())
            }

            fn one(_: &crate::Context) -> anyhow::Result<()> {
                Ok(())
            }
        }
        let parts: &[Part] = crate::parts![part];
        let names = |again| {
            let selection = Selection {
                again,
                ..Selection::default()
            };
            let selected = run::select(parts, &selection);
            selected.map(|(_, test)| test.name).collect::<Vec<_>>()
        };
        assert_eq!(names(false), ["each", "one"]);
        assert_eq!(names(true), ["each"]);
    }

    #[test]
    fn wrong_usage_is_reported_in_one_sentence_with_the_cure() {
        for (line, sentence) in [
            (
                "--lits",
                "unknown argument `--lits`; see x-selftests --help",
            ),
            (
                "--filter",
                "--filter needs a pattern, for example --filter wire",
            ),
            (
                "--repeat 0",
                "--repeat needs a number from 1, for example --repeat 100",
            ),
        ] {
            assert_eq!(parse(line), Err(sentence.to_owned()));
        }
    }

    #[test]
    fn help_names_every_command() {
        let help = PROGRAM.help();
        assert!(
            help.starts_with("Tests of x.\n\nUsage: x-selftests [OPTIONS]\n"),
            "{help}"
        );
        assert!(help.contains("\n       x-selftests measure\n"), "{help}");
        assert!(
            help.contains("\n  measure           Measures x\n"),
            "{help}"
        );
    }
}
