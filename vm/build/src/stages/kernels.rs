// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernels in an archive, sorted by version.

use std::cmp::Ordering;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::stages::archive::Archive;

/// Older kernels lack the Rust support that a qdisc needs.
const OLDEST_MAJOR: u32 = 7;

/// A kernel in the archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// As `uname -r` prints it, for example `7.2.12+deb14-amd64`.
    pub release: String,
    /// The packages' version, for example `7.2.12-1`.
    pub version: String,
    /// The package with the kernel itself.
    pub image_package: String,
}

impl Kernel {
    /// `7.2` of `7.2.12-1` and of `7.2~rc3-1`.
    pub(super) fn series(&self) -> String {
        let digits = |c: char| c.is_ascii_digit() || c == '.';
        let upstream = self
            .version
            .split(|c| !digits(c))
            .next()
            .unwrap_or_default();
        upstream.split('.').take(2).collect::<Vec<_>>().join(".")
    }
}

/// Every kernel in the archive, newest first.
///
/// # Errors
/// If apt or dpkg cannot be run.
pub(super) fn offered(archive: &Archive) -> Result<Vec<Kernel>> {
    let releases: Vec<String> = archive
        .names("linux-headers-")?
        .iter()
        .filter_map(|name| release_of(name))
        .collect();
    let packages: Vec<String> = releases
        .iter()
        .map(|release| format!("linux-headers-{release}"))
        .collect();
    let images = archive.names("linux-binary-")?;
    let mut kernels = Vec::new();
    for (package, version) in archive.versions(&packages)? {
        let release = package.trim_start_matches("linux-headers-").to_owned();
        if let Some(image_package) = image_of(&release, &images) {
            kernels.push(Kernel {
                release,
                version,
                image_package,
            });
        }
    }
    sort(&mut kernels)?;
    Ok(kernels)
}

/// The release of a `linux-headers` package of a plain amd64 kernel that is new enough.
fn release_of(package: &str) -> Option<String> {
    let release = package.strip_prefix("linux-headers-")?;
    let version = release.strip_suffix("-amd64")?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    let plain = !version.contains("-cloud") && !version.contains("-rt");
    (major >= OLDEST_MAJOR && plain).then(|| release.to_owned())
}

/// The package with a kernel's image. The archive signs kernels some time after they were built;
/// until then only the unsigned package exists. It has the same kernel.
fn image_of(release: &str, packages: &[String]) -> Option<String> {
    let names = [
        format!("linux-binary-{release}"),
        format!("linux-binary-unsigned-{release}"),
    ];
    names.into_iter().find(|name| packages.contains(name))
}

/// The requested kernel, or the newest one.
///
/// # Errors
/// If the suite has none.
pub(super) fn choose<'a>(
    kernels: &'a [Kernel],
    suite: &str,
    asked: Option<&str>,
) -> Result<&'a Kernel> {
    let Some(asked) = asked else {
        return kernels
            .first()
            .with_context(|| format!("{suite} offers no kernel >= {OLDEST_MAJOR}.0"));
    };
    let named = |kernel: &&Kernel| {
        kernel.release == asked
            || kernel.release.strip_suffix("-amd64") == Some(asked)
            || kernel.release.split(['+', '-']).next() == Some(asked)
    };
    kernels.iter().find(named).with_context(|| {
        let offers: Vec<&str> = kernels.iter().map(|it| it.release.as_str()).collect();
        format!(
            "{suite} has no kernel {asked}; it offers {}",
            offers.join(", ")
        )
    })
}

/// Debian's order of versions, by dpkg.
fn compare_versions(a: &str, b: &str) -> Result<Ordering> {
    let is = |relation: &str| {
        let mut dpkg = Command::new("dpkg");
        let status = dpkg.args(["--compare-versions", a, relation, b]).status();
        Ok::<_, anyhow::Error>(status.context("starting dpkg")?.success())
    };
    Ok(match (is("lt")?, is("gt")?) {
        (true, _) => Ordering::Less,
        (_, true) => Ordering::Greater,
        _ => Ordering::Equal,
    })
}

