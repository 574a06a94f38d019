// SPDX-License-Identifier: MIT OR Apache-2.0

//! Every expensive result is built once: `<cache>/<stage>/<hash of all inputs>/`.
//!
//! A stage is built in `<hash>.tmp.<pid>` next to its final place and then renamed, so that a
//! half-built one is never used. The builder holds the stage's lock, one at a time. A user of an
//! entry holds a shared lock on the entry's directory, so that pruning and `clean` leave it alone.
//! Each command except `clean` holds a shared lock on the cache's directory, which protects files
//! without a lock of their own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use sha2::{Digest, Sha256};
use weft_machine::failure::Failure;
use weft_machine::interrupt::Temporary;

use crate::base::process::Log;
use crate::base::progress;

/// Characters with a special meaning in the paths of an overlay's options.
const NO_LAYER: [char; 4] = [':', ',', '\\', '"'];

/// The user's cache directory for this project.
pub struct Cache {
    root: PathBuf,
}

/// A finished stage, protected from removal as long as this value or a copy lives.
#[derive(Clone)]
pub struct Entry {
    path: PathBuf,
    hash: String,
    _in_use: Arc<Flock<File>>,
}

impl Entry {
    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The hash of its inputs, which is an input of dependent stages.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

/// A hash over the inputs of a stage.
pub struct Key(Sha256);

impl Key {
    /// `recipe` names the way in which the stage is built: if it changes, old entries are no longer
    /// used.
    pub fn new(recipe: &str) -> Self {
        Self(Sha256::new()).with(recipe)
    }

    /// Adds an input. Lengths are hashed too, so ("ab", "c") and ("a", "bc") differ.
    pub fn with(mut self, input: impl AsRef<[u8]>) -> Self {
        let input = input.as_ref();
        self.0.update((input.len() as u64).to_le_bytes());
        self.0.update(input);
        self
    }

    /// Adds several inputs, and their number.
    pub fn with_all<T: AsRef<[u8]>>(self, inputs: impl IntoIterator<Item = T>) -> Self {
        let inputs: Vec<T> = inputs.into_iter().collect();
        let counted = self.with(inputs.len().to_string());
        inputs.iter().fold(counted, |key, input| key.with(input))
    }

    /// Adds a file: its name in the build and its content.
    pub fn with_file(self, name: &str, path: &Path) -> Result<Self> {
        let content = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        Ok(self.with(name).with(content))
    }

