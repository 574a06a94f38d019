// SPDX-License-Identifier: MIT OR Apache-2.0

//! Testbeds on a real kernel. The tests run as root or, where the kernel allows user namespaces, as
//! any user. They have their own mount namespace and `/run`, and do not see other testbeds.

mod isolation;
mod kill;
mod machines;
mod parts;
mod processes;
mod state;
mod tests;

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(name) = words.first().and_then(|word| word.strip_prefix("--child=")) {
        return kill::child(name);
    }
    if words.iter().any(|word| word == "--list") {
        tests::TESTS
            .iter()
            .for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if let Err(complaint) = isolation::enter() {
        eprintln!("{complaint}");
        return ExitCode::FAILURE;
    }
    let filter = words.iter().find(|word| !word.starts_with('-'));
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in tests::TESTS {
        if filter.is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        let begun = Instant::now();
        let result = catch_unwind(|| {
            test();
            state::assert_nothing_left();
        });
        let seconds = begun.elapsed().as_secs_f64();
        if result.is_ok() {
            passed += 1;
            println!("test {name} ... ok <{seconds:.2}s>");
        } else {
            failed += 1;
            println!("test {name} ... FAILED <{seconds:.2}s>");
            state::clean();
        }
    }
    // The same final line as in cargo's tests, for programs that count results.
    let (word, status) = match failed {
        0 => ("ok", ExitCode::SUCCESS),
        _ => ("FAILED", ExitCode::FAILURE),
    };
    println!("test result: {word}. {passed} passed; {failed} failed; 0 ignored");
    status
}
