// SPDX-License-Identifier: MIT OR Apache-2.0

//! Completions in bash.

use std::path::Path;
use std::process::Command;

/// The completions of a line when the key is pressed at its end.
fn offers(line: &str) -> Vec<String> {
    let weft = env!("CARGO_BIN_EXE_weft");
    let folder = Path::new(weft).parent().unwrap().display();
    let words: Vec<String> = line.split(' ').map(|word| format!("'{word}'")).collect();
    let script = format!(
        "PATH={folder}:$PATH; source <(weft completions bash); COMP_WORDS=({}); \
         COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; \
         $(complete -p weft | sed 's/.*-F \\([a-z_]*\\).*/\\1/') weft \
         \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.join(" ")
    );
    let mut bash = Command::new("bash");
    let output = bash.args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.is_empty(), "{line}: {said}");
    let offered = String::from_utf8(output.stdout).unwrap();
    offered
        .lines()
        .map(str::to_owned)
        .filter(|it| !it.is_empty())
        .collect()
}

#[test]
fn names_are_completed() {
    for (line, expected) in [
        ("weft up rack --scheme pfabric-t", &["pfabric-tcp"][..]),
        ("weft run rack --scheme dctcp,cubic", &["dctcp,cubic-codel"]),
        (
            "weft run rack --workload data",
            &["data-mining", "data-mining-pfabric"],
        ),
        ("weft up fat", &["fat-tree"]),
        ("weft run pfabric-fig4", &["pfabric-fig4a", "pfabric-fig4b"]),
        ("weft schemes show pfabric-s", &["pfabric-size"]),
        ("weft up rack --dry", &["--dry-run"]),
        ("weft docto", &["doctor"]),
    ] {
        assert_eq!(offers(line), expected, "{line}");
    }
}
