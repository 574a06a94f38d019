// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tables for people, JSON for programs.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use nix::errno::Errno;
use nix::unistd::{AccessFlags, eaccess};
use serde::Serialize;

/// A table of text: the first column is left-aligned, the others are right-aligned.
pub(crate) fn table(
    head: impl IntoIterator<Item = impl Into<String>>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let mut table = plain(rows);
    table.set_header(head.into_iter().map(Into::into).collect::<Vec<String>>());
    for (number, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if number == 0 { 0 } else { 1 }, 1));
        if number > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// Like [`table`], with all columns left-aligned.
pub(crate) fn list(
    head: impl IntoIterator<Item = impl Into<String>>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let mut table = plain(rows);
    table.set_header(head.into_iter().map(Into::into).collect::<Vec<String>>());
    left_aligned(table)
}

/// Words, each with a paragraph beside it, in lines of at most 100 columns.
pub(crate) fn definitions(rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = plain(rows);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(100);
    left_aligned(table)
}

fn plain(rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.add_rows(rows);
    table
}

fn left_aligned(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// Writes a file, and removes it if it would be incomplete. A file that cannot be opened stays as
/// it is.
///
/// # Errors
///
/// Errors of the file system, with the file's name.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<()> {
    fill(File::create(path), path, content)
}

/// Like [`write`], for a file that must not exist.
///
/// # Errors
///
/// Errors of the file system, with the file's name.
pub(crate) fn write_new(path: &Path, content: &[u8]) -> Result<()> {
    fill(File::create_new(path), path, content)
}

fn fill(created: io::Result<File>, path: &Path, content: &[u8]) -> Result<()> {
    let context = || format!("writing {}", path.display());
    let written = created.with_context(context)?.write_all(content);
    // Not a device, such as /dev/stdout.
    if written.is_err() && path.is_file() {
        let _ = fs::remove_file(path);
    }
    written.with_context(context)
}

/// Prints a line. Unlike `println!`, it does not panic if the reader is gone.
///
/// # Errors
///
/// Errors of the writer.
pub(crate) fn print(text: impl AsRef<str>) -> Result<()> {
    let mut out = io::stdout().lock();
    let text = text.as_ref().as_bytes();
    let written = out.write_all(text).and_then(|()| out.write_all(b"\n"));
    written.context(STDOUT)
}

/// The context of an error of standard output.
pub(crate) const STDOUT: &str = "writing to standard output";

/// Ignores a reader that is gone, for a command whose exit status also reports something:
/// `weft run … | head -1` fails if a claim does not hold.
///
/// # Errors
///
/// Other errors of the writer.
pub(crate) fn whole_or_cut(printed: Result<()>) -> Result<()> {
    printed.or_else(|error| match is_broken_pipe(&error) {
        true => Ok(()),
        false => Err(error),
    })
}

/// Checks that files can be written to a folder, which need not exist.
///
/// # Errors
///
/// If it cannot be created, or not be written to: with the folder that prevents it.
pub(crate) fn require_folder(folder: &Path) -> Result<()> {
    let named = folder.ancestors().filter(|it| !it.as_os_str().is_empty());
    let there = named.clone().find(|it| it.symlink_metadata().is_ok());
    let there = there.unwrap_or(Path::new("."));
    let flags = AccessFlags::W_OK | AccessFlags::X_OK;
    let found = match there.is_dir() {
        true => eaccess(there, flags),
        false => Err(Errno::ENOTDIR),
    };
    found.or_else(|error| {
        let (shown, why) = (folder.display(), error.desc());
        match folder == there {
            true => bail!("cannot write to {shown}: {why}"),
            false => bail!("cannot create {shown} in {}: {why}", there.display()),
        }
    })
}

/// Checks that a file can be written, whose folder must exist.
///
/// # Errors
///
/// If its folder does not exist, or it cannot be written to.
pub(crate) fn require_file(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let found = match path.exists() {
        true => eaccess(path, AccessFlags::W_OK),
        false => eaccess(folder, AccessFlags::W_OK | AccessFlags::X_OK),
    };
    found.with_context(|| format!("writing {}", path.display()))
}

/// Prints a value as JSON.
///
/// # Errors
///
/// Errors of the writer.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    print(serde_json::to_string_pretty(value).context("writing JSON")?)
}

/// Whether the reader of standard output is gone.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_made_is_reported_with_what_prevents_it() {
        let folder = std::env::temp_dir().join(format!("weft-output-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let file = folder.join("file");
        fs::write(&file, "").unwrap();
        require_folder(&folder.join("a/b")).unwrap();
        require_folder(Path::new("")).unwrap();
        require_file(&file).unwrap();
        require_file(&folder.join("new")).unwrap();
        let said = |found: Result<()>| format!("{:#}", found.unwrap_err());
        let below = file.join("a/b");
        let expected = format!(
            "cannot create {} in {}: Not a directory",
            below.display(),
            file.display()
        );
        assert_eq!(said(require_folder(&below)), expected);
        assert!(
            said(require_file(&folder.join("none/page"))).ends_with("No such file or directory")
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn only_a_reader_that_is_gone_is_ignored() {
        let error = |kind| Err(io::Error::from(kind)).context(STDOUT);
        assert!(whole_or_cut(error(io::ErrorKind::BrokenPipe)).is_ok());
        assert!(whole_or_cut(error(io::ErrorKind::StorageFull)).is_err());
    }
}
