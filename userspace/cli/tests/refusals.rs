// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors of `weft` before it does anything: one sentence that names the correct form, exit status
//! 2, and no files. Errors that need a kernel are tested in the guest.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Runs `weft` in a new, empty folder, which must stay empty; returns the error message.
fn refusal(words: &str) -> String {
    let name = words.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(words.split_whitespace())
        .current_dir(&folder)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "weft {words}: {said}");
    assert!(
        output.stdout.is_empty(),
        "weft {words}: {:?}",
        output.stdout
    );
    // Fails if the folder is not empty.
    fs::remove_dir(&folder).unwrap_or_else(|error| panic!("weft {words}: {error}"));
    said
}

/// An error message of weft itself.
fn sentence(words: &str) -> String {
    let said = refusal(words);
    let sentence = said
        .strip_prefix("weft: ")
        .and_then(|rest| rest.strip_suffix('\n'));
    let sentence = sentence.unwrap_or_else(|| panic!("weft {words}: {said}"));
    assert!(!sentence.contains('\n'), "weft {words}: {said}");
    sentence.to_owned()
}

fn assert_says(cases: &[(&str, &str)]) {
    for (words, cure) in cases {
        let sentence = sentence(words);
        assert!(sentence.contains(cure), "weft {words}: {sentence}");
    }
}

#[test]
fn the_error_for_an_unknown_topology_lists_all() {
    assert_says(&[
        (
            "up nonsense",
            "known are fat-tree, leaf-spine, rack, dumbbell",
        ),
        (
            "run nonsense",
            "known are fat-tree, leaf-spine, rack, dumbbell",
        ),
        (
            "topology nonsense",
            "known are fat-tree, leaf-spine, rack, dumbbell",
        ),
        (
            "run pfabric-fig4",
            "no topology and no experiment `pfabric-fig4`; near are pfabric-fig4a, ",
        ),
        (
            "run fat-tre",
            "There is no topology \"fat-tre\"; nearest is fat-tree; known are",
        ),
        ("up ./none.toml", "topology ./none.toml: No such file"),
        ("up fat-tree:kk=4", "known are k, rate, delay"),
        ("up fat-tree:k=3", "write k=2 or k=4"),
        ("up fat-tree:k=x", "a whole number from 2 to 32"),
        ("up rack:rate=fast", "for example 10gbit"),
        (
            "topology rack --paths h0,h99",
            "there is no node `h99` in rack",
        ),
        ("topology rack --paths h0", "for example h0,h7"),
    ]);
}

#[test]
fn the_error_for_an_unknown_scheme_lists_all() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tc-configs");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let schemes = entries.filter(|it| it.path().join("scheme.toml").exists());
    let mut names: Vec<String> = schemes
        .map(|it| it.file_name().into_string().unwrap())
        .collect();
    names.sort();
    let known = &*format!("expected one of {}, or a folder", names.join(", "));
    assert_says(&[
        ("up rack --scheme nonsense", known),
        ("run rack --scheme droptail,nonsense", known),
        ("schemes show nonsense", known),
        (
            "up rack --scheme pfabrik",
            "there is no scheme `pfabrik`; nearest is pfabric: expected one of",
        ),
        ("schemes export nonsense folder", known),
        (
            "up rack --scheme ./none",
            "there is no folder ./none (a scheme to start from: weft schemes export droptail DIR)",
        ),
        (
            "up rack --scheme /dev/null",
            "/dev/null is a file, but a scheme is a folder",
        ),
        ("up rack --set bufer=4", "it has buffer, initcwnd"),
        ("up rack --set buffer", "expected NAME=VALUE"),
        ("up rack --set buffer=many", "nor a time such as 45us"),
        (
            "up rack --scheme pfabric --set buffer=99999999999",
            "pfabric: Limit must be between 1 and 65536 packets",
        ),
        (
            "up rack --set buffer=4 --set buffer=5",
            "--set: buffer is there twice",
        ),
        (
            "lab rack --set buffer=4 --set buffer=4 true",
            "--set: buffer is there twice",
        ),
        (
            "run rack --set buffer=4,5 --set buffer=6",
            "--set: buffer is there twice",
        ),
        (
            "up rack --set rto_min=1",
            "--set rto_min=1: expected a time such as 45us",
        ),
        (
            "up rack --set buffer=1us",
            "--set buffer=1us: expected a number such as 24",
        ),
        (
            "up rack --set buffer=5gbit",
            "--set buffer=5gbit: expected a number such as 24",
        ),
        ("schemes show droptail dev", "expected NAME=VALUE"),
        ("schemes show droptail --host", "--host: expected variables"),
        (
            "schemes show droptail dev=a rate=1gbit delay=1us bufer=4",
            "no variable or parameter `bufer`; nearest is buffer: expected one of dev, rate,",
        ),
        (
            "schemes show droptail dev=a rate=fast delay=1us",
            "rate=fast: \"fast\" is not a rate",
        ),
        (
            "schemes show droptail dev=a rate=1gbit delay=1us bdp=x",
            "bdp=x: invalid digit",
        ),
        (
            "schemes show droptail dev=a dev=b",
            "dev is given twice; give it once",
        ),
        (
            "schemes show droptail dev=a rate=1gbit",
            "expected rate=RATE and delay=TIME of the link together",
        ),
        (
            "schemes show droptail rate=1gbit delay=1us",
            "expected dev=NAME of a port",
        ),
        (
            "schemes show droptail dev=eth0",
            "`$rate` is not known: expected one of $address, $bdp",
        ),
        (
            "schemes export droptail .",
            "choose the name of a new folder",
        ),
    ]);
}

