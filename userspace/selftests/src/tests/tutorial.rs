// SPDX-License-Identifier: MIT OR Apache-2.0

//! `docs/tutorial.md`: every block of commands runs, and prints the output on the page.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, tests};

use crate::folder::Folder;
use crate::weft::{none_is_up, succeed};

tests![
    #[once]
    #[exact = "a run must be valid, which late timers prevent"]
    every_block_runs_and_prints_what_the_page_shows,
];

const PAGE: &str = include_str!("../../../../docs/tutorial.md");

/// A command on the page, and its output on the page.
struct Step {
    command: String,
    shown: Option<String>,
}

/// The steps of all blocks. A block of `sh` contains commands; in a block of `console`, commands
/// begin with `# `.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for block in page.split("\n```").skip(1).step_by(2) {
        let (kind, text) = block.split_once('\n').unwrap_or_default();
        match kind {
            "console" => {
                for step in text.strip_prefix("# ").unwrap_or(text).split("\n# ") {
                    let (command, shown) = step.split_once('\n').unwrap_or((step, ""));
                    steps.push(Step {
                        command: command.to_owned(),
                        shown: Some(shown.to_owned()),
                    });
                }
            }
            "sh" => steps.push(Step {
                command: text.to_owned(),
                shown: None,
            }),
            _ => {}
        }
    }
    steps
}

/// A text that is equal for outputs that differ only in their numbers.
fn without_numbers(text: &str) -> String {
    let mut shape = String::new();
    let lines: Vec<&str> = text.trim().lines().map(str::trim_end).collect();
    for c in lines.join("\n").chars() {
        if !c.is_ascii_digit() {
            shape.push(c);
        } else if !shape.ends_with('N') {
            shape.push('N');
        }
    }
    shape.replace("N.N", "N")
}

fn run(step: &Step, folder: &Path) -> Result<String> {
    let mut command = Command::new("sh");
    command.args(["-e", "-c", &format!("({}) 2>&1", step.command.trim_end())]);
    succeed(command.current_dir(folder)).with_context(|| step.command.clone())
}

fn every_block_runs_and_prints_what_the_page_shows(_: &Context) -> Result<()> {
    let folder = Folder::new()?;
    let steps = steps(PAGE);
    ensure!(steps.len() >= 8, "{} steps", steps.len());
    for step in &steps {
        let printed = run(step, folder.path())?;
        let Some(shown) = &step.shown else { continue };
        ensure!(
            without_numbers(&printed) == without_numbers(shown),
            "`{}` printed\n{printed}\nand the page shows\n{shown}",
            step.command
        );
    }
    let report = folder.path().join("report.html").metadata()?;
    ensure!(report.len() > 0, "an empty report");
    none_is_up()
}