    /// Sixteen hexadecimal digits.
    pub fn finish(self) -> String {
        self.0
            .finalize()
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// A kind of entry.
pub struct Stage {
    /// Its directory in the cache.
    pub name: &'static str,
    /// The number of entries to keep when a new one is built.
    pub keep: usize,
}

impl Cache {
    /// `WEFT_CACHE`, else the user's cache directory.
    ///
    /// # Errors
    /// If the home directory is unknown, or its path cannot be an overlay's layer.
    pub fn locate() -> Result<Self> {
        let set = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let root = set("WEFT_CACHE")
            .or_else(|| Some(set("XDG_CACHE_HOME")?.join("weft")))
            .or_else(|| Some(set("HOME")?.join(".cache/weft")))
            .context("no cache directory: set WEFT_CACHE, XDG_CACHE_HOME or HOME")?;
        Self::checked(std::path::absolute(root)?)
    }

    fn checked(root: PathBuf) -> Result<Self> {
        let text = root.to_string_lossy();
        if let Some(unfit) = text.chars().find(|unfit| NO_LAYER.contains(unfit)) {
            let message = format!(
                "the cache would be in {text}, and overlays of a folder with a `{unfit}` in its path cannot be \
                 mounted: set WEFT_CACHE to another"
            );
            return Err(Failure::setup(message).into());
        }
        Ok(Self { root })
    }

    /// The cache in a folder.
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Marks the cache as in use as long as the returned lock lives: logs and apt's folder have no
    /// lock of their own. A cache that cannot be locked can still be used.
    pub fn in_use(&self) -> Option<Flock<File>> {
        std::fs::create_dir_all(&self.root).ok()?;
        let directory = File::open(&self.root).ok()?;
        lock(directory, FlockArg::LockShared).ok()
    }

    /// Its directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A file or directory that is not a stage.
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    /// An empty log of a step.
    pub fn log(&self, name: &str) -> Result<Log> {
        Log::create(self.file("log").join(format!("{name}.log")))
    }

    fn stage_entry(&self, stage: &Stage, hash: &str) -> PathBuf {
        self.root.join(stage.name).join(hash)
    }

    /// The entry, if it exists.
    pub fn find(&self, stage: &Stage, hash: &str) -> Result<Option<Entry>> {
        let path = self.stage_entry(stage, hash);
        let directory = match File::open(&path) {
            Ok(directory) => directory,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("opening {}", path.display())),
        };
        let in_use = lock(directory, FlockArg::LockShared)?;
        // It may have been removed between opening and locking.
        if !path.is_dir() {
            return Ok(None);
        }
        // Pruning uses this time. On a read-only disk it stays unchanged.
        let _ = in_use.set_modified(SystemTime::now());
        Ok(Some(Entry {
            path,
            hash: hash.to_owned(),
            _in_use: Arc::new(in_use),
        }))
    }

    /// The entry for `key`, which is built if necessary: `build` fills an empty directory.
    ///
    /// # Errors
    /// Those of `build`, and of the file system.
    pub fn ensure(
        &self,
        stage: &Stage,
        key: Key,
        what: &str,
        build: impl FnOnce(&Path, &Log) -> Result<()>,
    ) -> Result<Entry> {
        let hash = key.finish();
        if let Some(entry) = self.find(stage, &hash)? {
            return Ok(entry);
        }
        let home = self.root.join(stage.name);
        std::fs::create_dir_all(&home).with_context(|| format!("making {}", home.display()))?;
        let _building = self.lock_stage(&home)?;
        // Another process may have built it meanwhile.
        if let Some(entry) = self.find(stage, &hash)? {
            return Ok(entry);
        }
        remove_leftovers(&home)?;
        progress::step(what, || {
            let log = self.log(stage.name)?;
            let temporary =
                Temporary::new(home.join(format!("{hash}.tmp.{}", std::process::id())))?;
            build(temporary.path(), &log)?;
            temporary.keep_as(&home.join(&hash))
        })?;
        let entry = self
            .find(stage, &hash)?
            .context("the stage vanished after it was built")?;
        prune(&home, stage.keep)?;
        Ok(entry)
    }

    fn lock_stage(&self, home: &Path) -> Result<Flock<File>> {
        let file = File::create(lock_of(home))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(held) => Ok(held),
            Err((file, Errno::EWOULDBLOCK)) => {
                progress::note(&format!(
                    "waiting for another xtask that builds {}",
                    home.display()
                ));
                lock(file, FlockArg::LockExclusive)
            }
            Err((_, error)) => bail!("locking {}: {error}", home.display()),
        }
    }
}

fn lock(file: File, how: FlockArg) -> Result<Flock<File>> {
    Flock::lock(file, how).map_err(|(_, error)| anyhow::anyhow!("locking in the cache: {error}"))
}

/// Locks a file or folder exclusively, unless another process has locked it.
///
/// # Errors
/// If it does not exist.
pub fn claim(path: &Path) -> Result<Option<Flock<File>>> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(held) => Ok(Some(held)),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, error)) => bail!("locking {}: {error}", path.display()),
    }
}

/// The lock file of a stage's builder, in the stage's folder.
pub fn lock_of(home: &Path) -> PathBuf {
    home.join("lock")
}

/// Whether this is an entry under construction, possibly by a killed process.
pub fn is_half_built(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().contains(".tmp.")
}

