// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sweeps as commands: their runs, each with its own folder.

#[path = "../../lab/tests/sample/files.rs"]
mod files;
#[path = "../../lab/tests/sample/mod.rs"]
mod sample;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

fn weft(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command
        .args(line.split(' '))
        .current_dir(folder)
        .output()
        .unwrap()
}

fn printed(folder: &Path, line: &str) -> String {
    let output = weft(folder, line);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

const SWEEP: &str = "rack:hosts=4 --scheme droptail,dctcp --load 0.2,0.4 --flows 10 --seed 1,2";

/// A stand-in for `weft` that writes its arguments to the file of results.
const STAND_IN: &str = r#"#!/bin/sh
for word; do
  case "$before" in --out) out=$word ;; --scheme) scheme=$word ;; --seed) seed=$word ;; --testbed) testbed=$word ;; esac
  before=$word
done
mkdir -p "$out" && echo "$*" | sed "s/ --testbed $testbed//" > "$out/$scheme-seed$seed.jsonl"
"#;

/// Every file below a folder, with its content.
fn tree(folder: &Path) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(tree(&path).into_iter().map(|(name, text)| {
                (
                    format!("{}/{name}", path.file_name().unwrap().display()),
                    text,
                )
            }));
        } else {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            all.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    all.sort();
    all
}

/// Puts the stand-in into a folder, where [`sh`] finds it.
fn stand_in(folder: &Path) {
    let stand_in = folder.join("weft");
    fs::write(&stand_in, STAND_IN).unwrap();
    fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).unwrap();
}

fn sh(folder: &Path, script: &str) -> String {
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-ec", script]).env("PATH", path);
    let output = command.current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The plan's runs by make, four at a time, and by the array job, one by one, compared with those
/// of `weft run`.
#[test]
fn a_plan_has_the_runs_of_the_sweep_however_it_is_executed() {
    let folder = files::folder("sweep-plan");
    stand_in(&folder);
    let sh = |script: &str| sh(&folder, script);
    fs::write(
        folder.join("Makefile"),
        printed(&folder, &format!("sweep plan {SWEEP}")),
    )
    .unwrap();
    sh("make -s -j4");
    let made = tree(&folder.join("results"));
    assert_eq!(made.len(), 8);
    assert_eq!(made[0].0, "load-0.2/dctcp-seed1.jsonl");
    let expected = "run rack:hosts=4 --load 0.2 --flows 10 --scheme dctcp --seed 1 --out results/load-0.2 --quiet\n";
    assert_eq!(made[0].1, expected);
    assert!(sh("make -q && echo nothing left").contains("nothing left"));

    let dry = printed(&folder, &format!("run {SWEEP} --dry-run"));
    let mut planned: Vec<&str> = dry
        .lines()
        .filter_map(|line| line.split("-> results/").nth(1))
        .collect();
    planned.sort_unstable();
    assert_eq!(
        planned,
        made.iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>()
    );

    fs::remove_dir_all(folder.join("results")).unwrap();
    let job = printed(&folder, &format!("sweep plan --format slurm {SWEEP}"));
    assert!(job.contains("#SBATCH --array=0-7\n"), "{job}");
    fs::write(folder.join("job.sh"), job).unwrap();
    sh("for n in 0 1 2 3 4 5 6 7; do SLURM_ARRAY_TASK_ID=$n sh job.sh; done");
    assert_eq!(tree(&folder.join("results")), made);
}

/// Names of fabrics contain `=`, which make would read as a variable.
#[test]
fn a_makefile_supports_several_fabrics() {
    let folder = files::folder("sweep-fabrics");
    stand_in(&folder);
    let words = "sweep plan rack:hosts=4 --also rack:hosts=8 --out a$b";
    fs::write(folder.join("Makefile"), printed(&folder, words)).unwrap();
    sh(&folder, "make -s");
    let made = tree(&folder.join("a$b"));
    let names: Vec<_> = made.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "rack-hosts=4/droptail-seed1.jsonl",
            "rack-hosts=8/droptail-seed1.jsonl"
        ]
    );
    assert!(sh(&folder, "make -q && echo nothing left").contains("nothing left"));
}

