// SPDX-License-Identifier: MIT OR Apache-2.0

//! The Python wheel: the executable as a script, and a module that reads results.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use sha2::{Digest as _, Sha256};
use weft_build::stages::modules;
use weft_machine::transfer;

/// The package's sources, in the workspace.
pub const SOURCES: &str = "packaging/python";
/// The distribution's name in file names.
const NAME: &str = "weft_testbed";
/// manylinux2014 means glibc 2.17 or later. The executable is static and needs no glibc at all.
const TAG: &str = "py3-none-manylinux2014_x86_64";
const LICENCES: [&str; 3] = ["LICENSE-APACHE", "LICENSE-GPL-2.0", "LICENSE-MIT"];

/// Writes the wheel of an executable into a folder. The same inputs give the same bytes.
///
/// # Errors
/// If a file cannot be read or written.
pub fn write(workspace: &Path, executable: &Path, folder: &Path) -> Result<PathBuf> {
    let version = env!("CARGO_PKG_VERSION");
    // Python has another syntax for pre-releases: 0.2.0rc1.
    let plain = version.chars().all(|c| c.is_ascii_digit() || c == '.');
    ensure!(plain, "a wheel cannot have the version {version}");
    let read = |path: &Path| fs::read(path).with_context(|| format!("reading {}", path.display()));
    let sources = workspace.join(SOURCES);
    let mut wheel = Wheel::default();
    for (name, path) in modules::sources(&sources.join(NAME))? {
        if name.ends_with(".py") || name == "py.typed" {
            wheel.add(format!("{NAME}/{name}"), MODULE, read(&path)?)?;
        }
    }
    let script = format!("{NAME}-{version}.data/scripts/weft");
    wheel.add(script, PROGRAM, read(executable)?)?;
    let info = format!("{NAME}-{version}.dist-info");
    let readme = fs::read_to_string(sources.join("README.md")).context("README.md")?;
    let metadata = metadata(version, &readme);
    wheel.add(format!("{info}/METADATA"), MODULE, metadata.into())?;
    let tags = format!("Wheel-Version: 1.0\nGenerator: weft\nRoot-Is-Purelib: false\nTag: {TAG}\n");
    wheel.add(format!("{info}/WHEEL"), MODULE, tags.into())?;
    for name in LICENCES {
        let content = read(&workspace.join(name))?;
        wheel.add(format!("{info}/licenses/{name}"), MODULE, content)?;
    }
    let path = folder.join(format!("{NAME}-{version}-{TAG}.whl"));
    transfer::write_whole(&path, &wheel.finish(&format!("{info}/RECORD"))?)?;
    Ok(path)
}

/// The metadata for pip and PyPI (Core metadata 2.4).
fn metadata(version: &str, readme: &str) -> String {
    let mut text = format!(
        "Metadata-Version: 2.4\n\
         Name: weft-testbed\n\
         Version: {version}\n\
         Summary: Datacenter transports on a Linux kernel in virtual time: the command weft, and its results as data frames\n\
         Author: The weft developers\n\
         License-Expression: (MIT OR Apache-2.0) AND GPL-2.0-only\n"
    );
    for name in LICENCES {
        let _ = writeln!(text, "License-File: {name}");
    }
    text += "Keywords: datacenter,transport,congestion control,pFabric,qdisc,simulation\n\
             Classifier: Operating System :: POSIX :: Linux\n\
             Classifier: Topic :: System :: Networking\n\
             Classifier: Typing :: Typed\n\
             Requires-Python: >=3.9\n\
             Provides-Extra: pandas\n\
             Requires-Dist: pandas>=1.5; extra == \"pandas\"\n\
             Provides-Extra: polars\n\
             Requires-Dist: polars>=1; extra == \"polars\"\n\
             Description-Content-Type: text/markdown\n\n";
    text + readme
}

/// Modes of files.
const MODULE: u16 = 0o100_644;
const PROGRAM: u16 = 0o100_755;

/// A zip whose files are stored uncompressed, except those that deflate makes smaller, and the list
/// of their hashes that a wheel needs.
#[derive(Default)]
struct Wheel {
    bytes: Vec<u8>,
    directory: Vec<u8>,
    entries: u16,
    record: String,
}

impl Wheel {
    fn add(&mut self, name: String, mode: u16, content: Vec<u8>) -> Result<()> {
        let hash = base64url(&Sha256::digest(&content));
        let _ = writeln!(self.record, "{name},sha256={hash},{}", content.len());
        self.store(&name, mode, &content)
    }

