// SPDX-License-Identifier: MIT OR Apache-2.0

//! The lines of KTAP.

use std::io::Write as _;

/// A list of results: a program's, or within it that of a part.
pub struct Report {
    indent: &'static str,
    done: usize,
}

impl Report {
    /// Begins the report of a program with a number of results.
    #[must_use]
    pub fn of_program(count: usize) -> Self {
        println!("KTAP version 1\n1..{count}");
        Self {
            indent: "",
            done: 0,
        }
    }

    /// Begins that of a part.
    #[must_use]
    pub fn of_part(name: &str, count: usize) -> Self {
        println!("  KTAP version 1\n  # Subtest: {name}\n  1..{count}");
        Self {
            indent: "  ",
            done: 0,
        }
    }

    /// Says something of the result that comes next.
    pub fn note(&self, text: &str) {
        for line in text.lines() {
            println!("{}  # {line}", self.indent);
        }
    }

    /// A result, and what else there is to say in its line: figures, a directive, or nothing.
    pub fn result(&mut self, name: &str, good: bool, more: &str) {
        self.done += 1;
        let not = if good { "" } else { "not " };
        let sign = if more.is_empty() { "" } else { " # " };
        println!("{}{not}ok {} {name}{sign}{more}", self.indent, self.done);
        // The line must be out before what comes next can crash the kernel.
        let _ = std::io::stdout().flush();
    }
}
