// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's own programs and the `tc` plugin, built by the host's cargo.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::base::process::Log;
use crate::base::{crates, progress};

/// The paths of the guest's programs.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `weft-guest`.
    pub init: PathBuf,
    /// `weft-selftests`.
    pub selftests: PathBuf,
    /// `weft-bench`.
    pub bench: PathBuf,
    /// `weft`; its schemes with tags need the eBPF programs.
    pub weft: PathBuf,
    /// `weft-pase`, which a scheme starts.
    pub pase: PathBuf,
    /// `weft-arbiter`, a process of schemes.
    pub arbiter: PathBuf,
    /// `weft-fabric-selftests`, which call `weft`.
    pub fabric_selftests: PathBuf,
    /// `weft-application-selftests`, for guests that have such applications.
    pub applications: PathBuf,
    /// Programs with the eBPF programs embedded, if these can be built.
    pub ebpf: Option<Ebpf>,
    /// The plugin, one library for all of weft's qdiscs.
    pub plugin: PathBuf,
}

/// Programs with the eBPF object embedded.
#[derive(Clone, Debug)]
pub struct Ebpf {
    /// `weft-tag`.
    pub tag: PathBuf,
    /// `weft-ebpf-selftests`.
    pub selftests: PathBuf,
}

impl Programs {
    /// The programs in the guest's path, under their own names.
    pub fn in_path(&self) -> Vec<&Path> {
        let mut programs = vec![
            self.selftests.as_path(),
            &self.bench,
            &self.weft,
            &self.pase,
            &self.arbiter,
            &self.fabric_selftests,
        ];
        if let Some(ebpf) = &self.ebpf {
            programs.extend([ebpf.tag.as_path(), &ebpf.selftests]);
        }
        programs
    }

    /// Copies them into a folder. Cargo has one place for its results, and another xtask may
    /// replace them meanwhile, after a change of the source or without the eBPF programs. Guests
    /// that start later would get those.
    ///
    /// # Errors
    /// If a file cannot be copied.
    pub fn copied(&self, folder: &Path) -> Result<Self> {
        let copied = |from: &PathBuf| {
            let to = folder.join(from.file_name().unwrap_or_default());
            fs::copy(from, &to).with_context(|| format!("copying {}", from.display()))?;
            anyhow::Ok(to)
        };
        let ebpf = |ebpf: &Ebpf| {
            anyhow::Ok(Ebpf {
                tag: copied(&ebpf.tag)?,
                selftests: copied(&ebpf.selftests)?,
            })
        };
        Ok(Self {
            init: copied(&self.init)?,
            selftests: copied(&self.selftests)?,
            bench: copied(&self.bench)?,
            weft: copied(&self.weft)?,
            pase: copied(&self.pase)?,
            arbiter: copied(&self.arbiter)?,
            fabric_selftests: copied(&self.fabric_selftests)?,
            applications: copied(&self.applications)?,
            ebpf: self.ebpf.as_ref().map(ebpf).transpose()?,
            plugin: copied(&self.plugin)?,
        })
    }
}

/// The cargo command for all programs except `weft`. They have a profile for small programs,
/// because they are part of the initramfs. `object`: the eBPF object, if there is one.
pub fn command(workspace: &Path, object: Option<&Path>) -> Command {
    let mut command = of_packages(
        workspace,
        &[
            "weft-guest",
            "weft-selftests",
            "weft-bench",
            "weft-tc",
            "weft-pase",
            "weft-arbiter",
            "weft-fabric-selftests",
        ],
    );
    if let Some(object) = object {
        for package in ["weft-ebpf", "weft-ebpf-selftests"] {
            command.args(["--package", package]);
        }
        command.env("WEFT_EBPF_OBJECT", object);
    }
    command
}

/// The target of `weft`.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The command that builds `weft` for any Linux: linked statically, and without this machine's
/// paths.
///
/// # Errors
/// If there is no home directory.
pub fn weft_command(workspace: &Path, object: Option<&Path>) -> Result<Command> {
    let mut command = of_packages(workspace, &["weft-cli"]);
    // Explicit, so that the flags do not apply to build scripts.
    command.args(["--target", TARGET]);
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned()];
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let paths = [(Some(workspace.to_owned()), "/weft"), (home, "/cargo")];
    for (path, shown) in paths {
        let path = path.context("no home directory")?;
        flags.push(format!("--remap-path-prefix={}={shown}", path.display()));
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    if let Some(object) = object {
        command.env("WEFT_EBPF_OBJECT", object);
    }
    Ok(command)
}

fn of_packages(workspace: &Path, packages: &[&str]) -> Command {
    let mut command = crates::cargo();
    command.current_dir(workspace);
    command.args([
        "build",
        "--profile",
        "guest",
        "--message-format",
        "json-render-diagnostics",
    ]);
    for package in packages {
        command.args(["--package", package]);
    }
    command
}

/// Builds only `weft`; it may lack the eBPF programs.
///
/// # Errors
/// Those of [`build`].
pub fn weft(workspace: &Path, log: &Log) -> Result<PathBuf> {
    progress::step("weft", || built_weft(workspace, None, log))
}

