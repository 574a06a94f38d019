// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft run` in a guest of its own: the results that it leaves, and how far it says
//! that it is.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, bail};

use crate::build::{self, Built};
use crate::cache::Key;
use crate::cli::{ClockKind, Hardware, Target};
use crate::cpio;
use crate::failure::Failure;
use crate::guest;
use crate::process;
use crate::transfer;
use crate::vm;
use weft_machine::Guest;

/// That of a process that was ended by SIGKILL.
const KILLED: u8 = 128 + 9;

/// What the guest left.
pub(crate) struct Left {
    pub(crate) file: Vec<u8>,
}

impl Left {
    /// Writes the result, and makes the folder for it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        transfer::write_whole(path, &self.file)
    }
}

/// `weft run` on a topology, with options and their values.
pub(crate) fn words<'a>(
    topology: &str,
    options: impl IntoIterator<Item = (&'a str, String)>,
) -> Vec<String> {
    let mut words = ["weft", "run", topology].map(str::to_owned).to_vec();
    for (option, value) in options {
        words.extend([option.to_owned(), value]);
    }
    words
}

/// The command of xtask that runs these words in the same guest as [`run`] does.
///
/// # Errors
/// Those of [`files`].
pub(crate) fn shown(
    target: &Target,
    clock: ClockKind,
    hardware: &Hardware,
    words: &[String],
) -> Result<String> {
    let mut all = ["cargo", "xtask", "vm", "--clock", clock.name()]
        .map(str::to_owned)
        .to_vec();
    all.extend(target.words());
    all.extend(hardware.words(words));
    for (host, guest) in files(words)? {
        all.push(format!("--file={}:/{guest}", host.display()));
    }
    all.push("--".to_owned());
    all.extend_from_slice(words);
    Ok(process::shown_words(all))
}

/// The name that `weft run` gives a result: of a scheme in a folder, the folder's.
pub(crate) fn file(scheme: &str, seed: u64) -> String {
    format!("{}-seed{seed}.jsonl", name(scheme))
}

/// What results call a scheme.
pub(crate) fn name(scheme: &str) -> Cow<'_, str> {
    let name = Path::new(scheme).file_name();
    name.map_or_else(|| scheme.into(), |name| name.to_string_lossy())
}

/// The files and folders of the host that words of `weft run` name, and where the guest has them:
/// under the same path, so that results say the same as if the host had run them.
///
/// # Errors
/// If the guest has something else under such a path.
pub(crate) fn files(words: &[String]) -> Result<Vec<(PathBuf, String)>> {
    let mut paths = Vec::new();
    // `run` stands before the topology.
    for pair in words.get(1..).unwrap_or_default().windows(2) {
        let (option, path) = (pair[0].as_str(), Path::new(&pair[1]));
        match option {
            "--out" => {}
            _ if !path.exists() => {}
            // A folder that is here by chance: weft takes its own first.
            "--scheme" if is_built_in(&pair[1]) => {}
            "--scheme" => paths.extend(with_parents(path)),
            _ => paths.push(path.to_owned()),
        }
    }
    let placed = paths.into_iter().map(|path| {
        let place = weft_machine::place::in_guest(&path)?;
        Ok((path, place))
    });
    placed.collect()
}

/// Where weft has its own scheme of a name.
fn built_in(name: &str) -> PathBuf {
    build::workspace().join("tc-configs").join(name)
}

/// Whether weft brings a scheme of that name.
fn is_built_in(name: &str) -> bool {
    !name.contains(['/', '.']) && built_in(name).is_dir()
}

/// A hash of what files say that words of `weft run` only name: those that are handed over, and
/// weft's own of the scheme.
///
/// # Errors
/// Those of [`files`], or if one cannot be read.
pub(crate) fn inputs(words: &[String]) -> Result<String> {
    let mut files = files(words)?;
    let schemes = words.windows(2).filter(|pair| pair[0] == "--scheme");
    for (number, folder) in schemes.flat_map(|pair| sources(&pair[1])).enumerate() {
        files.push((folder, format!("scheme/{number}")));
    }
    let mut archive = cpio::Archive::default();
    weft_machine::guest::add_files(&mut archive, &files)?;
    Ok(Key::new("inputs").with(archive.finish()?).finish())
}

