// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask clean`: removes entries of the cache. Files outside the cache stay.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use weft_build::base::cache::{self, Cache};
use weft_build::base::{enter, process};
use weft_build::stages;
use weft_machine::processor;
use weft_package::debian;

use crate::commands::test;

/// Remove entries of the cache
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Without --all, the entries used last stay: the next run is warm. Whatever a running xtask uses stays too.

Examples:
  cargo xtask clean --dry-run          what there is, and how big
  cargo xtask clean                    old entries
  cargo xtask clean --all              everything")]
pub(crate) struct Args {
    /// Remove everything, not only old entries
    #[arg(long)]
    pub(crate) all: bool,
    /// Print the paths and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Directories of the cache that are not stages and have no lock of their own; recreating them is
/// cheap.
const OTHERS: [&str; 3] = ["apt", "log", "resolution"];

/// An entry that may be removed.
struct Candidate {
    path: PathBuf,
    users: Users,
}

/// How the users of an entry are detected.
enum Users {
    /// They hold a lock on this path.
    Hold(PathBuf),
    /// The entry's name has the number of their process.
    Named,
}

impl Candidate {
    /// An entry that is itself locked.
    fn locked(path: PathBuf) -> Self {
        let users = Users::Hold(path.clone());
        Self { path, users }
    }

    /// Removes the entry unless it is in use; returns whether it is gone, or would be.
    fn remove(&self, dry_run: bool) -> Result<bool> {
        let _nobody_else = match &self.users {
            Users::Hold(file) => match cache::claim(file)? {
                Some(held) => Some(held),
                None => return Ok(false),
            },
            Users::Named if weft_machine::guest::is_under_way(&self.path) => return Ok(false),
            Users::Named => None,
        };
        match (dry_run, self.path.is_dir()) {
            (true, _) => {}
            (false, true) => enter::remove_tree(&self.path)?,
            (false, false) => fs::remove_file(&self.path)?,
        }
        Ok(true)
    }
}

/// Runs `clean`.
///
/// # Errors
/// If an entry cannot be removed.
pub(crate) fn run(cache: &Cache, clean: &Args) -> Result<u8> {
    tell(cache, clean, &mut std::io::stdout())?;
    Ok(0)
}

fn tell(cache: &Cache, clean: &Args, out: &mut dyn Write) -> Result<()> {
    let mut candidates = Vec::new();
    let stages = stages::ALL
        .into_iter()
        .chain(debian::STAGES)
        .chain(test::STAGES);
    for stage in stages {
        let kept = if clean.all { 0 } else { 1 };
        candidates.extend(of_stage(&cache.file(stage.name), kept)?);
    }
    if clean.all {
        candidates.extend(others(cache)?);
    }
    let mut total = 0;
    for candidate in candidates {
        let path = &candidate.path;
        // A process that used it may have removed it meanwhile.
        if !path.exists() {
            continue;
        }
        let size = size_of(path);
        let name = path.strip_prefix(cache.root()).unwrap_or(path).display();
        let gone = candidate
            .remove(clean.dry_run)
            .with_context(|| format!("removing {name}"))?;
        let what = match (gone, clean.dry_run) {
            (true, false) => " removed",
            (true, true) => "",
            (false, _) => " is in use and stays",
        };
        writeln!(out, "{:>9} {name}{what}", mebibytes(size))?;
        total += if gone { size } else { 0 };
    }
    let what = if clean.dry_run {
        "could be removed"
    } else {
        "removed"
    };
    writeln!(
        out,
        "{:>9} {what} from {}",
        mebibytes(total),
        cache.root().display()
    )?;
    Ok(())
}

/// Half-built entries, and all finished entries except the `kept` last ones.
fn of_stage(home: &Path, kept: usize) -> Result<Vec<Candidate>> {
    let mut finished = Vec::new();
    let mut candidates = Vec::new();
    for path in content(home)? {
        match cache::is_half_built(&path) {
            true => candidates.push(Candidate {
                path,
                // The builder's lock: half-built folders are not locked themselves.
                users: Users::Hold(cache::lock_of(home)),
            }),
            false if path.is_dir() => finished.push((fs::metadata(&path)?.modified()?, path)),
            false => {}
        }
    }
    finished.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    let surplus = finished.into_iter().skip(kept);
    candidates.extend(surplus.map(|(_, path)| Candidate::locked(path)));
    Ok(candidates)
}

/// Entries that belong to no stage.
fn others(cache: &Cache) -> Result<Vec<Candidate>> {
    let without_lock = OTHERS.map(|name| cache.file(name)).into_iter();
    let without_lock = without_lock.filter(|path| path.is_dir());
    let mut all: Vec<Candidate> = without_lock
        .map(|path| Candidate {
            path,
            users: Users::Hold(cache.root().to_owned()),
        })
        .collect();
    let processors = content(&cache.file(processor::PLACE))?;
    all.extend(processors.into_iter().map(Candidate::locked));
    let runs = content(&cache.file(weft_machine::guest::PLACE))?;
    all.extend(runs.into_iter().map(|path| Candidate {
        path,
        users: Users::Named,
    }));
    Ok(all)
}

/// The entries of a folder; none if it does not exist.
fn content(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("reading {}", folder.display()))?,
    };
    let paths = entries.map(|entry| Ok(entry?.path()));
    paths.collect()
}

