// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tables for people, JSON for programs.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// A table of text: the first column is left-aligned, the others are right-aligned.
pub(crate) fn table(
    head: impl IntoIterator<Item = impl Into<String>>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(head.into_iter().map(Into::into).collect::<Vec<String>>());
    table.add_rows(rows);
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
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(head.into_iter().map(Into::into).collect::<Vec<String>>());
    table.add_rows(rows);
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
    out.write_all(text.as_ref().as_bytes())?;
    Ok(out.write_all(b"\n")?)
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
