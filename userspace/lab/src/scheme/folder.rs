// SPDX-License-Identifier: MIT OR Apache-2.0

//! The place of a scheme's files: in the binary, or in a person's folder.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use include_dir::{Dir, include_dir};
use weft_words::file::{MIB, SizeLimit};
use weft_words::near::meant;

use crate::error::usage;

pub(super) static BUILT_IN: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../tc-configs");

/// The largest file of a scheme.
const FILE: SizeLimit = SizeLimit {
    kind: "a scheme's file",
    bytes: MIB,
};

/// A folder of a scheme's files.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    name: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    BuiltIn(&'static Dir<'static>),
    Path(PathBuf),
}

/// The names of the schemes that weft brings.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = BUILT_IN
        .dirs()
        .filter_map(|folder| folder.path().to_str())
        .collect();
    names.sort_unstable();
    names
}

impl Folder {
    /// The folder for a name or a path: a word that has a `/` or is a folder here is a path.
    ///
    /// # Errors
    ///
    /// If there is no such scheme.
    pub(super) fn find(name: &str) -> Result<Self> {
        match Self::built_in(name) {
            Some(folder) => Ok(folder),
            None if Path::new(name).is_dir() => Ok(Self::at(name.into())),
            None if Path::new(name).exists() => usage(format!(
                "{name} is a file, but a scheme is a folder (one to start from: weft schemes export droptail DIR)"
            )),
            // It may be in a folder that this user cannot look into.
            None if name.contains('/') => match fs::metadata(name) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    usage(format!("{name}: {error}"))
                }
                _ => usage(format!(
                    "there is no folder {name} (a scheme to start from: weft schemes export droptail DIR)"
                )),
            },
            None => unknown(name, "."),
        }
    }

    /// The folder of the scheme that this one extends: a word that has a `/` is a path from here.
    ///
    /// # Errors
    ///
    /// If there is no such scheme.
    pub(super) fn parent(&self, name: &str) -> Result<Self> {
        match &self.kind {
            _ if !name.contains('/') => {
                Self::built_in(name).map_or_else(|| unknown(name, ".."), Ok)
            }
            Kind::Path(path) if path.join(name).is_dir() => Ok(Self::at(path.join(name))),
            _ => usage(format!("there is no folder {name}")),
        }
    }

    fn built_in(name: &str) -> Option<Self> {
        let folder = BUILT_IN.get_dir(name)?;
        Some(Self {
            name: name.to_owned(),
            kind: Kind::BuiltIn(folder),
        })
    }

    fn at(path: PathBuf) -> Self {
        let name = path.file_name().and_then(|name| name.to_str());
        Self {
            // `..` has no name.
            name: name.map_or_else(|| path.display().to_string(), str::to_owned),
            kind: Kind::Path(path),
        }
    }

    /// The folder's path; `None` if it is in the binary.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.kind {
            Kind::BuiltIn(_) => None,
            Kind::Path(path) => Some(path),
        }
    }

    /// The scheme's name in messages and results.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether both are the same folder.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (Kind::BuiltIn(one), Kind::BuiltIn(other)) => one.path() == other.path(),
            (Kind::Path(one), Kind::Path(other)) => {
                let whole = |path: &Path| fs::canonicalize(path).ok();
                one == other || whole(one).is_some_and(|one| whole(other) == Some(one))
            }
            _ => false,
        }
    }

    /// A file's content; `None` if there is no such file.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(super) fn read(&self, file: &str) -> Result<Option<String>> {
        match &self.kind {
            Kind::BuiltIn(folder) => {
                let file = folder.get_file(folder.path().join(file));
                Ok(file.and_then(|it| it.contents_utf8()).map(str::to_owned))
            }
            Kind::Path(path) => match FILE.read_text(path.join(file)) {
                Ok(content) => Ok(Some(content)),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => {
                    Err(error).with_context(|| format!("reading {}/{file}", path.display()))
                }
            },
        }
    }
}

/// The error for an unknown scheme; `here` is the folder in which its example of a path begins.
fn unknown<T>(name: &str, here: &str) -> Result<T> {
    usage(format!(
        "there is no scheme `{name}`{}: expected one of {}, or a folder such as {here}/{name}",
        meant(name, &names()),
        names().join(", ")
    ))
}
