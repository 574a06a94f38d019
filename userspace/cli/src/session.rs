// SPDX-License-Identifier: MIT OR Apache-2.0

//! A command in a guest with its output on the terminal: `weft vm`, `weft lab`.

use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use weft_arguments::whole;
use weft_lab::error::usage;
use weft_machine::failure::Failure;
use weft_machine::request::{Foreign, Request};
use weft_machine::{place, terminal, transfer};

use crate::guests::Guests;
use crate::output::require_folder;

/// Files of a guest: those that it receives, and the folder for its output.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Guests")]
pub(crate) struct Args {
    /// Seed of the guest's random numbers
    #[arg(long = "guest-seed", value_name = "SEED", default_value_t = 1, allow_negative_numbers = true, value_parser = whole(0..=u64::MAX))]
    seed: u64,
    /// Root directory of the command: `/` (default) for this machine's files, a folder with an
    /// unpacked system or container image, or `none` for weft's own programs only. The guest never
    /// changes these files; its writes stay in memory
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,
    /// Copy a file or folder to the guest (repeatable; default destination: /root)
    #[arg(long, value_name = "HOST[:GUEST]")]
    file: Vec<String>,
    /// Copy the guest's /out (also $OUT) to FOLDER when the command has ended
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

impl Args {
    /// Whether any of these was given.
    pub(crate) fn is_said(&self) -> bool {
        !self.file.is_empty() || self.out.is_some()
    }

    /// The root directory of the command; `None`: the guest's own.
    ///
    /// # Errors
    ///
    /// If the folder does not exist.
    fn foreign(&self) -> Result<Option<Foreign>> {
        let root = match &self.root {
            Some(root) if root.as_os_str() == "none" => return Ok(None),
            // An image with nothing but this program has no files to show.
            None if !Path::new("/bin/sh").exists() => return Ok(None),
            None => Path::new("/"),
            Some(root) => root,
        };
        let shown = || format!("--root {}", root.display());
        let root = root.canonicalize().with_context(shown)?;
        let directory = match root == Path::new("/") {
            true => std::env::current_dir().unwrap_or_else(|_| "/".into()),
            false => "/".into(),
        };
        Ok(Some(Foreign { root, directory }))
    }

    /// Runs a command, prints its output, and unpacks its files. Returns its exit status.
    ///
    /// # Errors
    ///
    /// If a file cannot be copied, or the guest cannot be run.
    pub(crate) fn run(
        &self,
        guests: &Guests,
        command: Vec<OsString>,
        named: &[PathBuf],
    ) -> Result<(ExitCode, Vec<u8>)> {
        // A command may take hours, and its files have no other place.
        if let Some(folder) = &self.out {
            require_folder(folder).context("--out")?;
        }
        let own = self.file.iter().map(|text| file(text));
        let foreign = self.foreign()?;
        // With this machine's files as its root, a file has the same path in the guest.
        let is_there = foreign.as_ref().is_some_and(|it| it.root == Path::new("/"));
        let named = named.iter().filter(|_| !is_there).map(|path| {
            let place = place::in_guest(path)?;
            Ok((path.clone(), place))
        });
        let files = named.chain(own).collect::<Result<Vec<_>>>()?;
        let mut stdout = std::io::stdout();
        let home = std::env::var_os("HOME").filter(|_| is_there);
        let home = home.map(|home| {
            let mut variable = OsString::from("HOME=");
            variable.push(home);
            variable
        });
        let request = Request {
            foreign,
            environment: home.into_iter().collect(),
            command,
            ..Request::default()
        };
        let request = match request.command.is_empty() {
            true => terminal::shell(request),
            false => request,
        };
        let mut unwritten = None;
        let outcome = guests.command(request, (self.seed, None), files, None, &mut |bytes| {
            let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
            unwritten = unwritten.take().or(written.err());
        });
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => match error.downcast_ref::<Failure>() {
                Some(failure) => {
                    eprintln!("weft: {failure}");
                    return Ok((ExitCode::from(failure.status), Vec::new()));
                }
                None => return Err(error),
            },
        };
        if let Some(folder) = &self.out {
            transfer::unpack(&outcome.tar, folder)?;
        }
        // The reader may be gone (`| head`); the guest's exit status still counts.
        if let Some(error) = unwritten.filter(|error| error.kind() != ErrorKind::BrokenPipe) {
            return Err(error).context("writing the command's output");
        }
        Ok((ExitCode::from(outcome.status), outcome.tar))
    }
}

/// `HOST[:GUEST]`.
fn file(text: &str) -> Result<(PathBuf, String)> {
    let (host, guest) = place::handed(text);
    if !host.exists() {
        return usage(format!("--file {text}: there is no {}", host.display()));
    }
    let guest = guest.with_context(|| format!("--file {text}: give it a name, HOST:GUEST"))?;
    Ok((host, guest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_to_the_given_place_in_the_guest() {
        for (text, guest) in [
            ("/etc/passwd", "root/passwd"),
            ("/etc/passwd:/etc/x", "etc/x"),
            ("/etc/passwd:/opt/", "opt/passwd"),
            ("/etc/passwd:/bin/x", "usr/bin/x"),
        ] {
            let found = file(text).unwrap();
            assert_eq!(found, ("/etc/passwd".into(), guest.to_owned()), "{text}");
        }
        let error = file("/no/such:/x").unwrap_err().to_string();
        assert!(error.contains("there is no /no/such"), "{error}");
    }
}
