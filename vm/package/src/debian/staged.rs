// SPDX-License-Identifier: MIT OR Apache-2.0

//! The content of the packages: files of the workspace and of its build, at the paths that
//! debhelper expects. `packaging/debian` determines where they are installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use weft_build::base::cache::{Entry, Key};
use weft_build::base::{crates, process};
use weft_build::stages::programs::Programs;
use weft_build::stages::{image, modules};
use weft_machine::image::{FILE, Origin, Packed};
use weft_machine::interrupt::Temporary;

/// Parts of `kmod` that are not shipped: tests, benchmarks, and files that modules do not need.
const NOT_SHIPPED: [&str; 7] = [
    "hold/",
    "selftest/",
    "Cargo.toml",
    "README.md",
    "heap.rs",
    "invariant.rs",
    "lib.rs",
];

/// Folders with manual pages.
const PAGES: [&str; 3] = ["kmod", "userspace/arbiter", "userspace/pase"];

/// Sources that are built into the programs.
const PROGRAMS: [&str; 5] = [
    "weft-cli",
    "weft-ebpf",
    "weft-pase",
    "weft-arbiter",
    "weft-tc",
];

/// The folder of `tc`'s plugins.
const PLUGINS: &str = "usr/lib/x86_64-linux-gnu/tc";

/// Files for a build of packages.
pub(super) struct Staged {
    /// Names in the build, with their files.
    files: Vec<(String, PathBuf)>,
    /// Names in the build, with their texts.
    texts: Vec<(String, String)>,
    weft: PathBuf,
    tag: PathBuf,
    image: PathBuf,
}

impl Staged {
    /// Gathers everything in its present state.
    ///
    /// # Errors
    /// If a file is missing.
    pub(super) fn gather(workspace: &Path, programs: &Programs, image: &Entry) -> Result<Self> {
        let tag = &programs.ebpf.as_ref().context("no eBPF programs")?.tag;
        let mut files = Vec::new();
        for program in [&programs.weft, tag, &programs.pase, &programs.arbiter] {
            let name = program.file_name().unwrap_or_default().to_string_lossy();
            files.push((format!("stage/bin/{name}"), program.clone()));
        }
        files.push(("stage/tc/weft.so".to_owned(), programs.plugin.clone()));
        let image = image::file(image);
        files.push((format!("stage/{FILE}"), image.clone()));
        for (name, path) in modules::sources(&workspace.join("packaging"))? {
            let to = match name.split_once('/') {
                // Completed below.
                Some(("dkms", "dkms.conf")) => continue,
                // For the wheel only.
                Some(("python", _)) => continue,
                Some(("dkms", rest)) => format!("stage/kmod/{rest}"),
                Some(("debian", _)) => name,
                _ => format!("stage/{name}"),
            };
            files.push((to, path));
        }
        files.push(("SECURITY.md".to_owned(), workspace.join("SECURITY.md")));
        for folder in PAGES {
            for (name, path) in modules::sources(&workspace.join(folder))? {
                if name.ends_with(".7") || name.ends_with(".8") {
                    let name = name.rsplit('/').next().unwrap_or_default();
                    files.push((format!("stage/man/{name}"), path));
                }
            }
        }
        let mut shipped = Vec::new();
        for (name, path) in modules::sources(&workspace.join(modules::SOURCES))? {
            let page = name.ends_with(".7") || name.ends_with(".8");
            if !page && !NOT_SHIPPED.iter().any(|not| name.starts_with(not)) {
                shipped.extend(module(&name).map(str::to_owned));
                files.push((format!("stage/kmod/{name}"), path));
            }
        }
        shipped.sort();
        ensure!(!shipped.is_empty(), "there are no modules");
        let dkms = fs::read_to_string(workspace.join("packaging/dkms/dkms.conf"))?;
        let texts = vec![
            ("debian/weft-dkms.dkms".to_owned(), dkms + &built(&shipped)),
            ("debian/weft.links".to_owned(), links(&shipped)),
            ("stage/crates".to_owned(), crates_within(workspace)?),
        ];
        Ok(Self {
            files,
            texts,
            weft: programs.weft.clone(),
            tag: tag.clone(),
            image,
        })
    }

