// SPDX-License-Identifier: MIT OR Apache-2.0

//! Invalid descriptions: one sentence, and exit status 2.

use crate::{folder, weft};

const SOUND: &str = r#"
title = "t"
source = "s"
about = "a"
seeds = [1]
[[runs]]
options = "rack:hosts=4 --scheme ./plain --load {load} --flows {flows}"
each.load = [0.2, 0.4]
[scaled]
flows = 10
[measures]
slowdown = { of = "slowdown", statistic = "mean" }
[[tables]]
title = "all"
measures = "slowdown"
rows = "load"
[[claims]]
says = "quick"
paper = "1"
measure = "slowdown"
where = { load = 0.2 }
over = { where = { load = 0.4 } }
at_most = 1
"#;

fn run(name: &str, experiment: &str, words: &[&str]) -> (Option<i32>, String) {
    let folder = folder(&format!("refused-{name}"), experiment);
    let words = [&["run", "./mine.toml", "--dry-run"], words].concat();
    let output = weft(&folder, &words);
    let said = if output.status.success() {
        output.stdout
    } else {
        output.stderr
    };
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[test]
fn a_valid_experiment_is_planned() {
    let expected = "\
weft run rack:hosts=4 --load 0.2 --flows 10 --scheme ./plain --seed 1 --out results/mine/load-0.2
weft run rack:hosts=4 --load 0.4 --flows 10 --scheme ./plain --seed 1 --out results/mine/load-0.4
";
    assert_eq!(run("sound", SOUND, &[]), (Some(0), expected.to_owned()));
}

#[test]
fn an_experiment_with_a_syntax_error_is_not_taken_for_a_topology() {
    let torn = SOUND.replace("title = \"all\"", "title = \"all");
    let (status, said) = run("torn", &torn, &[]);
    assert_eq!(status, Some(2), "{said}");
    assert!(
        said.contains("mine.toml") && said.contains("line 14"),
        "{said}"
    );
    assert!(!said.contains("topology"), "{said}");
}

#[test]
fn random_workloads_have_five_seeds_and_others_one() {
    let drawn = SOUND.replace("seeds = [1]\n", "");
    let (_, plan) = run("five", &drawn, &[]);
    assert_eq!(plan.lines().count(), 10, "{plan}");
    for seed in 1..=5 {
        assert_eq!(
            plan.matches(&format!("--seed {seed} ")).count(),
            2,
            "{plan}"
        );
    }
    let options = "--load {load} --flows {flows}";
    let fixed = drawn.replace(
        options,
        "--warm-up {load} --add h0-h1:{flows}kB --only-added",
    );
    assert_ne!(fixed, drawn);
    let (_, plan) = run("one", &fixed, &[]);
    assert_eq!(plan.lines().count(), 2, "{plan}");
}

#[test]
fn seeds_and_flows_can_be_more() {
    let (status, plan) = run(
        "more",
        SOUND,
        &["--seed", "4,5", "--scale", "2.5", "--out", "o"],
    );
    assert_eq!(status, Some(0), "{plan}");
    assert_eq!(plan.lines().count(), 4);
    let last = "--load 0.4 --flows 25 --scheme ./plain --seed 5 --out o/mine/load-0.4";
    assert!(plan.trim_end().ends_with(last), "{plan}");
}

#[test]
fn a_scheme_may_have_its_own_options() {
    let experiment = SOUND
        .replace("./plain", "{scheme}")
        .replace(
            "each.load",
            "each.scheme = [\"./plain\", \"droptail\"]\neach.load",
        )
        .replace("0.4]", "0.4]\nwith.droptail = \"--set buffer={flows}\"")
        .replace("rows = \"load\"", "rows = [\"load\", \"scheme\"]");
    let (status, plan) = run("with", &experiment, &[]);
    assert_eq!(status, Some(0), "{plan}");
    let lines: Vec<&str> = plan.lines().collect();
    assert_eq!(lines.len(), 4);
    for line in lines {
        let droptail = line.contains("--scheme droptail");
        assert_eq!(line.contains("--set buffer=10"), droptail, "{line}");
    }
}

/// Three runs: two that schemes share, and one of a single scheme.
fn shared() -> String {
    SOUND
        .replace("\"rack:hosts=4 --scheme ./plain", "\"rack:hosts=4 --scheme {scheme}")
        .replace(
            "each.load = [0.2, 0.4]",
            "each.load = [0.2, 0.4]\neach.scheme = [\"dctcp\"]\nname = \"a\"\n[[runs]]\nname = \"b\"\n\
             options = \"rack:hosts=4 --set buffer=9 --scheme {scheme}\"\neach.scheme = [\"droptail\"]\n\
             [[runs]]\nname = \"c\"\noptions = \"rack:hosts=2 --load 0.3 --flows 9\"",
        )
        .replace("rows = \"load\"", "rows = [\"load\", \"runs\", \"scheme\"]")
        .replace("{ load = 0.2 }", "{ runs = \"a\", load = 0.2 }")
}

#[test]
fn other_schemes_run_where_the_experiments_own_share_their_runs() {
    let (status, plan) = run("others", &shared(), &["--scheme", "./plain,droptail"]);
    assert_eq!(status, Some(0), "{plan}");
    let expected: String = ["./plain", "droptail"]
        .iter()
        .flat_map(|scheme| {
            ["0.2", "0.4"].map(|load| {
                let out = format!("--scheme {scheme} --seed 1 --out results/mine/a-load-{load}");
                format!("weft run rack:hosts=4 --load {load} --flows 10 {out}\n")
            })
        })
        .collect();
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&plan), sorted(&expected));
    // `b` sets a parameter that ./plain lacks, and droptail has.
    let (_, plan) = run("other", &shared(), &["--scheme", "droptail"]);
    assert_eq!(plan.matches("--set buffer=9").count(), 1, "{plan}");
}

