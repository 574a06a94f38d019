// SPDX-License-Identifier: MIT OR Apache-2.0

//! The image: a kernel and the files of its guests, in one file.
//!
//! The file is a tar, compressed by zstd, followed by a [`Trailer`] in a frame that zstd skips: it
//! has the start of the tar, and its SHA-256. The same bytes at the end of an executable make that
//! an image, too. An image is unpacked once, into a folder of the cache that is named after its
//! hash.

use std::env;
use std::fmt;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail, ensure};
use nix::fcntl::{Flock, FlockArg};
use ruzstd::decoding::StreamingDecoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::cpio;
use crate::guest::Boot;
use crate::interrupt::Temporary;
use crate::launch::Directly;

/// The file name of an image.
pub const FILE: &str = "weft-machine.image";
/// The environment variable that names an image.
pub const VARIABLE: &str = "WEFT_MACHINE";
/// The folder in which a package installs it.
const INSTALLED: &str = "/usr/lib/weft";

/// Files in an image.
pub const MANIFEST: &str = "manifest.json";
/// The kernel.
pub const KERNEL: &str = "kernel";
/// The initramfs of its guests.
pub const INITRAMFS: &str = "initramfs";
/// Licences of everything in the image, and where the sources are.
pub const LICENCES: &str = "licences";

/// The format that this version writes and reads.
const FORMAT: u32 = 1;
/// Magic number of a frame that zstd skips.
const SKIPPED: u32 = 0x184d_2a50;
const MAGIC: [u8; 12] = *b"weft-machine";
/// Size of the frame: its head, its magic, the length of the tar before it, the hash.
const TRAILER: usize = 64;
/// Number of hexadecimal digits of the hash in a folder's name and in messages.
const DIGITS: usize = 16;
/// Number of unpacked images that are kept besides the newest.
const KEPT: usize = 3;

/// The program that boots the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The kernel itself is a program (User Mode Linux).
    Program,
    /// QEMU.
    Qemu,
}

/// The description in an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format of the image.
    pub format: u32,
    /// The version of weft.
    pub weft: String,
    /// The program that boots the kernel.
    pub kind: Kind,
    /// The kernel's release, as `uname -r` prints it.
    pub release: String,
    /// The package that the kernel's source is from, and its version.
    pub source: String,
}

impl Manifest {
    /// A manifest of the present format.
    pub fn new(weft: &str, kind: Kind, release: &str, source: &str) -> Self {
        Self {
            format: FORMAT,
            weft: weft.to_owned(),
            kind,
            release: release.to_owned(),
            source: source.to_owned(),
        }
    }
}

/// SHA-256 of an image's tar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash([u8; 32]);

impl fmt::Display for Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.iter().fold(String::new(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
        formatter.write_str(&digits[..DIGITS])
    }
}

/// The end of a file with an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trailer {
    /// Bytes of the compressed tar before it.
    length: u64,
    hash: Hash,
}

impl Trailer {
    fn encode(self) -> [u8; TRAILER] {
        let mut out = [0; TRAILER];
        let inside = u32::try_from(TRAILER).unwrap_or_default() - 8;
        out[..4].copy_from_slice(&SKIPPED.to_le_bytes());
        out[4..8].copy_from_slice(&inside.to_le_bytes());
        out[8..20].copy_from_slice(&MAGIC);
        out[20..24].copy_from_slice(&FORMAT.to_le_bytes());
        out[24..32].copy_from_slice(&self.length.to_le_bytes());
        out[32..].copy_from_slice(&self.hash.0);
        out
    }

    /// `None`: the bytes are not a trailer.
    ///
    /// # Errors
    /// If it has another format.
    fn decode(bytes: &[u8; TRAILER]) -> Result<Option<Self>> {
        if bytes[8..20] != MAGIC {
            return Ok(None);
        }
        let format = u32::from_le_bytes(bytes[20..24].try_into()?);
        ensure!(
            format == FORMAT,
            "its format is {format}, this weft reads {FORMAT}"
        );
        Ok(Some(Self {
            length: u64::from_le_bytes(bytes[24..32].try_into()?),
            hash: Hash(bytes[32..].try_into()?),
        }))
    }
}

