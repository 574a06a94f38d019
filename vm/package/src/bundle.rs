// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask bundle`: one executable with weft's machine in it, which runs on any Linux; a
//! Python wheel with it; and the sources that the GPL requires.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use weft_arguments::whole;
use weft_build::base::cache::{Cache, Entry};
use weft_build::base::{enter, host, output, progress, workspace};
use weft_build::options::Target;
use weft_build::stages::chain::{self, Built, Kernel};
use weft_build::stages::image::{self, Compression};
use weft_build::stages::modules;
use weft_machine::failure::Failure;
use weft_machine::image::{Origin, Packed};
use weft_machine::interrupt::Temporary;
use weft_machine::transfer;

use crate::release::{self, Trial};
use crate::wheel;

/// Build one executable that runs on any Linux, with weft's machine in it; a Python wheel of it;
/// and the sources that the GPL requires
#[derive(Debug, clap::Args)]
#[command(after_help = "\
All are byte-identical if they come from the same sources and the same cargo.

Examples:
  cargo xtask bundle
  cargo xtask bundle --out /tmp && /tmp/weft-*-linux demo
  cargo xtask bundle && pipx install ./bundle/weft_testbed-*.whl
  cargo xtask bundle --instructions
  weft run rack:hosts=4 --clock instructions --machine bundle/weft-*-instructions.image
  cargo xtask bundle --json            paths and the machine's hash, for scripts")]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// Output folder
    #[arg(long, value_name = "FOLDER", default_value = "bundle")]
    out: PathBuf,
    /// Run it as nobody in an empty root with few resources, and kill it repeatedly; run weft demo
    /// in minimal roots of Debian 11, 12, 13 and forky; with --instructions, run on that image too
    #[arg(long)]
    test: bool,
    /// With --test: how many times it is killed
    #[arg(long, value_name = "N", default_value_t = 100, requires = "test", allow_negative_numbers = true, value_parser = whole(0..=u32::MAX))]
    kills: u32,
    /// Also write an image of the stock kernel for weft run --clock instructions, which boots it in
    /// QEMU
    #[arg(long)]
    instructions: bool,
    /// Print paths as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// The kernel of its machine.
    pub fn target(&self) -> &Target {
        &self.target
    }
}

const TRIAL: &str = include_str!("bundle/trial.sh");
/// Debian's releases in which the executable is tested.
const RELEASES: [&str; 4] = ["bullseye", "bookworm", "trixie", "forky"];

/// Maximum size of the machine in the executable, in bytes.
const LARGEST: u64 = 25_000_000;
/// The executable's name.
const NAME: &str = concat!("weft-", env!("CARGO_PKG_VERSION"), "-x86_64-linux");
/// The name of the image with the stock kernel.
const STOCK_IMAGE: &str = concat!("weft-", env!("CARGO_PKG_VERSION"), "-instructions.image");
/// Sources under the GPL, in the workspace.
const SOURCES: [&str; 4] = ["kmod", "ebpf/common", "ebpf/programs", "vm/um"];
/// Folders in them without sources.
const LEFT_OUT: [&str; 2] = ["target", "fuzz"];

/// Builds the executable, and tests it if requested.
///
/// # Errors
/// Those of the stages, or if a file cannot be written.
pub fn run(cache: &Cache, options: &Args) -> Result<u8> {
    let kernels: &[Kernel] = match options.instructions {
        true => &[Kernel::Model, Kernel::Stock],
        false => &[Kernel::Model],
    };
    let built = chain::in_place(cache, &options.target.request(), kernels)?;
    let entry = image::ensure(&built, Compression::Small)?;
    let workspace = workspace();
    let executable = options.out.join(NAME);
    let packed = write(&built, &entry, &executable)?;
    let sources = sources(&built, &options.out)?;
    let wheel = wheel::write(&workspace, &executable, &options.out)?;
    let instructions = match options.instructions {
        true => Some(write_stock_image(&built, &options.out)?),
        false => None,
    };
    if options.test {
        let size = packed.size();
        ensure!(
            size <= LARGEST,
            "the machine has {size} bytes, more than {LARGEST}"
        );
        for release in RELEASES {
            test_in(&built, &executable, release)?;
        }
        test(cache, &executable, options.kills)?;
        if let Some(image) = &instructions {
            test_instructions(cache, &executable, image)?;
        }
    }
    if options.json {
        let hash = packed.hash().to_string();
        let facts = json!({"executable": executable, "wheel": wheel, "sources": sources, "machine": hash, "instructions": instructions});
        output::json(&facts)?;
    } else {
        let files = [&executable, &wheel, &sources].into_iter();
        for path in files.chain(&instructions) {
            let size = fs::metadata(path)?.len() as f64 / 1e6;
            output::print(format!("{} ({size:.1} MB)", path.display()))?;
        }
    }
    Ok(0)
}

