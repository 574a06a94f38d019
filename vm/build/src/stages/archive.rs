// SPDX-License-Identifier: MIT OR Apache-2.0

//! The Debian archive: its address according to the host's apt, and a separate apt for another
//! suite.
//!
//! The host's apt is never reconfigured. The separate one is in the cache, with its own lists and
//! an empty dpkg status, and takes only the archive's address and the proxy settings from the host.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};

use crate::base::cache::{Cache, Key};
use crate::base::process::{self, Log};

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Names of the archive's releases, besides the host's code name.
const RELEASES: [&str; 12] = [
    "stable",
    "testing",
    "unstable",
    "oldstable",
    "oldoldstable",
    "experimental",
    "sid",
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
];

/// The fields that `apt-get indextargets` prints for each list of packages. apt knows the origin
/// and the label only after it has read the archive (`apt-get update`).
const FORMAT: &str = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)|$(LABEL)";

/// How likely a line of [`FORMAT`] is to be the main part of the Debian archive, with its address;
/// `None`: it is something else.
fn likelihood(line: &str) -> Option<(u8, &str)> {
    let mut fields = line.split('|');
    let [uri, suite, component, origin, label] =
        [(); 5].map(|()| fields.next().unwrap_or_default());
    let security = suite.contains("-security") || suite.contains("/updates");
    let base = suite.split_once('-').map_or(suite, |(base, _)| base);
    // apt leaves an unknown field as it was written.
    let debian = |field: &str| field == "Debian" || field.starts_with('$');
    let is_it = component == "main" && RELEASES.contains(&base) && !security;
    if !is_it || !debian(origin) || !debian(label) {
        return None;
    }
    let uri = uri.trim_end_matches('/');
    let said = u8::from(origin == "Debian") * 2;
    Some((said + u8::from(uri.ends_with("/debian")), uri))
}

/// The archive's address among the lines of [`FORMAT`].
fn choose(lines: &str) -> Option<&str> {
    let rated = lines.lines().enumerate().filter_map(|(index, line)| {
        let (likelihood, uri) = likelihood(line)?;
        // The first one among equals.
        Some((likelihood, std::cmp::Reverse(index), uri))
    });
    rated.max().map(|(.., uri)| uri)
}

/// The archive's address: `given` (from `--mirror` or `WEFT_MIRROR`), else that of the host's apt.
///
/// # Errors
/// If the host's apt knows no Debian archive; the message names the options.
pub fn mirror(given: Option<&str>) -> Result<String> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    // Downloaded lists are the best source; without them, apt still knows its configured sources.
    for read in [&[][..], &["--no-release-info"]] {
        let mut apt = Command::new("apt-get");
        apt.args(read);
        apt.args(["indextargets", "--format", FORMAT, "Created-By: Packages"]);
        let lines = process::capture(&mut apt)?;
        if let Some(uri) = choose(&lines) {
            return Ok(uri.to_owned());
        }
    }
    bail!(
        "the host's apt knows no Debian archive (apt-get indextargets); give its address with --mirror URL \
         or in WEFT_MIRROR"
    )
}

/// The suites that are needed together to install from `suite`.
fn suites(suite: &str) -> Vec<&str> {
    match suite {
        "experimental" | "rc-buggy" => vec!["sid", suite],
        _ => match suite.strip_suffix("-backports") {
            Some(base) => vec![base, suite],
            None => vec![suite],
        },
    }
}

/// Settings for every apt that reads the archive. The archive may be older than its Release file
/// allows (a copy, a snapshot), and only package lists are needed.
fn options() -> Vec<String> {
    let mut options: Vec<String> = [
        "Acquire::Check-Valid-Until=false",
        "Acquire::Languages=none",
        "APT::Install-Recommends=false",
    ]
    .map(str::to_owned)
    .to_vec();
    for target in [
        "Translations",
        "DEP-11",
        "DEP-11-icons",
        "DEP-11-icons-small",
        "DEP-11-icons-hidpi",
    ] {
        options.push(format!(
            "Acquire::IndexTargets::deb::{target}::DefaultEnabled=false"
        ));
    }
    options
}

/// The host's proxy settings, as `Name=value`.
fn proxies(dump: &str) -> Vec<String> {
    let parse = |line: &str| {
        let (name, value) = line.strip_suffix(';')?.split_once(' ')?;
        let value = value.trim_matches('"');
        (name.to_ascii_lowercase().contains("proxy") && !value.is_empty())
            .then(|| format!("{name}={value}"))
    };
    dump.lines().filter_map(parse).collect()
}

/// Stages that are built in parallel share apt's directory.
static IN_USE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An apt that sees one suite.
pub struct Archive {
    directory: PathBuf,
    sources: Vec<String>,
    options: Vec<String>,
}

