// SPDX-License-Identifier: MIT OR Apache-2.0

//! A scheme's processes, without creating a fabric.

use std::fs;
use std::path::Path;
use std::process::Command;

const WIRE: &str = "qdisc add dev $dev root handle 1: wire rate $rate delay $delay\n";

/// The output of `weft` in a folder with the scheme `mine` that has this process; or its error.
fn printed(name: &str, process: &str, words: &str) -> Result<String, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("processes-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("mine")).unwrap();
    let toml =
        format!("about = \"a\"\n[parameters]\nport = {{ value = 7000 }}\n[[process]]\n{process}\n");
    let files = [
        ("scheme.toml", toml.as_str()),
        ("host.tc", WIRE),
        ("switch.tc", WIRE),
    ];
    for (file, text) in files {
        fs::write(folder.join("mine").join(file), text).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.args(words.split(' ')).current_dir(&folder);
    let output = command.output().unwrap();
    match output.status.code() {
        Some(0) => Ok(String::from_utf8(output.stdout).unwrap()),
        code => {
            assert_eq!((code, output.stdout.as_slice()), (Some(2), &b""[..]));
            Err(String::from_utf8(output.stderr).unwrap())
        }
    }
}

#[test]
fn a_dry_run_shows_the_processes() {
    let process = "on = \"hosts\"\nrun = '''arbiter -p $port \"at $node\"'''";
    let words = "up rack:hosts=2 --scheme ./mine --testbed t --dry-run";
    let script = printed("up", process, words).unwrap();
    let started = |node: &str| {
        format!(
            "ip netns exec weft-t-{node} env WEFT_PROCESS_OF=t setsid arbiter -p 7000 'at {node}' \
             < /dev/null > /run/weft/t/log/{node}-arbiter.log 2>&1 &\n"
        )
    };
    let expected = format!(
        "\n# processes\nmkdir -p /run/weft/t/log\n{}{}",
        started("h0"),
        started("h1")
    );
    assert!(script.ends_with(&expected), "{script}");
    let process = "on = \"first-host\"\nrun = \"arbiter\"";
    let run = "run rack:hosts=2 --scheme ./mine --seed 1,2 --dry-run";
    let expected = "\
mine on rack:hosts=2, seed 1 -> results/mine-seed1.jsonl
mine on rack:hosts=2, seed 2 -> results/mine-seed2.jsonl
  with h0: arbiter
";
    assert_eq!(printed("run", process, run).unwrap(), expected);
}

#[test]
fn a_mistake_in_a_process_is_reported_in_one_sentence() {
    for (name, process, expected) in [
        (
            "node",
            "on = \"h9\"\nrun = \"arbiter\"",
            "there is no such node in rack:hosts=2",
        ),
        (
            "empty",
            "on = \"h0\"\nrun = \" \"",
            "expected a program and its arguments",
        ),
        (
            "quote",
            "on = \"h0\"\nrun = \"a 'b\"",
            "`a 'b`: a ' without another",
        ),
        (
            "variable",
            "on = \"h0\"\nrun = \"a $pord\"",
            "`$pord` is not known: expected one of $bdp, $core_ways, $dilation, $edge_ways, $first_host, $frame, $frame_ms, $frame_ns",
        ),
    ] {
        let words = "up rack:hosts=2 --scheme ./mine --dry-run";
        let said = printed(name, process, words).unwrap_err();
        let on = "weft: mine/scheme.toml: [[process]] on = \"h";
        assert!(said.starts_with(on) && said.contains(expected), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
