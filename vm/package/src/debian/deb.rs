// SPDX-License-Identifier: MIT OR Apache-2.0

//! The packages, built by debhelper and checked by lintian, both from the suite.
//!
//! debhelper is used instead of a cargo tool because it knows a program's libraries, DKMS'
//! installation scripts, and Debian's policy, and lintian has the same version of that policy. The
//! programs come from the host's cargo; this stage is reproducible.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use weft_build::base::cache::{Cache, Entry, Key, Stage};
use weft_build::base::enter::{self, Enter};
use weft_build::stages::chain::Base;
use weft_build::stages::layer;

use super::staged::Staged;

pub(crate) const STAGE: Stage = Stage {
    name: "package",
    keep: 4,
};

/// The packages' time is that of the changelog's newest entry. `$1` version.
const SCRIPT: &str = r#"
cd /mnt/build/weft
chmod +x debian/rules stage/kmod/rust-metadata
export WEFT_VERSION="$1"
dpkg-buildpackage --build=binary --no-sign --no-check-builddeps
cd ..
lintian --allow-root --fail-on error,warning --info *.changes
"#;

/// The packages' files.
pub(super) fn files(debs: &Entry) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(debs.path())? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "deb") {
            files.push(path);
        }
    }
    files.sort();
    ensure!(files.len() == 2, "{} packages were made", files.len());
    Ok(files)
}

/// The packages, built if necessary; a test may give another `version` than the workspace's.
///
/// # Errors
/// If debhelper fails, or lintian finds an error or a warning.
pub(super) fn ensure(
    cache: &Cache,
    base: &Base,
    tools: &Entry,
    staged: &Staged,
    version: Option<&str>,
) -> Result<Entry> {
    let key = Key::new(SCRIPT)
        .with(tools.hash())
        .with(version.unwrap_or_default());
    let what = match version {
        Some(version) => format!("Debian packages, as if of version {version}"),
        None => "Debian packages".to_owned(),
    };
    cache.ensure(&STAGE, staged.hashed(key)?, &what, |directory, log| {
        let build = directory.join("weft");
        staged.write(&build)?;
        let changelog = build.join("debian/changelog");
        let text = fs::read_to_string(&changelog)?;
        let own = version_of(&text).context("debian/changelog names no version")?;
        let version = version.unwrap_or(own);
        fs::write(&changelog, text.replacen(own, version, 1))?;
        let layer = directory.join("layer");
        let root = base.rootfs.path().join("root");
        let enter = Enter::layered(&root, &[&layer::place(tools)], &layer)?;
        let enter = enter.with_writable(directory, "/mnt/build");
        log.run(enter.script(SCRIPT).arg(version))?;
        for done in ["layer", "weft"] {
            enter::remove_tree(&directory.join(done))?;
        }
        Ok(())
    })
}

/// `0.1.0` of `weft (0.1.0) forky; urgency=medium`.
fn version_of(changelog: &str) -> Option<&str> {
    let (_, rest) = changelog.split_once('(')?;
    Some(rest.split_once(')')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_read() {
        let text =
            "weft (0.2.0) forky; urgency=medium\n\n  * x\n\nweft (0.1.0) forky; urgency=medium\n";
        assert_eq!(version_of(text), Some("0.2.0"));
        assert_eq!(version_of(""), None);
    }
}
