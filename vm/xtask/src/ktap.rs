// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads KTAP, version 1 (Documentation/dev-tools/ktap.rst of the kernel), and TAP 13.
//!
//! Only leaves count: the line of a test with subtests summarizes them. A test that is announced
//! but never reported counts as failed, so a program that dies half-way cannot pass.

/// The number of passed, skipped and failed tests, and the failed ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
    /// Names of failed tests, each with its last note, and other failures.
    pub(crate) failures: Vec<String>,
}

impl Tally {
    /// Counts a failure.
    pub(crate) fn fail(&mut self, name: impl Into<String>) {
        self.failed += 1;
        self.failures.push(name.into());
    }

    /// Counts a success.
    pub(crate) fn pass(&mut self) {
        self.passed += 1;
    }

    /// Adds another tally.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
    }
}

/// An open nesting level.
#[derive(Default)]
struct Level {
    planned: Option<usize>,
    reported: usize,
    /// Results of subtests since this level's last line.
    children: usize,
    failed_children: usize,
    /// The last note before the next result.
    note: Option<String>,
}

/// The tally of a test program's output.
pub(crate) fn parse(output: &str) -> Tally {
    let mut tally = Tally::default();
    let mut levels: Vec<Level> = Vec::new();
    for line in output.lines() {
        let text = line.trim_start_matches(' ');
        let depth = (line.len() - text.len()) / 2;
        if text.starts_with("KTAP version ") || text.starts_with("TAP version ") {
            close(&mut levels, depth, &mut tally);
            levels.resize_with(depth + 1, Level::default);
            continue;
        }
        // A note is indented more than its result.
        if let (Some(note), Some(level)) = (text.strip_prefix("# "), levels.last_mut()) {
            level.note = Some(note.to_owned());
            continue;
        }
        // Lines before the first version line, or indented more than any level, are other output.
        if depth >= levels.len() {
            continue;
        }
        if let Some(count) = plan(text) {
            levels[depth].planned = Some(count);
            // An earlier note is the list's heading.
            levels[depth].note = None;
        } else if text.starts_with("Bail out!") {
            tally.fail(text);
        } else if let Some(result) = result(text) {
            close(&mut levels, depth + 1, &mut tally);
            report(&mut levels, depth, &result, &mut tally);
        }
    }
    if levels.is_empty() {
        tally.fail("the output holds no KTAP");
    }
    close(&mut levels, 0, &mut tally);
    tally
}

fn report(levels: &mut [Level], depth: usize, result: &Outcome<'_>, tally: &mut Tally) {
    let level = &mut levels[depth];
    level.reported += 1;
    let (children, failed_children) = (level.children, level.failed_children);
    (level.children, level.failed_children) = (0, 0);
    let note = level.note.take();
    match result {
        // Its children have been counted; a parent that fails for its own reason counts, too.
        Outcome::Passed if children > 0 => {}
        Outcome::Failed(_) if failed_children > 0 => {}
        Outcome::Passed => tally.pass(),
        Outcome::Failed(name) => tally.fail(match note {
            Some(note) => format!("{name}: {note}"),
            None => (*name).to_owned(),
        }),
        Outcome::Skipped => tally.skipped += 1,
    }
    let failed = matches!(result, Outcome::Failed(_));
    if let Some(parent) = depth
        .checked_sub(1)
        .and_then(|parent| levels.get_mut(parent))
    {
        parent.children += 1;
        parent.failed_children += usize::from(failed);
    }
}

/// Ends all levels from `depth` on; tests that they announced and did not report are failures.
fn close(levels: &mut Vec<Level>, depth: usize, tally: &mut Tally) {
    while levels.len() > depth {
        let Some(level) = levels.pop() else { return };
        match level.planned {
            None => tally.fail("a list of tests without a plan"),
            Some(planned) if planned != level.reported => {
                tally.fail(format!(
                    "{planned} tests were announced, {} reported",
                    level.reported
                ));
            }
            Some(_) => continue,
        }
        if let Some(parent) = levels.last_mut() {
            parent.failed_children += 1;
        }
    }
}

