// SPDX-License-Identifier: MIT OR Apache-2.0

//! The shortcuts of the model clock's kernel (`vm/um/patches`) save time and do not change results:
//! a run without one of them, or without any, leaves the same bytes.

use anyhow::Result;
use weft_build::base::{progress, workspace};
use weft_build::guests;
use weft_build::guests::machine;
use weft_build::options::{ClockKind, Hardware};
use weft_build::stages::chain::Built;
use weft_machine::Guest;

use crate::commands::test::determinism::Trace;
use crate::ktap::{self, Tally};

/// Packets and flows that a shortcut might treat differently.
const SCENARIO: &str = "selftests/determinism/shortcuts.sh";
/// Its place in the guest.
const PLACE: &str = "root/shortcuts.sh";
/// The test's name for `--filter`.
const NAME: &str = "shortcuts";

/// Kernel parameters; each turns one shortcut off.
const OFF: [&str; 7] = [
    "direct_timers=0",
    "quick_flow_keys=0",
    "fast_forward=0",
    "direct_receive=0",
    "timer_heap=0",
    "plain_frames=0",
    "sysctl.net.core.bpf_jit_enable=0",
];

/// Whether the test runs: with all tests, or if selected.
pub(crate) fn is_selected(filter: Option<&str>) -> bool {
    ktap::selects(filter, NAME)
}

/// The kernel parameters of each run: the first has all shortcuts, the second none, and each of the
/// others lacks one.
pub(crate) fn variations() -> Vec<Vec<&'static str>> {
    let each = OFF.iter().map(|off| vec![*off]);
    [Vec::new(), OFF.to_vec()].into_iter().chain(each).collect()
}

/// Runs the scenario once.
///
/// # Errors
/// If the guest cannot be run, or the scenario fails.
pub(crate) fn scenario(built: &Built, hardware: &Hardware, off: &[&str]) -> Result<Trace> {
    let mut machine = machine::build(built, ClockKind::Model, hardware)?;
    machine.append.extend(off.iter().map(|&off| off.to_owned()));
    let command = vec!["sh".to_owned(), format!("/{PLACE}")];
    let run = Guest {
        files: vec![(workspace().join(SCENARIO), PLACE.to_owned())],
        ..Guest::new(machine, command, hardware.timeout())
    };
    Ok(guests::succeed(built, &run, SCENARIO)?.into())
}

/// Compares the traces of [`variations`], in order.
pub(crate) fn judge(traces: Vec<Result<Trace>>) -> Tally {
    let mut tally = Tally::default();
    progress::note(&format!(
        "{NAME}: one run with all of them, one with none, and one without each of {}",
        OFF.len()
    ));
    let traces: Vec<Trace> = match traces.into_iter().collect() {
        Ok(traces) => traces,
        Err(error) => {
            tally.fail(format!("{NAME}: {error:#}"));
            return tally;
        }
    };
    let Some((first, others)) = traces.split_first() else {
        tally.fail(format!("{NAME}: no runs"));
        return tally;
    };
    for (other, off) in others.iter().zip(variations().iter().skip(1)) {
        // The kernel's log contains its command line.
        match first.difference_but_for_memory(other) {
            Ok(None) => tally.pass(),
            Ok(Some(difference)) => tally.fail(format!(
                "{NAME}: a run with {} leaves another {difference}",
                off.join(" ")
            )),
            Err(error) => tally.fail(format!("{NAME}: {error:#}")),
        }
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shortcut_is_disabled_once_alone_and_once_with_all_others() {
        let all = variations();
        assert_eq!(all[0], [""; 0]);
        assert_eq!(all[1], OFF);
        assert_eq!(all.len(), OFF.len() + 2);
        for off in OFF {
            assert_eq!(all.iter().filter(|run| run.contains(&off)).count(), 2);
            assert!(all.contains(&vec![off]));
        }
    }

    #[test]
    fn each_switch_is_in_a_patch() {
        let patches = workspace().join("vm/um/patches");
        let texts: Vec<String> = std::fs::read_dir(patches)
            .unwrap()
            .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
            .collect();
        for off in OFF {
            let name = off.split('=').next().unwrap();
            assert!(texts.iter().any(|text| text.contains(name)), "{name}");
        }
    }

    #[test]
    fn a_filter_selects_the_test_by_its_name() {
        assert!(is_selected(None));
        assert!(is_selected(Some("shortcuts")));
        assert!(is_selected(Some("pfabric,short")));
        assert!(!is_selected(Some("pfabric")));
        assert!(!is_selected(Some("")));
    }

    #[test]
    fn a_run_that_differs_fails_and_names_its_switch() {
        let trace = |output: &str| Trace::of_output(output);
        let run =
            |outputs: &[&str]| judge(outputs.iter().map(|output| Ok(trace(output))).collect());
        let mut outputs = [""; OFF.len() + 2];
        let same = run(&outputs);
        assert_eq!((same.passed, same.failed), (OFF.len() + 1, 0));
        outputs[3] = "other";
        let other = run(&outputs);
        assert_eq!((other.passed, other.failed), (OFF.len(), 1));
        assert!(other.failures[0].contains(OFF[1]), "{:?}", other.failures);
        let none = judge(vec![Err(anyhow::anyhow!("the guest died"))]);
        assert_eq!((none.passed, none.failed), (0, 1));
    }
}
