// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft run` in a separate guest: `weft`'s own plan, the files for the guest, and the result.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use weft_build::base::cache::Key;
use weft_build::base::process;
use weft_build::guests;
use weft_build::guests::machine;
use weft_build::options::{ClockKind, Hardware, Target};
use weft_build::stages::chain::Built;
use weft_machine::{Guest, cpio, transfer};

/// The status of a process that SIGKILL ended.
const KILLED: u8 = 128 + 9;

/// A run, as `weft run --dry-run --json` prints it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Run {
    /// The words after `weft run`, without scheme, seed and folder.
    pub(crate) words: Vec<String>,
    pub(crate) scheme: String,
    pub(crate) seed: u64,
    /// The file of its result. The guest's file has the same name.
    pub(crate) file: PathBuf,
    /// The files and folders of the host that it reads.
    files: Vec<PathBuf>,
}

/// The runs of a command line of `weft run`.
///
/// # Errors
/// If `weft` refuses them: with its reason.
pub(crate) fn plan(weft: &Path, words: &[String]) -> Result<Vec<Run>> {
    let mut command = Command::new(weft);
    command.arg("run").args(words).args(["--dry-run", "--json"]);
    serde_json::from_str(&process::capture(&mut command)?).context("reading the plan of weft run")
}

/// A topology, options with their values, and options that have none, as words.
pub(crate) fn words<'a>(
    topology: &str,
    options: impl IntoIterator<Item = (&'a str, String)>,
    flags: &[&str],
) -> Vec<String> {
    let mut words = vec![topology.to_owned()];
    for (option, value) in options {
        words.extend([option.to_owned(), value]);
    }
    words.extend(flags.iter().map(|&flag| flag.to_owned()));
    words
}

impl Run {
    /// A run of one of weft's own schemes, which reads no files.
    pub(crate) fn new(words: Vec<String>, scheme: &str, seed: u64) -> Self {
        Self {
            words,
            scheme: scheme.to_owned(),
            seed,
            file: format!("{scheme}-seed{seed}.jsonl").into(),
            files: Vec::new(),
        }
    }

    /// The command in the guest.
    pub(crate) fn command(&self) -> Vec<String> {
        let seed = self.seed.to_string();
        let own = ["--scheme", &self.scheme, "--seed", &seed, "--out", "/out"];
        let begin = ["weft", "run"].map(str::to_owned).into_iter();
        let words = begin.chain(self.words.iter().cloned());
        words.chain(own.map(str::to_owned)).collect()
    }

    /// Its files, each with its path in the guest: the same path, so that results are the same as
    /// if the host had run them.
    ///
    /// # Errors
    /// If the guest has other files under such a path.
    pub(crate) fn placed(&self) -> Result<Vec<(PathBuf, String)>> {
        let placed = self.files.iter().map(|path| {
            let place = weft_machine::place::in_guest(path)?;
            Ok((path.clone(), place))
        });
        placed.collect()
    }

    /// A hash of its files' content.
    ///
    /// # Errors
    /// Those of [`placed`](Self::placed), or if a file cannot be read.
    pub(crate) fn inputs(&self) -> Result<String> {
        let mut archive = cpio::Archive::default();
        weft_machine::guest::add_files(&mut archive, &self.placed()?)?;
        Ok(Key::new("inputs").with(archive.finish()?).finish())
    }

    /// The command of xtask that runs it in the same guest as [`perform`](Self::perform) does.
    ///
    /// # Errors
    /// Those of [`placed`](Self::placed).
    pub(crate) fn shown(
        &self,
        target: &Target,
        clock: ClockKind,
        hardware: &Hardware,
    ) -> Result<String> {
        let command = self.command();
        let mut all = ["cargo", "xtask", "vm", "--clock", clock.name()]
            .map(str::to_owned)
            .to_vec();
        all.extend(target.words());
        all.extend(hardware.words(&command));
        for (host, guest) in self.placed()? {
            all.push(format!("--file={}:/{guest}", host.display()));
        }
        all.push("--".to_owned());
        all.extend(command);
        Ok(process::shown_words(all))
    }