/// `1..N`.
fn plan(text: &str) -> Option<usize> {
    text.strip_prefix("1..")?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

enum Outcome<'a> {
    Passed,
    Failed(&'a str),
    Skipped,
}

/// `ok N [-] name [# SKIP reason]`, `not ok …`.
fn result(text: &str) -> Option<Outcome<'_>> {
    let (passed, rest) = match text.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, text.strip_prefix("ok")?),
    };
    let rest = rest.strip_prefix(' ')?;
    let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    number.parse::<usize>().ok()?;
    let (name, directive) = rest.split_once('#').unwrap_or((rest, ""));
    let directive = directive.trim_start().to_ascii_uppercase();
    if directive.starts_with("SKIP")
        || directive.starts_with("XFAIL")
        || directive.starts_with("TODO")
    {
        return Some(Outcome::Skipped);
    }
    let name = name.trim().trim_start_matches("- ");
    Some(if passed {
        Outcome::Passed
    } else {
        Outcome::Failed(name)
    })
}

/// Whether `--filter` selects a test by its name; without a filter all tests are selected.
pub(crate) fn selects(filter: Option<&str>, name: &str) -> bool {
    let asked = |pattern: &str| !pattern.is_empty() && name.contains(pattern);
    filter.is_none_or(|filter| filter.split(',').any(asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(output: &str) -> (usize, usize, usize) {
        let tally = parse(output);
        assert_eq!(tally.failed, tally.failures.len());
        (tally.passed, tally.failed, tally.skipped)
    }

    #[test]
    fn a_flat_list_is_counted() {
        let output = "KTAP version 1\n1..4\nok 1 a\n# note\nnot ok 2 - b # broken\nok 3 c # SKIP no kvm\nok 4 d\n";
        let tally = parse(output);
        assert_eq!((tally.passed, tally.failed, tally.skipped), (2, 1, 1));
        assert_eq!(tally.failures, ["b: note"]);
    }

    #[test]
    fn only_leaves_count() {
        let output = "\
KTAP version 1
1..2
  KTAP version 1
  # Subtest: one
  1..2
    KTAP version 1
    1..1
    ok 1 deep
  ok 1 a
  not ok 2 b
not ok 1 one
ok 2 two
";
        assert_eq!(counts(output), (2, 1, 0));
    }

    #[test]
    fn a_failure_comes_with_its_last_note() {
        let output = "\
KTAP version 1
1..1
  KTAP version 1
  # Subtest: all
  1..3
    # 7 packets
  ok 1 a
    # 9 packets
    # [2, 1]: counted twice
  not ok 2 b # 0.1 s
  not ok 3 c
not ok 1 all
";
        assert_eq!(parse(output).failures, ["b: [2, 1]: counted twice", "c"]);
    }

    #[test]
    fn a_parent_that_fails_without_a_failed_child_counts() {
        let output = "KTAP version 1\n1..1\n  KTAP version 1\n  1..1\n  ok 1 a\nnot ok 1 parent\n";
        assert_eq!(parse(output).failures, ["parent"]);
    }

    #[test]
    fn a_program_that_dies_halfway_fails() {
        assert_eq!(counts("KTAP version 1\n1..3\nok 1 a\n"), (1, 1, 0));
        assert_eq!(
            counts("KTAP version 1\n1..1\n  KTAP version 1\n  1..2\n  ok 1 a\n"),
            (1, 2, 0)
        );
        assert_eq!(counts("KTAP version 1\nok 1 a\n"), (1, 1, 0));
        assert_eq!(
            counts("KTAP version 1\n1..1\nok 1 a\nBail out! no root\n"),
            (1, 1, 0)
        );
    }

    #[test]
    fn output_without_ktap_fails() {
        for output in ["", "ok 1 a\n", "Segmentation fault\n"] {
            assert_eq!(counts(output), (0, 1, 0), "{output}");
        }
    }

    #[test]
    fn other_output_of_tests_is_ignored() {
        let output =
            "qdisc x\nTAP version 13\n1..1\nokay\nok computer\n    ok 7 too deep\nok 1 a\n";
        assert_eq!(counts(output), (1, 0, 0));
    }
}
