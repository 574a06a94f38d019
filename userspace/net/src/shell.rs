// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lines in shell syntax.

use weft_words::shell::quoted;

use crate::sysctl::Sysctl;

/// Commands by which `sysctl` reads lines that only `sysctl -p` understands. Lines that may fail
/// come last and separately, because procps fails with them.
pub(crate) fn sysctl_files(lines: &[&Sysctl], sysctl: &str) -> Vec<String> {
    let may_fail = |it: &Sysctl| it.is_ignored() && !it.is_exclusion();
    let feed = |lines: Vec<String>| {
        let lines: Vec<String> = lines.iter().map(|line| quoted(line)).collect();
        format!("printf '%s\\n' {} | {sysctl} -q -p -", lines.join(" "))
    };
    let mut commands = Vec::new();
    if lines.iter().any(|it| !it.is_ignored()) {
        let own = lines.iter().map(|it| match may_fail(it) {
            true => format!("-{}", it.key()),
            false => it.to_string(),
        });
        commands.push(feed(own.collect()));
    }
    let last: Vec<String> = lines
        .iter()
        .filter(|it| may_fail(it))
        .map(ToString::to_string)
        .collect();
    if !last.is_empty() {
        commands.push(format!("{} 2> /dev/null || :", feed(last)));
    }
    commands
}