    /// Runs it in a guest, which ends early if `cancel` is set; returns the bytes of its result.
    ///
    /// # Errors
    /// If the guest cannot be run, or leaves no result: with the end of its output.
    pub(crate) fn perform(
        &self,
        built: &Built,
        clock: ClockKind,
        hardware: &Hardware,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Vec<u8>> {
        let guest = Guest {
            files: self.placed()?,
            cancel: Some(Arc::clone(cancel)),
            ..Guest::new(
                machine::build(built, clock, hardware)?,
                self.command(),
                hardware.timeout(),
            )
        };
        let file = self.file.display();
        let outcome = guests::run(built, &guest, &mut |_| {}).with_context(|| file.to_string())?;
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        let left = transfer::file(&outcome.tar, &name)?;
        if let Some(result) = transfer::whole_results(outcome.status, left) {
            return Ok(result);
        }
        let cure = match outcome.status {
            KILLED => ": killed, most likely for want of memory; --memory gives more",
            _ => "",
        };
        let output = String::from_utf8_lossy(&outcome.console);
        bail!(
            "{file}: no result (status {}{cure})\n{}",
            outcome.status,
            weft_machine::last_lines(&output, 30)
        )
    }
}

#[cfg(test)]
impl Run {
    /// A run that reads a scheme's folder.
    pub(crate) fn of_folder(words: Vec<String>, folder: &str, seed: u64, file: PathBuf) -> Self {
        Self {
            file,
            files: vec![folder.into()],
            ..Self::new(words, folder, seed)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;

    use clap::Parser as _;
    use weft_machine::interrupt::Temporary;

    use super::*;

    /// The arguments of `cargo xtask vm`.
    #[derive(clap::Parser)]
    struct Vm {
        #[command(flatten)]
        target: Target,
        #[arg(long, value_enum)]
        clock: Option<ClockKind>,
        #[command(flatten)]
        hardware: Hardware,
        #[arg(long)]
        file: Vec<String>,
        #[arg(last = true)]
        command: Vec<OsString>,
    }

    /// The words of a line in shell syntax, after `cargo`.
    fn typed(line: &str) -> Vec<String> {
        let script = format!("printf '%s\\0' {line}");
        let output = process::capture(Command::new("sh").args(["-c", &script])).unwrap();
        let words = output.split_terminator('\0').skip(1);
        words.map(str::to_owned).collect()
    }

    #[test]
    fn the_printed_command_makes_the_same_guest() {
        let options = [
            "--suite sid --kernel 7.2.12 --mirror http://x/debian --refresh",
            "--shift 3 --seed 7 --cpus 2 --memory 2048 --timeout 60 --append=a=b --append=-c",
            "",
        ];
        let clocks = [ClockKind::Model, ClockKind::Instructions, ClockKind::Real];
        for (options, clock) in options.into_iter().zip(clocks) {
            let asked = ["vm"].into_iter().chain(options.split_whitespace());
            let mut asked = Vm::parse_from(asked);
            asked.hardware.append.push("it's; $HOME \"x\"".to_owned());
            let mut run = Run::new(vec!["./Cargo.toml".to_owned()], "a b", 3);
            run.files = vec!["./Cargo.toml".into()];
            let line = run.shown(&asked.target, clock, &asked.hardware).unwrap();
            // Without the `xtask` of the line.
            let vm = Vm::parse_from(&typed(&line)[1..]);
            assert_eq!(vm.target, asked.target, "{line}");
            assert_eq!(vm.hardware, asked.hardware, "{line}");
            assert_eq!(vm.clock, Some(clock), "{line}");
            let command = run.command().into_iter().map(OsString::from);
            assert_eq!(vm.command, command.collect::<Vec<_>>(), "{line}");
            assert_eq!(vm.file, ["./Cargo.toml:/root/Cargo.toml"], "{line}");
        }
    }

    #[test]
    fn defaults_are_not_printed() {
        let vm = Vm::parse_from(["vm"]);
        let run = Run::new(words("rack:hosts=2", [], &[]), "dctcp", 1);
        let line = run.shown(&vm.target, ClockKind::Model, &vm.hardware);
        assert_eq!(
            line.unwrap(),
            "cargo xtask vm --clock model -- weft run rack:hosts=2 --scheme dctcp --seed 1 --out /out"
        );
    }

    #[test]
    fn a_plan_of_weft_is_parsed() {
        let plan = r#"[{"words": ["rack:hosts=2", "--load", "0.5"], "scheme": "./mine", "seed": 7,
            "file": "o/mine-seed7.jsonl", "done": false, "files": ["./mine"]}]"#;
        let plan: Vec<Run> = serde_json::from_str(plan).unwrap();
        assert_eq!(
            plan[0].command().join(" "),
            "weft run rack:hosts=2 --load 0.5 --scheme ./mine --seed 7 --out /out"
        );
        assert_eq!(plan[0].files, [Path::new("./mine")]);
    }

    #[test]
    fn inputs_depend_on_the_content_of_files() {
        // In the current folder, because the guest has its own folder for temporary files.
        let folder = format!("./weft-inputs-{}", std::process::id());
        let place = Temporary::new(folder.clone().into()).unwrap();
        let run = Run::of_folder(Vec::new(), &folder, 1, "x".into());
        let says = |text: &str| {
            fs::write(place.path().join("scheme.toml"), text).unwrap();
            run.inputs().unwrap()
        };
        let all = [says("about = 'x'"), says("extends = 'dctcp'")];
        assert_ne!(all[0], all[1]);
        assert_eq!(says("about = 'x'"), all[0]);
        assert_ne!(Run::new(Vec::new(), "dctcp", 1).inputs().unwrap(), all[0]);
    }
}
