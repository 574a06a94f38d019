// SPDX-License-Identifier: MIT OR Apache-2.0

//! A process of a testbed, as described in its plan.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use weft_words::shell::quoted;

/// The environment variable with the testbed's name.
pub(crate) const MARK: &str = "WEFT_PROCESS_OF";

/// A process that belongs to a testbed, from `up` to `down`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The node whose namespace it is in.
    pub node: String,
    /// The program and its arguments. It must stay in the foreground.
    pub words: Vec<String>,
}

impl Display for Process {
    /// In shell syntax.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.words.iter().map(|word| quoted(word)).collect();
        f.write_str(&words.join(" "))
    }
}

/// Names of the processes' log files, such as `h0-arbiter.log`: unique, and none of `taken`.
pub(crate) fn logs(processes: &[Process], taken: &[String]) -> Vec<String> {
    let mut names = taken.to_vec();
    for Process { node, words } in processes {
        let program = words.first().map_or("", String::as_str);
        let program = Path::new(program).file_name().unwrap_or_default();
        let stem = format!("{node}-{}", program.display());
        let numbered = (2..).map(|number| format!("{stem}-{number}.log"));
        let mut names_of_it = std::iter::once(format!("{stem}.log")).chain(numbered);
        names.extend(names_of_it.find(|name| !names.contains(name)));
    }
    names.split_off(taken.len())
}