#[test]
fn the_error_for_an_unknown_workload_lists_all() {
    let known = "expected web-search, web-search-pfabric, data-mining";
    assert_says(&[
        ("run rack --workload nonsense", known),
        ("workloads nonsense", known),
        (
            "run rack --workload websearch",
            "there is no workload `websearch`; nearest is web-search: expected",
        ),
        (
            "run rack --workload ./none.cdf",
            "--workload ./none.cdf: No such file",
        ),
        ("run rack --trace ./none", "--trace ./none: No such file"),
        (
            "run rack --pairs nonsense",
            "expected uniform, permutation, all-to-one[:hN]",
        ),
        (
            "run rack --pairs all-to-one:h99",
            "there is no host `h99` in rack",
        ),
        (
            "run rack --pairs local:2",
            "--pairs local:2: expected a fraction above 0 and below 1, such as local:0.5",
        ),
        (
            "run rack --pairs local:0.5",
            "there is only one rack, so no flow can leave it",
        ),
        (
            "run rack --arrivals nonsense",
            "expected poisson, balanced, lognormal[:SIGMA] or closed[:N]",
        ),
    ]);
}

#[test]
fn the_error_for_a_file_that_is_taken_for_a_name_has_its_path() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("files-without-a-path");
    fs::create_dir_all(&folder).unwrap();
    for (words, file) in [
        ("run mine", "mine"),
        ("run fabric.txt", "fabric.txt"),
        ("run rack --workload sizes", "sizes"),
        ("run rack --pairs pairs", "pairs"),
    ] {
        fs::write(folder.join(file), "").unwrap();
        let weft = |words: &str| {
            let output = Command::new(env!("CARGO_BIN_EXE_weft"))
                .args(words.split_whitespace())
                .current_dir(&folder)
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(2), "{words}: {output:?}");
            String::from_utf8(output.stderr).unwrap()
        };
        let hint = format!("; for the file {file} write ./{file}\n");
        let said = weft(words);
        assert!(said.ends_with(&hint), "{words}: {said}");
        // What it says to write is read as a file, which is empty.
        let cured = format!("{}./{file}", words.strip_suffix(file).unwrap());
        let said = weft(&cured);
        assert!(
            said.contains(&format!("./{file}: ")) && !said.contains("for the file"),
            "{cured}: {said}"
        );
        fs::remove_file(folder.join(file)).unwrap();
    }
    fs::remove_dir(&folder).unwrap();
}