/// Removes half-built entries of killed processes. The stage's lock is held, so no process is
/// building them.
fn remove_leftovers(home: &Path) -> Result<()> {
    for entry in std::fs::read_dir(home)? {
        let path = entry?.path();
        if is_half_built(&path) {
            crate::base::enter::remove_tree(&path)?;
        }
    }
    Ok(())
}

/// Removes all entries except the `keep` most recently used.
fn prune(home: &Path, keep: usize) -> Result<()> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(home)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            entries.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    entries.sort();
    let surplus = entries.len().saturating_sub(keep);
    for (_, path) in entries.into_iter().take(surplus) {
        if let Some(_nobody_else) = claim(&path)? {
            crate::base::enter::remove_tree(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> (Cache, Temporary) {
        let path = std::env::temp_dir().join(format!("weft-cache-{name}-{}", std::process::id()));
        let temporary = Temporary::new(path.clone()).unwrap();
        (Cache { root: path }, temporary)
    }

    const STAGE: Stage = Stage {
        name: "stage",
        keep: 2,
    };

    #[test]
    fn a_key_depends_on_every_input_and_its_boundaries() {
        let base = || Key::new("recipe").with("ab").with("c").finish();
        assert_eq!(base(), base());
        assert_eq!(base().len(), 16);
        let others = [
            Key::new("recipe").with("a").with("bc").finish(),
            Key::new("recipe 2").with("ab").with("c").finish(),
            Key::new("recipe").with("abc").finish(),
            Key::new("recipe").with_all(["ab", "c"]).finish(),
        ];
        for other in others {
            assert_ne!(base(), other);
        }
    }

    #[test]
    fn a_folder_that_cannot_be_a_layer_is_refused() {
        for sound in [
            "/home/me/.cache/weft",
            "/mnt/my disk/weft",
            "/mnt/größer/weft=1",
        ] {
            assert_eq!(
                Cache::checked(sound.into()).unwrap().root(),
                Path::new(sound)
            );
        }
        for path in ["/mnt/a:b/weft", "/mnt/a,b", r"/mnt/a\b", "/mnt/\"a\""] {
            let error = Cache::checked(path.into()).err().expect(path).to_string();
            assert!(
                error.contains(path) && error.contains("WEFT_CACHE"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_entry_is_built_once() {
        let (cache, _guard) = scratch("once");
        let mut built = 0;
        for _ in 0..3 {
            let entry = cache
                .ensure(&STAGE, Key::new("r"), "test", |directory, _| {
                    built += 1;
                    Ok(std::fs::write(directory.join("x"), "y")?)
                })
                .unwrap();
            assert_eq!(
                std::fs::read_to_string(entry.path().join("x")).unwrap(),
                "y"
            );
        }
        assert_eq!(built, 1);
    }

    #[test]
    fn a_failed_build_leaves_nothing() {
        let (cache, _guard) = scratch("failed");
        let result = cache.ensure(&STAGE, Key::new("r"), "test", |directory, _| {
            std::fs::write(directory.join("half"), "")?;
            bail!("broken")
        });
        assert!(format!("{:#}", result.err().unwrap()).contains("broken"));
        let home = cache.root.join(STAGE.name);
        let names: Vec<_> = std::fs::read_dir(home)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names, ["lock"]);
    }

    #[test]
    fn pruning_keeps_the_latest_entry_and_entries_in_use() {
        let (cache, _guard) = scratch("prune");
        let build = |recipe: &str| {
            cache
                .ensure(&STAGE, Key::new(recipe), "test", |_, _| Ok(()))
                .unwrap()
        };
        let in_use = build("0");
        let paths: Vec<PathBuf> = (1..5)
            .map(|n| build(&n.to_string()).path().to_owned())
            .collect();
        assert!(in_use.path().is_dir());
        let left: Vec<bool> = paths.iter().map(|path| path.is_dir()).collect();
        assert!(left[3] && !left[0] && !left[1], "{left:?}");
    }
}