/// How an image was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The user named the file.
    Named,
    /// The environment variable names it.
    Variable,
    /// In the executable.
    Embedded,
    /// Beside the executable.
    Beside,
    /// In the package's folder.
    Installed,
    /// `cargo xtask` built it.
    Built,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Named => "given by --machine",
            Self::Variable => "given by WEFT_MACHINE",
            Self::Embedded => "in the executable",
            Self::Beside => "beside the executable",
            Self::Installed => "installed",
            Self::Built => "built by cargo xtask",
        })
    }
}

/// An image in its file.
#[derive(Clone, Debug)]
pub struct Packed {
    /// The file.
    pub path: PathBuf,
    /// How it was found.
    pub origin: Origin,
    trailer: Trailer,
}

impl Packed {
    /// The image in a file; `None`: the file has none.
    ///
    /// # Errors
    /// If the file cannot be read, or has another format.
    pub fn open(path: &Path, origin: Origin) -> Result<Option<Self>> {
        let name = || path.display().to_string();
        let mut file = File::open(path).with_context(name)?;
        let length = file.metadata().with_context(name)?.len();
        let Some(before) = length.checked_sub(TRAILER as u64) else {
            return Ok(None);
        };
        let mut bytes = [0; TRAILER];
        file.seek(SeekFrom::Start(before))?;
        file.read_exact(&mut bytes).with_context(name)?;
        let Some(trailer) = Trailer::decode(&bytes).with_context(name)? else {
            return Ok(None);
        };
        ensure!(
            trailer.length <= before,
            "{}: the image was cut short",
            name()
        );
        Ok(Some(Self {
            path: path.to_owned(),
            origin,
            trailer,
        }))
    }

    /// The image for this process: `named`, or the first one found in the environment, the
    /// executable, beside it, installed, or built. `None`: there is none.
    ///
    /// # Errors
    /// If a file that was named has no image.
    pub fn find(named: Option<&Path>) -> Result<Option<Self>> {
        let variable = env::var_os(VARIABLE).filter(|value| !value.is_empty());
        let said = named.map(|path| (path.to_owned(), Origin::Named));
        let said = said.or_else(|| variable.map(|path| (path.into(), Origin::Variable)));
        if let Some((path, origin)) = said {
            return match Self::open(&path, origin)? {
                Some(packed) => Ok(Some(packed)),
                None => bail!("{}: this file has no weft machine in it", path.display()),
            };
        }
        let executable = env::current_exe().ok();
        let beside = executable.as_ref().and_then(|path| path.parent());
        let places = [
            (executable.clone(), Origin::Embedded),
            (beside.map(|folder| folder.join(FILE)), Origin::Beside),
            (Some(Path::new(INSTALLED).join(FILE)), Origin::Installed),
            (Some(cache().join(FILE)), Origin::Built),
        ];
        for (path, origin) in places {
            let Some(path) = path.filter(|path| path.is_file()) else {
                continue;
            };
            if let Some(packed) = Self::open(&path, origin)? {
                return Ok(Some(packed));
            }
        }
        Ok(None)
    }

    /// The image's hash.
    pub fn hash(&self) -> Hash {
        self.trailer.hash
    }

    /// Size of the image in the file, in bytes.
    pub fn size(&self) -> u64 {
        self.trailer.length + TRAILER as u64
    }

