// SPDX-License-Identifier: MIT OR Apache-2.0

//! Boots a kernel that is a program, with archives of an initramfs that include weft's init, and
//! runs a command in it:
//!
//! ```sh
//! cargo run -p weft-machine --example boot -- FOLDER linux base.cpio own.cpio -- uname -a
//! ```

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use weft_machine::{Boot, Clock, Directly, Guest, Machine, Terminal, guest, interrupt};

fn main() -> Result<ExitCode> {
    interrupt::install(None)?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let dashes = words.iter().position(|word| word == "--");
    let (files, command) = words.split_at(dashes.context("FOLDER KERNEL ARCHIVE... -- COMMAND")?);
    let [folder, kernel, archives @ ..] = files else {
        anyhow::bail!("FOLDER KERNEL ARCHIVE... -- COMMAND");
    };
    let folder = PathBuf::from(folder);
    let boot = Boot {
        kernel: std::path::absolute(kernel)?,
        archives: archives.iter().map(PathBuf::from).collect(),
        own: &|_| Ok(()),
        launcher: &Directly,
        folder: &folder,
    };
    let machine = Machine {
        clock: Clock::Model { seed: 1 },
        cpus: 1,
        memory_mib: 512,
        out_mib: 16,
        append: Vec::new(),
        terminal: Terminal::File,
        taps: Vec::new(),
    };
    let asked = Guest::new(machine, command[1..].to_vec(), Duration::from_secs(60));
    let begun = Instant::now();
    let outcome = guest::run(&boot, &asked, &mut |bytes| {
        // The reader may be gone.
        let _ = std::io::stdout().write_all(bytes);
    })?;
    eprintln!("status {}, {:.2?}", outcome.status, begun.elapsed());
    Ok(ExitCode::from(outcome.status))
}
