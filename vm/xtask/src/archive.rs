// SPDX-License-Identifier: MIT OR Apache-2.0

//! The Debian archive: where the host's own apt finds it, and an apt of our own that sees another
//! suite.
//!
//! The host's apt is never reconfigured. Ours lives in the cache, with its own lists and an empty
//! dpkg status, and takes only the archive's address and the proxy settings from the host.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

use crate::cache::{Cache, Key};
use crate::process::{self, Log};

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Names under which the archive knows its releases, apart from the host's own code name.
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

/// One line or stanza of apt's sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Source {
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    signed_by: String,
}

impl Source {
    /// How surely this is the Debian archive's main part; `None` = it is something else.
    fn likelihood(&self) -> Option<u8> {
        let base = |suite: &str| {
            let suite = suite.split_once('-').map_or(suite, |(base, _)| base);
            RELEASES.contains(&suite)
        };
        let security = |suite: &String| suite.contains("-security") || suite.contains("/updates");
        let main = self.components.iter().any(|component| component == "main");
        if !main || !self.suites.iter().any(|suite| base(suite)) || self.suites.iter().all(security)
        {
            return None;
        }
        let uri = self.uris.first()?.trim_end_matches('/');
        let signed = self.signed_by.contains("debian-archive-keyring");
        let foreign = !self.signed_by.is_empty() && !signed;
        Some(u8::from(signed) * 2 + u8::from(uri.ends_with("/debian")) + u8::from(!foreign) * 4)
    }
}

/// `deb [options] uri suite component…`, one a line.
fn parse_list(text: &str) -> Vec<Source> {
    let parse = |line: &str| {
        let line = line.split('#').next()?.trim().strip_prefix("deb")?;
        let line = line.strip_prefix(char::is_whitespace)?.trim();
        let (options, line) = match line.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => ("", line),
        };
        let mut words = line.split_whitespace().map(str::to_owned);
        let signed_by = options
            .split_whitespace()
            .find_map(|option| option.strip_prefix("signed-by="));
        Some(Source {
            uris: vec![words.next()?],
            suites: vec![words.next()?],
            components: words.collect(),
            signed_by: signed_by.unwrap_or_default().to_owned(),
        })
    };
    text.lines().filter_map(parse).collect()
}

/// deb822: stanzas of `Field: value`, with continuation lines.
fn parse_deb822(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let uncommented = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect::<Vec<_>>()
        .join("\n");
    for stanza in uncommented.split("\n\n") {
        let mut source = Source::default();
        let (mut binary, mut enabled) = (false, true);
        let joined = stanza.replace("\n ", " ").replace("\n\t", " ");
        for line in joined.lines() {
            let Some((field, value)) = line.split_once(':') else {
                continue;
            };
            let words = || {
                value
                    .split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            match field.trim().to_ascii_lowercase().as_str() {
                "types" => binary = words().iter().any(|kind| kind == "deb"),
                "uris" => source.uris = words(),
                "suites" => source.suites = words(),
                "components" => source.components = words(),
                "signed-by" => source.signed_by = value.trim().to_owned(),
                "enabled" => enabled = !value.trim().eq_ignore_ascii_case("no"),
                _ => {}
            }
        }
        if binary && enabled {
            sources.push(source);
        }
    }
    sources
}

/// The archive's address among some sources.
fn choose(sources: &[Source]) -> Option<&str> {
    let rated = sources.iter().enumerate().filter_map(|(index, source)| {
        // The first of equals.
        Some((source.likelihood()?, std::cmp::Reverse(index), source))
    });
    let (_, _, best) = rated.max_by_key(|(likelihood, index, _)| (*likelihood, *index))?;
    best.uris.first().map(String::as_str)
}

/// The archive's address: `given` (from `--mirror` or `WEFT_MIRROR`), else the host's.
///
/// # Errors
/// If the host's apt knows no Debian archive; the message says what to give.
pub(crate) fn mirror(given: Option<&str>) -> Result<String> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(directory) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(directory.flatten().map(|entry| entry.path()));
    }
    files.sort();
    let mut sources = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("list") => sources.extend(parse_list(&text)),
            Some("sources") => sources.extend(parse_deb822(&text)),
            _ => {}
        }
    }
    choose(&sources).map(str::to_owned).context(
        "neither /etc/apt/sources.list nor /etc/apt/sources.list.d names a Debian archive; give its \
         address with --mirror URL or in WEFT_MIRROR",
    )
}

/// The suites that have to be seen together to install from `suite`.
fn suites(suite: &str) -> Vec<&str> {
    match suite {
        "experimental" | "rc-buggy" => vec!["sid", suite],
        _ => match suite.strip_suffix("-backports") {
            Some(base) => vec![base, suite],
            None => vec![suite],
        },
    }
}

