// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs that the host itself must have; everything else comes from the root filesystem.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use weft_machine::failure::Failure;

use crate::base::cache::Cache;
use crate::base::process::shown;
use crate::base::{enter, progress};

/// A program and its package.
#[derive(Clone, Copy)]
pub struct Need {
    /// A program in PATH, or a file.
    what: &'static str,
    package: &'static str,
    /// Root can create namespaces without it.
    unprivileged_only: bool,
}

const fn need(what: &'static str, package: &'static str) -> Need {
    Need {
        what,
        package,
        unprivileged_only: false,
    }
}

/// Needed to build the virtual machine.
pub const MACHINE: [Need; 6] = [
    need("mmdebstrap", "mmdebstrap"),
    need(
        "/usr/share/keyrings/debian-archive-keyring.gpg",
        "debian-archive-keyring",
    ),
    need("unshare", "util-linux"),
    need("setpriv", "util-linux"),
    need("mount", "mount"),
    Need {
        what: "newuidmap",
        package: "uidmap",
        unprivileged_only: true,
    },
];

/// Needed to create fabrics on the host itself: for tests and benchmarks.
pub const WEAVING: [Need; 4] = [
    need("ip", "iproute2"),
    need("sysctl", "procps"),
    need("unshare", "util-linux"),
    need("setpriv", "util-linux"),
];

/// Needed to test the standalone program: the test looks for remaining processes, and runs a
/// program of the host.
pub const TRIAL: [Need; 3] = [
    need("pgrep", "procps"),
    need("perl", "perl-base"),
    need("setpriv", "util-linux"),
];

/// Needed for runs under the instruction clock.
pub const QEMU: Need = need("qemu-system-x86_64", "qemu-system-x86");

/// Needed to install the Python wheel.
pub const WHEEL: [Need; 2] = [
    need("/usr/bin/python3", "python3"),
    need("virtualenv", "virtualenv"),
];

/// Needed by the host's tests: a browser renders the pages of `weft report`.
pub const TESTS: [Need; 1] = [need("chromium", "chromium")];

/// Needed to compare weft with Mininet.
pub const MININET: Need = need("/usr/lib/python3/dist-packages/mininet/net.py", "mininet");

/// Needed to compare weft with ns-3, and to compile it.
pub const NS3: [Need; 2] = [
    need("/usr/include/ns3/core-module.h", "libns3-dev"),
    need("g++", "g++"),
];

fn is_there(what: &str) -> bool {
    if what.starts_with('/') {
        return Path::new(what).exists();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps some of them outside an ordinary user's PATH.
    let more = ["/usr/sbin", "/sbin"].map(Into::into);
    std::env::split_paths(&path)
        .chain(more)
        .any(|directory| directory.join(what).is_file())
}

/// The packages of `needs` that are missing, in order, without duplicates.
pub fn missing_of(needs: &[Need]) -> Vec<&'static str> {
    let mut packages: Vec<&str> = needs
        .iter()
        .filter(|need| !need.unprivileged_only || !enter::is_root())
        .filter(|need| !is_there(need.what))
        .map(|need| need.package)
        .collect();
    packages.dedup();
    packages
}

/// The command that installs packages.
pub fn install_command(packages: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command
        .args(["install", "-y", "--no-install-recommends"])
        .args(packages);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Installs missing packages, or prints the command.
///
/// # Errors
/// A [`Failure`] with status 2 and the exact command if this user may not install packages; a
/// failed apt-get.
pub fn ensure(cache: &Cache) -> Result<()> {
    if !is_there("apt-get") || !is_there("dpkg-deb") {
        let message =
            "weft builds its virtual machine with apt and dpkg; run it on Debian or a derivative";
        return Err(Failure::setup(message).into());
    }
    provide(cache, &MACHINE)
}

/// Installs missing packages of `needs`, or prints the command.
///
/// # Errors
/// Those of [`ensure`].
pub fn provide(cache: &Cache, needs: &[Need]) -> Result<()> {
    // A second caller waits, and finds the packages that the first one has installed.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let packages = missing_of(needs);
    if packages.is_empty() {
        return Ok(());
    }
    if !is_there("apt-get") {
        let message = format!(
            "what Debian has in the packages {} is missing; install it",
            packages.join(", ")
        );
        return Err(Failure::setup(message).into());
    }
    let mut install = install_command(&packages);
    if !enter::is_root() {
        let message = format!(
            "missing packages; install them with\n    sudo {}",
            shown(&install)
        );
        return Err(Failure::setup(message).into());
    }
    progress::step(&format!("host packages: {}", packages.join(" ")), || {
        let log = cache.log("host-packages")?;
        if log.run_untouchable(&mut install).is_ok() {
            return Ok(());
        }
        // On a fresh machine the package lists are missing or outdated.
        log.run_untouchable(Command::new("apt-get").arg("update"))?;
        log.run_untouchable(&mut install_command(&packages))
    })
}
