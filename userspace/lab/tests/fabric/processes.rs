// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs under a scheme with a process.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use weft_lab::fabric::FabricOptions;
use weft_lab::run::{Outcomes, Run};
use weft_lab::testbed;
use weft_lab::traffic::{Drawn, LoadLinks, Origin, Traffic};
use weft_load::engine::{Cancel, Connections, Progress, Since};
use weft_load::generate::Until;
use weft_load::load::Counted;
use weft_load::record;

use crate::state::processes;

type Test = (&'static str, fn());

pub(crate) const TESTS: &[Test] = &[
    (
        "a_run_whose_process_dies_is_invalid_and_says_why",
        a_run_whose_process_dies_is_invalid_and_says_why,
    ),
    ("a_process_goes_with_its_run", a_process_goes_with_its_run),
    (
        "a_run_that_is_interrupted_leaves_no_process_and_no_summary",
        a_run_that_is_interrupted_leaves_no_process_and_no_summary,
    ),
    (
        "of_a_run_that_was_killed_down_ends_the_process",
        of_a_run_that_was_killed_down_ends_the_process,
    ),
];

/// For events that happen on any machine.
const PATIENCE: Duration = Duration::from_secs(600);

const BATCH: &str = "qdisc add dev $dev root handle 1: tbf rate $rate burst 15k limit 300k\n";

fn folder_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("process-{name}"))
}

/// A scheme in a new folder, with a script of `sh` on the first host.
fn scheme(name: &str, script: &str) -> PathBuf {
    let folder = folder_of(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("mine")).unwrap();
    let toml = format!(
        "about = \"a\"\n[parameters]\nport = {{ value = 7000 }}\n\
         [[process]]\non = \"first-host\"\nrun = '''sh -c \"{script}\" $node $port'''\n"
    );
    for (file, text) in [
        ("scheme.toml", toml.as_str()),
        ("host.tc", BATCH),
        ("switch.tc", BATCH),
    ] {
        fs::write(folder.join("mine").join(file), text).unwrap();
    }
    folder
}

/// A run with this number of flows of 50 kB, 4 ms each, one after the other.
fn run(folder: &Path, flows: u64) -> Run {
    let drawn = Drawn {
        sizes: "fixed:50kB".to_owned(),
        load: 0.5,
        load_of: LoadLinks::Host,
        counted: Counted::Wire,
        arrivals: "poisson".parse().unwrap(),
        pairs: "uniform".parse().unwrap(),
    };
    Run {
        fabric: FabricOptions {
            topology: "rack:hosts=2,rate=100mbit".to_owned(),
            dilation: NonZeroU32::MIN,
            slack: Duration::ZERO,
            scheme: folder.join("mine").to_str().unwrap().to_owned(),
            settings: Vec::new(),
            modules: Vec::new(),
        },
        traffic: Traffic {
            background: Some(Origin::Drawn(drawn)),
            incasts: None,
            added: Vec::new(),
            deadlines: None,
            priorities: None,
            until: Until::Flows(flows),
            warm_up: Some(0.0),
            no_cool_down: false,
        },
        connections: Connections::PerFlow,
        since: Since::FirstByte,
        sample: None,
        sample_all: false,
        hops: false,
        pump: false,
        follow: None,
        // Longer than any machine takes, so that no test result depends on it.
        patience: Some(PATIENCE),
        faults: Vec::new(),
        ipv6: false,
        testbed: "run".to_owned(),
        words: Vec::new(),
    }
}

fn results(folder: &Path) -> PathBuf {
    folder.join("mine-seed1.jsonl")
}

fn perform(folder: &Path, flows: u64, cancel: &Cancel) -> Outcomes {
    watched(folder, flows, cancel, &mut |_| {})
}

/// `progress` runs once a second while flows are sent, and when all have ended.
fn watched(
    folder: &Path,
    flows: u64,
    cancel: &Cancel,
    progress: &mut dyn FnMut(Progress),
) -> Outcomes {
    let checked = run(folder, flows).checked(&[1]).unwrap();
    checked
        .perform(1, &results(folder), progress, cancel)
        .unwrap()
}