#[test]
fn the_error_for_a_number_out_of_range_has_the_range() {
    assert_says(&[
        (
            "up rack --dilation 4000000000",
            "choose another factor or rate",
        ),
        (
            "up rack --testbed a-b",
            "1 to 32 letters, digits or underscores",
        ),
        ("run rack --workload fixed:0", "expected 1 byte to 1 TiB"),
        (
            "run rack --workload uniform:9-1",
            "the first size is the smaller one",
        ),
        ("run rack --arrivals closed:0", "with N from 1"),
        ("run rack --arrivals lognormal:-1", "expected 0 to 4"),
        ("run rack --time 0ns", "at least one flow, or some time"),
        ("run rack --incast 40", "for example 40x20kB@300"),
        (
            "run rack --incast 40x20kB@300",
            "needs 41 hosts: the fabric has 10",
        ),
        ("run rack --incast 4x20kB@0", "expected more than 0"),
        (
            "run rack --incast 40x20kB@300 --incast-senders 10",
            "an incast of 10 senders needs 11 hosts: the fabric has 10",
        ),
        (
            "run rack --incast 4x20kB@300 --incast-senders 5",
            "5 senders of 4 flows: some have none",
        ),
        (
            "run rack --incast 4x20kB@300 --incast-arrivals often",
            "expected poisson, balanced, lognormal or lognormal:SIGMA",
        ),
        ("run rack --add h1:9kB", "for example h1-h0:30MB@2ms"),
        ("run rack --add h1-h0:0x9kB", "expected 1 to 10000 flows"),
        ("run rack --add h1-h0:manyx9kB", "expected 1 to 10000 flows"),
        (
            "run rack --add h1-h0:9kB@soon",
            "for example h1-h0:30MB@2ms",
        ),
        (
            "run rack --add h1-h99:9kB",
            "there is no host or group `h99` in rack",
        ),
        (
            "run rack --add h1-h1:9kB",
            "a flow from h1 to h1 goes nowhere",
        ),
        ("run rack --add h1-h0:0B", "expected 1 byte to 1 TiB"),
        ("run rack --seed 1,1", "1 is there twice"),
        ("run rack --scheme dctcp,dctcp", "dctcp is there twice"),
    ]);
}

/// Errors of the command line's own grammar.
#[test]
fn the_error_for_a_malformed_number_names_the_option() {
    for (words, cure) in [
        (
            "up rack --dilation 0",
            "'0' for '--dilation <N>': expected a whole number from 1 to 4294967295",
        ),
        (
            "run rack --dilation -1",
            "'-1' for '--dilation <N>': expected",
        ),
        ("run rack --dilation 4294967296", "'4294967296' for"),
        ("run rack --load x", "'x' for '--load <FRACTION>': expected"),
        ("run rack --load 0", "a number above 0 and at most 1"),
        ("run rack --load 1.5", "a number above 0 and at most 1"),
        ("run rack --load nan", "a number above 0 and at most 1"),
        (
            "run rack --load -1",
            "'-1' for '--load <FRACTION>': expected",
        ),
        ("run rack --load 0.5,-inf", "'-inf' for '--load <FRACTION>'"),
        ("run rack --warm-up 1", "a number of at least 0 and below 1"),
        (
            "run demo --scale -0.5",
            "a number above 0 and at most 1000000",
        ),
        (
            "run rack --seed -1",
            "'-1' for '--seed <SEED>': expected a whole number from 0 to 18446744073709551615",
        ),
        ("run rack --seed 1,x", "'x' for '--seed <SEED>': expected"),
        ("run rack --flows -1", "'-1' for '--flows <N>': expected"),
        ("run rack --flows NaN", "'NaN' for '--flows <N>': expected"),
        ("run rack --flows 0", "a whole number from 1 to"),
        (
            "run rack --collective ring:1MB --rounds 0",
            "'0' for '--rounds <N>'",
        ),
        (
            "run rack --priorities 1",
            "'1' for '--priorities <N>': expected a whole number from 2 to 8",
        ),
        ("run rack --priorities 9", "a whole number from 2 to 8"),
        ("run rack --priorities -1", "a whole number from 2 to 8"),
        ("run rack --memory 0", "a whole number from 256 to"),
        (
            "run rack -j 0",
            "'0' for '--jobs <N>': expected a whole number",
        ),
        ("run rack --timeout -5", "'-5' for '--timeout <SECONDS>'"),
        ("run rack --slack -1ns", "expected a time up to 10s"),
        (
            "run rack --time 5",
            "'5' for '--time <TIME>': expected a time",
        ),
        ("top --interval -1us", "'-1us' for '--interval <TIME>'"),
        ("capture h0 -c -1", "'-1' for '--count <N>': expected"),
        (
            "run rack --sample 5",
            "expected a time up to 10s, such as 100us",
        ),
        (
            "run rack --patience long",
            "expected a time up to 10s, such as 100us",
        ),
        (
            "run rack --connection maybe",
            "expected flow, pair, or pair:N, N from 1 to 16",
        ),
        (
            "run rack --connection pair:17",
            "expected flow, pair, or pair:N, N from 1 to 16",
        ),
        (
            "run rack --flows 5 --time 5ms",
            "cannot be used with '--time <TIME>'",
        ),
        ("up", "<TOPOLOGY>"),
        ("up rack --part 1", "required arguments were not provided"),
        (
            "up rack --host h1",
            "expected a host that is reached by a tap device, such as h3=tap",
        ),
        ("nonsense", "unrecognized subcommand 'nonsense'"),
    ] {
        let said = refusal(words);
        assert!(
            said.starts_with("error: ") && said.contains(cure),
            "weft {words}: {said}"
        );
    }
}

