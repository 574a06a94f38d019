// SPDX-License-Identifier: MIT OR Apache-2.0

//! Processes in a plan.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use weft_net::{Ended, Plan, Process, down, up, up_watched};

use crate::state::{assert_nothing_left, plan, processes, run};

/// For events that happen on any machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// A plan with scripts of `sh` on nodes.
fn plan_with(testbed: &str, scripts: &[(&str, &str)]) -> Plan {
    let mut plan = plan(testbed, "rack:hosts=2");
    let scripts = scripts.iter().map(|(node, script)| Process {
        node: (*node).to_owned(),
        words: ["sh", "-c", script].map(str::to_owned).into(),
    });
    plan.set_processes(scripts.collect()).unwrap();
    plan
}

/// Waits for an event.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn remove(testbed: &str) {
    down(testbed).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(processes(), []);
}

pub(crate) fn a_process_is_on_its_node_from_up_to_down() {
    let script = "echo on $(ip -br link show h1 | cut -c 1-2); echo away >&2; exec sleep 1000";
    let plan = plan_with("mine", &[("tor0", script), ("h0", "exec sleep 1000")]);
    let testbed = up(&plan, None).unwrap();
    let log = testbed.logs().join("tor0-sh.log");
    until("its output", || {
        fs::read_to_string(&log).unwrap().ends_with("away\n")
    });
    assert_eq!(fs::read_to_string(&log).unwrap(), "on h1\naway\n");
    let found = processes();
    assert_eq!(found.len(), 2, "{found:?}");
    for node in ["tor0", "h0"] {
        let namespace = testbed.namespace(node).unwrap().metadata().unwrap().ino();
        let mut all = found.iter();
        let is_there =
            |pid| fs::metadata(format!("/proc/{pid}/ns/net")).unwrap().ino() == namespace;
        assert!(
            all.any(|(name, pid)| name == "mine" && is_there(pid)),
            "{node}"
        );
    }
    let removed = down("mine").unwrap();
    assert_eq!((removed.namespaces, removed.held), (3, Vec::new()));
    assert_eq!(processes(), []);
}

pub(crate) fn a_process_that_does_not_listen_is_ended_with_its_children() {
    // The child is in a separate session.
    let script =
        "trap '' TERM; setsid sh -c 'while :; do sleep 0.1; done' & while :; do sleep 0.1; done";
    up(&plan_with("deaf", &[("h0", script)]), None).unwrap();
    // The shell may not have started its child yet.
    until("a child", || processes().len() >= 2);
    // They ignore SIGTERM, so `down` kills them; it fails if some remain.
    remove("deaf");
}

pub(crate) fn processes_of_others_stay() {
    let one = plan_with("one", &[("h0", "exec sleep 1000")]);
    let other = plan_with("other", &[("h0", "exec sleep 1000")]);
    let testbed = up(&one, None).unwrap();
    up(&other, None).unwrap();
    // A process in the testbed's namespace that does not belong to the testbed, and one that claims
    // to belong to it outside of it.
    let mut guest = testbed.command("h0", "sleep").unwrap();
    let mut guest = guest.arg("1000").stdout(Stdio::null()).spawn().unwrap();
    let mut stranger = Command::new("sleep");
    let stranger = stranger
        .arg("1000")
        .env("WEFT_PROCESS_OF", "one")
        .stdout(Stdio::null());
    let mut stranger = stranger.spawn().unwrap();
    let removed = down("one").unwrap();
    assert_eq!(removed.held, [("h0".to_owned(), guest.id())]);
    assert!(guest.try_wait().unwrap().is_none() && stranger.try_wait().unwrap().is_none());
    let left: Vec<_> = processes();
    assert_eq!(left.len(), 2, "{left:?}");
    for process in [&mut guest, &mut stranger] {
        process.kill().unwrap();
        process.wait().unwrap();
    }
    remove("other");
}

