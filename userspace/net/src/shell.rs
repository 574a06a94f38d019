// SPDX-License-Identifier: MIT OR Apache-2.0

//! Words and lines in shell syntax.

use crate::sysctl::Sysctl;

/// Quotes a word for a shell, if needed.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:,./@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_part_them() {
        assert_eq!(quoted("fat-tree:k=4"), "fat-tree:k=4");
        assert_eq!(quoted("8x20kB@300"), "8x20kB@300");
        assert_eq!(quoted("my file"), "'my file'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
