// SPDX-License-Identifier: MIT OR Apache-2.0

//! The man pages of a command line.

use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;
use weft_words::file::write_together;

/// Writes the pages of a program and its subcommands to a folder, which is created if necessary:
/// all pages, or none.
///
/// # Errors
///
/// Errors of the file system, with the page's path.
pub fn write(program: Command, folder: &Path) -> io::Result<()> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    render(program, folder, &mut pages)?;
    write_together(&pages)
}

fn render(command: Command, folder: &Path, pages: &mut Vec<(PathBuf, Vec<u8>)>) -> io::Result<()> {
    let subcommands = command.get_subcommands().filter(|it| !it.is_hide_set());
    for subcommand in subcommands.cloned().collect::<Vec<_>>() {
        render(subcommand, folder, pages)?;
    }
    let page = Man::new(command);
    let mut text = Vec::new();
    page.render(&mut text)?;
    pages.push((folder.join(page.get_filename()), text));
    Ok(())
}
