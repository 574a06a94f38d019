// SPDX-License-Identifier: MIT OR Apache-2.0

//! Text for messages.

/// The last `count` lines, indented.
pub fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let shown: Vec<String> = lines[lines.len().saturating_sub(count)..]
        .iter()
        .map(|line| format!("    {line}"))
        .collect();
    shown.join("\n")
}