#[test]
fn a_folder_that_make_cannot_name_is_refused() {
    let folder = files::folder("sweep-folders");
    let plan = |format: &str, out: &str| {
        let words = ["sweep", "plan", "--format", format, "rack", "--out", out];
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        command.args(words).current_dir(&folder).output().unwrap()
    };
    for (out, char) in [("my results", ' '), ("a:b", ':'), ("a#b", '#'), ("a%", '%')] {
        let refused = plan("make", out);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let said = format!(
            "weft: make cannot name {out}/droptail-seed1.jsonl, for `{char}`: --out names another folder, --format slurm takes any\n"
        );
        assert_eq!(String::from_utf8(refused.stderr).unwrap(), said);
        assert!(plan("slurm", out).status.success());
    }
    // In a shell script, and in a comment, `$` needs no escape.
    for (format, out) in [("slurm", "my results"), ("make", "a$b")] {
        let planned = String::from_utf8(plan(format, out).stdout).unwrap();
        let gathered = format!("# Gathered by: weft compare '{out}/droptail-seed1.jsonl'");
        assert!(planned.lines().any(|it| it == gathered), "{planned}");
    }
}

#[test]
fn a_plan_repeats_the_options_of_guests() {
    let folder = files::folder("sweep-guests");
    let guests = "--memory 4096 --clock real --timeout 60 --machine m.image";
    let planned = printed(&folder, &format!("sweep plan rack {guests}"));
    let expected =
        " --quiet --clock real --machine m.image --memory 4096 --timeout 60 --testbed sweep0";
    assert!(planned.contains(expected), "{planned}");
    // Runs of an experiment that need more memory than the default are killed without it.
    let of = |words: &str| {
        printed(
            &folder,
            &format!("sweep plan shoot-out-hadoop --seed 1{words}"),
        )
    };
    let needed = of("");
    let runs = needed.matches("weft run leaf-spine").count();
    let with =
        |plan: &str, memory: &str| plan.matches(&format!("--quiet --memory {memory} ")).count();
    assert!(runs > 1 && with(&needed, "8192") == runs, "{needed}");
    assert_eq!(with(&of(" --memory 9000"), "9000"), runs);
    assert_eq!(with(&of(" --memory 300"), "8192"), runs);
}

