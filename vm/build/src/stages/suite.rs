// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which kernel a suite offers, and the exact packages it was built with.
//!
//! A module in Rust loads only if the same rustc built it and the kernel: the compiler's version
//! goes into every mangled symbol. The kernel's configuration names its compilers, and it lies in a
//! small package, so everything is known before anything big is downloaded. The answer is kept
//! until `--refresh`, so that a warm run needs neither network nor apt.

use std::cmp::Ordering;
use std::fs;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use weft_machine::interrupt::Temporary;

use crate::base::cache::Cache;
use crate::base::progress;
use crate::stages::archive::{self, Archive};

/// Older kernels have no Rust that a qdisc could be written with.
const OLDEST_MAJOR: u32 = 7;

/// What the user asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The suite's name.
    pub suite: String,
    /// A kernel's version; the newest if `None`.
    pub kernel: Option<String>,
    /// The archive's address; the host's if `None`.
    pub mirror: Option<String>,
    /// Whether an answer from earlier does not count.
    pub refresh: bool,
}

/// A kernel on offer.
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
    fn series(&self) -> String {
        let digits = |c: char| c.is_ascii_digit() || c == '.';
        let upstream = self
            .version
            .split(|c| !digits(c))
            .next()
            .unwrap_or_default();
        upstream.split('.').take(2).collect::<Vec<_>>().join(".")
    }
}

/// A kernel and the packages that fit it exactly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// The suite's name.
    pub suite: String,
    /// Lines for `sources.list`.
    pub sources: Vec<String>,
    /// Settings for apt, `Name=value`.
    pub apt_options: Vec<String>,
    /// The archive's address.
    pub mirror: String,
    /// As `uname -r` prints it.
    pub kernel: String,
    /// Version of the kernel's packages.
    pub version: String,
    /// Name of the package with the kernel itself.
    pub image_package: String,
    /// Name of the package with the kernel's source.
    pub source_package: String,
    /// Version of the packages made from the source package rustc.
    pub rustc_version: String,
    /// What `rustc --version` must print.
    pub rustc_text: String,
    /// The C compiler's command, for example `x86_64-linux-gnu-gcc-16`.
    pub compiler: String,
    /// Seconds since 1970.
    pub resolved: u64,
}

impl Resolution {
    /// The C compiler's package: its command without the architecture.
    pub fn compiler_package(&self) -> &str {
        self.compiler
            .strip_prefix("x86_64-linux-gnu-")
            .unwrap_or(&self.compiler)
    }

    /// The kernel's compressed image in the root filesystem.
    pub fn image(&self) -> String {
        let signed = !self.image_package.starts_with("linux-binary-unsigned-");
        let suffix = if signed { "" } else { ".unsigned" };
        format!("/usr/lib/modules/{}/vmlinuz{suffix}", self.kernel)
    }

    /// `/usr/src/linux-headers-…` in the root filesystem.
    pub fn headers(&self) -> String {
        format!("/usr/src/linux-headers-{}", self.kernel)
    }

    fn age(&self) -> Duration {
        let then = UNIX_EPOCH + Duration::from_secs(self.resolved);
        SystemTime::now().duration_since(then).unwrap_or_default()
    }
}

/// The archive that a resolution was made from.
pub fn archive_of(cache: &Cache, resolution: &Resolution) -> Result<Archive> {
    Archive::new(cache, &resolution.mirror, &resolution.suite)
}

/// Where the answer for a request is kept.
fn record(cache: &Cache, request: &Request) -> std::path::PathBuf {
    let kernel = request.kernel.as_deref().unwrap_or("newest");
    cache
        .file("resolution")
        .join(format!("{}-{kernel}.json", request.suite))
}

/// The last answer, if there is one for this request.
pub fn recorded(cache: &Cache, request: &Request) -> Option<Resolution> {
    let text = fs::read_to_string(record(cache, request)).ok()?;
    let resolution: Resolution = serde_json::from_str(&text).ok()?;
    let same = request
        .mirror
        .as_ref()
        .is_none_or(|mirror| *mirror == resolution.mirror);
    same.then_some(resolution)
}