/// Folders that a scheme is made of, weft's own among them.
fn sources(scheme: &str) -> Vec<PathBuf> {
    let built_in = |name: &str| is_built_in(name).then(|| built_in(name));
    let begin = built_in(scheme).or_else(|| Some(scheme.into()).filter(|it: &PathBuf| it.is_dir()));
    begin.map_or_else(Vec::new, |folder| {
        chain(&folder, |folder, name| {
            by_path(folder, name).or_else(|| built_in(name))
        })
    })
}

/// A scheme's folder, and those of the schemes that it extends by a path.
fn with_parents(folder: &Path) -> Vec<PathBuf> {
    chain(folder, by_path)
}

/// The folder of the scheme that one in a folder extends by a path from there.
fn by_path(folder: &Path, name: &str) -> Option<PathBuf> {
    let parent = folder.join(name);
    (name.contains('/') && parent.is_dir()).then_some(parent)
}

/// A scheme's folder, and those of the schemes that it extends: `next` finds one by the name that
/// it has in a folder.
fn chain(folder: &Path, next: impl Fn(&Path, &str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    let mut seen = vec![fs::canonicalize(folder).ok()];
    let parent = |folder: &PathBuf| next(folder, &extended(folder)?);
    while let Some(parent) = folders.last().and_then(parent) {
        let real = fs::canonicalize(&parent).ok();
        // In a circle: weft says what is wrong with it.
        if seen.contains(&real) {
            break;
        }
        seen.push(real);
        folders.push(parent);
    }
    folders
}

/// What `scheme.toml` says in a line such as `extends = "../base"`.
fn extended(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join("scheme.toml")).ok()?;
    let mut values = text.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "extends").then_some(value.trim())
    });
    let value = values.next()?;
    let quote = value.chars().next()?;
    value.split(quote).nth(1).map(str::to_owned)
}

/// Refuses schemes whose results would be one file.
///
/// # Errors
/// Which.
pub(crate) fn distinct(schemes: &[String]) -> Result<()> {
    for (place, scheme) in schemes.iter().enumerate() {
        let name = name(scheme);
        if let Some(other) = schemes[..place].iter().find(|it| self::name(it) == name) {
            let message =
                format!("--scheme: {other} and {scheme} would leave one file, of the name {name}");
            return Err(Failure::setup(message).into());
        }
    }
    Ok(())
}

/// What is wanted of it.
pub(crate) struct Wanted<'a> {
    /// What errors call the run.
    pub(crate) name: &'a str,
    /// In the folder that leaves the guest.
    pub(crate) file: &'a str,
    /// What the run did if there is no such file.
    pub(crate) missing: &'a str,
}