#[test]
fn schemes_that_an_experiment_cannot_take_are_refused() {
    for (name, experiment, words, expected) in [
        (
            "single",
            SOUND.to_owned(),
            ["--scheme", "dctcp"].as_slice(),
            "--scheme: mine has no runs that differ in their scheme; `weft experiments export mine mine.toml`",
        ),
        (
            "absent",
            shared(),
            &["--scheme", "./absent"],
            "there is no folder ./absent",
        ),
        (
            "twice",
            shared(),
            &["--scheme", "dctcp,dctcp"],
            "two runs would be",
        ),
    ] {
        let (status, said) = run(name, &experiment, words);
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    let folder = folder("refused-keep", &shared());
    for option in ["--kept", "--keep=."] {
        let output = weft(
            &folder,
            &["run", "./mine.toml", "--scheme", "dctcp", option],
        );
        let said = String::from_utf8(output.stderr).unwrap();
        let option = option.trim_end_matches("=.");
        let expected = format!("weft: {option} is for the experiment's own schemes\n");
        assert_eq!((output.status.code(), said), (Some(2), expected));
    }
}

#[test]
fn any_value_may_have_its_own_options() {
    let experiment = SOUND.replace("0.4]", "0.4]\nwith.\"0.4\" = \"--patience 9s\"");
    let (status, plan) = run("any", &experiment, &[]);
    assert_eq!(status, Some(0), "{plan}");
    assert_eq!(plan.lines().count(), 2);
    for line in plan.lines() {
        let high = line.contains("--load 0.4");
        assert_eq!(line.contains("--patience 9s"), high, "{line}");
    }
}

#[test]
fn mistakes_are_named() {
    let wrong = [
        ("title = \"t\"", "", "missing field `title`"),
        (
            "seeds = [1]",
            "seeds = []",
            "seeds is empty: expected at least one",
        ),
        ("at_most = 1", "at_mots = 1", "unknown field `at_mots`"),
        (
            "[[runs]]",
            "[runs]",
            "claims and findings have two brackets: [[runs]]",
        ),
        (
            "at_most = 1",
            "",
            "claim quick: expected at_most, at_least, or both",
        ),
        (
            "each.load = [0.2, 0.4]",
            "each.lod = [0.2]",
            "each.lod is not in the options",
        ),
        (
            "{flows}",
            "{flow}",
            "`{flow}` is not known: expected one of load, flows",
        ),
        ("{flows}", "{flows", "`{flows`: a { without }"),
        (
            "slowdown = { of = \"slowdown\", statistic = \"mean\" }",
            "",
            "table all: there is no measure `slowdown`: [measures] is empty",
        ),
        (
            "[0.2, 0.4]",
            "[0.2, 0.2]",
            "two runs would be results/mine/load-0.2/plain-seed1.jsonl",
        ),
        ("[0.2, 0.4]", "[0.2, [1]]", "expected a text or a number"),
        ("--load {load}", "--load 7{load}", "load 70.2"),
        (
            "--load {load}",
            "--lod {load}",
            "unexpected argument '--lod'",
        ),
        (
            "--load {load}",
            "--load {load} --seed 2",
            "--seed is not a run's own",
        ),
        (
            "--load {load}",
            "--load {load} --dry-run",
            "--dry-run is not a run's own",
        ),
        ("./plain", "./plain,droptail", "one scheme a run"),
        ("./plain", "plian", "there is no scheme `plian`"),
        ("rack:hosts=4", "rock:hosts=4", "rock"),
        (
            "of = \"slowdown\"",
            "of = \"speed\"",
            "unknown variant `speed`",
        ),
        (
            ", statistic = \"mean\"",
            "",
            "measure slowdown: it needs a statistic",
        ),
        (
            "rows = \"load\"",
            "rows = \"lod\"",
            "table all: runs do not differ in `lod`",
        ),
        (
            "measures = \"slowdown\"",
            "measures = \"speed\"",
            "table all: there is no measure `speed`",
        ),
        (
            "measures = \"slowdown\"",
            "measures = []",
            "table all: it has no measures",
        ),
        (
            "measure = \"slowdown\"",
            "measure = \"speed\"",
            "claim quick: there is no measure `speed`",
        ),
        (
            "{ load = 0.2 }",
            "{ lod = 0.2 }",
            "claim quick: runs do not differ in `lod`",
        ),
        (
            "{ where = {",
            "{ measure = \"x\", where = {",
            "claim quick: there is no measure `x`",
        ),
        (
            "each.load",
            "ideal = \"pfabric\"\neach.load",
            "no run has that scheme",
        ),
        (
            "each.load",
            "with.pfabric = \"--set buffer=9\"\neach.load",
            "with.pfabric: no value of each is pfabric",
        ),
        (
            "each.load",
            "allow.lag = 1\neach.load",
            "there is no gate `lag`: there is timer lateness, mean;",
        ),
        (
            "each.load",
            "allow.lag = { \"0.2\" = 1 }\neach.load",
            "there is no gate `lag`: there is timer lateness, mean;",
        ),
        (
            "each.load",
            "allow.\"generator lag, mean\" = { pfabric = 1 }\neach.load",
            "allow.\"generator lag, mean\": no value of each is pfabric",
        ),
        (
            "each.load",
            "allow.\"generator lag, mean\" = \"1\"\neach.load",
            "expected a limit, or limits by the values of each whose runs they are for",
        ),
        (
            "[0.2, 0.4]",
            "[]",
            "each.load is empty: expected at least one value",
        ),
        (
            "statistic = \"mean\"",
            "statistic = \"mean\", above = \"2kB\", up_to = \"2kB\"",
            "measure slowdown: no size is above `above` and at most `up_to`",
        ),
        (
            "of = \"slowdown\"",
            "of = \"backlog\", after = \"2us\", until = \"1us\"",
            "measure slowdown: `until` is not after `after`",
        ),
    ];
    for (number, (from, to, expected)) in wrong.into_iter().enumerate() {
        assert!(SOUND.contains(from), "{from}");
        let (status, said) = run(&format!("{number}"), &SOUND.replacen(from, to, 1), &[]);
        assert_eq!(status, Some(2), "{to}: {said}");
        assert!(
            said.contains("mine") && said.contains(expected),
            "{to}: {said}"
        );
    }
}

#[test]
fn an_experiment_that_shows_nothing_is_refused() {
    let (measured, _) = SOUND.split_once("[[tables]]").unwrap();
    let (status, said) = run("nothing", measured, &[]);
    assert_eq!(status, Some(2), "{said}");
    assert!(
        said.contains("expected a [[tables]] or a [[claims]]"),
        "{said}"
    );
    let (status, said) = run("no-runs", "title = \"t\"", &[]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("missing field `runs`"), "{said}");
}

#[test]
fn a_cause_was_tested_or_not() {
    let both = "at_most = 1\ncause = 'a'\nsuspected = 'b'";
    let (status, said) = run("causes", &SOUND.replace("at_most = 1", both), &[]);
    assert_eq!(status, Some(2), "{said}");
    let expected = "claim quick: expected cause or suspected";
    assert!(said.contains(expected), "{said}");
}

/// Such a claim would hold or fail whatever is measured.
#[test]
fn limits_that_decide_without_a_figure_are_refused() {
    for (limits, expected) in [
        ("at_most = nan", "at_most = NaN: expected a finite number"),
        (
            "at_least = -inf",
            "at_least = -inf: expected a finite number",
        ),
        ("equals = nan", "equals = NaN: expected a finite number"),
        (
            "at_least = 2\nat_most = 1",
            "at_least = 2 is more than at_most = 1",
        ),
        ("at_most = 1\nto = 0.1", "to = 0.1 needs equals"),
        (
            "equals = 1\nto = 10",
            "to = 10: expected a fraction above 0",
        ),
        (
            "equals = 1\nto = -0.1",
            "to = -0.1: expected a fraction above 0",
        ),
        ("equals = 1\nto = inf", "to = inf: expected a finite number"),
    ] {
        let experiment = SOUND.replace("at_most = 1", limits);
        let (status, said) = run("limits", &experiment, &[]);
        assert_eq!(status, Some(2), "{limits}: {said}");
        let expected = format!("claim quick: {expected}");
        assert!(said.contains(&expected), "{limits}: {said}");
    }
}

/// Without these errors, a mistake shows up after the last run, or never: a claim about all of
/// several runs is judged on the others.
#[test]
fn selections_that_no_run_has_are_refused_before_the_first_run() {
    let known = "expected one of 0.2, 0.4";
    for (from, to, expected) in [
        (
            "rows = \"load\"",
            "rows = \"load\"\nwhere = { load = 0.3 }",
            format!("table all: no run has load = `0.3`: {known}"),
        ),
        (
            "rows = \"load\"",
            "",
            "table all: there are several runs for one cell: name in rows".to_owned(),
        ),
        (
            "{ load = 0.2 }",
            "{ load = 0.3 }",
            format!("claim quick: no run has load = `0.3`: {known}"),
        ),
        (
            "{ load = 0.2 }",
            "{ load = [0.2, \"0.40\"] }",
            format!("claim quick: no run has load = `0.40`: {known}"),
        ),
        (
            "{ where = { load = 0.4 } }",
            "{ where = { load = 4 } }",
            format!("claim quick: no run has load = `4`: {known}"),
        ),
        (
            "{ where = { load = 0.4 } }",
            "{ where = { scheme = \"ideal\" } }",
            "claim quick: no run has scheme = `ideal`: expected one of ./plain".to_owned(),
        ),
    ] {
        assert!(SOUND.contains(from), "{from}");
        let (status, said) = run("selections", &SOUND.replacen(from, to, 1), &[]);
        assert_eq!(status, Some(2), "{to}: {said}");
        assert!(said.contains(&expected), "{to}: {said}");
    }
    // Each value exists, but not together with the other.
    let two = SOUND
        .replace("[[runs]]\n", "[[runs]]\nname = \"a\"\n")
        .replace(
            "[scaled]",
            "[[runs]]\nname = \"b\"\noptions = \"rack:hosts=2 --scheme ./plain --load {load} --flows {flows}\"\n\
             each.load = [0.6]\n[scaled]",
        );
    let (status, plan) = run("selections", &two, &[]);
    assert_eq!((status, plan.lines().count()), (Some(0), 3), "{plan}");
    for (from, to, expected) in [
        (
            "{ load = 0.2 }",
            "{ load = 0.2, runs = \"b\" }",
            "no run has the values of `where` together: load = 0.2, runs = b",
        ),
        (
            "{ where = { load = 0.4 } }",
            "{ where = { load = 0.6 } }",
            "there is no run (load 0.6, runs a, scheme ./plain) to compare with that of (load 0.2, \
             runs a, scheme ./plain)",
        ),
    ] {
        let (status, said) = run("selections", &two.replacen(from, to, 1), &[]);
        assert_eq!(status, Some(2), "{to}: {said}");
        assert!(said.contains(expected), "{to}: {said}");
    }
}

#[test]
fn options_out_of_range_are_refused() {
    for (words, expected) in [
        (
            ["--scale", "0"],
            "'0' for '--scale <FACTOR>': expected a number",
        ),
        (["--scale", "-1"], "'-1' for '--scale <FACTOR>': expected"),
        (["--seed", "3,3"], "--seed: 3 is there twice"),
        (["--load", "0.3"], "--load: the experiment sets this itself"),
    ] {
        let (status, said) = run("options", SOUND, &words);
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    let (status, said) = run(
        "unscaled",
        &SOUND.replace("flows = 10", "").replace("{flows}", "10"),
        &["--scale", "2"],
    );
    assert_eq!(
        (status, said.trim_end()),
        (Some(2), "weft: --scale: mine has nothing to scale")
    );
}

#[test]
fn results_that_are_not_kept_are_refused() {
    let folder = folder("kept", SOUND);
    let output = weft(&folder, &["run", "./mine.toml", "--kept"]);
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = "weft: mine has no kept results; omit --kept to run it";
    assert_eq!((output.status.code(), said.trim_end()), (Some(2), expected));
    let of_a_seed = ["run", "./mine.toml", "--kept", "--seed", "1"];
    assert_eq!(weft(&folder, &of_a_seed).status.code(), Some(2));
}

#[test]
fn mistakes_in_a_picture_are_named() {
    const PICTURE: &str = r#"
[[pictures]]
name = "tradeoff"
title = "t"
x = "slowdown"
y = "slowdown"
points = "load"
"#;
    let sound = format!("{SOUND}{PICTURE}");
    assert_eq!(run("picture", &sound, &[]).0, Some(0));
    let wrong = [
        (
            "y = \"slowdown\"",
            "y = \"speed\"",
            "picture tradeoff: there is no measure `speed`: there is slowdown",
        ),
        (
            "points = \"load\"",
            "points = \"lod\"",
            "picture tradeoff: runs do not differ in `lod`: expected one of load, runs, scheme",
        ),
        (
            "points = \"load\"",
            "",
            "picture tradeoff: no table has `slowdown` by scheme: a picture shows figures of tables",
        ),
        (
            "title = \"t\"\nx",
            "title = \"t\"\nlog = \"z\"\nx",
            "expected one or a list of them",
        ),
        (
            "\"tradeoff\"",
            "\"2\"",
            "picture `2`: expected a name of a to z",
        ),
        (
            "points = \"load\"",
            &format!("points = \"load\"{PICTURE}"),
            "picture tradeoff: there is another of that name",
        ),
    ];
    for (number, (from, to, expected)) in wrong.into_iter().enumerate() {
        assert!(sound.contains(from), "{from}");
        let name = format!("picture-{number}");
        let (status, said) = run(&name, &sound.replacen(from, to, 1), &[]);
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains(expected), "{to}: {said}");
    }
}
