// SPDX-License-Identifier: MIT OR Apache-2.0

//! Progress of runs on standard error, for people and as messages for programs; and their
//! cancellation by Ctrl-C.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use serde::{Deserialize, Serialize};
use weft_load::engine::{Cancel, Progress, raise_descriptor_limit};

use crate::arguments::guest;

/// Must be called once, before the first run. Ctrl-C then ends the current run.
pub(crate) fn prepare() -> Result<Arc<Cancel>> {
    raise_descriptor_limit()?;
    let cancel = Arc::new(Cancel::new()?);
    let interrupt = Arc::clone(&cancel);
    ctrlc::set_handler(move || interrupt.cancel()).context("catching Ctrl-C")?;
    Ok(cancel)
}

pub(crate) fn interrupted(path: &Path) -> Result<ExitCode> {
    eprintln!(
        "weft: interrupted; {} is of a part of it, without a summary",
        path.display()
    );
    Ok(ExitCode::from(130))
}

/// The items, with a bar on a terminal for as long as they last.
pub(crate) fn each<T>(what: &str, quiet: bool, items: Vec<T>) -> impl Iterator<Item = T> {
    let target = match quiet {
        true => ProgressDrawTarget::hidden(),
        // Draws only on a terminal.
        false => ProgressDrawTarget::stderr(),
    };
    let bar = bar(what, "{prefix} {wide_bar} {pos} of {len}", target);
    bar.set_length(items.len() as u64);
    bar.wrap_iter(items.into_iter())
        .with_finish(ProgressFinish::AndClear)
}

/// Maximum time without a line. The last flows may take most of a run's time, and without output a
/// run seems to hang.
const SILENCE: Duration = Duration::from_secs(60);

/// A step of one or more runs, as a line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "progress", rename_all = "snake_case")]
pub(crate) enum Message {
    /// Progress of a run in flows.
    Run {
        /// The file of its results; a run does not name its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
        ended: u64,
        flows: u64,
    },
    /// A run has its results.
    Done {
        file: String,
        /// Runs that have ended, and their total.
        runs: usize,
        of: usize,
    },
}

impl Message {
    /// Parses a line; `None`: it is not a message.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        let is_one = line.starts_with("{\"progress\":");
        is_one.then(|| serde_json::from_str(line).ok()).flatten()
    }

    fn print(&self) {
        if let Ok(line) = serde_json::to_string(self) {
            eprintln!("{line}");
        }
    }
}

/// How progress is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Bars,
    Lines,
    Messages,
    Quiet,
}

impl How {
    fn new(terminal: bool, progress: guest::Progress, quiet: bool) -> Self {
        match (quiet, progress, terminal) {
            (true, ..) => Self::Quiet,
            (_, guest::Progress::Json, _) => Self::Messages,
            (_, _, true) => Self::Bars,
            _ => Self::Lines,
        }
    }
}

/// Progress of a run on standard error: a bar on a terminal, otherwise a line for each tenth.
pub(crate) struct RunProgress {
    what: String,
    how: How,
    /// Redrawn when a flow ends, not by a thread, which would be one more process on the fabric's
    /// machine. It exists even if it is not drawn: creating it draws from the kernel's random
    /// numbers, and under the model clock a run must not depend on its observer.
    bar: ProgressBar,
    begun: Instant,
    /// The percentage that was printed last.
    last: u64,
    /// When that was, since the start.
    printed: Duration,
}

impl RunProgress {
    pub(crate) fn new(scheme: &str, seed: u64, progress: guest::Progress, quiet: bool) -> Self {
        let what = format!("{scheme}, seed {seed}");
        let terminal = std::io::stderr().is_terminal();
        Self::on(what, How::new(terminal, progress, quiet))
    }

    fn on(what: String, how: How) -> Self {
        let target = match how {
            How::Bars => ProgressDrawTarget::stderr(),
            _ => ProgressDrawTarget::hidden(),
        };
        Self {
            bar: bar(&what, OF_FLOWS, target),
            what,
            how,
            begun: Instant::now(),
            last: 0,
            printed: Duration::ZERO,
        }
    }

