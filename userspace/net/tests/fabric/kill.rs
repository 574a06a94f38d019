// SPDX-License-Identifier: MIT OR Apache-2.0

//! A process that builds and removes a testbed, and is killed.

use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use weft_net::Process;

use crate::state;

const FABRIC: &str = "fat-tree:k=4";
/// Number of nodes, each of which has a namespace.
const NODES: usize = 36;

/// The work of the child process.
pub(crate) fn child(testbed: &str) -> ExitCode {
    let mut plan = state::plan(testbed, FABRIC);
    let process = |node: &str| Process {
        node: node.to_owned(),
        words: vec!["sleep".to_owned(), "1000".to_owned()],
    };
    plan.set_processes(vec![process("h0"), process("core3")])
        .expect("two nodes of it");
    let done = weft_net::up(&plan, None).and_then(|_| weft_net::down(testbed));
    match done {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn spawn() -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command
        .arg("--child=killed")
        .stdout(Stdio::null())
        .spawn()
        .expect("a child")
}

/// Kills a child once it has created this many namespaces, or once it has removed all but this
/// many; earlier if it ends. The moments depend on the child's progress, so that a busy machine
/// does not shift them.
fn killed_at(moment: usize, removing: bool) {
    let mut child = spawn();
    let mut complete = false;
    while child.try_wait().expect("its state").is_none() {
        let there = state::names("/run/netns").len();
        complete |= there == NODES;
        let is_the_moment = match removing {
            true => complete && there <= moment,
            false => there >= moment,
        };
        if is_the_moment {
            break;
        }
        std::thread::yield_now();
    }
    // It may have ended.
    let _ = child.kill();
    child.wait().expect("its end");
}

pub(crate) fn whenever_it_is_killed_down_removes_every_trace() {
    let begun = Instant::now();
    assert!(spawn().wait().expect("its end").success());
    let whole = begun.elapsed();
    let (mut nothing, mut some, mut complete) = (0, 0, 0);
    let moments = (0..=NODES).step_by(3);
    let moments = moments.flat_map(|moment| [false, true].map(|removing| (moment, removing)));
    for (moment, removing) in moments {
        killed_at(moment, removing);
        match weft_net::list().expect("a list").as_slice() {
            [] => {
                nothing += 1;
                let none = weft_net::down("killed").expect_err("nothing");
                assert!(matches!(none, weft_net::Error::NoTestbed { .. }), "{none}");
            }
            [testbed] => {
                assert_eq!(testbed.name(), "killed");
                match testbed.record() {
                    Some(_) => complete += 1,
                    None => some += 1,
                }
                // The testbed exists in part: `up` reports it and names the command that removes
                // it.
                let again = weft_net::up(&state::plan("killed", FABRIC), None).expect_err("taken");
                assert!(
                    again.to_string().contains("`weft down killed` removes it"),
                    "{again}"
                );
                weft_net::down("killed").unwrap_or_else(|wrong| panic!("{wrong}"));
            }
            more => panic!("{more:?}"),
        }
        state::assert_nothing_left();
    }
    println!(
        "# killed within some {} ms: {nothing} times nothing was there, {some} times a part, \
         {complete} times all",
        Duration::as_millis(&whole)
    );
    assert!(some > 0, "no kill met a part");
}
