// SPDX-License-Identifier: MIT OR Apache-2.0

//! A mount namespace with a `/run` of its own.

use std::fs;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

const CURE: &str = "these tests need root, or user namespaces: run them with sudo, or allow those with \
                    `sysctl user.max_user_namespaces=1000` (on Debian and Ubuntu also \
                    kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)";

/// The process has one thread yet.
pub(crate) fn enter() -> Result<(), String> {
    let (user, group) = (geteuid(), getegid());
    // The network namespace is one to which the tests may come back from those they make.
    let own = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET;
    if user.is_root() {
        unshare(own).map_err(|errno| format!("{CURE}: {errno}"))?;
    } else {
        unshare(CloneFlags::CLONE_NEWUSER | own).map_err(|errno| format!("{CURE}: {errno}"))?;
        let maps = [
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("0 {user} 1")),
            ("gid_map", format!("0 {group} 1")),
        ];
        for (file, content) in maps {
            fs::write(format!("/proc/self/{file}"), content)
                .map_err(|error| format!("{CURE}: {error}"))?;
        }
    }
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_PRIVATE | MsFlags::MS_REC, none)
        .and_then(|()| mount(Some("tests"), "/run", Some("tmpfs"), MsFlags::empty(), none))
        .map_err(|errno| format!("{CURE}: {errno}"))
}
