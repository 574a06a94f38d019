// SPDX-License-Identifier: MIT OR Apache-2.0

//! The few programs the host itself must have; everything else comes from the root filesystem.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::cache::Cache;
use crate::enter;
use crate::failure::Failure;
use crate::process::shown;
use crate::progress;

/// What the programs are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To build and run the guest.
    Guest,
    /// To run the host's tests.
    HostTests,
}

struct Need {
    /// A program in PATH, or a file.
    what: &'static str,
    package: &'static str,
    purpose: Purpose,
    /// Root needs no help to make namespaces.
    unprivileged_only: bool,
}

const NEEDS: [Need; 7] = [
    Need {
        what: "mmdebstrap",
        package: "mmdebstrap",
        purpose: Purpose::Guest,
        unprivileged_only: false,
    },
    Need {
        what: "/usr/share/keyrings/debian-archive-keyring.gpg",
        package: "debian-archive-keyring",
        purpose: Purpose::Guest,
        unprivileged_only: false,
    },
    Need {
        what: "unshare",
        package: "util-linux",
        purpose: Purpose::Guest,
        unprivileged_only: false,
    },
    Need {
        what: "setpriv",
        package: "util-linux",
        purpose: Purpose::Guest,
        unprivileged_only: false,
    },
    Need {
        what: "mount",
        package: "mount",
        purpose: Purpose::Guest,
        unprivileged_only: false,
    },
    Need {
        what: "newuidmap",
        package: "uidmap",
        purpose: Purpose::Guest,
        unprivileged_only: true,
    },
    // What `weft report` writes is looked at in a browser.
    Need {
        what: "chromium",
        package: "chromium",
        purpose: Purpose::HostTests,
        unprivileged_only: false,
    },
];

fn is_there(what: &str) -> bool {
    if what.starts_with('/') {
        return Path::new(what).exists();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps some of them out of an ordinary user's PATH.
    let more = ["/usr/sbin", "/sbin"].map(Into::into);
    std::env::split_paths(&path)
        .chain(more)
        .any(|directory| directory.join(what).is_file())
}

/// Packages that are missing, in order, each once.
pub(crate) fn missing(purposes: &[Purpose]) -> Vec<&'static str> {
    let mut packages: Vec<&str> = NEEDS
        .iter()
        .filter(|need| purposes.contains(&need.purpose))
        .filter(|need| !need.unprivileged_only || !enter::is_root())
        .filter(|need| !is_there(need.what))
        .map(|need| need.package)
        .collect();
    packages.dedup();
    packages
}

/// The command that installs packages.
pub(crate) fn install_command(packages: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command
        .args(["install", "-y", "--no-install-recommends"])
        .args(packages);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Installs what is missing, or says how.
///
/// # Errors
/// A [`Failure`] with status 2 and the exact command where this user may not install; a failed apt-get.
pub(crate) fn ensure(cache: &Cache, purposes: &[Purpose]) -> Result<()> {
    if !is_there("apt-get") || !is_there("dpkg-deb") {
        let message =
            "weft builds its virtual machine with apt and dpkg; run it on Debian or a derivative";
        return Err(Failure::setup(message).into());
    }
    let packages = missing(purposes);
    if packages.is_empty() {
        return Ok(());
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
        // On a fresh machine the package lists are missing or too old to download by.
        log.run_untouchable(Command::new("apt-get").arg("update"))?;
        log.run_untouchable(&mut install_command(&packages))
    })
}