/// The last answer, or a new one where there is none or `--refresh` was given.
///
/// # Errors
/// If the archive cannot be reached, or offers no kernel or no toolchain that fits.
pub fn resolve(cache: &Cache, request: &Request) -> Result<Resolution> {
    if let Some(resolution) = recorded(cache, request).filter(|_| !request.refresh) {
        let days = resolution.age().as_secs() / 86_400;
        if days >= 7 {
            progress::note(&format!(
                "{} was looked up {days} days ago; --refresh looks for a newer kernel",
                resolution.kernel
            ));
        }
        return Ok(resolution);
    }
    let resolution = progress::step(&format!("kernels of {}", request.suite), || {
        look_up(cache, request)
    })?;
    let path = record(cache, request);
    fs::create_dir_all(path.parent().context("no parent")?)?;
    // Renamed into place: a reader sees the old answer or the new one.
    let half = path.with_extension(format!("tmp.{}", std::process::id()));
    fs::write(&half, serde_json::to_string_pretty(&resolution)?)?;
    fs::rename(&half, &path)?;
    Ok(resolution)
}

/// Every kernel that the suite offers, newest first.
///
/// # Errors
/// If the archive cannot be reached.
pub fn list(cache: &Cache, request: &Request) -> Result<Vec<Kernel>> {
    let mirror = archive::mirror(request.mirror.as_deref())?;
    let archive = Archive::new(cache, &mirror, &request.suite)?;
    update(cache, &archive)?;
    offered(&archive)
}

fn update(cache: &Cache, archive: &Archive) -> Result<()> {
    cache.log("apt-update")?.run(&mut archive.update_command()).context(
        "the archive could not be read: is the network up, and does the suite exist? Another mirror can \
         be given with --mirror URL",
    )
}

fn offered(archive: &Archive) -> Result<Vec<Kernel>> {
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

/// The package with a kernel's image. The archive signs kernels a while after they were built;
/// until then there is only the unsigned package. It is the same kernel.
fn image_of(release: &str, packages: &[String]) -> Option<String> {
    let names = [
        format!("linux-binary-{release}"),
        format!("linux-binary-unsigned-{release}"),
    ];
    names.into_iter().find(|name| packages.contains(name))
}

fn look_up(cache: &Cache, request: &Request) -> Result<Resolution> {
    let mirror = archive::mirror(request.mirror.as_deref())?;
    let archive = Archive::new(cache, &mirror, &request.suite)?;
    update(cache, &archive)?;
    let kernels = offered(&archive)?;
    let kernel = choose(&kernels, request)?;
    let source_package = format!("linux-source-{}", kernel.series());
    let sources = archive.versions(std::slice::from_ref(&source_package))?;
    if !sources
        .iter()
        .any(|(_, version)| *version == kernel.version)
    {
        bail!(
            "{} offers {} without its source {source_package}",
            request.suite,
            kernel.release
        );
    }
    let config = config_of(cache, &archive, &kernel.release)?;
    let rustc_text = setting(&config, "CONFIG_RUSTC_VERSION_TEXT").with_context(|| {
        format!(
            "{} was built without Rust; choose another --kernel",
            kernel.release
        )
    })?;
    let compiler = setting(&config, "CONFIG_CC_VERSION_TEXT")
        .and_then(|text| text.split_whitespace().next())
        .context("the kernel's configuration does not name its C compiler")?;
    let offers = archive.versions(&["rustc".to_owned()])?;
    let rustc_version = choose_rustc(rustc_text, &offers).with_context(|| {
        let versions: Vec<&str> = offers.iter().map(|(_, version)| version.as_str()).collect();
        format!(
            "{} was built by {rustc_text}, but {} offers rustc {}; choose another --kernel or --suite",
            kernel.release,
            request.suite,
            versions.join(", ")
        )
    })?;
    Ok(Resolution {
        suite: request.suite.clone(),
        sources: archive.sources().to_vec(),
        apt_options: archive.options().to_vec(),
        mirror,
        kernel: kernel.release.clone(),
        version: kernel.version.clone(),
        image_package: kernel.image_package.clone(),
        source_package,
        rustc_version: rustc_version.to_owned(),
        rustc_text: rustc_text.to_owned(),
        compiler: compiler.to_owned(),
        resolved: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs(),
    })
}

fn choose<'a>(kernels: &'a [Kernel], request: &Request) -> Result<&'a Kernel> {
    let offers = || {
        kernels
            .iter()
            .map(|kernel| kernel.release.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let Some(wanted) = &request.kernel else {
        return kernels
            .first()
            .with_context(|| format!("{} offers no kernel >= {OLDEST_MAJOR}.0", request.suite));
    };
    let named = |kernel: &&Kernel| {
        kernel.release == *wanted
            || kernel.release.strip_suffix("-amd64") == Some(wanted)
            || kernel.release.split(['+', '-']).next() == Some(wanted)
    };
    kernels.iter().find(named).with_context(|| {
        format!(
            "{} has no kernel {wanted}; it offers {}",
            request.suite,
            offers()
        )
    })
}

/// The kernel's configuration, out of its smallest package.
fn config_of(cache: &Cache, archive: &Archive, release: &str) -> Result<String> {
    let log = cache.log("kernel-config")?;
    let directory = Temporary::new(cache.file(format!("tmp-config-{}", std::process::id())))?;
    let package = archive.download(&format!("linux-base-{release}"), directory.path(), &log)?;
    log.run(
        Command::new("dpkg-deb")
            .arg("-x")
            .arg(package)
            .arg(directory.path()),
    )?;
    let config = directory
        .path()
        .join(format!("usr/lib/modules/{release}/config"));
    fs::read_to_string(&config).with_context(|| format!("linux-base-{release} holds no config"))
}

/// `NAME="value"` of a kernel configuration.
fn setting<'a>(config: &'a str, name: &str) -> Option<&'a str> {
    let line = config
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
    Some(line.trim_matches('"'))
}