/// Settings for every apt that reads the archive: it may be older than its Release file allows (a
/// copy, a snapshot), and only package lists are needed.
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

/// Stages that are built at the same time share apt's directory.
static IN_USE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An apt of our own that sees one suite.
pub(crate) struct Archive {
    directory: PathBuf,
    sources: Vec<String>,
    options: Vec<String>,
}

impl Archive {
    /// Prepares its directory in the cache.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub(crate) fn new(cache: &Cache, mirror: &str, suite: &str) -> Result<Self> {
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
    pub(crate) fn sources(&self) -> &[String] {
        &self.sources
    }

    /// Settings that an apt inside the root filesystem needs too.
    pub(crate) fn options(&self) -> &[String] {
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
        // The download user of the host's apt may not be able to reach the cache directory.
        command.args(["-o", "APT::Sandbox::User=root", "-q"]);
        for option in &self.options {
            command.arg("-o").arg(option);
        }
        command
    }

    /// `apt-get update`.
    pub(crate) fn update_command(&self) -> Command {
        let mut command = self.tool("apt-get");
        command.args(["-o", "APT::Update::Error-Mode=any", "update"]);
        command
    }

    /// Names of the packages that begin with `prefix`.
    pub(crate) fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let text = process::capture(self.tool("apt-cache").args(["pkgnames", prefix]))?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Those that the archive has no package of.
    pub(crate) fn unknown<'a>(&self, names: &[&'a str]) -> Result<Vec<&'a str>> {
        let all: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let offers = self.versions(&all)?;
        let is_unknown = |name: &&&str| !offers.iter().any(|(package, _)| package == **name);
        Ok(names.iter().filter(is_unknown).copied().collect())
    }

    /// Every version on offer of each package, as (package, version).
    pub(crate) fn versions(&self, packages: &[String]) -> Result<Vec<(String, String)>> {
        if packages.is_empty() {
            return Ok(Vec::new());
        }
        let text = process::capture(self.tool("apt-cache").arg("madison").args(packages))?;
        Ok(parse_madison(&text))
    }

    /// Downloads one package (`name` or `name=version`) into `target`. Returns the file.
    pub(crate) fn download(&self, package: &str, target: &Path, log: &Log) -> Result<PathBuf> {
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

    /// Downloads packages and what they depend on, as far as it is not installed in `root`.
    pub(crate) fn download_missing(
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
        // Only a lock in a root filesystem that is not to be changed is given up.
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
        // Source packages are listed too, where the sources have them.
        (!origin.ends_with("Sources")).then(|| (package.to_owned(), version.to_owned()))
    };
    text.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEB822: &str = "\
Types: deb
# a snapshot
URIs: http://archive.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://archive.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
";

    #[test]
    fn the_archive_is_found_in_deb822_sources() {
        assert_eq!(
            choose(&parse_deb822(DEB822)),
            Some("http://archive.example/debian")
        );
    }

    #[test]
    fn a_security_archive_alone_is_not_enough() {
        let (_, security) = DEB822.split_once("\n\n").unwrap();
        assert_eq!(choose(&parse_deb822(security)), None);
    }

    #[test]
    fn a_disabled_or_source_only_stanza_is_passed_over() {
        for line in ["Enabled: no\nTypes: deb", "Types: deb-src"] {
            let text = DEB822
                .split_once("\n\n")
                .unwrap()
                .0
                .replace("Types: deb", line);
            assert_eq!(choose(&parse_deb822(&text)), None, "{line}");
        }
    }

    #[test]
    fn the_archive_is_found_in_one_line_sources() {
        let text = "# deb http://no.example/debian bookworm main\n\
                    deb-src http://no.example/debian bookworm main\n\
                    deb [ arch=amd64 signed-by=/k.gpg ] https://vendor.example bookworm main\n\
                    deb https://pgdg.example/apt bookworm-pgdg main\n\
                    deb http://mirror.example/debian/ bookworm main contrib # ours\n";
        assert_eq!(
            choose(&parse_list(text)),
            Some("http://mirror.example/debian/")
        );
    }

    #[test]
    fn a_mirror_list_is_taken_as_apt_wrote_it() {
        let text = "deb mirror+file:/etc/apt/mirrors/debian.list bookworm main";
        assert_eq!(
            choose(&parse_list(text)),
            Some("mirror+file:/etc/apt/mirrors/debian.list")
        );
    }

    #[test]
    fn another_distribution_is_not_debian() {
        let text = "deb http://archive.example/ubuntu noble main universe";
        assert_eq!(choose(&parse_list(text)), None);
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
