// SPDX-License-Identifier: MIT OR Apache-2.0

//! `kill -9` at any moment, then `weft down`.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, tests};

use crate::folder::Folder;
use crate::machine::{Machine, json, names, shell};
use crate::random::Random;
use crate::weft;

tests![
    an_up_killed_at_any_moment_leaves_nothing_after_down,
    a_large_up_killed_at_any_moment_leaves_nothing_after_down,
    #[exact = "a run must be valid, which late timers prevent"]
    a_run_killed_at_any_moment_leaves_nothing_after_down,
    #[exact = "a run must be valid, which late timers prevent"]
    a_run_with_programs_killed_at_any_moment_leaves_nothing_after_down,
];

const TESTBED: &str = "killed";
/// Names similar to the testbed's, and others.
const FOREIGN: [&str; 4] = ["foreign", "weft", "weft-killer-h0", "killed-h0"];
/// The number of moments. With programs, loading them takes nearly all the time, and any moment of
/// it is equivalent; so most of 50 moments are for schemes without programs.
const MANY: u32 = 44;
const LARGE: u32 = 6;
const WITHOUT_PROGRAMS: u32 = 47;
const WITH_PROGRAMS: u32 = 3;

fn an_up_killed_at_any_moment_leaves_nothing_after_down(cx: &Context) -> Result<()> {
    killed(cx, "up fat-tree:k=2 --scheme droptail", MANY)
}

fn a_large_up_killed_at_any_moment_leaves_nothing_after_down(cx: &Context) -> Result<()> {
    killed(cx, "up fat-tree:k=4 --scheme dctcp", LARGE)
}

fn a_run_killed_at_any_moment_leaves_nothing_after_down(cx: &Context) -> Result<()> {
    run(cx, "fat-tree:k=2 --scheme droptail", WITHOUT_PROGRAMS)
}

fn a_run_with_programs_killed_at_any_moment_leaves_nothing_after_down(cx: &Context) -> Result<()> {
    weft::require_programs()?;
    let words = "rack:hosts=2,rate=10gbit --scheme pfabric";
    run(cx, words, WITH_PROGRAMS)
}

/// A run whose traffic takes about as long as creating its fabric.
fn run(cx: &Context, words: &str, moments: u32) -> Result<()> {
    let folder = Folder::new()?;
    let words = format!(
        "run {words} --dilation 1000 --workload fixed:5kB --flows 6 --quiet --out {}",
        folder.path().join("results").display()
    );
    killed(cx, &words, moments)
}

fn killed(cx: &Context, words: &str, moments: u32) -> Result<()> {
    // pktgen has a thread per processor in each namespace, and logs a message if the process that
    // creates one is killed meanwhile.
    cx.expect_kernel_message("pktgen: ");
    let foreign = Foreign::make()?;
    let words = format!("{words} --testbed {TESTBED}");
    let before = Machine::now()?;
    // Under the model clock `weft run` waits for fixed moments to create the fabric and to send.
    // Without this variable it does not wait, so that the kills hit its work.
    let command = || {
        let mut command = weft::command(&words);
        command.env_remove("WEFT_CLOCK").stdout(Stdio::null());
        command
    };
    let begun = Instant::now();
    ensure!(command().status()?.success(), "without a kill");
    let whole = begun.elapsed();
    down()?;
    before.ensure_unchanged().context("without a kill")?;

    let mut random = Random(u64::from(moments));
    let (mut nothing, mut part, mut all) = (0, 0, 0);
    for _ in 0..moments {
        let moment = random.below(whole);
        let mut child = command().stderr(Stdio::null()).spawn()?;
        std::thread::sleep(moment);
        child.kill()?;
        child.wait()?;
        if names("/run/weft").is_empty() {
            nothing += 1;
        } else if names(&format!("/run/weft/{TESTBED}")).contains(&"record.json".to_owned()) {
            all += 1;
        } else {
            part += 1;
        }
        let when = || format!("killed after {moment:?} of {whole:?}");
        down().with_context(when)?;
        before.ensure_unchanged().with_context(when)?;
    }
    cx.note(format!(
        "killed within {whole:.0?}: {nothing} times nothing was there, {part} times a part, {all} times all"
    ));
    ensure!(part + all > moments / 2, "most kills were too early");
    foreign.ensure_unchanged()?;
    // The fabric can be created again.
    weft::weft(&words)?;
    down()?;
    before.ensure_unchanged()
}

/// Removes the testbed, whether or not parts of it exist.
fn down() -> Result<()> {
    let there = !names("/run/weft").is_empty();
    if there {
        return weft::weft(&format!("down {TESTBED}")).map(drop);
    }
    let refusal = weft::refusal(&format!("down {TESTBED}"))?;
    let expected = format!("there is no testbed `{TESTBED}`; ");
    ensure!(refusal.starts_with(&expected), "{refusal}");
    Ok(())
}

/// Objects of others, which are removed on drop.
struct Foreign {
    content: String,
}

impl Foreign {
    fn make() -> Result<Self> {
        for name in FOREIGN {
            shell(&format!("ip netns add {name}"))?;
        }
        shell(
            "ip -n foreign link add eth0 type veth peer name eth1 netns weft-killer-h0 && \
             ip -n foreign address add 10.0.0.2/32 dev eth0 && ip -n foreign link set eth0 up && \
             tc -n foreign qdisc add dev eth0 root pfifo limit 7 && \
             mkdir /sys/fs/cgroup/weft-killer",
        )?;
        // Devices detect their carrier in the background.
        std::thread::sleep(Duration::from_secs(2));
        Ok(Self {
            content: Self::content()?,
        })
    }

    fn content() -> Result<String> {
        let mut text = String::new();
        for name in FOREIGN {
            for what in ["ip -j -d -n", "tc -j -n"] {
                let object = if what.starts_with("ip") {
                    "address"
                } else {
                    "qdisc"
                };
                text += &format!("{name}: {:?}\n", json(&format!("{what} {name} {object}"))?);
            }
        }
        Ok(text)
    }

    fn ensure_unchanged(&self) -> Result<()> {
        let now = Self::content()?;
        ensure!(now == self.content, "before:\n{}now:\n{now}", self.content);
        Ok(())
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        for name in FOREIGN {
            let _ = shell(&format!("ip netns delete {name}"));
        }
        let _ = std::fs::remove_dir("/sys/fs/cgroup/weft-killer");
    }
}