/// The package version whose upstream version is in `rustc 1.97.1 (…)`.
fn choose_rustc<'a>(text: &str, offers: &'a [(String, String)]) -> Option<&'a str> {
    let wanted = text.split_whitespace().nth(1)?;
    let upstream = |version: &str| version.split(['+', '-', '~']).next() == Some(wanted);
    offers
        .iter()
        .map(|(_, version)| version.as_str())
        .find(|version| upstream(version))
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

    fn request(kernel: Option<&str>) -> Request {
        let kernel = kernel.map(str::to_owned);
        Request {
            suite: "s".into(),
            kernel,
            mirror: None,
            refresh: false,
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
    fn only_plain_kernels_that_know_rust_are_on_offer() {
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
    fn an_unsigned_kernel_serves_until_the_signed_one_is_there() {
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
        assert_eq!(choose(&kernels, &request(None)).unwrap(), &kernels[0]);
        for name in ["7.2.6", "7.2.6+deb13", "7.2.6+deb13-amd64"] {
            assert_eq!(
                choose(&kernels, &request(Some(name))).unwrap(),
                &kernels[1],
                "{name}"
            );
        }
        let error = choose(&kernels, &request(Some("7.2")))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("7.3.4+deb13-amd64, 7.2.6+deb13-amd64"),
            "{error}"
        );
    }

    #[test]
    fn the_rustc_that_built_the_kernel_is_chosen() {
        let text = "rustc 1.85.1 (4eb161250 2025-03-15) (built from a source tarball)";
        let offers = ["1.96.1+dfsg1-2~bpo13+1", "1.85.1+dfsg1-1+deb13u1"]
            .map(|version| ("rustc".to_owned(), version.to_owned()));
        assert_eq!(choose_rustc(text, &offers), Some("1.85.1+dfsg1-1+deb13u1"));
        assert_eq!(choose_rustc(text, &offers[..1]), None);
        assert_eq!(choose_rustc("rustc 1.85.10 (x)", &offers), None);
    }

    #[test]
    fn settings_are_read_from_a_kernel_configuration() {
        let config = "# CONFIG_X is not set\nCONFIG_CC_VERSION_TEXT=\"gcc-16 (Debian) 16.2.0\"\nCONFIG_RUST=y\n";
        assert_eq!(
            setting(config, "CONFIG_CC_VERSION_TEXT"),
            Some("gcc-16 (Debian) 16.2.0")
        );
        assert_eq!(setting(config, "CONFIG_RUST"), Some("y"));
        assert_eq!(setting(config, "CONFIG_CC"), None);
        assert_eq!(setting(config, "CONFIG_X"), None);
    }
}
