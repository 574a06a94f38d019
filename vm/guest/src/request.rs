// SPDX-License-Identifier: MIT OR Apache-2.0

//! The request: one file in the initramfs, `/etc/weft/request`.
//!
//! Each field is terminated by a NUL byte, which no argument, environment value or terminal name
//! can contain, so nothing needs quoting. The fields are rows, columns, `TERM`, the root and the
//! directory of [`Foreign`] (both empty if there is none), the number of environment variables,
//! each variable as `NAME=VALUE`, then the arguments of the command. No arguments means an
//! interactive shell.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The path of the request in the guest.
pub const PATH: &str = "/etc/weft/request";

/// The environment variable of the command that names the guest's clock: `virtual`, `model` or
/// `real`. `weft run` writes it into its results.
pub const CLOCK: &str = "WEFT_CLOCK";

/// The folder of files that are copied into the tree of [`Foreign`].
pub const HANDED: &str = "handed";

/// The command for init, and its terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Lines of the terminal, 0 = unknown.
    pub rows: u16,
    /// Columns of the terminal, 0 = unknown.
    pub columns: u16,
    /// `TERM`, empty = unknown.
    pub terminal: String,
    /// The root directory of the command; `None`: the guest's own.
    pub foreign: Option<Foreign>,
    /// Environment variables, each `NAME=VALUE`.
    pub environment: Vec<OsString>,
    /// The command and its arguments; empty = an interactive shell.
    pub command: Vec<OsString>,
}

/// A file tree of the host as the root of the command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// Its path on the host: `/` for all of the host's files. A guest's kernel resolves it from the
    /// run's directory.
    pub root: PathBuf,
    /// The working directory of the command within the tree.
    pub directory: PathBuf,
}

impl Request {
    /// The file's content.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let numbers = [self.rows.to_string(), self.columns.to_string()];
        let count = self.environment.len().to_string();
        let none = Foreign::default();
        let foreign = self.foreign.as_ref().unwrap_or(&none);
        let head = [
            numbers[0].as_bytes(),
            numbers[1].as_bytes(),
            self.terminal.as_bytes(),
            foreign.root.as_os_str().as_bytes(),
            foreign.directory.as_os_str().as_bytes(),
            count.as_bytes(),
        ];
        let tail = self
            .environment
            .iter()
            .chain(&self.command)
            .map(|text| text.as_bytes());
        for field in head.into_iter().chain(tail) {
            out.extend_from_slice(field);
            out.push(0);
        }
        out
    }

    /// Parses the output of [`encode`](Self::encode); `None` if the content is malformed.
    pub fn decode(content: &[u8]) -> Option<Self> {
        let mut fields = content.strip_suffix(&[0])?.split(|byte| *byte == 0);
        let mut field = || fields.next();
        let text = |field: Option<&[u8]>| Some(std::str::from_utf8(field?).ok()?.to_owned());
        let rows = text(field())?.parse().ok()?;
        let columns = text(field())?.parse().ok()?;
        let terminal = text(field())?;
        let path = |field: Option<&[u8]>| Some(PathBuf::from(OsString::from_vec(field?.to_vec())));
        let (root, directory) = (path(field())?, path(field())?);
        let foreign = (!root.as_os_str().is_empty()).then_some(Foreign { root, directory });
        let count: usize = text(field())?.parse().ok()?;
        let mut rest: Vec<OsString> = fields
            .map(|field| OsString::from_vec(field.to_vec()))
            .collect();
        if count > rest.len() {
            return None;
        }
        let command = rest.split_off(count);
        Some(Self {
            rows,
            columns,
            terminal,
            foreign,
            environment: rest,
            command,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Request {
        Request {
            rows: 24,
            columns: 80,
            terminal: "xterm".into(),
            foreign: Some(Foreign {
                root: "/".into(),
                directory: "/home/x y".into(),
            }),
            environment: vec!["A=1".into(), "B=x y".into()],
            command: vec!["sh".into(), "-c".into(), "echo 'a b'\n".into(), "".into()],
        }
    }

    #[test]
    fn a_request_survives_encoding() {
        for request in [sample(), Request::default()] {
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
    }

    #[test]
    fn a_truncated_request_is_refused() {
        let whole = Request {
            command: Vec::new(),
            ..sample()
        }
        .encode();
        for length in 0..whole.len() {
            assert_eq!(Request::decode(&whole[..length]), None, "{length} bytes");
        }
    }
}
