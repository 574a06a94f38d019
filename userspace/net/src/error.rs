// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors, in sentences that name the object and the remedy.

use std::fs;
use std::io;

use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::unistd::Uid;

use crate::requirement::Part;

/// The reason for a failure: one sentence, without a period at its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An invalid name, number or combination.
    #[error("{0}")]
    Invalid(String),
    /// A line of a file of qdiscs.
    #[error("{file}:{line}: {message}")]
    Line {
        /// The file's name, as the caller gave it.
        file: String,
        /// Counted from 1.
        line: usize,
        /// The mistake in it.
        message: String,
    },
    /// `up` of an existing testbed.
    #[error("testbed `{0}` is already up; `weft down {0}` removes it")]
    AlreadyUp(String),
    /// `up` of a testbed that exists in part.
    #[error(
        "testbed `{0}` is there in part, as an `up` or `down` was cut short; `weft down {0}` removes it"
    )]
    Interrupted(String),
    /// A testbed that does not exist.
    #[error("there is no testbed `{name}`; {}", known("up", .others))]
    NoTestbed {
        /// The requested name.
        name: String,
        /// The existing ones.
        others: Vec<String>,
    },
    /// A node that the testbed does not have.
    #[error("testbed `{testbed}` has no node `{name}`; {}", known("its nodes", .others))]
    NoNode {
        /// The testbed.
        testbed: String,
        /// The requested name.
        name: String,
        /// The existing ones.
        others: Vec<String>,
    },
    /// The process lacks a privilege.
    #[error("{what}: not permitted; run as root, or with CAP_SYS_ADMIN and CAP_NET_ADMIN")]
    Privilege {
        /// The attempted operation.
        what: String,
    },
    /// The process lacks a permission although it is root.
    #[error(
        "{what}: not permitted, although this is root: a container or a security module forbids it; \
         run outside of it, or with CAP_SYS_ADMIN and CAP_NET_ADMIN (docker run --privileged)"
    )]
    Forbidden {
        /// The attempted operation.
        what: String,
    },
    /// The kernel refused a netlink request.
    #[error("{what}: {} ({errno:?})", .message.as_deref().unwrap_or(errno.desc()))]
    Refused {
        /// The object, and the request as a command.
        what: String,
        /// The kernel's reason.
        errno: Errno,
        /// The kernel's reason as a sentence (extack).
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
    /// The kernel lacks a part that a scheme names.
    #[error("this kernel lacks {part}; {cure}")]
    Lacks {
        /// Its name.
        part: String,
        /// The remedy.
        cure: String,
    },
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// The attempted operation, with the object.
        what: String,
        /// The reason. It is in the sentence, so it is not the `source()`: chains would print it
        /// twice.
        error: io::Error,
    },
    /// The caller's hook at a port failed.
    #[error("{node}, port {port}: {error}")]
    Hook {
        /// The node.
        node: String,
        /// The port.
        port: String,
        /// The caller's error; in the sentence, as above.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// From a system call: the attempted operation, and the remedy if it is known.
    pub(crate) fn system(what: impl Into<String>, error: impl Into<io::Error>) -> Self {
        let (what, error) = (what.into(), error.into());
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::not_permitted(what),
            _ => Self::System { what, error },
        }
    }

    /// A lack of privileges.
    pub(crate) fn not_permitted(what: String) -> Self {
        match Uid::effective().is_root() {
            true => Self::Forbidden { what },
            false => Self::Privilege { what },
        }
    }

    /// From starting a process on a node, which needs a separate mount namespace.
    pub fn starting(what: impl Into<String>, error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOSPC) => Self::Invalid(format!(
                "{}: {}",
                what.into(),
                exhausted(CloneFlags::CLONE_NEWNS)
            )),
            _ => Self::system(what, error),
        }
    }

    /// From a mount: the machine limits their number, and reports the limit as a full disk.
    pub(crate) fn mounting(what: impl Into<String>, error: impl Into<io::Error>) -> Self {
        let (what, error) = (what.into(), error.into());
        match error.raw_os_error() {
            Some(libc::ENOSPC) => Self::Invalid(format!(
                "{what}: the mount namespace has as many mounts as it may have; raise the limit with \
                 `sysctl -w fs.mount-max=1000000`"
            )),
            _ => Self::system(what, error),
        }
    }
}

pub(crate) fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::Invalid(message.into()))
}

/// Lists existing things, but not hundreds of them.
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

/// A sentence about a limit of namespaces, which the kernel reports as a full disk.
pub(crate) fn exhausted(flags: CloneFlags) -> String {
    let kinds = [
        (CloneFlags::CLONE_NEWUSER, "user"),
        (CloneFlags::CLONE_NEWNET, "net"),
        (CloneFlags::CLONE_NEWNS, "mnt"),
    ];
    let kinds = kinds.iter().filter(|(flag, _)| flags.contains(*flag));
    let limits: Vec<(String, Option<u64>)> = kinds
        .map(|(_, kind)| {
            let limit = fs::read_to_string(format!("/proc/sys/user/max_{kind}_namespaces"));
            let limit = limit.ok().and_then(|limit| limit.trim().parse().ok());
            (format!("user.max_{kind}_namespaces"), limit)
        })
        .collect();
    // The kernel does not say which of several limits was reached; the lowest is the most likely.
    let (name, limit) = limits
        .into_iter()
        .min_by_key(|(_, limit)| limit.unwrap_or(u64::MAX))
        .unwrap_or_default();
    let limit = limit.map_or("reached".to_owned(), |limit| limit.to_string());
    format!(
        "the kernel makes no more namespaces for this user: {name} is {limit}; raise the limit with \
         `sysctl -w {name}=100000`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The format of anyhow's `{:#}`.
    fn chain(error: &(dyn std::error::Error + 'static)) -> String {
        let causes = std::iter::successors(Some(error), |error| error.source());
        let sentences: Vec<String> = causes.map(ToString::to_string).collect();
        sentences.join(": ")
    }

    #[test]
    fn a_chain_of_causes_names_each_reason_once() {
        let error = Error::system("trying x", Errno::EEXIST);
        assert_eq!(chain(&error), "trying x: File exists (os error 17)");
        let error = Error::Hook {
            node: "h0".into(),
            port: "tor0".into(),
            error: "no program".into(),
        };
        assert_eq!(chain(&error), "h0, port tor0: no program");
    }

    #[test]
    fn only_unprivileged_users_are_advised_to_be_root() {
        let sentence = Error::system("trying x", Errno::EPERM).to_string();
        let is_root = Uid::effective().is_root();
        assert_eq!(sentence.contains("run as root"), !is_root, "{sentence}");
    }

    #[test]
    fn a_limit_of_mounts_is_not_reported_as_a_full_disk() {
        let sentence = Error::mounting("naming h0", Errno::ENOSPC).to_string();
        assert!(sentence.contains("fs.mount-max"), "{sentence}");
    }
}