    /// PKWARE's APPNOTE, 4.3.7 and 4.3.12.
    fn store(&mut self, name: &str, mode: u16, content: &[u8]) -> Result<()> {
        const LOCAL: [u8; 4] = *b"PK\x03\x04";
        const CENTRAL: [u8; 4] = *b"PK\x01\x02";
        /// 2.0, the first version with deflate; written by a Unix program.
        const VERSION: u16 = 20;
        const UNIX: u16 = 3 << 8;
        /// 1980-01-01, the earliest date of a zip.
        const DATE: u16 = 1 << 5 | 1;
        let packed = miniz_oxide::deflate::compress_to_vec(content, LEVEL);
        let (method, data) = match packed.len() < content.len() {
            true => (8_u16, packed.as_slice()),
            false => (0, content),
        };
        let size = |length: usize| u32::try_from(length).context("a zip of 4 GiB");
        let offset = size(self.bytes.len())?;
        // The fields that both headers have.
        let mut common = Vec::new();
        for word in [VERSION, 0, method, 0, DATE] {
            common.extend(word.to_le_bytes());
        }
        for number in [
            crc32fast::hash(content),
            size(data.len())?,
            size(content.len())?,
        ] {
            common.extend(number.to_le_bytes());
        }
        common.extend(u16::try_from(name.len())?.to_le_bytes());
        // No extra field.
        common.extend([0; 2]);
        self.bytes.extend(LOCAL);
        self.bytes.extend(&common);
        self.bytes.extend(name.as_bytes());
        self.bytes.extend(data);
        self.directory.extend(CENTRAL);
        self.directory.extend((UNIX | VERSION).to_le_bytes());
        self.directory.extend(&common);
        // No comment, the first disk, no attributes except the mode.
        self.directory.extend([0; 6]);
        self.directory.extend((u32::from(mode) << 16).to_le_bytes());
        self.directory.extend(offset.to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.entries += 1;
        Ok(())
    }

    /// The bytes of the wheel, with its list as the last file.
    fn finish(mut self, list: &str) -> Result<Vec<u8>> {
        let record = format!("{}{list},,\n", self.record);
        self.store(list, MODULE, record.as_bytes())?;
        let (start, length) = (self.bytes.len(), self.directory.len());
        self.bytes.append(&mut self.directory);
        self.bytes.extend(b"PK\x05\x06");
        self.bytes.extend([0; 4]);
        for count in [self.entries; 2] {
            self.bytes.extend(count.to_le_bytes());
        }
        for number in [length, start] {
            self.bytes.extend(u32::try_from(number)?.to_le_bytes());
        }
        self.bytes.extend([0; 2]);
        Ok(self.bytes)
    }
}

/// Compression level of deflate.
const LEVEL: u8 = 9;

/// RFC 4648, section 5, without padding, as in a wheel's list of hashes.
fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut group = [0; 4];
        group[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(group);
        for digit in 0..=chunk.len() {
            let value = bits >> (18 - 6 * digit) & 63;
            text.push(DIGITS[value as usize].into());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use weft_build::base::workspace;

    use super::*;
    use weft_machine::interrupt::Temporary;

    #[test]
    fn a_wheel_is_reproducible_and_lists_each_file() {
        let name = format!("weft-wheel-{}", std::process::id());
        let folder = Temporary::new(std::env::temp_dir().join(name)).unwrap();
        let executable = folder.path().join("weft");
        fs::write(&executable, b"\x7fELF").unwrap();
        let made = || {
            let path = write(&workspace(), &executable, folder.path()).unwrap();
            (path.clone(), fs::read(path).unwrap())
        };
        let (path, bytes) = made();
        assert_eq!(made(), (path.clone(), bytes.clone()));
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(name.ends_with(&format!("-{TAG}.whl")), "{name}");
        let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
        for name in ["__init__.py", "py.typed"] {
            assert!(has(format!("weft_testbed/{name}").as_bytes()), "{name}");
        }
        assert!(!has(b"test_read.py"));
    }

    #[test]
    fn base64_uses_the_alphabet_for_urls() {
        // RFC 4648, section 10.
        for (bytes, text) in [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64url(bytes.as_bytes()), text);
        }
        assert_eq!(base64url(&[0xfb, 0xff]), "-_8");
    }
}
