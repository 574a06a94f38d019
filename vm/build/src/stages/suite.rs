// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel of a suite, and the exact packages with which it was built.
//!
//! A Rust module loads only if the same rustc built it and the kernel: the compiler's version is
//! part of every mangled symbol. The kernel's configuration names its compilers, and it is in a
//! small package, so all versions are known before any large download. The answer is kept until
//! `--refresh`, so that a repeated run needs neither network nor apt.

use std::fs;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use weft_machine::interrupt::Temporary;

use crate::base::cache::Cache;
use crate::base::progress;
use crate::stages::archive::{self, Archive};
use crate::stages::kernels::{self, Kernel};

/// A user's request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The suite's name.
    pub suite: String,
    /// A kernel's version; the newest if `None`.
    pub kernel: Option<String>,
    /// The archive's address; the host's if `None`.
    pub mirror: Option<String>,
    /// Whether to ignore an earlier answer.
    pub refresh: bool,
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
    /// The required output of `rustc --version`.
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

/// The archive from which a resolution was made.
pub fn archive_of(cache: &Cache, resolution: &Resolution) -> Result<Archive> {
    Archive::new(cache, &resolution.mirror, &resolution.suite)
}

/// The file with the answer for a request.
fn record(cache: &Cache, request: &Request) -> std::path::PathBuf {
    let kernel = request.kernel.as_deref().unwrap_or("newest");
    cache
        .file("resolution")
        .join(format!("{}-{kernel}.json", request.suite))
}

/// The last answer for this request, if there is one.
pub fn recorded(cache: &Cache, request: &Request) -> Option<Resolution> {
    let text = fs::read_to_string(record(cache, request)).ok()?;
    let resolution: Resolution = serde_json::from_str(&text).ok()?;
    let same = request
        .mirror
        .as_ref()
        .is_none_or(|mirror| *mirror == resolution.mirror);
    same.then_some(resolution)
}

/// The last answer, or a new one if there is none or `--refresh` was given.
///
/// # Errors
/// If the archive cannot be reached, or has no suitable kernel or toolchain.
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
    // Renamed into place, so that a reader sees either the old answer or the new one.
    let half = path.with_extension(format!("tmp.{}", std::process::id()));
    fs::write(&half, serde_json::to_string_pretty(&resolution)?)?;
    fs::rename(&half, &path)?;
    Ok(resolution)
}

/// Every kernel in the suite, newest first.
///
/// # Errors
/// If the archive cannot be reached.
pub fn list(cache: &Cache, request: &Request) -> Result<Vec<Kernel>> {
    let mirror = archive::mirror(request.mirror.as_deref())?;
    let archive = Archive::new(cache, &mirror, &request.suite)?;
    update(cache, &archive)?;
    kernels::offered(&archive)
}

fn update(cache: &Cache, archive: &Archive) -> Result<()> {
    cache.log("apt-update")?.run(&mut archive.update_command()).context(
        "the archive could not be read: is the network up, and does the suite exist? Another mirror can \
         be given with --mirror URL",
    )
}

fn look_up(cache: &Cache, request: &Request) -> Result<Resolution> {
    let mirror = archive::mirror(request.mirror.as_deref())?;
    let archive = Archive::new(cache, &mirror, &request.suite)?;
    update(cache, &archive)?;
    let kernels = kernels::offered(&archive)?;
    let kernel = kernels::choose(&kernels, &request.suite, request.kernel.as_deref())?;
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

/// The kernel's configuration, from its smallest package.
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

#[cfg(test)]
mod tests {
    use super::*;

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