    pub(crate) fn update(&mut self, progress: Progress) {
        let Progress { flows, ended, .. } = progress;
        self.bar.set_length(flows);
        self.bar.set_position(ended);
        if ended == flows {
            self.bar.finish();
        }
        if let Some(line) = self.line(flows, ended, self.begun.elapsed()) {
            eprintln!("{line}");
        }
    }

    /// The line to print now, if any.
    fn line(&mut self, flows: u64, ended: u64, elapsed: Duration) -> Option<String> {
        let step = match self.how {
            How::Lines => 10,
            // For a program that draws a bar.
            How::Messages => 1,
            How::Bars | How::Quiet => return None,
        };
        let percent = 100 * ended / flows.max(1);
        let is_due = percent >= self.last + step || elapsed >= self.printed + SILENCE;
        if !is_due {
            return None;
        }
        self.last = percent - percent % step;
        self.printed = elapsed;
        if self.how == How::Messages {
            let file = None;
            return serde_json::to_string(&Message::Run { file, ended, flows }).ok();
        }
        let left = elapsed.mul_f64((flows - ended) as f64 / ended.max(1) as f64);
        Some(format!(
            "{}: {ended} of {flows} flows, about {:.0} s left",
            self.what,
            left.as_secs_f64().ceil()
        ))
    }
}

/// The style of a run's bar.
const OF_FLOWS: &str = "{prefix}: {pos} of {len} flows, about {eta} left {wide_bar}";