#[test]
fn a_file_without_an_end_is_refused_at_the_limit_of_its_kind() {
    let endless = |limit: &str| format!("/dev/zero: it is longer than {limit}");
    for (words, expected) in [
        (
            "topology /dev/zero",
            endless("4 MiB, the limit for a topology"),
        ),
        ("up /dev/zero", endless("4 MiB, the limit for a topology")),
        (
            "run /dev/zero",
            endless("4 MiB, the limit for an experiment"),
        ),
        ("experiments show /dev/zero", endless("4 MiB")),
        (
            "run rack --workload /dev/zero",
            endless("1 MiB, the limit for a CDF"),
        ),
        (
            "workloads /dev/zero",
            endless("1 MiB, the limit for a CDF file"),
        ),
        (
            "run rack --pairs /dev/zero",
            endless("64 MiB, the limit for a file"),
        ),
        (
            "run rack --trace /dev/zero",
            endless("64 MiB, the limit for a trace"),
        ),
        (
            "compare /dev/zero",
            "/dev/zero:1: it is longer than 16 MiB, the limit for a line".to_owned(),
        ),
        (
            "report /dev/zero",
            "/dev/zero:1: it is longer than 16 MiB".to_owned(),
        ),
        (
            "export --csv /dev/zero",
            "/dev/zero:1: it is longer".to_owned(),
        ),
    ] {
        assert_says(&[(words, &expected)]);
    }
}

#[test]
fn a_scheme_with_a_file_without_an_end_is_refused() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("endless-scheme");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.join("scheme.toml")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(["schemes", "show"])
        .arg(&folder)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = "/scheme.toml: it is longer than 1 MiB, the limit for a scheme's file";
    assert!(said.contains(expected), "{said}");
    assert!(!output.status.success());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_error_for_a_file_that_is_not_a_result_names_it() {
    for command in ["compare", "report"] {
        assert_says(&[(&format!("{command} ./none"), "./none: No such file")]);
    }
}

#[test]
fn the_error_for_a_malformed_fault_has_an_example() {
    let said = refusal("run rack --fault soon");
    assert!(said.contains("expected TIME NODE and one of"), "{said}");
    assert!(said.contains("for example '300us"), "{said}");
}

/// An option without an effect is a misunderstanding; of several values of it, each would make the
/// same run.
#[test]
fn options_that_would_change_nothing_are_refused() {
    let added = "run rack --add h1-h0:1MB --only-added";
    let incast = "run rack --incast 2x1kB@5 --only-incast";
    let closed = "run rack --arrivals closed";
    let ring = "run rack --collective ring:1MB";
    for words in [
        format!("{added} --load 0.3"),
        format!("{added} --flows 3"),
        format!("{added} --workload fixed:1kB"),
        format!("{added} --priorities 4"),
        format!("{incast} --load 0.2,0.4"),
        format!("{incast} --load-of core"),
        format!("{incast} --pairs permutation"),
        format!("{ring} --count payload"),
        "run rack --trace none --load-of core".to_owned(),
    ] {
        let said = refusal(&words);
        assert!(said.contains("cannot be used with"), "{words}: {said}");
    }
    let said = refusal("run rack --incast-arrivals lognormal:2");
    assert!(said.contains("--incast <N×SIZE@RATE>"), "{said}");
    for option in [
        "--load 0.3",
        "--load 0.3,0.6",
        "--load-of core",
        "--count payload",
    ] {
        let said = sentence(&format!("{closed} {option}"));
        assert!(
            said.contains("there is no load with --arrivals closed"),
            "{said}"
        );
    }
    assert_says(&[
        ("run rack --load 0.6,0.60", "--load: 0.6 is there twice"),
        (
            "run rack --scheme droptail,droptail",
            "--scheme: droptail is there twice",
        ),
    ]);
}

#[test]
fn a_plan_of_runs_refuses_what_it_cannot_repeat() {
    assert_says(&[
        (
            "sweep plan rack --only-incast",
            "the following required arguments were not provided: --incast <N×SIZE@RATE>",
        ),
        (
            "sweep plan rack --clock sundial",
            "invalid value 'sundial' for '--clock <CLOCK>' [possible values: model,",
        ),
        (
            "sweep plan rack --help",
            "`weft run --help` describes the options of a run",
        ),
        (
            "sweep plan rack --jobs 2",
            "--jobs is not an option of a plan's runs",
        ),
        (
            "sweep plan demo --kept",
            "--kept is not an option of a plan's runs",
        ),
    ]);
}