    /// Its bytes, compressed.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn read(&self) -> io::Result<impl Read> {
        let mut file = File::open(&self.path)?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(end.saturating_sub(self.size())))?;
        Ok(file.take(self.size()))
    }

    /// The manifest. Only the beginning of the file is read.
    ///
    /// # Errors
    /// If the file is damaged there, or cannot be read.
    pub fn manifest(&self) -> Result<Manifest> {
        let damaged = || format!("{}: the image is damaged", self.path.display());
        let compressed = BufReader::new(self.read()?.take(self.trailer.length));
        let decoder = StreamingDecoder::new(compressed)
            .ok()
            .with_context(damaged)?;
        let mut archive = tar::Archive::new(decoder);
        for entry in archive.entries()? {
            let entry = entry.with_context(damaged)?;
            if *entry.path_bytes() == *MANIFEST.as_bytes() {
                return serde_json::from_reader(entry).with_context(damaged);
            }
        }
        bail!(damaged())
    }

    /// The image, unpacked into a folder of `cache` if necessary.
    ///
    /// # Errors
    /// If the file is damaged, or the folder cannot be created: with the cure.
    pub fn unpack(&self, cache: &Path) -> Result<Image> {
        let folder = cache.join(self.hash().to_string());
        if !folder.join(MANIFEST).exists() {
            self.unpack_into(cache, &folder)?;
            remove_old(cache, &folder);
        }
        Image::open(folder, self.hash())
    }

    fn unpack_into(&self, cache: &Path, folder: &Path) -> Result<()> {
        static UNPACKED: AtomicU32 = AtomicU32::new(0);
        let number = UNPACKED.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}.tmp.{}.{number}", self.hash(), std::process::id());
        let cure = || {
            format!(
                "unpacking weft's machine into {}; XDG_CACHE_HOME names another folder, which needs 100 MB \
                 of room",
                cache.display()
            )
        };
        let temporary = Temporary::new(cache.join(name)).with_context(cure)?;
        let compressed = BufReader::new(self.read()?.take(self.trailer.length));
        let (unpacked, hash) = match StreamingDecoder::new(compressed) {
            Ok(decoder) => {
                let mut hashed = Hashed::new(decoder);
                let mut archive = tar::Archive::new(&mut hashed);
                archive.set_preserve_permissions(true);
                let unpacked = archive.unpack(temporary.path());
                // The hash covers bytes after the last file, too, and a full disk must not look
                // like damage.
                let rest = io::copy(&mut hashed, &mut io::sink());
                (unpacked, rest.ok().map(|_| hashed.finish()))
            }
            Err(_) => (Ok(()), None),
        };
        ensure!(
            hash == Some(self.hash()),
            "{}: the image is damaged",
            self.path.display()
        );
        unpacked.with_context(cure)?;
        match temporary.keep_as(folder) {
            // Another process was first.
            Err(_) if folder.join(MANIFEST).exists() => Ok(()),
            result => result,
        }
    }
}

/// Hashes the bytes that are read.
struct Hashed<R> {
    inner: R,
    hash: Sha256,
}

impl<R> Hashed<R> {
    fn new(inner: R) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
        }
    }

    fn finish(self) -> Hash {
        Hash(self.hash.finalize().into())
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.hash.update(&buffer[..length]);
        Ok(length)
    }
}

/// Removes the least recently used images, except a few and those in use.
fn remove_old(cache: &Path, newest: &Path) {
    let Ok(entries) = fs::read_dir(cache) else {
        return;
    };
    let mut images: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join(MANIFEST).is_file() && path != newest)
        .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
        .collect();
    images.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    for (_, path) in images.into_iter().skip(KEPT) {
        let file = File::open(path.join(MANIFEST));
        let held =
            file.map(|file| Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(drop));
        if let Ok(Ok(_held)) = held {
            // If something remains, the next call tries again.
            let _ = crate::interrupt::remove(&path);
        }
    }
}

/// An image, unpacked.
#[derive(Debug)]
pub struct Image {
    folder: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// Its hash.
    pub hash: Hash,
    /// A lock that prevents its removal.
    _used: Option<Flock<File>>,
}

impl Image {
    fn open(folder: PathBuf, hash: Hash) -> Result<Self> {
        let path = folder.join(MANIFEST);
        let name = || path.display().to_string();
        let file = File::open(&path).with_context(name)?;
        // On a file system without locks, no process removes images either.
        let used = Flock::lock(file, FlockArg::LockSharedNonblock).ok();
        // Marks it as used now, if it is writable.
        let _ = File::open(&folder).and_then(|folder| folder.set_modified(SystemTime::now()));
        let text = fs::read(&path).with_context(name)?;
        Ok(Self {
            manifest: serde_json::from_slice(&text).with_context(name)?,
            folder,
            hash,
            _used: used,
        })
    }

