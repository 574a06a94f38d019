// SPDX-License-Identifier: MIT OR Apache-2.0

//! The commands that repeat the runs.

use maud::{Markup, html};
use weft_load::record::Header;

use weft_lab::results::Group;
use weft_words::shell::quoted;

/// The command for one group's runs.
fn command(group: &Group) -> Option<String> {
    let header = &group.runs[0].header;
    if header.options.is_empty() {
        return None;
    }
    let mut words = vec!["weft".to_owned(), "run".to_owned()];
    words.extend(header.options.iter().map(|word| quoted(word)));
    words.extend(scheme(header));
    let seeds: Vec<String> = group.seeds().iter().map(u64::to_string).collect();
    words.extend(["--seed".to_owned(), seeds.join(",")]);
    words.extend(["--out".to_owned(), "results".to_owned()]);
    Some(words.join(" "))
}

/// Empty if the options name the scheme.
fn scheme(header: &Header) -> Vec<String> {
    match header.options.iter().any(|word| word == "--scheme") {
        true => Vec::new(),
        false => vec!["--scheme".to_owned(), quoted(&header.scheme)],
    }
}

/// The page's last section.
pub(super) fn section(groups: &[Group]) -> Markup {
    let commands: Vec<String> = groups.iter().filter_map(command).collect();
    html! {
        section #reproduce {
            h2 { "How to reproduce it" }
            @if commands.is_empty() {
                p { "The results do not say which command made them." }
            } @else {
                pre {
                    @for command in &commands { (command) "\n" }
                    "weft report results/*.jsonl"
                }
                p .quiet {
                    "Under the model clock (" code { "--clock model" }
                    "), a command gives byte-identical results with the same weft and kernel."
                }
            }
        }
    }
}
