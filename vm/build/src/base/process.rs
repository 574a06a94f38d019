// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs commands: their output goes to a log file, whose tail explains a failure.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use weft_machine::interrupt::{self, Kind};
use weft_machine::last_lines;
use weft_words::shell::quoted;

/// Lines of a log that are shown when a step fails.
const TAIL_LINES: usize = 60;
const TAIL_BYTES: u64 = 16 * 1024;

/// A step's log file.
pub struct Log {
    path: PathBuf,
}

impl Log {
    /// Starts an empty log.
    pub fn create(path: PathBuf) -> Result<Self> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Self { path })
    }

    fn append(&self) -> Result<File> {
        let file = OpenOptions::new().append(true).open(&self.path);
        file.with_context(|| format!("opening {}", self.path.display()))
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// If it cannot be started or fails; the message holds the log's tail and place.
    pub fn run(&self, command: &mut Command) -> Result<()> {
        self.run_as(command, Kind::Group)
    }

    /// Like [`run`](Self::run), but an interrupt does not end the command.
    pub fn run_untouchable(&self, command: &mut Command) -> Result<()> {
        self.run_as(command, Kind::Untouchable)
    }

    fn run_as(&self, command: &mut Command, kind: Kind) -> Result<()> {
        writeln!(self.append()?, "$ {}", shown_briefly(command))?;
        command
            .stdin(Stdio::null())
            .stdout(self.append()?)
            .stderr(self.append()?);
        let status = interrupt::spawn(command, kind)?.child.wait()?;
        self.check(command, status)
    }

    /// Runs a command and returns its standard output, which is not logged.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub fn run_piped(&self, command: &mut Command) -> Result<String> {
        writeln!(self.append()?, "$ {}", shown_briefly(command))?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(self.append()?);
        let mut guarded = interrupt::spawn(command, Kind::Group)?;
        let mut data = Vec::new();
        if let Some(mut pipe) = guarded.child.stdout.take() {
            pipe.read_to_end(&mut data)?;
        }
        let status = guarded.child.wait()?;
        self.check(command, status)?;
        Ok(String::from_utf8_lossy(&data).into_owned())
    }

    fn check(&self, command: &Command, status: ExitStatus) -> Result<()> {
        if !status.success() {
            interrupt::park_if_ending();
            let name = command.get_program().to_string_lossy().into_owned();
            bail!("{name} failed ({status})\n{}", self.tail());
        }
        Ok(())
    }

    /// Everything logged so far.
    pub fn text(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(&self.path)?).into_owned())
    }

    /// The last lines of the log, and its path.
    pub fn tail(&self) -> String {
        let text = tail_of(&self.path).unwrap_or_default();
        format!("{text}\n(the whole log: {})", self.path.display())
    }
}

fn tail_of(path: &Path) -> Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(last_lines(&String::from_utf8_lossy(&bytes), TAIL_LINES))
}

/// Runs a command and returns its output.
///
/// # Errors
/// If it cannot be started or fails; the message has its standard error.
pub fn capture(command: &mut Command) -> Result<String> {
    command.stdin(Stdio::null());
    let output = command
        .output()
        .with_context(|| format!("starting {}", command.get_program().to_string_lossy()))?;
    if !output.status.success() {
        interrupt::park_if_ending();
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{} failed ({})\n{}",
            shown(command),
            output.status,
            last_lines(&complaint, TAIL_LINES)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command with this process's output, and returns its status.
///
/// # Errors
/// If it cannot be started.
pub fn passed_on(command: &mut Command) -> Result<u8> {
    let status = command.status().with_context(|| shown(command))?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1))
}

/// A command in shell syntax; for a script only its first effective line.
fn shown_briefly(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let brief = |word: &str| {
        let telling = |line: &&str| !line.is_empty() && !line.starts_with('#');
        match word.contains('\n') {
            true => format!("'{} …'", word.lines().find(telling).unwrap_or_default()),
            false => quoted(word),
        }
    };
    words
        .map(|word| brief(&word.to_string_lossy()))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A command in shell syntax.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    shown_words(words.map(|word| word.to_string_lossy()))
}

/// Words of a command in shell syntax.
pub fn shown_words<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> String {
    let words = words.into_iter().map(|word| quoted(word.as_ref()));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_command_can_be_pasted_into_a_shell() {
        let mut command = Command::new("apt-get");
        command.args(["-o", "A::B=c d", "it's", "", "x"]);
        assert_eq!(shown(&command), r"apt-get -o 'A::B=c d' 'it'\''s' '' x");
    }

    #[test]
    fn a_failed_command_shows_its_output() {
        let error =
            capture(Command::new("sh").args(["-c", "echo no such thing >&2; exit 3"])).unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.contains("no such thing") && text.contains("exit status: 3"),
            "{text}"
        );
    }
}