    /// The files for its guests, whose runs have directories in `cache`.
    pub fn boot<'a>(&self, cache: &'a Path) -> Boot<'a> {
        Boot {
            kernel: self.folder.join(KERNEL),
            archives: vec![self.folder.join(INITRAMFS)],
            own: &|_: &mut cpio::Archive| Ok(()),
            launcher: &Directly,
            folder: cache,
        }
    }

    /// Licences of everything in the image, and where the sources are.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn licences(&self) -> Result<String> {
        let path = self.folder.join(LICENCES);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }
}

/// The folder for unpacked images and the runs' directories: `$WEFT_CACHE`, else
/// `$XDG_CACHE_HOME/weft`, else `~/.cache/weft`, else a folder of the user among the temporary
/// files.
pub fn cache() -> PathBuf {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = variable("WEFT_CACHE") {
        return path.into();
    }
    if let Some(path) = variable("XDG_CACHE_HOME") {
        return Path::new(&path).join("weft");
    }
    // A service's user may have a home that does not exist.
    let home = variable("HOME").map(PathBuf::from);
    if let Some(home) = home.filter(|home| home.parent().is_some() && home.is_dir()) {
        return home.join(".cache/weft");
    }
    env::temp_dir().join(format!("weft-{}", nix::unistd::geteuid()))
}

/// Creates the folder of [`cache`], which must belong to the user.
///
/// # Errors
/// If it cannot be created, or belongs to another user: with the cure.
pub fn prepare_cache() -> Result<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    let path = cache();
    let cure = || {
        format!(
            "making the cache {}; XDG_CACHE_HOME names another folder",
            path.display()
        )
    };
    let mut builder = fs::DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(&path)
        .with_context(cure)?;
    // Executables in it must not be writable by other users.
    let owner = fs::metadata(&path).with_context(cure)?.uid();
    let own = nix::unistd::geteuid().as_raw();
    ensure!(
        owner == own || owner == 0,
        "the cache {} belongs to another user; XDG_CACHE_HOME names another folder",
        path.display()
    );
    Ok(path)
}

/// The tar of an image: the content and name of each of its files.
///
/// # Errors
/// If a file cannot be read.
pub fn pack(
    manifest: &Manifest,
    kernel: &Path,
    initramfs: &[u8],
    licences: &str,
) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut add = |name: &str, mode: u32, content: &[u8]| -> Result<()> {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        header.set_mtime(0);
        header.set_cksum();
        Ok(archive.append_data(&mut header, name, content)?)
    };
    let manifest = serde_json::to_string_pretty(manifest)? + "\n";
    let kernel = fs::read(kernel).with_context(|| kernel.display().to_string())?;
    // The manifest comes first, so that it can be read alone.
    add(MANIFEST, 0o644, manifest.as_bytes())?;
    add(KERNEL, 0o755, &kernel)?;
    add(INITRAMFS, 0o644, initramfs)?;
    add(LICENCES, 0o644, licences.as_bytes())?;
    Ok(archive.into_inner()?)
}