/// Waits for an event.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process has ended so that its parent can read its status. Before that, an ending
/// process already has no root directory and no environment.
fn has_ended(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    // The name in brackets may contain anything.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|it| it.starts_with(['Z', 'X']))
}

fn a_run_whose_process_dies_is_invalid_and_says_why() {
    // It continues until flows are sent: a process that ends at once is tested separately.
    let script = "echo \\$0 listens on \\$1; until [ -e end ]; do sleep 0.01; done; echo out of memory >&2; exit 3";
    let folder = scheme(
        "dies",
        &script.replace("end", folder_of("dies").join("end").to_str().unwrap()),
    );
    let outcome = watched(&folder, 20, &Cancel::new().unwrap(), &mut |_| {
        let pids: Vec<u32> = processes().into_iter().map(|(_, pid)| pid).collect();
        fs::write(folder.join("end"), "").unwrap();
        until("the process ends", || {
            pids.iter().all(|pid| has_ended(*pid))
        });
    });
    assert!(!outcome.summary.valid);
    let log = folder.join("mine-seed1.h0-sh.log");
    let [failure] = outcome.summary.failures.as_slice() else {
        panic!("{:?}", outcome.summary.failures);
    };
    let expected = format!(
        " h0 7000` ended (exit status: 3): h0 listens on 7000 | out of memory ({})",
        log.display()
    );
    assert!(
        failure.starts_with("h0: `sh -c ") && failure.ends_with(&expected),
        "{failure}"
    );
    assert!(outcome.summary.reasons().any(|reason| reason == *failure));
    assert_eq!(
        fs::read_to_string(log).unwrap(),
        "h0 listens on 7000\nout of memory\n"
    );
    // The file has the same.
    let file = std::io::BufReader::new(fs::File::open(results(&folder)).unwrap());
    let read = record::Recorded::read("results", file)
        .unwrap()
        .summary
        .unwrap();
    assert_eq!(read, outcome.summary);
}

fn a_process_goes_with_its_run() {
    let folder = scheme("goes", "exec sleep 1000");
    let outcome = perform(&folder, 20, &Cancel::new().unwrap());
    assert_eq!(outcome.summary.failures, Vec::<String>::new());
    let text = fs::read_to_string(results(&folder)).unwrap();
    assert!(!text.contains("failures"), "{text}");
    // Its plan can be used for another run.
    perform(&folder, 20, &Cancel::new().unwrap());
}

fn a_run_that_is_interrupted_leaves_no_process_and_no_summary() {
    let folder = scheme("interrupted", "exec sleep 1000");
    let cancel = Cancel::new().unwrap();
    let mut during = None;
    // Before a flow has ended there is nothing to leave behind.
    let outcome = watched(&folder, 100_000, &cancel, &mut |progress| {
        if progress.ended > 0 && during.is_none() {
            during = Some(processes().len());
            cancel.cancel();
        }
    });
    assert!(outcome.cancelled);
    assert_eq!(during, Some(1));
    assert_eq!(outcome.summary.failures, Vec::<String>::new());
    let text = fs::read_to_string(results(&folder)).unwrap();
    assert!(text.contains("\"record\":\"flow\"") && text.ends_with('\n'));
    assert!(!text.contains("\"record\":\"summary\""), "{text}");
}

/// The process that is killed.
pub(crate) fn child(folder: &Path) -> ExitCode {
    perform(folder, 100_000, &Cancel::new().unwrap());
    ExitCode::SUCCESS
}

fn of_a_run_that_was_killed_down_ends_the_process() {
    let folder = scheme("killed", "exec sleep 1000");
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    let mut child = command
        .arg(format!("--child={}", folder.display()))
        .spawn()
        .unwrap();
    until("it begins", || results(&folder).exists());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(processes().len(), 1);
    testbed::remove("run").unwrap();
    assert_eq!(processes(), []);
}