pub(crate) fn a_process_that_ends_is_reported_with_its_status_and_output() {
    let scripts = [
        ("h0", "exec sleep 1000"),
        (
            "h1",
            "for n in 1 2 3 4 5 6 7; do echo line $n; done; until [ -e /run/end ]; do sleep 0.01; done; \
             echo; echo why >&2; exit 3",
        ),
        (
            "tor0",
            "until [ -e /run/end ]; do sleep 0.01; done; kill -9 $$",
        ),
    ];
    let (_, mut started) = up_watched(&plan_with("ended", &scripts), None).unwrap();
    assert_eq!(started.len(), 3);
    // A process that ends while `up` still watches it is tested separately.
    fs::write("/run/end", "").unwrap();
    until("two ends", || started.ended().len() == 2);
    let ended = started.ended();
    let told = |ended: &Ended| {
        (
            ended.process.node.clone(),
            ended.status.code(),
            ended.tail(),
        )
    };
    let expected = "line 4 | line 5 | line 6 | line 7 | why".to_owned();
    assert_eq!(told(&ended[0]), ("h1".to_owned(), Some(3), expected));
    assert_eq!(told(&ended[1]), ("tor0".to_owned(), None, String::new()));
    assert_eq!(ended[1].status.signal(), Some(9));
    let sentence = ended[1].to_string();
    assert!(
        sentence.starts_with("tor0: `sh -c 'until [ -e /run/end ]; "),
        "{sentence}"
    );
    assert!(
        sentence.ends_with("ended (signal: 9 (SIGKILL)) and said nothing"),
        "{sentence}"
    );
    fs::remove_file("/run/end").unwrap();
    remove("ended");
}

pub(crate) fn a_process_that_cannot_start_or_ends_at_once_leaves_nothing() {
    let scripts = [
        ("h0", "exec sleep 1000"),
        ("h1", "echo no such option; exit 2"),
    ];
    // `up` watches a started process for a tenth of a second. On a busy machine a shell may start
    // later: then the test repeats.
    let mut error = None;
    until("it ends at once", || {
        error = up(&plan_with("failed", &scripts), None).err();
        if error.is_none() {
            remove("failed");
        }
        error.is_some()
    });
    assert_eq!(
        error.unwrap().to_string(),
        "h1: `sh -c 'echo no such option; exit 2'` ended (exit status: 2): no such option"
    );
    assert_nothing_left();
    let mut plan = plan_with("failed", &scripts[..1]);
    let mut processes = plan.processes().to_vec();
    processes.push(Process {
        node: "h1".to_owned(),
        words: vec!["no-such-program".to_owned(), "-x".to_owned()],
    });
    plan.set_processes(processes).unwrap();
    let error = up(&plan, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "h1: starting `no-such-program -x`: No such file or directory"
    );
    assert_nothing_left();
    let nowhere = Process {
        node: "h9".to_owned(),
        words: vec!["true".to_owned()],
    };
    let error = plan.set_processes(vec![nowhere]).unwrap_err().to_string();
    assert!(
        error.starts_with("`true`: there is no node `h9` in rack"),
        "{error}"
    );
}

pub(crate) fn the_printed_commands_start_the_same_processes_and_down_ends_them() {
    let script = "echo it\\'s \"$0\"; exec sleep 1000";
    let plan = plan_with("written", &[("h0", script), ("h0", "exec sleep 1000")]);
    let commands = format!("{}{}", plan.commands(), plan.process_commands());
    // A reader of the shell's output must not have to wait for the processes.
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", &commands]).stdout(Stdio::null());
    assert!(shell.status().unwrap().success(), "{commands}");
    let log = "/run/weft/written/log/h0-sh.log";
    until("its output", || {
        fs::read_to_string(log).is_ok_and(|said| said == "it's sh\n")
    });
    until("both", || processes().len() == 2);
    remove("written");
    run("umount /run/netns");
}