fn built_weft(workspace: &Path, object: Option<&Path>, log: &Log) -> Result<PathBuf> {
    let messages = log.run_piped(&mut weft_command(workspace, object)?)?;
    program(&messages, "weft").context("cargo built no weft")
}

/// Builds the QUIC client and server, whose many dependencies no other program has.
///
/// # Errors
/// Those of [`build`].
pub fn quic_example(workspace: &Path, log: &Log) -> Result<PathBuf> {
    progress::step("QUIC example", || {
        let messages = log.run_piped(&mut of_packages(workspace, &["weft-quic-example"]))?;
        program(&messages, "quic-example").context("cargo built no quic-example")
    })
}

/// Builds the programs; cargo skips those that are up to date.
///
/// # Errors
/// If cargo fails; its messages are in the error.
pub fn build(workspace: &Path, object: Option<&Path>, log: &Log) -> Result<Programs> {
    progress::step("guest programs", || {
        let messages = log.run_piped(&mut command(workspace, object))?;
        let program =
            |name| program(&messages, name).with_context(|| format!("cargo built no {name}"));
        let ebpf = || {
            anyhow::Ok(Ebpf {
                tag: program("weft-tag")?,
                selftests: program("weft-ebpf-selftests")?,
            })
        };
        Ok(Programs {
            init: program("weft-guest")?,
            selftests: program("weft-selftests")?,
            bench: program("weft-bench")?,
            weft: built_weft(workspace, object, log)?,
            pase: program("weft-pase")?,
            arbiter: program("weft-arbiter")?,
            fabric_selftests: program("weft-fabric-selftests")?,
            applications: program("weft-application-selftests")?,
            ebpf: object.map(|_| ebpf()).transpose()?,
            plugin: library(&messages, "weft_tc").context("cargo built no tc plugin")?,
        })
    })
}

/// The artifacts of the target `name` in cargo's JSON messages.
fn artifacts(messages: &str, name: &str) -> impl Iterator<Item = Value> {
    let of_target = move |message: &Value| {
        message["reason"] == "compiler-artifact" && message["target"]["name"] == name
    };
    let values = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    values.filter(of_target)
}

fn program(messages: &str, name: &str) -> Option<PathBuf> {
    artifacts(messages, name)
        .find_map(|artifact| artifact["executable"].as_str().map(PathBuf::from))
}

fn library(messages: &str, name: &str) -> Option<PathBuf> {
    artifacts(messages, name).find_map(|artifact| {
        let files = artifact["filenames"]
            .as_array()?
            .iter()
            .filter_map(Value::as_str);
        files
            .map(PathBuf::from)
            .find(|file| file.extension().is_some_and(|end| end == "so"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_stay_when_cargo_builds_other_programs() {
        let name = format!("weft-programs-{}", std::process::id());
        let folder =
            weft_machine::interrupt::Temporary::new(std::env::temp_dir().join(name)).unwrap();
        let [cargos, ours] = ["cargos", "ours"].map(|name| folder.path().join(name));
        let built = |name: &str| {
            fs::create_dir_all(&cargos).unwrap();
            fs::create_dir_all(&ours).unwrap();
            let path = cargos.join(name);
            fs::write(&path, "first").unwrap();
            path
        };
        let programs = Programs {
            init: built("weft-guest"),
            selftests: built("weft-selftests"),
            bench: built("weft-bench"),
            weft: built("weft"),
            pase: built("weft-pase"),
            arbiter: built("weft-arbiter"),
            fabric_selftests: built("weft-fabric-selftests"),
            applications: built("weft-application-selftests"),
            ebpf: Some(Ebpf {
                tag: built("weft-tag"),
                selftests: built("weft-ebpf-selftests"),
            }),
            plugin: built("libweft_tc.so"),
        };
        let copies = programs.copied(&ours).unwrap();
        for path in programs.in_path() {
            fs::write(path, "second").unwrap();
        }
        fs::remove_file(&programs.plugin).unwrap();
        for (path, original) in copies.in_path().iter().zip(programs.in_path()) {
            assert_eq!(path.file_name(), original.file_name());
            assert_eq!(fs::read_to_string(path).unwrap(), "first");
        }
        assert_eq!(fs::read_to_string(&copies.plugin).unwrap(), "first");
        assert_eq!(fs::read_to_string(&copies.init).unwrap(), "first");
    }

    #[test]
    fn artifacts_are_read_from_cargos_messages() {
        let messages = r#"
{"reason":"compiler-artifact","target":{"name":"weft_guest"},"filenames":["/t/libweft_guest.rlib"],"executable":null}
{"reason":"compiler-artifact","target":{"name":"weft-guest"},"filenames":["/t/weft-guest"],"executable":"/t/weft-guest"}
{"reason":"compiler-artifact","target":{"name":"weft_tc"},"filenames":["/t/libweft_tc.rlib","/t/libweft_tc.so"],"executable":null}
{"reason":"build-finished","success":true}
"#;
        assert_eq!(
            program(messages, "weft-guest"),
            Some("/t/weft-guest".into())
        );
        assert_eq!(
            library(messages, "weft_tc"),
            Some("/t/libweft_tc.so".into())
        );
        assert_eq!(program(messages, "weft_guest"), None);
        assert_eq!(library(messages, "other"), None);
    }
}
