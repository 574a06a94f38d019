// SPDX-License-Identifier: MIT OR Apache-2.0

//! Testbeds without root: in a separate user namespace of the process.
//!
//! In it the process may create network namespaces, devices and qdiscs, which no other process sees
//! and which end with its last process. Root still controls the settings of the whole machine: the
//! available modules, the actions of eBPF programs, and users' limits of memory and files.

use std::fs;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use crate::error::{Error, Result};
use crate::{inherited, namespace};

/// Makes the process root of a new user namespace, with a network namespace and a private `/run`.
/// If it is already root it needs only the latter two.
///
/// It must still be single-threaded: other threads would stay where they are.
///
/// # Errors
///
/// If the machine does not allow its users namespaces; the error says how to allow them.
pub fn enter() -> Result<()> {
    inherited::remember();
    let (user, group) = (geteuid(), getegid());
    // No thread could return to a network namespace of another user namespace.
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
            // Without this an ordinary user may not map a group.
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
        // AppArmor lets an unknown program create a user namespace, but denies it all actions
        // there.
        .map_err(refused)
}

/// Whether the process is root only of a user namespace.
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