/// The rest of the line would be a command of its own.
#[test]
fn a_line_break_stays_in_its_comment_or_its_word() {
    let folder = files::folder("sweep-lines");
    stand_in(&folder);
    let plan = |words: &[&str]| {
        let words = [&["sweep", "plan"], words].concat();
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        command.args(words).current_dir(&folder).output().unwrap()
    };
    let job = plan(&["--format", "slurm", "rack", "--out", "x\ntouch y"]);
    fs::write(folder.join("job.sh"), job.stdout).unwrap();
    sh(&folder, "SLURM_ARRAY_TASK_ID=0 sh job.sh");
    assert!(!folder.join("y").exists() && !folder.join("y'").exists());
    assert!(folder.join("x\ntouch y/droptail-seed1.jsonl").exists());
    let refused = plan(&["rack", "--fault", "3us tor0 run a\nb"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("make takes no line break in a command, as in `weft run rack --fault '3us tor0 run a\\nb'"), "{said}");
}

/// In the same form as an experiment's runs.
#[test]
fn a_dry_run_in_json_is_a_list_of_commands() {
    let folder = files::folder("sweep-json");
    let json = printed(&folder, &format!("run {SWEEP} --dry-run --json"));
    let all: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(all.len(), 8);
    let expected = serde_json::json!({
        "words": ["rack:hosts=4", "--load", "0.2", "--flows", "10"],
        "scheme": "droptail",
        "seed": 2,
        "file": "results/load-0.2/droptail-seed2.jsonl",
        "done": false,
        "files": [],
    });
    assert_eq!(all[1], expected);
    let experiment = printed(&folder, "run mg1-ps --dry-run --json");
    let experiment: Vec<serde_json::Value> = serde_json::from_str(&experiment).unwrap();
    let keys = |it: &serde_json::Value| it.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    // An experiment has additional keys for its kept results.
    let mut own = keys(&experiment[0]);
    own.retain(|key| key != "fingerprint");
    assert_eq!(keys(&all[0]), own);
}

#[test]
fn results_of_another_run_are_not_replaced() {
    let folder = files::folder("sweep-places");
    fs::create_dir(folder.join("results")).unwrap();
    let path = sample::sample("droptail", 1, 10, 2.0).write(&folder.join("results"));
    let before = fs::read(&path).unwrap();
    let refused = |line: &str| {
        let output = weft(&folder, line);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = "weft: results/droptail-seed1.jsonl is of another run: --out names another folder\n";
    assert_eq!(refused("run rack:hosts=4 --flows 10"), said);
    assert_eq!(fs::read(&path).unwrap(), before);
    fs::write(&path, "mine\n").unwrap();
    let said =
        "weft: results/droptail-seed1.jsonl is there, and no result: --out names another folder\n";
    assert_eq!(refused("run rack:hosts=4 --flows 10"), said);
}

#[test]
fn an_experiment_is_planned_too_and_judged_where_its_results_are_gathered() {
    let folder = files::folder("sweep-experiment");
    let asked = "mg1-ps --seed 1,2 --out there";
    let planned = printed(&folder, &format!("sweep plan --format slurm {asked}"));
    let run = printed(&folder, &format!("run {asked} --dry-run"));
    assert!(run.lines().count() > 1);
    for (number, command) in run.lines().enumerate() {
        let line = format!("; {command} --quiet --testbed sweep{number} || {{ [ $? = 1 ] && ");
        let case = format!("{number}) ");
        assert!(
            planned
                .lines()
                .any(|it| it.starts_with(&case) && it.contains(&line)),
            "{line}: {planned}"
        );
    }
    // A run that only the experiment accepts has status 1, and a summary.
    fs::write(folder.join("job.sh"), &planned).unwrap();
    let stand_in = folder.join("weft");
    let first = |script: &str| {
        fs::write(&stand_in, script).unwrap();
        fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let mut job = Command::new("sh");
        job.arg("job.sh").current_dir(&folder);
        job.env("PATH", path).env("SLURM_ARRAY_TASK_ID", "0");
        job.status().unwrap().success()
    };
    let writes = |lines: &str, status: u8| {
        let file = "\"$out/$scheme-seed$seed.jsonl\"";
        format!("{STAND_IN}printf '{lines}' > {file}\nexit {status}\n")
    };
    let header = r#"{"record":"header","format":1}\n"#;
    let summary = r#"{"record":"summary","valid":false}\n"#;
    assert!(!first("#!/bin/sh\nexit 1\n"));
    assert!(!first(&writes(&format!("{header}{summary}"), 2)));
    // It failed half-way, before the summary or in it.
    assert!(!first(&writes(header, 1)));
    assert!(!first(&writes(&format!("{header}{}", &summary[..20]), 1)));
    assert!(first(&writes(&format!("{header}{summary}"), 1)));
    // It failed before it wrote a file, and another run's results exist.
    assert!(!first("#!/bin/sh\nexit 1\n"));
    let gathered = "# Gathered by: weft run mg1-ps --seed 1,2 --out there --judge";
    assert!(planned.lines().any(|it| it == gathered), "{planned}");
    for (words, cure) in [
        (
            "mg1-ps --load 0.3",
            "weft experiments export mg1-ps mine.toml",
        ),
        (
            "mg1-ps --judge",
            "--judge is not an option of a plan's runs",
        ),
        ("rack --scale 2", "--scale is for experiments"),
    ] {
        let output = weft(&folder, &format!("sweep plan {words}"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains(cure),
            "{words}: {said}"
        );
    }
}