/// Writes the image of a tar; `compressed` is the same tar compressed by zstd.
///
/// # Errors
/// If it cannot be written.
pub fn write(out: &mut impl Write, tar: &[u8], compressed: &[u8]) -> Result<Hash> {
    let hash = Hash(Sha256::digest(tar).into());
    let length = compressed.len() as u64;
    out.write_all(compressed)?;
    out.write_all(&Trailer { length, hash }.encode())?;
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> Temporary {
        let name = format!("weft-image-{name}-{}", std::process::id());
        Temporary::new(env::temp_dir().join(name)).unwrap()
    }

    /// A zstd frame that holds bytes uncompressed.
    fn stored(bytes: &[u8]) -> Vec<u8> {
        // Magic; a content size of 4 bytes, one segment.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
        frame.extend((bytes.len() as u32).to_le_bytes());
        let blocks = bytes.chunks(100_000).collect::<Vec<_>>();
        for (number, block) in blocks.iter().enumerate() {
            let last = u32::from(number + 1 == blocks.len());
            let head = last | (block.len() as u32) << 3;
            frame.extend(&head.to_le_bytes()[..3]);
            frame.extend(*block);
        }
        frame
    }

    fn image(folder: &Path, before: &[u8], initramfs: &[u8]) -> PathBuf {
        let kernel = folder.join("linux");
        fs::write(&kernel, "#!/bin/sh\n").unwrap();
        let manifest = Manifest::new("0.1.0", Kind::Program, "7.2-model", "linux-source 7.2-1");
        let tar = pack(&manifest, &kernel, initramfs, "GPL").unwrap();
        let path = folder.join("image");
        let mut file = File::create(&path).unwrap();
        file.write_all(before).unwrap();
        write(&mut file, &tar, &stored(&tar)).unwrap();
        path
    }

    #[test]
    fn an_image_at_the_end_of_an_executable_is_found_and_unpacked_once() {
        let folder = folder("unpack");
        let alone = image(folder.path(), b"", &[7; 300_000]);
        let alone = Packed::open(&alone, Origin::Named).unwrap().unwrap();
        let path = image(folder.path(), b"\x7fELF executable", &[7; 300_000]);
        let packed = Packed::open(&path, Origin::Embedded).unwrap().unwrap();
        assert_eq!(packed.hash(), alone.hash());
        let cache = folder.path().join("cache");
        let manifest = packed.manifest().unwrap();
        let image = packed.unpack(&cache).unwrap();
        assert_eq!(image.manifest, manifest);
        assert_eq!(image.manifest.release, "7.2-model");
        assert_eq!(image.licences().unwrap(), "GPL");
        let boot = image.boot(&cache);
        assert_eq!(fs::read(&boot.archives[0]).unwrap(), [7; 300_000]);
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(&boot.kernel).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        // The file is no longer needed.
        fs::remove_file(&path).unwrap();
        packed.unpack(&cache).unwrap();
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
    }

    #[test]
    fn processes_that_unpack_at_the_same_time_leave_one_image() {
        let folder = folder("race");
        let path = image(folder.path(), b"", &[1; 1_000_000]);
        let packed = Packed::open(&path, Origin::Named).unwrap().unwrap();
        let cache = folder.path().join("cache");
        let unpack = || packed.unpack(&cache).map(drop);
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|_| scope.spawn(unpack)).collect();
            all.into_iter().for_each(|it| it.join().unwrap().unwrap());
        });
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_or_foreign_file_is_not_an_image() {
        let folder = folder("damaged");
        let path = image(folder.path(), b"", &[1; 1000]);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let packed = Packed::open(&path, Origin::Named).unwrap().unwrap();
        let error = packed.unpack(&folder.path().join("cache")).unwrap_err();
        assert!(format!("{error:#}").contains("is damaged"), "{error:#}");
        for content in ["", "short", &"long".repeat(100)] {
            fs::write(&path, content).unwrap();
            assert!(Packed::open(&path, Origin::Named).unwrap().is_none());
        }
        // The end of an image alone.
        fs::write(&path, &bytes[bytes.len() - 100..]).unwrap();
        let error = Packed::open(&path, Origin::Named).unwrap_err();
        assert!(error.to_string().contains("cut short"), "{error}");
    }

    #[test]
    fn unused_images_are_removed_when_others_are_unpacked() {
        let folder = folder("old");
        let cache = folder.path().join("cache");
        let unpacked = |number: u8| {
            let path = image(folder.path(), b"", &[number; 10]);
            let packed = Packed::open(&path, Origin::Named).unwrap().unwrap();
            packed.unpack(&cache).unwrap()
        };
        let used = unpacked(0);
        (1..10).for_each(|number| drop(unpacked(number)));
        assert_eq!(fs::read_dir(&cache).unwrap().count(), KEPT + 2);
        assert!(used.folder.exists());
    }

    #[test]
    fn an_unwritable_cache_is_reported_with_the_cure() {
        let folder = folder("full");
        let path = image(folder.path(), b"", b"x");
        let packed = Packed::open(&path, Origin::Named).unwrap().unwrap();
        let error = packed.unpack(Path::new("/proc/weft")).unwrap_err();
        let said = format!("{error:#}");
        assert!(said.contains("XDG_CACHE_HOME names another"), "{said}");
    }
}