fn bar(what: &str, style: &str, target: ProgressDrawTarget) -> ProgressBar {
    let style = ProgressStyle::with_template(style);
    ProgressBar::with_draw_target(Some(0), target)
        .with_prefix(what.to_owned())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Progress of several runs at a time: on a terminal a bar for each and one for all, otherwise a
/// line for each run that ends.
pub(crate) struct ShownRuns {
    how: How,
    runs: usize,
    begun: Instant,
    bars: MultiProgress,
    all: Option<ProgressBar>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ended: usize,
    /// Of current runs: flows that ended, all flows, and their bars.
    under_way: BTreeMap<usize, (u64, u64, Option<ProgressBar>)>,
}

impl ShownRuns {
    pub(crate) fn new(runs: usize, progress: guest::Progress, quiet: bool) -> Self {
        let how = How::new(std::io::stderr().is_terminal(), progress, quiet);
        let bars = MultiProgress::new();
        let all = (how == How::Bars).then(|| {
            let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
            let bar = bars.add(ProgressBar::new_spinner());
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        let shown = Self {
            how,
            runs,
            begun: Instant::now(),
            bars,
            all,
            state: Mutex::default(),
        };
        shown.tell(&State::default());
        shown
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A run begins.
    pub(crate) fn begun(&self, place: usize, what: &str) {
        let bar = self.all.as_ref().map(|all| {
            let hidden = ProgressDrawTarget::hidden();
            self.bars.insert_before(all, bar(what, OF_FLOWS, hidden))
        });
        self.with(|state| state.under_way.insert(place, (0, 0, bar)));
    }

    /// A run reports its progress.
    pub(crate) fn seen(&self, place: usize, path: &Path, message: &Message) {
        let Message::Run { ended, flows, .. } = *message else {
            return;
        };
        self.with(|state| {
            if let Some((known, all, bar)) = state.under_way.get_mut(&place) {
                (*known, *all) = (ended, flows);
                if let Some(bar) = bar {
                    bar.set_length(flows);
                    bar.set_position(ended);
                }
            }
            self.tell(state);
        });
        if self.how == How::Messages {
            let file = Some(path.display().to_string());
            Message::Run { file, ended, flows }.print();
        }
    }

    /// A run has its results.
    pub(crate) fn ended(&self, place: usize, path: &Path) {
        let (ended, text) = self.with(|state| {
            state.ended += 1;
            if let Some((_, _, Some(bar))) = state.under_way.remove(&place) {
                bar.finish_and_clear();
            }
            self.tell(state);
            (state.ended, self.text(state))
        });
        let file = path.display().to_string();
        let (runs, of) = (ended, self.runs);
        match self.how {
            How::Lines => eprintln!("{text}: {file}"),
            How::Messages => Message::Done { file, runs, of }.print(),
            How::Bars | How::Quiet => {}
        }
    }

    /// All runs have ended.
    pub(crate) fn finish(&self) {
        if let Some(all) = &self.all {
            all.finish_and_clear();
        }
    }

    fn tell(&self, state: &State) {
        if let Some(all) = &self.all {
            all.set_message(self.text(state));
        }
    }

    /// The line for all runs, with the remaining time at the present speed.
    fn text(&self, state: &State) -> String {
        let shares = state.under_way.values();
        let shares = shares.map(|(ended, flows, _)| *ended as f64 / (*flows).max(1) as f64);
        let done = state.ended as f64 + shares.map(|share| share.min(1.0)).sum::<f64>();
        let mut text = format!("{} of {} runs", state.ended, self.runs);
        if done > 0.0 && state.ended < self.runs {
            let left = (self.runs as f64 - done).max(0.0) / done;
            let left = self.begun.elapsed().mul_f64(left);
            text += &match left.as_secs() {
                ..90 => format!(", about {} s left", left.as_secs()),
                seconds => format!(", about {} min left", seconds.div_ceil(60)),
            };
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(how: How) -> Vec<String> {
        let mut shown = RunProgress::on("dctcp, seed 1".to_owned(), how);
        let line = |ended| shown.line(40, ended, Duration::from_secs(ended));
        (1..=40).filter_map(line).collect()
    }

    #[test]
    fn a_file_gets_a_line_for_each_tenth() {
        let lines = lines(How::Lines);
        assert_eq!(lines.len(), 10);
        assert_eq!(lines[0], "dctcp, seed 1: 4 of 40 flows, about 36 s left");
        assert_eq!(lines[9], "dctcp, seed 1: 40 of 40 flows, about 0 s left");
    }

    #[test]
    fn a_file_gets_a_line_after_a_minute_without_one() {
        let mut shown = RunProgress::on("bfc, seed 1".to_owned(), How::Lines);
        let mut says = |ended, seconds| {
            let line = shown.line(100, ended, Duration::from_secs(seconds));
            line.is_some()
        };
        assert!(!says(9, 59));
        assert!(says(9, 60), "a minute without a line");
        assert!(!says(9, 119));
        assert!(says(10, 119) && !says(19, 150));
        assert!(!says(19, 178) && says(19, 179));
    }

    #[test]
    fn a_program_gets_messages() {
        let lines = lines(How::Messages);
        let message = Message::parse(&lines[3]);
        let (file, ended, flows) = (None, 4, 40);
        assert_eq!(message, Some(Message::Run { file, ended, flows }));
        assert_eq!(Message::parse("dctcp, seed 1: 4 of 40 flows"), None);
    }

    #[test]
    fn a_terminal_gets_a_bar_and_with_quiet_nothing_is_printed() {
        let json = guest::Progress::Json;
        assert_eq!(How::new(true, json, true), How::Quiet);
        assert_eq!(How::new(true, guest::Progress::Text, false), How::Bars);
        assert_eq!(How::new(true, json, false), How::Messages);
        for how in [How::Bars, How::Quiet] {
            assert!(lines(how).is_empty());
        }
        assert!(RunProgress::on(String::new(), How::Quiet).bar.is_hidden());
    }

    #[test]
    fn several_runs_share_one_progress_bar() {
        let shown = ShownRuns::new(3, guest::Progress::Text, true);
        shown.begun(0, "dctcp, seed 1");
        let (file, ended, flows) = (None, 5, 10);
        shown.seen(0, Path::new("x"), &Message::Run { file, ended, flows });
        let text = shown.with(|state| shown.text(state));
        assert!(text.starts_with("0 of 3 runs, about "), "{text}");
        (0..3).for_each(|place| shown.ended(place, Path::new("x")));
        assert_eq!(shown.with(|state| shown.text(state)), "3 of 3 runs");
    }
}