impl Archive {
    /// Prepares its directory in the cache.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn new(cache: &Cache, mirror: &str, suite: &str) -> Result<Self> {
        let signed = format!("[arch=amd64 signed-by={KEYRING}]");
        let sources: Vec<String> = suites(suite)
            .iter()
            .map(|name| format!("deb {signed} {mirror} {name} main"))
            .collect();
        let hash = Key::new("apt").with_all(&sources).finish();
        let directory = cache.file("apt").join(format!("{suite}-{hash}"));
        let _alone = alone();
        for part in [
            "etc/apt/preferences.d",
            "etc/apt/apt.conf.d",
            "var/lib/apt/lists/partial",
            "var/cache/apt/archives/partial",
            "var/lib/dpkg",
        ] {
            fs::create_dir_all(directory.join(part))
                .context("making apt's directory in the cache")?;
        }
        fs::write(directory.join("var/lib/dpkg/status"), "")?;
        fs::write(
            directory.join("etc/apt/sources.list"),
            format!("{}\n", sources.join("\n")),
        )?;
        let dump = process::capture(Command::new("apt-config").args(["dump", "Acquire"]))?;
        let mut options = options();
        options.extend(proxies(&dump));
        Ok(Self {
            directory,
            sources,
            options,
        })
    }

    /// Lines of its `sources.list`.
    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    /// Settings that an apt inside the root filesystem also needs.
    pub fn options(&self) -> &[String] {
        &self.options
    }

    fn tool(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .arg("-o")
            .arg(format!("Dir={}", self.directory.display()));
        command.arg("-o").arg(format!(
            "Dir::State::status={}",
            self.directory.join("var/lib/dpkg/status").display()
        ));
        command.args([
            "-o",
            "APT::Architecture=amd64",
            "-o",
            "APT::Architectures=amd64",
        ]);
        // The host's sandbox user for downloads may have no access to the cache directory.
        command.args(["-o", "APT::Sandbox::User=root", "-q"]);
        for option in &self.options {
            command.arg("-o").arg(option);
        }
        command
    }

    /// `apt-get update`.
    pub fn update_command(&self) -> Command {
        let mut command = self.tool("apt-get");
        command.args(["-o", "APT::Update::Error-Mode=any", "update"]);
        command
    }

    /// Names of packages with this prefix.
    pub fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let text = process::capture(self.tool("apt-cache").args(["pkgnames", prefix]))?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// The names without a package in the archive.
    pub fn unknown<'a>(&self, names: &[&'a str]) -> Result<Vec<&'a str>> {
        let all: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let offers = self.versions(&all)?;
        let is_unknown = |name: &&&str| !offers.iter().any(|(package, _)| package == **name);
        Ok(names.iter().filter(is_unknown).copied().collect())
    }

    /// Every available version of each package, as (package, version).
    pub fn versions(&self, packages: &[String]) -> Result<Vec<(String, String)>> {
        if packages.is_empty() {
            return Ok(Vec::new());
        }
        let text = process::capture(self.tool("apt-cache").arg("madison").args(packages))?;
        Ok(parse_madison(&text))
    }

    /// Downloads one package (`name` or `name=version`) into `target`. Returns the file.
    pub fn download(&self, package: &str, target: &Path, log: &Log) -> Result<PathBuf> {
        let mut command = self.tool("apt-get");
        command.args(["download", package]).current_dir(target);
        let _alone = alone();
        log.run(&mut command)?;
        let name = package.split('=').next().unwrap_or(package);
        let file = fs::read_dir(target)?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| {
                let file = path.file_name().unwrap_or_default().to_string_lossy();
                file.starts_with(&format!("{name}_")) && file.ends_with(".deb")
            });
        file.with_context(|| format!("apt-get download {package} left no file"))
    }

    /// Downloads packages and their dependencies, except those installed in `root`. If that fails,
    /// it updates the package lists and tries again: the archive may have newer versions.
    pub fn download_missing(
        &self,
        packages: &[&str],
        root: &Path,
        target: &Path,
        log: &Log,
    ) -> Result<()> {
        let download = || self.download_known(packages, root, target, log);
        download().or_else(|_| {
            log.run(&mut self.update_command())?;
            download()
        })
    }

    /// Downloads packages according to the present package lists.
    fn download_known(
        &self,
        packages: &[&str],
        root: &Path,
        target: &Path,
        log: &Log,
    ) -> Result<()> {
        fs::create_dir_all(target.join("partial"))?;
        let _alone = alone();
        let mut command = self.tool("apt-get");
        let status = root.join("var/lib/dpkg/status");
        command
            .arg("-o")
            .arg(format!("Dir::State::status={}", status.display()));
        command
            .arg("-o")
            .arg(format!("Dir::Cache::archives={}", target.display()));
        // The only lock that is omitted is that of a root filesystem which does not change.
        command.args([
            "-o",
            "Debug::NoLocking=true",
            "install",
            "-y",
            "--download-only",
        ]);
        log.run(command.arg("--no-install-recommends").args(packages))
    }
}

