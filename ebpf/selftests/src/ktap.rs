// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs tests and reports as KTAP.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;

/// kselftest's exit status for "skipped".
const KSFT_SKIP: u8 = 4;

/// A test: its name and what it does. An error or a panic is a failure, text is a figure to print.
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) run: fn() -> Result<String>,
}

/// Why a test cannot run here; as an error, it skips the test.
#[derive(Debug)]
pub(crate) struct Skip(pub(crate) String);

impl std::fmt::Display for Skip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skip {}

/// Runs the tests whose name contains `filter`.
pub(crate) fn run(tests: &[Test], filter: &str) -> ExitCode {
    let tests: Vec<_> = tests
        .iter()
        .filter(|test| test.name.contains(filter))
        .collect();
    if tests.is_empty() {
        eprintln!("weft-ebpf-selftests: no test's name contains `{filter}`; see --list");
        return ExitCode::from(2);
    }
    println!("KTAP version 1\n1..{}", tests.len());
    if !nix::unistd::geteuid().is_root() {
        for (number, test) in (1..).zip(&tests) {
            println!(
                "ok {number} {} # SKIP needs root: loads eBPF programs",
                test.name
            );
        }
        return ExitCode::from(KSFT_SKIP);
    }
    // A failed assertion is reported by the test's own line.
    std::panic::set_hook(Box::new(|_| ()));
    let (mut failed, mut skipped) = (0, 0);
    for (number, test) in (1..).zip(&tests) {
        let start = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(test.run));
        let time = start.elapsed().as_secs_f64();
        let error = match result {
            Ok(Ok(figures)) => {
                figures.lines().for_each(|line| println!("# {line}"));
                println!("ok {number} {} # {time:.2} s", test.name);
                continue;
            }
            Ok(Err(error)) if error.is::<Skip>() => {
                skipped += 1;
                println!("ok {number} {} # SKIP {error}", test.name);
                continue;
            }
            Ok(Err(error)) => format!("{error:#}"),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                text.or(panic.downcast_ref::<&str>().copied())
                    .unwrap_or("panicked")
                    .to_owned()
            }
        };
        failed += 1;
        error.lines().for_each(|line| println!("# {line}"));
        println!("not ok {number} {} # {time:.2} s", test.name);
        let _ = std::io::stdout().flush();
    }
    let passed = tests.len() - failed - skipped;
    println!("# Totals: pass:{passed} fail:{failed} skip:{skipped}");
    match (failed, passed) {
        (0, 0) => ExitCode::from(KSFT_SKIP),
        (0, _) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