/// Runs `command`. `seen` is given what it prints as it comes.
///
/// # Errors
/// If the guest cannot be run, or does not leave the file: with the end of what was printed.
pub(crate) fn run(
    built: &Built,
    clock: ClockKind,
    hardware: &Hardware,
    command: Vec<String>,
    wanted: &Wanted<'_>,
    cancel: &Arc<AtomicBool>,
    seen: &mut dyn FnMut(&[u8]),
) -> Result<Left> {
    let machine = vm::machine(built, clock, hardware)?;
    let run = Guest {
        files: files(&command)?,
        cancel: Some(Arc::clone(cancel)),
        ..Guest::new(machine, command, hardware.timeout())
    };
    let Wanted {
        name,
        file,
        missing,
    } = wanted;
    let outcome = guest::run(built, &run, seen).with_context(|| (*name).to_owned())?;
    let left = transfer::file(&outcome.tar, file)?;
    match transfer::whole_results(outcome.status, left) {
        Some(file) => Ok(Left { file }),
        None => {
            let output = String::from_utf8_lossy(&outcome.console);
            let output = weft_machine::last_lines(&output, 30);
            let cure = match outcome.status {
                KILLED => ": killed, most likely for want of memory; --memory gives more",
                _ => "",
            };
            bail!(
                "{name} {missing} (status {}{cure})\n{output}",
                outcome.status
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::process::Command;

    use clap::Parser as _;

    use super::*;
    use crate::cli::{self, Cli};
    use crate::interrupt::Temporary;

    /// The words that a shell makes of a line, after `cargo`.
    fn typed(line: &str) -> Vec<String> {
        let script = format!("printf '%s\\0' {line}");
        let output = process::capture(Command::new("sh").args(["-c", &script])).unwrap();
        let words = output.split_terminator('\0').skip(1);
        words.map(str::to_owned).collect()
    }

    #[test]
    fn the_command_that_is_shown_makes_the_same_guest() {
        let options = [
            "--suite sid --kernel 7.2.12 --mirror http://x/debian --refresh",
            "--shift 3 --seed 7 --cpus 2 --memory 2048 --timeout 60 --append=a=b --append=-c",
            "",
        ];
        let clocks = [ClockKind::Model, ClockKind::Virtual, ClockKind::Real];
        for (options, clock) in options.into_iter().zip(clocks) {
            let asked = ["x", "vm"].into_iter().chain(options.split_whitespace());
            let cli::Command::Vm(mut asked) = Cli::parse_from(asked).command else {
                panic!("a guest")
            };
            asked.hardware.append.push("it's; $HOME \"x\"".to_owned());
            let words = ["weft", "run", "./Cargo.toml", "--scheme", "a b"].map(str::to_owned);
            let line = shown(&asked.target, clock, &asked.hardware, &words).unwrap();
            let cli::Command::Vm(vm) = Cli::parse_from(typed(&line)).command else {
                panic!("{line}")
            };
            assert_eq!(vm.target, asked.target, "{line}");
            assert_eq!(vm.hardware, asked.hardware, "{line}");
            assert_eq!(vm.clock, Some(clock), "{line}");
            assert_eq!(vm.command, words.map(OsString::from), "{line}");
            assert_eq!(vm.file, ["./Cargo.toml:/root/Cargo.toml"], "{line}");
        }
    }

    #[test]
    fn what_has_its_default_is_not_shown() {
        let cli::Command::Vm(vm) = Cli::parse_from(["x", "vm"]).command else {
            panic!("a guest")
        };
        let words = ["weft".to_owned()];
        let line = shown(&vm.target, ClockKind::Model, &vm.hardware, &words).unwrap();
        assert_eq!(line, "cargo xtask vm --clock model -- weft");
    }

    /// What is handed to the guest that runs these words.
    fn handed(words: &str) -> Result<Vec<(String, String)>> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let files = files(&words)?.into_iter();
        Ok(files
            .map(|(host, guest)| (host.display().to_string(), guest))
            .collect())
    }

    #[test]
    fn files_that_a_run_names_are_in_the_guest_under_the_same_path() {
        let words = "weft run ./Cargo.toml --scheme ../xtask/src --workload web-search --load 0.6 --out /etc";
        let expected = [
            ("./Cargo.toml", "root/Cargo.toml"),
            ("../xtask/src", "xtask/src"),
        ];
        let expected = expected.map(|(host, guest)| (host.to_owned(), guest.to_owned()));
        assert_eq!(handed(words).unwrap(), expected);
        let whole = handed("weft run rack:hosts=2 --trace /etc/passwd --scheme dctcp").unwrap();
        assert_eq!(whole, [("/etc/passwd".to_owned(), "etc/passwd".to_owned())]);
    }

    #[test]
    fn a_name_that_weft_has_is_no_path() {
        for name in ["dctcp", "fq_codel"] {
            assert!(is_built_in(name), "{name}");
        }
        for name in [".", "..", "/tmp", "./dctcp", "mine"] {
            assert!(!is_built_in(name), "{name}");
        }
    }

    #[test]
    fn a_scheme_comes_with_those_that_it_extends() {
        let name = format!("weft-extends-{}", std::process::id());
        let place = Temporary::new(std::env::temp_dir().join(name)).unwrap();
        let folder = |name: &str, says: &str| {
            let folder = place.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("scheme.toml"), says).unwrap();
            folder
        };
        let mine = folder(
            "mine",
            "about = \"x\"\nextends = \"../base\" # whose it was\n",
        );
        // In a circle, of which weft says what is wrong with it.
        folder("base", "extends='../mine'\n");
        let all = [
            mine.clone(),
            mine.join("../base"),
            mine.join("../base/../mine"),
        ];
        assert_eq!(with_parents(&mine), all[..2]);
        assert_eq!(
            with_parents(&folder("plain", "extends = \"dctcp\"")).len(),
            1
        );
    }

    #[test]
    fn inputs_are_what_files_say() {
        // Here: of temporary files the guest has its own.
        let folder = format!("./weft-inputs-{}", std::process::id());
        let place = Temporary::new(folder.clone().into()).unwrap();
        let words = |scheme: &str| {
            let words = ["weft", "run", "rack:hosts=2", "--scheme", scheme];
            inputs(&words.map(str::to_owned)).unwrap()
        };
        let says = |text: &str| {
            fs::write(place.path().join("scheme.toml"), text).unwrap();
            words(&folder)
        };
        let all = [
            words("dctcp"),
            words("droptail"),
            says("about = 'x'"),
            says("extends = 'dctcp'"),
        ];
        for (place, one) in all.iter().enumerate() {
            assert!(!all[..place].contains(one), "{all:?}");
        }
        assert_eq!(words("dctcp"), all[0]);
        // What a scheme of weft's own extends counts, too.
        let extends = |name: &str| sources(name).len();
        assert_eq!((extends("dctcp-dibs") > 1, extends("nothing")), (true, 0));
    }

    #[test]
    fn a_result_is_whole_or_not_there() {
        let name = format!("weft-whole-{}", std::process::id());
        let place = Temporary::new(std::env::temp_dir().join(name)).unwrap();
        let path = place.path().join("a/b.jsonl");
        let left = |text: &str| Left { file: text.into() };
        left("first").write(&path).unwrap();
        // What was there is not written to, but another file takes its name.
        let before = fs::File::open(&path).unwrap();
        left("2").write(&path).unwrap();
        assert_eq!(std::io::read_to_string(before).unwrap(), "first");
        assert_eq!(fs::read_to_string(&path).unwrap(), "2");
        assert_eq!(fs::read_dir(place.path().join("a")).unwrap().count(), 1);
    }

    #[test]
    fn results_of_two_schemes_are_two_files() {
        let said = |schemes: &[&str]| {
            let schemes: Vec<String> = schemes.iter().map(|&it| it.to_owned()).collect();
            distinct(&schemes).err().map(|error| error.to_string())
        };
        assert_eq!(said(&["dctcp", "./my/mine", "droptail"]), None);
        let expected = "--scheme: dctcp and ./my/dctcp would leave one file, of the name dctcp";
        assert_eq!(
            said(&["dctcp", "droptail", "./my/dctcp"]).as_deref(),
            Some(expected)
        );
    }

    #[test]
    fn a_scheme_in_a_folder_has_the_folders_name() {
        assert_eq!(file("./my/mine", 3), "mine-seed3.jsonl");
        assert_eq!(file("../mine/", 3), "mine-seed3.jsonl");
        assert_eq!(file("dctcp", 3), "dctcp-seed3.jsonl");
        assert_eq!(file("..", 3), "..-seed3.jsonl");
    }
}