/// Writes the image with the stock kernel.
fn write_stock_image(built: &Built<'_>, folder: &Path) -> Result<PathBuf> {
    let entry = image::ensure_of(built, Kernel::Stock, Compression::Small)?;
    let path = folder.join(STOCK_IMAGE);
    replace(&path, |half| {
        Ok(fs::copy(image::file(&entry), half).map(drop)?)
    })
    .with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// Writes a file beside its place and moves it there: under its name it is whole, or as it was. A
/// process that runs an older file at this path keeps running it.
fn replace(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let half = path.with_extension("tmp");
    write(&half)?;
    Ok(fs::rename(&half, path)?)
}

/// Writes `weft` followed by an image, and creates the folder. A file with the same content stays.
///
/// # Errors
/// If the image is invalid; errors of the file system.
pub fn write(built: &Built<'_>, image: &Entry, path: &Path) -> Result<Packed> {
    let packed = Packed::open(&image::file(image), Origin::Built)?.context("the image is none")?;
    let written = || -> Result<()> {
        let content = File::open(&built.programs.weft)?.chain(packed.read()?);
        if has_content(path, content).unwrap_or(false) {
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        replace(path, |half| {
            fs::copy(&built.programs.weft, half)?;
            let mut out = File::options().append(true).open(half)?;
            io::copy(&mut packed.read()?, &mut out)?;
            Ok(fs::set_permissions(
                half,
                fs::Permissions::from_mode(0o755),
            )?)
        })
    };
    written().with_context(|| format!("writing {}", path.display()))?;
    Ok(packed)
}

/// Whether a file has this content.
fn has_content(path: &Path, mut content: impl Read) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let [mut found, mut wanted] = [vec![0; 1 << 16], vec![0; 1 << 16]];
    loop {
        let length = content.read(&mut wanted)?;
        if length == 0 {
            return Ok(file.read(&mut found)? == 0);
        }
        file.read_exact(&mut found[..length])?;
        if found[..length] != wanted[..length] {
            return Ok(false);
        }
    }
}

/// Tests the executable in an empty root, and kills it at random moments.
///
/// # Errors
/// If it fails: with the end of the log.
pub fn test(cache: &Cache, executable: &Path, kills: u32) -> Result<()> {
    if !enter::is_root() {
        return Err(Failure::setup("--test makes roots for another user: run it as root").into());
    }
    host::provide(cache, &host::TRIAL)?;
    let place = cache.file(format!("run/{}.bundle", std::process::id()));
    let folder = Temporary::new(place)?;
    progress::step("the executable where nothing else is", || {
        let mut command = enter::unshared();
        command.args(["sh", "-euc", TRIAL, "trial.sh"]);
        command.args([&fs::canonicalize(executable)?, folder.path()]);
        cache
            .log("bundle-test")?
            .run(command.arg(kills.to_string()))
    })
}

/// Runs a workload twice under the instruction clock, and compares the results.
///
/// # Errors
/// If they differ, or a run fails: with the end of the log.
fn test_instructions(cache: &Cache, executable: &Path, image: &Path) -> Result<()> {
    host::provide(cache, &[host::QEMU])?;
    let place = cache.file(format!("run/{}.instructions", std::process::id()));
    let folder = Temporary::new(place)?;
    let executable = fs::canonicalize(executable)?;
    progress::step("the image of the stock kernel", || {
        let log = cache.log("bundle-instructions")?;
        let results = ["first", "second"].map(|name| -> Result<Vec<u8>> {
            let out = folder.path().join(name);
            let mut command = Command::new(&executable);
            command.args([
                "run",
                "rack:hosts=2",
                "--dilation",
                "1000",
                "--scheme",
                "pfabric",
            ]);
            command.args(["--workload", "fixed:20kB", "--load", "0.4", "--flows", "20"]);
            command.args(["--clock", "instructions", "--quiet", "--machine"]);
            log.run(command.arg(image).arg("--out").arg(&out))?;
            Ok(fs::read(out.join("pfabric-seed1.jsonl"))?)
        });
        let [first, second] = results;
        ensure!(
            first? == second?,
            "two runs under the instruction clock differ"
        );
        Ok(())
    })
}

/// Runs `weft demo` in a minimal root filesystem of a release, and compares the output with the
/// README's first screen.
///
/// # Errors
/// If they differ, or weft fails: with the end of the log.
fn test_in(built: &Built<'_>, executable: &Path, release: &str) -> Result<()> {
    let Built { cache, base, .. } = built;
    let trial = Trial::Executable(executable);
    let printed = release::try_in(cache, &base.resolution, release, trial)?;
    let readme = fs::read_to_string(workspace().join("README.md"))?;
    for part in first_screen(&readme) {
        ensure!(
            printed.contains(part),
            "weft demo in {release} prints\n{printed}\nand not\n{part}"
        );
    }
    Ok(())
}

/// The output of `weft demo` in the README: the parts between its ellipses.
fn first_screen(readme: &str) -> Vec<&str> {
    let block = readme.split("```console\ndemo: ").nth(1);
    let block = block.and_then(|rest| rest.split("```").next());
    let parts = block.unwrap_or_default().split("…\n");
    parts.filter(|part| !part.is_empty()).collect()
}

/// Writes the sources that the GPL requires next to the binaries.
///
/// # Errors
/// If a file cannot be read or written.
pub(crate) fn sources(built: &Built<'_>, folder: &Path) -> Result<PathBuf> {
    let path = folder.join(format!("{NAME}.sources.tar"));
    let archive = archive(&workspace(), &about(built))?;
    transfer::write_whole(&path, &archive)?;
    Ok(path)
}

fn about(built: &Built<'_>) -> String {
    let resolution = &built.base.resolution;
    format!(
        "Sources of what is under the GPL in weft {}.\n\n\
         kmod         the kernel modules\n\
         ebpf         the eBPF programs\n\
         vm/um        configuration and patches of the kernel, and how it is built\n\n\
         The kernel's source is Debian's package {} {}:\n\
         apt-get download {}={}, or https://snapshot.debian.org.\n",
        env!("CARGO_PKG_VERSION"),
        resolution.source_package,
        resolution.version,
        resolution.source_package,
        resolution.version,
    )
}

/// A reproducible tar of the sources.
fn archive(workspace: &Path, about: &str) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    archive.mode(tar::HeaderMode::Deterministic);
    let mut add = |name: &Path, content: &[u8]| -> Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        Ok(archive.append_data(&mut header, name, content)?)
    };
    add(Path::new("README"), about.as_bytes())?;
    for source in SOURCES {
        for (name, path) in modules::files_without(&workspace.join(source), &LEFT_OUT)? {
            add(&Path::new(source).join(name), &fs::read(&path)?)?;
        }
    }
    Ok(archive.into_inner()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_equal_if_their_whole_content_is() {
        let name = format!("weft-content-{}", std::process::id());
        let folder = Temporary::new(std::env::temp_dir().join(name)).unwrap();
        let path = folder.path().join("file");
        let content = vec![7; 100_000];
        fs::write(&path, &content).unwrap();
        let has = |content: &[u8]| has_content(&path, content).unwrap_or(false);
        assert!(has(&content));
        assert!(!has(&content[1..]));
        assert!(!has(&[content.as_slice(), b"x"].concat()));
        assert!(!has(&[&content[1..], b"x"].concat()));
        fs::remove_file(&path).unwrap();
        assert!(!has(b""));
    }

    #[test]
    fn the_readme_shows_what_the_demo_prints() {
        let readme = fs::read_to_string(workspace().join("README.md")).unwrap();
        let parts = first_screen(&readme);
        assert_eq!(parts.len(), 2, "{parts:?}");
        assert!(parts[1].contains("\npfabric "), "{}", parts[1]);
    }

    #[test]
    fn the_sources_of_all_gpl_code_are_bundled_reproducibly() {
        let workspace = workspace();
        let tar = archive(&workspace, "about").unwrap();
        let names: Vec<String> = tar::Archive::new(tar.as_slice())
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        for name in ["README", "kmod/Kbuild", "vm/um/config", "vm/um/build.sh"] {
            assert!(names.iter().any(|it| it == name), "{name}");
        }
        let patches = names.iter().filter(|name| name.ends_with(".patch")).count();
        assert!(patches >= 8, "{patches}");
        assert_eq!(archive(&workspace, "about").unwrap(), tar);
    }
}
