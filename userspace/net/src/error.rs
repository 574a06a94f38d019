// SPDX-License-Identifier: MIT OR Apache-2.0

//! What can go wrong, in sentences that name the object and the cure.

use std::io;

use nix::errno::Errno;

use crate::probe::Part;

/// Why something was not done: one sentence, without a period at its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name, a number or a combination that cannot be.
    #[error("{0}")]
    Invalid(String),
    /// A line of a file of qdiscs.
    #[error("{file}:{line}: {message}")]
    Line {
        /// The file's name, as it was given.
        file: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// `up` of a testbed that is there.
    #[error("testbed `{0}` is already up; `weft down {0}` removes it")]
    AlreadyUp(String),
    /// `up` of a testbed of which there are remains.
    #[error(
        "testbed `{0}` is there in part, as an `up` or `down` was cut short; `weft down {0}` removes it"
    )]
    Interrupted(String),
    /// A testbed that is not there.
    #[error("there is no testbed `{name}`; {}", known("up", .others))]
    NoTestbed {
        /// As it was asked for.
        name: String,
        /// Those that are there.
        others: Vec<String>,
    },
    /// A node that the testbed does not have.
    #[error("testbed `{testbed}` has no node `{name}`; {}", known("its nodes", .others))]
    NoNode {
        /// The testbed.
        testbed: String,
        /// As it was asked for.
        name: String,
        /// Those that are there.
        others: Vec<String>,
    },
    /// The process may not do it.
    #[error("{what}: not permitted; run as root, or with CAP_SYS_ADMIN and CAP_NET_ADMIN")]
    Privilege {
        /// What was tried.
        what: String,
    },
    /// The kernel refused a netlink request.
    #[error("{what}: {} ({errno:?})", .message.as_deref().unwrap_or(errno.desc()))]
    Refused {
        /// The object, and the request as a command.
        what: String,
        /// Its reason.
        errno: Errno,
        /// Its reason as a sentence (extack).
        message: Option<String>,
    },
    /// The kernel lacks a qdisc.
    #[error(
        "{what}: the kernel knows no qdisc `{kind}`; load {}, or choose another scheme",
        Part::Qdisc(kind).module()
    )]
    NoQdisc {
        /// The object, and the request as a command.
        what: String,
        /// The qdisc's name.
        kind: String,
    },
    /// The kernel lacks what a scheme names.
    #[error("this kernel lacks {part}; {cure}")]
    Lacks {
        /// Its name.
        part: String,
        /// What is to be done.
        cure: String,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried, with the object.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// What the caller does at a port failed.
    #[error("{node}, port {port}: {source}")]
    Hook {
        /// The node.
        node: String,
        /// The port.
        port: String,
        /// What the caller said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Of a system call: what was tried, and its cure where that is known.
    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        let (what, source) = (what.into(), source.into());
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::Privilege { what },
            _ => Self::System { what, source },
        }
    }
}

pub(crate) fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::Invalid(message.into()))
}

/// Names the things there are, but not hundreds of them.
fn known(what: &str, names: &[String]) -> String {
    const MANY: usize = 12;
    let and_more = if names.len() > MANY { ", …" } else { "" };
    match names {
        [] => format!("{what}: none"),
        _ => format!(
            "{what}: {}{and_more}",
            names[..names.len().min(MANY)].join(", ")
        ),
    }
}