/// Size on disk in bytes, like `du`; includes files of subordinate ids.
fn size_of(path: &Path) -> u64 {
    let mut command = enter::unshared();
    command.args(["du", "-s", "--block-size=1", "--"]).arg(path);
    let text = process::capture(&mut command).unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|bytes| bytes.parse().ok())
        .unwrap_or(0)
}

/// `1234 MiB`.
fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    use nix::fcntl::{Flock, FlockArg};

    use super::*;
    use weft_machine::interrupt::Temporary;

    /// A cache with these folders, from the oldest to the youngest.
    fn filled(name: &str, folders: &[&str]) -> (Cache, Temporary) {
        let path = std::env::temp_dir().join(format!("weft-clean-{name}-{}", std::process::id()));
        let temporary = Temporary::new(path.clone()).unwrap();
        let cache = Cache::at(path);
        for (place, folder) in folders.iter().enumerate() {
            let folder = cache.file(folder);
            fs::create_dir_all(&folder).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(place as u64);
            File::open(folder).unwrap().set_modified(time).unwrap();
        }
        (cache, temporary)
    }

    /// The output without sizes and the cache's path. With and without `--dry-run` it must be the
    /// same, except for one word.
    fn told(cache: &Cache, all: bool) -> Vec<String> {
        let [planned, done] = [true, false].map(|dry_run| {
            let mut out = Vec::new();
            tell(cache, &Args { all, dry_run }, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            let names = text.lines().filter_map(|line| line.split_once(" MiB "));
            let mut names: Vec<String> = names.map(|(_, name)| name.to_owned()).collect();
            names.pop();
            names.sort();
            names
        });
        let done_as_planned = done.iter().map(|line| line.trim_end_matches(" removed"));
        assert_eq!(planned, done_as_planned.collect::<Vec<_>>());
        done
    }

    fn held(path: &Path) -> Flock<File> {
        let file = File::open(path).unwrap();
        Flock::lock(file, FlockArg::LockSharedNonblock).unwrap()
    }

    #[test]
    fn a_half_built_entry_does_not_displace_a_finished_one() {
        let (cache, _guard) = filled("half", &["boot/old", "boot/new", "boot/new.tmp.1"]);
        fs::write(cache.file("boot/lock"), "").unwrap();
        assert_eq!(
            told(&cache, false),
            ["boot/new.tmp.1 removed", "boot/old removed"]
        );
        assert!(cache.file("boot/new").is_dir());
    }

    #[test]
    fn entries_being_built_stay() {
        let (cache, _guard) = filled("building", &["boot/old", "boot/new.tmp.1"]);
        fs::write(cache.file("boot/lock"), "").unwrap();
        let lock = held(&cache.file("boot/lock"));
        let stays = "boot/new.tmp.1 is in use and stays";
        assert_eq!(told(&cache, true), [stays, "boot/old removed"]);
        drop(lock);
        assert_eq!(told(&cache, true), ["boot/new.tmp.1 removed"]);
    }

    #[test]
    fn entries_in_use_stay() {
        let (cache, _guard) = filled("used", &["boot/old", "boot/new"]);
        let _lock = held(&cache.file("boot/old"));
        assert_eq!(
            told(&cache, true),
            ["boot/new removed", "boot/old is in use and stays"]
        );
    }

    #[test]
    fn files_of_a_running_guest_stay() {
        let ours = format!("run/{}.0", std::process::id());
        // No process has this number: it exceeds the kernel's maximum.
        let (cache, _guard) = filled("guest", &[&ours, "run/4294967295.0", "processors", "log"]);
        for number in ["processors/0", "processors/1"] {
            fs::write(cache.file(number), "").unwrap();
        }
        let _lock = held(&cache.file("processors/1"));
        let stays = |name: &str| format!("{name} is in use and stays");
        let mut expected = [
            "log removed".to_owned(),
            "processors/0 removed".to_owned(),
            stays("processors/1"),
            "run/4294967295.0 removed".to_owned(),
            stays(&ours),
        ];
        expected.sort();
        assert_eq!(told(&cache, true), expected);
        assert!(cache.file(&ours).is_dir());
    }

    #[test]
    fn logs_of_a_running_command_stay() {
        let (cache, _guard) = filled("logs", &["apt/sid", "log", "resolution"]);
        let running = cache.in_use();
        let stays = ["apt", "log", "resolution"].map(|name| format!("{name} is in use and stays"));
        assert_eq!(told(&cache, true), stays);
        drop(running);
        assert_eq!(
            told(&cache, true),
            ["apt removed", "log removed", "resolution removed"]
        );
    }
}
