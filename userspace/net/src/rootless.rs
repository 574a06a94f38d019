// SPDX-License-Identifier: MIT OR Apache-2.0

//! Testbeds without root: in a user namespace of the process's own.
//!
//! There it may make network namespaces, devices and qdiscs, which nobody else sees and which go
//! with its last process. What the whole machine decides stays with root: which modules there are,
//! what eBPF programs do, how much memory and how many files a user may have.

use std::fs;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use crate::error::{Error, Result};
use crate::{inherited, namespace};

/// Makes the process root of a user namespace of its own, with a network namespace and a `/run`
/// that nobody else sees. Of root it needs only the latter two.
///
/// It must have one thread yet: others would stay where they are.
///
/// # Errors
///
/// If the machine gives its users no namespaces, with what allows it.
pub fn enter() -> Result<()> {
    inherited::remember();
    let (user, group) = (geteuid(), getegid());
    // To a network namespace of another user namespace no thread could come back.
    let own = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET;
    if user.is_root() {
        namespace::make(own)?;
    } else {
        let flags = CloneFlags::CLONE_NEWUSER | own;
        unshare(flags).map_err(|errno| match errno {
            Errno::ENOSPC => Error::Invalid(crate::error::exhausted(flags)),
            errno => refused(errno),
        })?;
        for (file, content) in [
            // Without this a group may not be mapped by an ordinary user.
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("0 {user} 1")),
            ("gid_map", format!("0 {group} 1")),
        ] {
            let path = format!("/proc/self/{file}");
            fs::write(&path, content)
                .map_err(|error| Error::system(format!("writing {path}"), error))?;
        }
    }
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_PRIVATE | MsFlags::MS_REC, none)
        .and_then(|()| mount(Some("weft"), "/run", Some("tmpfs"), MsFlags::empty(), none))
        // AppArmor lets a program that it does not know make a user namespace, and do nothing in
        // it.
        .map_err(refused)
}

/// Whether the process is root of a user namespace only.
pub fn is_root_of_a_namespace() -> bool {
    let all = |map: String| map.split_whitespace().eq(["0", "0", "4294967295"]);
    geteuid().is_root() && !fs::read_to_string("/proc/self/uid_map").is_ok_and(all)
}

fn refused(errno: Errno) -> Error {
    match errno {
        Errno::EPERM | Errno::EACCES => Error::Invalid(
            "this machine gives its users no namespaces; root may allow them with `sysctl \
             user.max_user_namespaces=10000` (on Debian and Ubuntu also kernel.unprivileged_userns_clone=1, \
             kernel.apparmor_restrict_unprivileged_userns=0)"
                .to_owned(),
        ),
        _ => Error::system("making a user namespace", errno),
    }
}