/// `package | version | origin` lines.
fn parse_madison(text: &str) -> Vec<(String, String)> {
    let parse = |line: &str| {
        let mut columns = line.split('|').map(str::trim);
        let (package, version) = (columns.next()?, columns.next()?);
        let origin = columns.next()?;
        // Source packages are listed too, if the sources include them.
        (!origin.ends_with("Sources")).then(|| (package.to_owned(), version.to_owned()))
    };
    text.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: &str = "\
http://archive.example/debian/|bookworm-security|main|Debian|Debian-Security
https://vendor.example/|bookworm|main|Vendor|Vendor
http://mirror.example/os/|bookworm|contrib|Debian|Debian
http://mirror.example/os/|bookworm|main|Debian|Debian
http://archive.example/debian/|bookworm|main|Debian|Debian
http://archive.example/debian/|bookworm-updates|main|Debian|Debian
";

    #[test]
    fn the_archive_is_found_among_the_lists_of_apt() {
        assert_eq!(choose(READ), Some("http://archive.example/debian"));
        let other: String = READ.split_inclusive('\n').take(4).collect();
        assert_eq!(choose(&other), Some("http://mirror.example/os"));
        let none: String = READ.split_inclusive('\n').take(3).collect();
        assert_eq!(choose(&none), None);
    }

    /// With the real apt, which has no lists of these.
    #[test]
    fn the_archive_is_found_among_sources_without_lists() {
        let folder = std::env::temp_dir().join(format!("weft-sources.{}", std::process::id()));
        let found = |name: &str, text: &str| {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(name), text).unwrap();
            let mut apt = Command::new("apt-get");
            apt.args(["-o", "Dir::Etc::sourcelist=/dev/null", "-o"]);
            apt.arg(format!("Dir::Etc::sourceparts={}", folder.display()));
            apt.args(["--no-release-info", "indextargets", "--format", FORMAT]);
            let lines = process::capture(apt.arg("Created-By: Packages")).unwrap();
            std::fs::remove_dir_all(&folder).unwrap();
            choose(&lines).map(str::to_owned)
        };
        let stanza = "Types: deb\n# a snapshot\nURIs: http://archive.example/debian\n\
                      Suites: bookworm bookworm-updates\nComponents: main\n";
        let archive = "http://archive.example/debian".to_owned();
        assert_eq!(found("a.sources", stanza), Some(archive));
        for line in ["Enabled: no\nTypes: deb", "Types: deb-src"] {
            let other = stanza.replace("Types: deb", line);
            assert_eq!(found("a.sources", &other), None, "{line}");
        }
        let security = stanza.replace("bookworm bookworm-updates", "bookworm-security");
        assert_eq!(found("a.sources", &security), None);
        let lists = "# deb http://no.example/debian bookworm main\n\
                     deb-src http://no.example/debian bookworm main\n\
                     deb [ arch=amd64 signed-by=/k.gpg ] https://vendor.example bookworm main\n\
                     deb https://pgdg.example/apt bookworm-pgdg main\n\
                     deb http://mirror.example/debian/ bookworm main contrib # ours\n";
        let mirror = "http://mirror.example/debian".to_owned();
        assert_eq!(found("a.list", lists), Some(mirror));
        let mirrors = "mirror+file:/etc/apt/mirrors/debian.list".to_owned();
        assert_eq!(
            found("a.list", &format!("deb {mirrors} bookworm main\n")),
            Some(mirrors)
        );
        let ubuntu = "deb http://archive.example/ubuntu noble main universe\n";
        assert_eq!(found("a.list", ubuntu), None);
    }

    #[test]
    fn experimental_and_backports_need_their_base() {
        assert_eq!(suites("forky"), ["forky"]);
        assert_eq!(suites("experimental"), ["sid", "experimental"]);
        assert_eq!(suites("trixie-backports"), ["trixie", "trixie-backports"]);
    }

    #[test]
    fn madison_lists_binary_versions() {
        let text = " linux-source-7.2 |   7.2.13-1 | http://a/debian sid/main amd64 Packages\n\
                     linux-source-7.2 | 7.2.9-1~bpo13+1 | http://a/debian t/main amd64 Packages\n\
                     linux |   7.2.13-1 | http://a/debian sid/main Sources\n";
        let expected = [
            ("linux-source-7.2", "7.2.13-1"),
            ("linux-source-7.2", "7.2.9-1~bpo13+1"),
        ];
        assert_eq!(
            parse_madison(text),
            expected.map(|(p, v)| (p.to_owned(), v.to_owned()))
        );
    }

    #[test]
    fn only_proxies_are_taken_from_the_hosts_apt() {
        let dump = "Acquire \"\";\nAcquire::Languages \"de\";\nAcquire::http::Proxy \"http://p:3142\";\n\
                    Acquire::https::Proxy \"\";\n";
        assert_eq!(proxies(dump), ["Acquire::http::Proxy=http://p:3142"]);
    }
}