/// Sorts the newest first.
fn sort(kernels: &mut [Kernel]) -> Result<()> {
    let mut failure = None;
    kernels.sort_by(|a, b| {
        let order = compare_versions(&b.version, &a.version);
        order.unwrap_or_else(|error| {
            failure = Some(error);
            Ordering::Equal
        })
    });
    failure.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(release: &str, version: &str) -> Kernel {
        let image_package = format!("linux-binary-{release}");
        Kernel {
            release: release.into(),
            version: version.into(),
            image_package,
        }
    }

    #[test]
    fn versions_sort_as_dpkg_sorts_them() {
        let ascending = [
            "7.2~rc7-1~exp1",
            "7.2-1",
            "7.2.6-1~bpo13+1",
            "7.2.6-1",
            "7.2.9-1~bpo13+1",
            "7.2.12-1~bpo13+1",
            "7.2.12-1",
            "7.2.12-1+b1",
            "7.2.13-1",
            "7.3~rc7-1~exp1",
            "7.3.4-1~bpo13+1",
        ];
        let mut kernels = ascending.map(|version| kernel("", version));
        sort(&mut kernels).unwrap();
        let versions = kernels.iter().rev().map(|kernel| kernel.version.as_str());
        assert_eq!(versions.collect::<Vec<_>>(), ascending);
        assert_eq!(compare_versions("7.2-1", "7.2-1").unwrap(), Ordering::Equal);
    }

    #[test]
    fn only_plain_kernels_with_rust_support_are_offered() {
        let release = |name| release_of(name);
        assert_eq!(
            release("linux-headers-7.2.12+deb14-amd64").as_deref(),
            Some("7.2.12+deb14-amd64")
        );
        assert_eq!(
            release("linux-headers-7.3-amd64").as_deref(),
            Some("7.3-amd64")
        );
        for other in [
            "linux-headers-7.2.12+deb14-cloud-amd64",
            "linux-headers-7.2.12+deb14-rt-amd64",
            "linux-headers-7.2.12+deb14-common",
            "linux-headers-6.12.107+deb13-amd64",
            "linux-headers-amd64",
        ] {
            assert_eq!(release(other), None, "{other}");
        }
    }

    #[test]
    fn an_unsigned_kernel_is_used_until_the_signed_one_exists() {
        let both = ["linux-binary-unsigned-7.3-amd64", "linux-binary-7.3-amd64"].map(str::to_owned);
        assert_eq!(
            image_of("7.3-amd64", &both).as_deref(),
            Some("linux-binary-7.3-amd64")
        );
        let unsigned = Some("linux-binary-unsigned-7.3-amd64");
        assert_eq!(image_of("7.3-amd64", &both[..1]).as_deref(), unsigned);
        assert_eq!(image_of("7.2-amd64", &both), None);
    }

    #[test]
    fn the_series_names_the_source_package() {
        for (version, series) in [
            ("7.2.12-1", "7.2"),
            ("7.3~rc7-1~exp1", "7.3"),
            ("7.2.6-1~bpo13+1", "7.2"),
            ("7.10-1", "7.10"),
        ] {
            assert_eq!(kernel("", version).series(), series);
        }
    }

    #[test]
    fn a_kernel_can_be_asked_for_by_any_of_its_names() {
        let kernels = [
            kernel("7.3.4+deb13-amd64", "7.3.4-1"),
            kernel("7.2.6+deb13-amd64", "7.2.6-1"),
        ];
        assert_eq!(choose(&kernels, "s", None).unwrap(), &kernels[0]);
        for name in ["7.2.6", "7.2.6+deb13", "7.2.6+deb13-amd64"] {
            assert_eq!(
                choose(&kernels, "s", Some(name)).unwrap(),
                &kernels[1],
                "{name}"
            );
        }
        let error = choose(&kernels, "s", Some("7.2")).unwrap_err().to_string();
        assert!(
            error.contains("7.3.4+deb13-amd64, 7.2.6+deb13-amd64"),
            "{error}"
        );
    }
}
