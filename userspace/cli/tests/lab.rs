// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft lab` and `weft exec` without creating a fabric.

use std::process::{Command, Output};

fn weft(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.args(words).output().unwrap()
}

/// The output of a dry run after the fabric's own commands.
fn script(words: &[&str]) -> String {
    let output = weft(
        &[
            &["lab", "rack:hosts=2", "--dilation", "10", "--dry-run"],
            words,
        ]
        .concat(),
    );
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (fabric, own) = text.split_once("# programs of one's own\n").unwrap();
    assert!(fabric.contains("ip netns add weft-"), "{fabric}");
    own.to_owned()
}

#[test]
fn a_dry_run_prints_an_equivalent_script() {
    let words = [
        "--testbed",
        "mine",
        "--on",
        "hosts",
        "agent --name $node",
        "--wait-for",
        "h0:80",
        "--from",
        "h1",
        "curl",
        "-s",
        "http://h0/a b",
    ];
    let expected = "\
export WEFT_TESTBED=mine WEFT_DILATION=10
weft exec h0 agent --name h0 &
weft exec h1 agent --name h1 &
until weft exec h0 ss -Hltun sport = :80 | grep -q .; do sleep 0.01; done
weft exec h1 curl -s 'http://h0/a b'

weft down --kill mine
";
    assert_eq!(script(&words), expected);
}

#[test]
fn options_after_the_command_belong_to_it() {
    for words in [&["tc", "--json", "-s"][..], &["--", "tc", "--json", "-s"]] {
        let printed = script(words);
        assert!(printed.contains("\ntc --json -s\n"), "{printed}");
    }
}

#[test]
fn each_mistake_is_reported_in_one_sentence() {
    for (words, expected) in [
        (
            "lab rack:hosts=2 --on h9 agent true",
            "--on h9: there is no such node",
        ),
        (
            "lab rack:hosts=2 --from h9 true",
            "there is no node `h9` in rack:hosts=2",
        ),
        (
            "lab rack:hosts=2 --wait-for h9:1 true",
            "there is no node `h9` in rack:hosts=2",
        ),
        (
            "lab rack:hosts=2 --on h0 $x true",
            "`$x` is not known: expected one of",
        ),
        ("lab nonsense true", "known are fat-tree"),
    ] {
        let output = weft(&words.split(' ').collect::<Vec<_>>());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        assert!(
            said.starts_with("weft: ") && said.contains(expected),
            "{words}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    for (words, expected) in [
        ("lab rack:hosts=2", "<COMMAND>..."),
        ("lab rack:hosts=2 --on h0", "2 values required"),
        ("lab rack:hosts=2 --wait-for h0 true", "for example h3:6379"),
        ("exec h0", "<COMMAND>..."),
        ("capture h0:", "for example h3:edge1"),
    ] {
        let output = weft(&words.split(' ').collect::<Vec<_>>());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains(expected), "{words}: {said}");
    }
}

#[test]
fn each_command_has_a_man_page() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("man");
    let output = weft(&["man", folder.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    for (page, word) in [
        ("weft-lab.1", "WEFT_TESTBED"),
        ("weft-top.1", "pausing"),
        ("weft-capture.1", "pcap"),
        ("weft-exec.1", "127"),
        ("weft-down.1", "kill"),
    ] {
        let text = std::fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.contains(word), "{page}");
    }
}