    /// Adds everything to the key.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(super) fn hashed(&self, key: Key) -> Result<Key> {
        let mut key = key.with_all(self.texts.iter().flat_map(|(name, text)| [name, text]));
        for (name, path) in &self.files {
            key = key.with_file(name, path)?;
        }
        Ok(key)
    }

    /// Writes everything into a directory, including files that the programs generate: pages and
    /// completions.
    ///
    /// # Errors
    /// If a file cannot be written, or a program does not run.
    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        for (name, path) in &self.files {
            let target = directory.join(name);
            fs::create_dir_all(target.parent().context("no parent")?)?;
            fs::copy(path, &target).with_context(|| format!("copying {}", path.display()))?;
        }
        for (name, text) in &self.texts {
            fs::write(directory.join(name), text)?;
        }
        let stage = directory.join("stage");
        for program in [&self.weft, &self.tag] {
            process::capture(Command::new(program).arg("man").arg(stage.join("man")))?;
        }
        // The image's copyrights; the programs' own are in debian/copyright.
        let unpacked = Temporary::new(directory.join("unpacked"))?;
        let packed = Packed::open(&self.image, Origin::Built)?.context("the image is none")?;
        let licences = packed.unpack(unpacked.path())?.licences()?;
        fs::write(stage.join("machine"), licences)?;
        for (shell, name) in [("bash", "weft"), ("zsh", "_weft"), ("fish", "weft.fish")] {
            let script = process::capture(Command::new(&self.weft).args(["completions", shell]))?;
            let folder = stage.join(shell);
            fs::create_dir_all(&folder)?;
            fs::write(folder.join(name), script)?;
        }
        Ok(())
    }
}

/// `sch_pfabric` for `pfabric/sch_pfabric.rs`; `None` for other files. The rule is Kbuild's.
fn module(path: &str) -> Option<&str> {
    let (_, name) = path.split_once('/')?;
    let name = name.strip_suffix(".rs")?;
    (name.starts_with("sch_") || name.starts_with("tcp_")).then_some(name)
}

/// The lines of `dkms.conf` for each module.
fn built(modules: &[String]) -> String {
    let line = |(index, name): (usize, &String)| {
        format!(
            "BUILT_MODULE_NAME[{index}]=\"{name}\"\nDEST_MODULE_LOCATION[{index}]=\"/updates/dkms\"\n"
        )
    };
    modules.iter().enumerate().map(line).collect()
}

/// A link for each qdisc, because `tc` looks for a library with its name.
fn links(modules: &[String]) -> String {
    let qdiscs = modules.iter().filter_map(|name| name.strip_prefix("sch_"));
    let line = |kind| format!("{PLUGINS}/weft.so {PLUGINS}/q_{kind}.so\n");
    qdiscs.map(line).collect()
}

/// The crates in the programs, with authors, version and licence, as their licences require.
fn crates_within(workspace: &Path) -> Result<String> {
    let mut lines = Vec::new();
    for manifest in ["Cargo.toml", "ebpf/programs/Cargo.toml"] {
        let mut command = crates::cargo();
        command.args(["tree", "--locked", "--edges", "normal", "--prefix", "none"]);
        command.args(["--format", "{p} {l}", "--manifest-path"]);
        command.arg(workspace.join(manifest));
        if manifest == "Cargo.toml" {
            command.args(PROGRAMS.map(|name| ["--package", name]).as_flattened());
        }
        let text = process::capture(&mut command)?;
        // Crates of the workspace have a path.
        let foreign = text
            .lines()
            .filter(|line| !line.is_empty() && !line.contains("(/"));
        lines.extend(foreign.map(|line| line.replace(" (proc-macro)", "")));
    }
    lines.sort();
    lines.dedup();
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use weft_build::base::workspace;

    use super::*;

    #[test]
    fn modules_are_the_files_that_kbuild_builds() {
        assert_eq!(module("pfabric/sch_pfabric.rs"), Some("sch_pfabric"));
        assert_eq!(module("pase/tcp_pase.rs"), Some("tcp_pase"));
        for other in ["pfabric/queue.rs", "Kbuild", "bfc/tc-bfc.8", "sch_x.rs"] {
            assert_eq!(module(other), None, "{other}");
        }
    }

    #[test]
    fn each_module_is_installed_and_each_qdisc_has_a_plugin() {
        let modules = ["sch_wire", "tcp_bfc"].map(str::to_owned);
        let lines = built(&modules);
        assert!(
            lines.contains("BUILT_MODULE_NAME[0]=\"sch_wire\"\n"),
            "{lines}"
        );
        assert!(
            lines.contains("DEST_MODULE_LOCATION[1]=\"/updates/dkms\"\n"),
            "{lines}"
        );
        assert_eq!(
            links(&modules),
            "usr/lib/x86_64-linux-gnu/tc/weft.so usr/lib/x86_64-linux-gnu/tc/q_wire.so\n"
        );
    }

    #[test]
    fn the_changelogs_describe_this_version() {
        let packaging = workspace().join("packaging/debian/changelog");
        let first = fs::read_to_string(packaging).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        assert!(first.starts_with(&format!("weft ({version}) ")), "{first}");
        let changes = fs::read_to_string(workspace().join("CHANGELOG.md")).unwrap();
        assert!(changes.contains(&format!("\n## {version}")), "{changes}");
    }
}
